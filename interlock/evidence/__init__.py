"""Evidence that an outsider can check: Merkle trees, signed notes, checkpoints, proofs, policies, envelopes.

Everything here is a pure function of bytes. It needs the standard library alone, except `signing` and what is built on it
(`acceptance`), which need the extra `evidence`. The formats are other people's, so that other people's programs read them:
RFC 6962 trees; signed-note, tlog-checkpoint, tlog-cosignature, tlog-tiles, tlog-proof and tlog-policy of c2sp.org; DSSE envelopes
(github.com/secure-systems-lab/dsse) around in-toto statements (github.com/in-toto/attestation).
"""

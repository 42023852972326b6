"""The transparency log: a Merkle tree over all events, what the log signed of it, and proofs."""

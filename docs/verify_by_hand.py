"""Check a receipt with nothing of Interlock: python verify_by_hand.py RECEIPT POLICY ATTESTORS.

Written from docs/evidence.md and the specifications that it names, to show that they suffice. Where it can't tell, it fails.
"""

import base64
import functools
import hashlib
import json
import sys
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

FOLLOWS = {  # which events may come after which
    None: {"intended"},
    "intended": {"claimed", "refused"},
    "claimed": {"claimed", "dispatched", "refused"},
    "dispatched": {"claimed", "dispatched", "committed", "refused", "ambiguous"},
    "ambiguous": {"committed", "refused"},
    "committed": {"committed", "erased"},
    "refused": {"erased"},
}


def sha256(data):
    return hashlib.sha256(data).digest()


def once(pairs):  # a name that stands twice in an object could be read in two ways
    assert len(dict(pairs)) == len(pairs), "a name stands twice"
    return dict(pairs)


read, public_key = functools.partial(json.loads, object_pairs_hook=once), Ed25519PublicKey.from_public_bytes


def read_policy(text):  # c2sp.org/tlog-policy; a key is written name+id+key
    logs, witnesses, groups, quorum = {}, {}, {}, None
    for words in (line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")):
        if words[0] == "log":
            logs[words[1].split("+")[0]] = words[1].split("+", 2)
        elif words[0] == "witness":
            witnesses[words[1]] = words[2].split("+", 2)
        elif words[0] == "group":
            groups[words[1]] = ({"any": 1, "all": len(words) - 3}.get(words[2]) or int(words[2]), words[3:])
        else:
            quorum = words[1]
    return logs, witnesses, groups, quorum


def check_note(note, policy):  # c2sp.org/signed-note, tlog-checkpoint, tlog-cosignature
    logs, witnesses, groups, quorum = policy
    text, _, lines = note.rpartition("\n\n")
    text, reached = f"{text}\n", {"none"}
    origin, size, root, *_ = text.split("\n")
    signatures = {}
    for _, name, data in (line.split(" ") for line in lines.splitlines()):
        signatures[name, base64.b64decode(data)[:4].hex()] = base64.b64decode(data)[4:]
    name, key_id, key = logs[origin]
    public_key(base64.b64decode(key)[1:]).verify(signatures[name, key_id], text.encode())
    for witness, (name, key_id, key) in witnesses.items():
        found = signatures.get((name, key_id))
        if found is not None and base64.b64decode(key)[0] == 4:
            message = f"cosignature/v1\ntime {int.from_bytes(found[:8], 'big')}\n{text}"
            public_key(base64.b64decode(key)[1:]).verify(found[8:], message.encode())
            reached.add(witness)
    reached |= {group for group, (least, members) in groups.items() if sum(one in reached for one in members) >= least}
    assert quorum in reached, "too few witnesses"
    return origin, int(size), base64.b64decode(root)


def root_over(leaf, index, size, hashes):  # RFC 9162, section 2.1.3.2
    last, node = size - 1, leaf
    for sibling in hashes:
        assert last > 0, "too many hashes"
        if index & 1 or index == last:
            node = sha256(b"\1" + sibling + node)
            while index and not index & 1:
                index, last = index >> 1, last >> 1
        else:
            node = sha256(b"\1" + node + sibling)
        index, last = index >> 1, last >> 1
    assert last == 0, "too few hashes"
    return node


sys.flags.optimize and sys.exit("run it without -O: its checks are assertions")
receipt, policy = read(Path(sys.argv[1]).read_text()), read_policy(Path(sys.argv[2]).read_text())
envelope = receipt["envelope"]  # DSSE: the signature is over type and payload, each with its length in front
kind, payload = envelope["payloadType"].encode(), base64.b64decode(envelope["payload"])
claim, as_of = read(payload)["predicate"], read(payload)["predicate"]["as_of"]
key = next(one for one in read(Path(sys.argv[3]).read_text()) if one["keyid"] == envelope["signatures"][0]["keyid"])
assert key["from_index"] <= as_of["size"] - 1 < (key["until_index"] or 2**63), "it is not for this key to say"
pae = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
public_key(base64.b64decode(key["spki"])[12:]).verify(base64.b64decode(envelope["signatures"][0]["sig"]), pae)
chain = "".join(f"{record}\n" for record in receipt["records"]).encode()
assert read(payload)["predicateType"] == "urn:interlock-gate:receipt:1"
assert read(payload)["subject"] == [{"name": "chain.jsonl", "digest": {"sha256": sha256(chain).hex()}}]
heads, topic = {}, None
for text, state, proof in zip(receipt["records"], receipt["states"], receipt["proofs"], strict=True):
    record, leaf = read(text), sha256(b"\0" + text.encode())
    n, prev = heads.get(record["id"], (0, "genesis"))
    assert (record["n"], record["prev"], record["log"]) == (n + 1, prev, claim["log"]), "the chain is broken"
    assert state is None or record["state"] == f"sha256:{sha256(state.encode()).hex()}", "a state was changed"
    heads[record["id"]] = record["n"], f"sha256:{leaf.hex()}"
    (version, index, *hashes), note = proof.partition("\n\n")[0].split("\n"), proof.partition("\n\n")[2]  # tlog-proof
    origin, size, root = check_note(note, policy)
    signed = {"origin": origin, "size": size, "root": base64.b64encode(root).decode(), "last_n": claim["events"]}
    assert (version, as_of) == ("c2sp.org/tlog-proof@v1", signed), "it is as of something else"
    assert root_over(leaf, int(index[6:]), size, [base64.b64decode(one) for one in hashes]) == root, "it is not in the log"
    if record["id"] == claim["action"]:
        after, topic = topic, record["topic"].removeprefix("interlock.action.")
        assert topic in FOLLOWS[after], f"{topic} can't follow {after}"
        topic = after if topic == "erased" or (after, topic) == ("dispatched", "claimed") else topic
wanted = {claim["action"]: claim["events"], claim["approval"]: claim["approval_events"]}
assert {one: n for one, (n, _) in heads.items()} == {one: n for one, n in wanted.items() if one is not None}
assert claim["status"] == (topic.upper() if topic in ("committed", "refused", "ambiguous") else "IN_FLIGHT")
print(f"{claim['status']}, happened: {claim['happened']}; in {origin} of {size} leaves, signed by {key['keyid']}")

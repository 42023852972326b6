"""A log, witnesses and an attestor that live in memory, with keys that are no secret; and a forger who has all of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

from interlock.domain.records import leaf_hash, state_digest
from interlock.evidence.attestors import Attestor, Attestors
from interlock.evidence.bundles import CHAIN_NAME, PREDICATE_TYPE, Bundle, digest_of
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.dsse import sign_envelope
from interlock.evidence.encoding import to_base64
from interlock.evidence.merkle import root_of
from interlock.evidence.notes import SignedNote
from interlock.evidence.policies import Group, Log, Policy, Witness
from interlock.evidence.proving import inclusion_proof
from interlock.evidence.records import Record
from interlock.evidence.signing import AttestorKey, NoteKey
from interlock.evidence.statements import PAYLOAD_TYPE, Statement, Subject
from interlock.evidence.tlog_proofs import TlogProof
from interlock.evidence.verifying import Trust
from interlock.evidence.vkeys import KeyType
from interlock.infrastructure.opening import open_journal
from interlock.projections.exporting import export_receipt
from tests.crashing import BEFORE_SEND, Stage, crashes
from tests.provider_world import PROFILES, SUBJECT, SendFault, World

ORIGIN = "acme.example/interlock/test-1"


def _seed(number: int) -> bytes:
    return bytes([number]) * 32


@dataclass
class Lab:
    """Who signs, and who is trusted."""

    log_key: NoteKey = field(default_factory=lambda: NoteKey(ORIGIN, KeyType.ED25519, _seed(1)))
    witness_keys: tuple[NoteKey, ...] = tuple(
        NoteKey(f"witness-{n}.example", KeyType.COSIGNATURE_V1, _seed(10 + n)) for n in (1, 2, 3)
    )
    attestor: AttestorKey = field(default_factory=lambda: AttestorKey(_seed(2)))

    @property
    def policy(self) -> Policy:
        """Two of three witnesses."""
        witnesses = tuple(Witness(f"w{n}", key.key) for n, key in enumerate(self.witness_keys, 1))
        group = Group("two", 2, tuple(one.name for one in witnesses))
        return Policy((Log(self.log_key.key),), witnesses, (group,), "two")

    @property
    def attestors(self) -> Attestors:
        """The one attestor, from the beginning on."""
        return Attestors((Attestor(self.attestor.verifier),))

    @property
    def trust(self) -> Trust:
        """What a verifier is given."""
        return Trust(self.policy, self.attestors)

    def note(self, leaves: list[bytes], at_s: int, *, witnesses: int = 3) -> SignedNote:
        """Return a checkpoint over these leaves, cosigned by so many witnesses."""
        checkpoint = Checkpoint(self.log_key.name, len(leaves), root_of(leaves))
        cosignatures = [key.cosign(checkpoint, at_s=at_s) for key in self.witness_keys[:witnesses]]
        return SignedNote(checkpoint.text, (self.log_key.sign(checkpoint.text), *cosignatures))


class MemoryLog:
    """A log over leaf hashes, with checkpoints of some of its sizes: what `export_receipt` asks."""

    def __init__(self, lab: Lab, leaves: list[bytes], checkpoints: dict[int, int], *, witnesses: int = 3) -> None:
        self.leaves = leaves
        self.notes = {size: lab.note(leaves[:size], at_s, witnesses=witnesses) for size, at_s in sorted(checkpoints.items())}

    def covering(self, index: int, policy: Policy | None = None) -> SignedNote | None:
        """Return the newest checkpoint that covers a leaf."""
        del policy  # each is cosigned by as many witnesses
        return next((note for size, note in reversed(self.notes.items()) if size > index), None)

    def first_covering(self, index: int) -> SignedNote | None:
        """Return the oldest one."""
        return next((note for size, note in self.notes.items() if size > index), None)

    def before(self, index: int) -> SignedNote | None:
        """Return the newest one that does not."""
        return next((note for size, note in reversed(self.notes.items()) if size <= index), None)

    def inclusion(self, index: int, note: SignedNote) -> TlogProof:
        """Return a proof."""
        size = Checkpoint.parse(note.text).size
        nodes = MemoryNodes(self.leaves)
        return TlogProof(index, inclusion_proof(index, size, nodes), note.serialize().decode())


class MemoryNodes:
    """The nodes over leaf hashes, made each time they are asked for."""

    def __init__(self, leaves: list[bytes]) -> None:
        self._leaves = leaves

    def node(self, height: int, index: int) -> bytes:
        """Return a node."""
        return root_of(self._leaves[index << height : (index + 1) << height])


LAB = Lab()
KEYS = ("committed", "declined", "doubtful", "flying")


def one_of_each(path: Path) -> Stage:
    """Return a journal with an action of each status, which whoever asked has to close."""
    made = Stage(path, World(PROFILES["keys"]))
    for key, fault in (("committed", None), ("declined", SendFault.DECLINES), ("doubtful", SendFault.LOST_ANSWER)):
        made.approve(key)
        made.world.send_faults = [fault] if fault else []
        made.actor(key, key, premises=(made.world.observe(SUBJECT),)).fire()
        made.world.advance(60)
    made.approve("flying")
    flying = made.actor("flying", "flying")
    assert crashes(flying.fire, BEFORE_SEND)
    flying.die()
    return made


def now_s(stage: Stage) -> int:
    """Return the world's time, a moment later."""
    return int(stage.world.clock.now().timestamp()) + 2


def exported(
    stage: Stage, key: str, *, checkpoints: dict[int, int] | None = None, withhold: tuple[str, ...] = (), witnesses: int = 3
) -> Bundle:
    """Export a receipt from a log that has a checkpoint over everything, unless others are given (size -> time)."""
    with open_journal(stage.url, create=False) as journal:
        leaves = [row.leaf_hash for row in journal.rows(limit=1000)]
        given = {len(leaves): now_s(stage)} if checkpoints is None else checkpoints
        action_id = journal.id_of(key)
        assert action_id is not None
        log = MemoryLog(LAB, leaves, given, witnesses=witnesses)
        return export_receipt(journal, log, action_id, LAB.attestor, withhold)


@dataclass
class Forgery:
    """A receipt made from events that somebody has thought up, with every hash, proof and signature right.

    Args:
        lab: whose keys are used.
        log: the journal's id.
        action: the action's events, each with topic and state.
        approval: the approval's.
        order: in which order they stand in the log: `a` for the action's next one, `p` for the approval's.
        claim: what is signed, as the honest receipt has it.
    """

    lab: Lab
    log: str
    action: list[tuple[str, str]]
    approval: list[tuple[str, str]]
    order: str
    claim: dict[str, Any]
    at_s: int

    @classmethod
    def of(cls, lab: Lab, bundle: Bundle, at_s: int) -> Forgery:
        """Take an honest receipt that withholds nothing apart."""
        records = [Record.parse(one.encode()) for one in bundle.records]
        claim = dict(Statement.of(bundle.envelope).predicate)
        chains: dict[UUID, list[tuple[str, str]]] = {}
        for record, state in zip(records, bundle.states, strict=True):
            assert state is not None, "it withholds nothing"
            chains.setdefault(record.aggregate_id, []).append((record.topic, state))
        action, approval = UUID(claim["action"]), claim["approval"]
        indexes = [(TlogProof.parse((proof or "").encode()).index, at) for at, proof in enumerate(bundle.proofs)]
        order = "".join("a" if records[at].aggregate_id == action else "p" for _, at in sorted(indexes))
        return cls(lab, records[0].log, chains[action], chains[UUID(approval)] if approval else [], order, claim, at_s)

    def edited(self, chain: str, n: int, edit: Callable[[dict[str, Any]], object]) -> Forgery:
        """Return it with one event's state edited."""
        events = list(getattr(self, chain))
        topic, text = events[n - 1]
        state = json.loads(text)
        edit(state)
        events[n - 1] = (topic, json.dumps(state, ensure_ascii=False, separators=(",", ":")))
        return self.with_events(chain, events)

    def with_events(self, chain: str, events: list[tuple[str, str]], order: str | None = None) -> Forgery:
        """Return it with other events in one of its chains, `action` or `approval`."""
        order = self.order if order is None else order
        return replace(self, action=events, order=order) if chain == "action" else replace(self, approval=events, order=order)

    def claiming(self, **claims: Any) -> Forgery:
        """Return it with other claims signed."""
        return replace(self, claim={**self.claim, **claims})

    def made(self) -> Bundle:
        """Make it."""
        chains = {"a": self._chain(self.claim["action"], self.action), "p": self._chain(self.claim["approval"], self.approval)}
        left = {name: list(enumerate(chain)) for name, chain in chains.items()}
        placed = [(name, left[name].pop(0)) for name in self.order]
        leaves = [leaf_hash(record) for _, (_, record) in placed]
        note = self.lab.note(leaves, self.at_s)
        index = {(name, at): place for place, (name, (at, _)) in enumerate(placed)}
        proofs = [
            TlogProof(
                index[name, at],
                inclusion_proof(index[name, at], len(leaves), MemoryNodes(leaves)),
                note.serialize().decode(),
            )
            for name in "ap"
            for at in range(len(chains[name]))
        ]
        records = tuple(record.decode() for name in "ap" for record in chains[name])
        as_of = {"origin": self.lab.log_key.name, "size": len(leaves), "root": to_base64(root_of(leaves))}
        counts = {"events": len(self.action), "approval_events": len(self.approval)}
        claim = {**self.claim, **counts, "as_of": {**as_of, "last_n": len(self.action)}}
        statement = Statement((Subject(CHAIN_NAME, {"sha256": digest_of(records)}),), PREDICATE_TYPE, claim)
        states = tuple(state for chain in (self.action, self.approval) for _, state in chain)
        return Bundle(
            sign_envelope(PAYLOAD_TYPE, statement.serialize(), self.lab.attestor),
            records,
            states,
            tuple(proof.serialize().decode() for proof in proofs),
        )

    def _chain(self, aggregate_id: str | None, events: list[tuple[str, str]]) -> list[bytes]:
        made: list[bytes] = []
        for n, (topic, state) in enumerate(events, 1):
            prev = leaf_hash(made[-1]) if made else None
            record = Record(UUID(aggregate_id), self.log, n, prev, state_digest(state.encode()), topic)
            made.append(record.serialize())
        return made

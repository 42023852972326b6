"""The monitor: a log that is rewritten, rolled back or forked is not accepted, nor one with a step that no gate makes."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import tracemalloc
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from interlock.domain.records import leaf_hash
from interlock.errors import InvalidConfiguration, JournalUnavailable
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.merkle import root_of
from interlock.evidence.notes import NoteSignature, SignedNote, verify_note
from interlock.evidence.policies import Group, Log, Policy
from interlock.evidence.policies import Witness as PolicyWitness
from interlock.evidence.signing import NoteKey, verifier_of
from interlock.evidence.vkeys import KeyType
from interlock.monitor.findings import FindingKind, Sighting
from interlock.monitor.sources import PublishedLog, Source, folder, website
from interlock.monitor.state import MonitorState
from interlock.monitor.watching import Monitor
from tests.served import served
from tests.trees import RecordedLog

ORIGIN = "acme.example/interlock/prod-1"


def key(word: str, name: str, kind: KeyType) -> NoteKey:
    """Return a secret key that is none: everybody can make it from its word."""
    return NoteKey(name, kind, hashlib.sha256(f"{word}, for tests".encode()).digest())


LOG = key("a log", ORIGIN, KeyType.ED25519)
MONITOR = key("a monitor", "monitor.example/m1", KeyType.COSIGNATURE_V1)
WITNESS = key("a witness", "witness.example/w1", KeyType.COSIGNATURE_V1)
POLICY = Policy((Log(LOG.key),), (), (), "none")
NOW_S = 1_700_000_000


class Watched:
    """A published log, and a monitor of it."""

    def __init__(self, tmp_path: Path) -> None:
        self.log, self.path, self.state_path = RecordedLog(), tmp_path / "published", tmp_path / "monitor.db"
        self.path.mkdir(parents=True)
        MonitorState(self.state_path, MONITOR.key, ORIGIN, create=True).close()

    def publish(self, log: RecordedLog | None = None, size: int | None = None, *, signed_by: NoteKey = LOG) -> None:
        shutil.rmtree(self.path)
        self.path.mkdir()
        (log or self.log).publish(self.path, signed_by, size)

    def look(self, *, policy: Policy = POLICY, source: Source | None = None) -> Sighting:
        with MonitorState(self.state_path, MONITOR.key, ORIGIN) as state:
            return Monitor(source or folder(self.path), policy, state, MONITOR, lambda: NOW_S).look()

    def lines(self) -> list[dict[str, Any]]:
        path = self.state_path.with_name("monitor.db.log")
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    """Return a log of three actions, one of them open, which the monitor has not seen yet."""
    made = Watched(tmp_path)
    made.log.add(UUID(int=99), "interlock.approval.granted")
    made.log.action(1)
    made.log.action(2, "intended", "refused")
    made.log.action(3, "intended", "claimed", "dispatched")
    made.publish()
    return made


def kinds(sighting: Sighting) -> set[FindingKind]:
    """Return the kinds of what was found."""
    return {finding.kind for finding in sighting.findings}


def test_a_log_that_grows(watched: Watched) -> None:
    """A log that grows by legal steps is accepted and cosigned; what is unchanged is accepted, and not signed again."""
    first = watched.look()
    assert (first.clean, first.size, first.entries, first.open_actions) == (True, 10, 10, 1)
    assert watched.look().cosignature is None
    watched.log.action(3, "claimed", "dispatched", "committed")
    watched.log.action(1, "committed")
    watched.publish()
    second = watched.look()
    assert (second.clean, second.held_size, second.entries, second.open_actions) == (True, 14, 4, 0)
    assert second.cosignature is not None
    note = watched.log.note(LOG).with_signatures(NoteSignature.parse(second.cosignature.rstrip("\n")))
    assert [signed.at_s for signed in verify_note(note, [verifier_of(MONITOR.key)])] == [NOW_S]
    accepted = [SignedNote.parse(line["accepted"].encode()) for line in watched.lines()]
    assert [Checkpoint.parse(one.text).size for one in accepted] == [10, 14]
    assert all(verify_note(one, [verifier_of(MONITOR.key), verifier_of(LOG.key)]) for one in accepted)


def test_a_checkpoint_that_is_too_large_is_named(watched: Watched) -> None:
    """A log that hands out what is no checkpoint is found out, and does not end the watch."""
    assert watched.look().clean
    (watched.path / "checkpoint").write_bytes(b"x" * (2 << 20))
    seen = watched.look()
    assert (kinds(seen), seen.held_size) == ({FindingKind.CHECKPOINT}, 10)
    assert "refused" in watched.lines()[-1]
    watched.publish()
    assert watched.look().clean


def test_across_many_bundles(watched: Watched) -> None:
    """Bundles of entries that are whole, partial, and begun in the middle are read as one log."""
    for size in (10, 255, 256, 257, 700):
        while len(watched.log.records) < size:
            watched.log.action(1000 + len(watched.log.records), "intended")
        watched.publish()
        assert watched.look().held_size == size


def test_a_partial_bundle_that_was_dropped(watched: Watched) -> None:
    """Where the log has only the whole bundle left, its first entries will do."""
    for number in range(1000, 1246):
        watched.log.action(number, "intended")
    watched.publish(size=200)
    note = (watched.path / "checkpoint").read_bytes()
    watched.publish()
    (watched.path / "checkpoint").write_bytes(note)
    assert (watched.look().clean, watched.look().size) == (True, 200)


def test_another_history(watched: Watched) -> None:
    """A fork of the same size, one that has grown past it, and a step back are each refused, and what was held stays held."""
    watched.look()
    fork = RecordedLog()
    fork.add(UUID(int=99), "interlock.approval.granted")
    fork.action(7)
    fork.action(2, "intended", "refused")
    fork.action(3, "intended", "claimed", "dispatched")
    watched.publish(fork)
    assert kinds(watched.look()) == {FindingKind.REWRITTEN}
    fork.action(8)
    watched.publish(fork)
    assert FindingKind.REWRITTEN in kinds(watched.look())
    watched.publish(size=8)
    assert kinds(watched.look()) == {FindingKind.ROLLED_BACK}
    assert watched.look().held_size == 10
    (watched.path / "checkpoint").unlink()
    assert kinds(watched.look()) == {FindingKind.ROLLED_BACK}
    watched.publish()
    assert watched.look().clean
    refused = watched.lines()[1]
    notes = [SignedNote.parse(refused[name].encode()) for name in ("held", "refused")]
    roots = {Checkpoint.parse(note.text).root for note in notes if verify_note(note, [verifier_of(LOG.key)])}
    assert len(roots) == 2, "two signed roots of one size prove the fork to anybody"


def test_entries_that_are_not_the_logs(watched: Watched) -> None:
    """Entries that do not lead to the signed root are refused, wherever they were changed, and so is a bundle that is cut."""
    bundle = next(watched.path.rglob("*.p/*"))
    data = bundle.read_bytes()
    bundle.write_bytes(data.replace(b'"topic":"interlock.action.refused"', b'"topic":"interlock.action.claimed"'))
    assert FindingKind.REWRITTEN in kinds(watched.look())
    bundle.write_bytes(data[:-3])
    assert FindingKind.RECORD in kinds(watched.look())
    bundle.unlink()
    with pytest.raises(JournalUnavailable):
        watched.look()
    bundle.write_bytes(data)
    assert watched.look().clean


ILLEGAL = {
    "never_claimed": ("intended", "dispatched"),
    "committed_without_a_send": ("intended", "claimed", "committed"),
    "sent_after_refused": ("intended", "refused", "claimed"),
    "committed_after_refused": ("intended", "claimed", "dispatched", "refused", "committed"),
    "sent_after_committed": ("intended", "claimed", "dispatched", "committed", "dispatched"),
    "intended_twice": ("intended", "intended"),
    "never_intended": ("claimed",),
    "unknown_event": ("intended", "forgotten"),
    "erased_before_its_end": ("intended", "erased"),
}


@pytest.mark.parametrize("events", ILLEGAL.values(), ids=ILLEGAL)
def test_a_step_that_no_gate_makes(watched: Watched, events: tuple[str, ...]) -> None:
    """A well-signed, well-chained log with an illegal step is not cosigned."""
    watched.look()
    watched.log.action(50, *events)
    watched.publish()
    sighting = watched.look()
    assert kinds(sighting) == {FindingKind.LEGALITY}
    assert sighting.cosignature is None
    assert str(UUID(int=50)) in sighting.findings[0].place


@pytest.mark.parametrize(
    ("aggregate", "topics"),
    [
        (1, ["interlock.approval.reserved"]),
        (61, ["interlock.approval.reserved"]),
        (61, ["interlock.approval.granted", "interlock.approval.granted"]),
        (61, ["interlock.approval.granted", "interlock.action.intended"]),
        (61, ["somebody.else"]),
        (61, ["interlock.log.key_rotated"]),
    ],
)
def test_other_families(watched: Watched, aggregate: int, topics: list[str]) -> None:
    """Approvals and the log's own events have an order too, and no aggregate is two things."""
    for topic in topics:
        watched.log.add(UUID(int=aggregate), topic)
    watched.publish()
    assert kinds(watched.look()) == {FindingKind.LEGALITY}


def test_a_chain_that_is_broken(watched: Watched) -> None:
    """A record that leaves out the event before it is refused, although the log signed it; so is one of another journal."""
    watched.look()
    whole, heads = list(watched.log.records), dict(watched.log.heads)
    watched.log.action(3, "claimed", "dispatched")
    del watched.log.records[-2]
    watched.publish()
    assert FindingKind.CHAIN in kinds(watched.look())
    watched.log.records[:], watched.log.heads = whole, heads
    watched.log.log = "urn:uuid:00000000-0000-4000-8000-00000000000b"
    watched.log.action(70)
    watched.publish()
    assert kinds(watched.look()) == {FindingKind.RECORD}


def test_whose_checkpoint_it_is(watched: Watched) -> None:
    """A checkpoint of a stranger, under a spoofed key id, of another log, or with too few witnesses is refused."""
    stranger = key("a stranger", ORIGIN, KeyType.ED25519)
    other = key("another log", "acme.example/interlock/other-1", KeyType.ED25519)
    both = Policy((Log(LOG.key), Log(other.key)), (), (), "none")
    watched.publish(signed_by=other)
    assert kinds(watched.look(policy=both)) == {FindingKind.CHECKPOINT}, "a log that the policy names, and that is not watched"
    watched.publish(signed_by=stranger)
    assert kinds(watched.look()) == {FindingKind.CHECKPOINT}
    signature = watched.log.note(stranger).signatures[0].signature
    spoofed = SignedNote(watched.log.note(LOG).text, (NoteSignature(ORIGIN, LOG.key.key_id, signature),))
    (watched.path / "checkpoint").write_bytes(spoofed.serialize())
    assert kinds(watched.look()) == {FindingKind.CHECKPOINT}
    watched.publish()
    assert watched.look().clean
    watched.publish(signed_by=other)
    assert kinds(watched.look(policy=both)) == {FindingKind.CHECKPOINT}
    watched.publish()
    strict = Policy((Log(LOG.key),), (PolicyWitness("w1", WITNESS.key),), (Group("all", 1, ("w1",)),), "all")
    assert "quorum" in watched.look(policy=strict).findings[0].words
    note = watched.log.note(LOG)
    checkpoint = Checkpoint(ORIGIN, 10, root_of(map(leaf_hash, watched.log.records)))
    (watched.path / "checkpoint").write_bytes(note.with_signatures(WITNESS.cosign(checkpoint, at_s=NOW_S)).serialize())
    assert watched.look(policy=strict).clean


def test_over_http(watched: Watched) -> None:
    """What a static web server publishes is read in the same way; where it does not answer, nothing is known."""
    (watched.path / "checkpoint").rename(watched.path / "later")
    with pytest.raises(JournalUnavailable, match="no checkpoint yet"):
        watched.look()
    (watched.path / "later").rename(watched.path / "checkpoint")
    with served(watched.path) as url:
        assert watched.look(source=website(f"{url}/")).clean
    with pytest.raises(JournalUnavailable):
        watched.look(source=website(url))
    with pytest.raises(JournalUnavailable):
        watched.look(source=website("nonsense"))


def test_a_state_that_is_lost_or_anothers(watched: Watched, tmp_path: Path) -> None:
    """A monitor does not begin anew by itself, nor go on with the state of another key or log."""
    with pytest.raises(InvalidConfiguration, match="no state"):
        MonitorState(tmp_path / "lost.db", MONITOR.key, ORIGIN)
    with pytest.raises(InvalidConfiguration, match="already"):
        MonitorState(watched.state_path, MONITOR.key, ORIGIN, create=True)
    with pytest.raises(InvalidConfiguration, match="another"):
        MonitorState(watched.state_path, WITNESS.key, ORIGIN)
    with pytest.raises(InvalidConfiguration, match="another"):
        MonitorState(watched.state_path, MONITOR.key, "acme.example/else-1")


def test_a_state_that_can_not_be_written(watched: Watched) -> None:
    """What can't be noted down is not held: after the failure the log is looked at again from where it was."""
    watched.look()
    log_path = watched.state_path.with_name("monitor.db.log")
    kept = log_path.read_bytes()
    log_path.unlink()
    log_path.mkdir()
    watched.log.action(80)
    watched.publish()
    with pytest.raises(JournalUnavailable, match="can't be written"):
        watched.look()
    log_path.rmdir()
    log_path.write_bytes(kept)
    sighting = watched.look()
    assert (sighting.clean, sighting.entries, sighting.held_size) == (True, 4, 14)


def test_two_monitors_on_one_state(watched: Watched) -> None:
    """A look that outlasts the time to the next one is alone with the state: what both read would stand twice in the paths."""
    published = folder(watched.path)

    class Slow(PublishedLog):
        def checkpoint(self) -> bytes | None:
            other = sqlite3.connect(watched.state_path, timeout=0, isolation_level=None)
            with closing(other), pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("BEGIN IMMEDIATE")
            return published.checkpoint()

    assert watched.look(source=Slow(lambda name: (watched.path / name).read_bytes())).clean


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    """A log of 24,000 entries takes about as much memory as one of 6,000."""
    peaks = []
    for actions in (1, 1500, 6000):  # the first is there for what is imported and cached on the way
        watched = Watched(tmp_path / str(actions))
        for number in range(1, actions + 1):
            watched.log.action(number)
        watched.publish()
        files = {str(path.relative_to(watched.path)): path.read_bytes() for path in watched.path.rglob("*") if path.is_file()}
        tracemalloc.start()
        try:
            assert watched.look(source=PublishedLog(files.get)).clean
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[2] < peaks[1] * 1.2

"""The transparency log on both journals: what is signed, what refuses to be signed, and what a restore needs."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from interlock.domain.records import leaf_hash
from interlock.errors import EpochNeeded, InvalidConfiguration, JournalCorrupt, JournalUnavailable
from interlock.evidence.acceptance import accept_checkpoint, accept_proof
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.merkle import root_of, verify_consistency
from interlock.evidence.notes import NoteSignature, SignedNote
from interlock.evidence.policies import Log, Policy
from interlock.evidence.signing import NoteKey, new_seed
from interlock.evidence.vkeys import KeyType, VerifierKey
from interlock.log import LogConfig
from interlock.projections.log.writing import rebuild
from tests.journals import PostgresJournals
from tests.log_stage import IDENTITY, Stage, now, restore, wait_until


def policy_of(*vkeys: str) -> Policy:
    """Return a policy that accepts these keys, without witnesses."""
    return Policy(tuple(Log(VerifierKey.parse(vkey)) for vkey in vkeys), (), (), "none")


def head(note: SignedNote | None) -> Checkpoint:
    """Return what a note says."""
    assert note is not None
    return Checkpoint.parse(note.text)


def test_every_event_is_a_leaf_under_the_checkpoint(stage: Stage) -> None:
    """All events, those of approvals and of the log itself too, stand under the checkpoint, in the order of their positions."""
    stage.write("a", "b")
    service = stage.service()
    assert service.writer is not None
    note = service.writer.checkpoint()
    tree = service.tree
    entries = tree.records(0, 100)
    assert head(note).size == len(entries) == len(stage.journals.log(stage.path)) == tree.size()
    assert head(note).root == root_of(map(leaf_hash, entries))
    assert head(note).origin == f"{IDENTITY}-1"
    policy = policy_of(stage.key.public)
    accept_checkpoint(tree.latest() or pytest.fail("no checkpoint"), policy)
    for index, entry in enumerate(entries):
        accept_proof(tree.inclusion(index), leaf_hash(entry), policy)


def test_nothing_new_is_not_signed_again(stage: Stage) -> None:
    """Without new events there is no new checkpoint."""
    stage.write("a")
    writer = stage.service().writer
    assert writer is not None
    assert writer.checkpoint() is not None
    assert writer.checkpoint() is None


def test_later_checkpoints_continue_the_earlier_ones(stage: Stage) -> None:
    """Each checkpoint is consistent with those before, also over full tiles."""
    service = stage.service()
    assert service.writer is not None
    notes: list[Checkpoint] = []
    for size in (1, 60, 2):
        stage.write(*(f"{len(notes)}-{name}" for name in range(size)))
        notes.append(head(service.writer.checkpoint()))
    tree = service.tree
    assert notes[-1].size > 256
    assert tree.store.node_hashes(1, 0, 10) == [root_of(tree.leaf_hashes(0, 256))]
    for older, newer in [(notes[0], notes[1]), (notes[0], notes[2]), (notes[1], notes[2])]:
        verify_consistency(older.size, newer.size, older.root, newer.root, tree.consistency(older.size, newer.size))


def test_the_tree_is_rebuilt_from_the_leaves(stage: Stage) -> None:
    """The nodes can be dropped and made again."""
    stage.write(*map(str, range(60)))
    service = stage.service()
    assert service.writer is not None
    service.writer.checkpoint()
    before = service.tree.store.node_hashes(1, 0, 10)
    rebuild(stage.journal())
    assert before
    assert service.tree.store.node_hashes(1, 0, 10) == before


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE stored_events SET topic = 'interlock.action.refused' WHERE topic = 'interlock.action.committed'",
        "UPDATE stored_events SET state = '{}' WHERE topic = 'interlock.action.committed'",
        "DELETE FROM stored_events WHERE topic = 'interlock.action.committed'",
    ],
    ids=["retyped", "edited", "removed"],
)
def test_an_edited_event_is_not_signed(stage: Stage, edit: str) -> None:
    """The leader recomputes every record from its row before it signs it."""
    stage.write("a", "b")
    service = stage.service()
    assert service.writer is not None
    service.writer.waiting()  # on PostgreSQL a removed event is noticed once it had a position
    stage.journals.edit(stage.path, edit)
    if edit.startswith("DELETE"):
        stage.write("c")
    with pytest.raises(JournalCorrupt):
        service.writer.checkpoint()
    assert service.tree.latest() is None


def test_a_journal_behind_its_mark_is_not_signed(stage: Stage) -> None:
    """What was signed and is gone from the database stops the log, and the error says how to begin a new epoch."""
    service = stage.service()
    assert service.writer is not None
    stage.write("a")
    service.writer.checkpoint()
    before = snapshot(stage)
    stage.write("b")
    service.writer.checkpoint()
    restore(stage, before)
    with pytest.raises(EpochNeeded, match="log new-epoch --after-restore"):
        service.writer.checkpoint()
    stage.write("c")
    stage.write("d")
    with pytest.raises(EpochNeeded, match="other events"):  # grown past it again, with another history
        service.writer.checkpoint()


def snapshot(stage: Stage) -> int:
    """Return how many events there are, to cut the journal back to."""
    return len(stage.journals.log(stage.path))


def test_a_new_epoch_cites_the_last_checkpoint_of_the_one_before(stage: Stage) -> None:
    """After a restore the log goes on under a new name, over all leaves, and its first own leaf cites what was signed before."""
    service = stage.service()
    assert service.writer is not None
    stage.write("a")
    service.writer.checkpoint()
    before = snapshot(stage)
    stage.write("b")
    last = service.writer.checkpoint()
    restore(stage, before)
    note = service.writer.start_epoch()
    assert head(note).origin == f"{IDENTITY}-2"
    assert head(note).size == before + 1
    log = service.tree.state()
    assert log is not None
    assert last is not None
    assert log.previous_note == last.serialize().decode()
    assert head(note).root == root_of(map(leaf_hash, service.tree.records(0, 100)))
    stage.write("c")
    assert head(service.writer.checkpoint()).origin == f"{IDENTITY}-2"
    with pytest.raises(Exception, match="policy names no log"):
        accept_checkpoint(note, policy_of(stage.key.public))


def test_a_crash_between_mark_and_row_is_healed(stage: Stage) -> None:
    """The mark is written before the row: what a crash between the two leaves is put right at the next checkpoint."""
    service = stage.service()
    assert service.writer is not None
    stage.write("a")
    service.writer.checkpoint()
    stage.write("b")
    signed = service.writer.checkpoint()
    size = head(signed).size
    stage.journals.edit(stage.path, "DELETE FROM checkpoints WHERE size = SIZE".replace("SIZE", str(size)))
    stage.write("c")
    newer = service.writer.checkpoint()
    assert head(newer).size > size
    assert service.tree.note(size) == signed


def test_another_machines_mark_is_taken_further(stage: Stage) -> None:
    """A leader whose mark is behind the journal goes on, if the journal continues it."""
    stage.write("a")
    here, there = stage.service(), stage.service(stage.config(high_water=stage.folder / "there.mark"))
    assert here.writer is not None
    assert there.writer is not None
    here.writer.checkpoint()
    stage.write("b")
    there.writer.checkpoint()
    stage.write("c")
    assert here.writer.checkpoint() is not None


def test_a_checkpoint_by_another_key_is_not_built_upon(stage: Stage) -> None:
    """A key that the log does not name signs nothing."""
    from interlock.keyfiles import Role, create_key

    stage.write("a")
    service = stage.service()
    assert service.writer is not None
    service.writer.checkpoint()
    stage.write("b")
    other = create_key(Role.LOG, stage.folder / "other", IDENTITY)
    thief = stage.service(stage.config(key_file=other.path)).writer
    assert thief is not None
    with pytest.raises((EpochNeeded, InvalidConfiguration)):
        thief.checkpoint()
    shutil.rmtree(stage.folder / "other")


def test_a_gate_signs_beside_its_work(stage: Stage) -> None:
    """A gate that was given a key signs what it writes, and its receipts go from pending to signed."""
    with stage.gate(stage.config(every_s=0.2)) as gate:
        stage.fire(gate, "a")
        wait_until(lambda: gate.receipt("pay:a").signed)
        receipt = gate.receipt("pay:a")
        assert receipt.pending is False
        assert receipt.signed_by == f"{IDENTITY}-1"
        assert gate.verify().valid


def test_a_receipt_is_pending_until_a_checkpoint_covers_it(stage: Stage) -> None:
    """What was written after the last checkpoint is pending, by itself and on a page, and what nobody signs is neither."""
    stage.write("a")
    with stage.gate() as gate:
        assert gate.receipt("pay:a").pending is None
        service = stage.service()
        assert service.writer is not None
        service.writer.checkpoint()
        stage.fire(gate, "b")
        pending = {one.key: (one.pending, one.signed, one.signed_by) for one in gate.receipts().receipts}
        assert pending == {"pay:a": (False, True, stage.origin), "pay:b": (True, False, None)}
        assert gate.receipt("pay:b").pending is True
        service.writer.checkpoint()
        assert gate.receipt("pay:b").signed_by == stage.origin


def test_what_is_left_is_signed_when_the_gate_is_closed(stage: Stage) -> None:
    """A process that lives for less than a checkpoint's time leaves nothing unsigned."""
    with stage.gate(stage.config(every_s=3600)) as gate:
        stage.fire(gate, "a")
        assert gate.receipt("pay:a").signed is not True
    with stage.gate() as gate:
        assert gate.receipt("pay:a").signed


def test_one_of_many_gates_leads(stage: Stage) -> None:
    """Of two gates with the key one signs, and the other one goes on when it is closed."""
    with stage.gate(stage.config(every_s=0.2)) as one, stage.gate(stage.config(every_s=0.2)) as other:
        stage.fire(one, "a")
        stage.fire(other, "b")
        wait_until(lambda: other.receipt("pay:b").signed and other.receipt("pay:a").signed)
        one.close()
        stage.fire(other, "c")
        wait_until(lambda: other.receipt("pay:c").signed)
        assert other.verify().valid


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_goes_on(stage: Stage) -> None:
    """What a forked child writes is signed by its parent while that lives, and by the child afterwards."""
    with stage.gate(stage.config(every_s=0.1)) as gate:
        stage.fire(gate, "a")
        wait_until(lambda: gate.receipt("pay:a").signed)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                stage.fire(gate, "b")
                wait_until(lambda: gate.receipt("pay:b").signed)
                wait_until((stage.folder / "closed").exists)
                stage.fire(gate, "c")
                wait_until(lambda: gate.receipt("pay:c").signed)
                gate.close()
                code = 0
            finally:
                os._exit(code)
        wait_until(lambda: any(summary.key == "pay:b" and summary.signed for summary in gate.receipts().receipts))
    (stage.folder / "closed").touch()
    assert os.waitpid(child, 0)[1] == 0


@contextmanager
def database(stage: Stage) -> Iterator[Any]:
    """Give a connection of an operator's, with all triggers as they are."""
    if isinstance(stage.journals, PostgresJournals):
        with stage.journals._connection(stage.path) as session:
            yield session
    else:
        with closing(sqlite3.connect(stage.path)) as connection, connection:
            yield connection


@pytest.mark.parametrize("table", ["checkpoints", "cosignatures"])
@pytest.mark.parametrize("change", ["UPDATE {} SET size = size + 1", "DELETE FROM {}"])
def test_what_was_signed_is_not_changed(stage: Stage, table: str, change: str) -> None:
    """The database itself refuses to change or remove a checkpoint or a cosignature (I9)."""
    stage.write("a")
    service = stage.service()
    assert service.writer is not None
    size = head(service.writer.checkpoint()).size
    service.tree.store.add_cosignature(size, "w.example+00000000", "a line\n")
    with pytest.raises((sqlite3.IntegrityError, psycopg.errors.RestrictViolation)), database(stage) as connection:
        connection.execute(change.format(table))
    assert stage.journals.rows(stage.path, table)[0]["size"] == size


def test_the_mark_is_durable_before_the_row(stage: Stage) -> None:
    """A checkpoint that the database does not take was still signed, and the mark says so."""
    stage.write("a")
    service = stage.service()
    assert service.writer is not None
    assert service.mark is not None
    service.writer.checkpoint()
    stage.write("b")
    before = head(service.mark.read()).size
    with database(stage) as connection:
        connection.execute("ALTER TABLE checkpoints RENAME TO away")
        connection.execute("CREATE VIEW checkpoints AS SELECT * FROM away WHERE size > 0 UNION SELECT * FROM away")
    with pytest.raises(JournalUnavailable):
        service.writer.checkpoint()
    assert head(service.mark.read()).size > before
    with database(stage) as connection:
        connection.execute("DROP VIEW checkpoints")
        connection.execute("ALTER TABLE away RENAME TO checkpoints")
    assert service.writer.checkpoint() is None  # its row is written now, and nothing is left to sign
    assert head(service.tree.latest()) == head(service.mark.read())


def test_a_smaller_checkpoint_does_not_lower_the_mark(stage: Stage) -> None:
    """A leader that was overtaken leaves the mark where the other one put it, and signs nothing."""
    stage.write("a")
    service = stage.service()
    assert service.writer is not None
    assert service.mark is not None
    first = service.writer.checkpoint()
    assert first is not None
    stage.write("b")
    second = service.writer.checkpoint()
    with pytest.raises(JournalUnavailable):
        service.mark.raise_to(first, after=None)
    service.mark.raise_to(first, after=second)
    assert service.mark.read() == second


def test_an_earlier_epoch_does_not_take_the_marks_place(stage: Stage) -> None:
    """A leader that has not heard of a new epoch yet signs nothing more in the old one."""
    stage.write("a")
    service = stage.service()
    assert service.writer is not None
    assert service.mark is not None
    first = service.writer.checkpoint()
    assert first is not None
    later = service.writer.start_epoch()
    with pytest.raises(EpochNeeded, match="was begun here meanwhile"):
        service.mark.raise_to(first, after=first)
    assert service.mark.read() == later


@pytest.mark.parametrize(
    "edit",
    ["UPDATE log_nodes SET hash = root FROM checkpoints", "UPDATE stored_events SET leaf_hash = root FROM checkpoints"],
    ids=["node", "leaf"],
)
def test_a_proof_that_does_not_hold_is_not_given_out(stage: Stage, edit: str) -> None:
    """A node or a leaf that somebody changed makes an error, and never a wrong proof."""
    stage.write(*map(str, range(60)))
    service = stage.service()
    assert service.writer is not None
    size = head(service.writer.checkpoint()).size
    service.tree.inclusion(size - 1)
    stage.journals.edit(stage.path, edit)
    with pytest.raises(JournalCorrupt):
        service.tree.inclusion(size - 1)


class Card:
    """A key that is in no file: it signs, and never shows itself."""

    def __init__(self) -> None:
        self._seed = new_seed()
        self.identity = IDENTITY

    def key_for(self, origin: str) -> VerifierKey:
        return NoteKey(origin, KeyType.ED25519, self._seed).key

    def sign(self, origin: str, text: str) -> NoteSignature:
        return NoteKey(origin, KeyType.ED25519, self._seed).sign(text)


def test_a_key_may_live_elsewhere(stage: Stage) -> None:
    """A log is signed by whatever has an identity, a public key and a signature."""
    card = Card()
    config = LogConfig(signers=(card,), high_water=stage.folder / "card.mark", every_s=0.05)
    with stage.gate(config) as gate:
        stage.fire(gate, "a")
    latest = stage.service().tree.latest()
    assert latest is not None
    accept_checkpoint(latest, policy_of(str(card.key_for(stage.origin))))


def test_one_process_leads(stage: Stage) -> None:
    """The lock is one process's; it is free when that gives it back."""
    one, other = stage.journal().log_lock(), stage.journal().log_lock()
    assert one.take()
    assert one.take()
    assert not other.take()
    one.release()
    wait_until(other.take)
    other.release()


def test_an_epoch_that_was_begun_elsewhere_has_to_be_accepted(stage: Stage) -> None:
    """That the log begins anew is for a person to say on each machine: whoever can write to the database could have begun it."""
    here, there = stage.service(), stage.service(stage.config(high_water=stage.folder / "there.mark"))
    assert here.writer is not None
    assert there.writer is not None
    stage.write("a")
    here.writer.checkpoint()
    there.writer.start_epoch()
    stage.write("b")
    with pytest.raises(EpochNeeded, match="new-epoch --accept"):
        here.writer.checkpoint()
    here.writer.accept_epoch()
    assert head(here.writer.checkpoint()).origin == f"{IDENTITY}-2"


def test_an_epoch_that_somebody_else_signed_is_not_accepted(stage: Stage) -> None:
    """Accepting an epoch takes nobody's word for it but that of the log's own key."""
    service = stage.service()
    assert service.writer is not None
    stage.write("a")
    service.writer.checkpoint()
    log = stage.journal().find_log()
    assert log is not None
    log.start_epoch(2, f"{IDENTITY}-2", stage.key.public.replace("-1+", "-2+"), None, now())
    assert stage.journal().append_log(log)
    with pytest.raises(EpochNeeded):
        service.writer.accept_epoch()
    with pytest.raises(EpochNeeded):
        service.writer.checkpoint()


def test_what_stops_the_log_is_said_once(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """A log that can't be signed says why, once and not again and again, and how to go on."""
    with stage.gate(stage.config()) as gate:
        stage.fire(gate, "a")
    stage.mark.write_text(stage.mark.read_text(encoding="utf-8").replace("\n", "\n9", 1), encoding="utf-8")
    with stage.gate(stage.config()) as gate:
        for name in ("b", "c", "d"):
            stage.fire(gate, name)
            time.sleep(0.3)
    told = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == 1
    assert "log new-epoch --after-restore" in told[0].getMessage()

"""A journal that was edited with SQLite's own tools: `verify` names the place; while the triggers stand there is no editing."""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from interlock import Gate, Receipts
from interlock.domain.action import GatedAction
from interlock.domain.records import leaf_hash, record, running_hash, state_digest
from interlock.infrastructure.sqlite.journal import SQLiteJournal
from interlock.projections.verification import Verification
from tests.integration.processes import Line, Nursery, kill_myself
from tests.integration.shared_ledger import AMOUNT_MINOR, Kind, World, do_at

COLUMNS = "originator_id, originator_version, topic, state, state_digest, leaf_hash"
"""All columns of an event but its place in the log, and what commits to that place."""


@dataclass(frozen=True)
class Row:
    """One row of the log."""

    position: int
    aggregate: str
    version: int
    topic: str
    state: bytes
    digest: bytes
    leaf: bytes
    running: bytes

    @property
    def place(self) -> str:
        """As `verify` names it."""
        return f"position {self.position}, event {self.version} of {self.aggregate}"


@dataclass
class Journal:
    """A copy of a journal, to be edited."""

    path: Path
    log: str

    def edit(self, *statements: tuple[str, tuple[object, ...]]) -> None:
        """Drop every trigger, and then do as one likes."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            for sql, values in statements:
                assert connection.execute(sql, values).rowcount > 0, f"nothing was edited by {sql}"

    def rows(self) -> list[Row]:
        """Return the log."""
        with closing(sqlite3.connect(self.path)) as connection:
            return [Row(*row) for row in connection.execute("SELECT * FROM stored_events ORDER BY position")]

    def row(self, topic: str, which: int = 0) -> Row:
        """Return one of the rows with this topic."""
        return [row for row in self.rows() if row.topic == f"interlock.{topic}"][which]

    def append(self, aggregate: str, topic: str, state: bytes) -> Row:
        """Append an event as a gate would, with every hash right, whatever it says."""
        rows = self.rows()
        last = [row for row in rows if row.aggregate == aggregate][-1]
        digest = state_digest(state)
        header = record(
            log=self.log, aggregate_id=UUID(aggregate), version=last.version + 1, topic=topic, state=digest, prev=last.leaf
        )
        leaf, end = leaf_hash(header), rows[-1]
        running = running_hash(end.running, leaf)
        row = Row(end.position + 1, aggregate, last.version + 1, topic, state, digest, leaf, running)
        self.edit(("INSERT INTO stored_events VALUES (?, ?, ?, ?, ?, ?, ?, ?)", tuple(vars(row).values())))
        return row

    def verify(self) -> Verification:
        """Verify as an outsider does."""
        with Receipts.open(f"sqlite:///{self.path}") as receipts:
            return receipts.verify()


def fire_and_die(line: Line, world: World, case: str) -> None:
    """Fire a case whose function is killed in the middle."""
    del line
    with world.gate(do_at("write", kill_myself)) as gate:
        gate.fire(case, world.payout(case), approval=case)


def approve(gate: Gate, case: str) -> None:
    """Grant an approval."""
    gate.approve(case, by="user:1", expires_in_s=3600, cap_minor=AMOUNT_MINOR, currency="usd")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal with two committed actions, a refused one and an ambiguous one."""
    world = World(tmp_path_factory.mktemp("original"), Kind.FUNCTION)
    with world.gate() as gate:
        for case in ("first", "second", "refused", "ambiguous"):
            approve(gate, case)
        gate.revoke("refused", by="user:2")
        for case in ("first", "second", "refused"):
            gate.fire(case, world.payout(case), approval=case)
    with Nursery() as nursery:
        assert nursery.start(fire_and_die, world, "ambiguous").ended() == -9
    with world.gate() as gate:
        gate.recover()
        assert {receipt.status for receipt in gate.receipts().receipts} == {"COMMITTED", "REFUSED", "AMBIGUOUS"}
        assert gate.verify().valid
    return world.journal


@pytest.fixture
def journal(original: Path, tmp_path: Path) -> Journal:
    """A copy of it, for one test."""
    path = tmp_path / "journal.db"
    shutil.copy(original, path)
    with closing(sqlite3.connect(path)) as connection:
        (log,) = connection.execute("SELECT log FROM journal").fetchone()
    return Journal(path, log)


def assert_named(found: Verification, kind: str, place: str) -> None:
    """The verification names this place for this reason."""
    assert not found.valid
    assert (kind, place) in {(finding.kind.value, finding.place) for finding in found.findings}, found.findings


def test_untouched_journal_is_valid(journal: Journal) -> None:
    """What nobody edited verifies, and dropping the triggers alone changes no evidence."""
    journal.edit()
    found = journal.verify()
    assert (found.valid, found.events) == (True, len(journal.rows()))


@pytest.mark.parametrize("topic", ["action.intended", "action.dispatched", "action.committed", "approval.granted"])
def test_changed_byte_of_state(journal: Journal, topic: str) -> None:
    """One byte of a state differs: its event is named."""
    row = journal.row(topic)
    at = row.state.index(b'"', len(row.state) // 2) - 1
    edited = row.state[:at] + bytes((row.state[at] ^ 1,)) + row.state[at + 1 :]
    journal.edit(("UPDATE stored_events SET state = ? WHERE position = ?", (edited, row.position)))
    assert_named(journal.verify(), "state", row.place)


def test_changed_amount_with_its_digest(journal: Journal) -> None:
    """Who edits the state and corrects the digest beside it breaks the record's hash."""
    row = journal.row("action.intended")
    edited = row.state.replace(b"2000", b"9000")
    assert edited != row.state
    digest = state_digest(edited)
    journal.edit(("UPDATE stored_events SET state = ?, state_digest = ? WHERE position = ?", (edited, digest, row.position)))
    assert_named(journal.verify(), "chain", row.place)


def test_changed_event_with_its_hashes(journal: Journal) -> None:
    """Who corrects the record's hash as well breaks the next event of the same aggregate."""
    row, following = journal.row("action.intended"), journal.row("action.claimed")
    assert row.aggregate == following.aggregate
    edited = row.state.replace(b"2000", b"9000")
    digest = state_digest(edited)
    header = record(log=journal.log, aggregate_id=UUID(row.aggregate), version=1, topic=row.topic, state=digest, prev=None)
    values = (edited, digest, leaf_hash(header), row.position)
    journal.edit(("UPDATE stored_events SET state = ?, state_digest = ?, leaf_hash = ? WHERE position = ?", values))
    assert_named(journal.verify(), "chain", following.place)


def test_edited_digest_column(journal: Journal) -> None:
    """A digest that was edited is named, both as a state that does not match and as a record that does not hash."""
    row = journal.row("action.committed")
    journal.edit(("UPDATE stored_events SET state_digest = ? WHERE position = ?", (bytes(32), row.position)))
    found = journal.verify()
    assert_named(found, "state", row.place)
    assert_named(found, "chain", row.place)


def test_edited_leaf_hash(journal: Journal) -> None:
    """A leaf hash that was edited is named."""
    row = journal.row("action.dispatched")
    journal.edit(("UPDATE stored_events SET leaf_hash = ? WHERE position = ?", (bytes(32), row.position)))
    assert_named(journal.verify(), "chain", row.place)


def test_retyped_topic(journal: Journal) -> None:
    """An event that was given another type is named, although its state was not touched."""
    row = journal.row("action.refused")
    journal.edit(("UPDATE stored_events SET topic = 'interlock.action.ambiguous' WHERE position = ?", (row.position,)))
    assert_named(journal.verify(), "chain", row.place)


@pytest.mark.parametrize("columns", ["state", "state_digest", "leaf_hash", "topic", "state, state_digest, leaf_hash"])
def test_swap_between_actions(journal: Journal, columns: str) -> None:
    """What was swapped between events of two actions is named at both."""
    one, other = journal.row("action.committed"), journal.row("action.refused")
    _swap(journal, one, other, columns)
    found = journal.verify()
    assert {one.place, other.place} <= {finding.place for finding in found.findings}


def test_swap_of_whole_rows(journal: Journal) -> None:
    """Two events of different actions that changed places whole are named where they stand out of their order."""
    one, other = journal.row("action.committed", 0), journal.row("action.committed", 1)
    _swap(journal, one, other, COLUMNS)
    assert_named(journal.verify(), "chain", f"position {one.position}, event {other.version} of {other.aggregate}")


def _swap(journal: Journal, one: Row, other: Row, columns: str) -> None:
    moved = f"SELECT {columns} FROM stored_events WHERE position = ?"  # noqa: S608 - names of columns, given above
    with closing(sqlite3.connect(journal.path)) as connection:
        first, second = (connection.execute(moved, (row.position,)).fetchone() for row in (one, other))
    sets = ", ".join(f"{name} = ?" for name in columns.split(", "))
    set_all = f"UPDATE stored_events SET {sets} WHERE position = ?"  # noqa: S608 - as above
    away = ("UPDATE stored_events SET originator_id = 'x' WHERE position = ?", (other.position,))
    journal.edit(
        *([away] if "originator_id" in columns else []),
        (set_all, (*second, one.position)),
        (set_all, (*first, other.position)),
    )


def test_swap_within_an_action(journal: Journal) -> None:
    """Two events of one action that changed places are named where they stand now."""
    one, other = journal.row("action.intended"), journal.row("action.claimed")
    _swap(journal, one, other, COLUMNS)
    assert_named(journal.verify(), "chain", f"position {one.position}, event {other.version} of {one.aggregate}")


def test_removed_middle_event(journal: Journal) -> None:
    """A removed event leaves a gap in the positions and in the versions; both are named."""
    row = journal.row("action.claimed")
    journal.edit(("DELETE FROM stored_events WHERE position = ?", (row.position,)))
    found = journal.verify()
    assert_named(found, "position", f"position {row.position}")
    assert_named(found, "chain", journal.row("action.dispatched").place)


def test_removed_middle_event_closed_up(journal: Journal) -> None:
    """Who closes both gaps after a removal breaks the chain."""
    row = journal.row("action.claimed")
    journal.edit(
        ("DELETE FROM stored_events WHERE position = ?", (row.position,)),
        (
            "UPDATE stored_events SET originator_version = originator_version - 1 WHERE originator_id = ? AND position > ?",
            (row.aggregate, row.position),
        ),
        ("UPDATE stored_events SET position = -position WHERE position > ?", (row.position,)),
        ("UPDATE stored_events SET position = -position - 1 WHERE position < 0", ()),
    )
    assert_named(journal.verify(), "chain", journal.row("action.dispatched").place)


def test_removed_action(journal: Journal) -> None:
    """An action that was removed with all its events leaves its name and its row, which are named."""
    row = journal.row("action.refused")
    journal.edit(("DELETE FROM stored_events WHERE originator_id = ?", (row.aggregate,)))
    found = journal.verify()
    assert_named(found, "name", f"action {row.aggregate}")
    assert_named(found, "row", f"receipt {row.aggregate}")


def test_insert_or_replace(journal: Journal) -> None:
    """An event that was replaced with the triggers dropped is named."""
    row = journal.row("action.committed")
    edited = row.state.replace(b'"paid"', b'"lost"')
    assert edited != row.state
    values = (row.position, row.aggregate, row.version, row.topic, edited, row.digest, row.leaf, row.running)
    journal.edit(("INSERT OR REPLACE INTO stored_events VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values))
    assert_named(journal.verify(), "state", row.place)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("status = 'REFUSED'", "status"),
        ("amount_minor = 1", "amount_minor"),
        ("attention = 0", "attention"),
        ("key = 'x'", "key"),
    ],
)
def test_changed_receipt_row(journal: Journal, change: str, named: str) -> None:
    """A receipt row that was edited is named, with the column, and events that are right are not."""
    wanted = "AMBIGUOUS" if named == "attention" else "COMMITTED"
    with closing(sqlite3.connect(journal.path)) as connection:
        (action,) = connection.execute("SELECT action_id FROM receipts WHERE status = ? LIMIT 1", (wanted,)).fetchone()
    journal.edit((f"UPDATE receipts SET {change} WHERE action_id = ?", (action,)))  # noqa: S608 - the cases above
    (finding,) = journal.verify().findings
    assert (finding.kind.value, finding.place) == ("row", f"receipt {action}")
    assert named in finding.words


def test_removed_receipt_row(journal: Journal) -> None:
    """A receipt row that is missing is named."""
    row = journal.row("action.committed")
    journal.edit(("DELETE FROM receipts WHERE action_id = ?", (row.aggregate,)))
    assert_named(journal.verify(), "row", f"receipt {row.aggregate}")


def test_removed_names_row(journal: Journal) -> None:
    """A key that was set free again is named: it could be fired a second time."""
    row = journal.row("action.committed")
    journal.edit(("DELETE FROM names WHERE aggregate_id = ?", (row.aggregate,)))
    assert_named(journal.verify(), "name", f"action {row.aggregate}")


def test_renamed_names_row(journal: Journal) -> None:
    """A key that was turned to another action is named."""
    one, other = journal.row("action.committed"), journal.row("action.refused")
    journal.edit(("UPDATE names SET aggregate_id = ? WHERE aggregate_id = ?", (other.aggregate, one.aggregate)))
    assert_named(journal.verify(), "name", f"action {one.aggregate}")


def test_second_action_of_one_key(journal: Journal) -> None:
    """A name that was turned to a second action of the same key, every hash of which is right: the first one is named."""
    first = journal.row("action.committed")
    journal.edit(("DELETE FROM names WHERE aggregate_id = ?", (first.aggregate,)))
    with SQLiteJournal(f"sqlite:///{journal.path}") as opened:
        action = opened.load_action(UUID(first.aggregate))
        opened.append(GatedAction.intend(uuid4(), action.intent, action.created_on))
    assert_named(journal.verify(), "name", f"action {first.aggregate}")


def test_journal_of_another_id(journal: Journal) -> None:
    """Events that were moved into a journal of another id are no events of that journal."""
    journal.edit(("UPDATE journal SET log = 'urn:uuid:00000000-0000-4000-8000-000000000000'", ()))
    assert_named(journal.verify(), "chain", journal.rows()[0].place)


@pytest.mark.parametrize(
    ("onto", "event"),
    [
        ("committed", "dispatched"),
        ("committed", "claimed"),
        ("refused", "committed"),
        ("refused", "ambiguous"),
        ("ambiguous", "dispatched"),
    ],
)
def test_event_appended_by_hand(journal: Journal, onto: str, event: str) -> None:
    """An event with every hash right that no gate could have written there is named."""
    aggregate = journal.row(f"action.{onto}").aggregate
    given = journal.row(f"action.{event}")
    row = journal.append(aggregate, given.topic, given.state)
    assert_named(journal.verify(), "legality", row.place)


@pytest.mark.parametrize("rebuilt", [False, True], ids=["rows left", "rows rebuilt"])
def test_deleted_tail(journal: Journal, rebuilt: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """A tail that was cut off shows in the rows; once these are made to fit, only somebody outside can know: `unknown`."""
    row = journal.row("action.ambiguous")
    journal.edit(("DELETE FROM stored_events WHERE position >= ?", (row.position,)))
    if rebuilt:
        _rebuild(journal)
    found = journal.verify()
    assert found.completeness == "unknown"
    assert found.valid is rebuilt
    if not rebuilt:
        assert_named(found, "row", f"receipt {row.aggregate}")


def _rebuild(journal: Journal) -> None:
    with SQLiteJournal(f"sqlite:///{journal.path}") as opened:
        opened.rebuild_summaries()


@pytest.mark.parametrize("columns", [COLUMNS, f"{COLUMNS}, running_hash"])
def test_order_across_aggregates(journal: Journal, columns: str) -> None:
    """Two events of different aggregates that changed places are named, also where each aggregate's own order is left alone."""
    one, other = journal.row("approval.granted", 0), journal.row("approval.granted", 1)
    _swap(journal, one, other, columns)
    found = journal.verify()
    assert any(finding.place.startswith(f"position {one.position}") for finding in found.findings), found.findings


def test_edited_running_hash(journal: Journal) -> None:
    """A running hash that was edited is named."""
    row = journal.row("action.claimed")
    journal.edit(("UPDATE stored_events SET running_hash = ? WHERE position = ?", (bytes(32), row.position)))
    found = journal.verify()
    assert any(finding.place.startswith(f"position {row.position}") for finding in found.findings), found.findings


ODD = ["", "x", -1, 1.5, 2**62, b"\xff", "ü", "interlock.action.\ud7ff", "0" * 32]
PLACES = {"stored_events": "position = 3", "names": "digest IN (SELECT max(digest) FROM names)", "receipts": "status = 'REFUSED'"}


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize(
    "column",
    [
        *(f"stored_events.{name}" for name in ("position", "running_hash", *COLUMNS.split(", "))),
        *(f"names.{name}" for name in ("kind", "digest", "aggregate_id")),
        *(f"receipts.{name}" for name in ("action_id", "version", "status", "subject", "intended_at")),
    ],
)
def test_odd_value(journal: Journal, column: str, value: object) -> None:
    """Whatever somebody puts in the place of a value, `verify` answers with a finding, and never with a traceback."""
    table, _, name = column.partition(".")
    try:
        journal.edit((f"UPDATE {table} SET {name} = ? WHERE {PLACES[table]}", (value,)))  # noqa: S608 - the cases above
    except sqlite3.IntegrityError:
        return  # the database itself refuses this type
    assert not journal.verify().valid


def test_state_set_to_null(journal: Journal) -> None:
    """A state that was taken away is named: nothing in this log says that it was erased."""
    row = journal.row("action.intended")
    journal.edit(("UPDATE stored_events SET state = NULL WHERE position = ?", (row.position,)))
    assert_named(journal.verify(), "state", row.place)


# --- with the triggers in place


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE stored_events SET state = x'00' WHERE position = 1",
        "UPDATE stored_events SET position = 1000 WHERE position = 1",
        "UPDATE stored_events SET state = NULL WHERE position = 1",
        "DELETE FROM stored_events WHERE position = (SELECT max(position) FROM stored_events)",
        "DELETE FROM stored_events",
        "INSERT OR REPLACE INTO stored_events SELECT * FROM stored_events WHERE position = 1",
        f"REPLACE INTO stored_events SELECT 99, {COLUMNS}, running_hash FROM stored_events",  # noqa: S608 - as above
        "INSERT INTO stored_events SELECT * FROM stored_events WHERE position = 1 ON CONFLICT DO UPDATE SET topic = 'x'",
        "UPDATE names SET aggregate_id = 'x'",
        "DELETE FROM names",
        "INSERT OR REPLACE INTO names SELECT kind, digest, 'x' FROM names",
        "UPDATE journal SET log = 'x'",
        "DELETE FROM journal",
        "INSERT INTO journal SELECT 'x', created_at FROM journal",
    ],
)
def test_database_refuses(journal: Journal, statement: str) -> None:
    """History is append-only in the database as well: every way to change it is refused, and the journal stays valid (I9)."""
    with closing(sqlite3.connect(journal.path, isolation_level=None)) as connection:
        with pytest.raises(sqlite3.IntegrityError, match="interlock: "):
            connection.execute(statement)
        assert connection.execute("SELECT count(*) FROM stored_events").fetchone()[0] == len(journal.rows())
    assert journal.verify().valid


@pytest.mark.parametrize("value", ["ON", "OFF"])
@pytest.mark.parametrize("pragma", ["recursive_triggers", "foreign_keys", "defer_foreign_keys", "writable_schema"])
def test_database_refuses_whatever_the_editor_sets(journal: Journal, pragma: str, value: str) -> None:
    """No setting of an editor's connection opens the log to INSERT OR REPLACE."""
    with closing(sqlite3.connect(journal.path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA {pragma}={value}")
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute("INSERT OR REPLACE INTO stored_events SELECT * FROM stored_events WHERE position = 1")
    assert journal.verify().valid

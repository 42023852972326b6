"""A journal that a superuser of its PostgreSQL database edited with the triggers off: `verify` names the place."""

# ruff: noqa: S608  # what is put into statements comes from this file, or from the journal that it made

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from uuid import UUID

import psycopg
import pytest
from psycopg import sql

from harness.postgres.databases import Databases, with_database
from interlock import Receipts
from interlock.domain.records import leaf_hash, record, running_hash, state_digest
from interlock.infrastructure.postgres.journal import PostgresJournal
from interlock.infrastructure.recording import StoredRow
from interlock.projections.verification import Verification
from tests.integration.processes import Nursery
from tests.integration.shared_ledger import Kind, World
from tests.integration.test_tampering import approve, assert_named, fire_and_die

ORIGINAL = "tampering_original"
LATE = 2
"""So many events of the original have no position yet."""
_numbers = count(1)


@dataclass
class Journal:
    """A copy of a journal, to be edited."""

    url: str

    def edit(self, *statements: str) -> None:
        """Do as one likes."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SET session_replication_role = replica")
            connection.execute("SET search_path = interlock")
            for statement in statements:
                assert connection.execute(statement.encode()).rowcount > 0, f"nothing was edited by {statement}"

    def rows(self) -> list[StoredRow]:
        """Return the log."""
        with PostgresJournal(self.url) as journal:
            return [*journal.rows(), *journal.rows_without_position()]

    def row(self, topic: str, which: int = 0) -> StoredRow:
        """Return one of the rows with this topic."""
        return [row for row in self.rows() if row.topic == f"interlock.{topic}"][which]

    def verify(self) -> Verification:
        """Verify as an outsider does."""
        with Receipts.open(self.url) as receipts:
            return receipts.verify()


def place(row: StoredRow) -> str:
    """Return the place as `verify` names it."""
    at = f"position {row.position}" if row.position is not None else "no position yet"
    return f"{at}, event {row.version} of {row.aggregate_id}"


def is_row(row: StoredRow) -> str:
    """Return the condition that finds an event."""
    return f"originator_id = '{row.aggregate_id}' AND originator_version = {row.version}"


@pytest.fixture(scope="module")
def original(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A journal with two committed actions, a refused one and an ambiguous one, and an approval without positions."""
    world = World(tmp_path_factory.mktemp("original"), Kind.FUNCTION, journal_url=databases.create(ORIGINAL))
    with world.gate() as gate:
        for case in ("first", "second", "refused", "ambiguous"):
            approve(gate, case)
        gate.revoke("refused", by="user:2")
        for case in ("first", "second", "refused"):
            gate.fire(case, world.payout(case), approval=case)
    with Nursery() as nursery:
        assert nursery.start(fire_and_die, world, "ambiguous").ended() == -9
    with world.gate() as gate:
        gate.fire("ambiguous", world.payout("ambiguous"), approval="ambiguous", wait_s=30)
        assert {receipt.status for receipt in gate.receipts().receipts} == {"COMMITTED", "REFUSED", "AMBIGUOUS"}
        assert gate._driver.journal.sequence() > 0
        approve(gate, "late")
        gate.revoke("late", by="user:2")
        assert gate.verify().valid
    yield world.url
    databases.drop(ORIGINAL)


@pytest.fixture
def journal(original: str, databases: Databases) -> Iterator[Journal]:
    """A copy of it, for one test."""
    name = f"tampered_{next(_numbers)}"
    with psycopg.connect(databases.url, autocommit=True) as connection:
        # A copy waits for everybody to leave, also for those who are just being shown out.
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(sql.Identifier(name), sql.Identifier(ORIGINAL))
        )
    yield Journal(with_database(original, name))
    databases.drop(name)


def test_untouched_journal_is_valid(journal: Journal) -> None:
    """What nobody edited verifies, with its events in their order, and those that have no position yet at the end."""
    found, rows = journal.verify(), journal.rows()
    assert (found.valid, found.events) == (True, len(rows))
    assert [row.position for row in rows] == [*range(1, len(rows) - LATE + 1), *[None] * LATE]


@pytest.mark.parametrize("topic", ["action.intended", "action.dispatched", "action.committed", "approval.granted"])
def test_changed_byte_of_state(journal: Journal, topic: str) -> None:
    """One byte of a state differs: its event is named."""
    row = journal.row(topic)
    at = len(row.state or b"") // 2
    journal.edit(f"UPDATE stored_events SET state = set_byte(state, {at}, get_byte(state, {at}) # 1) WHERE {is_row(row)}")
    assert_named(journal.verify(), "state", place(row))


def test_changed_event_without_a_position(journal: Journal) -> None:
    """What the sequencer has not come to is checked as well."""
    row = journal.row("approval.revoked", 1)
    assert row.position is None
    journal.edit(f"UPDATE stored_events SET state = '{{}}' WHERE {is_row(row)}")
    assert_named(journal.verify(), "state", place(row))


def test_changed_amount_with_its_digest(journal: Journal) -> None:
    """Who edits the state and corrects the digest beside it breaks the record's hash."""
    row = journal.row("action.intended")
    _set_state(journal, row, leaf=row.leaf_hash)
    assert_named(journal.verify(), "chain", place(row))


def test_changed_event_with_its_hashes(journal: Journal) -> None:
    """Who corrects the record's hash as well breaks the next event of the same aggregate, and the order of all."""
    row, following = journal.row("action.intended"), journal.row("action.claimed")
    assert row.aggregate_id == following.aggregate_id
    edited = (row.state or b"").replace(b"2000", b"9000")
    with PostgresJournal(journal.url) as opened:
        log = opened.log_id
    header = record(
        log=log, aggregate_id=UUID(row.aggregate_id), version=1, topic=row.topic, state=state_digest(edited), prev=None
    )
    _set_state(journal, row, leaf=leaf_hash(header))
    found = journal.verify()
    assert_named(found, "chain", place(following))
    assert_named(found, "position", place(row))


def _set_state(journal: Journal, row: StoredRow, leaf: bytes) -> None:
    edited = (row.state or b"").replace(b"2000", b"9000")
    assert edited != row.state
    digest = state_digest(edited)
    values = f"state = '\\x{edited.hex()}', state_digest = '\\x{digest.hex()}', leaf_hash = '\\x{leaf.hex()}'"
    journal.edit(f"UPDATE stored_events SET {values} WHERE {is_row(row)}")


def test_retyped_topic(journal: Journal) -> None:
    """An event that was given another type is named, although its state was not touched."""
    row = journal.row("action.refused")
    journal.edit(f"UPDATE stored_events SET topic = 'interlock.action.ambiguous' WHERE {is_row(row)}")
    assert_named(journal.verify(), "chain", place(row))


@pytest.mark.parametrize("columns", ["state", "state_digest", "leaf_hash", "topic", "state, state_digest, leaf_hash"])
def test_swap_between_actions(journal: Journal, columns: str) -> None:
    """What was swapped between events of two actions is named at both."""
    one, other = journal.row("action.committed"), journal.row("action.refused")
    taken = ", ".join(f"o.{column}" for column in columns.split(", "))
    journal.edit(
        f"UPDATE stored_events e SET ({columns}) = ROW({taken}) FROM stored_events o WHERE "
        f"({_at('e', one)} AND {_at('o', other)}) OR ({_at('e', other)} AND {_at('o', one)})"
    )
    assert {place(one), place(other)} <= {finding.place for finding in journal.verify().findings}


def _at(alias: str, row: StoredRow) -> str:
    return f"{alias}.originator_id = '{row.aggregate_id}' AND {alias}.originator_version = {row.version}"


def test_swap_within_an_action(journal: Journal) -> None:
    """Two events of one action that changed versions are named."""
    one, other = journal.row("action.intended"), journal.row("action.claimed")
    journal.edit(
        f"UPDATE stored_events SET originator_version = -1 WHERE {is_row(one)}",
        f"UPDATE stored_events SET originator_version = {one.version} WHERE {is_row(other)}",
        f"UPDATE stored_events SET originator_version = {other.version} "
        f"WHERE originator_id = '{one.aggregate_id}' AND originator_version = -1",
    )
    assert not journal.verify().valid
    assert any(one.aggregate_id in finding.place for finding in journal.verify().findings)


def test_swapped_positions(journal: Journal) -> None:
    """Two events of different aggregates that changed places are named, also where each aggregate's own order is left alone."""
    one, other = journal.row("approval.granted", 0), journal.row("approval.granted", 1)
    journal.edit(
        f"UPDATE positions SET position = -position WHERE position IN ({one.position}, {other.position})",
        f"UPDATE positions SET position = {one.position} + {other.position} + position WHERE position < 0",
    )
    found = journal.verify()
    assert any(finding.place.startswith(f"position {one.position}") for finding in found.findings), found.findings


def test_swapped_positions_with_their_hashes(journal: Journal) -> None:
    """Who computes the running hashes again from there on leaves no trace but what somebody outside has kept of them."""
    one, other = journal.row("approval.granted", 0), journal.row("approval.granted", 1)
    swap = {one.position: other, other.position: one}
    statements, running = [], None
    for row in journal.rows():
        if row.position is None:
            break
        there = swap.get(row.position, row)
        running = running_hash(running, there.leaf_hash)
        statements.append(
            "INSERT INTO positions SELECT "
            f"{row.position}, originator_id, originator_version, commit_order, arrival, '\\x{running.hex()}' "
            f"FROM stored_events WHERE {is_row(there)}"
        )
    journal.edit("DELETE FROM positions", *statements)
    assert journal.verify().completeness == "unknown"


@pytest.mark.parametrize("of", ["stored_events", "positions", "both"])
def test_removed_middle_event(journal: Journal, of: str) -> None:
    """A removed event, a removed place, or both: where it stood is named."""
    row, tables = journal.row("action.claimed"), ("stored_events", "positions")
    journal.edit(*(f"DELETE FROM {table} WHERE {is_row(row)}" for table in tables if of in (table, "both")))
    assert_named(journal.verify(), "position", f"position {row.position}")


def test_removed_middle_event_closed_up(journal: Journal) -> None:
    """Who closes the gaps in the positions and in the versions after a removal breaks the chain."""
    row = journal.row("action.claimed")
    after = f"originator_id = '{row.aggregate_id}' AND originator_version > {row.version}"
    closing = [f"DELETE FROM {table} WHERE {is_row(row)}" for table in ("stored_events", "positions")]
    for table in ("stored_events", "positions"):
        closing += [
            f"UPDATE {table} SET originator_version = -originator_version WHERE {after}",
            f"UPDATE {table} SET originator_version = -originator_version - 1 WHERE originator_version < 0",
        ]
    closing += [
        f"UPDATE positions SET position = -position WHERE position > {row.position}",
        "UPDATE positions SET position = -position - 1 WHERE position < 0",
    ]
    journal.edit(*closing)
    found = journal.verify()
    assert any(finding.kind.value == "chain" and row.aggregate_id in finding.place for finding in found.findings)


def test_removed_action(journal: Journal) -> None:
    """An action that was removed with all its events leaves its name, its row and its places, which are named."""
    row = journal.row("action.refused")
    journal.edit(f"DELETE FROM stored_events WHERE originator_id = '{row.aggregate_id}'")
    found = journal.verify()
    assert_named(found, "name", f"action {row.aggregate_id}")
    assert_named(found, "row", f"receipt {row.aggregate_id}")
    assert_named(found, "position", f"position {row.position}")


def test_an_event_that_the_sequencer_will_pass_over(journal: Journal) -> None:
    """An event that was put before those that have a position can never get one: followers have passed it, and it is named."""
    row = journal.row("approval.revoked", 1)
    journal.edit(f"UPDATE stored_events SET commit_order = 1 WHERE {is_row(row)}")
    found = journal.verify()
    assert_named(found, "position", place(row))


def test_an_event_that_was_moved_for_followers(journal: Journal) -> None:
    """The order in which followers read is not hashed; where it differs from the positions, that is named."""
    row = journal.row("action.committed")
    journal.edit(f"UPDATE stored_events SET commit_order = commit_order - 1 WHERE {is_row(row)}")
    assert_named(journal.verify(), "position", f"position {row.position}")


@pytest.mark.parametrize("rebuilt", [False, True], ids=["rows left", "rows rebuilt"])
def test_deleted_tail(journal: Journal, rebuilt: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """A tail that was cut off shows in the rows; once these are made to fit, only somebody outside can know: `unknown`."""
    row = journal.row("action.ambiguous")
    last = f"(SELECT commit_order FROM stored_events WHERE {is_row(row)})"
    journal.edit(
        f"DELETE FROM positions WHERE position >= {row.position}",
        f"DELETE FROM stored_events WHERE commit_order >= {last}",
    )
    if rebuilt:
        journal.edit("DELETE FROM names WHERE aggregate_id NOT IN (SELECT originator_id FROM stored_events)")
        with PostgresJournal(journal.url) as opened:
            opened.rebuild_summaries()
    found = journal.verify()
    assert found.completeness == "unknown"
    assert found.valid is rebuilt
    if not rebuilt:
        assert_named(found, "row", f"receipt {row.aggregate_id}")


@pytest.mark.parametrize(
    ("change", "named"),
    [("status = 'REFUSED'", "status"), ("amount_minor = 1", "amount_minor"), ("key = 'x'", "key"), ("via = NULL", "via")],
)
def test_changed_receipt_row(journal: Journal, change: str, named: str) -> None:
    """A receipt row that was edited is named, with the column, and events that are right are not."""
    row = journal.row("action.committed")
    journal.edit(f"UPDATE receipts SET {change} WHERE action_id = '{row.aggregate_id}'")
    (finding,) = journal.verify().findings
    assert (finding.kind.value, finding.place) == ("row", f"receipt {row.aggregate_id}")
    assert named in finding.words


@pytest.mark.parametrize(
    ("statement", "kind", "of"),
    [
        ("DELETE FROM receipts WHERE action_id = '{0}'", "row", "receipt"),
        ("DELETE FROM names WHERE aggregate_id = '{0}'", "name", "action"),
        ("UPDATE names SET aggregate_id = gen_random_uuid() WHERE aggregate_id = '{0}'", "name", "action"),
    ],
)
def test_removed_row(journal: Journal, statement: str, kind: str, of: str) -> None:
    """A key that was set free could be fired a second time; a row that is missing hides an action. Both are named."""
    row = journal.row("action.committed")
    journal.edit(statement.format(row.aggregate_id))
    assert_named(journal.verify(), kind, f"{of} {row.aggregate_id}")


def test_journal_of_another_id(journal: Journal) -> None:
    """Events that were moved into a journal of another id are no events of that journal."""
    journal.edit("UPDATE journal SET log = 'urn:uuid:00000000-0000-4000-8000-000000000000'")
    assert_named(journal.verify(), "chain", place(journal.rows()[0]))


_ODD = {
    "stored_events": {
        "originator_id": ["gen_random_uuid()"],
        "originator_version": ["0", "-1", "2147483647"],
        "topic": ["''", "'x'", "'interlock.action.\u00fc'", "repeat('\"', 3)"],
        "state": ["NULL", "''", "'\\xff'", "'[]'"],
        "state_digest": ["''", "'\\xff'"],
        "leaf_hash": ["''", "'\\xff'"],
        "commit_order": ["-9223372036854775808", "0"],
    },
    "positions": {
        "position": ["-1", "0", "9223372036854775807"],
        "originator_id": ["gen_random_uuid()"],
        "originator_version": ["0", "-1"],
        "commit_order": ["-1", "9223372036854775807"],
        "running_hash": ["''", "'\\xff'"],
    },
    "names": {"kind": ["''", "'x'"], "digest": ["''"], "aggregate_id": ["gen_random_uuid()"]},
    "receipts": {
        "action_id": ["gen_random_uuid()"],
        "version": ["-1"],
        "status": ["''"],
        "attention": ["NOT attention"],
        "intended_at": ["'infinity'", "'-infinity'", "'4713-01-01 BC'", "'294276-12-31'"],
        "claim_expires_at": ["'infinity'"],
    },
}
_WHERE = {
    "stored_events": "topic = 'interlock.action.refused'",
    "positions": "position = 3",
    "names": "digest IN (SELECT max(digest) FROM names)",
    "receipts": "status = 'REFUSED'",
}


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [(table, column, value) for table, columns in _ODD.items() for column, values in columns.items() for value in values],
)
def test_odd_value(journal: Journal, table: str, column: str, value: str) -> None:
    """Whatever somebody puts in the place of a value, `verify` answers with a finding, and never with a traceback."""
    journal.edit(f"UPDATE {table} SET {column} = {value} WHERE {_WHERE[table]}")
    assert not journal.verify().valid

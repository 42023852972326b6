"""Where the contract tests keep their journals: each runs on a file, and on a schema of a PostgreSQL database."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from harness.postgres.databases import Databases
from tests import gates
from tests.journals import PostgresJournals, present

_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
_ON_POSTGRES = {
    "test_approvals",
    "test_bad_configuration",
    "test_bad_input",
    "test_closing_the_door",
    "test_crash_everywhere",
    "test_erasure",
    "test_functions",
    "test_invariants",
    "test_invariants_of_the_record",
    "test_receipts",
    "test_recovery_table",
    "test_resolution",
    "test_rules",
}
"""What asks most of a journal. The others run on PostgreSQL among the long tests."""
_CASES_ON_POSTGRES = 6
_CRASHES_ON_POSTGRES = 2
"""Of one test, so many cases run on PostgreSQL among the quick tests, spread over all of them; each crash test has hundreds."""

_ASYNC_CRASHES = {"nothing", "keys", "lookup", "keys-burn", "keys-lookup-burn-roll-unknown"}
"""The profiles with which the async gate is killed everywhere in the quick tests."""
_ASYNC_SCHEDULES = 0
"""Of the random schedules, those that the async gate plays in the quick tests begin with this seed."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that has a journal on both kinds, unless it says that it is about SQLite's, and with both gates."""
    if "journal_kind" not in metafunc.fixturenames:
        return
    kinds = [pytest.param("sqlite", "sync", id="sqlite"), pytest.param("sqlite", "async", id="sqlite-async")]
    if metafunc.definition.get_closest_marker("sqlite_only") is None:
        quick = metafunc.definition.path.stem in _ON_POSTGRES
        kinds.append(pytest.param("postgres", "sync", id="postgres", marks=[] if quick else [pytest.mark.long]))
        kinds.append(pytest.param("postgres", "async", id="postgres-async", marks=[pytest.mark.long]))
    metafunc.parametrize(("journal_kind", "gate_kind"), kinds)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave most crashes of the async gate to the long tests: it runs the same protocol, and an event loop for every call."""
    for item in items:
        given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if given.get("gate_kind") != "async":
            continue
        file = item.path.stem
        left = file == "test_crash_everywhere" and given.get("profile") not in _ASYNC_CRASHES
        if left or (file == "test_random_schedules" and given.get("start") != _ASYNC_SCHEDULES):
            item.add_marker(pytest.mark.long)
    _sample(items)


def _sample(items: list[pytest.Item]) -> None:
    """Leave most cases of a test to the long ones: they differ in what the provider does, and not in what the journal does."""
    cases: dict[tuple[Path, str], list[pytest.Item]] = {}
    for item in items:
        given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if given.get("journal_kind") == "postgres" and item.get_closest_marker("long") is None:
            cases.setdefault((item.path, item.name.partition("[")[0]), []).append(item)
    for (path, _), case in cases.items():
        most = _CRASHES_ON_POSTGRES if path.stem == "test_crash_everywhere" else _CASES_ON_POSTGRES
        wanted = min(most, len(case))
        kept = {index * len(case) // wanted for index in range(wanted)}
        for index, item in enumerate(case):
            if index not in kept:
                item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def journal_database(databases: Databases) -> Iterator[str]:
    """A database for the journals of all contract tests, each in a schema of its own."""
    name = f"contract_{uuid4().hex}"
    yield databases.create(name)
    databases.drop(name)


@pytest.fixture
def folder(journal_kind: str, gate_kind: str, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder in memory where there is one: a killed process loses nothing there either, and nobody waits for a disk."""
    with gates.present.use(gate_kind), tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        if journal_kind == "sqlite":
            yield Path(name)
            return
        journals = PostgresJournals(request.getfixturevalue("journal_database"))
        with present.use(journals):
            yield Path(name)
        journals.drop()

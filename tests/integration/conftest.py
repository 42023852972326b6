"""The Stripe stand-in as the tests of the target share it, and journals whose log is signed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
import stripe

from harness.postgres.databases import Databases
from harness.standins.stripe.client import StripeStandIn
from harness.standins.stripe.sdk import connect
from harness.temporal.server import TemporalServer
from tests.integration.processes import Nursery
from tests.journals import Journals, PostgresJournals, SQLiteJournals
from tests.log_stage import Stage

if TYPE_CHECKING:
    from tests.integration.temporal_desk import Desk


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Where processes come from."""
    with Nursery() as one:
        yield one


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StripeStandIn]:
    """One stand-in for the whole module; every test makes payments of its own."""
    with StripeStandIn(tmp_path_factory.mktemp("stripe") / "ledger.jsonl") as running:
        yield running


@pytest.fixture
def healthy(standin: StripeStandIn) -> Iterator[None]:
    """Whatever a test did to the stand-in is over when it ends."""
    yield
    standin.release()
    standin.reset_faults()


@pytest.fixture(scope="module")
def client(standin: StripeStandIn) -> stripe.StripeClient:
    """The SDK, to set up and to look from outside."""
    return connect(standin)


@pytest.fixture
def desk(
    temporal_server: TemporalServer,
    standin: StripeStandIn,
    client: stripe.StripeClient,
    healthy: None,  # noqa: ARG001 - what a test did to the stand-in is over when it ends
    tmp_path: Path,
) -> Iterator[Desk]:
    """A support desk on the Temporal server that is shared."""
    from tests.integration.temporal_desk import Desk

    with Desk(temporal_server.address, standin, client, tmp_path) as one:
        yield one


@pytest.fixture(scope="session")
def log_database(databases: Databases) -> Iterator[str]:
    """A database for journals whose log is signed, each in a schema of its own."""
    name = f"log_{uuid4().hex}"
    yield databases.create(name)
    databases.drop(name)


@pytest.fixture(params=["sqlite", "postgres"])
def logged_journals(request: pytest.FixtureRequest) -> Iterator[Journals]:
    """Both kinds of journal."""
    if request.param == "sqlite":
        yield SQLiteJournals()
        return
    made = PostgresJournals(request.getfixturevalue("log_database"))
    yield made
    made.drop()


@pytest.fixture
def stage(logged_journals: Journals, tmp_path: Path) -> Iterator[Stage]:
    """A journal, and a key that signs its log."""
    made = Stage(logged_journals, tmp_path)
    yield made
    made.close()

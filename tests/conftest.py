"""Set-up shared by all tests: no proxy for local servers, and Hypothesis profiles with a seed that can be repeated."""

import os
import random
import sys
from collections.abc import Iterator
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

from harness.postgres.databases import GIVEN_URL_VARIABLE, Databases
from harness.postgres.server import PostgresServer
from harness.temporal.server import TemporalServer, TemporalUnavailable
from tests.heartbeat import Heartbeat
from tests.servers import IN_CI, start_server

_LOCAL = "127.0.0.1,localhost"

# The SDKs honour proxies from the environment, and would send a request for a local stand-in there.
for _name in ("NO_PROXY", "no_proxy"):
    os.environ[_name] = ",".join(filter(None, (os.environ.get(_name), _LOCAL)))

# No deadlines: tests assert no timings, and a busy machine is not a bug.
_QUIET = (HealthCheck.too_slow,)
settings.register_profile("dev", deadline=None, suppress_health_check=_QUIET)
settings.register_profile("ci", deadline=None, suppress_health_check=_QUIET, print_blob=True, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if IN_CI else "dev"))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed that Hypothesis starts from in CI, where no database of failures is kept; let long tests be heard of."""
    # xdist hands the options on, so every worker gets the seed that is printed below.
    if IN_CI and config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(random.SystemRandom().getrandbits(32))
    if sys.__stderr__ is not None:
        config.pluginmanager.register(Heartbeat(os.dup(sys.__stderr__.fileno())))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the seed, so that a failure seen in CI can be repeated."""
    seed = config.getoption("hypothesis_seed", None)
    if seed is not None:
        terminalreporter.write_line(f"Hypothesis seed: repeat with --hypothesis-seed={seed}")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server, shared by the tests of one xdist worker. A test that kills a server starts its own."""
    with start_server() as server:
        yield server


@pytest.fixture(scope="session")
def databases(request: pytest.FixtureRequest) -> Databases:
    """Where tests create databases: in the server that the environment names, or else in one of our own."""
    given = os.environ.get(GIVEN_URL_VARIABLE)
    if given:
        return Databases(given)
    server = request.getfixturevalue("postgres")
    assert isinstance(server, PostgresServer)
    return server.databases


@pytest.fixture
def postgres_url(databases: Databases) -> Iterator[str]:
    """The URL of a fresh, empty database; it is dropped after the test."""
    name = f"test_{uuid4().hex}"
    yield databases.create(name)
    databases.drop(name)


@pytest.fixture(scope="session")
def temporal_server() -> Iterator[TemporalServer]:
    """A Temporal server, shared by the tests of one xdist worker. A test that kills a server starts its own."""
    try:
        server = TemporalServer.start()
    except TemporalUnavailable as missing:
        if IN_CI:
            raise
        pytest.skip(str(missing))
    with server:
        yield server

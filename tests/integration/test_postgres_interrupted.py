"""A signal's handler may raise at any moment: the gate's connections to PostgreSQL are all there afterwards, and can be used."""

import gc
import sys
from pathlib import Path
from types import ModuleType

import pytest

from interlock.infrastructure.postgres import connections, statements
from tests.integration.shared_ledger import Kind, World
from tests.integration.test_interrupted import Interrupted, Interrupting, on_its_own_thread


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a connection that was cleared away closes itself
@pytest.mark.parametrize(("module", "function"), [(connections, "lend"), (statements, "_prepare")], ids=["lend", "prepare"])
@on_its_own_thread
def test_the_pool_serves_on_wherever_a_fire_was_interrupted(
    module: ModuleType, function: str, postgres_url: str, tmp_path: Path
) -> None:
    """No place is lost, which would be waited for for ever, and no session is kept that can't run what it is asked."""
    world = World(tmp_path, Kind.KEYS, journal_url=postgres_url)
    world.approve(uses=1000, cap_minor=10**7)
    moment, interrupted = 0, True
    with world.gate() as gate:
        pool = gate._driver.journal._connections  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue] # PostgreSQL's
        places = pool._places.qsize()
        while interrupted:
            moment += 1
            key, interrupting = f"key-{moment}", Interrupting(function, moment, str(module.__file__))
            if module is statements:
                pool._discard_idle()  # or nothing would be prepared any more
            sys.settrace(interrupting.trace)
            try:
                gate.fire(key, world.payout(key), approval="case-1")
            except Interrupted:
                pass
            finally:
                sys.settrace(None)
            interrupted = interrupting.raised
            assert pool._places.qsize() >= places
            assert type(gate.fire(key, world.payout(key), approval="case-1")).__name__ == "Committed"
    gc.collect()  # here, where its warning is expected
    assert moment > 5
    assert sorted(line["case"] for line in world.effects()) == sorted(f"key-{number}" for number in range(1, moment + 1))

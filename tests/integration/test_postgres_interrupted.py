"""A signal's handler may raise at any moment: the gate's connections to PostgreSQL are all there afterwards, and can be used."""

from pathlib import Path
from types import ModuleType

import pytest

from interlock.infrastructure.postgres import connections, statements
from tests.integration.shared_ledger import Kind, World
from tests.interrupting import assert_one_effect_each, every_moment, on_its_own_thread


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a connection that was cleared away closes itself
@pytest.mark.parametrize(("module", "function"), [(connections, "lend"), (statements, "_prepare")], ids=["lend", "prepare"])
@on_its_own_thread
def test_the_pool_serves_on_wherever_a_fire_was_interrupted(
    module: ModuleType, function: str, postgres_url: str, tmp_path: Path
) -> None:
    """No place is lost, which would be waited for for ever, and no session is kept that can't run what it is asked."""
    world = World(tmp_path, Kind.KEYS, journal_url=postgres_url)
    world.approve(uses=1000, cap_minor=10**7)
    moment = 0
    with world.gate() as gate:
        pool = gate._driver.journal._connections  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue] # PostgreSQL's
        places = pool._places.qsize()
        for moment, interrupting in every_moment(function, str(module.__file__)):
            key = f"key-{moment}"
            if module is statements:
                pool._discard_idle()  # or nothing would be prepared any more
            with interrupting:
                gate.fire(key, world.payout(key), approval="case-1")
            assert pool._places.qsize() >= places
            assert type(gate.fire(key, world.payout(key), approval="case-1")).__name__ == "Committed"
    assert moment > 5
    assert_one_effect_each(world, moment)

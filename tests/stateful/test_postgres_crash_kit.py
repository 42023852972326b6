"""The crash kit on PostgreSQL: the same schedules come to the same ends as in memory."""

import psycopg
import pytest

from harness.crash_test import simulated
from interlock.errors import InvalidConfiguration
from interlock.testing import PROFILES, CrashTest, SimulatedProvider, SimulatedTarget, TargetLies

QUICK = ("nothing", "keys-burn", "keys-lookup-stale-roll-known", "keys-lookup-burn-roll-unknown")
SCHEDULES, LONG = 25, 400


def schemas(url: str) -> set[str]:
    """Return the schemas that are not PostgreSQL's own."""
    with psycopg.connect(url) as connection:
        listed = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_|^information_schema$|^public$'")
        return {str(row[0]) for row in listed}


@pytest.mark.parametrize("profile", QUICK)
def test_the_same_schedules_come_to_the_same_ends(profile: str, postgres_url: str) -> None:
    """Nothing is found, and step for step, request for request and end for end it is as on SQLite; nothing is left behind."""
    on_postgres = simulated(PROFILES[profile], postgres_url).run(SCHEDULES)
    print(f"{profile}: {on_postgres}")  # noqa: T201 - the counts say what the claim rests on
    assert on_postgres == simulated(PROFILES[profile]).run(SCHEDULES)
    assert min(on_postgres.crashes, on_postgres.sends, on_postgres.effects) > 0
    assert schemas(postgres_url) == set()


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("profile", PROFILES)
def test_no_drawn_schedule_of_many_breaks_an_invariant(profile: str, postgres_url: str) -> None:
    """Many more schedules, over every profile."""
    print(f"{profile}: {simulated(PROFILES[profile], postgres_url).run(LONG, seed=1_000_000)}")  # noqa: T201 - as above


def test_hypothesis_finds_nothing_either(postgres_url: str) -> None:
    """The same steps as a Hypothesis state machine."""
    case = simulated(PROFILES["keys-lookup-burn"], postgres_url).as_test_case(schedules=15, steps=10)
    case("test_crash_schedules").debug()


class Liar(SimulatedTarget):
    """A target that takes a time-out for a request that was never sent."""

    def _send(self, *args: object, **more: object) -> object:  # type: ignore[override] # pyright: ignore[reportIncompatibleMethodOverride] # all of them are handed on
        from interlock import NotSent

        try:
            return super()._send(*args, **more)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] # as above
        except OSError:
            return NotSent("it could not be reached")


def test_what_is_found_is_shortened_and_told(postgres_url: str) -> None:
    """A lie is found on this journal too, with a schedule that shows it; and nothing is left behind."""
    crash_test = CrashTest(
        world=lambda clock: SimulatedProvider(clock, PROFILES["keys-lookup"]),
        target=Liar,
        effect=lambda _provider, target: target.transfer(2000),
        journal_url=postgres_url,
    )
    with pytest.raises(TargetLies) as found:
        crash_test.run(200)
    assert "tx_1" in str(found.value)
    assert "The schedule:" in str(found.value)
    assert schemas(postgres_url) == set()


@pytest.mark.parametrize("url", ["sqlite:///journal.db", "mysql://h/d", ""])
def test_only_a_postgresql_database_can_be_named(url: str) -> None:
    """What a schedule is played on is emptied again and again: no journal of a user's own may be meant."""
    with pytest.raises(InvalidConfiguration, match="in memory"):
        simulated(PROFILES["keys"], url).run(1)


def test_a_journal_of_the_users_own_is_not_touched(postgres_url: str) -> None:
    """Also where the URL names its schema."""
    from interlock import Gate

    url = f"{postgres_url}{'&' if '?' in postgres_url else '?'}schema=mine"
    with Gate.open(url) as gate:
        gate.approve("case-1", by="user:1", expires_in_s=60)
        simulated(PROFILES["keys"], url).run(3)
        assert gate.verify().events == 1
    assert schemas(postgres_url) == {"mine"}

"""A holder is stopped between Dispatched and its write, outlives its claim, is recovered to Refused by others, and wakes up."""

import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.errors import OutcomeNotRecorded
from tests.integration.processes import Line, Nursery, Steps, Worker, profiled, stop_myself
from tests.integration.shared_ledger import ARRIVAL, WRITE, Kind, World, do_at, nowhere
from tests.integration.zombies import APPEND, MARGIN_S, SAMPLES, all_asleep, approve, sample

pytestmark = pytest.mark.xdist_group("zombies")

DEADLINE_S = 1.0
"""Long enough to come to the stop on a busy machine, and under a profile."""


def world_of(folder: Path, kind: Kind) -> World:
    """Return a world whose claims run out soon."""
    return World(folder, kind, claim_ttl_s=DEADLINE_S + MARGIN_S, send_deadline_s=DEADLINE_S)


def count_steps(line: Line, world: World) -> tuple[int, int]:
    """Fire under a profile, and return how many steps there are from Dispatched to the send's arrival, and to its write."""
    del line
    steps, seen = Steps(APPEND), {}

    def note(place: str) -> None:
        seen[place] = steps.count

    with world.gate(note) as gate:
        approve(gate, "count")
        with profiled(steps):
            gate.fire("count", world.payout("count"), approval="count")
    return seen[ARRIVAL], seen[WRITE]


def fire_and_stop(line: Line, world: World, key: str, step: int | None, place: str) -> str:
    """Fire, and be stopped at a step after Dispatched or at a place of the provider's; return what came of it."""
    del line
    with world.gate(do_at(place, stop_myself) if place else nowhere) as gate, profiled(Steps(APPEND, step)):
        try:
            return type(gate.fire(key, world.payout(key), approval=key)).__name__
        except OutcomeNotRecorded:
            return OutcomeNotRecorded.__name__


@dataclass
class Zombie:
    """A worker that is stopped, and what it was to do."""

    key: str
    worker: Worker

    def wake(self) -> str:
        """Let it go on, and return what came of it."""
        self.worker.signal(signal.SIGCONT)
        said = str(self.worker.result())
        self.worker.ended()
        return said


def stopped_zombies(nursery: Nursery, world: World, stops: list[tuple[int | None, str]]) -> list[Zombie]:
    """Start one worker for each stop, and wait until all are stopped; then take their approvals back."""
    with world.gate() as gate:
        for n in range(len(stops)):
            approve(gate, f"key-{n}")
    zombies = [
        Zombie(f"key-{n}", nursery.start(fire_and_stop, world, f"key-{n}", step, place)) for n, (step, place) in enumerate(stops)
    ]
    for zombie in zombies:
        assert zombie.worker.stopped()
    assert world.effects() == []
    with world.gate() as gate:
        for zombie in zombies:
            assert gate.receipt(zombie.key).status == "IN_FLIGHT"
            gate.revoke(zombie.key, by="user:2")
    return zombies


def recover_all(world: World, zombies: list[Zombie]) -> set[str]:
    """Let another worker bring every action to its end, once their claims have run out; return the names of the outcomes."""
    with world.gate() as gate:
        ends = {type(gate.fire(z.key, world.payout(z.key), approval=z.key, wait_s=60)).__name__ for z in zombies}
    assert world.effects() == []
    return ends


def at_steps(total: int, samples: int, seed: int) -> list[tuple[int | None, str]]:
    """Return the sample as stops."""
    return [(step, "") for step in sample(total, samples, seed)]


@pytest.fixture(scope="module", params=SAMPLES)
def samples(request: pytest.FixtureRequest) -> int:
    """How many steps between the first and the last ones are tried."""
    return int(request.param)


@pytest.fixture(scope="module", autouse=True)
def _all_asleep(request: pytest.FixtureRequest, samples: int) -> None:
    all_asleep(request, samples, ["burning", "checked", "in_the_window", "function"])


Asleep = tuple[World, list[Zombie]]


@pytest.fixture(scope="module")
def burning(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory, samples: int) -> Asleep:
    """Zombies before a provider that burns, stopped anywhere before the write."""
    world = world_of(tmp_path_factory.mktemp("burning"), Kind.BURNING)
    _, write = nursery.run(count_steps, world)
    world.ledger.unlink()
    return world, stopped_zombies(nursery, world, [*at_steps(write, samples, seed=1), (None, ARRIVAL), (None, WRITE)])


@pytest.fixture(scope="module")
def checked(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory, samples: int) -> list[Asleep]:
    """Zombies before providers that do not burn, stopped anywhere before the last check, and right behind it."""
    worlds = []
    for kind in (Kind.KEYS, Kind.NO_KEYS):
        world = world_of(tmp_path_factory.mktemp(kind.name), kind)
        arrival, _ = nursery.run(count_steps, world)
        world.ledger.unlink()
        stops = [*at_steps(arrival, samples, seed=2), (None, ARRIVAL), (None, WRITE)]
        worlds.append((world, stopped_zombies(nursery, world, stops)))
    return worlds


@pytest.fixture(scope="module")
def in_the_window(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Asleep:
    """One that was stopped right before its write, and whose approval still stands."""
    world = world_of(tmp_path_factory.mktemp("window"), Kind.NO_KEYS)
    world.approve("key-0")
    worker = nursery.start(fire_and_stop, world, "key-0", None, WRITE)
    assert worker.stopped()
    return world, [Zombie("key-0", worker)]


@pytest.fixture(scope="module")
def function(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory, samples: int) -> Asleep:
    """Zombies before a plain function, stopped anywhere before the last check, and at its first line."""
    world = world_of(tmp_path_factory.mktemp("function"), Kind.FUNCTION)
    arrival, _ = nursery.run(count_steps, world)
    world.ledger.unlink()
    # The last steps lie between the gate's last check and the function's first line: there the function acts.
    late = 5
    stops = [*at_steps(arrival - late, samples, seed=3), (None, ARRIVAL), (None, WRITE)]
    return world, stopped_zombies(nursery, world, stops)


def test_burned_key_lets_nothing_land(burning: Asleep) -> None:
    """With burning, a zombie's send does not land, wherever it was stopped: also between its last check and its write."""
    world, zombies = burning
    assert recover_all(world, zombies) == {"Refused"}
    assert {zombie.wake() for zombie in zombies} == {"Refused"}
    assert world.effects() == []
    with world.gate() as gate:
        assert gate.verify().valid
        for zombie in zombies:
            refusal = gate.receipt(zombie.key).refusal
            assert refusal is not None
            assert refusal.door == "burned"


def test_last_check_stops_a_zombie(checked: list[Asleep]) -> None:
    """Without burning, only a zombie that was stopped between its last check and its write lands; and then it is told, loudly."""
    for world, zombies in checked:
        assert recover_all(world, zombies) == {"Refused"}
        *before, late = zombies
        assert {zombie.wake() for zombie in before} == {"Refused"}
        assert world.effects() == []
        assert late.wake() == "OutcomeNotRecorded"
        assert len(world.effects()) == 1, "if nothing landed, docs/residual-risk.md claims too little"
        with world.gate() as gate:
            assert gate.verify().valid


def test_window_that_makes_two(in_the_window: Asleep) -> None:
    """Without keys, a zombie that was stopped in the window lands behind the new send, if that was still allowed; and is told."""
    world, (zombie,) = in_the_window
    with world.gate() as gate:
        assert type(gate.fire("key-0", world.payout("key-0"), approval="key-0", wait_s=60)).__name__ == "Committed"
    assert len(world.effects()) == 1
    said = zombie.wake()
    assert len(world.effects()) == 2, "if one landed, docs/residual-risk.md claims too little"
    assert said == "OutcomeNotRecorded"


def test_function_is_never_refused_behind_a_zombies_back(function: Asleep) -> None:
    """Where nobody can look, an action whose holder is out of reach is AMBIGUOUS; a zombie that acts all the same corrects it."""
    world, zombies = function
    assert recover_all(world, zombies) == {"Ambiguous"}
    *before, arrived, in_the_window = zombies
    assert {zombie.wake() for zombie in before} == {"Ambiguous"}
    assert world.effects() == []
    assert arrived.wake() == in_the_window.wake() == "Committed"
    with world.gate() as gate:
        committed = {receipt.key for receipt in gate.receipts(status="COMMITTED").receipts} - {"count"}
        assert {line["case"] for line in world.effects()} == committed == {arrived.key, in_the_window.key}
        assert gate.verify().valid

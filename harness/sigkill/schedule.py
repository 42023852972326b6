"""Schedules: everything that a run decides by chance, drawn from a seed before anything starts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from harness.standins.stripe.faults import FaultKind

WORKERS = 4
CURRENCY = "usd"
PAYMENT_MINOR = 10_000
SEND_DEADLINE_S = 2.0
CLAIM_TTL_S = 8.0
SETTLE_S = 2.0
ROLL_FORWARD_S = 30.0
DAY_S = 86_400

_HIDDEN_S = 1.2
"""How long a fault holds a request back at the most: less than `SETTLE_S`, which is what the provider promises."""


class Point(StrEnum):
    """Where a worker dies."""

    BEFORE_READ = "before_read"
    BEFORE_SEND = "before_send"
    IN_SEND = "in_send"
    AFTER_ANSWER = "after_answer"
    BEFORE_LOOKUP = "before_lookup"
    AFTER_LOOKUP = "after_lookup"
    BEFORE_BURN = "before_burn"
    AFTER_BURN = "after_burn"
    DELAY = "delay"
    """At no named point: some time after its first job began, so also inside a commit."""


@dataclass(frozen=True, slots=True)
class Death:
    """When one life of a worker ends.

    Args:
        point: where.
        nth: at which passage of that point, from 1.
        after_s: how long after it, for `IN_SEND` and `DELAY`.
    """

    point: Point
    nth: int = 1
    after_s: float = 0.0

    def __str__(self) -> str:
        return f"{self.point} #{self.nth}" + (f" +{self.after_s * 1000:.1f} ms" if self.after_s else "")


class Verb(StrEnum):
    """What a job does."""

    FIRE = "fire"
    RECOVER = "recover"
    REVOKE = "revoke"


@dataclass(frozen=True, slots=True)
class Job:
    """One thing that a worker does.

    Args:
        verb: what.
        case: the index of the case.
        key: the action's, where one is fired.
        wait_s: for how long to go on while the answer is InFlight, in seconds.
        meeting: the meeting at which another worker waits, so that both begin at once.
    """

    verb: Verb
    case: int = 0
    key: str = ""
    wait_s: float = 0.0
    meeting: str = ""

    def __str__(self) -> str:
        about = {Verb.FIRE: self.key, Verb.REVOKE: f"case-{self.case}", Verb.RECOVER: "everything"}[self.verb]
        return f"{self.verb} {about}" + (f" at {self.meeting}" if self.meeting else "")


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker's jobs, and the deaths that it dies one after another; the life after the last one ends by itself."""

    jobs: tuple[Job, ...]
    deaths: tuple[Death, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A payment, its approval, and the actions that are fired under it.

    Args:
        amount_minor: what each of them refunds.
        uses: how many of them the approval is for.
        keys: theirs.
        expires_in_s: how long it holds.
        covered: for how many of them its cap has the money: at fewer than its uses, only the sum can refuse one.
    """

    amount_minor: int
    uses: int
    keys: tuple[str, ...]
    expires_in_s: int
    covered: int = 1

    @property
    def cap_minor(self) -> int:
        """What the approval covers."""
        return self.amount_minor * self.covered


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that strikes the next request which it matches."""

    kind: FaultKind
    method: str = "POST"
    path_prefix: str = "/v1/refunds"
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"arm {self.kind} for {self.method} {self.path_prefix}" + (f", {self.seconds:.2f} s" if self.seconds else "")


@dataclass(frozen=True, slots=True)
class HandRefund:
    """A person refunds at the dashboard."""

    case: int
    amount_minor: int

    def __str__(self) -> str:
        return f"refund {self.amount_minor} of case-{self.case} by hand"


@dataclass(frozen=True, slots=True)
class Happening:
    """What the world does, and when, counted from the first worker's start."""

    at_s: float
    what: Fault | HandRefund


@dataclass(frozen=True, slots=True)
class Profile:
    """What the target may rely on."""

    keys: bool = True
    lookup: bool = True
    burn: bool = True
    roll_forward_s: float | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """One schedule."""

    seed: int
    profile: Profile
    cases: tuple[Case, ...]
    workers: tuple[Worker, ...]
    happenings: tuple[Happening, ...]
    jump_s: float = field(default=120.0)
    """How far the clocks are moved once the faults have stopped."""

    def steps(self) -> Iterator[str]:
        """Say what is going to happen, a line each."""
        yield f"seed {self.seed}: {self.profile}, then the clocks are moved by {self.jump_s:g} s"
        for number, case in enumerate(self.cases):
            yield f"case-{number}: {case}"
        for slot, worker in enumerate(self.workers):
            yield f"worker {slot}: {'; '.join(map(str, worker.jobs))}"
            yield f"  dies {', then '.join(map(str, worker.deaths)) or 'never'}"
        for one in self.happenings:
            yield f"at {one.at_s:.2f} s: {one.what}"


def draw(seed: int) -> Schedule:
    """Draw the schedule of a seed."""
    chance = random.Random(seed)
    cases = tuple(_case(chance, number) for number in range(chance.randint(2, 4)))
    return Schedule(
        seed,
        chance.choice(_PROFILES),
        cases,
        _workers(chance, cases),
        tuple(sorted(_happenings(chance, cases), key=lambda one: one.at_s)),
        chance.choice((120.0, 120.0, 25 * 3600.0)),
    )


_PROFILES = (
    Profile(),
    Profile(),
    Profile(roll_forward_s=ROLL_FORWARD_S),
    Profile(roll_forward_s=ROLL_FORWARD_S, burn=False),
    Profile(burn=False),
    Profile(lookup=False),
    # Without keys nothing but the horizon keeps a second send from doing it twice: the profile that shows most.
    Profile(roll_forward_s=ROLL_FORWARD_S, keys=False, burn=False),
    Profile(roll_forward_s=ROLL_FORWARD_S, keys=False, burn=False),
)


def _case(chance: random.Random, number: int) -> Case:
    keys = tuple(f"case-{number}/{letter}" for letter in "ab"[: chance.choice((1, 1, 2))])
    uses = chance.choice((1, 1, 2))
    return Case(chance.randrange(1000, 3000), uses, keys, chance.choice((7 * DAY_S, 7 * DAY_S, 3600)), chance.randint(1, uses))


def _workers(chance: random.Random, cases: tuple[Case, ...]) -> tuple[Worker, ...]:
    lists: list[list[Job]] = [[] for _ in range(WORKERS)]
    actions = [(number, key) for number, case in enumerate(cases) for key in case.keys]
    for number, key in actions:
        together = chance.random() < 0.6
        for slot in chance.sample(range(WORKERS), 2 if together else 1):
            meeting = f"meeting-{key.replace('/', '-')}" if together else ""
            lists[slot].append(Job(Verb.FIRE, number, key, chance.choice((0.0, 0.5)), meeting))
    for jobs in lists:
        jobs.extend(Job(Verb.FIRE, *chance.choice(actions)) for _ in range(chance.randint(1, 3)))
        if chance.random() < 0.7:
            jobs.insert(chance.randint(0, len(jobs)), Job(Verb.RECOVER))
        if chance.random() < 0.2:
            jobs.insert(chance.randint(0, len(jobs)), Job(Verb.REVOKE, chance.randrange(len(cases))))
    return tuple(Worker(tuple(jobs), tuple(_death(chance) for _ in range(chance.randint(1, 3)))) for jobs in lists)


def _death(chance: random.Random) -> Death:
    # Sends come up in every life; burns and lookups only in some, so a death there is often one that does not come.
    often = (Point.BEFORE_SEND, Point.IN_SEND, Point.AFTER_ANSWER, Point.DELAY)
    point = chance.choice((*Point, *often, *often))
    if point is Point.IN_SEND:
        return Death(point, chance.choice((1, 1, 2)), chance.uniform(0, 0.02))
    if point is Point.DELAY:
        return Death(point, 1, chance.uniform(0, 0.25))
    return Death(point, chance.choice((1, 1, 2)))


def _happenings(chance: random.Random, cases: tuple[Case, ...]) -> Iterator[Happening]:
    for _ in range(chance.randint(3, 8)):
        yield Happening(chance.choice((0.0, chance.uniform(0, 1.5))), _fault(chance))
    for _ in range(chance.choice((0, 0, 1, 2))):
        number = chance.randrange(len(cases))
        # Below our amount it is compatible, from there on a duplicate, and what is left may be too little.
        yield Happening(chance.uniform(0, 1.5), HandRefund(number, chance.choice((500, cases[number].amount_minor, 8000))))


def _fault(chance: random.Random) -> Fault:
    kind = chance.choice(
        (
            FaultKind.DROP_BEFORE_COMMIT,
            FaultKind.DROP_AFTER_COMMIT,
            FaultKind.RESET_BEFORE_ANSWER,
            FaultKind.ERROR_500_NO_EFFECT,
            FaultKind.ERROR_500_WITH_EFFECT,
            FaultKind.HOLD,
            FaultKind.RATE_LIMIT,
            FaultKind.HTML_502,
            # What takes effect later than anybody looks is what recovery is most easily wrong about.
            *((FaultKind.DELAY_LANDING, FaultKind.ERROR_500_ROLL_FORWARD) * 2),
        )
    )
    if kind in (FaultKind.HOLD, FaultKind.DELAY_LANDING):
        return Fault(kind, seconds=chance.uniform(0.1, _HIDDEN_S))
    if kind is FaultKind.ERROR_500_ROLL_FORWARD:
        return Fault(kind, seconds=chance.uniform(0.1, ROLL_FORWARD_S))
    if kind in (FaultKind.DROP_BEFORE_COMMIT, FaultKind.RATE_LIMIT, FaultKind.HTML_502):
        where = chance.choice((("POST", "/v1/refunds"), ("GET", "/v1/refunds"), ("POST", "/v1/payment_intents")))
        return Fault(kind, *where)
    return Fault(kind)

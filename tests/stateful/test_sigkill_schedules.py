"""Four processes on one journal, killed with SIGKILL by seed; the provider's ledger says what became of every action."""

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from harness.sigkill import Counts, GateKind, Schedule, draw, play
from harness.sigkill.judge import Record, record_of, violations
from harness.sigkill.play import open_cases
from harness.sigkill.schedule import Case, Job, Point, Profile, Verb, Worker
from harness.sigkill.worker import live
from harness.standins.stripe.client import StripeStandIn
from harness.standins.stripe.ledger import refunds_of
from interlock.infrastructure.clock import WallDeadline

NORMAL, NORMAL_ON_POSTGRES, NORMAL_ASYNC, LONG = 8, 4, 4, 300


def play_all(seeds: range, database: str | None = None, gates: GateKind = GateKind.SYNC) -> Counts:
    """Play a schedule for each seed; the first one that shows a violation raises, with its seed and steps."""
    counts = Counts()
    for seed in seeds:
        counts.add(play(draw(seed), database, gates))
    print(f"seeds {seeds.start} to {seeds.stop - 1}", *map(": ".join, counts.lines()), sep="\n")  # noqa: T201 - shown where it fails
    return counts


def test_same_seed_same_schedule() -> None:
    """A seed names one schedule, so a failure can be repeated."""
    assert draw(7) == draw(7)
    assert draw(7) != draw(8)


def test_some_approvals_have_money_for_fewer_actions_than_uses() -> None:
    """There it is the sum that refuses the second action, and not the count."""
    cases = [case for seed in range(100) for case in draw(seed).cases]
    assert any(len(case.keys) > 1 and case.cap_minor < case.amount_minor * case.uses for case in cases)


def test_killed_workers_send_once_and_lose_nothing() -> None:
    """However four workers are killed: one refund at most for an action, none lost, every receipt agrees with the ledger."""
    # The seed is drawn anew for every run, and printed where the run fails; SIGKILL_SEED repeats it.
    seed = int(os.environ.get("SIGKILL_SEED") or random.SystemRandom().randrange(1_000_000))
    counts = play_all(range(seed, seed + NORMAL))
    assert counts.schedules == NORMAL
    assert counts.restarts > 0, "nobody was killed: the schedules test nothing"
    assert counts.endings["COMMITTED"] > 0, "nothing was refunded: the schedules test nothing"


def test_killed_workers_send_once_and_lose_nothing_on_postgres(postgres_url: str) -> None:
    """The same where the journal is a database, and every worker's lock a session of it."""
    seed = int(os.environ.get("SIGKILL_SEED") or random.SystemRandom().randrange(1_000_000))
    counts = play_all(range(seed, seed + NORMAL_ON_POSTGRES), postgres_url)
    assert counts.restarts > 0, "nobody was killed: the schedules test nothing"
    assert counts.endings["COMMITTED"] > 0, "nothing was refunded: the schedules test nothing"


def test_killed_workers_send_once_and_lose_nothing_with_the_async_gate() -> None:
    """The same where every worker has an `AsyncGate`, whose sends are made by threads."""
    seed = int(os.environ.get("SIGKILL_SEED") or random.SystemRandom().randrange(1_000_000))
    counts = play_all(range(seed, seed + NORMAL_ASYNC), gates=GateKind.ASYNC)
    assert counts.restarts > 0, "nobody was killed: the schedules test nothing"
    assert counts.endings["COMMITTED"] > 0, "nothing was refunded: the schedules test nothing"


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("gates", GateKind)
@pytest.mark.parametrize("journal", ["sqlite", "postgres"])
def test_three_hundred_schedules(journal: str, gates: GateKind, request: pytest.FixtureRequest) -> None:
    """300 schedules: no double send, no lost action, every receipt agrees with the ledger; every kind of death occurs."""
    counts = play_all(range(LONG), request.getfixturevalue("postgres_url") if journal == "postgres" else None, gates)
    assert counts.schedules == LONG
    assert counts.kills.keys() == set(Point)


@pytest.fixture(scope="module")
def fair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Record]:
    """The record of one refund that was carried out as it should be."""
    folder = tmp_path_factory.mktemp("fair")
    case = Case(2000, 1, ("case-0/a",), 3600)
    schedule = Schedule(0, Profile(), (case,), (Worker((Job(Verb.FIRE, 0, "case-0/a"),), ()),), ())
    with StripeStandIn(folder / "ledger.jsonl") as standin:
        site = open_cases(schedule, folder, standin)
        live(site, 0, schedule.workers[0].jobs, None)
        yield record_of(site, 1)


def only(found: Iterator[str]) -> str:
    """Return what was found, which is one thing."""
    (one,) = found
    return one


def test_judge_accepts_what_is_right(fair: Record) -> None:
    """One refund, COMMITTED, told as such: nothing is found."""
    assert list(violations(fair)) == []
    assert [receipt.status for receipt in fair.receipts.values()] == ["COMMITTED"]


def test_judge_sees_a_double_send(fair: Record) -> None:
    """Two refunds with one mark are found, also as more than the approval covers."""
    twice = replace(fair, refunds={mark: refunds * 2 for mark, refunds in fair.refunds.items()})
    found = "\n".join(violations(twice))
    assert "refunded 2 times" in found
    assert "case-0 allows 1 of 2000" in found


def test_judge_sees_a_lost_action(fair: Record) -> None:
    """An action of which the journal knows nothing is found: by its refund's mark, and by what a worker was told."""
    found = "\n".join(violations(replace(fair, receipts={})))
    assert "the mark of an action that the journal lost" in found
    assert "was told COMMITTED of case-0/a, which the journal lost" in found
    without_refund = "\n".join(violations(replace(fair, receipts={}, refunds={}, log=fair.log[:1], left_minor=[2000])))
    assert "worker-0 began case-0/a" in without_refund


@pytest.mark.parametrize(("point", "is_found"), [(Point.BEFORE_SEND, True), (Point.AFTER_BURN, True), (Point.BEFORE_READ, False)])
def test_judge_sees_an_action_that_was_lost_before_its_send(fair: Record, point: Point, is_found: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Whoever dies behind the first commit leaves an action; with nothing sent, the death alone says that there was one."""
    begun = next(line for line in fair.log if line["what"] == "begin")
    died = {**begun, "what": "dying", "death": f"{point} #1"}
    lost = replace(fair, receipts={}, refunds={}, log=[begun, died], left_minor=[2000])
    assert bool(list(violations(lost))) is is_found


@pytest.mark.parametrize("recorded", [True, False], ids=["and its record", "alone"])
@pytest.mark.parametrize("wrong", [{"amount": 1999}, {"payment": "pi_other"}], ids=["amount", "payment"])
def test_judge_sees_another_refund_than_was_decided(fair: Record, wrong: dict[str, Any], recorded: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Another amount or payment is found, also where the gate's own record says the same."""
    refunds = {mark: [replace(one, **wrong) for one in refunds] for mark, refunds in fair.refunds.items()}
    names = {"amount": "amount_minor", "payment": "subject"}
    said = {names[name]: value for name, value in wrong.items()} if recorded else {}
    receipts = {key: replace(receipt, **said) for key, receipt in fair.receipts.items()}
    assert "and what was refunded is" in "\n".join(violations(replace(fair, refunds=refunds, receipts=receipts)))


def test_judge_sees_evidence_of_another_refund(fair: Record) -> None:
    """A receipt that names another refund than the ledger's is found."""
    refunds = {mark: [replace(one, refund="re_other") for one in refunds] for mark, refunds in fair.refunds.items()}
    assert "has not re_other as its evidence" in only(violations(replace(fair, refunds=refunds)))


def test_a_provider_without_keys_dedupes_nothing(tmp_path: Path) -> None:
    """Where the profile has no keys, two sends of one action are two refunds: nobody but the gate keeps them from happening."""
    case = Case(2000, 1, ("case-0/a",), 3600)
    schedule = Schedule(0, Profile(keys=False, burn=False), (case,), (), ())
    with StripeStandIn(tmp_path / "ledger.jsonl") as standin:
        site = open_cases(schedule, tmp_path, standin)
        target, payment = site.refunds(), site.cases[0].payment
        effect = target.refund(payment=payment, amount_minor=2000, currency="usd")
        for _ in range(2):
            target.send(effect, action_id=UUID(int=1), idempotency_key="il-1", deadline=WallDeadline(20))
        assert [refund.amount for refund in refunds_of(standin.ledger_path, payment)] == [2000, 2000]


def test_judge_sees_a_commit_without_a_refund(fair: Record) -> None:
    """COMMITTED with nothing in the ledger is found."""
    assert "is COMMITTED, and the ledger has 0 refunds" in only(violations(replace(fair, refunds={})))


@pytest.mark.parametrize("status", ["REFUSED", "IN_FLIGHT"])
def test_judge_sees_a_wrong_status(fair: Record, status: str) -> None:
    """REFUSED with a refund in the ledger is found, as is an action that never ends."""
    wrong = {key: replace(receipt, status=status) for key, receipt in fair.receipts.items()}
    found = "\n".join(violations(replace(fair, receipts=wrong)))
    assert f"case-0/a is {status}" in found
    assert f"was told COMMITTED of case-0/a, which is {status}" in found


def test_judge_sees_a_process_that_raised(fair: Record) -> None:
    """An error that a worker may not meet is found."""
    raised = {"who": "worker-0", "pid": 1, "at": 0, "what": "raised", "key": "k", "error": "OutcomeNotRecorded", "words": "w"}
    assert "worker-0 met OutcomeNotRecorded" in only(violations(replace(fair, log=[*fair.log, raised])))

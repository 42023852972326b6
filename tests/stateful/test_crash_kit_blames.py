"""Targets that lie are blamed for it, each kind of lie as that, and neither the gate nor the model; an honest one is not."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from interlock import (
    Absent,
    Answer,
    BurnAnswer,
    Burned,
    CapabilityProfile,
    Deadline,
    Done,
    Effect,
    Found,
    Judgement,
    LookupAnswer,
    Premise,
    Purpose,
)
from interlock.domain.premises import Facts
from interlock.testing import (
    PROFILES,
    SimulatedTarget,
    TargetLies,
)
from interlock.testing.provider import AccountPremises, Transfer
from tests.crash_kit import MOST, ReadsTimeoutsAsNo, ReadsTimeoutsAsNotSent, crash_test


class ReadsFailedLookupsAsAbsence(SimulatedTarget):
    """Takes a lookup that failed for an absence."""

    def _lookup(self, effect: Effect[Transfer], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        try:
            return super()._lookup(effect, action_id=action_id, deadline=deadline)
        except (TimeoutError, ConnectionError):
            return Absent(self._provider.clock.now())


class StopsAtPageOne(SimulatedTarget):
    """Looks at the first entry of the ledger only."""

    def _lookup(self, effect: Effect[Transfer], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        found = super()._lookup(effect, action_id=action_id, deadline=deadline)
        first = self._provider.ledger()[:1]
        if isinstance(found, Found) and found.evidence.reference not in {entry.reference for entry in first}:
            return Absent(self._provider.clock.now())
        return found


class ForgetsItsDeadline(SimulatedTarget):
    """Sends however late it is."""

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        del deadline
        return super()._send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=Endless())


class Endless:
    """A deadline that never comes."""

    def remaining_s(self) -> float:
        return 60.0


class BurnsNothing(SimulatedTarget):
    """Says that a key is burned, and does nothing about it."""

    def _burn(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> BurnAnswer:
        del effect, action_id, idempotency_key, deadline
        return Burned()


class SendsWithoutKeys(SimulatedTarget):
    """Makes up a key for every send."""

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        del idempotency_key
        return super()._send(effect, action_id=action_id, idempotency_key=str(uuid4()), deadline=deadline)


class SendsUnmarked(SimulatedTarget):
    """Marks every effect with an action id of its own."""

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        del action_id
        return super()._send(effect, action_id=uuid4(), idempotency_key=idempotency_key, deadline=deadline)


class SaysDoneTooEarly(SimulatedTarget):
    """Answers Done without having sent anything."""

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        answer = super()._send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        return Done(replace(answer.evidence, reference="tx_99")) if isinstance(answer, Done) else answer


class TriesAgainUnderAnotherKey(SimulatedTarget):
    """Has a client that tries again by itself, and makes up a key for that."""

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        try:
            return super()._send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        except TimeoutError:
            return super()._send(effect, action_id=action_id, idempotency_key=str(uuid4()), deadline=deadline)


class SendsAHundredth(SimulatedTarget):
    """Takes the amount for one in the major unit, and says nothing about it."""

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        small = replace(effect.parameters, amount_minor=effect.parameters.amount_minor // 100)
        effect = replace(effect, parameters=small)
        return super()._send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)


class LookupFailsWhereThereIsMore(SimulatedTarget):
    """Finds what it sent while that is all there is."""

    def _lookup(self, effect: Effect[Transfer], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        if len(self._provider.ledger()) > 1:
            raise KeyError("page two")
        return super()._lookup(effect, action_id=action_id, deadline=deadline)


class ObservesNow(SimulatedTarget):
    """Can't always be read."""

    _seen = 0

    def _observe(self, subject: str) -> Premise:
        self._seen += 1
        if self._seen % 3 == 0:
            raise OSError("not now")
        return super()._observe(subject)


class FailsOnAnEntry(AccountPremises):
    """Expects what no entry has."""

    def judge(self, decided: Facts, now: Facts, purpose: Purpose) -> Judgement:
        if now["entries"]:
            raise KeyError("who made it")
        return super().judge(decided, now, purpose)


class HasAPolicyThatFails(SimulatedTarget):
    """Has a policy that can't judge its own effect."""

    policy = FailsOnAnEntry()


LYING_TARGETS: list[type[SimulatedTarget]] = [
    TriesAgainUnderAnotherKey,
    SendsAHundredth,
    LookupFailsWhereThereIsMore,
    ObservesNow,
    HasAPolicyThatFails,
    ReadsTimeoutsAsNo,
    ReadsTimeoutsAsNotSent,
    ReadsFailedLookupsAsAbsence,
    StopsAtPageOne,
    ForgetsItsDeadline,
    BurnsNothing,
    SendsWithoutKeys,
    SendsUnmarked,
    SaysDoneTooEarly,
]


@pytest.mark.parametrize("target", LYING_TARGETS)
def test_target_that_lies_is_reported_as_that(target: type[SimulatedTarget]) -> None:
    """A target whose answers are not so is blamed for it, and never the gate."""
    with pytest.raises(TargetLies):
        crash_test(target).run(MOST)


class TriesAgain(SimulatedTarget):
    """Has a client that tries again by itself, under the same key."""

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        for _ in range(2):
            with suppress(TimeoutError):
                return super()._send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        raise TimeoutError


@pytest.mark.parametrize("profile", ["nothing", "lookup"])
def test_client_that_tries_again_by_itself_is_reported_as_that(profile: str) -> None:
    """What one call of the target carries out twice, where nothing is deduped, is not a double send of the gate's."""
    with pytest.raises(TargetLies, match="its send was called 1 times under one key, and carried out 2 times"):
        crash_test(TriesAgain, profile=PROFILES[profile]).run(MOST)


@pytest.mark.parametrize(
    "claims",
    [
        {"dedupe_window_s": 3 * 86_400.0},
        {"settle_s": 0.0, "roll_forward_s": 0.0},
        {"roll_forward_s": 0.0},
        {"lookup_staleness_s": 0.0},
        {"lookup_staleness_s": None},
    ],
    ids=str,
)
def test_capabilities_that_promise_too_much_are_reported_as_that(claims: dict[str, Any]) -> None:
    """A profile that the provider does not keep is the target's lie: a longer window, a nearer horizon, a fresher lookup."""
    true = PROFILES["keys-lookup-stale-burn-roll-known"]

    class Claims(SimulatedTarget):
        @property
        def capabilities(self) -> CapabilityProfile:
            return replace(true, **claims)

    with pytest.raises(TargetLies):
        crash_test(Claims, profile=true).run(MOST)

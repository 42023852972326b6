"""Lies that only some schedules tell, each in one of those; and what is said of a target that does not work at all."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from interlock import (
    AlreadyUsed,
    Answer,
    BurnAnswer,
    CapabilityProfile,
    DataclassCodec,
    Deadline,
    Declined,
    Done,
    Effect,
    Found,
    KeyState,
    LookupAnswer,
    NotSent,
    Premise,
    Unknown,
    facts_text,
)
from interlock.domain.action import idempotency_key as key_of
from interlock.domain.effects import Scalar
from interlock.domain.premises import Strict
from interlock.testing import (
    PROFILES,
    Arm,
    ArmProvider,
    Call,
    CrashTest,
    Fault,
    Fire,
    GoOn,
    Instant,
    PassTime,
    Place,
    Revoke,
    SimulatedProvider,
    SimulatedTarget,
    TargetLies,
)
from interlock.testing.provider import Transfer
from interlock.testing.world import START
from tests.crash_kit import ALL, MOST, crash_test
from tests.gates import AwaitedTarget


class SendingOf(SimulatedTarget):
    """Makes something else of what its send came to."""

    def made_of(self, answer: Answer) -> Answer:
        return answer

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        answer = super()._send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        return self.made_of(answer)


class SaysThatANoIsStored(SendingOf):
    """Takes every no for one that answers the key's first request."""

    def made_of(self, answer: Answer) -> Answer:
        return replace(answer, replayed=True) if isinstance(answer, Declined) else answer


def test_no_that_is_called_stored_and_is_not_is_reported_as_that() -> None:
    """A no to the second request, told as the answer to the first one, is a lie when the first one lands after all."""
    with pytest.raises(TargetLies, match="it answered Declined, replayed, and tx_1 was carried out under that key all the same"):
        crash_test(SaysThatANoIsStored, profile=PROFILES["keys"]).replay(
            Arm(Call.SEND, Fault.LATE), ArmProvider("says no, and stores nothing"), Fire("A")
        )


class SendsTheTime(SimulatedTarget):
    """Puts the time into what it sends."""

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        stamped = replace(effect.parameters, account=f"{effect.parameters.account} at {self._provider.clock.now()}")
        effect = replace(effect, parameters=stamped)
        return super()._send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)


def test_request_that_is_not_the_same_every_time_is_reported_as_that() -> None:
    """What is sent under one key has to be the same: a provider refuses another request under it, and then nobody can know."""
    with pytest.raises(TargetLies, match="has to be the same every time"):
        crash_test(SendsTheTime, profile=PROFILES["keys"]).run(MOST)


def test_failure_that_is_stored_against_what_was_said_is_reported_as_that() -> None:
    """A provider that replays a stored failure stores failures."""

    class StoresNone(SimulatedTarget):
        @property
        def capabilities(self) -> CapabilityProfile:
            return replace(ALL, stores_failures=False)

    with pytest.raises(TargetLies, match="its capabilities say that failures are not stored"):
        crash_test(StoresNone).replay(ArmProvider("answers 500, and did nothing"), Fire("A"))


class TakesAFailedBurningForAUsedKey(SimulatedTarget):
    """Takes a burning that failed for a key that is used."""

    def _burn(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> BurnAnswer:
        try:
            return super()._burn(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        except ConnectionRefusedError:
            return AlreadyUsed()


def test_key_that_is_called_used_and_is_not_is_reported_as_that() -> None:
    """Who says that a key is used up makes the gate read what is stored under it, and that must carry nothing out."""
    with pytest.raises(TargetLies, match="its burn answered AlreadyUsed"):
        crash_test(TakesAFailedBurningForAUsedKey).replay(
            Arm(Call.SEND, Fault.LOST_REQUEST),
            Fire("A", until=Place("after", "Send")),
            Revoke(),
            Arm(Call.BURN, Fault.REFUSED),
            GoOn("A"),
        )


class LooksItUpByDoingIt(SimulatedTarget):
    """Has a lookup that makes what it does not find."""

    def _lookup(self, effect: Effect[Transfer], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        self._provider.arrive(effect.parameters, action_id, key_of(action_id, 1))
        return super()._lookup(effect, action_id=action_id, deadline=deadline)


class BurnsByDoingIt(SimulatedTarget):
    """Burns a key with the very request that must not be carried out any more."""

    def _burn(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> BurnAnswer:
        if self._provider.ledger() or self._provider.clock.now() > START:
            self._provider.arrive(effect.parameters, action_id, idempotency_key)
        return super()._burn(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)


@pytest.mark.parametrize(("target", "call"), [(LooksItUpByDoingIt, "lookup"), (BurnsByDoingIt, "burn")])
def test_question_that_carries_out_is_reported_as_that(target: type[SimulatedTarget], call: str) -> None:
    """A lookup and a burn are harmless requests."""
    steps = (Arm(Call.SEND, Fault.LOST_REQUEST), Fire("A", until=Place("after", "Send")), Revoke(), PassTime(Instant.DEADLINE))
    with pytest.raises(TargetLies, match=f"its {call} carried tx_1 out"):
        crash_test(target).replay(*steps)


class ChangesItsMind(SimulatedTarget):
    """Promises another window after an hour."""

    @property
    def capabilities(self) -> CapabilityProfile:
        late = self._provider.clock.now() > START + timedelta(hours=1)
        return replace(ALL, dedupe_window_s=3 * 86_400.0) if late else ALL


def test_capabilities_that_change_are_reported_as_that() -> None:
    """What was promised at the send still holds at recovery."""
    with pytest.raises(TargetLies, match="its capabilities changed in the middle of a schedule: dedupe_window_s"):
        crash_test(ChangesItsMind).replay(Fire("A"), PassTime(Instant.APPROVAL))


class SaysThatItIsBeingDone(SendingOf):
    """Takes an answer from memory for a request that is being worked on."""

    def made_of(self, answer: Answer) -> Answer:
        again = isinstance(answer, Done) and answer.evidence.replayed
        return Unknown("it is being worked on", KeyState.IN_PROGRESS) if again else answer


class SaysThatItWasNotSent(SendingOf):
    """Takes an answer from memory for a rate limit."""

    def made_of(self, answer: Answer) -> Answer:
        return NotSent("try later") if isinstance(answer, Done) and answer.evidence.replayed else answer


@pytest.mark.parametrize("target", [SaysThatItIsBeingDone, SaysThatItWasNotSent])
def test_target_that_never_answers_is_reported_as_that(target: type[SimulatedTarget]) -> None:
    """Where faults have stopped, what keeps an action from its end for ever is not the gate."""
    with pytest.raises(TargetLies, match="without any fault its send goes on answering"):
        crash_test(target, profile=PROFILES["keys"]).replay(Arm(Call.SEND, Fault.LOST_ANSWER), Fire("A"))


# --- what it writes down and reads


class ReadsAnotherEffect(DataclassCodec[Transfer]):
    """Loses the amount."""

    def decode(self, values: Mapping[str, Scalar]) -> Transfer:
        return super().decode({**values, "amount_minor": 1})


class ReadsNothing(DataclassCodec[Transfer]):
    """Can't read any more what it wrote."""

    def decode(self, values: Mapping[str, Scalar]) -> Transfer:
        raise ValueError(f"{sorted(values)} of another version")


@pytest.mark.parametrize(
    ("codec", "words"),
    [(ReadsAnotherEffect(Transfer), "another effect would be sent"), (ReadsNothing(Transfer), "can't read back what it wrote")],
    ids=["another", "nothing"],
)
def test_codec_that_does_not_read_what_it_wrote_is_reported_as_that(codec: DataclassCodec[Transfer], words: str) -> None:
    """Recovery has nothing but what the codec reads back: an effect that changes on the way is the target's lie."""

    class Writes(SimulatedTarget):
        pass

    Writes.codec = codec
    with pytest.raises(TargetLies, match=words):
        crash_test(Writes).run(1)


class ObservesTheTime(SimulatedTarget):
    """Has the time among its facts."""

    policy = Strict()  # type: ignore[assignment]  # another policy than its parent's

    def _observe(self, subject: str) -> Premise:
        return replace(super()._observe(subject), facts_json=facts_text({"at": self._provider.clock.now().isoformat()}))


def test_facts_that_are_never_the_same_are_reported_as_that() -> None:
    """Premises that no second reading fulfils let nothing be sent: that is no refusal of the gate's making."""
    with pytest.raises(TargetLies, match="a second after it was observed, and nobody has done anything"):
        crash_test(ObservesTheTime).run(1)


class MakesUpWhatItCantRead(SimulatedTarget):
    """Takes an account that it can't read for an empty one."""

    def _observe(self, subject: str) -> Premise:
        try:
            return super()._observe(subject)
        except ConnectionRefusedError:
            facts = facts_text({"state": "open", "entries": []})
            return Premise(
                target=self.name, subject=subject, facts_json=facts, read_at=self._provider.clock.now(), policy=self.policy.name
            )


def test_premise_that_is_made_up_is_reported_as_that() -> None:
    """A gate that sends on facts that the target made up was lied to, whether they were so or not."""
    with pytest.raises(TargetLies, match="its observe got no answer from the provider, and answered"):
        crash_test(MakesUpWhatItCantRead).replay(Arm(Call.OBSERVE, Fault.REFUSED), Fire("A"))


# --- honest ones


class ReadsAgain(SimulatedTarget):
    """Has a client that tries a read again."""

    def _observe(self, subject: str) -> Premise:
        for _ in range(2):
            with suppress(ConnectionError):
                return super()._observe(subject)
        raise ConnectionRefusedError


def test_client_that_reads_again_is_not_blamed() -> None:
    """A premise that was read at the second try is as good as any."""
    crash_test(ReadsAgain).replay(Arm(Call.OBSERVE, Fault.REFUSED), Fire("A"))


class AlwaysDisagrees(SimulatedTarget):
    """Finds something to object to in every evidence."""

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        answer = super()._send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        return Done(replace(answer.evidence, disagreements=("the currency is xyz",))) if isinstance(answer, Done) else answer

    def _lookup(self, effect: Effect[Transfer], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        found = super()._lookup(effect, action_id=action_id, deadline=deadline)
        return Found(replace(found.evidence, disagreements=("the currency is xyz",))) if isinstance(found, Found) else found


def test_evidence_that_disagrees_in_what_no_ledger_shows_is_not_the_gates_doing() -> None:
    """What the evidence itself calls different stays ambiguous, and nobody is blamed: a ledger entry has no currency."""
    crash_test(AlwaysDisagrees).replay(Fire("A"))


# --- what is said of a target that raises


class HasATypo(SimulatedTarget):
    """Does not work at all."""

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        raise AttributeError(f"no attribute 'provider' for {effect.subject}, {action_id}, {idempotency_key}, {deadline}")


class ReturnsNothing(SimulatedTarget):
    """Forgets to return."""

    def _lookup(self, effect: Effect[Transfer], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        super()._lookup(effect, action_id=action_id, deadline=deadline)
        return None  # type: ignore[return-value]  # that is the mistake


class AwaitedTypo(AwaitedTarget):
    """As `HasATypo`, awaited."""

    async def _send(self, effect: Effect[Any], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        raise AttributeError(f"no attribute 'provider' for {effect.subject}, {action_id}, {idempotency_key}, {deadline}")


@pytest.mark.parametrize(
    ("target", "raised"),
    [
        (HasATypo, "it raised AttributeError: no attribute 'provider'"),
        (ReturnsNothing, "it raised TypeError: None is no answer"),
        (lambda provider: AwaitedTypo(SimulatedTarget(provider)), "it raised AttributeError: no attribute 'provider'"),
    ],
    ids=["typo", "nothing returned", "awaited typo"],
)
def test_what_a_target_raises_is_said_in_full(target: Any, raised: str) -> None:
    """The port keeps the name of an exception alone; who has to mend the target sees what it raised, and where."""
    with pytest.raises(TargetLies, match=raised) as caught:
        CrashTest(
            world=lambda clock: SimulatedProvider(clock, ALL),
            target=target,
            effect=lambda provider, _target: SimulatedTarget(provider).transfer(2000),
        ).run(1)
    assert caught.value.__cause__ is not None

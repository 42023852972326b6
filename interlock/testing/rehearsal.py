"""The rehearsal: without any fault, does the target keep what its capabilities promise, and does the world agree with itself?"""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from interlock.domain.action import idempotency_key
from interlock.domain.answers import (
    AlreadyUsed,
    BurnAnswer,
    Burned,
    CannotTell,
    Declined,
    Done,
    Found,
    LookupAnswer,
    SendAnswer,
    Unknown,
)
from interlock.domain.effects import record_effect
from interlock.domain.ports import Deadline
from interlock.testing.awaited import Ample, Over, in_words, raised_by
from interlock.testing.failures import CrashTestFailure, TargetLies, WorldLies
from interlock.testing.faults import Call
from interlock.testing.honesty import entries_of, misdated
from interlock.testing.journals import Journals
from interlock.testing.setup import Setup
from interlock.testing.stage import Stage
from interlock.testing.world import LedgerEntry


def rehearse(setup: Setup[Any, Any], journals: Journals) -> None:
    """Try the model of the provider, and then the target on it.

    Raises:
        WorldLies: the world contradicts its own ledger.
        TargetLies: the target does not keep what it promises.
    """
    try:
        _rehearse(setup, journals)
    except CrashTestFailure as failure:
        failure.schedule = f"\nIt was found {_WHERE}: run(schedules=1) finds it again.\n"
        raise
    except Exception as error:
        error.add_note(f"raised by the code under test, or by the model of its provider, {_WHERE}")
        raise


_WHERE = "in the rehearsal, without any fault and before the first schedule"


def _rehearse(setup: Setup[Any, Any], journals: Journals) -> None:
    about_the_world = (_apply_is_in_the_ledger, _forgetting_forgets)
    parts = (*about_the_world, _writes_down, _premises_hold, _sends_and_finds, _sends_nothing_too_late, _dedupes, _burns)
    began_with: int | None = None
    for part in parts:
        with Stage(setup, journals) as stage:
            begins_with = len(entries_of(stage.world))
            if began_with not in (None, begins_with):
                raise WorldLies(
                    f"one that was just made has {begins_with} entries, and the first one had {began_with}: it is made anew for "
                    "every schedule, and keeps nothing from the one before"
                )
            began_with = begins_with
            part(stage)


def _apply_is_in_the_ledger(stage: Stage[Any, Any]) -> None:
    """What is carried out is in the ledger, with the mark that it was carried out under."""
    one = uuid4()
    key = idempotency_key(one, 1)
    before = entries_of(stage.world)
    entry = _apply(stage, one)
    added = entries_of(stage.world)[len(before) :]
    if entry is None:
        raise WorldLies(
            "its apply returned None in a fresh world, as for a no, so nothing can be tested: give it an effect that it can "
            "carry out; what a provider accepts and carries out later is in its ledger from the moment it is accepted"
        )
    if added != [entry]:
        has = ", ".join(new.reference for new in added) or "nothing new"
        raise WorldLies(f"it carried {entry.reference} out, and its ledger has {has}")
    if (wrong := misdated(entry, stage.clock.now(), stage.clock.now())) is not None:
        raise WorldLies(wrong)
    if entry.idempotency_key not in (None, key):
        raise WorldLies(
            f"it carried {entry.reference} out, and its ledger has it under another key than the one that it was given"
        )
    if entry.action_id not in (None, one):
        raise WorldLies(f"it carried {entry.reference} out, and its ledger has it under another action_id than it was given")
    if entry.action_id != one and entry.idempotency_key != key:
        raise WorldLies(f"its ledger does not say whose {entry.reference} is: give entries an action_id or an idempotency_key")


def _forgetting_forgets(stage: Stage[Any, Any]) -> None:
    """A key that is known carries nothing out again, and one that was forgotten does, unless there is a no to it by now."""
    one = uuid4()
    if not stage.profile.dedupes:
        return
    _apply(stage, one)
    before = entries_of(stage.world)
    _apply(stage, one)
    if len(entries_of(stage.world)) > len(before):
        raise TargetLies(
            "its capabilities promise a window in which keys are deduped, and the provider's model carries out the same key twice"
        )
    stage.world.forget_key(idempotency_key(one, 1))
    if _apply(stage, one) in before:
        raise WorldLies("it was told to forget a key, and knows it still")


def _writes_down(stage: Stage[Any, Any]) -> None:
    """An effect that was written down is read back as the same one: recovery has nothing else."""
    target = stage.inner
    recorded = record_effect(stage.effect, target.codec, target.version)
    try:
        again = record_effect(recorded.effect(target.codec), target.codec, target.version)
    except Exception as error:
        raise TargetLies(f"its codec can't read back what it wrote: {type(error).__name__}: {error}") from error
    if again != recorded:
        raise TargetLies(
            f"its codec reads {recorded.parameters_json} back as {again.parameters_json}: another effect would be sent than was "
            "decided on"
        )


def _premises_hold(stage: Stage[Any, Any]) -> None:
    """What was observed still holds a moment later, where nobody has done anything."""
    stage.clock.advance(1)
    for reading in stage.read_again():
        if not reading.holds:
            raise TargetLies(
                f"a second after it was observed, and nobody has done anything, its premise policy {reading.policy!r} says "
                f"{reading.state}: {reading.words}; nothing could ever be sent on that"
            )


def _sends_and_finds(stage: Stage[Any, Any]) -> None:
    """A send is carried out, and a lookup finds it where there is one."""
    one, two = uuid4(), uuid4()
    before = entries_of(stage.world)
    answer = _send(stage, one)
    added = entries_of(stage.world)[len(before) :]
    has = ", ".join(entry.reference for entry in added) or "nothing"
    if not isinstance(answer, Done):
        error = _raised_by(stage, Call.SEND, two) if isinstance(answer, Unknown) else None
        raise TargetLies(f"without any fault its send answered {answer}, and the ledger got {has}{in_words(error)}") from error
    if len(added) != 1:
        raise TargetLies(f"it answered Done, and the ledger got {has}")
    if answer.evidence.reference != added[0].reference:
        raise TargetLies(f"it answered Done with {answer.evidence.reference!r}, and the ledger got {has}")
    stage.clock.advance((stage.profile.lookup_staleness_s or 0.0) + 1)
    found = _look_up(stage, one)
    if stage.profile.looks_up and not isinstance(found, Found):
        error = _raised_by(stage, Call.LOOKUP, one) if isinstance(found, CannotTell) else None
        raise TargetLies(f"its capabilities promise a lookup, and it did not find {has}: {found}{in_words(error)}") from error
    if not stage.profile.looks_up and not isinstance(found, CannotTell):
        raise TargetLies("its capabilities say that it has no lookup, and it answers one")
    other = _look_up(stage, two)
    if isinstance(other, Found):
        raise TargetLies(f"its lookup found {other.evidence.reference!r} for an action that was never sent")


def _sends_nothing_too_late(stage: Stage[Any, Any]) -> None:
    """A process may be stopped right before its write, where nobody but the target looks at the deadline again."""
    before = entries_of(stage.world)
    _send(stage, uuid4(), Over())
    if added := entries_of(stage.world)[len(before) :]:
        raise TargetLies(f"it carried {added[0].reference} out, and was called with a deadline that was over")


def _dedupes(stage: Stage[Any, Any]) -> None:
    """The same key again, inside the window, carries nothing out."""
    one = uuid4()
    window_s = stage.profile.dedupe_window_s
    if window_s is None:
        return
    _send(stage, one)
    first = entries_of(stage.world)
    stage.clock.advance(window_s - stage.profile.dedupe_margin_s - 1)
    before = entries_of(stage.world)
    if before[: len(first)] != first:
        raise WorldLies("its ledger had what was sent, and has it no more")
    _send(stage, one)
    if len(entries_of(stage.world)) > len(before):
        raise TargetLies(
            f"its capabilities promise that a key is recognised for {window_s:g} s, and the same key "
            f"was carried out twice inside that time, less the margin"
        )


def _burns(stage: Stage[Any, Any]) -> None:
    """A burned key carries nothing out, and one that was used says so."""
    one, two = uuid4(), uuid4()
    if not stage.profile.burns:
        return
    burned = _burn(stage, one)
    if not isinstance(burned, Burned):
        error = _raised_by(stage, Call.BURN, one) if isinstance(burned, CannotTell) else None
        raise TargetLies(
            f"its capabilities promise that keys can be burned, and a fresh one answered {burned}{in_words(error)}"
        ) from error
    before = entries_of(stage.world)
    answer = _send(stage, one)
    if len(entries_of(stage.world)) > len(before) or isinstance(answer, Done | Declined):
        raise TargetLies(
            f"its capabilities promise that a burned key carries nothing out, and a send under one answered {answer}"
        )
    _send(stage, two)
    used = _burn(stage, two)
    if not isinstance(used, AlreadyUsed):
        raise TargetLies(f"a key that was used answered {used} to its burning")


def _apply(stage: Stage[Any, Any], action_id: UUID) -> LedgerEntry | None:
    entry: Any = stage.world.apply(stage.effect, action_id=action_id, idempotency_key=idempotency_key(action_id, 1))
    if entry is not None and not isinstance(entry, LedgerEntry):
        raise WorldLies(f"its apply returned {type(entry).__name__}, and not the LedgerEntry of what it carried out, or None")
    return entry


def _send(stage: Stage[Any, Any], action_id: UUID, deadline: Deadline | None = None) -> SendAnswer:
    key = idempotency_key(action_id, 1)
    return stage.inner.send(stage.effect, action_id=action_id, idempotency_key=key, deadline=deadline or Ample())


def _look_up(stage: Stage[Any, Any], action_id: UUID) -> LookupAnswer:
    return stage.inner.lookup(stage.effect, action_id=action_id, deadline=Ample())


def _burn(stage: Stage[Any, Any], action_id: UUID) -> BurnAnswer:
    key = idempotency_key(action_id, 1)
    return stage.inner.burn(stage.effect, action_id=action_id, idempotency_key=key, deadline=Ample())


def _raised_by(stage: Stage[Any, Any], call: Call, action_id: UUID) -> Exception | None:
    key = idempotency_key(action_id, 1)
    return raised_by(stage.inner, call, stage.effect, action_id=action_id, idempotency_key=key)

"""The rehearsal: without any fault, does the target keep what its capabilities promise, and does the world agree with itself?"""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

from interlock.domain.action import idempotency_key
from interlock.domain.answers import AlreadyUsed, Burned, CannotTell, Declined, Done, Found
from interlock.testing.failures import TargetLies, WorldLies
from interlock.testing.honesty import misdated
from interlock.testing.journals import Journals
from interlock.testing.stage import Setup, Stage


class _Deadline:
    def remaining_s(self) -> float:
        return 10.0


def rehearse(setup: Setup[Any, Any], journals: Journals) -> None:
    """Try the model of the provider, and then the target on it.

    Raises:
        WorldLies: the world contradicts its own ledger.
        TargetLies: the target does not keep what it promises.
    """
    for rehearsal in (_apply_is_in_the_ledger, _forgetting_forgets, _sends_and_finds, _dedupes, _burns):
        with Stage(setup, journals) as stage:
            rehearsal(stage)


def _apply_is_in_the_ledger(stage: Stage[Any, Any]) -> None:
    """What is carried out is in the ledger, with the mark that it was carried out under."""
    one = uuid4()
    world = stage.world
    before = list(world.ledger())
    entry = world.apply(stage.effect, action_id=one, idempotency_key=idempotency_key(one, 1))
    added = list(world.ledger())[len(before) :]
    if entry is None:
        raise WorldLies(
            "it declines the effect in a fresh world, so nothing can be tested; give it an effect that it can carry out"
        )
    if added != [entry]:
        has = ", ".join(new.reference for new in added) or "nothing new"
        raise WorldLies(f"it carried {entry.reference} out, and its ledger has {has}")
    if (wrong := misdated(entry, stage.clock.now())) is not None:
        raise WorldLies(wrong)
    if entry.idempotency_key not in (None, idempotency_key(one, 1)):
        raise WorldLies(
            f"it carried {entry.reference} out, and its ledger has it under another key than the one that it was given"
        )
    if entry.action_id != one and entry.idempotency_key != idempotency_key(one, 1):
        raise WorldLies(f"its ledger does not say whose {entry.reference} is: give entries an action_id or an idempotency_key")


def _forgetting_forgets(stage: Stage[Any, Any]) -> None:
    """A key that is known carries nothing out again, and one that was forgotten does."""
    one = uuid4()
    world, key = stage.world, idempotency_key(one, 1)
    if not stage.profile.dedupes:
        return
    counts = [len(world.ledger())]
    for forget in (False, False, True):
        if forget:
            world.forget_key(key)
        world.apply(stage.effect, action_id=one, idempotency_key=key)
        counts.append(len(world.ledger()))
    first, again, forgotten = (after - before for before, after in pairwise(counts))
    if first == 1 and again != 0:
        raise TargetLies(
            "its capabilities promise a window in which keys are deduped, and the provider's model carries out the same key twice"
        )
    if forgotten != 1:
        raise WorldLies("it was told to forget a key, and knows it still")


def _sends_and_finds(stage: Stage[Any, Any]) -> None:
    """A send is carried out, and a lookup finds it where there is one."""
    one, two = uuid4(), uuid4()
    answer = _send(stage, one)
    entries = list(stage.world.ledger())
    if not isinstance(answer, Done):
        raise TargetLies(f"without any fault it answered {answer}, and the ledger has {len(entries)} entries")
    if len(entries) != 1:
        raise TargetLies(f"it answered Done, and the ledger has {len(entries)} entries")
    if answer.evidence.reference != entries[0].reference:
        raise TargetLies(f"it answered Done with {answer.evidence.reference!r}, and the ledger has {entries[0].reference!r}")
    stage.clock.advance((stage.profile.lookup_staleness_s or 0.0) + 1)
    found = stage.inner.lookup(stage.effect, action_id=one, deadline=_Deadline())
    if stage.profile.looks_up and not isinstance(found, Found):
        raise TargetLies(f"its capabilities promise a lookup, and it did not find {entries[0].reference}: {found}")
    if not stage.profile.looks_up and not isinstance(found, CannotTell):
        raise TargetLies("its capabilities say that it has no lookup, and it answers one")
    other = stage.inner.lookup(stage.effect, action_id=two, deadline=_Deadline())
    if isinstance(other, Found):
        raise TargetLies(f"its lookup found {other.evidence.reference!r} for an action that was never sent")


def _dedupes(stage: Stage[Any, Any]) -> None:
    """The same key again, inside the window, carries nothing out."""
    one = uuid4()
    window_s = stage.profile.dedupe_window_s
    if window_s is None:
        return
    _send(stage, one)
    stage.clock.advance(window_s - stage.profile.dedupe_margin_s - 1)
    _send(stage, one)
    if not stage.world.ledger():
        raise WorldLies("its ledger had what was sent, and has it no more")
    if len(stage.world.ledger()) != 1:
        raise TargetLies(
            f"its capabilities promise that a key is recognised for {window_s:g} s, and the same key "
            f"was carried out twice inside that time, less the margin"
        )


def _burns(stage: Stage[Any, Any]) -> None:
    """A burned key carries nothing out, and one that was used says so."""
    one, two = uuid4(), uuid4()
    if not stage.profile.burns:
        return
    burned = stage.inner.burn(stage.effect, action_id=one, idempotency_key=idempotency_key(one, 1), deadline=_Deadline())
    if not isinstance(burned, Burned):
        raise TargetLies(f"its capabilities promise that keys can be burned, and a fresh one answered {burned}")
    answer = _send(stage, one)
    if stage.world.ledger() or isinstance(answer, Done | Declined):
        raise TargetLies(
            f"its capabilities promise that a burned key carries nothing out, and a send under one answered {answer}"
        )
    _send(stage, two)
    used = stage.inner.burn(stage.effect, action_id=two, idempotency_key=idempotency_key(two, 1), deadline=_Deadline())
    if not isinstance(used, AlreadyUsed):
        raise TargetLies(f"a key that was used answered {used} to its burning")


def _send(stage: Stage[Any, Any], action_id: UUID) -> Any:
    return stage.inner.send(
        stage.effect, action_id=action_id, idempotency_key=idempotency_key(action_id, 1), deadline=_Deadline()
    )

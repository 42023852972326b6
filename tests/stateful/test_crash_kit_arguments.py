"""What a crash test is made of is checked before anything is played, and what is wrong with it is said in the user's terms."""

from __future__ import annotations

from typing import Any

import pytest

from interlock import CapabilityProfile, Effect, Money, Premise
from interlock.errors import InvalidConfiguration, InvalidEffect
from interlock.testing import CrashTest, SimulatedProvider, SimulatedTarget, WorldClock
from interlock.testing.provider import Transfer
from tests.crash_kit import ALL

HONEST: dict[str, Any] = {
    "world": lambda clock: SimulatedProvider(clock, ALL),
    "target": SimulatedTarget,
    "effect": lambda _world, simulated: simulated.transfer(2000),
}


class NoLedger(SimulatedProvider):
    ledger = None  # type: ignore[assignment]  # that is the mistake


class KindsAsText(SimulatedProvider):
    changes = ("conflicting",)  # type: ignore[assignment]  # as above


class Nameless(SimulatedTarget):
    def __init__(self, provider: SimulatedProvider) -> None:
        super().__init__(provider, name="")


class WithoutCodec(SimulatedTarget):
    codec = None  # type: ignore[assignment]  # as above


class WithAMethod(SimulatedTarget):
    def capabilities(self) -> CapabilityProfile:  # type: ignore[override]  # as above
        return ALL


def of_another(_world: object, _target: object) -> Effect[Transfer]:
    """Return an effect of a target that is not under test."""
    return Effect("another", "acct_1", Transfer("acct_1", 2000), Money(2000, "usd"))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"world": SimulatedProvider(WorldClock(), ALL)}, "world makes the model of the provider .*, and not SimulatedProvider"),
        ({"target": SimulatedTarget(SimulatedProvider(WorldClock(), ALL))}, "target makes the target from the model"),
        ({"effect": 5}, "effect makes an effect from the model and the target"),
        ({"world": lambda _clock: None}, "world made None, which has no method apply, ledger, forget_key"),
        ({"world": lambda clock: NoLedger(clock, ALL)}, "world made NoLedger, which has no method ledger"),
        ({"world": lambda clock: KindsAsText(clock, ALL)}, "the changes of a world are ChangeKinds, and not 'conflicting'"),
        ({"target": lambda _world: None}, "target made None, and no Target or AsyncTarget"),
        ({"target": Nameless}, "Nameless needs a name"),
        ({"target": WithoutCodec}, "WithoutCodec needs a codec"),
        ({"target": WithAMethod}, "as an attribute or a property, and not method"),
        ({"effect": lambda _world, _target: None}, "effect made None, and no Effect"),
        ({"effect": of_another}, "effect made one for the target 'another', and 'simulated' is under test"),
        ({"other_effect": of_another}, "other_effect made one for the target 'another'"),
        ({"other_effect": HONEST["effect"]}, "other_effect made the same effect as effect"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_crash_test_is_made_of_is_checked(wrong: dict[str, Any], words: str) -> None:
    """A mistake in the arguments is told as one, and nobody is blamed for it."""
    given: dict[str, Any] = {**HONEST, **wrong}
    with pytest.raises(InvalidConfiguration, match=words):
        CrashTest(**given).run(1)


class FitsNothing(SimulatedTarget):
    """Finds that no effect fits."""

    def check(self, effect: Effect[Transfer], premises: tuple[Premise, ...]) -> None:
        raise InvalidEffect(f"{effect.subject} fits none of {len(premises)} premises")


def test_effect_that_the_target_itself_refuses_is_not_tested() -> None:
    """A gate asks the target's own check before anything is written; so does a crash test, and says what it said."""
    given: dict[str, Any] = {**HONEST, "target": FitsNothing}
    with pytest.raises(InvalidEffect, match="acct_1 fits none of 1 premises"):
        CrashTest(**given).run(1)

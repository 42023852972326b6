"""What is tested, and in which world: what the user hands over, checked before anything is made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from interlock.domain.effects import Effect, record_effect
from interlock.domain.ports import AsyncTarget, Target
from interlock.domain.premises import ChangeKind
from interlock.domain.profiles import CapabilityProfile
from interlock.errors import InvalidConfiguration
from interlock.testing.world import ProviderWorld, WorldClock, changes_of

W = TypeVar("W", bound=ProviderWorld)
T = TypeVar("T", bound=Target[Any] | AsyncTarget[Any])

_FACTORIES = {
    "world": "makes the model of the provider from a WorldClock",
    "target": "makes the target from the model",
    "effect": "makes an effect from the model and the target",
    "other_effect": "makes another effect from the model and the target",
}
_OF_A_WORLD = ("apply", "ledger", "forget_key")


@dataclass(frozen=True, kw_only=True)
class Setup(Generic[W, T]):
    """What is tested, and in which world.

    Args:
        world: makes the model of the provider, once for every schedule, from the schedule's clock.
        target: makes the target under test, connected to that world.
        effect: makes the effect that is fired.
        other_effect: makes another one, to be fired under the same key; None where there is none.
        journal_url: the PostgreSQL database that it is tested on; None for files in memory.

    Raises:
        InvalidConfiguration: one of the first four can't be called.
    """

    world: Callable[[WorldClock], W]
    target: Callable[[W], T]
    effect: Callable[[W, T], Effect[Any]]
    other_effect: Callable[[W, T], Effect[Any]] | None = None
    journal_url: str | None = None

    def __post_init__(self) -> None:
        """Refuse what was made already."""
        for name, does in _FACTORIES.items():
            given = getattr(self, name)
            if not callable(given) and not (given is None and name == "other_effect"):
                raise InvalidConfiguration(f"{name} {does}: give a class or a function, and not {_kind(given)}")

    def make_world(self, clock: WorldClock) -> W:
        """Make the model of the provider.

        Raises:
            InvalidConfiguration: it lacks one of the methods that a model needs, or makes changes of no kind.
        """
        world = self.world(clock)
        lacks = [name for name in _OF_A_WORLD if not callable(getattr(world, name, None))]
        if lacks:
            raise InvalidConfiguration(f"world made {_kind(world)}, which has no method {', '.join(lacks)}: see ProviderWorld")
        changing = changes_of(world)
        kinds: list[Any] = [] if changing is None else list(changing.changes)
        if no_kinds := [kind for kind in kinds if not isinstance(kind, ChangeKind)]:
            raise InvalidConfiguration(f"the changes of a world are ChangeKinds, and not {no_kinds[0]!r}")
        return world

    def make_target(self, world: W) -> T:
        """Make the target under test.

        Raises:
            InvalidConfiguration: it is no target, or one without a name, a codec or a profile.
        """
        target = self.target(world)
        made: Any = target
        if not _is(made, Target, AsyncTarget):
            raise InvalidConfiguration(f"target made {_kind(made)}, and no Target or AsyncTarget")
        name = getattr(made, "name", None)
        if not _is(name, str) or not name:
            raise InvalidConfiguration(f"{_kind(made)} needs a name, as a text, by which recovery finds it")
        if not callable(getattr(getattr(made, "codec", None), "encode", None)):
            raise InvalidConfiguration(f"{_kind(made)} needs a codec, which writes its effects down: see DataclassCodec")
        profile = made.capabilities
        if not _is(profile, CapabilityProfile):
            raise InvalidConfiguration(
                f"the capabilities of {_kind(made)} have to be a CapabilityProfile, as an attribute or a property, "
                f"and not {_kind(profile)}"
            )
        return target

    def make_effect(self, world: W, target: T) -> Effect[Any]:
        """Make the effect that is fired.

        Raises:
            InvalidConfiguration: it is no effect, or that of another target.
            InvalidEffect: the target's codec refuses it.
        """
        return _effect_of("effect", self.effect(world, target), target)

    def make_other_effect(self, world: W, target: T, effect: Effect[Any]) -> Effect[Any] | None:
        """Make another effect, which is fired under the key of the first; None where there is none.

        Raises:
            InvalidConfiguration: it is no effect, or that of another target, or the same one.
            InvalidEffect: the target's codec refuses it.
        """
        if self.other_effect is None:
            return None
        other = _effect_of("other_effect", self.other_effect(world, target), target)
        if len({record_effect(one, target.codec, target.version).fingerprint for one in (effect, other)}) == 1:
            raise InvalidConfiguration("other_effect made the same effect as effect: it has to differ, if only in the amount")
        return other


def _effect_of(name: str, made: Any, target: Target[Any] | AsyncTarget[Any]) -> Effect[Any]:
    if not _is(made, Effect):
        raise InvalidConfiguration(f"{name} made {_kind(made)}, and no Effect: a method of your target's returns one")
    effect: Effect[Any] = made
    if effect.target != target.name:
        raise InvalidConfiguration(f"{name} made one for the target {effect.target!r}, and {target.name!r} is under test")
    return effect


def _is(made: object, *kinds: type) -> bool:
    """Whether the user made what was annotated: a checker takes that for granted, and not every user has one."""
    return isinstance(made, kinds)


def _kind(made: object) -> str:
    return "None" if made is None else type(made).__name__

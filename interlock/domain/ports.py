"""The ports: what a target and an approval source have to provide, and how whatever they do wrong becomes Unknown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from interlock.domain.answers import (
    BURN_ANSWERS,
    LOOKUP_ANSWERS,
    SEND_ANSWERS,
    BurnAnswer,
    CannotTell,
    LookupAnswer,
    SendAnswer,
    Unknown,
)
from interlock.domain.books import Books
from interlock.domain.effects import Effect, EffectCodec
from interlock.domain.premises import Premise, PremisePolicy, Strict
from interlock.domain.profiles import CapabilityProfile

P = TypeVar("P")
T = TypeVar("T")


class Deadline(Protocol):
    """A wall-clock limit on a clock that also runs while the process is stopped."""

    def remaining_s(self) -> float:
        """Return the seconds left, zero or less when it is over."""
        ...


class TargetBase(Generic[P]):
    """What sync and async targets have in common.

    Attributes:
        name: the name it is registered under; recovery finds it by it.
        version: raised when old effects could not be decoded any more.
        codec: how its parameters are written down.
        policy: the premise policy for what it observes.
    """

    name: str
    version: int = 1
    codec: EffectCodec[P]
    policy: PremisePolicy = Strict()

    @property
    def capabilities(self) -> CapabilityProfile:
        """What the provider promises. The default promises nothing."""
        return CapabilityProfile()

    def check(self, effect: Effect[P], premises: tuple[Premise, ...]) -> None:
        """Raise where the effect can never fit what was decided on. Called before anything is written; the default passes all.

        Args:
            effect: what is to be done.
            premises: the facts that the decision rests on, of whichever target.

        Raises:
            InvalidEffect: it can never fit, such as a refund in another currency than the payment's.
        """


class Target(TargetBase[P], ABC):
    """A provider, for `Gate`. Implement `_send`, and what else the provider can do.

    The public methods turn every unexpected exception into Unknown or CannotTell (I6). They keep the exception's class name only:
    its text may hold a secret.
    """

    def observe(self, subject: str) -> Premise:
        """Read what a decision is to be made on.

        Args:
            subject: the id of what to read, such as a payment.

        Returns:
            A premise that the decision rests on.

        Raises:
            Exception: whatever the provider's client raises; at the gate it counts as unreadable.
        """
        return self._observe(subject)

    def send(self, effect: Effect[P], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> SendAnswer:
        """Carry the effect out, once, and no longer than the deadline.

        Args:
            effect: what to do.
            action_id: the mark that the effect has to carry, so that a lookup finds it.
            idempotency_key: what the provider dedupes on.
            deadline: when to give up; the answer is Unknown then.

        Returns:
            Done, Declined, NotSent or Unknown. It raises nothing.
        """
        try:
            return _one_of(
                SEND_ANSWERS, self._send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
            )
        except Exception as error:  # noqa: BLE001 - I6: whatever went wrong, it is not known to have not happened
            return Unknown(_named(error))

    def lookup(self, effect: Effect[P], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        """Look for the effect that carries this action's mark.

        Returns:
            Found, Absent (after the last page, on the right account and mode) or CannotTell. It raises nothing.
        """
        try:
            return _one_of(LOOKUP_ANSWERS, self._lookup(effect, action_id=action_id, deadline=deadline))
        except Exception as error:  # noqa: BLE001 - I6: a failed read is not an absence
            return CannotTell(_named(error))

    def burn(self, effect: Effect[P], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> BurnAnswer:
        """Use the key up with a harmless request that is a pure function of the key.

        Returns:
            Burned, AlreadyUsed, InProgress or CannotTell. It raises nothing.
        """
        try:
            return _one_of(
                BURN_ANSWERS, self._burn(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
            )
        except Exception as error:  # noqa: BLE001 - I6: a failed burn closes nothing
            return CannotTell(_named(error))

    def books(self, subject: str | None, *, deadline: Deadline) -> Books | CannotTell:
        """Read what the provider has on its books, for an audit; the gate never asks.

        Args:
            subject: about what; None for all that there is.
            deadline: when to give up; the answer is CannotTell then.

        Returns:
            Books, read to the last page, or CannotTell. It raises nothing.
        """
        try:
            return _one_of((Books, CannotTell), self._books(subject, deadline=deadline))
        except Exception as error:  # noqa: BLE001 - a failed read is not an empty book
            return CannotTell(_named(error))

    def _observe(self, subject: str) -> Premise:
        msg = f"target {self.name!r} observes nothing ({subject!r})"
        raise NotImplementedError(msg)

    @abstractmethod
    def _send(self, effect: Effect[P], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> SendAnswer: ...

    def _lookup(self, effect: Effect[P], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        del effect, action_id, deadline
        return CannotTell("this target has no lookup")

    def _burn(self, effect: Effect[P], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> BurnAnswer:
        del effect, action_id, idempotency_key, deadline
        return CannotTell("this target can't burn a key")

    def _books(self, subject: str | None, *, deadline: Deadline) -> Books | CannotTell:
        del subject, deadline
        return CannotTell("this target shows no books")


class AsyncTarget(TargetBase[P], ABC):
    """A provider, for an event loop: the names of `Target`, as coroutines, with the same translation of exceptions."""

    async def observe(self, subject: str) -> Premise:
        """Read what a decision is to be made on; see `Target.observe`."""
        return await self._observe(subject)

    async def send(self, effect: Effect[P], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> SendAnswer:
        """Carry the effect out; see `Target.send`. Cancelling the await says nothing about the effect."""
        try:
            return _one_of(
                SEND_ANSWERS, await self._send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
            )
        except Exception as error:  # noqa: BLE001 - I6, as in Target.send
            return Unknown(_named(error))

    async def lookup(self, effect: Effect[P], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        """Look for the effect that carries this action's mark; see `Target.lookup`."""
        try:
            return _one_of(LOOKUP_ANSWERS, await self._lookup(effect, action_id=action_id, deadline=deadline))
        except Exception as error:  # noqa: BLE001 - I6, as in Target.lookup
            return CannotTell(_named(error))

    async def burn(self, effect: Effect[P], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> BurnAnswer:
        """Use the key up with a harmless request; see `Target.burn`."""
        try:
            return _one_of(
                BURN_ANSWERS, await self._burn(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
            )
        except Exception as error:  # noqa: BLE001 - I6, as in Target.burn
            return CannotTell(_named(error))

    async def books(self, subject: str | None, *, deadline: Deadline) -> Books | CannotTell:
        """Read what the provider has on its books, for an audit; see `Target.books`."""
        try:
            return _one_of((Books, CannotTell), await self._books(subject, deadline=deadline))
        except Exception as error:  # noqa: BLE001 - as in Target.books
            return CannotTell(_named(error))

    async def _observe(self, subject: str) -> Premise:
        msg = f"target {self.name!r} observes nothing ({subject!r})"
        raise NotImplementedError(msg)

    @abstractmethod
    async def _send(self, effect: Effect[P], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> SendAnswer: ...

    async def _lookup(self, effect: Effect[P], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        del effect, action_id, deadline
        return CannotTell("this target has no lookup")

    async def _burn(self, effect: Effect[P], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> BurnAnswer:
        del effect, action_id, idempotency_key, deadline
        return CannotTell("this target can't burn a key")

    async def _books(self, subject: str | None, *, deadline: Deadline) -> Books | CannotTell:
        del subject, deadline
        return CannotTell("this target shows no books")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalTerms:
    """An approval as a user's own table has it at the moment of reading.

    Args:
        live: whether it stands: given, and not revoked.
        cap_minor: what it covers, in the minor unit; None where it covers no money.
        currency: of the cap.
        by: an opaque id of the person who gave it.
        expires_at: until when, in UTC.
        fingerprint: the only effect it is for, or None.
    """

    live: bool
    cap_minor: int | None
    currency: str | None
    by: str
    expires_at: datetime
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        """Refuse what could not be compared or written down.

        Raises:
            TypeError: a field is of another type, or `expires_at` has no zone.
        """
        kinds: dict[str, tuple[type, ...]] = {"live": (bool,), "cap_minor": (int, type(None)), "by": (str,)}
        kinds |= dict.fromkeys(("currency", "fingerprint"), (str, type(None)))
        wrong = [name for name, allowed in kinds.items() if type(getattr(self, name)) not in allowed]
        if wrong:
            raise TypeError(f"an approval's terms are a bool, whole minor units, and text: {', '.join(wrong)}")
        if self.expires_at.utcoffset() is None:
            raise TypeError("expires_at needs a time zone")


class ApprovalSource(Protocol):
    """Reads approvals that live elsewhere: they are read and not held, which is weaker, and the receipt says so."""

    def read(self, approval_id: str) -> ExternalTerms | None:
        """Return the approval's terms as they are now, or None where there is no such approval.

        Raises:
            Exception: it can't be read; nothing is sent then.
        """
        ...


def _one_of(kinds: tuple[type, ...], answer: T) -> T:
    """Return the answer if it is one; a function that forgets to return has answered nothing."""
    if not isinstance(answer, kinds):
        raise TypeError(f"{type(answer).__name__} is no answer")
    return answer


def _named(error: Exception) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"

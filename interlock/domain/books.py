"""What a provider has on its books: read for an audit, which holds it against the journal. Nothing of it is written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from interlock.domain.answers import Settlement

_TYPES: dict[str, tuple[type, ...]] = {
    "subject": (str,),
    "reference": (str,),
    "state": (str,),
    "settlement": (Settlement,),
    "action_mark": (str, type(None)),
    "amount_minor": (int, type(None)),
    "currency": (str, type(None)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BookEntry:
    """One thing that was done at the provider, by whomever.

    Args:
        subject: what it was done to, such as a payment.
        reference: the provider's id of it, such as `re_…`.
        state: the provider's word for its state.
        settlement: what that word means.
        action_mark: the id of the action that it is marked with, in hexadecimal; None where it bears no mark of a gate's.
        amount_minor: in the currency's minor unit; None where it moves no money.
        currency: of the amount.

    Raises:
        TypeError: a field is of another type.
    """

    subject: str
    reference: str
    state: str
    settlement: Settlement
    action_mark: str | None = None
    amount_minor: int | None = None
    currency: str | None = None

    def __post_init__(self) -> None:
        """Refuse what could not be compared."""
        wrong = [name for name, kinds in _TYPES.items() if type(getattr(self, name)) not in kinds]
        if wrong:
            raise TypeError(f"an entry of a provider's books holds other types in {', '.join(wrong)}")


@dataclass(frozen=True, slots=True)
class Books:
    """All entries about what was asked for, read to the last page, on the right account and mode.

    Args:
        entries: the entries, in any order.
    """

    entries: tuple[BookEntry, ...]

    def __post_init__(self) -> None:
        """Refuse what is no list of entries.

        Raises:
            TypeError: it holds something else.
        """
        given: object = self.entries  # it comes from a target, whatever its annotations say
        if type(given) is not tuple or {type(one) for one in cast("tuple[object, ...]", given)} - {BookEntry}:
            raise TypeError("a provider's books are a tuple of BookEntry")

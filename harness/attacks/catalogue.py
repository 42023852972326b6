"""The attacks: each by hand on the rows, and as a whole new history with every hash right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from harness.attacks.hands import Hands, Row, rewrite

Rows = list[Row]


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack.

    Args:
        name: what is done.
        by_hand: does it with the database alone.
        forged: what the history is to be instead, for somebody who can also sign it.
        self_may_be_silent: whether the database alone leaves nothing that shows it from inside.
        monitor_may_be_silent: whether a monitor that reads hashes need not see what was done by hand.
        witness: what a witness answers that is asked to cosign the forged history.
    """

    name: str
    by_hand: Callable[[Hands], None]
    forged: Callable[[Rows], Rows]
    self_may_be_silent: bool = False
    monitor_may_be_silent: bool = False
    witness: str = "422"


def _committed(rows: Rows, which: int = 0) -> Row:
    return [row for row in rows if row.topic == "interlock.action.committed"][which]


def _without(rows: Rows, gone: Rows) -> Rows:
    return [row for row in rows if row not in gone]


def _first_action(rows: Rows) -> Rows:
    """Return the events of one action and of its approval, which nothing else names."""
    action, approval = rows[_first_index(rows)].aggregate, rows[_first_index(rows) - 1].aggregate
    return [row for row in rows if row.aggregate in (action, approval)]


def _first_index(rows: Rows) -> int:
    return next(index for index, row in enumerate(rows) if row.topic == "interlock.action.intended")


def _edited(row: Row) -> bytes:
    """Return another answer of the provider."""
    return row.state.replace(b'"reference":"tx_', b'"reference":"ty_')


def _edit_payload(hands: Hands) -> None:
    row = _committed(hands.rows())
    hands.set(row, "state", _edited(row))


def _edit_payload_forged(rows: Rows) -> Rows:
    return edit_commit(rows, 0)


def edit_commit(rows: Rows, which: int) -> Rows:
    """Return a history in which the provider answered otherwise to one action."""
    row = _committed(rows, which)
    return [replace(row, state=_edited(row)) if one == row else one for one in rows]


def _neighbours(rows: Rows) -> tuple[Row, Row]:
    """Return two events that follow on each other and are of different actions or approvals."""
    at = rows.index(_committed(rows))
    return rows[at], rows[at + 1]


def _reorder(hands: Hands) -> None:
    hands.swap_places(*_neighbours(hands.rows()))


def _reorder_forged(rows: Rows) -> Rows:
    one, other = _neighbours(rows)
    at = rows.index(one)
    return [*rows[:at], other, one, *rows[at + 2 :]]


def _swap(hands: Hands) -> None:
    one, other = (_committed(hands.rows(), which) for which in (0, 1))
    hands.set(one, "state", other.state)
    hands.set(other, "state", one.state)


def _swap_forged(rows: Rows) -> Rows:
    one, other = (_committed(rows, which) for which in (0, 1))
    swapped = {one: replace(one, state=other.state), other: replace(other, state=one.state)}
    return [swapped.get(row, row) for row in rows]


def _reserved(rows: Rows) -> Row:
    return next(row for row in rows if row.topic == "interlock.approval.reserved")


def _retype(hands: Hands) -> None:
    hands.set(_reserved(hands.rows()), "topic", "interlock.approval.spent")


def _retype_forged(rows: Rows) -> Rows:
    row = _reserved(rows)
    return [replace(row, topic="interlock.approval.spent") if one == row else one for one in rows]


def _drop_last(hands: Hands) -> None:
    hands.remove(hands.rows()[-1:])


def _delete_action(hands: Hands) -> None:
    rows = hands.rows()
    hands.remove(row for row in rows if row.aggregate == rows[_first_index(rows)].aggregate)


def _delete_with_leaves(hands: Hands) -> None:
    rows = hands.rows()
    rewrite(hands, _without(rows, _first_action(rows)))


def _delete_with_checkpoints(hands: Hands) -> None:
    _delete_with_leaves(hands)
    hands.forget_log()


def _without_first_action(rows: Rows) -> Rows:
    return _without(rows, _first_action(rows))


ATTACKS = (
    Attack("edit a payload", _edit_payload, _edit_payload_forged, monitor_may_be_silent=True),
    Attack("reorder two events", _reorder, _reorder_forged, monitor_may_be_silent=True),
    Attack("swap states between actions", _swap, _swap_forged, monitor_may_be_silent=True),
    Attack("give an event another topic", _retype, _retype_forged, monitor_may_be_silent=True),
    Attack("drop the last event (events only)", _drop_last, lambda rows: rows[:-1], monitor_may_be_silent=True, witness="400"),
    Attack("delete an action (events only)", _delete_action, _without_first_action, monitor_may_be_silent=True, witness="400"),
    Attack("delete events and their leaves", _delete_with_leaves, _without_first_action, witness="400"),
    Attack(
        "delete events, leaves and stored checkpoints",
        _delete_with_checkpoints,
        _without_first_action,
        self_may_be_silent=True,
        witness="400",
    ),
)

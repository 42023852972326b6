"""Which cells (request, crash side, recovery row) there are, and why the others can't be reached."""

from __future__ import annotations

from collections.abc import Iterable

from interlock.testing.exploration.schedules import AFTER, BEFORE, ENDED, FIRED_ANEW, GO_ON, ON_ITS_WAY, START, Cell

_OPENING = frozenset(("FindAction", "NewActionId", "append Intended", "append Intended+Refused", "append Refused"))
_FIRST_COMMIT = "append Intended+Claimed+Dispatched+Reserved"
_FIRST_DISPATCH = frozenset((_FIRST_COMMIT, "append Claimed+Dispatched+Reserved", "append Dispatched+Reserved"))
_NEEDS_A_DISPATCH = frozenset(
    ("StillAt", "Send", "Burn", "LookUp", "SleepUntil", "LoadAction", "append Ambiguous", "append Committed+Spent")
)
_BURNED_ROWS = frozenset(("new key behind burned keys", "refuse behind burned keys"))


def why_not(cell: Cell) -> str | None:  # noqa: C901, PLR0911 - one line a reason
    """Return why a cell can't be reached; None where nothing is known against it."""
    request, side, row = cell
    if row == ENDED:
        return "a run is over with the answer to its ending: whoever fires again is told the recorded outcome"
    if row == FIRED_ANEW and not _may_come_first(request, side):
        return "the action is durable by then"
    if row == START and (request in _NEEDS_A_DISPATCH or (request in _FIRST_DISPATCH and side == AFTER) or _sends_again(request)):
        return "a Dispatched is durable by then"
    if row == START and request == "append Refused+Released":
        return "a reservation is given back, so a Dispatched is durable by then"
    if row not in (FIRED_ANEW, START) and (request in _OPENING or (request in _FIRST_DISPATCH and side == BEFORE)):
        return "nothing is dispatched yet, so there is nothing to find, to send again or to close a door on"
    if row == "found" and request in _FIRST_DISPATCH:
        return "nothing was sent yet"
    if row == GO_ON:
        return (
            "it takes a request that was not sent, noted with a Claimed, and a crash before the next Dispatched (see: two faults)"
        )
    if request == "LookUp" and row in _BURNED_ROWS:
        return "keys are burned in place of a lookup where there is none"
    if request == "append Ambiguous" and row == "found":
        return "it was looked up right before; only a failure that rolls forward, which is a fault of its own, shows later"
    if _reads_a_used_key(request) and row == "new key behind closed door":
        return "a stored answer is read again, or the horizon ends the doubt"
    if request.endswith("+Released") and row == "found":
        return "a refusal is written behind a closed door: there is nothing that could be found later"
    return None


def unexplained(reached: Iterable[Cell], rows: Iterable[str]) -> list[Cell]:
    """Return the cells that were not reached and that nothing explains."""
    there = set(reached)
    places = {(cell.request, cell.side) for cell in there}
    return sorted(
        cell for request, side in places for row in rows if (cell := Cell(request, side, row)) not in there and not why_not(cell)
    )


def _may_come_first(request: str, side: str) -> bool:
    shared = request in ("ReadPremises", "LoadApproval", "Now")
    return (
        shared
        or (request in _OPENING - {"append Refused"} and side == BEFORE)
        or request in ("FindAction", "NewActionId")
        or (request == _FIRST_COMMIT and side == BEFORE)
    )


def _sends_again(request: str) -> bool:
    return "Dispatched" in request and "Reserved" not in request


def _reads_a_used_key(request: str) -> bool:
    return _sends_again(request) and "approval" not in request


SIDES = (BEFORE, ON_ITS_WAY, AFTER)

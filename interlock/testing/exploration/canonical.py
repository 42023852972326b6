"""Canonical forms: what of a suspended run, an action or an approval can still matter, as something that can be compared.

Times become ticks from the present one, those that are over become 0, versions become "the journal's latest" or "outdated",
words are dropped. Two things with one form behave alike from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime
from enum import Enum
from functools import cache
from types import CodeType, FrameType, FunctionType, GeneratorType
from typing import Any
from uuid import UUID

from interlock.domain.action import Checks, Claim, GatedAction, Intent, Status
from interlock.domain.answers import Evidence
from interlock.domain.approvals import Approval, ApprovalReading, ApprovalState
from interlock.domain.effects import EffectRecord
from interlock.domain.premises import PremiseReading
from interlock.domain.profiles import CapabilityProfile
from interlock.domain.requests import FindAction, LoadAction, Now, Request, SleepUntil
from interlock.domain.sending import Sender, key_still_deduped
from interlock.testing.exploration.liveness import live_names, only_returns, read_names
from interlock.testing.exploration.scope import ACTION_ID, WINDOW_TICKS, SmallProfile, instant, ticks_from

_LONG_AGO = -8
"""A time this long ago is as good as any earlier one: everything that is reckoned from it is over."""

_WORDS = frozenset(
    ("words", "why", "possible", "note", "by", "retry_at", "read_at", "facts_json", "door", "at_recovery", "tries")
)
"""Fields and variables that nothing is decided by. (`tries` chooses between pauses that are all shorter than a tick.)"""

_BY_NAME = frozenset(("version", "until"))
"""Numbers and times whose name says how they count."""

_ONLY_RECORDED = _WORDS | {"checks", "via"}
"""Variables that are written down with an ending, and that nothing is decided by."""


@dataclass(frozen=True, slots=True)
class View:
    """From where something is looked at.

    Args:
        profile: what the provider can do.
        present: the present tick.
        head: the version that the worker knows as the journal's latest of the action.
        outdated: whether somebody else has written to the action since.
        keep: variables to keep although nobody reads them again.
        over: how far in the past everything that is over is taken to be: in ticks, 0, or -1 where the clock may step back by one.
        until_matters: whether the deadline of a key's first send is still asked for.
        forms: of what was seen already, by identity, for as long as something holds it.
    """

    profile: SmallProfile
    present: int
    head: int
    outdated: bool = False
    keep: frozenset[str] = frozenset()
    over: int = 0
    until_matters: bool = False
    forms: dict[int, Form] = field(default_factory=dict[int, Hashable], compare=False)

    def is_latest(self, version: int) -> bool:
        """Whether an append at that version would succeed."""
        return version == self.head and not self.outdated


Form = Hashable


def form_of(value: Any, view: View) -> Form:
    """Return the canonical form of a value."""
    kind: Any = value.__class__
    if kind in (type(None), bool, int, str):
        return kind.__name__, value
    if (former := _FORMERS.get(kind)) is not None:
        return former(value, view)
    if isinstance(value, Enum):
        return value.name
    if kind in (tuple, list):
        return tuple(form_of(item, view) for item in value)
    if kind in (type, GeneratorType):
        name: str = value.__qualname__
        return name
    return (kind.__qualname__, *[_form_of_named(name, getattr(value, name), view) for name in _deciding_fields(kind)])


@cache
def _deciding_fields(kind: Any) -> tuple[str, ...]:
    if not is_dataclass(kind):
        raise TypeError(f"no canonical form for {kind!r}")
    return tuple(each.name for each in fields(kind) if each.name not in _WORDS)


def form_of_run(run: Any, view: View) -> Form:
    """Return the canonical form of a suspended generator: its frames, and the request that it waits for."""
    frames = list(_frames(run))
    until_matters = any(_sends_what_was_never_sent(frame) for frame in frames)
    view = replace(view, until_matters=until_matters, forms={})
    parts: list[Form] = []
    for frame in frames:
        names = live_names(frame.f_code, frame.f_lasti)
        kept = view.keep & set(frame.f_locals)
        if frame.f_code is _REQUEST_CODE:
            parts.append(_form_of_request(frame.f_locals["self"], view))
        elif kept or not only_returns(frame.f_code, frame.f_lasti):
            parts.append((frame.f_code.co_qualname, frame.f_lasti, _form_of_locals(frame, names | kept, view)))
    return tuple(parts)


def begins_afresh(run: Any) -> bool:
    """Whether the run is about to load the action and knows nothing, like one that has not begun."""
    *outer, request = _frames(run)
    names = [frame.f_code.co_name for frame in outer if not only_returns(frame.f_code, frame.f_lasti)]
    return isinstance(request.f_locals["self"], LoadAction | FindAction) and names in (["recover"], ["fire"])


def functions_of(run: Any) -> list[str]:
    """Return the names of the functions that a suspended generator is in, from the outside in."""
    return [frame.f_code.co_name for frame in _frames(run)]


def kept_value(run: Any, name: str) -> Any:
    """Return the innermost variable of that name in a suspended generator; None where there is none."""
    found = [frame.f_locals[name] for frame in _frames(run) if name in frame.f_locals]
    return found[-1] if found else None


def form_of_action(action: GatedAction, view: View) -> Form:
    """Return the canonical form of an action: what a worker that holds it may still decide by."""
    pending, effect = action.pending_events, action.intent.effect.fingerprint
    version = "draft" if action.is_draft else view.is_latest(action.version - len(pending))
    if action.ended:
        # Who held its claims decides at most whether a refusal is looked at once more, which writes nothing and sends nothing.
        # A person's "it did not happen" is taken past the horizon only (rule 7).
        horizon = max(view.over, ticks_from(view.present, action.horizon_at)) if action.status is Status.AMBIGUOUS else None
        known = isinstance(action.ending, GatedAction.Committed) and action.ending.evidence is not None
        written = tuple(_form_of_event(event, view) for event in pending)
        return ("action", effect, version, action.status.name, horizon, known, written)
    if version is False:
        # It can't be written to any more, so that claims and horizons decide nothing. A key can still be burned, or sent under
        # by whoever looked at the journal a moment ago, and both go by its window.
        windows = tuple(_window_is_open(action, each, view) for each in range(1, action.attempt + 1))
        return ("action", effect, version, form_of(action.doubt, view), windows, bool(pending))
    return (
        "action",
        effect,
        version,
        action.status.name,
        _form_of_claim(action.claim, view) if action.claim else None,
        form_of(action.doubt, view),
        tuple(_form_of_attempt(action, attempt, view) for attempt in range(1, action.attempt + 1)),
        action.last_dispatch.purpose.name if action.dispatches else None,
        tuple(_form_of_event(event, view) for event in pending),
    )


def form_of_approval(approval: Approval, view: View) -> Form:
    """Return the canonical form of an approval. Its version counts to five at most, and stays as it is."""
    revoked = approval.revoked_at is not None
    if view.outdated:
        # What is appended beside an outdated action is not written, whatever it is.
        return "approval", revoked, _form_of_expiry(approval.expires_at, view)
    mine = ACTION_ID.hex
    pending = tuple(type(event).__name__ for event in approval.pending_events)
    expiry = _form_of_expiry(approval.expires_at, view)
    return ("approval", approval.version, revoked, expiry, mine in approval.reserved, mine in approval.spent, pending)


def _form_of_expiry(at: datetime | None, view: View) -> int | None:
    ticks = ticks_from(view.present, at) if at is not None else None
    return max(view.over, ticks) if ticks is not None and ticks < WINDOW_TICKS else None


def _form_of_reading(reading: ApprovalReading, view: View) -> Form:
    return "reading", reading.state.name, reading.misfit, _form_of_expiry(reading.expires_at, view)


def _form_of_attempt(action: GatedAction, attempt: int, view: View) -> Form:
    profile, present = view.profile.capabilities, view.present
    first = action.first_dispatch_of(attempt)
    until = max(view.over, ticks_from(present, first.deadline_at)) if view.until_matters or action.doubt.nothing_sent else None
    horizon = max(view.over, ticks_from(present, action.horizon_of(attempt, profile)))
    return (_window_is_open(action, attempt, view), until, horizon)


def _window_is_open(action: GatedAction, attempt: int, view: View) -> bool:
    return key_still_deduped(action, attempt, view.profile.capabilities, instant(view.present))


def _form_of_claim(claim: Claim, view: View) -> Form:
    return (claim.holder, max(view.over, ticks_from(view.present, claim.expires_at)))


def _form_of_event(event: Any, view: View) -> Form:
    if isinstance(event, GatedAction.Dispatched):
        return _form_of_dispatch(event, view)
    return type(event).__name__, form_of(getattr(event, "code", None), view), *_form_of_grounds(event, view.profile)


def _form_of_grounds(event: Any, profile: SmallProfile) -> tuple[bool, ...]:
    """Return what was read for an ending, as far as it may be wrong by that (usefulness)."""
    match event:
        case GatedAction.Refused(code=code):
            return is_past_expiry(event), code.startswith("premise_") and premises_hold(event)
        case GatedAction.Ambiguous() if profile.send_may_tell:
            return (recheck_fails(event),)
        case _:
            return ()


def is_past_expiry(event: Any) -> bool:
    """Whether an event is of a time at which the approval that was read for it had expired."""
    checks: Checks | None = getattr(event, "checks", None)
    expires_at = checks.approval.expires_at if checks is not None else None
    return expires_at is not None and event.timestamp >= expires_at


def premises_hold(event: Any) -> bool:
    """Whether the premises were read for an event, and all of them hold."""
    checks: Checks | None = event.checks
    return checks is not None and bool(checks.premises) and all(reading.holds for reading in checks.premises)


def recheck_fails(event: Any) -> bool:
    """Whether what was read for an event stops the action: its approval is over, or a premise does not hold.

    Here nobody else has the approval, so that it can't be used up.
    """
    checks: Checks | None = event.checks
    over = (ApprovalState.REVOKED, ApprovalState.EXPIRED)
    return checks is not None and (checks.approval.state in over or not all(reading.holds for reading in checks.premises))


def _form_of_dispatch(dispatch: GatedAction.Dispatched, view: View) -> Form:
    # What was read counts for what the write may break (I4), also where nobody reads it again.
    holds = premises_hold(dispatch)
    deadline = max(view.over, ticks_from(view.present, dispatch.deadline_at))
    return ("Dispatched", dispatch.attempt, dispatch.purpose.name, deadline, holds, is_past_expiry(dispatch))


def _form_of_time(at: datetime, view: View) -> Form:
    return ("at", max(_LONG_AGO, ticks_from(view.present, at)))


def _form_of_function(function: FunctionType, view: View) -> Form:
    names = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    read = read_names(function.__code__) - _ONLY_RECORDED
    return (function.__qualname__, *(_form_of_named(name, cell.cell_contents, view) for name, cell in names if name in read))


def _form_of_request(request: Request[Any], view: View) -> Form:
    if isinstance(request, Now | SleepUntil):
        return type(request).__name__
    return form_of(request, view)


def _form_of_locals(frame: FrameType, names: frozenset[str], view: View) -> Form:
    values = dict(frame.f_locals)
    recorded = _ONLY_RECORDED | {"now"} if frame.f_code.co_name == "end" else _ONLY_RECORDED
    kept = sorted((names & values.keys()) - recorded)
    return tuple((name, _form_of_local(name, values[name], view)) for name in kept)


def _form_of_local(name: str, value: Any, view: View) -> Form:
    # One frame hands its action, its doubt and its checks to the next, and all of them hold the same objects.
    if name in _BY_NAME:
        return _form_of_named(name, value, view)
    if (form := view.forms.get(id(value))) is None:
        form = view.forms[id(value)] = form_of(value, view)
    return form


def _form_of_named(name: str, value: Any, view: View) -> Form:
    if name == "version":
        return view.is_latest(value)
    if name == "until":
        return max(view.over, ticks_from(view.present, value))
    return form_of(value, view)


def _sends_what_was_never_sent(frame: FrameType) -> bool:
    return frame.f_code.co_name == "announce_and_send" and frame.f_locals["doubt"].nothing_sent


def _frames(run: Any) -> Iterator[FrameType]:
    while (frame := getattr(run, "gi_frame", None)) is not None:
        yield frame
        run = run.gi_yieldfrom


_REQUEST_CODE: CodeType = vars(Request)["__iter__"].__code__
_CONSTANT = (Sender, CapabilityProfile)


def _constant(value: Any, view: View) -> Form:
    del view
    return type(value).__name__


_FORMERS: dict[type, Callable[[Any, View], Form]] = {
    datetime: _form_of_time,
    UUID: _constant,
    GatedAction: form_of_action,
    GatedAction.Dispatched: _form_of_dispatch,
    Approval: form_of_approval,
    Claim: _form_of_claim,
    FunctionType: _form_of_function,
    Intent: lambda intent, _view: ("intent", intent.effect.fingerprint),
    EffectRecord: lambda effect, _view: ("effect", effect.fingerprint),
    PremiseReading: lambda reading, _view: ("premise", reading.state.name),
    ApprovalReading: _form_of_reading,
    Evidence: lambda evidence, _view: ("evidence", bool(evidence.disagreements)),
    **dict.fromkeys(_CONSTANT, _constant),
}

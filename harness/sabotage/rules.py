"""Defects that break one of the seven rules of recovery."""

from __future__ import annotations

from harness.sabotage.defects import HORIZON, Defect, lines

_ENDINGS = "interlock/domain/endings.py"
_PROFILES = "interlock/domain/profiles.py"
_PROTOCOL = "interlock/domain/protocol.py"
_RECOVERY = "interlock/domain/recovery.py"
_SENDING = "interlock/domain/sending.py"

_RULES_TEST = "tests/contract/test_rules.py"
_RESOLUTION_TEST = "tests/contract/test_resolution.py"

_AFTER_S = "        after_s = self.kernel_s + self.settle_s + (self.lookup_staleness_s or 0) + (self.roll_forward_s or 0)\n"

DEFECTS: tuple[Defect, ...] = (
    Defect(
        name="resend-without-a-dispatched-of-its-own",
        breaks=("rule 1", "I1"),
        file=_SENDING,
        old="        announced = yield from announce(action, sender, checked, attempt)\n",
        new=lines(
            "        announced = AppendAnswer.APPENDED",
            "        if action.attempt != attempt or doubt.nothing_sent:",
            "            announced = yield from announce(action, sender, checked, attempt)",
            "",
        ),
        tests=(_RULES_TEST,),
    ),
    Defect(
        name="approval-not-asserted-at-a-resend",
        breaks=("rule 1", "I3"),
        file=_SENDING,
        old="    return (yield from Append(action, checked.approval))\n",
        new="    return (yield from Append(action, checked.approval if len(action.dispatches) == 1 else None))\n",
        tests=(_RULES_TEST,),
    ),
    Defect(
        name="lookup-before-the-door-only",
        breaks=("rule 2",),
        file=_RECOVERY,
        old=lines(
            "    seen = yield from _look_or_end(action, sender, doubt, checked)",
            "    if not isinstance(seen, Sight):",
            "        return seen",
            "    if not row.refuses:",
        ),
        new="    if not row.refuses:",
        tests=(_RULES_TEST,),
    ),
    Defect(
        name="door-closed-for-the-last-key-only",
        breaks=("rule 2",),
        file=_RECOVERY,
        old="    for attempt in range(1, action.attempt):\n",
        new="    for attempt in range(action.attempt, action.attempt):\n",
        tests=(_RULES_TEST,),
    ),
    *(
        Defect(
            name=f"horizon-without-the-{name}",
            breaks=("rule 3", HORIZON),
            file=_PROFILES,
            old=_AFTER_S,
            new=_AFTER_S.replace(figure, "0"),
            tests=(_RULES_TEST,),
        )
        for name, figure in (
            ("kernels-time", "self.kernel_s"),
            ("settle-time", "self.settle_s"),
            ("staleness-of-the-lookup", "(self.lookup_staleness_s or 0)"),
            ("roll-forward-time", "(self.roll_forward_s or 0)"),
        )
    ),
    Defect(
        name="horizon-as-recorded-only",
        breaks=("rule 3",),
        file="interlock/domain/action.py",
        old="max(max(dispatch.horizon_at, profile.horizon(dispatch.deadline_at)) for dispatch in sends)",
        new="max(dispatch.horizon_at for dispatch in sends if profile)",
        tests=(_RULES_TEST,),
    ),
    Defect(
        name="horizon-recorded-without-the-deadline",
        breaks=("rule 3",),
        file="interlock/domain/action.py",
        old="            horizon_at=profile.horizon(deadline_at),\n",
        new="            horizon_at=profile.horizon(at),\n",
        tests=(_RULES_TEST, "tests/unit/test_golden_bytes.py"),
    ),
    Defect(
        name="unknown-roll-forward-time-taken-for-none",
        breaks=("rule 3", "I6"),
        file=_RECOVERY,
        old="    if sender.profile.may_roll_forward_unbounded:\n",
        new="    if sender.profile.may_roll_forward_unbounded and sender.profile.roll_forward_s == 0:\n",
        tests=(_RULES_TEST,),
    ),
    Defect(
        name="declined-resend-refused-at-once",
        breaks=("rule 4",),
        file=_SENDING,
        old="        case Declined(replayed=replayed) if replayed or doubt.nothing_sent:\n",
        new="        case Declined(replayed=replayed) if replayed is not None:\n",
        tests=(_RULES_TEST,),
    ),
    Defect(
        name="ending-forced-on-a-conflict",
        breaks=("rule 5", "I8"),
        file=_ENDINGS,
        old="        if action.version != version:\n            return AppendAnswer.ACTION_MOVED\n",
        new="        version = action.version\n",
        tests=(_RULES_TEST,),
    ),
    Defect(
        name="done-dropped-after-a-takeover",
        breaks=("rule 6",),
        file=_ENDINGS,
        old="        if step is not AppendAnswer.ACTION_MOVED:\n            return step\n",
        new="        if step is not None:\n            return step\n",
        tests=(_RULES_TEST,),
    ),
    Defect(
        name="a-persons-no-before-the-horizon",
        breaks=("rule 7",),
        file=_PROTOCOL,
        old="    if now < action.horizon_at:\n",
        new="    if now < action.last_dispatch.timestamp:\n",
        tests=(_RULES_TEST,),
    ),
    Defect(
        name="a-persons-no-before-the-horizon-of-an-earlier-send",
        breaks=("rule 7", "rule 3"),
        file="interlock/domain/action.py",
        old="        return max(dispatch.horizon_at for dispatch in self.dispatches)\n",
        new="        return self.last_dispatch.horizon_at\n",
        tests=(_RULES_TEST,),
    ),
    Defect(
        name="a-persons-no-although-it-may-roll-forward",
        breaks=("rule 7",),
        file=_PROTOCOL,
        old="    if not action.absence_can_be_final and not despite_roll_forward:\n",
        new="    if not action.absence_can_be_final and despite_roll_forward is None:\n",
        tests=(_RULES_TEST,),
    ),
    Defect(
        name="a-persons-no-without-a-lookup",
        breaks=("rule 7",),
        file=_PROTOCOL,
        old="    seen = (yield from LookUp(action.id, action.intent.effect)) if looks_up else None\n",
        new="    seen = (yield from LookUp(action.id, action.intent.effect)) if looks_up is None else None\n",
        tests=(_RULES_TEST,),
    ),
    Defect(
        name="a-persons-no-after-a-failed-lookup",
        breaks=("rule 7", "I6"),
        file=_PROTOCOL,
        old="    if isinstance(seen, CannotTell):\n        raise NotResolvable(",
        new="    if isinstance(seen, CannotTell) and not looks_up:\n        raise NotResolvable(",
        tests=(_RESOLUTION_TEST,),
    ),
)

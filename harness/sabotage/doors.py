"""Defects that leave the door open: in burning a key, in waiting for the horizon, and in the last look before the write."""

from __future__ import annotations

from harness.sabotage.defects import BURN, HORIZON, Defect, lines

_RECOVERY = "interlock/domain/recovery.py"
_SENDING = "interlock/domain/sending.py"

_RULES_TEST = "tests/contract/test_rules.py"
_DOORS_TEST = "tests/contract/test_closing_the_door.py"
_TABLE_TEST = "tests/contract/test_recovery_table.py"

DEFECTS: tuple[Defect, ...] = (
    Defect(
        name="burn-after-its-window",
        breaks=(BURN,),
        file=_RECOVERY,
        old="    if sender.profile.burns and key_still_deduped(action, attempt, sender.profile, now):\n",
        new="    if sender.profile.burns:\n",
        tests=(_TABLE_TEST,),
    ),
    Defect(
        name="burn-not-judged-again-when-it-is-answered",
        breaks=(BURN,),
        file=_RECOVERY,
        old="            case Burned() if key_still_deduped(action, attempt, sender.profile, now):\n",
        new="            case Burned() if now:\n",
        tests=(_DOORS_TEST,),
    ),
    Defect(
        name="burn-that-differs-with-each-recoverer",
        breaks=(BURN,),
        file="interlock/stripe/marks.py",
        old="    return {BURNED: idempotency_key}\n",
        new=lines("    import uuid", "", '    return {BURNED: f"{idempotency_key} by {uuid.uuid4()}"}', ""),
        tests=("tests/integration/test_stripe_refunds_read.py",),
    ),
    Defect(
        name="the-door-of-an-earlier-key-is-told",
        breaks=(BURN, "I9", "I10"),
        file=_RECOVERY,
        old="    return (yield from _close_key(action, sender, doubt, checked, action.attempt, by_horizon=by_horizon))\n",
        new=lines(
            "    last = yield from _close_key(action, sender, doubt, checked, action.attempt, by_horizon=by_horizon)",
            "    return _Closed(Door.HORIZON) if action.attempt > 1 and isinstance(last, _Closed) else last",
            "",
        ),
        tests=(_DOORS_TEST,),
    ),
    Defect(
        name="key-that-is-used-taken-for-burned",
        breaks=(BURN, "I6"),
        file=_RECOVERY,
        old=lines(
            "                read = yield from _read_used_key(action, sender, doubt, checked, by_horizon=by_horizon)",
            "                if read is not None:",
            "                    return read",
        ),
        new="                return _Closed(Door.BURNED)",
        tests=(_DOORS_TEST,),
    ),
    Defect(
        name="failed-burn-taken-for-burned",
        breaks=(BURN, "I6"),
        file=_RECOVERY,
        old=lines(
            "            case CannotTell(why):",
            '                return (yield from pend(action, sender, doubt, PendingReason.SETTLING, f"the burn failed: {why}"))',
        ),
        new=lines("            case CannotTell():", "                return _Closed(Door.BURNED)"),
        tests=(_DOORS_TEST,),
    ),
    Defect(
        name="request-in-progress-taken-for-burned",
        breaks=(BURN, "I6"),
        file=_RECOVERY,
        old="            case InProgress():\n",
        new=lines("            case InProgress():", "                return _Closed(Door.BURNED)", "            case None:", ""),
        tests=(_DOORS_TEST,),
    ),
    Defect(
        name="resend-on-absence-without-the-horizon",
        breaks=(HORIZON, "rule 3", "I2"),
        file=_RECOVERY,
        old="    if now < horizon:\n",
        new="    if now < horizon and action.ended:\n",
        tests=(_RULES_TEST,),
    ),
    Defect(
        name="refused-behind-a-horizon-where-nobody-can-look",
        breaks=(HORIZON, "I6"),
        file=_RECOVERY,
        old="(Recheck.FAILS, Sight.CANNOT_LOOK, NOT_DEDUPED): Row.REFUSE_BEHIND_BURNED_KEYS,",
        new="(Recheck.FAILS, Sight.CANNOT_LOOK, NOT_DEDUPED): Row.REFUSE_BEHIND_CLOSED_DOOR,",
        tests=(_TABLE_TEST,),
    ),
    Defect(
        name="term-not-looked-at-before-the-write",
        breaks=(HORIZON, "I7"),
        file=_SENDING,
        old="    if not (yield from StillAt(action.id, action.version)):\n",
        new="    if (yield from StillAt(action.id, action.version)) is None:\n",
        tests=(_DOORS_TEST,),
    ),
    Defect(
        name="deadline-not-looked-at-before-the-write",
        breaks=(HORIZON,),
        file=_SENDING,
        old="    if now >= dispatch.deadline_at:\n",
        new="    if now >= dispatch.horizon_at:\n",
        tests=(_DOORS_TEST,),
    ),
    Defect(
        name="deadline-not-handed-to-the-target",
        breaks=(HORIZON,),
        file="interlock/driver.py",
        old="WallDeadline(min(left_s, target.capabilities.send_deadline_s), since_s)",
        new="WallDeadline(max(left_s, target.capabilities.send_deadline_s), since_s)",
        tests=(_DOORS_TEST,),
    ),
    Defect(
        name="deadline-counted-from-after-a-pause",
        breaks=(HORIZON,),
        file="interlock/driver.py",
        old="target.capabilities.send_deadline_s), since_s)",
        new="target.capabilities.send_deadline_s))",
        tests=(_DOORS_TEST,),
    ),
    Defect(
        name="deadline-stretched-by-a-clock-that-was-set-back",
        breaks=(HORIZON, "rule 3"),
        file="interlock/driver.py",
        old="        readings = run.readings if run is not None else ()\n",
        new="        readings = run.readings[:0] if run is not None else ()\n",
        tests=(_DOORS_TEST,),
    ),
    Defect(
        name="refusal-dated-before-its-horizon",
        breaks=(HORIZON, "I9"),
        file="interlock/domain/recovery.py",
        old="    return _Closed(Door.HORIZON, now)\n",
        new="    return _Closed(Door.HORIZON)\n",
        tests=(_DOORS_TEST,),
    ),
    Defect(
        name="persons-no-dated-before-its-horizon",
        breaks=(HORIZON, "I9"),
        file="interlock/domain/protocol.py",
        old="        past_at=past_at,\n",
        new="",
        tests=("tests/contract/test_resolution.py",),
    ),
    Defect(
        name="deadline-by-a-clock-that-may-be-behind",
        breaks=(HORIZON, "rule 3"),
        file="interlock/driver.py",
        old=" - behind_s(self.clock)\n",
        new="\n",
        tests=(_DOORS_TEST,),
    ),
)

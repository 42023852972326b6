"""Defects that the exploration finds, and those that leave an action without an end, or without a wanted one."""

from __future__ import annotations

from harness.sabotage.defects import ENDS, HORIZON, Defect, lines

_APPROVALS = "interlock/domain/approvals.py"
_CHECKING = "interlock/domain/checking.py"
_RECOVERY = "interlock/domain/recovery.py"
_SENDING = "interlock/domain/sending.py"

_CRASH_KIT_TEST = "tests/stateful/test_crash_kit_profiles.py"
_ONE_WORKER_TEST = "tests/stateful/test_exploration_one_worker.py"
_TWO_WORKERS_TEST = "tests/stateful/test_exploration_two_workers.py"

_BEFORE_THE_HORIZON = "    if now < horizon:\n"

DEFECTS: tuple[Defect, ...] = (
    Defect(
        name="approval-not-asserted-with-any-send",
        breaks=("rule 1", "I3"),
        file=_SENDING,
        old="    return (yield from Append(action, checked.approval))\n",
        new="    return (yield from Append(action))\n",
        tests=(_TWO_WORKERS_TEST,),
    ),
    Defect(
        name="premises-never-read-again",
        breaks=("I4",),
        file=_CHECKING,
        old="    premises = yield from ReadPremises(action_id, intent)\n    approval, reading = yield from read_approval(",
        new="    premises = ()\n    approval, reading = yield from read_approval(",
        tests=(_TWO_WORKERS_TEST,),
    ),
    Defect(
        name="clock-that-was-set-back-taken-for-one-past-the-horizon",
        breaks=(HORIZON, "rule 3", "I2"),
        file=_RECOVERY,
        old=_BEFORE_THE_HORIZON,
        new="    if action.last_dispatch.timestamp <= now < horizon:\n",
        tests=(_TWO_WORKERS_TEST,),
    ),
    Defect(
        name="horizon-waited-for-for-ever",
        breaks=(ENDS,),
        file=_RECOVERY,
        old=_BEFORE_THE_HORIZON,
        new="    if now:\n",
        tests=(_TWO_WORKERS_TEST,),
    ),
    Defect(
        name="what-was-learned-not-written-down",
        breaks=(ENDS,),
        file=_SENDING,
        old="    if not doubt.worth_keeping or kept == action.doubt:\n",
        new="    if not doubt.worth_keeping or kept is not None:\n",
        tests=(_ONE_WORKER_TEST,),
    ),
    Defect(
        name="own-reservation-taken-for-somebody-elses",
        breaks=(ENDS,),
        file=_APPROVALS,
        old="        others = [key for key in (*self.reserved, *self.spent) if key != mine]\n",
        new="        others = [key for key in (*self.reserved, *self.spent) if mine]\n",
        tests=(_ONE_WORKER_TEST,),
    ),
    Defect(
        name="own-amount-taken-for-somebody-elses",
        breaks=(ENDS,),
        file=_APPROVALS,
        old="self.remaining_minor(except_action=mine)",
        new="self.remaining_minor()",
        tests=(_CRASH_KIT_TEST,),
    ),
    Defect(
        name="resend-that-says-it-only-reads-what-is-stored",
        breaks=("rule 1", "I3", "I4"),
        file=_SENDING,
        old="        announced = yield from announce(action, sender, checked, attempt)\n",
        new=lines(
            "        purpose = SendPurpose.EXECUTE if doubt.nothing_sent else SendPurpose.READ_STORED",
            "        announced = yield from announce(action, sender, checked, attempt, purpose)",
            "",
        ),
        tests=(_TWO_WORKERS_TEST,),
    ),
    Defect(
        name="ambiguous-although-a-burn-would-tell",
        breaks=(ENDS,),
        file=_RECOVERY,
        old="    if sender.profile.burns and key_still",
        new="    if by_horizon and sender.profile.burns and key_still",
        tests=(_ONE_WORKER_TEST,),
    ),
    Defect(
        name="not-sent-taken-for-a-no",
        breaks=(ENDS,),
        file=_SENDING,
        old="    return (yield from pend(action, sender, doubt, PendingReason.NOT_SENT, why))\n\n\n",
        new='    return (yield from refuse_declined(action, Declined("not_sent", why), at_recovery=False))\n\n\n',
        tests=(_ONE_WORKER_TEST,),
    ),
    Defect(
        name="ambiguous-although-a-resend-would-tell",
        breaks=(ENDS,),
        file=_RECOVERY,
        old="    (Recheck.HOLDS, Sight.CANNOT_LOOK, DEDUPED): Row.SEND_AGAIN,\n",
        new="    (Recheck.HOLDS, Sight.CANNOT_LOOK, DEDUPED): Row.NEW_KEY_BEHIND_BURNED_KEYS,\n",
        tests=(_ONE_WORKER_TEST,),
    ),
)

"""Defects that break an invariant, I1 to I10."""

from __future__ import annotations

from harness.sabotage.defects import Defect, lines

_ACTION = "interlock/domain/action.py"
_APPROVALS = "interlock/domain/approvals.py"
_CHECKING = "interlock/domain/checking.py"
_ENDINGS = "interlock/domain/endings.py"
_PROTOCOL = "interlock/domain/protocol.py"
_RECOVERY = "interlock/domain/recovery.py"
_SENDING = "interlock/domain/sending.py"
_JOURNAL = "interlock/infrastructure/journal.py"
_RECORDER = "interlock/infrastructure/sqlite/recorder.py"
_SCHEMA = "interlock/infrastructure/sqlite/migrations/0001_journal.sql"
_VERIFICATION = "interlock/projections/verification.py"

_INVARIANTS_TEST = "tests/contract/test_invariants.py"
_RECORD_TEST = "tests/contract/test_invariants_of_the_record.py"
_RULES_TEST = "tests/contract/test_rules.py"
_APPROVALS_TEST = "tests/contract/test_approvals.py"
_RECEIPTS_TEST = "tests/contract/test_receipts.py"
_FUNCTIONS_TEST = "tests/contract/test_functions.py"
_INPUT_TEST = "tests/contract/test_bad_input.py"
_TAMPERING_TEST = "tests/integration/test_tampering.py"

_BEFORE_SENDING = (
    Defect(
        name="send-before-the-append",
        breaks=("I1",),
        file=_SENDING,
        old="        announced = yield from announce(action, sender, checked, attempt)\n",
        new=lines(
            "        now = yield from Now()",
            "        until = now + timedelta(seconds=sender.profile.send_deadline_s)",
            '        yield from Send(action.id, action.intent.effect, f"il-{action.id}-{attempt}", until)',
            "        announced = yield from announce(action, sender, checked, attempt)",
            "",
        ),
        tests=(_INVARIANTS_TEST,),
    ),
    Defect(
        name="commits-that-are-not-on-the-disk",
        breaks=("I1",),
        file="interlock/infrastructure/sqlite/connections.py",
        old='connection.execute("PRAGMA synchronous=FULL")',
        new='connection.execute("PRAGMA synchronous=OFF")',
        tests=(_INVARIANTS_TEST,),
    ),
    Defect(
        name="key-window-not-looked-at",
        breaks=("I2", "I7"),
        file=_SENDING,
        old="    return expires is not None and at < expires\n",
        new="    return expires is not None\n",
        tests=(_INVARIANTS_TEST,),
    ),
    Defect(
        name="key-window-counted-from-the-last-send",
        breaks=("I2",),
        file=_SENDING,
        old="    expires = profile.key_expires(action.first_dispatch_of(attempt).timestamp)\n",
        new="    expires = profile.key_expires([one for one in action.dispatches if one.attempt == attempt][-1].timestamp)\n",
        tests=(_INVARIANTS_TEST,),
    ),
    Defect(
        name="key-window-not-judged-again-before-the-write",
        breaks=("I2",),
        file=_SENDING,
        old="    if not fresh_key and sender.profile.dedupes and not key_still_deduped(",
        new="    if fresh_key is None and not key_still_deduped(",
        tests=(_INVARIANTS_TEST,),
    ),
    Defect(
        name="resend-without-the-lookup",
        breaks=("I2",),
        file=_RECOVERY,
        old="    if not sender.profile.looks_up:\n",
        new="    if not sender.profile.looks_up or sender.profile.dedupes:\n",
        tests=(_RULES_TEST,),
    ),
    Defect(
        name="key-of-a-stored-failure-taken-for-open",
        breaks=("I2",),
        file=_RECOVERY,
        old="sender.profile, now) and doubt.key is KeyState.OPEN,",
        new="sender.profile, now),",
        tests=(_INVARIANTS_TEST,),
    ),
)

_APPROVAL = (
    Defect(
        name="reservation-in-a-transaction-of-its-own",
        breaks=("I3",),
        file=_SENDING,
        old="    return (yield from Append(action, checked.approval))\n",
        new=lines(
            "    written = yield from Append(action)",
            "    if written is AppendAnswer.APPENDED:",
            "        yield from Append(action, checked.approval)",
            "    return written",
            "",
        ),
        tests=(_INVARIANTS_TEST,),
    ),
    Defect(
        name="version-of-the-approval-not-asserted",
        breaks=("I3", "rule 1"),
        file=_JOURNAL,
        old="(aggregate.id, aggregate.version - len(aggregate.pending_events)) for aggregate in aggregates)",
        new="(one.id, one.version - len(one.pending_events)) for one in aggregates if one.pending_events)",
        tests=(_RULES_TEST,),
    ),
    Defect(
        name="revocation-ignored-once-reserved",
        breaks=("I3",),
        file=_APPROVALS,
        old="        if self.revoked_at is not None:\n            return",
        new="        if self.revoked_at is not None and action_id.hex not in self.reserved:\n            return",
        tests=(_RULES_TEST,),
    ),
    Defect(
        name="expiry-not-looked-at-before-the-append",
        breaks=("I3",),
        file=_CHECKING,
        old="        return expires_at is None or at < expires_at\n",
        new="        return expires_at is None or at is not None\n",
        tests=(_INVARIANTS_TEST,),
    ),
    Defect(
        name="cap-not-summed-up",
        breaks=("I3",),
        file=_APPROVALS,
        old="if len(others) >= self.terms.uses or (remaining is not None and remaining < amount):",
        new="if len(others) >= self.terms.uses or (remaining is None and amount):",
        tests=(_INVARIANTS_TEST,),
    ),
    Defect(
        name="ambiguity-gives-the-reservation-back",
        breaks=("I3",),
        file=_ENDINGS,
        old="current.leave_ambiguous(code, words, at, evidence=evidence, checks=checks))\n",
        new=lines(
            "current.leave_ambiguous(code, words, at, evidence=evidence, checks=checks),",
            "            lambda approval, at: approval.release(action.id, at))",
            "",
        ),
        tests=(_APPROVALS_TEST,),
    ),
)

_PREMISES = (
    Defect(
        name="premises-not-read-again-on-recovery",
        breaks=("I4",),
        file=_RECOVERY,
        old="        return seen\n    checked = yield from check(action.id, action.intent)\n",
        new=lines(
            "        return seen",
            "    checked = yield from check(action.id, action.intent)",
            "    checked = replace(checked, checks=replace(checked.checks, premises=action.last_dispatch.checks.premises))",
            "",
        ),
        tests=(_INVARIANTS_TEST,),
    ),
    Defect(
        name="premises-not-read-again-behind-the-door",
        breaks=("I4",),
        file=_RECOVERY,
        old=lines(
            "        checked = yield from check(action.id, action.intent)",
            "        if checked.unreadable is not None:",
            "            return (yield from pend(action, sender, doubt, PendingReason.SETTLING, checked.unreadable))",
            "        if checked.objection is None and doubt.sends",
        ),
        new="        if checked.objection is None and doubt.sends",
        tests=(_INVARIANTS_TEST,),
    ),
    Defect(
        name="premises-not-read-again-before-another-try",
        breaks=("I4",),
        file=_SENDING,
        old="        if checked.objection is not None and checked.unreadable is None:\n",
        new="        if checked.objection is not None and checked.unreadable is not None:\n",
        tests=(_INVARIANTS_TEST,),
    ),
    Defect(
        name="empty-read-taken-for-unchanged",
        breaks=("I4",),
        file="interlock/domain/premises.py",
        old='return ReadingState.UNREADABLE, f"{premise.subject} read as empty", ""',
        new='return ReadingState.UNCHANGED, "", ""',
        tests=("tests/unit/test_domain_premises.py",),
    ),
    Defect(
        name="failed-read-taken-for-unchanged",
        breaks=("I4",),
        file=_CHECKING,
        old="        for reading in self.checks.premises:\n",
        new="        for reading in self.checks.premises[:0]:\n",
        tests=(_INVARIANTS_TEST,),
    ),
)

_EFFECT = (
    Defect(
        name="fingerprints-not-compared",
        breaks=("I5",),
        file=_ACTION,
        old="if intent.effect.fingerprint != self.intent.effect.fingerprint:",
        new="if intent.effect.target != self.intent.effect.target:",
        tests=(_INVARIANTS_TEST,),
    ),
    Defect(
        name="another-effect-fired-under-a-used-key",
        breaks=("I5",),
        file=_PROTOCOL,
        old="            action.require_same_effect(intent)\n            return (yield from recover(action, sender))\n",
        new="            return (yield from recover(action, sender))\n",
        tests=(_INVARIANTS_TEST,),
    ),
    Defect(
        name="fingerprint-without-the-money",
        breaks=("I5",),
        file="interlock/domain/effects.py",
        old="= [money.amount_minor, money.currency] if money else []",
        new="= []",
        tests=(_INPUT_TEST,),
    ),
)

_UNKNOWN = (
    Defect(
        name="time-out-read-as-a-no",
        breaks=("I6",),
        file=_SENDING,
        old=lines(
            "            key = doubt.key if key is KeyState.OPEN else key",
            "            return replace(doubt, nothing_sent=False, key=key, sends=sends)",
            "",
        ),
        new=lines(
            '            no = Declined("no_answer", f"no answer, key {key}")',
            "            return (yield from refuse_declined(action, no, at_recovery=False))",
            "",
        ),
        tests=(_RECORD_TEST,),
    ),
    Defect(
        name="lookup-that-cannot-tell-read-as-absent",
        breaks=("I6",),
        file=_RECOVERY,
        old="    return answer if isinstance(answer, Found | CannotTell) else Sight.ABSENT\n",
        new="    return answer if isinstance(answer, Found) else Sight.ABSENT\n",
        tests=(_RECORD_TEST,),
    ),
    Defect(
        name="unexpected-exception-read-as-not-sent",
        breaks=("I6",),
        file="interlock/domain/ports.py",
        old=lines(
            "I6: whatever went wrong, it is not known to have not happened",
            "            return Unknown(_named(error))",
        ),
        new=lines(
            "I6: whatever went wrong, it is not known to have not happened",
            "            from interlock.domain.answers import NotSent",
            "",
            "            return NotSent(_named(error))",
        ),
        tests=(_FUNCTIONS_TEST,),
    ),
    Defect(
        name="lost-connection-read-as-not-sent",
        breaks=("I6",),
        file="interlock/stripe/verdicts.py",
        old="    return Unknown(words_of(error)) if written else NotSent(words_of(error))\n",
        new="    return NotSent(words_of(error))\n",
        tests=("tests/unit/test_stripe_verdicts.py",),
    ),
    Defect(
        name="lookup-that-stops-at-the-first-page",
        breaks=("I6",),
        file="interlock/stripe/client.py",
        old="            if not has_more:\n                return\n",
        new="            if not has_more or refunds:\n                return\n",
        tests=("tests/integration/test_stripe_refunds_read.py",),
    ),
    Defect(
        name="send-after-one-that-was-not-sent-forgotten",
        breaks=("I6", "I2"),
        file=_ACTION,
        old="            elif aggregate.doubt.nothing_sent:\n",
        new="            elif aggregate.attempt == 0:\n",
        tests=("tests/contract/test_random_schedules.py",),
    ),
)

_CLAIMS = (
    Defect(
        name="locks-of-the-living-swept-away",
        breaks=("I7",),
        file="interlock/infrastructure/locks.py",
        old="                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n                path.unlink()\n",
        new="                path.unlink()\n",
        tests=(_RECORD_TEST,),
    ),
    Defect(
        name="claim-taken-from-a-living-holder",
        breaks=("I7",),
        file=_PROTOCOL,
        old="    if liveness in (Liveness.ALIVE, Liveness.UNKNOWN) and not expired:\n",
        new="    if liveness is Liveness.UNKNOWN and not expired:\n",
        tests=(_RECORD_TEST,),
    ),
    Defect(
        name="term-that-does-not-rise",
        breaks=("I7",),
        file=_SENDING,
        old="term=action.claim.term + 1 if action.claim else 1,",
        new="term=action.claim.term if action.claim else 1,",
        tests=(_RECORD_TEST,),
    ),
    Defect(
        name="new-key-after-a-while-without-a-lookup",
        breaks=("I7", "I2"),
        file=_RECOVERY,
        old="(Recheck.HOLDS, Sight.CANNOT_LOOK, NOT_DEDUPED): Row.NEW_KEY_BEHIND_BURNED_KEYS,",
        new="(Recheck.HOLDS, Sight.CANNOT_LOOK, NOT_DEDUPED): Row.NEW_KEY_BEHIND_CLOSED_DOOR,",
        tests=(_RECORD_TEST,),
    ),
)

_JOURNALED = (
    Defect(
        name="lost-acknowledgement-not-read-back",
        breaks=("I8",),
        file=_JOURNAL,
        old="            self._read_back(recorder, stored, error)\n",
        new='            raise JournalUnavailable(f"the journal could not be written: {error}") from error\n',
        tests=(_RECORD_TEST,),
    ),
    Defect(
        name="failed-append-taken-for-written",
        breaks=("I8", "I1"),
        file=_JOURNAL,
        old="            self._read_back(recorder, stored, error)\n",
        new="            del error  # it will have been written\n",
        tests=(_RECORD_TEST, "tests/integration/test_full_disk.py"),
    ),
    Defect(
        name="conflict-taken-for-our-own",
        breaks=("I8",),
        file=_JOURNAL,
        old="            return AppendAnswer.ACTION_MOVED if mine else AppendAnswer.APPROVAL_MOVED\n",
        new="            return AppendAnswer.APPENDED if mine else AppendAnswer.APPROVAL_MOVED\n",
        tests=(_RECORD_TEST,),
    ),
    Defect(
        name="anybodys-event-read-back-as-our-own",
        breaks=("I8",),
        file=_RECORDER,
        old='        return row is not None and row["state"] == event.state\n',
        new="        return row is not None\n",
        tests=(_RECORD_TEST,),
    ),
    Defect(
        name="update-trigger-dropped",
        breaks=("I9",),
        file="interlock/infrastructure/sqlite/migrations/0003_erasure.sql",  # it takes the place of the first migration's
        old="WHEN NOT (\n    NEW.state IS NULL\n",
        new="WHEN NOT (\n    NEW.position > 0 OR NEW.state IS NULL\n",
        tests=(_RECORD_TEST,),
    ),
    Defect(
        name="replace-trigger-dropped",
        breaks=("I9",),
        file=_SCHEMA,
        old="WHEN EXISTS (SELECT 1 FROM stored_events WHERE position = NEW.position)\n    OR EXISTS (",
        new="WHEN EXISTS (SELECT 1 FROM stored_events WHERE position = -1)\n    AND EXISTS (",
        tests=(_RECORD_TEST,),
    ),
    Defect(
        name="chain-not-checked",
        breaks=("I9",),
        file=_VERIFICATION,
        old="        if leaf_hash(self._record(row, prev)) != row.leaf_hash:\n",
        new="        if not leaf_hash(self._record(row, prev)):\n",
        tests=(_RECORD_TEST,),
    ),
    Defect(
        name="order-across-aggregates-not-checked",
        breaks=("I9",),
        file=_VERIFICATION,
        old="running_hash(running, row.leaf_hash) != row.running_hash:",
        new="not running_hash(running, row.leaf_hash):",
        tests=(_TAMPERING_TEST,),
    ),
    Defect(
        name="refusal-without-a-receipts-row",
        breaks=("I10",),
        file=_JOURNAL,
        old="summary=summarize(action) if action is not None else None,",
        new='summary=summarize(action) if action is not None and action.status != "REFUSED" else None,',
        tests=(_RECEIPTS_TEST,),
    ),
    Defect(
        name="refusal-without-what-was-read",
        breaks=("I10",),
        file=_SENDING,
        old="    return (yield from record_refusal(action, refusal, checked.checks))\n",
        new="    return (yield from record_refusal(action, refusal, None))\n",
        tests=(_RECORD_TEST,),
    ),
)

DEFECTS: tuple[Defect, ...] = (*_BEFORE_SENDING, *_APPROVAL, *_PREMISES, *_EFFECT, *_UNKNOWN, *_CLAIMS, *_JOURNALED)

"""Defects of receipts: a verifier that believes what it should check, a rule left out, an exporter that signs too much."""

from __future__ import annotations

from harness.sabotage.defects import RECEIPTS, Defect

_VERIFYING = "interlock/evidence/verifying.py"
_COMMANDS = "interlock/cli/receipt_files.py"
_CLI = "interlock/cli/__init__.py"
_COMPLETENESS = "interlock/evidence/completeness.py"
_BUNDLES = "interlock/evidence/bundles.py"
_ATTESTORS = "interlock/evidence/attestors.py"
_DECODING = "interlock/evidence/decoding.py"
_AUTHORITY = "interlock/domain/authority.py"
_LEGALITY = "interlock/domain/legality.py"
_PROGRESS = "interlock/domain/progress.py"
_ACCOUNT = "interlock/domain/account.py"
_EXPORTING = "interlock/projections/exporting.py"
_BY_HAND = "docs/verify_by_hand.py"

_VERIFYING_TEST = "tests/integration/test_receipt_verifying.py"
_LEGALITY_TEST = "tests/integration/test_receipt_legality.py"
_EXPORT_TEST = "tests/integration/test_receipt_export.py"
_LIMITS_TEST = "tests/integration/test_receipt_limits.py"
_ATTESTORS_TEST = "tests/unit/test_attestors.py"
_COMMANDS_TEST = "tests/integration/test_receipt_commands.py"
_FOREIGN_TEST = "tests/integration/test_receipt_foreign.py"
_FOLD_TEST = "tests/stateful/test_legality_fold.py"


def _defect(name: str, file: str, old: str, new: str, *tests: str) -> Defect:
    return Defect(name=name, breaks=(RECEIPTS,), file=file, old=old, new=new, tests=tests)


_BELIEVING = (
    _defect(
        "a-copy-that-can-not-be-read-ends-the-check",
        _COMMANDS,
        "    except OSError as error:\n        raise MalformedEvidence(f",
        "    except NotImplementedError as error:\n        raise MalformedEvidence(f",
        _COMMANDS_TEST,
    ),
    _defect(
        "what-nobody-foresaw-is-a-verdict",
        _CLI,
        'return Exit.FOUND if "journal" in arguments else Exit.JOURNAL',
        "return Exit.FOUND",
        _COMMANDS_TEST,
    ),
    _defect(
        "a-rotation-ends-every-workers-key",
        _ATTESTORS,
        "if _is_in_use(key, old) else key for key",
        "if key.until_index is None else key for key",
        _ATTESTORS_TEST,
    ),
    _defect(
        "any-key-signs-a-receipt",
        _VERIFYING,
        "            self._add(FindingKind.SIGNATURE, Verdict.UNVERIFIABLE, str(error))\n",
        "            self._add(FindingKind.SIGNATURE, Verdict.NOTE, str(error))\n",
        _VERIFYING_TEST,
    ),
    _defect(
        "no-attestors-needed",
        _VERIFYING,
        'FindingKind.SIGNATURE, Verdict.UNVERIFIABLE, "no list of attestors',
        'FindingKind.SIGNATURE, Verdict.NOTE, "no list of attestors',
        _VERIFYING_TEST,
    ),
    _defect(
        "a-rotated-key-goes-on-signing",
        _ATTESTORS,
        "index < self.until_index)",
        "True)",
        _VERIFYING_TEST,
    ),
    _defect(
        "a-rotated-key-signs-what-is-pending",
        _ATTESTORS,
        "            return self.until_index is None\n",
        "            return True\n",
        _VERIFYING_TEST,
    ),
    _defect(
        "a-receipt-about-other-records",
        _VERIFYING,
        'if subjects != [(CHAIN_NAME, {"sha256": digest_of(self.bundle.records)})]:',
        "if not subjects:",
        _VERIFYING_TEST,
    ),
    _defect(
        "any-statement-is-a-receipt",
        _VERIFYING,
        "            if statement.predicate_type != PREDICATE_TYPE:\n",
        "            if not statement.predicate_type:\n",
        _VERIFYING_TEST,
    ),
    _defect(
        "a-state-is-not-hashed",
        _VERIFYING,
        "elif state_digest(event.text.encode()) != event.record.state:",
        "elif not event.text:",
        _VERIFYING_TEST,
    ),
    _defect(
        "an-index-is-believed",
        _COMPLETENESS,
        "    verify_inclusion(parsed.index, checkpoint.size, record.leaf, parsed.hashes, checkpoint.root)\n",
        "",
        _VERIFYING_TEST,
    ),
    _defect(
        "too-few-witnesses-suffice",
        _VERIFYING,
        "            self._add(FindingKind.WITNESSES, Verdict.UNVERIFIABLE, words)\n",
        "            self._add(FindingKind.WITNESSES, Verdict.NOTE, words)\n",
        _VERIFYING_TEST,
    ),
    _defect(
        "a-log-of-any-key",
        _VERIFYING,
        "            self._add(FindingKind.LOG_KEY, Verdict.UNVERIFIABLE, str(error))\n",
        "            self._add(FindingKind.LOG_KEY, Verdict.NOTE, str(error))\n",
        _VERIFYING_TEST,
    ),
    _defect("as-of-is-believed", _VERIFYING, "        if said != signed:\n", "        if False:\n", _VERIFYING_TEST),
    _defect(
        "a-fork-goes-unseen",
        _VERIFYING,
        "other.checkpoint.root) != other.checkpoint.root:",
        "other.checkpoint.root) == b'':",
        _VERIFYING_TEST,
    ),
    _defect(
        "backdated-before-a-checkpoint",
        _VERIFYING,
        "not_before is not None and at < not_before - CLOCKS_MAY_DIFFER",
        "False",
        _VERIFYING_TEST,
    ),
    _defect(
        "dated-behind-a-checkpoint",
        _VERIFYING,
        "not_after is not None and at > not_after + CLOCKS_MAY_DIFFER",
        "False",
        _VERIFYING_TEST,
    ),
    _defect(
        "the-fastest-witness-bounds-the-time",
        _VERIFYING,
        "        return max(lower, default=None), min(upper, default=None)\n",
        "        return min(lower, default=None), max(upper, default=None)\n",
        _VERIFYING_TEST,
    ),
    _defect("never-stale", _VERIFYING, "        if age_s > self.known.max_age_s:\n", "        if False:\n", _VERIFYING_TEST),
    _defect(
        "a-newer-checkpoint-makes-nothing-old",
        _VERIFYING,
        "        if newest > self.checkpoint.size:\n",
        "        if False:\n",
        _VERIFYING_TEST,
    ),
    _defect(
        "what-is-signed-is-believed",
        _VERIFYING,
        "            if getattr(claim, name) != getattr(account, name):\n",
        "            if False:\n",
        _LEGALITY_TEST,
    ),
    _defect(
        "pending-counts-as-logged",
        _VERIFYING,
        '                words = "pending: no checkpoint covers any of its events yet; ask for the receipt again"\n'
        "                self._add(FindingKind.INCLUSION, Verdict.UNVERIFIABLE, words)\n",
        '                words = "pending: no checkpoint covers any of its events yet; ask for the receipt again"\n'
        "                self._add(FindingKind.INCLUSION, Verdict.NOTE, words)\n",
        _EXPORT_TEST,
    ),
)

_LEFT_OUT = (
    _defect(
        "a-left-out-event-is-no-lie",
        _COMPLETENESS,
        "origin == claim.as_of.origin and index < claim.as_of.size:",
        "index < 0:",
        _VERIFYING_TEST,
    ),
    _defect(
        "two-histories-are-none",
        _COMPLETENESS,
        "        if mine is not None:\n",
        "        if False:\n",
        _VERIFYING_TEST,
    ),
    _defect(
        "a-copy-of-the-log-is-believed",
        _COMPLETENESS,
        "    if (frontier.size, frontier.root()) != (checkpoint.size, checkpoint.root):\n",
        "    if False:\n",
        _VERIFYING_TEST,
    ),
    _defect(
        "the-whole-log-shows-nothing",
        _COMPLETENESS,
        "    if found == {index: record.serialize() for index, record in here.items()}:\n",
        "    if True:\n",
        _VERIFYING_TEST,
    ),
)

_LIMITS = (
    _defect(
        "fifty-megabytes-are-read",
        _BUNDLES,
        "LIMITS = Limits(max_bytes=8 << 20,",
        "LIMITS = Limits(max_bytes=80 << 20,",
        _LIMITS_TEST,
    ),
    _defect(
        "a-record-twice",
        _BUNDLES,
        "        if len(set(self.records)) != len(self.records):\n",
        "        if False:\n",
        _VERIFYING_TEST,
    ),
    _defect("unknown-fields-pass", _BUNDLES, "        if unknown:\n", "        if False:\n", _LIMITS_TEST),
    _defect(
        "each-proof-with-its-own-checkpoint",
        _VERIFYING,
        "            if len(texts) > 1:\n",
        "            if False:\n",
        _LIMITS_TEST,
    ),
    _defect("a-state-read-leniently", _DECODING, '    read_json(state, "a state")\n', "", _LIMITS_TEST),
    _defect("a-time-without-a-zone", _DECODING, "        return value.tzinfo is None\n", "        return False\n", _LIMITS_TEST),
)

_RULES = (
    _defect("terms-may-jump", _PROGRESS, "claim.term != before.term + 1:", "claim.term < 0:", _LEGALITY_TEST),
    _defect(
        "attempts-may-jump", _PROGRESS, "state.attempt not in (known, known + 1)):", "state.attempt < known):", _LEGALITY_TEST
    ),
    _defect(
        "any-idempotency-key",
        _PROGRESS,
        "    if state.idempotency_key != idempotency_key(action_id, state.attempt):\n",
        "    if not state.idempotency_key:\n",
        _LEGALITY_TEST,
    ),
    _defect(
        "a-deadline-behind-the-horizon",
        _PROGRESS,
        "    if not state.timestamp <= state.deadline_at <= state.horizon_at:\n",
        "    if not state.timestamp <= state.deadline_at:\n",
        _LEGALITY_TEST,
    ),
    _defect("a-send-without-an-approval", _PROGRESS, "    if not reading.holds:\n", "    if False:\n", _LEGALITY_TEST),
    _defect(
        "a-send-on-premises-that-do-not-hold",
        _PROGRESS,
        "    if not all(premise.holds for premise in state.checks.premises):\n",
        "    if False:\n",
        _LEGALITY_TEST,
    ),
    _defect(
        "a-send-that-overruns-a-revocation",
        _LEGALITY,
        "        if approval.events != reading.version:\n",
        "        if False:\n",
        _LEGALITY_TEST,
    ),
    _defect(
        "a-send-without-a-reservation",
        _LEGALITY,
        "            approval.owes = action_id.hex\n",
        "            pass\n",
        _LEGALITY_TEST,
    ),
    _defect(
        "any-approval-without-a-name-will-do",
        _VERIFYING,
        "self.progress.sends and not self._is_reserved_with_its_send():",
        "self.progress.sends and not self.events:",
        _LEGALITY_TEST,
    ),
    _defect(
        "a-reservation-for-another-action-will-do",
        _VERIFYING,
        "event.index == sent_at + 1 and self._may_be_ours(event.state)",
        "event.index == sent_at + 1",
        _LEGALITY_TEST,
    ),
    _defect(
        "never-sent-and-yet-sent",
        _PROGRESS,
        "    if before.sends and door is Door.NOTHING_SENT and",
        "    if before.sends < 0 and door is Door.NOTHING_SENT and",
        _LEGALITY_TEST,
    ),
    _defect(
        "refused-before-the-horizon",
        _PROGRESS,
        "    if horizon is not None and state.timestamp < horizon:\n",
        "    if False:\n",
        _LEGALITY_TEST,
    ),
    _defect(
        "another-effect-than-was-intended",
        _PROGRESS,
        "    if effect.fingerprint != made:\n",
        "    if not made:\n",
        _LEGALITY_TEST,
    ),
    _defect(
        "a-cap-of-no-effect",
        _AUTHORITY,
        "        if sum(amounts.values()) > cap:\n",
        "        if False:\n",
        "tests/unit/test_domain_authority.py",
    ),
    _defect(
        "a-reservation-given-back-early",
        _LEGALITY,
        "        if status not in (None, _ALONGSIDE[kind]):\n",
        "        if False:\n",
        _LEGALITY_TEST,
    ),
    _defect(
        "refused-without-a-reason",
        _PROGRESS,
        "    if door is not Door.PERSON and not _has_a_reason(state):\n",
        "    if False:\n",
        _LEGALITY_TEST,
    ),
    _defect(
        "fields-that-no-event-has",
        _DECODING,
        "forbid_unknown_fields=True",
        "forbid_unknown_fields=False",
        _LIMITS_TEST,
    ),
    _defect(
        "a-fold-that-forgets-the-claim",
        _PROGRESS,
        "replace(progress, claim=state.claim, term=state.claim.term,",
        "replace(progress, term=state.claim.term,",
        _FOLD_TEST,
    ),
    _defect(
        "a-reversed-commit-happened",
        _ACCOUNT,
        "    Settlement.REVERSED: Happened.NO,\n",
        "    Settlement.REVERSED: Happened.YES,\n",
        "tests/unit/test_account.py",
    ),
)

_SIGNING = (
    _defect("an-edited-event-is-signed", _EXPORTING, "        if not holds:\n", "        if False:\n", _EXPORT_TEST),
    _defect(
        "other-actions-are-told",
        _EXPORTING,
        "event.stored is None or of_another or names & set(withhold)",
        "event.stored is None or names & set(withhold)",
        _EXPORT_TEST,
    ),
    _defect(
        "nothing-is-withheld",
        _EXPORTING,
        "event.stored is None or of_another or names & set(withhold)",
        "event.stored is None or of_another",
        _EXPORT_TEST,
        _COMMANDS_TEST,
    ),
    _defect(
        "by-hand-without-the-root",
        _BY_HAND,
        ' == root, "it is not in the log"\n',
        ', "it is not in the log"\n',
        _FOREIGN_TEST,
    ),
)

DEFECTS = (*_BELIEVING, *_LEFT_OUT, *_LIMITS, *_RULES, *_SIGNING)

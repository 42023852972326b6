"""Checking a receipt: without a journal, without a network, and without trusting anything but a policy and a list of attestors.

Size and root of the log's tree are taken from the signed checkpoint only, keys from what is trusted only, and what happened from
the events only: what the bundle says of itself is compared with these, and never believed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from interlock.domain.account import account_of
from interlock.domain.legality import Legality, Placed, Progress, Rule, fold, name_of
from interlock.domain.records import state_digest
from interlock.domain.states import (
    ActionState,
    ApprovalEventState,
    DispatchedState,
    ErasedApprovalState,
    ErasedState,
    EventState,
    ReservedState,
)
from interlock.errors import (
    EvidenceError,
    MalformedEvidence,
    QuorumNotReached,
    WrongKey,
)
from interlock.evidence.acceptance import AcceptedCheckpoint, accept_checkpoint
from interlock.evidence.attestors import Attestor
from interlock.evidence.bundles import CHAIN_NAME, PREDICATE_TYPE, Bundle, Claim, digest_of
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.completeness import audit, compare, included
from interlock.evidence.decoding import KINDS, decode_state
from interlock.evidence.dsse import verify_envelope
from interlock.evidence.encoding import to_base64
from interlock.evidence.findings import (
    About,
    Completeness,
    EventReport,
    Finding,
    FindingKind,
    ReceiptVerification,
    StateCheck,
    Verdict,
)
from interlock.evidence.notes import SignedNote
from interlock.evidence.records import Record
from interlock.evidence.statements import Statement
from interlock.evidence.strict_json import Reader
from interlock.evidence.tlog_proofs import TlogProof
from interlock.evidence.trust import NOTHING_ELSE, Known, Trust

__all__ = ["CLOCKS_MAY_DIFFER", "Known", "Trust", "verify_receipt"]

CLOCKS_MAY_DIFFER = timedelta(minutes=5)
"""By how much a gate's clock and a witness's may differ without a remark."""


def verify_receipt(data: bytes, trust: Trust, known: Known = NOTHING_ELSE) -> ReceiptVerification:
    """Check a receipt.

    Args:
        data: the bundle's bytes.
        trust: what is trusted.
        known: what else is there to compare it with.

    Returns:
        What was found; nothing is raised, whatever the bytes are.
    """
    try:
        bundle = Bundle.parse(data)
    except MalformedEvidence as error:
        return ReceiptVerification(findings=(Finding(FindingKind.FORMAT, Verdict.INVALID, str(error)),))
    check = _Check(bundle, trust, known)
    with suppress(_CannotGoOnError):  # what is wrong is among the findings, and nothing after it could be told
        check.run()
    return check.result()


class _CannotGoOnError(Exception):
    """What follows could not be checked."""


@dataclass(slots=True)
class _Event:
    """One event of the bundle, as far as it was checked."""

    record: Record
    of: str
    text: str | None
    proof: str | None
    kind: type[EventState] | None
    check: StateCheck = StateCheck.OK
    state: EventState | None = None
    index: int | None = None

    @property
    def place(self) -> str:
        return f"event {self.record.version} of the {self.of}"


@dataclass(slots=True)
class _Check:
    bundle: Bundle
    trust: Trust
    known: Known
    findings: list[Finding] = field(default_factory=list[Finding])
    claim: Claim | None = None
    signers: tuple[Attestor, ...] = ()
    events: list[_Event] = field(default_factory=list[_Event])
    checkpoint: Checkpoint | None = None
    accepted: AcceptedCheckpoint | None = None
    cosigned: tuple[str, ...] = ()
    others: list[AcceptedCheckpoint] = field(default_factory=list[AcceptedCheckpoint])
    progress: Progress = field(default_factory=Progress)
    completeness: Completeness = Completeness.UNKNOWN

    def run(self) -> None:
        """Check everything, from the signature to what happened."""
        self._signature()
        claim = self.claim = self._statement()
        self._chains(claim)
        self._states()
        self._checkpoint()
        self._inclusion()
        self._as_of(claim)
        self._further_checkpoints()
        self._time()
        self._legality(claim)
        self._age()
        self._left_out(claim)
        self._add(FindingKind.EVIDENCE, Verdict.NOTE, "that it happened is the gate's own word: only the provider can confirm it")

    def result(self) -> ReceiptVerification:
        """Return what was found."""
        return ReceiptVerification(
            findings=tuple(self.findings),
            claim=self.claim,
            about=About.of(self.progress.intent, [event.state for event in self.events]),
            signed_by=self.signers[0].keyid if self.signers else None,
            witnesses=self.cosigned,
            witnesses_known=len(self.trust.policy.witnesses),
            events=tuple(map(self._report, self.events)),
            completeness=self.completeness,
            states=Counter(event.check.value for event in self.events),
        )

    def _add(self, kind: FindingKind, verdict: Verdict, words: str) -> None:
        self.findings.append(Finding(kind, verdict, words))

    def _fail(self, kind: FindingKind, words: str) -> _CannotGoOnError:
        self._add(kind, Verdict.INVALID, words)
        return _CannotGoOnError(words)

    # --- who says it, and of what

    def _signature(self) -> None:
        if self.trust.attestors is None:
            self._add(
                FindingKind.SIGNATURE, Verdict.UNVERIFIABLE, "no list of attestors was given, so nobody is known who may sign"
            )
            return
        try:
            self.signers = verify_envelope(self.bundle.envelope, self.trust.attestors.keys)
        except WrongKey as error:
            self._add(FindingKind.SIGNATURE, Verdict.UNVERIFIABLE, str(error))
        except EvidenceError as error:
            self._add(FindingKind.SIGNATURE, Verdict.INVALID, str(error))

    def _statement(self) -> Claim:
        try:
            statement = Statement.of(self.bundle.envelope)
            if statement.predicate_type != PREDICATE_TYPE:
                raise MalformedEvidence(f"the statement is of another type than {PREDICATE_TYPE}")
            claim = Claim.from_fields(Reader(dict(statement.predicate), "what is signed"))
        except MalformedEvidence as error:
            raise self._fail(FindingKind.STATEMENT, str(error)) from error
        subjects = [(one.name, dict(one.digest)) for one in statement.subjects]
        if subjects != [(CHAIN_NAME, {"sha256": digest_of(self.bundle.records)})]:
            raise self._fail(
                FindingKind.STATEMENT, "the records are not those that were signed: one was changed, added or removed"
            )
        return claim

    # --- the chains

    def _chains(self, claim: Claim) -> None:
        try:
            records = [Record.parse(one.encode("ascii")) for one in self.bundle.records]
        except (MalformedEvidence, UnicodeEncodeError) as error:
            raise self._fail(FindingKind.CHAIN, f"a record can't be read: {error}") from error
        wanted = [("action", claim.action, claim.events)]
        if claim.approval is not None:
            wanted.append(("approval", claim.approval, claim.approval_events))
        parts = zip(records, self.bundle.states, self.bundle.proofs, strict=True)
        for of, aggregate_id, count in wanted:
            prev: bytes | None = None
            for n in range(1, count + 1):
                record, state, proof = next(parts, (None, None, None))
                if record is None:
                    raise self._fail(FindingKind.CHAIN, f"event {n} of the {of} is signed for, and not here")
                if (str(record.aggregate_id), record.version, record.prev, record.log) != (aggregate_id, n, prev, claim.log):
                    raise self._fail(FindingKind.CHAIN, f"event {n} of the {of} does not follow from the one before it")
                prev = record.leaf
                self.events.append(_Event(record, of, state, proof, KINDS.get(record.topic)))
        if next(parts, None) is not None or claim.events < 1:
            raise self._fail(FindingKind.CHAIN, "there are other records than the statement says")
        self._add(FindingKind.CHAIN, Verdict.OK, f"{len(self.events)} records follow from each other")

    def _states(self) -> None:
        erased = {event.of for event in self.events if event.kind in (ErasedState, ErasedApprovalState)}
        for event in self.events:
            if event.text is None:
                event.check = StateCheck.REDACTED if event.of in erased else StateCheck.WITHHELD
            elif state_digest(event.text.encode()) != event.record.state:
                event.check = StateCheck.MISMATCH
                self._add(FindingKind.STATES, Verdict.INVALID, f"{event.place}: its state is not the one that was recorded")
            else:
                self._decode(event, event.text.encode())
        counted = Counter(event.check.value for event in self.events)
        if StateCheck.MISMATCH.value not in counted:
            words = ", ".join(f"{many} {what}" for what, many in sorted(counted.items()))
            self._add(FindingKind.STATES, Verdict.OK, words)

    def _decode(self, event: _Event, stored: bytes) -> None:
        if event.kind is None:
            words = f"{event.place}: nothing is known here of the topic {event.record.topic}; a newer version may know it"
            self._add(FindingKind.STATES, Verdict.UNVERIFIABLE, words)
            return
        try:
            event.state = decode_state(event.record.topic, stored)
        except MalformedEvidence as error:
            self._add(FindingKind.STATES, Verdict.INVALID, f"{event.place}: {error}")

    # --- the log

    def _checkpoint(self) -> None:
        """Read the one checkpoint that all proofs are under, and ask the policy about it."""
        try:
            texts = {TlogProof.parse(event.proof.encode()).checkpoint for event in self.events if event.proof is not None}
            if not texts:
                words = "pending: no checkpoint covers any of its events yet; ask for the receipt again"
                self._add(FindingKind.INCLUSION, Verdict.UNVERIFIABLE, words)
                return
            if len(texts) > 1:
                raise MalformedEvidence("the proofs of a receipt are all under one checkpoint, and these are not")
            note = SignedNote.parse(texts.pop().encode())
            self.checkpoint = Checkpoint.parse(note.text)
        except MalformedEvidence as error:
            raise self._fail(FindingKind.INCLUSION, str(error)) from error
        self._ask_policy(note)

    def _ask_policy(self, note: SignedNote) -> None:
        witnesses = len(self.trust.policy.witnesses)
        try:
            self.accepted = accept_checkpoint(note, self.trust.policy)
        except QuorumNotReached as error:
            self.cosigned = error.cosigned
            self._add(FindingKind.LOG_KEY, Verdict.OK, "the log has signed the checkpoint")
            words = f"{len(error.cosigned)} of {witnesses} witnesses have cosigned it, and the policy asks for more: {error}"
            self._add(FindingKind.WITNESSES, Verdict.UNVERIFIABLE, words)
        except WrongKey as error:
            self._add(FindingKind.LOG_KEY, Verdict.UNVERIFIABLE, str(error))
        except EvidenceError as error:
            self._add(FindingKind.LOG_KEY, Verdict.INVALID, str(error))
        else:
            self.cosigned = tuple(self.accepted.witnesses)
            self._add(FindingKind.LOG_KEY, Verdict.OK, f"signed by the log {self.accepted.checkpoint.origin}")
            self._add(FindingKind.WITNESSES, Verdict.OK, f"{len(self.cosigned)} of {witnesses} witnesses have cosigned it")

    def _inclusion(self) -> None:
        if self.checkpoint is None:
            return
        pending = 0
        for event in self.events:
            if event.proof is None:
                pending += 1
                continue
            try:
                event.index = included(event.record, event.proof, self.checkpoint)
            except EvidenceError as error:
                raise self._fail(FindingKind.INCLUSION, f"{event.place}: {error}") from error
        for before, event in zip(self.events, self.events[1:], strict=False):
            if before.of == event.of and event.index is not None and (before.index is None or event.index <= before.index):
                raise self._fail(FindingKind.INCLUSION, f"{event.place} stands in the log before the event that it follows")
        if pending:
            words = f"pending: no checkpoint covers {pending} of {len(self.events)} events yet; ask for the receipt again"
            self._add(FindingKind.INCLUSION, Verdict.UNVERIFIABLE, words)
        else:
            words = f"all {len(self.events)} events are in the log of {self.checkpoint.size} leaves"
            self._add(FindingKind.INCLUSION, Verdict.OK, words)

    def _as_of(self, claim: Claim) -> None:
        """Compare what the attestor says that it is complete for with what the log has signed, and the key with its range."""
        as_of, checkpoint = claim.as_of, self.checkpoint
        covered = max(
            (event.record.version for event in self.events if event.of == "action" and event.index is not None), default=0
        )
        signed = None if checkpoint is None else (checkpoint.origin, checkpoint.size, to_base64(checkpoint.root), covered)
        said = None if as_of is None else (as_of.origin, as_of.size, as_of.root, as_of.last_n)
        if said != signed:
            raise self._fail(FindingKind.AS_OF, f"the receipt says that it is as of {said}, and its checkpoint says {signed}")
        if as_of is not None:
            words = f"as of {as_of.size} leaves of {as_of.origin}, of which event {as_of.last_n} is the action's last"
            self._add(FindingKind.AS_OF, Verdict.OK, words)
        self._range(None if as_of is None else as_of.size - 1)

    def _range(self, index: int | None) -> None:
        if not self.signers:
            return
        self.signers, spoken = tuple(one for one in self.signers if one.speaks_of(index)), self.signers
        if self.signers:
            self._add(FindingKind.SIGNATURE, Verdict.OK, f"signed by the attestor {self.signers[0].keyid}")
            return
        what = "a receipt that is not in the log yet" if index is None else f"a log whose last leaf is {index}"
        words = f"the key {spoken[0].keyid} has signed it, and may not speak of {what}: it was replaced, or not in use yet"
        self._add(FindingKind.SIGNATURE, Verdict.INVALID, words)

    # --- time

    def _further_checkpoints(self) -> None:
        """Take the checkpoints that came along and those that the verifier has: they bound the time, and show a fork."""
        if self.accepted is not None:
            self.others.append(self.accepted)
        for text in (*(one.encode() for one in self.bundle.checkpoints), *self.known.checkpoints):
            try:
                accepted = accept_checkpoint(SignedNote.parse(text), self.trust.policy)
            except EvidenceError as error:
                self._add(FindingKind.LOG_KEY, Verdict.NOTE, f"a further checkpoint is passed over: {error}")
                continue
            if self.checkpoint is None or accepted.checkpoint.origin == self.checkpoint.origin:
                self.others.append(accepted)
            else:
                words = (
                    f"a checkpoint of {accepted.checkpoint.origin} is passed over: the receipt is under {self.checkpoint.origin}"
                )
                self._add(FindingKind.LOG_KEY, Verdict.NOTE, words)
        roots: dict[int, bytes] = {}
        for other in self.others:
            if roots.setdefault(other.checkpoint.size, other.checkpoint.root) != other.checkpoint.root:
                words = (
                    f"the log has signed two trees of {other.checkpoint.size} leaves: keep both checkpoints, they are the proof"
                )
                raise self._fail(FindingKind.LOG_KEY, words)

    def _time(self) -> None:
        known = 0
        for event in self.events:
            not_before, not_after = self._bounds(event)
            at = event.state.timestamp if event.state is not None else None
            known += not_after is not None
            if at is None:
                continue
            if not_after is not None and at > not_after + CLOCKS_MAY_DIFFER:
                words = f"{event.place} says {at.isoformat()}, and witnesses had seen it by {not_after.isoformat()}"
                self._add(FindingKind.TIME, Verdict.INVALID, words)
            elif not_before is not None and at < not_before - CLOCKS_MAY_DIFFER:
                # No contradiction: a checkpoint may have been cosigned long after it was signed, and events came in between.
                words = (
                    f"{event.place} says {at.isoformat()}, and at {not_before.isoformat()} witnesses cosigned a tree without it: "
                    "it is backdated, or they were asked late"
                )
                self._add(FindingKind.TIME, Verdict.UNVERIFIABLE, words)
        if known:
            self._add(FindingKind.TIME, Verdict.OK, f"witnesses bound the time of {known} of {len(self.events)} events")
        else:
            self._add(FindingKind.TIME, Verdict.NOTE, "no witness has seen it, so its times are the gate's own word")

    def _bounds(self, event: _Event) -> tuple[datetime | None, datetime | None]:
        """Return between when it came into the log: of several witnesses the one that says least counts."""
        if event.index is None:
            return None, None
        index = event.index
        lower = [min(times) for one in self.others if one.checkpoint.size <= index and (times := one.cosigned_at)]
        upper = [max(times) for one in self.others if one.checkpoint.size > index and (times := one.cosigned_at)]
        return max(lower, default=None), min(upper, default=None)

    def _age(self) -> None:
        if self.checkpoint is None:
            return
        newest = max((one.checkpoint.size for one in self.others), default=0)
        if newest > self.checkpoint.size:
            words = (
                f"a checkpoint of {newest} leaves is known, and this receipt is as of {self.checkpoint.size}: ask for a newer one"
            )
            self._add(FindingKind.AS_OF, Verdict.STALE, words)
        if self.known.max_age_s is None or self.known.now_s is None:
            return
        times = self.accepted.cosigned_at if self.accepted is not None else ()
        if not times:
            self._add(FindingKind.AS_OF, Verdict.UNVERIFIABLE, "no witness says how old its checkpoint is")
            return
        age_s = self.known.now_s - max(times).timestamp()
        if age_s > self.known.max_age_s:
            words = f"its checkpoint was witnessed {age_s:.0f} s ago, and {self.known.max_age_s:.0f} s were asked for"
            self._add(FindingKind.AS_OF, Verdict.STALE, words)

    # --- what it says

    def _legality(self, claim: Claim) -> None:
        """Fold the events by the domain's own rules: hashes that hold prove no history that a gate could have written."""
        if any(event.kind is None for event in self.events):
            self._add(FindingKind.LEGALITY, Verdict.UNVERIFIABLE, "an event of an unknown kind: its rules are not known here")
            return
        broken = False
        for words, verdict in self._fold():
            broken = broken or verdict is Verdict.INVALID
            self._add(FindingKind.LEGALITY, verdict, words)
        if broken:
            return
        shown = "" if all(event.state is not None for event in self.events) else ", as far as its states are shown"
        self._add(FindingKind.LEGALITY, Verdict.OK, f"a gate could have written this, event by event{shown}")
        action = [(event.kind, event.state) for event in self.events if event.of == "action"]
        account = account_of(self.progress.status, self.progress.sends, action)
        for name in {"status", "happened", "via", "door"} - account.unknown:
            if getattr(claim, name) != getattr(account, name):
                words = f"the receipt says {name} {getattr(claim, name)}, and its events say {getattr(account, name)}"
                self._add(FindingKind.STATEMENT, Verdict.INVALID, words)

    def _fold(self) -> Iterator[tuple[str, Verdict]]:
        placed: list[Placed] = []
        for event in self.events:
            assert event.kind is not None, "the caller has asked"
            if not issubclass(event.kind, ActionState if event.of == "action" else ApprovalEventState):
                yield f"{event.place}: {name_of(event.kind)} is no event of an {event.of}", Verdict.INVALID
                return
            placed.append(Placed(event.record.aggregate_id, event.kind, event.state, event.index))
        try:
            legality, found = fold(placed)
        except (ValueError, TypeError, OverflowError) as error:
            yield f"an event holds what no gate can have reckoned with: {error}", Verdict.INVALID
            return
        for at, breach in found:
            verdict = Verdict.NOTE if breach.rule is Rule.TIME else Verdict.INVALID
            yield f"{self.events[at].place}: {breach.words}", verdict
        self.progress = legality.actions[self.events[0].record.aggregate_id]
        yield from self._reserved(legality, placed=all(event.index is not None for event in self.events))

    def _reserved(self, legality: Legality, *, placed: bool) -> Iterator[tuple[str, Verdict]]:
        intent, shown = self.progress.intent, any(event.of == "approval" for event in self.events)
        if shown and placed and any(legality.unreserved()):
            yield "it was sent without a reservation of its approval", Verdict.INVALID
        elif shown and placed and self.progress.sends and not self._is_reserved_with_its_send():
            yield "the approval that it shows was not reserved with its first send: it is another's", Verdict.INVALID
        elif not shown and self.progress.sends and intent is not None and intent.approval.source is None:
            yield "the events of its approval are left out, so nothing shows that it was reserved", Verdict.UNVERIFIABLE

    def _is_reserved_with_its_send(self) -> bool:
        """Say whether its approval was written to in the transaction of its first send, which is right behind it in the log (I3).

        Places and kinds can't be withheld: they bind an approval to its action where no name and no state does.
        """
        sent_at = next((event.index for event in self.events if event.kind is DispatchedState), None)
        reserved = [event for event in self.events if event.kind is ReservedState]
        return any(sent_at is not None and event.index == sent_at + 1 and self._may_be_ours(event.state) for event in reserved)

    def _may_be_ours(self, reserved: EventState | None) -> bool:
        own = self.events[0].record.aggregate_id.hex
        return not isinstance(reserved, ReservedState) or reserved.action_id == own

    # --- what it leaves out

    def _left_out(self, claim: Claim) -> None:
        records = [event.record for event in self.events]
        found = [one for data in self.known.others for one in compare(claim, records, data, self.trust.policy)]
        if self.known.entries is not None and self.accepted is not None:
            here = {event.index: event.record for event in self.events if event.index is not None}
            found.append(audit(self.known.entries, self.accepted.checkpoint, here))
        about = {one.verdict for one in found if one.kind is FindingKind.COMPLETENESS}
        if Verdict.INVALID in about:
            self.completeness = Completeness.CONTRADICTED
        elif Verdict.OK in about:
            self.completeness = Completeness.AUDITED
        else:
            words = "unknown: nothing here shows an event that was left out, and only the whole log could show that there is none"
            found.append(Finding(FindingKind.COMPLETENESS, Verdict.NOTE, words))
        self.findings += found

    def _report(self, event: _Event) -> EventReport:
        not_before, not_after = self._bounds(event)
        return EventReport(
            of=event.of,
            n=event.record.version,
            event=name_of(event.kind) if event.kind is not None else event.record.topic,
            state=event.check,
            index=event.index,
            claimed_at=event.state.timestamp if event.state is not None else None,
            not_before=not_before,
            not_after=not_after,
        )

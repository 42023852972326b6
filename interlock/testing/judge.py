"""The judge: after every step, I1 to I10 against the provider's ledger and the journal; at the end, whether it was of use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from interlock.domain.action import GatedAction, SendPurpose, Status
from interlock.domain.answers import Declined, KeyState, SendAnswer, Unknown
from interlock.domain.approvals import Approval
from interlock.domain.effects import Effect, record_effect
from interlock.domain.ports import Target
from interlock.domain.premises import ChangeKind
from interlock.domain.profiles import CapabilityProfile
from interlock.domain.requests import Append, AppendAnswer, Burn, LookUp, ReadPremises, Request, Send, SleepUntil
from interlock.infrastructure.journal import Journal
from interlock.projections.receipts import Happened, receipt_of
from interlock.testing.failures import GateViolation
from interlock.testing.faults import Heard
from interlock.testing.honesty import Honesty
from interlock.testing.world import LedgerEntry, WorldClock

_AGES = (Send, LookUp, Burn, SleepUntil)
"""What takes so long that premises which were read before it have to be read again (I4)."""

OBJECTIONS = (ChangeKind.DUPLICATE, ChangeKind.CONFLICTING)


@dataclass(slots=True)
class _Reading:
    """What one gate has read of the premises since it last asked the provider for anything."""

    failed: bool
    objected: bool


class Judge:
    """Sees what the gates do, and compares it with the provider's ledger, never with what a gate says about itself.

    Args:
        journal: what the gates write.
        honesty: what the target under test said, and the ledger.
        clock: the world's.
        target: the target under test.

    Attributes:
        revoked: whether the approval was taken back; what the journal says about that is the gate's own.
        changes: what others changed.
        provider_faults: which faults of its own the provider met.
    """

    def __init__(self, journal: Journal, honesty: Honesty, clock: WorldClock, target: Target[Any]) -> None:
        self._journal = journal
        self._honesty = honesty
        self._clock = clock
        self._target = target
        self._found: list[GateViolation] = []
        self._readings: dict[str, _Reading] = {}
        self._histories: dict[str, list[GatedAction.Event]] = {}
        self.revoked = False
        self.changes: list[ChangeKind] = []
        self.provider_faults: list[str] = []

    # --- what it sees: the calls to the target (it is their witness)

    def about_to_send(self, action_id: UUID, effect: Effect[Any], idempotency_key: str, left_s: float) -> None:
        """I1 and I5: this very send is durable, and it is of the effect that was recorded."""
        self._honesty.sending(action_id, idempotency_key, self._clock.now(), left_s)
        action = self._journal.load_action(action_id)
        sends = sum(sent.action_id == action_id for sent in self._honesty.sends)
        if sends > len(action.dispatches):
            self._find("I1", f"send {sends} of {action.key} was made, and the journal has {len(action.dispatches)} Dispatched")
        elif idempotency_key not in {dispatch.idempotency_key for dispatch in action.dispatches}:
            self._find("I1", f"{action.key} was sent under a key that no Dispatched names")
        recorded = record_effect(effect, self._target.codec, self._target.version)
        if recorded.fingerprint != action.intent.effect.fingerprint:
            self._find("I5", f"another effect was sent for {action.key} than the one that was intended")

    def entries(self) -> int:
        """Return how many entries the ledger has."""
        return len(self._honesty.read_ledger())

    def heard(self, heard: Heard, effect: Effect[Any]) -> None:
        """Let its honesty be judged."""
        self._honesty.hear(heard, effect.money.amount_minor if effect.money else None)

    # --- what it sees: the requests of the protocol

    def begins(self, holder: str) -> None:
        """A gate begins with an action: what it read before does not count."""
        self._readings.pop(holder, None)

    def objections_to(self, request: Request[Any], holder: str) -> list[GateViolation]:
        """Say what stands against an append, before it is made (I3, I4); it counts if the append succeeds."""
        if not isinstance(request, Append):
            return []
        dispatched = [event for event in request.action.pending_events if isinstance(event, GatedAction.Dispatched)]
        executed = [event for event in dispatched if event.purpose is SendPurpose.EXECUTE]
        return [found for event in executed for found in self._objections(request.action, event, holder)]

    def performed(self, request: Request[Any], answer: Any, holder: str, *, failed: bool, against: list[GateViolation]) -> None:
        """A request was performed.

        Args:
            request: the request.
            answer: what came of it.
            holder: the gate.
            failed: whether a fault kept it from an answer, or from an answer that says anything.
            against: what stood against it.
        """
        if isinstance(request, ReadPremises):
            objected = any(kind in OBJECTIONS for kind in self.changes)
            self._readings[holder] = _Reading(failed=failed, objected=objected)
        elif isinstance(request, _AGES):
            self._readings.pop(holder, None)
        elif answer is AppendAnswer.APPENDED:
            self._found += against

    def _objections(self, action: GatedAction, event: GatedAction.Dispatched, holder: str) -> Iterator[GateViolation]:
        approval = self._journal.find_approval(action.intent.approval.id)
        if approval is None:
            yield GateViolation("I3", f"{action.key} was dispatched without an approval")
        elif self.revoked or approval.revoked_at is not None:
            yield GateViolation("I3", f"{action.key} was dispatched after its approval was revoked")
        elif event.timestamp >= approval.expires_at:
            yield GateViolation("I3", f"{action.key} was dispatched after its approval had expired")
        elif not _covers(approval, action):
            yield GateViolation("I3", f"{action.key} was dispatched, and its approval is used up by others")
        if not action.intent.premises:
            return
        reading = self._readings.get(holder)
        if reading is None:
            yield GateViolation("I4", f"{action.key} was dispatched, and its premises were not read again right before")
        elif reading.failed:
            yield GateViolation("I4", f"{action.key} was dispatched on premises that could not be read")
        elif reading.objected:
            yield GateViolation("I4", f"{action.key} was dispatched, and the facts had changed before they were read")

    # --- after every step

    def check(self, keys: list[str]) -> None:
        """Compare everything.

        Raises:
            LiarReport: the gate was told what is not so.
            GateViolation: the gate broke an invariant.
        """
        self._honesty.read_ledger()
        self._honesty.raise_lies()
        for found in self._found:
            raise found
        for key in keys:
            action = self._journal.find_action(key)
            if action is not None:
                self._check_action(action)

    def _check_action(self, action: GatedAction) -> None:
        entries = self._honesty.entries_of(action.id)
        if len(entries) > 1:
            raise GateViolation("I2", f"{action.key} was carried out {len(entries)} times: {_references(entries)}")
        if action.status is Status.REFUSED and entries:
            raise GateViolation("I6", f"{action.key} is REFUSED, and {_references(entries)} is in the ledger")
        if action.status is Status.COMMITTED and not entries:
            raise GateViolation("I6", f"{action.key} is COMMITTED, and the ledger has nothing of it")
        history = list(action.history)
        known = self._histories.get(action.key, [])
        if history[: len(known)] != known:
            raise GateViolation("I9", f"the history of {action.key} was changed")
        if len(history) != len(known):
            self._histories[action.key] = history
            self._check_receipt(action, entries)

    def _check_receipt(self, action: GatedAction, entries: list[LedgerEntry]) -> None:
        """I10: the receipt says what happened, or that nobody knows."""
        receipt = receipt_of(action)
        wrong = {
            Status.COMMITTED: receipt.happened is Happened.NO or (receipt.evidence is None and receipt.resolved_by is None),
            Status.REFUSED: receipt.happened is not Happened.NO or receipt.refusal is None,
            Status.AMBIGUOUS: receipt.happened is not Happened.UNKNOWN or receipt.ambiguity is None,
        }
        if wrong.get(action.status, False):
            raise GateViolation("I10", f"{action.key} is {action.status}, and its receipt does not say so: {receipt.to_json()}")
        evidence = receipt.evidence
        if action.status is Status.COMMITTED and evidence and evidence.reference not in {entry.reference for entry in entries}:
            raise GateViolation(
                "I10", f"the receipt of {action.key} names {evidence.reference}, and the ledger {_references(entries)}"
            )

    # --- at the end

    def check_use(self, action: GatedAction, *, moved: bool) -> None:
        """Say that an ending is less than the provider's state allowed.

        Args:
            action: which has ended.
            moved: whether the target's own policy objects to the facts as they are now; they may also move by themselves.

        Raises:
            GateViolation: it is.
        """
        ending = action.ending
        if isinstance(ending, GatedAction.Refused) and not self._may_be_refused(action, ending, moved=moved):
            raise GateViolation("use", f"{action.key} is REFUSED without a reason in the world: {ending.code}, {ending.words}")
        if isinstance(ending, GatedAction.Ambiguous) and not self._may_be_ambiguous(action, ending):
            raise GateViolation("use", f"{action.key} is AMBIGUOUS, and could have been known: {ending.code}, {ending.words}")

    def _may_be_refused(self, action: GatedAction, ending: GatedAction.Refused, *, moved: bool) -> bool:
        approval = self._journal.find_approval(action.intent.approval.id)
        reason, _, detail = ending.code.partition(":")
        if approval is None:
            return False
        others = moved or any(entry not in self._honesty.entries_of(action.id) for entry in self._honesty.read_ledger())
        return {
            "approval_revoked": self.revoked,
            "approval_expired": self._clock.now() >= approval.expires_at,  # the world's clock, which is never behind the gates'
            "approval_used_up": self._had_by_another(action),
            "premise_conflicting": ChangeKind.CONFLICTING in self.changes or others,
            "premise_duplicate": ChangeKind.DUPLICATE in self.changes or others,
            "declined": any(isinstance(said, Declined) and said.code == detail for said in self._said(action)),
            "resolved_as_not_done": ending.by is not None,
        }.get(reason, False)

    def _had_by_another(self, action: GatedAction) -> bool:
        """Whether another action had the approval, if only for a while: what I3 forbids is seen at each Dispatched."""
        others = [self._journal.find_action(key) for key in self._histories if key != action.key]
        return any(other is not None and other.dispatches for other in others)

    def _may_be_ambiguous(self, action: GatedAction, ending: GatedAction.Ambiguous) -> bool:
        profile = self._target.capabilities
        if not action.dispatches:
            return False
        match ending.code:
            case "evidence_disagrees":
                return ending.evidence is not None and bool(ending.evidence.disagreements)
            case "may_roll_forward":
                return profile.may_roll_forward_unbounded and not self._visible(action, profile, ending.timestamp)
            case "cannot_look":
                return not profile.looks_up and not self._could_be_known_by_key(action, profile, ending)
            case _:
                return False

    def _could_be_known_by_key(self, action: GatedAction, profile: CapabilityProfile, ending: GatedAction.Ambiguous) -> bool:
        """Whether a resend or a burn would have told."""
        expires = profile.key_expires(action.first_dispatch_of(action.attempt).timestamp)
        in_window = expires is not None and ending.timestamp < expires
        failing = bool(self.provider_faults) or any(
            isinstance(said, Unknown) and said.key in (KeyState.STORED_FAILURE, KeyState.MISMATCHED)
            for said in self._said(action)
        )
        checks = ending.checks
        refusing = checks is not None and not (checks.approval.holds and all(reading.holds for reading in checks.premises))
        declined = any(isinstance(said, Declined) for said in self._said(action))
        return in_window and not failing and (profile.burns or not (refusing or declined))

    def _visible(self, action: GatedAction, profile: CapabilityProfile, at: datetime) -> bool:
        stale_s = profile.lookup_staleness_s or 0.0
        return any((at - entry.at).total_seconds() >= stale_s for entry in self._honesty.entries_of(action.id))

    def _said(self, action: GatedAction) -> list[SendAnswer]:
        said = [heard.answer for heard in self._honesty.heard if heard.action_id == action.id]
        return [answer for answer in said if isinstance(answer, SendAnswer)]

    def _find(self, invariant: str, words: str) -> None:
        self._found.append(GateViolation(invariant, words))


def _covers(approval: Approval, action: GatedAction) -> bool:
    mine, amount = action.id.hex, action.intent.effect.amount_minor or 0
    others = [key for key in (*approval.reserved, *approval.spent) if key != mine]
    remaining = approval.remaining_minor(except_action=mine)
    return len(others) < approval.terms.uses and (remaining is None or remaining >= amount)


def _references(entries: list[LedgerEntry]) -> str:
    return ", ".join(entry.reference for entry in entries) or "nothing"

"""What a gate does, without I/O: it checks what it is given, and runs `domain.protocol`. Drivers perform what is asked for."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from interlock import approvals
from interlock.approvals import ApprovalView, ExternalApproval
from interlock.config import GateConfig
from interlock.domain import protocol
from interlock.domain.action import GatedAction, Intent, Status, require_key
from interlock.domain.approvals import ApprovalRef
from interlock.domain.effects import Effect, is_a, record_effect, require_effect
from interlock.domain.endings import Conclusion, Pending
from interlock.domain.erasure import mark_erased
from interlock.domain.picking import Picker
from interlock.domain.premises import Premise, require_judged
from interlock.domain.profiles import CapabilityProfile
from interlock.domain.requests import FindAction, LoadAction, Now, Protocol
from interlock.domain.sending import Sender
from interlock.domain.summary import IN_FLIGHT
from interlock.driver import AnyTarget, Registry
from interlock.errors import (
    ActionErased,
    GateClosed,
    InvalidInput,
    InvalidPremise,
    JournalError,
    JournalUnavailable,
    UnknownAction,
    UnknownTarget,
)
from interlock.infrastructure.clock import elapsing_s
from interlock.infrastructure.locks import Locks, hostname
from interlock.infrastructure.recording import SummaryFilter
from interlock.inputs import require_json, require_opaque, require_premises, require_seconds, require_text
from interlock.outcomes import InFlight, Outcome, Report, outcome_of, pending_outcome
from interlock.projections.receipts import Receipt, receipt_of, receipt_of_erased
from interlock.requests import FindPage, ForgetStates, GivePositions, LetGo, Pause, SurveyFlight

_LOG = logging.getLogger("interlock")

PAGE = 500
"""How many actions are listed at once."""

_REST_S = 30.0
"""For how long the service leaves an action alone that it can't work on."""

_NEXT_AT_ONCE_S = 0.02

Part = Callable[[GatedAction, Sender], Protocol[Conclusion]]


@dataclass(slots=True)
class Proposal:
    """What a caller wants done: the arguments of `Gate.fire`, as they were given.

    They are checked when a driver runs it, and not before: what a target checks may block, and an event loop must not.
    """

    key: str
    effect: Effect[Any]
    approval: ApprovalView | ExternalApproval | str
    premises: Iterable[Premise] = ()
    supersedes: str | None = None
    decision: Mapping[str, Any] | None = None


@dataclass(slots=True)
class _Tally:
    """What a pass came to so far."""

    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    failed: dict[str, Exception] = field(default_factory=dict[str, Exception])

    def report(self) -> Report:
        return Report(tuple(self.outcomes), self.skipped, self.failed)


class Operations:
    """The operations of one gate. Their arguments, results and errors are those of the gate's methods of the same names.

    Args:
        registry: what effects, premises and approvals may name.
        locks: who the gate is.
        config: the gate's figures.
        anchors: whether a send waits until it stands under a checkpoint of the log.
    """

    def __init__(self, registry: Registry, locks: Locks, config: GateConfig, *, anchors: bool = False) -> None:
        self._anchors = anchors
        self._registry = registry
        self._locks = locks
        self._config = config

    def approve(
        self,
        approval_id: str,
        by: str,
        expires_in_s: int,
        cap_minor: int | None,
        currency: str | None,
        effect: Effect[Any] | None,
        uses: int,
    ) -> Protocol[ApprovalView]:
        """Grant an approval."""
        fingerprint = self._fingerprint(effect) if effect is not None else None
        terms = approvals.checked_terms(by, expires_in_s, cap_minor, currency, uses, fingerprint)
        return (yield from approvals.grant(approval_id, terms))

    def fire(self, proposal: Proposal, wait_s: float) -> Protocol[Outcome]:
        """Carry the effect out, and wait for its end where it is in flight."""
        wait_for_s, intent = require_seconds("wait_s", wait_s), self.intent(proposal)
        sender = self.sender(self._target(intent.effect.target).capabilities)
        until_s = elapsing_s() + wait_for_s
        while True:
            outcome = yield from _outcome((yield from protocol.fire(intent, sender)))
            left_s = until_s - elapsing_s()
            if not isinstance(outcome, InFlight) or left_s <= 0:
                return outcome
            yield from LetGo()
            if (yield from Pause(min(max(outcome.retry_after_s, 0.01), left_s))):
                raise GateClosed(f"the gate was closed while {intent.key!r} was in flight; recover() goes on with it")

    def propose(self, proposal: Proposal) -> Protocol[Receipt]:
        """Make the intent durable, and send nothing."""
        return receipt_of((yield from protocol.propose(self.intent(proposal))))

    def recover(self, key: str | None) -> Protocol[Report]:
        """Bring actions in flight to their end, or one action."""
        report = yield from self._pass(key, protocol.recover, SummaryFilter(status=IN_FLIGHT))
        if key is None:
            yield from _give_positions()
        return report

    def recover_forever(self, on_pass: Callable[[Report], None] | None) -> Protocol[None]:
        """Recover again and again until the gate is stopped, sharing the work with every other node that does so."""
        picker = Picker(self._config.recover_batch, random.Random().sample)  # noqa: S311 - jitter is no secret
        was_down = False
        while True:
            pause_s = self._config.recover_every_s
            try:
                report = yield from self._share(picker)
                yield from _give_positions()
                was_down = False
            except GateClosed:
                return
            except JournalError as error:
                # The journal may be back at the next pass, and until then nothing is sent. It is said once.
                report = Report((), {}, {} if was_down else {"": error})
                if not was_down:
                    _LOG.warning("recover_forever can't use the journal, and tries again: %s", type(error).__qualname__)
                was_down = True
            except Exception as error:  # noqa: BLE001 - what nobody foresaw must not end the service without a word
                _LOG.error("a pass of recover_forever failed, and is tried again: %s", type(error).__qualname__)
                report = Report((), {}, {"": error})
            many = len(report.outcomes) + len(report.skipped) + len(report.failed)
            if on_pass is not None and many:
                on_pass(report)
            # A pass that had enough to do: there is more. One that ended nothing must not go round and round.
            if many == self._config.recover_batch and any(not isinstance(one, InFlight) for one in report.outcomes):
                pause_s = _NEXT_AT_ONCE_S
            if (yield from Pause(pause_s * random.uniform(0.5, 1.5))):  # noqa: S311 - as above
                return

    def _share(self, picker: Picker) -> Protocol[Report]:
        """Work on some of what nobody is at work on, and note what has to rest."""
        survey, tally = (yield from SurveyFlight()), _Tally()
        for action_id in picker.pick(survey, self._registry.targets):
            outcome = yield from self._work_on(action_id, protocol.recover, tally)
            if any(isinstance(error, JournalUnavailable) for error in tally.failed.values()):
                break  # the rest would fail in the same way, and waits for the next pass
            if outcome is None:
                picker.rest(action_id, survey.at + timedelta(seconds=_REST_S))
            elif isinstance(outcome, InFlight):
                picker.rest(action_id, outcome.retry_at)
            if (yield from Pause(0)):
                break  # the gate was stopped
        return tally.report()

    def reconcile(self, key: str | None) -> Protocol[Report]:
        """Ask the providers again about actions that ended without certainty, or about one action."""
        ambiguous = SummaryFilter(status=Status.AMBIGUOUS.value)
        not_final = SummaryFilter(status=Status.COMMITTED.value, attention=True)
        return (yield from self._pass(key, protocol.reconcile, ambiguous, not_final))

    def resolve(self, key: str, *, happened: bool, by: str, note: str, despite_roll_forward: bool) -> Protocol[Outcome]:
        """Let a person decide an Ambiguous action."""
        action = yield from _known(key)
        target = self._registry.targets.get(action.intent.effect.target)
        conclusion = yield from protocol.resolve(
            action,
            happened=happened,
            by=require_opaque("by", by),
            note=require_text("note", note),
            looks_up=target is not None and target.capabilities.looks_up,
            despite_roll_forward=despite_roll_forward,
        )
        return (yield from _outcome(conclusion))

    def erase(self, key: str, reason: str, by: str) -> Protocol[Receipt]:
        """Give up what an action's events say. Where that was begun already, go on with it."""
        checked_by, checked_reason = require_opaque("by", by), require_opaque("reason", reason)
        try:
            action = yield from _known(key)
            yield from mark_erased(action, checked_reason, checked_by)
            action_id = action.id
        except ActionErased as erased:
            action_id = UUID(erased.action_id)
        return receipt_of_erased((yield from ForgetStates(action_id)))

    def intent(self, proposal: Proposal) -> Intent:
        """Return what is to be done, checked as far as it can be without asking anybody."""
        supersedes, decision = proposal.supersedes, proposal.decision
        key, effect = require_key(proposal.key), require_effect(proposal.effect)
        target = self._target(effect.target)
        given = require_premises(proposal.premises)
        for premise in given:
            self._require_registered(premise)
        target.check(effect, given)
        recorded = record_effect(effect, target.codec, target.version)
        for premise in given:
            require_judged(premise, self._registry.policies[premise.policy], recorded)
        return Intent(
            key=key,
            effect=recorded,
            approval=self._approval_ref(proposal.approval),
            premises=given,
            supersedes=require_key(supersedes) if supersedes is not None else None,
            decision_json=require_json("decision", decision) if decision is not None else None,
        )

    def sender(self, profile: CapabilityProfile) -> Sender:
        """Return this gate as what sends to a target of this profile."""
        return Sender(
            holder=self._locks.holder,
            host=hostname(),
            pid=os.getpid(),
            lock=self._locks.handle,
            claim_ttl_s=self._config.claim_ttl_s,
            profile=profile,
            sends_per_pass=self._config.sends_per_pass,
            anchors=self._anchors,
        )

    def _pass(self, key: str | None, part: Part, *conditions: SummaryFilter) -> Protocol[Report]:
        """Run a part of the protocol on every action that fulfils one of the conditions, or on that of the key alone."""
        tally = _Tally()
        if key is not None:
            action = yield from _known(key)
            yield from self._work_on(action.id, part, tally)
            return tally.report()
        for condition in conditions:
            after: UUID | None = None
            while page := (yield from FindPage(condition, PAGE, after)):
                for action_id in page:
                    yield from self._work_on(action_id, part, tally)
                after = page[-1]
        return tally.report()

    def _work_on(self, action_id: UUID, part: Part, tally: _Tally) -> Protocol[Outcome | None]:
        """Run a part on one action; one that can't be read or worked on (None) does not keep the others waiting."""
        name, outcome = str(action_id), None
        try:
            action = yield from LoadAction(action_id)
            name, recorded = action.key, action.intent.effect
            target = self._registry.targets.get(recorded.target)
            if target is None or target.version < recorded.target_version:
                tally.skipped[name] = f"{recorded.target} v{recorded.target_version}"
                return None
            if not action.ended and (missing := self._unchecked(action.intent)) is not None:
                tally.skipped[name] = missing  # a claim that it can do nothing with would keep those waiting who can
                return None
            conclusion = yield from part(action, self.sender(target.capabilities))
            outcome = yield from _outcome(conclusion)
            tally.outcomes.append(outcome)
        except GateClosed:
            raise
        except Exception as error:  # noqa: BLE001 - it is reported, and tried again by the next pass
            tally.failed[name] = error
        yield from LetGo()
        return outcome

    def _unchecked(self, intent: Intent) -> str | None:
        """Return what a re-check of an action needs and this gate has not; None where it has everything."""
        for premise in intent.premises:
            if premise.target not in self._registry.targets:
                return premise.target
            if premise.policy not in self._registry.policies:
                return f"policy {premise.policy}"
        source = intent.approval.source
        return None if source is None or source in self._registry.approval_sources else f"approval source {source}"

    def _require_registered(self, premise: Premise) -> None:
        if premise.target not in self._registry.targets:
            raise UnknownTarget(f"a premise was read by {premise.target!r}, which is not registered at this gate")
        if premise.policy not in self._registry.policies:
            raise InvalidPremise(f"the premise policy {premise.policy!r} is not registered at this gate")

    def _approval_ref(self, approval: ApprovalView | ExternalApproval | str) -> ApprovalRef:
        if isinstance(approval, ExternalApproval):
            if type(approval.source) is not str or approval.source not in self._registry.approval_sources:
                raise InvalidInput(f"no approval source {approval.source!r} is registered at this gate")
            return ApprovalRef(require_key(approval.id), approval.source)
        if not is_a(approval, ApprovalView, str):
            raise InvalidInput(
                f"approval is what approve() returned, its id, or an ExternalApproval, not {type(approval).__name__}; nothing "
                "was written or sent"
            )
        return ApprovalRef(require_key(approval if isinstance(approval, str) else approval.id))

    def _target(self, name: str) -> AnyTarget:
        target = self._registry.targets.get(name)
        if target is None:
            raise UnknownTarget(f"no target {name!r} is registered at this gate; nothing was written or sent")
        return target

    def _fingerprint(self, effect: Effect[Any]) -> str:
        target = self._target(require_effect(effect).target)
        return record_effect(effect, target.codec, target.version).fingerprint


def _known(key: str) -> Protocol[GatedAction]:
    action = yield from FindAction(require_key(key))
    if action is None:
        raise UnknownAction(f"the journal knows no action {key!r}")
    return action


def _give_positions() -> Protocol[None]:
    with suppress(JournalError):  # the next pass does it, of this gate or another
        yield from GivePositions()


def _outcome(conclusion: Conclusion) -> Protocol[Outcome]:
    if isinstance(conclusion, Pending):
        return pending_outcome(conclusion, (yield from Now()))
    return outcome_of(conclusion.action)

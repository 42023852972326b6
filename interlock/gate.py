"""The gate: what a host holds. It checks what it is given, and drives `domain.protocol`."""

from __future__ import annotations

import os
import random
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID

from interlock.approvals import Approvals, ApprovalView, ExternalApproval, checked_terms
from interlock.config import GateConfig
from interlock.domain import protocol
from interlock.domain.action import Intent, Status, require_key
from interlock.domain.approvals import ApprovalRef
from interlock.domain.effects import Effect, record_effect
from interlock.domain.endings import Conclusion, Pending
from interlock.domain.ports import ApprovalSource, Target
from interlock.domain.premises import Premise, PremisePolicy, Strict
from interlock.domain.profiles import CapabilityProfile
from interlock.domain.sending import CLAIM_MARGIN_S, Sender
from interlock.domain.summary import IN_FLIGHT
from interlock.driver import Driver, Registry
from interlock.errors import (
    GateClosed,
    InvalidConfiguration,
    InvalidInput,
    InvalidPremise,
    JournalError,
    UnknownTarget,
)
from interlock.infrastructure.clock import Clock, elapsing_s
from interlock.infrastructure.locks import hostname
from interlock.infrastructure.opening import open_journal
from interlock.infrastructure.recording import SummaryFilter
from interlock.inputs import require_json, require_opaque, require_text
from interlock.outcomes import Outcome, outcome_of
from interlock.projections.receipts import Receipt, receipt_of
from interlock.reading import JournalReader

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Report:
    """What a pass of `recover` or `reconcile` came to.

    Attributes:
        outcomes: one for each action that it could work on.
        skipped: keys of actions whose target is not registered here, or only in an older version, with what they need.
        failed: keys (or ids, where the key can't be read) of actions that raised. They are tried again by the next pass.
    """

    outcomes: tuple[Outcome, ...]
    skipped: Mapping[str, str]
    failed: Mapping[str, Exception]


_gates: weakref.WeakSet[Gate] = weakref.WeakSet()


class Gate(JournalReader):
    """Stands between a program that decides and an action that can't be taken back. Threads may share one.

    Open one with `Gate.open`, and close it, or use it as a context manager.
    """

    def __init__(self, driver: Driver, config: GateConfig) -> None:
        self._driver = driver
        self._config = config
        self._approvals = Approvals(driver)
        super().__init__(driver.journal, driver.clock)
        _gates.add(self)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        targets: Iterable[Target[Any]] = (),
        policies: Iterable[PremisePolicy] = (),
        approval_sources: Mapping[str, ApprovalSource] | None = None,
        config: GateConfig | None = None,
        clock: Clock | None = None,
    ) -> Gate:
        """Open a gate on a journal, and make the journal where there is none.

        Args:
            url: the journal, such as `sqlite:///interlock.db`.
            targets: the providers that effects may name.
            policies: premise policies beside `strict` and the targets' own.
            approval_sources: where approvals live that the journal does not hold, by name.
            config: the gate's figures.
            clock: where its time comes from; the system's clock unless given.

        Raises:
            InvalidConfiguration: two targets of one name, or a send deadline not at least 5 s inside the claim's time to live.
            JournalError: the journal can't be opened.
        """
        config = config or GateConfig()
        registry = _registry(list(targets), policies, approval_sources or {})
        for target in registry.targets.values():
            _require_deadline_inside_claim(target, config)
        journal = open_journal(url)
        try:
            return cls(Driver(journal, registry, journal.take_lock(), clock or journal.clock()), config)
        except JournalError:
            journal.close()
            raise

    def __enter__(self) -> Self:
        """Return the gate."""
        return self

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None:
        """Close the gate."""
        self.close()

    def close(self) -> None:
        """Give the lock back and close the journal; others can recover what is in flight at once. Closing twice does nothing."""
        self._driver.closing.set()
        self._driver.locks.release()
        self._driver.journal.close()

    # --- approvals

    def approve(
        self,
        approval_id: str,
        *,
        by: str,
        expires_in_s: int,
        cap_minor: int | None = None,
        currency: str | None = None,
        effect: Effect[Any] | None = None,
        uses: int = 1,
    ) -> ApprovalView:
        """Grant an approval. Granting it again with the same terms returns the same approval.

        Args:
            approval_id: its id, such as the case's; printable, at most 200 characters. It never changes its terms: approve
                again under another id.
            by: an opaque id of the person who gives it. No name and no address: the log can't forget.
            expires_in_s: for how long it holds, in seconds.
            cap_minor: what it covers, in the currency's minor unit; None for effects that move no money.
            currency: of the cap.
            effect: the only effect it is for.
            uses: how many actions it allows.

        Raises:
            InvalidApproval: the terms are malformed, or the id was granted under other terms.
        """
        fingerprint = self._fingerprint(effect) if effect is not None else None
        return self._approvals.grant(approval_id, checked_terms(by, expires_in_s, cap_minor, currency, uses, fingerprint))

    def revoke(self, approval_id: str, *, by: str, note: str = "") -> ApprovalView:
        """Take an approval back. It is strictly before or strictly after each send; revoking twice changes nothing.

        Args:
            approval_id: the approval.
            by: an opaque id of the person who takes it back.
            note: why.

        Raises:
            UnknownApproval: there is no such approval.
        """
        return self._approvals.revoke(approval_id, by, note)

    def approval(self, approval_id: str) -> ApprovalView:
        """Return an approval as it stands.

        Raises:
            UnknownApproval: there is no such approval.
        """
        return self._approvals.view(approval_id)

    # --- actions

    def fire(
        self,
        key: str,
        effect: Effect[P],
        *,
        approval: ApprovalView | ExternalApproval | str,
        premises: Iterable[Premise] = (),
        supersedes: str | None = None,
        decision: Mapping[str, Any] | None = None,
        wait_s: float = 0.0,
    ) -> Outcome:
        """Carry the effect out, at most once for this key. Firing again returns the recorded outcome, or brings it about.

        Args:
            key: the name of this one action, made from what was approved; 1 to 200 printable characters.
            effect: what to do; made by a registered target.
            approval: under whose authority.
            premises: on which facts; made by `target.observe`.
            supersedes: the key of the refused action that this one carries on.
            decision: how the decision came about, as JSON values, for the receipt; no secrets.
            wait_s: for how long to go on while the answer is InFlight, in seconds.

        Returns:
            Committed, Refused, Ambiguous or InFlight, each with a receipt.

        Raises:
            InvalidInput: bad input; nothing was written or sent.
            PremiseUnreadable: a fact can't be read before the first commit; nothing was written or sent.
            JournalError: the journal failed; what is not recorded as dispatched was not sent.
            OutcomeNotRecorded: it was sent, and could not be recorded; fire again under the same key.
        """
        intent = self._intent(key, effect, approval, premises, supersedes, decision)
        sender = self._sender(self._target(effect.target).capabilities)
        until_s = elapsing_s() + wait_s
        while True:
            outcome = self._outcome(self._driver.run(protocol.fire(intent, sender)))
            left_s = until_s - elapsing_s()
            retry_after_s = getattr(outcome, "retry_after_s", None)
            if retry_after_s is None or left_s <= 0:
                return outcome
            if self._driver.closing.wait(min(max(retry_after_s, 0.01), left_s)):
                raise GateClosed(f"the gate was closed while {key!r} was in flight; recover() goes on with it")

    def propose(
        self,
        key: str,
        effect: Effect[P],
        *,
        approval: ApprovalView | ExternalApproval | str,
        premises: Iterable[Premise] = (),
        supersedes: str | None = None,
        decision: Mapping[str, Any] | None = None,
    ) -> Receipt:
        """Make the intent durable and send nothing: the next `recover`, of whichever process, carries it out.

        The arguments and errors are those of `fire`.
        """
        intent = self._intent(key, effect, approval, premises, supersedes, decision)
        return receipt_of(self._driver.run(protocol.propose(intent)))

    def recover(self, key: str | None = None) -> Report:
        """Bring actions in flight whose holder is gone to their end. Call it at start, and see `recover_forever`.

        Args:
            key: this action only.

        Returns:
            What became of each; actions of targets that are not registered here are reported and left alone.
        """
        if key is not None:
            return self._work_on([self.action(key).id], protocol.recover)
        return self._work_on(self._in_flight(), protocol.recover)

    def recover_forever(self) -> None:
        """Call `recover` again and again, with pauses of random length, until the gate is closed. Run it on a thread."""
        while not self._driver.closing.is_set():
            try:
                self.recover()
            except GateClosed:
                return
            except JournalError:
                pass  # the journal may be back at the next pass, and until then nothing is sent
            self._driver.closing.wait(self._config.recover_every_s * random.uniform(0.5, 1.5))  # noqa: S311 - jitter is no secret

    def reconcile(self, key: str | None = None) -> Report:
        """Ask the providers again about actions that ended without certainty: Ambiguous ones, commits that are not final.

        Args:
            key: this action only, whatever its ending.
        """
        if key is not None:
            return self._work_on([self.action(key).id], protocol.reconcile)
        return self._work_on(self._uncertain(), protocol.reconcile)

    def resolve(self, key: str, *, happened: bool, by: str, note: str, despite_roll_forward: bool = False) -> Outcome:
        """Let a person decide an Ambiguous action.

        Args:
            key: the action.
            happened: whether the effect is in the world.
            by: an opaque id of the person who says so.
            note: how they know.
            despite_roll_forward: take "it did not happen" although the provider may still carry a stored failure to its end.

        Raises:
            NotResolvable: the action is not Ambiguous, or "it did not happen" comes while a send can still land.
            UnknownAction: no action has this key.
        """
        action = self.action(key)
        target = self._driver.registry.targets.get(action.intent.effect.target)
        conclusion = self._driver.run(
            protocol.resolve(
                action,
                happened=happened,
                by=require_opaque("by", by),
                note=require_text("note", note),
                looks_up=target is not None and target.capabilities.looks_up,
                despite_roll_forward=despite_roll_forward,
            )
        )
        return self._outcome(conclusion)

    # --- inside

    def renew_after_fork(self) -> None:
        """Become another holder in a forked child; called by the fork itself."""
        if not self._driver.closing.is_set():
            self._driver.renew_after_fork()

    def _intent(
        self,
        key: str,
        effect: Effect[Any],
        approval: ApprovalView | ExternalApproval | str,
        premises: Iterable[Premise],
        supersedes: str | None,
        decision: Mapping[str, Any] | None,
    ) -> Intent:
        require_key(key)
        target = self._target(effect.target)
        given = tuple(premises)
        for premise in given:
            self._require_registered(premise)
        target.check(effect, given)
        return Intent(
            key=key,
            effect=record_effect(effect, target.codec, target.version),
            approval=self._approval_ref(approval),
            premises=given,
            supersedes=require_key(supersedes) if supersedes is not None else None,
            decision_json=require_json("decision", decision) if decision is not None else None,
        )

    def _require_registered(self, premise: Premise) -> None:
        if premise.target not in self._driver.registry.targets:
            raise UnknownTarget(f"a premise was read by {premise.target!r}, which is not registered at this gate")
        if premise.policy not in self._driver.registry.policies:
            raise InvalidPremise(f"the premise policy {premise.policy!r} is not registered at this gate")

    def _approval_ref(self, approval: ApprovalView | ExternalApproval | str) -> ApprovalRef:
        if isinstance(approval, ExternalApproval):
            if approval.source not in self._driver.registry.approval_sources:
                raise InvalidInput(f"no approval source {approval.source!r} is registered at this gate")
            return ApprovalRef(require_key(approval.id), approval.source)
        return ApprovalRef(require_key(approval if isinstance(approval, str) else approval.id))

    def _target(self, name: str) -> Target[Any]:
        target = self._driver.registry.targets.get(name)
        if target is None:
            raise UnknownTarget(f"no target {name!r} is registered at this gate; nothing was written or sent")
        return target

    def _sender(self, profile: CapabilityProfile) -> Sender:
        locks = self._driver.locks
        return Sender(
            holder=locks.holder,
            host=hostname(),
            pid=os.getpid(),
            lock=locks.handle,
            claim_ttl_s=self._config.claim_ttl_s,
            profile=profile,
            sends_per_pass=self._config.sends_per_pass,
        )

    def _work_on(self, action_ids: Iterable[UUID], part: Any) -> Report:
        """Run a part of the protocol on each action; one that can't be read or worked on does not keep the others waiting."""
        outcomes: list[Outcome] = []
        skipped: dict[str, str] = {}
        failed: dict[str, Exception] = {}
        for action_id in action_ids:
            name = str(action_id)
            try:
                action = self._driver.journal.load_action(action_id)
                name, recorded = action.key, action.intent.effect
                target = self._driver.registry.targets.get(recorded.target)
                if target is None or target.version < recorded.target_version:
                    skipped[name] = f"{recorded.target} v{recorded.target_version}"
                    continue
                outcomes.append(self._outcome(self._driver.run(part(action, self._sender(target.capabilities)))))
            except GateClosed:
                raise
            except Exception as error:  # noqa: BLE001 - it is reported, and tried again by the next pass
                failed[name] = error
        return Report(tuple(outcomes), skipped, failed)

    def _in_flight(self) -> Iterable[UUID]:
        return self._ids(SummaryFilter(status=IN_FLIGHT))

    def _uncertain(self) -> Iterable[UUID]:
        yield from self._ids(SummaryFilter(status=Status.AMBIGUOUS.value))
        yield from self._ids(SummaryFilter(status=Status.COMMITTED.value, attention=True))

    def _ids(self, conditions: SummaryFilter) -> Iterable[UUID]:
        after: UUID | None = None
        while page := self._driver.journal.find(conditions, limit=self._config.recover_batch, after=after):
            yield from page
            after = page[-1]

    def _outcome(self, conclusion: Conclusion) -> Outcome:
        pending = conclusion if isinstance(conclusion, Pending) else None
        return outcome_of(conclusion.action, pending, self._driver.clock.now())

    def _fingerprint(self, effect: Effect[Any]) -> str:
        target = self._target(effect.target)
        return record_effect(effect, target.codec, target.version).fingerprint


def _renew_all_after_fork() -> None:
    for gate in list(_gates):
        gate.renew_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all_after_fork)


def _registry(targets: list[Target[Any]], policies: Iterable[PremisePolicy], sources: Mapping[str, ApprovalSource]) -> Registry:
    by_name = {target.name: target for target in targets}
    if len(by_name) != len(targets):
        raise InvalidConfiguration("two targets have the same name; give one of them another")
    known: dict[str, PremisePolicy] = {}
    for policy in (Strict(), *(target.policy for target in targets), *policies):
        known[policy.name] = policy
    return Registry(by_name, known, dict(sources))


def _require_deadline_inside_claim(target: Target[Any], config: GateConfig) -> None:
    deadline_s = target.capabilities.send_deadline_s
    if deadline_s + CLAIM_MARGIN_S > config.claim_ttl_s:
        raise InvalidConfiguration(
            f"target {target.name!r} may send for {deadline_s:g} s, which is not at least {CLAIM_MARGIN_S} s inside the claim's "
            f"time to live of {config.claim_ttl_s:g} s; lower send_deadline_s or raise claim_ttl_s"
        )

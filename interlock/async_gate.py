"""The gate for programs that run on an event loop.

Made of gate.py and reading.py by harness/generate_async.py: change those, and run `make generate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from interlock import approvals
from interlock.approvals import ApprovalView, ExternalApproval
from interlock.assembly import assemble
from interlock.async_driver import AsyncDriver, Opening
from interlock.config import GateConfig
from interlock.domain.action import GatedAction
from interlock.domain.effects import Effect
from interlock.domain.ports import ApprovalSource
from interlock.domain.premises import Premise, PremisePolicy
from interlock.driver import AnyTarget
from interlock.infrastructure.clock import Clock
from interlock.log.config import LogConfig
from interlock.operations import Operations, Proposal
from interlock.outcomes import Outcome, Report
from interlock.projections.receipts import Receipt
from interlock.projections.verification import Verification
from interlock.reading import JournalReader, ReceiptPage

P = TypeVar("P")


class AsyncGate:
    """Stands between a program that decides and an action that can't be taken back. Tasks may share one.

    Open one with `async with AsyncGate.open(…) as gate`, or await `AsyncGate.open(…)`, and close it. What blocks runs on
    threads of its own: the journal, sync targets, approval sources. Cancelling a call is a crash like any other: what was
    dispatched is not lost, and `recover` goes on with it. It does not call a sync target's send back.
    """

    def __init__(self, driver: AsyncDriver) -> None:
        self._reader = JournalReader(driver.journal, driver.clock)
        self._driver = driver
        anchors = driver.log is not None and driver.log.anchors
        self._operations = Operations(driver.registry, driver.locks, driver.config, anchors=anchors)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        targets: Iterable[AnyTarget] = (),
        policies: Iterable[PremisePolicy] = (),
        approval_sources: Mapping[str, ApprovalSource] | None = None,
        config: GateConfig | None = None,
        clock: Clock | None = None,
        log: LogConfig | None = None,
    ) -> Opening[AsyncGate]:
        """Open a gate on a journal, and make the journal where there is none.

        Args:
            url: the journal, such as `sqlite:///interlock.db`, or `postgresql://…` with the extra `postgres`.
            targets: the providers that effects may name, each a `Target` or an `AsyncTarget`.
            policies: premise policies beside `strict` and the targets' own.
            approval_sources: where approvals live that the journal does not hold, by name.
            config: the gate's figures.
            clock: where its time comes from; the journal's unless given: this machine's, or the database's on PostgreSQL.
            log: how the journal is signed, and whether a send waits for that (extra `evidence`); unless given, it is not signed
                here.

        Raises:
            InvalidConfiguration: two targets of one name, a send deadline not at least 5 s inside the claim's
                time to live, a URL that names no journal, a proxy before the database that pools transactions, or a key or policy
                of the log that can't be used.
            JournalError: the journal can't be opened.
        """
        return Opening(
            lambda: assemble(AsyncDriver, url, targets, policies, approval_sources or {}, config or GateConfig(), clock, log), cls
        )

    async def __aenter__(self) -> Self:
        """Return the gate."""
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the gate."""
        await self.close()

    async def close(self) -> None:
        """Give the lock back and close the journal; others can recover what is in flight at once. Closing twice does nothing.

        What is being sent meanwhile is waited for, at most as long as a send may take, so that its answer is recorded.
        """
        await self._driver.close()

    # --- approvals

    async def approve(
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
        return await self._driver.run(self._operations.approve(approval_id, by, expires_in_s, cap_minor, currency, effect, uses))

    async def revoke(self, approval_id: str, *, by: str, note: str = "") -> ApprovalView:
        """Take an approval back. It is strictly before or strictly after each send; revoking twice changes nothing.

        Args:
            approval_id: the approval.
            by: an opaque id of the person who takes it back.
            note: why.

        Raises:
            UnknownApproval: there is no such approval.
        """
        return await self._driver.run(approvals.revoke(approval_id, by, note))

    async def approval(self, approval_id: str) -> ApprovalView:
        """Return an approval as it stands.

        Raises:
            UnknownApproval: there is no such approval.
        """
        return await self._driver.run(approvals.view(approval_id))

    # --- actions

    async def fire(
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
        proposal = Proposal(key, effect, approval, premises, supersedes, decision)
        return await self._driver.run(self._operations.fire(proposal, wait_s))

    async def propose(
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
        return await self._driver.run(self._operations.propose(Proposal(key, effect, approval, premises, supersedes, decision)))

    async def recover(self, key: str | None = None) -> Report:
        """Bring actions in flight whose holder is gone to their end. Call it at start, and see `recover_forever`.

        Args:
            key: this action only.

        Returns:
            What became of each; actions of targets that are not registered here are reported and left alone.
        """
        return await self._driver.run(self._operations.recover(key))

    async def recover_forever(self, on_pass: Callable[[Report], None] | None = None) -> None:
        """Recover again and again, with pauses of random length, until the gate is closed. Run it as a task.

        Any number of nodes may do so on one journal; they share the work without a leader. A pass works on at most
        `GateConfig.recover_batch` of the actions that nobody is at work on.

        Args:
            on_pass: is called with the report of each pass that can't use the journal, once until it is back, or that
                worked on anything, to count or to log it, on a thread.
        """
        await self._driver.run(self._operations.recover_forever(on_pass))

    async def stop(self) -> None:
        """Begin to end: `recover_forever` returns after the action at hand, and what waits raises `GateClosed`.

        What is being sent is finished and recorded. Close the gate when that is done.
        """
        self._driver.stop()

    async def reconcile(self, key: str | None = None) -> Report:
        """Ask the providers again about actions that ended without certainty: Ambiguous ones, commits that are not final.

        Args:
            key: this action only, whatever its ending.
        """
        return await self._driver.run(self._operations.reconcile(key))

    async def resolve(self, key: str, *, happened: bool, by: str, note: str, despite_roll_forward: bool = False) -> Outcome:
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
        return await self._driver.run(
            self._operations.resolve(key, happened=happened, by=by, note=note, despite_roll_forward=despite_roll_forward)
        )

    async def erase(self, key: str, *, reason: str, by: str) -> Receipt:
        """Give up what an action's events say: its key, of whom and on what it was, the amount, what was read and answered.

        That it was, how it ended, and that it was erased stays, and the key stays taken. Nothing is forgotten before the erasure
        itself is durable; interrupted in between, say it again. It can't be taken back, and reaches no backup and no copy that
        was handed out: see docs/evidence.md.

        Args:
            key: the action, committed and final at the provider, or refused.
            reason: why, as a code or a few words that name nobody, at most 200 characters: this stays.
            by: an opaque id of who asked for it: this stays.

        Returns:
            What is left of its receipt.

        Raises:
            NotErasable: it has no ending, or one that can still change; nothing was written or forgotten.
            UnknownAction: no action has this key.
        """
        return await self._driver.run(self._operations.erase(key, reason, by))

    async def erase_approval(self, approval_id: str, *, reason: str, by: str) -> None:
        """Give up what an approval's events say: its id, who gave it and for how much, who took it back and why.

        The id stays taken. It does not reach the actions under it, which are erased one by one.

        Args:
            approval_id: the approval, under which nothing is reserved, and nothing can be sent any more.
            reason: why, as a code or a few words that name nobody, at most 200 characters: this stays.
            by: an opaque id of who asked for it: this stays.

        Raises:
            NotErasable: something is or may still be sent under it; nothing was written or forgotten.
            UnknownApproval: there is no such approval.
        """
        await self._driver.run(approvals.erase(approval_id, reason, by))

    # --- reading

    async def receipt(self, key: str) -> Receipt:
        """Return the receipt of one action.

        Raises:
            UnknownAction: no action has this key.
        """
        return await self._driver.call(self._reader.receipt, key)

    async def action(self, key: str) -> GatedAction:
        """Return the aggregate of one action.

        Raises:
            ActionErased: it was erased; its receipt says what is left to say.
            UnknownAction: no action has this key.
        """
        return await self._driver.call(self._reader.action, key)

    async def receipts(
        self,
        *,
        status: str | None = None,
        approval: str | None = None,
        target: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        min_amount_minor: int | None = None,
        max_amount_minor: int | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> ReceiptPage:
        """Return a page of receipts, newest first.

        Args:
            status: COMMITTED, REFUSED, AMBIGUOUS or IN_FLIGHT.
            approval: the approval's id.
            target: the target's name.
            since: intended at or after this time.
            until: intended before this time.
            min_amount_minor: at least this amount, in the minor unit.
            max_amount_minor: at most this amount, in the minor unit.
            limit: how many, 1 to 500.
            after: `next_page` of the page before.

        Raises:
            InvalidInput: an unknown status, a limit or an amount out of range, a time without a zone, text that is not printable,
                or an `after` that no page gave.
        """
        return await self._driver.call(
            self._reader.receipts,
            status=status,
            approval=approval,
            target=target,
            since=since,
            until=until,
            min_amount_minor=min_amount_minor,
            max_amount_minor=max_amount_minor,
            limit=limit,
            after=after,
        )

    async def attention(self, *, limit: int = 100) -> tuple[Receipt, ...]:
        """Return what a person has to look at.

        Ambiguous ones, refusals with a way forward, commits that are not final at the provider, and actions in flight whose
        claim has run out, so that nobody is at work on them.

        Args:
            limit: how many of each kind at the most, 1 to 500.

        Raises:
            InvalidInput: a limit out of range.
        """
        return await self._driver.call(self._reader.attention, limit=limit)

    async def verify(self, key: str | None = None) -> Verification:
        """Check the log: positions, digests, chains, names, rows, and that every action followed a legal path.

        Args:
            key: check the events of this action only.

        Raises:
            UnknownAction: no action has this key.
        """
        return await self._driver.call(self._reader.verify, key)

"""What the harness can do to the world, none of which the API under test could: verbs over JSON."""

import dataclasses
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

from .exchange import Exchange
from .faults import Fault, FaultKind
from .refusals import Refusal
from .rendering import refund_json
from .state import NewRefund, RefundStatus, Switches


class Control:
    """The verbs. Each runs under the API's lock, so it is strictly before or strictly after any request."""

    def __init__(self, exchange: Exchange) -> None:
        """Put controls on a running exchange."""
        self._exchange = exchange
        self._api = exchange.api
        self._world = exchange.api.world
        self._verbs: dict[str, Callable[..., object]] = {
            verb.__name__: verb
            for verb in (
                self.add_live_object,
                self.advance_clock,
                self.arm,
                self.assign_key,
                self.complete_refund,
                self.connect_account,
                self.dispute,
                self.fail_refund,
                self.forget_key,
                self.hand_refund,
                self.held_back,
                self.next_refund_status,
                self.now,
                self.release,
                self.requests,
                self.reset_faults,
                self.roll_forward,
                self.set_switch,
            )
        }

    def call(self, verb: str, arguments: dict[str, Any]) -> object:
        """Run one verb.

        Raises:
            LookupError: There is no such verb.
            TypeError: The arguments are not the verb's.
            ValueError: The world refused.
        """
        if verb not in self._verbs:
            raise LookupError(f"no such verb: {verb}")
        try:
            with self._api.lock:
                self._api.tick()
                result = self._verbs[verb](**arguments)
                self._api.tick()
                return result
        except Refusal as refusal:
            raise ValueError(refusal.message) from refusal

    def advance_clock(self, seconds: float) -> float:
        """Move the clock forward; what becomes due by that happens at once. Return the new time."""
        self._world.clock.advance(seconds)
        return self.now()

    def now(self) -> float:
        """Return the time on the stand-in's clock."""
        return self._world.clock.now()

    def forget_key(self, key: str) -> int:
        """Lose an idempotency key early; return how many records that were."""
        return self._api.keys.forget(key)

    def hand_refund(self, payment: str, amount: int, metadata: dict[str, str] | None = None) -> dict[str, object]:
        """Refund as a person does from the dashboard: no idempotency key and no mark."""
        new = NewRefund(amount=amount, metadata=metadata or {}, by="hand")
        return refund_json(self._world.create_refund(self._world.payment(None, payment), new))

    def dispute(self, payment: str, *, inquiry: bool = False) -> None:
        """Open a dispute, or an inquiry that escalates: then refunds are taken and fail later."""
        self._world.dispute(self._world.payment(None, payment), inquiry=inquiry)

    def complete_refund(self, refund: str) -> dict[str, object]:
        """Let a pending refund succeed."""
        one = self._world.refund(None, refund)
        self._world.complete_refund(one)
        return refund_json(one)

    def fail_refund(self, refund: str, reason: str = "lost_or_stolen_card") -> dict[str, object]:
        """Let a refund fail, also one that had succeeded."""
        one = self._world.refund(None, refund)
        self._world.fail_refund(one, reason)
        return refund_json(one)

    def next_refund_status(self, status: str) -> None:
        """Decide in which state the next refund comes into being."""
        self._world.next_refund_statuses.append(RefundStatus(status))

    def roll_forward(self, key: str | None = None) -> int:
        """Bring stored failures to their end now (of one key, or all); return how many."""
        return self._world.agenda.run_early("roll_forward", key)

    def assign_key(self, api_key: str, account: str) -> None:
        """Let a test key belong to an account."""
        self._api.accounts.assign(api_key, account)

    def connect_account(self, account: str) -> None:
        """Let every key act for an account through `Stripe-Account`."""
        self._api.accounts.connect(account)

    def add_live_object(self, object_id: str) -> None:
        """Say that an id exists in live mode, so that not finding it says so."""
        self._world.live_ids.add(object_id)

    def set_switch(self, name: str, value: object) -> None:
        """Set one of the undocumented ways of the provider (see `Switches`)."""
        ways = get_type_hints(Switches)
        if name not in ways:
            raise LookupError(f"no such switch: {name}")
        if value not in (get_args(ways[name]) or (True, False)):
            raise ValueError(f"{name} can't be {value!r}")
        setattr(self._world.switches, name, value)

    def arm(self, kind: str, **options: Any) -> None:
        """Arm a fault (see `Fault` for the options)."""
        self._exchange.faults.arm(Fault(FaultKind(kind), **options))

    def reset_faults(self) -> int:
        """Disarm every fault; return how many were armed."""
        return self._exchange.faults.reset()

    def held_back(self) -> int:
        """Return how many requests a fault is holding back."""
        return self._exchange.faults.held_back()

    def release(self) -> int:
        """Let the requests go on that are held back; return how many."""
        return self._exchange.faults.release()

    def requests(self) -> list[dict[str, object]]:
        """Return every request received, in order."""
        return [dataclasses.asdict(one) for one in self._exchange.log.entries()]

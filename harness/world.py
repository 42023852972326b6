"""The world around a case: the payment provider as the parent sees it, the model's address, and what a worker inherits."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import stripe

from harness.scenarios import CURRENCY, PAYMENT_MINOR, Scenario
from harness.standins.anthropic.client import LOCAL_API_KEY as LOCAL_ANTHROPIC_KEY
from harness.standins.anthropic.client import AnthropicStandIn
from harness.standins.stripe.client import LOCAL_API_KEY as LOCAL_STRIPE_KEY
from harness.standins.stripe.client import StripeControl, StripeStandIn
from harness.standins.stripe.ledger import refunds_of
from harness.standins.stripe.sdk import pay

ROOT = Path(__file__).resolve().parents[1]

_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR")
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RefundAtProvider:
    """A refund that moved money, as the provider's own record has it."""

    id: str
    amount_minor: int
    status: str
    metadata: Mapping[str, str]

    def carries(self, mark: str) -> bool:
        """Whether it names the mark in its metadata. A refund by hand names nothing."""
        return mark in self.metadata.values()


@dataclass(frozen=True, slots=True)
class ProviderRecord:
    """The provider's own record of one payment.

    Args:
        refunds: the refunds that moved money, oldest first.
        lines: what they were read from, as JSON lines, for whoever wants to read it again.
    """

    refunds: tuple[RefundAtProvider, ...]
    lines: tuple[str, ...]


class Provider(Protocol):
    """The payment provider, and what the world does there."""

    @property
    def api_base(self) -> str | None:
        """Where its API is; None for the real one."""
        ...

    def create_payment(self) -> str:
        """Let a customer pay; return the payment intent."""
        ...

    def hand_refund(self, payment: str, amount_minor: int) -> None:
        """Refund as a person does from the dashboard: without a mark."""
        ...

    def forget_keys(self, payment: str) -> None:
        """Lose the idempotency keys under which the payment was refunded."""
        ...

    def pass_time(self, seconds: float) -> None:
        """Let time pass at the provider."""
        ...

    def record_of(self, payment: str) -> ProviderRecord:
        """Read the provider's own record of a payment."""
        ...


class World(Protocol):
    """Where a run takes place.

    Attributes:
        live: whether it is the real one.
        model: the model's name.
        anthropic_base_url: where the model is; None for the real one.
        database: the PostgreSQL database that keeps the gate's journals; None for files.
        temporal: the address of the Temporal server; None where no column needs it.
        cases_at_once: how many cases may be carried at the same time.
        rehearsal: whether a live run is rehearsed at stand-ins.
    """

    live: bool
    model: str
    anthropic_base_url: str | None
    database: str | None
    temporal: str | None
    cases_at_once: int
    rehearsal: bool

    def begin(self) -> None:
        """Wait until the next case may begin."""
        ...

    def provider(self, scenario: Scenario) -> Provider:
        """Return the payment provider for a scenario."""
        ...

    def worker_environment(self) -> dict[str, str]:
        """Return everything that a worker inherits."""
        ...


class LocalProvider:
    """The stand-in. Its record is its ledger, a file that the API under test has no part in."""

    def __init__(self, standin: StripeControl) -> None:
        self._standin = standin
        self._client = connect(LOCAL_STRIPE_KEY, standin.api_base)

    @property
    def api_base(self) -> str | None:
        return self._standin.api_base

    def create_payment(self) -> str:
        return pay(self._client, PAYMENT_MINOR, CURRENCY).id

    def hand_refund(self, payment: str, amount_minor: int) -> None:
        self._standin.hand_refund(payment, amount_minor)

    def forget_keys(self, payment: str) -> None:
        keys = [refund.idempotency_key for refund in refunds_of(self._standin.ledger_path, payment)]
        forgotten = sum(self._standin.forget_key(key) for key in keys if key)
        assert forgotten, "the row needs a key that can be forgotten"

    def pass_time(self, seconds: float) -> None:
        self._standin.advance_clock(seconds)

    def record_of(self, payment: str) -> ProviderRecord:
        refunds = tuple(
            RefundAtProvider(id=one.refund, amount_minor=one.amount, status=one.status, metadata=one.metadata)
            for one in refunds_of(self._standin.ledger_path, payment)
        )
        return ProviderRecord(refunds, tuple(_lines_about(self._standin.ledger_path, payment)))


class LocalWorld:
    """The stand-ins, each in a process of its own, shared by the cases of a run; as a context manager it ends them.

    Args:
        folder: where the ledgers are written.
        database: the PostgreSQL database that keeps the gate's journals; None for files.
        temporal: the address of the Temporal server; None where no column needs it.
    """

    live = rehearsal = False
    model = "claude-local-scripted"
    cases_at_once = os.cpu_count() or 1

    def __init__(self, folder: Path, database: str | None = None, temporal: str | None = None) -> None:
        self.database, self.temporal = database, temporal
        with ExitStack() as starting:
            anthropic = starting.enter_context(AnthropicStandIn())
            steady = starting.enter_context(StripeStandIn(folder / "ledger.jsonl"))
            # A moved clock is moved for every payment, so the rows that move it have a provider of their own.
            moved = starting.enter_context(StripeStandIn(folder / "ledger-moved-clock.jsonl"))
            self._processes = starting.pop_all()
        self.anthropic_base_url: str | None = anthropic.base_url
        self._steady, self._moved = LocalProvider(steady), LocalProvider(moved)

    def begin(self) -> None:
        """Begin at once: nobody limits the rate here."""

    def provider(self, scenario: Scenario) -> Provider:
        return self._moved if scenario.moves_clock else self._steady

    def worker_environment(self) -> dict[str, str]:
        # Fake keys whatever the caller's environment holds, and no proxy: the SDKs would honour it.
        keys = {"STRIPE_SECRET_KEY": LOCAL_STRIPE_KEY, "ANTHROPIC_API_KEY": LOCAL_ANTHROPIC_KEY}
        return inherited() | keys | {"NO_PROXY": "127.0.0.1"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._processes.close()


def connect(api_key: str, api_base: str | None, *, network_retries: int = 0) -> stripe.StripeClient:
    """Return a client of the parent's own; None is the real address."""
    stripe.enable_telemetry = False  # it would write an id under the user's home
    return stripe.StripeClient(
        api_key,
        base_addresses={"api": api_base} if api_base else {},
        http_client=stripe.RequestsClient(timeout=_TIMEOUT_S),
        max_network_retries=network_retries,
    )


def inherited(more: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the variables that every worker inherits, and more of them where they are named."""
    return {name: os.environ[name] for name in _INHERITED + more if name in os.environ} | {"PYTHONPATH": str(ROOT)}


def _lines_about(ledger: Path, payment: str) -> list[str]:
    lines = ledger.read_text(encoding="utf-8").splitlines()
    rows = [(line, json.loads(line)) for line in lines]
    about = {payment} | {row["refund"] for _, row in rows if row.get("payment") == payment and "refund" in row}
    return [line for line, row in rows if about & {row.get("payment"), row.get("object_id")}]

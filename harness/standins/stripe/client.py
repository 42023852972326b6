"""Starts the stand-in, or attaches to one that runs, and moves its world. Standard library only."""

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypedDict, Unpack
from urllib.parse import urlsplit

from .faults import FaultKind
from .request_log import LoggedRequest

LOCAL_API_KEY = "sk_test_local_0000"

_ROOT = Path(__file__).resolve().parents[3]
_STOP_TIMEOUT_S = 5.0
_CONTROL_TIMEOUT_S = 30.0


class ControlRefusedError(RuntimeError):
    """The stand-in did not do what it was told; nothing was changed. The message is the stand-in's."""


class FaultOptions(TypedDict, total=False):
    """Which requests a fault strikes and how; the meaning of each is documented at `faults.Fault`."""

    method: Literal["GET", "POST", "DELETE"]
    path_prefix: str
    idempotency_key: str | None
    times: int
    seconds: float
    with_effect: bool | None
    should_retry: bool | None
    amount_minor: int
    location: str


class StripeControl:
    """Moves the world of a stand-in that runs, in whatever process.

    Attributes:
        handshake: The JSON line that the stand-in printed at its start; hand it to another process to attach there.
        api_base: Where the API listens: `StripeClient(key, base_addresses={"api": api_base})`.
        control_url: Where the control listens.
        ledger_path: The file with every effect; read it with `ledger.read_ledger` or `ledger.refunds_of`.
        pid: Process id of the stand-in.
    """

    def __init__(self, handshake: str) -> None:
        said = json.loads(handshake)
        self.handshake = handshake
        self.api_base = str(said["api"])
        self.control_url = str(said["control"])
        self.ledger_path = Path(said["ledger"])
        self.pid = int(said["pid"])

    # ── the world ───────────────────────────────────────────────────────────

    def advance_clock(self, seconds: float) -> float:
        """Move the stand-in's clock forward; what becomes due happens at once. Return the new time."""
        return float(self._call("advance_clock", seconds=seconds))

    def now(self) -> float:
        """Return the time on the stand-in's clock, in seconds since the epoch."""
        return float(self._call("now"))

    def forget_key(self, key: str) -> int:
        """Lose an idempotency key early, in every account; return how many records that were."""
        return int(self._call("forget_key", key=key))

    def hand_refund(self, payment: str, amount_minor: int, metadata: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Refund as a person does from the dashboard: no idempotency key, no mark. Return the refund."""
        refund: dict[str, Any] = self._call("hand_refund", payment=payment, amount=amount_minor, metadata=dict(metadata or {}))
        return refund

    def dispute(self, payment: str, *, inquiry: bool = False) -> None:
        """Open a dispute, or an escalating inquiry under which refunds are taken and fail an hour later."""
        self._call("dispute", payment=payment, inquiry=inquiry)

    def complete_refund(self, refund: str) -> dict[str, Any]:
        """Let a pending refund succeed; return it."""
        completed: dict[str, Any] = self._call("complete_refund", refund=refund)
        return completed

    def fail_refund(self, refund: str, reason: str = "lost_or_stolen_card") -> dict[str, Any]:
        """Let a refund fail, also one that had succeeded; return it."""
        failed: dict[str, Any] = self._call("fail_refund", refund=refund, reason=reason)
        return failed

    def next_refund_status(self, status: str) -> None:
        """Decide in which state the next refund comes into being."""
        self._call("next_refund_status", status=status)

    def roll_forward(self, key: str | None = None) -> int:
        """Bring stored 500s to their end now (of one key, or all); return how many."""
        return int(self._call("roll_forward", key=key))

    def assign_key(self, api_key: str, account: str) -> None:
        """Let a test key belong to an account; without this, keys with the same secret share one of their own."""
        self._call("assign_key", api_key=api_key, account=account)

    def connect_account(self, account: str) -> None:
        """Let every key act for `account` through `Stripe-Account`."""
        self._call("connect_account", account=account)

    def add_live_object(self, object_id: str) -> None:
        """Say that an id exists in live mode, so that not finding it says so."""
        self._call("add_live_object", object_id=object_id)

    def set_switch(self, name: str, value: object) -> None:
        """Set one of the provider's undocumented ways (see `state.Switches`)."""
        self._call("set_switch", name=name, value=value)

    # ── faults ──────────────────────────────────────────────────────────────

    def arm(self, kind: FaultKind, **options: Unpack[FaultOptions]) -> None:
        """Arm a fault for the next `times` requests that match; by default the next POST /v1/refunds."""
        self._call("arm", kind=kind.value, **options)

    def reset_faults(self) -> int:
        """Disarm every fault; return how many were armed."""
        return int(self._call("reset_faults"))

    def held_back(self) -> int:
        """Return how many requests a fault is holding back."""
        return int(self._call("held_back"))

    def wait_until_held_back(self, count: int = 1, timeout_s: float = 60.0) -> None:
        """Wait until a fault holds back `count` requests.

        Raises:
            TimeoutError: It never did.
        """
        deadline = time.monotonic() + timeout_s
        while self.held_back() < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {count} requests were held back within {timeout_s} s")
            time.sleep(0.005)

    def release(self) -> int:
        """Let the requests go on that are held back; return how many."""
        return int(self._call("release"))

    def requests(self) -> list[LoggedRequest]:
        """Return every request received, in order."""
        return [LoggedRequest(**one) for one in self._call("requests")]

    def _call(self, verb: str, **arguments: object) -> Any:
        address = urlsplit(self.control_url)
        connection = http.client.HTTPConnection(address.netloc, timeout=_CONTROL_TIMEOUT_S)
        try:
            connection.request("POST", f"/{verb}", json.dumps(arguments), {"content-type": "application/json"})
            response = connection.getresponse()
            result = json.loads(response.read())
        finally:
            connection.close()
        if response.status != 200:
            raise ControlRefusedError(result["error"])
        return result


class StripeStandIn(StripeControl):
    """A local Stripe in a process of its own, which ends with `close`, with the context, and with this process.

    Args:
        ledger_path: Where it writes its ledger; an existing one is appended to.

    Raises:
        RuntimeError: The process ended before it listened.
    """

    def __init__(self, ledger_path: Path | str) -> None:
        command = [sys.executable, "-m", "harness.standins.stripe", "--ledger", str(ledger_path), "--parent", str(os.getpid())]
        self._process: subprocess.Popen[str] | None = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_clean_environment()
        )
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            self.close()
            raise RuntimeError("the Stripe stand-in ended before it listened; its error is on standard error")
        super().__init__(line.strip())

    @staticmethod
    def attach(handshake: str) -> StripeControl:
        """Return the controls of a stand-in that runs already, given the JSON line that it printed."""
        return StripeControl(handshake)

    def close(self) -> None:
        """Stop the process, by closing its input."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.communicate(timeout=_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


def _clean_environment() -> dict[str, str]:
    # The stand-in needs no credential, so it is given none.
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"PYTHONPATH": str(_ROOT)}

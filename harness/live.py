"""A live run: Stripe's test mode and the real model. Test keys only, paced, and what can't be had there is EMULATED.

The keys come from `STRIPE_SECRET_KEY` (or the Stripe CLI's own test key) and `ANTHROPIC_API_KEY`. A restricted key has to be
allowed to write payment intents and refunds, and to read charges. With other addresses the same run is rehearsed at stand-ins.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import urlsplit

import stripe

from harness.forgetful import STRIPE, ForgetfulProvider
from harness.keys import (
    DEFAULT_MODEL,
    anthropic_key_from_environment,
    require_test_stripe_key,
    stripe_key_from_environment,
)
from harness.scenarios import CURRENCY, PAYMENT_MINOR, Scenario
from harness.standins.stripe.sdk import pay
from harness.world import Provider, ProviderRecord, RefundAtProvider, connect, inherited

T = TypeVar("T")

CASES_AT_ONCE = 4
"""Stripe allows 25 requests a second in a sandbox (docs.stripe.com/rate-limits); a case makes about ten in a few seconds."""
CASE_EVERY_S = 4.0
"""The model's service allows 50 requests a minute at the least (docs.claude.com/en/api/rate-limits); a case makes three."""
KEY_LASTS_S = 86_400.0
"""After which the provider may forget a key (docs.stripe.com/api/idempotent_requests)."""

_INHERITED = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
_NETWORK_RETRIES = 3
_PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0)
_LONGEST_PAUSE_S = 60.0
_VOID = frozenset({"failed", "canceled"})
_LOOPBACK = "127.0.0.1"


class NoKeys(Exception):
    """A live run has not got its keys, or an address that it may not go to. Nothing was run."""


class NotEmulatedLive(Exception):
    """Something was asked for that can't be had at the real provider. Nothing was done."""


class Pace:
    """Lets cases begin one after the other, each a while after the one before.

    Args:
        every_s: how long that is, in seconds.
        elapsing_s: a clock that no one sets.
        sleep: how to wait.
    """

    def __init__(
        self, every_s: float, elapsing_s: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._every_s, self._elapsing_s, self._sleep = every_s, elapsing_s, sleep
        self._next_s = elapsing_s()
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Wait until the next case may begin."""
        with self._lock:
            now_s = self._elapsing_s()
            at_s = max(self._next_s, now_s)
            self._next_s = at_s + self._every_s
        self._sleep(at_s - now_s)


class LiveProvider:
    """Stripe in test mode. Its record is its list of refunds, read with a client of its own.

    Args:
        api_key: a test key.
        api_base: another address that speaks for it; None for the real one.
    """

    def __init__(self, api_key: str, api_base: str | None) -> None:
        self._client = connect(require_test_stripe_key(api_key), api_base, network_retries=_NETWORK_RETRIES)
        self.api_base: str | None = api_base

    def create_payment(self) -> str:
        return _patiently(lambda: pay(self._client, PAYMENT_MINOR, CURRENCY).id)

    def hand_refund(self, payment: str, amount_minor: int) -> None:
        # A 429 means that this request was not executed (docs.stripe.com/error-low-level), so it may be sent anew.
        _patiently(lambda: self._client.v1.refunds.create({"payment_intent": payment, "amount": amount_minor}))

    def forget_keys(self, payment: str) -> None:
        raise NotEmulatedLive(f"the real provider forgets no key of {payment} when it is told to")

    def pass_time(self, seconds: float) -> None:
        raise NotEmulatedLive(f"the real provider's clock can't be moved by {seconds:g} s")

    def record_of(self, payment: str) -> ProviderRecord:
        refunds_of = self._client.v1.refunds.list
        listed = _patiently(lambda: list(refunds_of({"payment_intent": payment, "limit": 100}).auto_paging_iter()))
        refunds = [_as_listed(refund) for refund in reversed(listed)]
        lines = tuple(json.dumps({"kind": "refund_listed", "payment": payment} | _row(refund)) for refund in refunds)
        return ProviderRecord(tuple(refund for refund in refunds if refund.status not in _VOID), lines)


class EmulatedProvider(LiveProvider):
    """The same, as workers see it through a proxy that forgets keys. What the world does there goes to the real one."""

    def __init__(self, api_key: str, api_base: str | None, forgetful: ForgetfulProvider) -> None:
        super().__init__(api_key, api_base)
        self._forgetful = forgetful
        self.api_base = forgetful.address

    def forget_keys(self, payment: str) -> None:
        forgotten = self._forgetful.forget_keys()
        assert forgotten, f"{payment}: the row needs a key that can be forgotten"

    def pass_time(self, seconds: float) -> None:
        # The real clock stands: the gate's own is moved, in the job. Keys of a day are gone.
        if seconds >= KEY_LASTS_S:
            self._forgetful.forget_keys()


class LiveWorld:
    """Stripe's test mode and the real model; as a context manager it ends what was started for it.

    Args:
        stripe_key: a test key.
        anthropic_key: the key for the model.
        model: the model's name.
        stripe_api_base: another address that speaks for the provider; None for the real one.
        anthropic_base_url: another address that speaks for the model; None for the real one.
        temporal: the address of the Temporal server; None where no column needs it.
        case_every_s: how far apart cases begin, in seconds.

    Attributes:
        rehearsal: whether it is at stand-ins.

    Raises:
        LiveKeyRefused: the Stripe key is not a test key.
        NoKeys: a rehearsal would leave this machine, or is at a stand-in for one of the services only.
    """

    live = True
    database: str | None = None
    cases_at_once = CASES_AT_ONCE

    def __init__(
        self,
        *,
        stripe_key: str,
        anthropic_key: str,
        model: str = DEFAULT_MODEL,
        stripe_api_base: str | None = None,
        anthropic_base_url: str | None = None,
        temporal: str | None = None,
        case_every_s: float = CASE_EVERY_S,
    ) -> None:
        for address in (stripe_api_base, anthropic_base_url):
            if address is not None and urlsplit(address).hostname != _LOOPBACK:
                raise NoKeys(f"a rehearsal is at stand-ins on {_LOOPBACK}, not at {address}; nothing was run")
        if (stripe_api_base is None) is not (anthropic_base_url is None):
            # Half of it would be the real thing, and neither LIVE nor REHEARSAL would say so.
            raise NoKeys(
                "a rehearsal is at stand-ins for both services, Stripe and the model; nothing was run. Give both addresses"
            )
        self._stripe_key, self._stripe_api_base = stripe_key, stripe_api_base
        self._provider = LiveProvider(stripe_key, stripe_api_base)
        self._keys = {"STRIPE_SECRET_KEY": stripe_key, "ANTHROPIC_API_KEY": anthropic_key}
        self._pace = Pace(case_every_s)
        self._started = ExitStack()
        self.rehearsal = stripe_api_base is not None
        self.model = model
        self.anthropic_base_url = anthropic_base_url
        self.temporal = temporal

    def provider(self, scenario: Scenario) -> Provider:
        """Return the provider; for an emulated row one of its own, since it forgets everything at once."""
        if not scenario.emulated:
            return self._provider
        forgetful = self._started.enter_context(ForgetfulProvider(self._stripe_api_base or STRIPE))
        return EmulatedProvider(self._stripe_key, self._stripe_api_base, forgetful)

    def begin(self) -> None:
        self._pace.begin()

    def worker_environment(self) -> dict[str, str]:
        # Proxies of the network are honoured, and never for what is on this machine.
        bypass = ",".join(filter(None, (os.environ.get("NO_PROXY"), _LOOPBACK)))
        return inherited(_INHERITED) | {"NO_PROXY": bypass} | self._keys

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._started.close()


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a live run to a command."""
    group = parser.add_argument_group("a live run")
    group.add_argument("--live", action="store_true", help="Stripe's test mode and the real model; test keys only")
    group.add_argument("--model", default=DEFAULT_MODEL, help="the model (default: %(default)s)")
    group.add_argument("--every", type=float, default=CASE_EVERY_S, metavar="S", help="seconds between the beginnings of cases")
    group.add_argument("--stripe-address", metavar="URL", help="rehearse it: a stand-in on 127.0.0.1 speaks for Stripe")
    group.add_argument("--model-address", metavar="URL", help="rehearse it: a stand-in on 127.0.0.1 speaks for the model")


def live_world(options: argparse.Namespace) -> LiveWorld:
    """Return the world of a live run, with the keys of the environment.

    Args:
        options: what `add_options` read.

    Raises:
        LiveKeyRefused: the Stripe key is not a test key.
        NoKeys: a key is missing, or a rehearsal would leave this machine.
    """
    stripe_key, anthropic_key = stripe_key_from_environment(), anthropic_key_from_environment()
    if stripe_key is None or anthropic_key is None:
        raise NoKeys("--live needs STRIPE_SECRET_KEY (a test key) and ANTHROPIC_API_KEY; nothing was run")
    return LiveWorld(
        stripe_key=stripe_key,
        anthropic_key=anthropic_key,
        model=options.model,
        stripe_api_base=options.stripe_address,
        anthropic_base_url=options.model_address,
        case_every_s=options.every,
    )


def _patiently(call: Callable[[], T]) -> T:
    """Call, and again after a while where the provider limits the rate, which its SDK does not do by itself."""
    for pause_s in _PAUSES_S:
        try:
            return call()
        except stripe.RateLimitError as error:
            time.sleep(min(_wish_s(error) or pause_s, _LONGEST_PAUSE_S))
    return call()


def _wish_s(error: stripe.RateLimitError) -> float | None:
    headers = {name.lower(): value for name, value in dict(error.headers or {}).items()}
    try:
        return float(headers.get("retry-after", ""))
    except ValueError:
        return None


def _as_listed(refund: stripe.Refund) -> RefundAtProvider:
    metadata = refund.metadata.to_dict() if refund.metadata else {}
    return RefundAtProvider(id=refund.id, amount_minor=refund.amount, status=refund.status or "unknown", metadata=metadata)


def _row(refund: RefundAtProvider) -> dict[str, object]:
    metadata = dict(refund.metadata)
    return {"refund": refund.id, "amount": refund.amount_minor, "status": refund.status, "metadata": metadata}

"""The provider itself, asked again after a live run: its own list of refunds, read with no code of the harness."""

from __future__ import annotations

import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException, HTTPMessage
from typing import IO, Any
from urllib.parse import urlencode

Json = dict[str, Any]

STRIPE = "https://api.stripe.com"
_TEST_KEY = re.compile(r"(?:sk|rk|rkcs)_test_[A-Za-z0-9_]+")
_TIMEOUT_S = 30.0
_TRIES = 5
_TOO_MANY = 429


class CannotAsk(Exception):
    """The provider can't be asked again; nothing was audited."""


def lines_now(document: Json, address: str) -> Iterator[str]:
    """Ask for the refunds of every case's payment, and yield them as lines of a record.

    Args:
        document: the results.
        address: where the provider is.

    Raises:
        CannotAsk: there is no test key in `STRIPE_SECRET_KEY`, or the provider does not answer.
    """
    key = os.environ.get("STRIPE_SECRET_KEY", "").strip()
    if not _TEST_KEY.fullmatch(key):
        raise CannotAsk("STRIPE_SECRET_KEY holds no test key, with which the provider could be asked again")
    for case in document["cases"]:
        for refund in _refunds(address, key, case["payment"]):
            row = {name: refund[name] for name in ("amount", "status", "metadata")}
            yield json.dumps({"kind": "refund_listed", "payment": case["payment"], "refund": refund["id"]} | row)


def _refunds(address: str, key: str, payment: str) -> Iterator[Json]:
    after: dict[str, str] = {}
    while True:
        page = _get(f"{address}/v1/refunds?{urlencode({'payment_intent': payment, 'limit': '100'} | after)}", key)
        yield from page["data"]
        if not page["has_more"]:
            return
        after = {"starting_after": page["data"][-1]["id"]}


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer that nobody expected: followed, it would take the key to wherever it leads."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Follow none."""


_OPENER = urllib.request.build_opener(_NoRedirects)


def _get(url: str, key: str) -> Json:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"})  # noqa: S310 - https, or a stand-in
    for tried in range(1, _TRIES + 1):
        try:
            with _OPENER.open(request, timeout=_TIMEOUT_S) as answer:
                read: Json = json.load(answer)
                return read
        except urllib.error.HTTPError as error:
            if error.code != _TOO_MANY or tried == _TRIES:
                raise CannotAsk(f"the provider answered {error.code} when it was asked again") from None
            time.sleep(2**tried)
        except (OSError, ValueError, HTTPException) as error:
            raise CannotAsk(f"the provider could not be asked again: {error}") from None
    raise AssertionError("unreachable")

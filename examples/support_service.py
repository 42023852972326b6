"""A support service whose refunds go through a gate: it may be killed at any moment, and started again.

    STRIPE_SECRET_KEY=sk_test_… python examples/support_service.py

    POST /approve  {"case", "amount_minor", "currency", "by"}           a person says that a refund may be given
    POST /refund   {"case", "payment", "amount_minor", "currency"}      a program gives it; ask again while the answer is 202

It trusts whoever reaches it, so it listens on this machine only. A web page is kept out too: it sends an Origin, can't send
JSON without asking first, and names another Host where a name server was made to lie. Put your own authentication in front.
"""

import json
import os
from collections.abc import Callable
from http import HTTPStatus
from inspect import signature
from math import ceil
from socketserver import ThreadingMixIn
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

from interlock import Ambiguous, Committed, Gate, InFlight, Refused
from interlock.errors import InterlockError, InvalidInput
from interlock.stripe import StripeRefunds

Reply = tuple[int, list[tuple[str, str]], dict[str, Any]]

stripe = StripeRefunds(os.environ["STRIPE_SECRET_KEY"], api_base=os.environ.get("STRIPE_API_BASE"))
gate = Gate.open(os.environ.get("INTERLOCK_JOURNAL", "sqlite:///support.db"), targets=[stripe])


def approve(case: str, amount_minor: int, currency: str, by: str) -> Reply:
    """Write down that a person allows a refund for this case."""
    return 200, [], {"approval": gate.approve(case, by=by, expires_in_s=86_400, cap_minor=amount_minor, currency=currency).id}


def refund(case: str, payment: str, amount_minor: int, currency: str) -> Reply:
    """Refund under the case's approval, at most once: the key is made from what was approved, so asking again is safe."""
    effect = stripe.refund(payment=payment, amount_minor=amount_minor, currency=currency, reference=case)
    match gate.fire(f"refund:{case}", effect, approval=case, premises=[stripe.observe(payment)]):
        case Committed(receipt=receipt):
            return 200, [], receipt.to_dict()
        case InFlight(receipt=receipt, retry_after_s=seconds):
            return 202, [("Retry-After", str(max(1, ceil(seconds))))], receipt.to_dict()
        case Refused(receipt=receipt) | Ambiguous(receipt=receipt):
            return 409, [], receipt.to_dict()


ROUTES: dict[str, Callable[..., Reply]] = {"/approve": approve, "/refund": refund}


def answer(environ: WSGIEnvironment) -> Reply:
    """Check who asks and for what, and do it."""
    here = f"127.0.0.1:{environ['SERVER_PORT']}"
    if environ.get("HTTP_HOST") != here or "HTTP_ORIGIN" in environ or environ["CONTENT_TYPE"] != "application/json":
        return 403, [], {"error": "only for programs on this machine, as application/json; nothing was done"}
    try:
        act = ROUTES[environ["PATH_INFO"]]
        asked = signature(act).bind(**json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))))
    except (KeyError, TypeError, ValueError):
        return 400, [], {"error": "not one of the two requests that this service knows; nothing was done"}
    return act(*asked.args)


def service(environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
    """Answer in JSON; an error says itself what was not done, and a 503 is to be asked again."""
    try:
        status, headers, said = answer(environ)
    except InterlockError as error:
        status, headers, said = 400 if isinstance(error, InvalidInput) else 503, [], {"error": str(error)}
    start_response(f"{status} {HTTPStatus(status).phrase}", [("Content-Type", "application/json"), *headers])
    return [json.dumps(said).encode()]


class Server(ThreadingMixIn, WSGIServer):
    """One thread a request; they share the gate."""

    daemon_threads = True


if __name__ == "__main__":
    with gate, make_server("127.0.0.1", int(os.environ.get("PORT", "8400")), service, Server) as server:
        Thread(target=gate.recover_forever, daemon=True).start()  # what a killed process left behind is carried on at once
        print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()

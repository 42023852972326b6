"""The audit that asks the provider again takes its key nowhere else, and says where it was not answered."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from harness.audit import provider

DOCUMENT = {"cases": [{"payment": "pi_local_1"}]}


@contextmanager
def _answering(status: int, body: bytes = b"", location: str | None = None) -> Iterator[tuple[str, list[str]]]:
    """Answer everything with one answer; give the address, and the paths that were asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            if location:
                self.send_header("location", location)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test key, and no proxy before this machine."""
    monkeypatch.setenv("STRIPE_SECRET_KEY", "sk_test_local_0000")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_does_not_take_the_key_along(status: int) -> None:
    """The provider redirects nobody; whoever does so in its place is told nothing."""
    with (
        _answering(200, b'{"data": [], "has_more": false}') as (elsewhere, asked),
        _answering(status, location=elsewhere) as (address, _),
        pytest.raises(provider.CannotAsk, match=str(status)),
    ):
        list(provider.lines_now(DOCUMENT, address))
    assert asked == []


def test_an_answer_that_is_no_list_is_no_record() -> None:
    """A page of a proxy is not taken for a payment without refunds."""
    with _answering(200, b"<html>") as (address, _), pytest.raises(provider.CannotAsk):
        list(provider.lines_now(DOCUMENT, address))

"""A provider that forgets idempotency keys when it is told to: a proxy before the real one, which remembers them for a day.

Whatever passes is the real provider's own, but for one header: a key that is to be forgotten goes on under another name, so
that the provider has never seen it. That is as close as it goes to a key that is really forgotten.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

import requests

from harness.keys import LiveKeyRefused, require_test_stripe_key

HOST = "127.0.0.1"
STRIPE = "https://api.stripe.com"

_TIMEOUT_S = 90.0
"""Longer than the provider takes (docs.stripe.com/api, its SDK waits for 80 s): the proxy is not the one who gives up."""
_OWN = frozenset(("connection", "content-encoding", "content-length", "host", "keep-alive", "transfer-encoding"))
"""Headers that are about one connection, or about a body that is written anew."""


def _as_it_came(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Leave the caller's key where it is: without this, one in the user's .netrc would take its place."""
    return request


class _Keys:
    """Which keys have passed, and how often each was forgotten."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forgotten = Counter[str]()

    def renamed(self, key: str) -> str:
        """Return the name under which the provider gets to see a key."""
        with self._lock:
            self._forgotten.setdefault(key, 0)
            times = self._forgotten[key]
        return f"{key}-forgotten-{times}" if times else key

    def forget(self) -> int:
        """Forget every key that has passed, and return how many there were."""
        with self._lock:
            self._forgotten.update(list(self._forgotten))
            return len(self._forgotten)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream.rstrip("/")
        self.keys = _Keys()
        super().__init__((HOST, 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a worker that was killed in the middle of a request, and what is usual of everything else."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride] - only ever served by one of these

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
        """Say nothing."""

    def do_GET(self) -> None:
        self._forward()

    def do_POST(self) -> None:
        self._forward()

    def do_DELETE(self) -> None:
        self._forward()

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            require_test_stripe_key(self.headers.get("authorization", "").removeprefix("Bearer "))
        except LiveKeyRefused:
            self._reply(
                403, {}, b'{"error": {"type": "invalid_request_error", "message": "not a test key; nothing was passed on"}}'
            )
            return
        if not self.path.startswith("/"):
            # Behind the provider's address it would be another host's name, and the key would go there.
            self._reply(400, {}, b'{"error": {"type": "invalid_request_error", "message": "no path; nothing was passed on"}}')
            return
        headers = {name.lower(): value for name, value in self.headers.items() if name.lower() not in _OWN}
        if key := headers.get("idempotency-key"):
            headers["idempotency-key"] = self.server.keys.renamed(key)
        try:
            answer = requests.request(
                self.command,
                self.server.upstream + self.path,
                headers=headers,
                data=body,
                timeout=_TIMEOUT_S,
                allow_redirects=False,
                auth=_as_it_came,
            )
        except requests.RequestException:
            # Nobody knows what became of it, and that is what a caller is told whose connection just ends.
            self.close_connection = True
            return
        self._reply(answer.status_code, dict(answer.headers), answer.content)

    def _reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in _OWN:
                self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class ForgetfulProvider:
    """The proxy, on a thread of its own and on 127.0.0.1 only; as a context manager it ends with the block.

    Args:
        upstream: the provider behind it.

    Attributes:
        address: where it listens.
    """

    def __init__(self, upstream: str = STRIPE) -> None:
        self._server = _Server(upstream)
        self.address = f"http://{HOST}:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def forget_keys(self) -> int:
        """Forget every idempotency key that has passed so far, and return how many there were."""
        return self._server.keys.forget()

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

"""The two HTTP servers. The API's has its hands on the socket, because half of the faults are about the socket."""

import json
import socket
import struct
import sys
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, ClassVar, Protocol
from urllib.parse import parse_qsl, urlsplit

from .api import Answer, ApiRequest
from .exchange import Delivery, Mode

HOST = "127.0.0.1"
MAX_BODY_BYTES = 1_000_000
LOCAL_HEADER = ("x-standin", "local")


class LocalServer(ThreadingHTTPServer):
    """A threaded server that nobody outside this machine can reach."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        """Bind to the loopback address; port 0 takes a free one."""
        super().__init__((HOST, port), handler)

    def server_bind(self) -> None:
        """Bind without asking the resolver for the machine's name, which can take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent about clients that went away: killing them is what this server is for."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        """The address of this server."""
        return f"http://{HOST}:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class names it so
        """Print nothing: the request log is kept elsewhere, and without secrets."""

    def version_string(self) -> str:
        return "stripe-standin (local)"

    def _body(self) -> bytes | None:
        """Return the whole body, or None where the request never arrived whole, so must have no effect."""
        announced = self.headers.get("content-length") or "0"
        if not announced.isdigit() or int(announced) > MAX_BODY_BYTES:
            return None
        body = self.rfile.read(int(announced))
        return body if len(body) == int(announced) else None

    def _send(self, status: int, body: bytes, headers: Mapping[str, str], announced: int | None = None) -> None:
        self.send_response(status)
        for name, value in (*headers.items(), LOCAL_HEADER):
            self.send_header(name, value)
        self.send_header("content-length", str(len(body) if announced is None else announced))
        self.end_headers()
        self.wfile.write(body)


class Runner(Protocol):
    """What answers the API's requests."""

    def run(self, request: ApiRequest) -> Delivery:
        """Carry one request through."""
        ...


class _ApiHandler(_Handler):
    runner: ClassVar[Runner]

    def do_GET(self) -> None:
        body = self._body()
        if body is None:
            self.close_connection = True
            return
        try:
            self._deliver(self.runner.run(self._request(body)))
        except ConnectionError:
            self.close_connection = True

    do_POST = do_DELETE = do_GET  # noqa: N815  http.server looks for these names

    def _request(self, body: bytes) -> ApiRequest:
        url = urlsplit(self.path)
        encoded = url.query if self.command == "GET" else body.decode("utf-8", "replace")
        scheme, _, api_key = self.headers.get("authorization", "").partition(" ")
        return ApiRequest(
            method=self.command,
            path=url.path,
            pairs=tuple(parse_qsl(encoded, keep_blank_values=True)),
            api_key=api_key if scheme.lower() == "bearer" else "",
            stripe_account=self.headers.get("stripe-account"),
            idempotency_key=self.headers.get("idempotency-key"),
            api_version=self.headers.get("stripe-version", ""),
        )

    def _deliver(self, delivery: Delivery) -> None:
        answer = delivery.answer
        match delivery.mode:
            case Mode.WHOLE:
                self._send(answer.status, answer.body, answer.headers)
            case Mode.TRUNCATED:
                half = answer.body[: len(answer.body) // 2]
                self._send(answer.status, half, answer.headers, announced=len(answer.body))
                self.close_connection = True
            case Mode.DRIPPED:
                self._drip(answer, delivery.seconds)
            case Mode.DROPPED:
                self.close_connection = True
            case Mode.RESET:
                self._reset()

    def _drip(self, answer: Answer, seconds: float) -> None:
        self._send(answer.status, b"", answer.headers, announced=len(answer.body))
        for place in range(len(answer.body)):
            time.sleep(seconds / len(answer.body))
            self.wfile.write(answer.body[place : place + 1])

    def _reset(self) -> None:
        # Linger 0 makes close() send RST instead of FIN; the reader holds the descriptor open, so it goes first.
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.rfile.close()
        self.connection.close()


class Controls(Protocol):
    """What runs the control's verbs."""

    def call(self, verb: str, arguments: dict[str, Any]) -> object:
        """Run one verb."""
        ...


class _ControlHandler(_Handler):
    controls: ClassVar[Controls]

    def do_POST(self) -> None:
        body = self._body()
        if body is None:
            self.close_connection = True
            return
        result: object
        try:
            status, result = 200, self.controls.call(self.path.strip("/"), json.loads(body or b"{}"))
        except (ValueError, TypeError, LookupError) as wrong:
            status, result = 400, {"error": str(wrong)}
        self._send(status, json.dumps(result).encode(), {"content-type": "application/json"})


def api_server(port: int, runner: Runner) -> LocalServer:
    """Return the server that speaks Stripe's API."""
    return LocalServer(port, type("ApiHandler", (_ApiHandler,), {"runner": runner}))


def control_server(port: int, controls: Controls) -> LocalServer:
    """Return the server that moves the world: POST a JSON object to /<verb>."""
    return LocalServer(port, type("ControlHandler", (_ControlHandler,), {"controls": controls}))

"""The two HTTP servers of the stand-in, on 127.0.0.1 only: the Messages API, and the control port."""

from __future__ import annotations

import json
import re
import secrets
import socket
import socketserver
import struct
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from harness.standins.anthropic import rendering
from harness.standins.anthropic.behaviours import NORMAL, Behaviour, Choice, Moment, Switchboard
from harness.standins.anthropic.conversation import ApiError, Conversation, parse_conversation
from harness.standins.anthropic.script import answer
from harness.standins.anthropic.wording import Wording

HOST = "127.0.0.1"
LOCAL_KEY_PREFIX = "sk-ant-local-"
_MAX_BODY_BYTES = 32 * 1024 * 1024
_REMEMBERED_REQUESTS = 10_000


class StandIn:
    """What both ports share: the model's words, its switches, and a log that holds no key and no message."""

    def __init__(self, seed: int | None = None) -> None:
        self.wording = Wording(seed)
        self.switches = Switchboard()
        self._lock = threading.Lock()
        self._requests: deque[dict[str, Any]] = deque(maxlen=_REMEMBERED_REQUESTS)

    def record(self, **facts: object) -> None:
        """Remember one request."""
        with self._lock:
            self._requests.append(facts)

    def requests(self) -> list[dict[str, Any]]:
        """The requests so far, oldest first."""
        with self._lock:
            return list(self._requests)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, handler: type[_Handler], standin: StandIn) -> None:
        self.standin = standin
        super().__init__((HOST, port), handler)

    def server_bind(self) -> None:
        # HTTPServer's own also asks the resolver for this machine's name, which can hang where there is no DNS.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride] - only ever served by one of these

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
        """Say nothing: stdout carries one line only."""

    def read_body(self) -> bytes:
        length = int(self.headers.get("content-length") or 0)
        if length > _MAX_BODY_BYTES:
            self.close_connection = True
            raise ApiError(413, "request_too_large", "Request exceeds the maximum size")
        return self.rfile.read(length)

    def reply(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._head(status, {"content-type": "application/json", "content-length": str(len(payload)), **(headers or {})})
        self.wfile.write(payload)

    def reply_until_closed(self, content_type: str, pieces: Iterable[bytes], headers: Mapping[str, str]) -> None:
        """Send a body whose end is the end of the connection, so that a cut one looks like a clean end of file."""
        self.close_connection = True
        self._head(200, {"content-type": content_type, "connection": "close", **headers})
        for piece in pieces:
            self.wfile.write(piece)

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"x-standin": "local", **headers}.items():
            self.send_header(name, value)
        self.end_headers()


class MessagesHandler(_Handler):
    """`POST /v1/messages`."""

    def do_POST(self) -> None:
        request_id = f"req_local_{secrets.token_hex(10)}"
        path = self.path.partition("?")[0]
        facts: dict[str, Any] = {"path": path, "retry_count": self.headers.get("x-stainless-retry-count")}
        try:
            self._answer(request_id, facts)
        except ApiError as error:
            self._fail(request_id, facts, error)
        except ConnectionError:
            self.close_connection = True  # the caller has gone away
        except Exception as error:  # noqa: BLE001 - as a service would: its own fault is a 500 and never a dead socket
            self._fail(request_id, facts, ApiError(500, "api_error", f"stand-in: {error!r}"))

    def do_GET(self) -> None:
        self._fail(f"req_local_{secrets.token_hex(10)}", {"path": self.path.partition("?")[0]}, _not_found())

    def _answer(self, request_id: str, facts: dict[str, Any]) -> None:
        raw = self.read_body()
        if facts["path"] != "/v1/messages":
            raise _not_found()
        self._check_headers()
        talk = parse_conversation(raw)
        choice = self._choose(talk)
        facts |= {"payment": talk.payment, "behaviour": choice.behaviour.value, "stream": talk.stream}
        _raise_outage(choice)
        message = answer(talk, choice.behaviour, self.server.standin.wording)
        self.server.standin.record(**facts, status=200, message_id=message.id, stop_reason=message.stop_reason)
        headers = {"request-id": request_id}
        sizes = (talk.model, len(raw) // 4 + 1)
        if talk.stream and choice.behaviour is Behaviour.CUT_AT_END:
            *all_but_the_end, _ = rendering.as_events(message, *sizes)
            self.reply_until_closed("text/event-stream", all_but_the_end, headers)
        elif talk.stream:
            self._reply_stream(rendering.as_events(message, *sizes), choice.behaviour, headers)
        elif message.stop_reason is None:
            self.reply_until_closed("application/json", [rendering.as_json(message, *sizes)], headers)
        else:
            self.reply(200, rendering.as_json(message, *sizes), headers)

    def _reply_stream(self, events: Iterable[bytes], behaviour: Behaviour, headers: Mapping[str, str]) -> None:
        self.reply_until_closed("text/event-stream", [] if behaviour is Behaviour.EMPTY_STREAM else events, headers)
        if behaviour is Behaviour.STREAM_ERROR:
            self.wfile.write(rendering.error_event("overloaded_error", "Overloaded"))
        elif behaviour is Behaviour.RESET_STREAM:
            # Linger 0 makes the close a reset. Detached, because socketserver would first send an end of file.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            socket.close(self.connection.detach())

    def _check_headers(self) -> None:
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        key = token.strip() if scheme.lower() == "bearer" else self.headers.get("x-api-key", "")
        if not key:
            raise ApiError(401, "authentication_error", "x-api-key header is required")
        if not key.startswith(LOCAL_KEY_PREFIX):
            # Somebody's real key may be behind this: it is neither kept nor repeated.
            raise ApiError(401, "authentication_error", f"this is a stand-in, which takes {LOCAL_KEY_PREFIX}... keys only")
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", self.headers.get("anthropic-version", "")):
            raise ApiError(400, "invalid_request_error", "anthropic-version: header is required")

    def _choose(self, talk: Conversation) -> Choice:
        wanted = self.headers.get("x-standin-behaviour")
        if wanted is not None:
            choice = Choice(_behaviour(wanted), retry_after_s=1)
            return choice if choice.behaviour.moment in (Moment.ANY_REQUEST, talk.moment) else NORMAL
        switches = self.server.standin.switches
        outage = switches.pick(talk.payment, Moment.ANY_REQUEST)
        return switches.pick(talk.payment, talk.moment) if outage is NORMAL else outage

    def _fail(self, request_id: str, facts: dict[str, Any], error: ApiError) -> None:
        self.server.standin.record(**facts, status=error.status)
        shape = {"type": "error", "error": {"type": error.kind, "message": error.message}, "request_id": request_id}
        self.reply(error.status, shape, {"request-id": request_id, **error.headers})


class ControlHandler(_Handler):
    """`POST /behaviour`, `POST /reset`, `GET /requests`."""

    def do_GET(self) -> None:
        if self.path == "/requests":
            self.reply(200, {"requests": self.server.standin.requests()})
        else:
            self.reply(404, {"error": "unknown path"})

    def do_POST(self) -> None:
        try:
            body = json.loads(self.read_body() or b"{}")
            match self.path:
                case "/behaviour":
                    self._set_behaviour(**body)
                case "/reset":
                    self.server.standin.switches.reset()
                case _:
                    self.reply(404, {"error": "unknown path"})
                    return
        except (ApiError, TypeError, ValueError) as error:
            self.reply(400, {"error": str(error)})
        else:
            self.reply(200, {})

    def _set_behaviour(
        self, behaviour: str, payment: str | None = None, times: int | None = None, retry_after_s: float = 1
    ) -> None:
        switches = self.server.standin.switches
        switches.set(_behaviour(behaviour), payment=payment, times=times, retry_after_s=retry_after_s)


def _behaviour(name: str) -> Behaviour:
    try:
        return Behaviour(name)
    except ValueError as error:
        raise ApiError(400, "invalid_request_error", f"unknown behaviour, one of {[*Behaviour]}") from error


def _not_found() -> ApiError:
    return ApiError(404, "not_found_error", "Not found")


def _raise_outage(choice: Choice) -> None:
    if choice.behaviour is Behaviour.OVERLOADED_529:
        raise ApiError(529, "overloaded_error", "Overloaded")
    if choice.behaviour is Behaviour.RATE_LIMIT_429:
        headers = {"retry-after": f"{choice.retry_after_s:g}"}
        raise ApiError(429, "rate_limit_error", "This request would exceed your rate limit", headers)


def start(standin: StandIn, port: int = 0) -> tuple[_Server, _Server]:
    """Serve the API (on `port`, 0 for any) and the control port on threads of their own; returns both servers."""
    servers = (_Server(port, MessagesHandler, standin), _Server(0, ControlHandler, standin))
    for server in servers:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return servers

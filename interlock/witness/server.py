"""The witness's HTTP server: two requests, on this machine alone unless somebody asks for more."""

from __future__ import annotations

import ipaddress
import logging
import re
import socket
import threading
from collections.abc import Iterable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from interlock.errors import InvalidConfiguration, JournalError
from interlock.witness.protocol import MAX_REQUEST_BYTES, Reply, Witness

LOOPBACK = "127.0.0.1"
_LOG = logging.getLogger("interlock.witness")
_SILENCE_S = 15.0
_CONNECTIONS = 64
_PATIENCE_S = 1.0
"""For how long a connection waits for a place while each of the others is being answered, which takes milliseconds."""
_LATEST = re.compile(r"/(?P<origin>[0-9a-f]{64})/checkpoint", re.ASCII)
_OF_A_PAGE = ("Origin", "Referer", "Sec-Fetch-Site", "Cookie")
"""What browsers send of their own accord, and logs do not."""


class WitnessServer:
    """Serves a witness over HTTP until it is closed.

    A web page that is open on this machine can reach a server on loopback. So requests that a browser made are refused, and those
    for another host than this server's: a name that somebody lets resolve to 127.0.0.1.

    Args:
        witness: what is served.
        host: the address to listen at.
        port: the port; 0 takes a free one.
        beyond_loopback: whether `host` may be an address that other machines reach.
        names: the host names, beside its address, under which it is called, such as behind a proxy.

    Raises:
        InvalidConfiguration: `host` is no address, or one beyond loopback that was not allowed.
        OSError: the port is taken.
    """

    def __init__(
        self,
        witness: Witness,
        *,
        host: str = LOOPBACK,
        port: int = 0,
        beyond_loopback: bool = False,
        names: Iterable[str] = (),
    ) -> None:
        _require_allowed(host, beyond_loopback=beyond_loopback)
        hosts = frozenset({host, *names} | ({"localhost", LOOPBACK, "::1"} if not beyond_loopback else set()))

        class Handler(_Handler):
            served = witness
            allowed_hosts = hosts
            connections = _Connections(_CONNECTIONS)

        self._server = _Server((host, port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="interlock-witness", daemon=True)

    @property
    def url(self) -> str:
        """Where it is: the submission prefix, and the monitoring prefix too."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def __enter__(self) -> Self:
        """Serve on a thread."""
        self._thread.start()
        return self

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None:
        """Stop, after the requests that are being answered."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def serve_forever(self) -> None:
        """Serve on this thread, until it is interrupted."""
        try:
            self._server.serve_forever()
        finally:
            self._server.server_close()


def _require_allowed(host: str, *, beyond_loopback: bool) -> None:
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise InvalidConfiguration(f"a witness listens at an address such as {LOOPBACK}, not at {host!r}") from None
    if not (loopback or beyond_loopback):
        raise InvalidConfiguration(
            f"other machines reach {host}; nothing was served. Say --beyond-loopback if they shall: the protocol has no login, "
            "and HTTPS is a proxy's work"
        )


class _Connections:
    """The connections that are open. Where there are too many, the one whose request is the longest in coming has to go.

    A request that comes byte by byte is never silent for long, and many of them would keep everybody else waiting.

    Args:
        most: how many there may be.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._changed = threading.Condition()
        self._open: dict[socket.socket, bool] = {}
        """Whether the request of each is still awaited, in the order in which that began."""

    def enter(self, connection: socket.socket) -> bool:
        """Take one more; return False where there is no place for it."""
        with self._changed:
            if len(self._open) >= self._most:
                self._hang_up_on_the_slowest()
            if not self._changed.wait_for(lambda: len(self._open) < self._most, _PATIENCE_S):
                return False
            self._open[connection] = True
            return True

    def await_request(self, connection: socket.socket) -> None:
        """Take note that its next request is awaited from now on."""
        with self._changed:
            self._open.pop(connection, None)
            self._open[connection] = True

    def answer(self, connection: socket.socket) -> None:
        """Take note that its request has come, and is being answered."""
        with self._changed:
            self._open[connection] = False

    def leave(self, connection: socket.socket) -> None:
        """Give its place away."""
        with self._changed:
            self._open.pop(connection, None)
            self._changed.notify_all()

    def _hang_up_on_the_slowest(self) -> None:
        slowest = next((connection for connection, awaited in self._open.items() if awaited), None)
        if slowest is not None:
            with suppress(OSError):  # it has gone by itself
                slowest.shutdown(socket.SHUT_RDWR)


class _Server(ThreadingHTTPServer):
    # A connection that is open and says nothing must not hold up the end.
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[_Handler]) -> None:
        self._connections = handler.connections
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._connections.enter(request):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._connections.leave(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.leave(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        del request
        _LOG.warning("a connection from %s broke off", client_address)


class _Handler(BaseHTTPRequestHandler):
    served: Witness
    allowed_hosts: frozenset[str]
    connections: _Connections
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "interlock-witness", ""
    timeout = _SILENCE_S

    def handle_one_request(self) -> None:
        self.connections.await_request(self.connection)
        super().handle_one_request()

    def do_POST(self) -> None:
        length = self._length()
        if length is None:
            self._answer(Reply(HTTPStatus.LENGTH_REQUIRED, "send Content-Length\n"), keep=False)
        elif length > MAX_REQUEST_BYTES:
            words = f"a request has at most {MAX_REQUEST_BYTES} bytes\n"
            self._answer(Reply(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, words), keep=False)
        else:
            body = self.rfile.read(length)
            self._answer(self._refusal() or self._post(body), keep=len(body) == length)

    def do_GET(self) -> None:
        found = _LATEST.fullmatch(self.path)
        if refusal := self._refusal():
            self._answer(refusal)
        elif found is None:
            self._answer(_NOT_HERE)
        else:
            self._answer(self._safely(lambda: self.served.latest(found["origin"])))

    def _post(self, body: bytes) -> Reply:
        return self._safely(lambda: self.served.add_checkpoint(body)) if self.path == "/add-checkpoint" else _NOT_HERE

    def _safely(self, work: Any) -> Reply:
        self.connections.answer(self.connection)
        try:
            reply: Reply = work()
        except JournalError as error:
            _LOG.error("%s", error)
            return Reply(HTTPStatus.SERVICE_UNAVAILABLE, "the witness can't use its state, and cosigns nothing\n")
        except Exception as error:  # noqa: BLE001 - a defect must end in an answer, and in no cosignature
            _LOG.error("a request failed: %s", type(error).__qualname__)
            return Reply(HTTPStatus.INTERNAL_SERVER_ERROR, "the request failed; nothing was cosigned for it\n")
        return reply

    def _refusal(self) -> Reply | None:
        """Return why a request is not even looked at: a web page made it, or it is meant for somebody else."""
        if any(name in self.headers for name in _OF_A_PAGE):
            return Reply(HTTPStatus.FORBIDDEN, "a web page made this request; a witness answers logs and monitors\n")
        host = _without_port(self.headers.get("Host", ""))
        if host not in self.allowed_hosts:
            return Reply(HTTPStatus.MISDIRECTED_REQUEST, "this witness is not called by that host name\n")
        return None

    def _length(self) -> int | None:
        text = self.headers.get("Content-Length", "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(1 << 62)) else None

    def _answer(self, reply: Reply, *, keep: bool = True) -> None:
        body = reply.body.encode()
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        if not keep:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that http.server gives it
        _LOG.info(format, *args)


_NOT_HERE = Reply(HTTPStatus.NOT_FOUND, "a witness answers POST /add-checkpoint, and GET /<SHA-256 of an origin>/checkpoint\n")


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    bare = name if colon and port.isdecimal() else host
    return bare.removeprefix("[").removesuffix("]").lower()

"""Transports: HTTP requests that end at a wall-clock deadline, and that know whether anything of them was written.

An SDK's time-outs hold for each socket operation, so an answer that drips in never times out; and its exceptions do
not say whether the request left. Here each request runs on a thread of its own under a `Wire`: at the deadline its
socket is shut and the caller goes on, and every write asks the wire first. A sender that was paused between its checks
and the write therefore writes nothing when it wakes up too late, and a request of which nothing was written is
*provably* not sent.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Generic, TypeVar

import requests
from requests.adapters import DEFAULT_POOLSIZE, HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection

from interlock.domain.ports import Deadline

T = TypeVar("T")
SocketOption = tuple[int, int, int | bytes]

_USER_TIMEOUT_S = 5
_UNBOUNDED_KERNEL_S = 960.0
_GLANCE_S = 1.0
_LEAST_TIMEOUT_S = 0.001


class DeadlineOver(Exception):
    """The deadline was over: raised by a write that came too late, and to the caller of a request that did not end."""


class Wire:
    """One request's permission to write, and its end.

    Args:
        deadline: when the request has to be over.
    """

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._cut = False
        self._written = False

    @property
    def written(self) -> bool:
        """Whether a write was begun. False after `run` means that no byte of the request has left, nor ever will."""
        return self._written

    @property
    def timeout_s(self) -> float:
        """The time-out for one socket operation: never beyond the deadline."""
        return max(self._deadline.remaining_s(), _LEAST_TIMEOUT_S)

    def run(self, request: Callable[[], T]) -> T:
        """Run the request on a thread of its own, and return what it returns.

        A thread, because neither a name lookup nor a connect can be interrupted from within. One that is left behind
        writes nothing more, and its socket operations time out by themselves.

        Raises:
            DeadlineOver: it did not end in time. Its socket is shut.
            Exception: whatever the request raises.
        """
        worker = _Worker(self, request)
        worker.start()
        while worker.is_alive() and (remaining_s := self._deadline.remaining_s()) > 0:
            # In slices, since `join` counts on a clock that stands still while the machine sleeps.
            worker.join(min(remaining_s, _GLANCE_S))
        if worker.is_alive():
            self._shut()
            raise DeadlineOver
        return worker.result()

    def before_write(self, sock: socket.socket) -> None:
        """Let a write begin on this socket, or refuse it.

        Raises:
            DeadlineOver: the deadline is over, or the request was given up.
        """
        with self._lock:
            if self._cut or self._deadline.remaining_s() <= 0:
                raise DeadlineOver
            self._socket, self._written = sock, True

    def _shut(self) -> None:
        with self._lock:
            self._cut = True
            # The base class's method: `SSLSocket.shutdown` would take the TLS object from under the thread that reads.
            # A socket inside another TLS layer (an HTTPS proxy) is not of that class; it times out by itself.
            if isinstance(self._socket, socket.socket):
                with suppress(OSError):
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class _Worker(threading.Thread, Generic[T]):
    """Runs one request. A daemon: a name lookup that hangs must not keep the program from ending."""

    def __init__(self, wire: Wire, request: Callable[[], T]) -> None:
        super().__init__(name="interlock-request", daemon=True)
        self._wire = wire
        self._request = request
        self._results: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        _bound.wire = self._wire
        try:
            self._results.append(self._request())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that asked
            self._error = error

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._results[0]


class _Bound(threading.local):
    """The wire of the request that the present thread runs."""

    wire: Wire | None = None


_bound = _Bound()


class DeadlineSession(requests.Session):
    """A session whose requests run under a `Wire`, and which never follows a redirect.

    A POST that is answered with 302 would be followed as a GET and come back as a success; with 307 it would be sent
    twice.
    """

    def __init__(self) -> None:
        super().__init__()
        adapter = DeadlineAdapter()
        self.mount("https://", adapter)
        self.mount("http://", adapter)
        # Any `auth` keeps requests from putting a `default` entry of ~/.netrc in the place of the SDK's own header.
        self.auth = _as_it_is

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return None: a redirect is an answer like any other."""
        del resp


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


class DeadlineAdapter(HTTPAdapter):
    """An adapter whose connections ask the wire before they write, on sockets that a dead sender's kernel gives up."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        super().__init__()

    # `Any` stands where the base class hands its keywords on.
    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **pool_kwargs: Any) -> None:  # noqa: FBT001, FBT002
        """Make the pools, with our connections and socket options."""
        super().init_poolmanager(connections, maxsize, block, socket_options=sending_options(), **pool_kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> ProxyManager:
        """Return the pools that go through a proxy, with the same connections and options."""
        manager: ProxyManager = super().proxy_manager_for(proxy, socket_options=sending_options(), **proxy_kwargs)
        manager.pool_classes_by_scheme = _POOLS
        return manager

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,  # noqa: FBT001, FBT002
        timeout: float | tuple[float, float] | tuple[float, None] | None = None,
        verify: bool | str = True,  # noqa: FBT001, FBT002
        cert: bytes | str | tuple[bytes | str, bytes | str] | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        """Send, with what is left until the wire's deadline as the time-out of each socket operation."""
        self._leave_the_parents_connections()
        wire = _bound.wire
        return super().send(request, stream, timeout if wire is None else wire.timeout_s, verify, cert, proxies)

    def _leave_the_parents_connections(self) -> None:
        # After a fork both processes hold the same sockets, and each could read what was answered to the other.
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self.proxy_manager.clear()
            self.init_poolmanager(DEFAULT_POOLSIZE, DEFAULT_POOLSIZE)


class _AsksBeforeWriting(HTTPConnection):
    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        if _bound.wire is not None and self.sock is not None:
            # The last check there is. Between it and the system call lies the window of a sender that is paused there.
            _bound.wire.before_write(self.sock)
        super().send(data)


class _SecureAsksBeforeWriting(_AsksBeforeWriting, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _AsksBeforeWriting  # pyright: ignore[reportAssignmentType] - nor does urllib3's own class fit


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureAsksBeforeWriting  # pyright: ignore[reportAssignmentType] - as above


_POOLS: dict[str, type[HTTPConnectionPool]] = {"http": _Pool, "https": _SecurePool}


def sending_options() -> list[SocketOption]:
    """Return the options of a socket that sends: urllib3's own, and what makes the kernel of a dead sender give up.

    `TCP_USER_TIMEOUT` ends retransmission (tcp(7)); linger 0 discards, when the socket closes, what is not delivered
    yet (socket(7)).
    """
    options: list[SocketOption] = [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)),
    ]
    if sys.platform == "linux":
        options.append((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_S * 1000))
    return options


def kernel_s() -> float:
    """Return for how many seconds this platform's kernel may go on delivering for a sender that is dead.

    Without `TCP_USER_TIMEOUT` it is about as long as Linux retransmits by default (tcp_retries2: 15 minutes and more).
    It is the sender's first hop that is bounded: a proxy on the way may hold what it has taken.
    """
    return float(_USER_TIMEOUT_S) if sys.platform == "linux" else _UNBOUNDED_KERNEL_S

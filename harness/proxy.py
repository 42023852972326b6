"""A proxy of the harness's own: it stands between a client and a server, and makes the network between them misbehave.

It listens on 127.0.0.1 only, and goes on to a TCP port or a Unix socket. Each connection through it is a `Link`, which can be
cut, held, throttled or turned into a black hole, in one direction or in both; a `Tap` sees what passes, and acts at a chosen byte
or message. The control methods may be called from any thread, and from a tap.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

T = TypeVar("T")

LOOPBACK = "127.0.0.1"
_CHUNK_BYTES = 65_536
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER, zero seconds: the peer gets a reset, and unsent data are dropped
_SLICES_PER_S = 20

Upstream = Path | tuple[str, int]
"""Where the server is: its Unix socket, or its host and port."""


class Direction(StrEnum):
    """Which way bytes go."""

    TO_SERVER = "to the server"
    TO_CLIENT = "to the client"


BOTH = (Direction.TO_SERVER, Direction.TO_CLIENT)


class Tap(Protocol):
    """Sees one link's bytes before they go on. It runs on the proxy's own thread, and must not wait there."""

    def __call__(self, link: Link, direction: Direction, data: bytes) -> bytes:
        """Return what goes on: these bytes, some of them, or more. After `link.cut()` that is the last that passes."""
        ...


class Link:
    """One connection through the proxy: the client's socket, and the proxy's own to the server."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tap: Callable[[], Tap]) -> None:
        self.forwarded = dict.fromkeys(BOTH, 0)
        """How many bytes went on, by direction."""
        self._loop, self._thread = loop, threading.current_thread()
        self._tap = tap()
        self._open = {direction: asyncio.Event() for direction in BOTH}
        for gate in self._open.values():
            gate.set()
        self._swallows = dict.fromkeys(BOTH, False)
        self._bytes_per_s: dict[Direction, float | None] = dict.fromkeys(BOTH)
        self._cut, self._deserted = asyncio.Event(), asyncio.Event()

    @property
    def is_cut(self) -> bool:
        """Whether nothing passes any more."""
        return self._cut.is_set()

    def cut(self) -> None:
        """Reset both connections, at once."""
        self._soon(self._cut.set)

    def desert(self) -> None:
        """Reset the client, and keep the server's side open and silent: the server goes on believing in its client."""
        self.blackhole()
        self._soon(self._deserted.set)

    def hold(self, *directions: Direction) -> None:
        """Let nothing pass, until `release`; what arrives is kept, as in a router's queue."""
        for direction in directions or BOTH:
            self._soon(self._open[direction].clear)

    def release(self, *directions: Direction) -> None:
        """Let what was held pass, and what comes after it."""
        for direction in directions or BOTH:
            self._soon(self._open[direction].set)

    def blackhole(self, *directions: Direction) -> None:
        """Accept everything from now on, and drop it: the connection is half open, and nobody is told."""
        for direction in directions or BOTH:
            self._swallows[direction] = True

    def throttle(self, bytes_per_s: float | None, *directions: Direction) -> None:
        """Let only so many bytes a second pass; None lifts that."""
        for direction in directions or BOTH:
            self._bytes_per_s[direction] = bytes_per_s

    def _soon(self, do: Callable[[], None]) -> None:
        if threading.current_thread() is self._thread:
            do()
        else:
            with suppress(RuntimeError):  # the proxy is closed, and so is the link
                self._loop.call_soon_threadsafe(do)

    async def run(self, client: _Pair, server: _Pair) -> None:
        """Pump both ways until one side ends, or it is cut."""
        tasks: list[asyncio.Task[Any]] = [
            asyncio.create_task(self._pump(Direction.TO_SERVER, client[0], server[1])),
            asyncio.create_task(self._pump(Direction.TO_CLIENT, server[0], client[1])),
            asyncio.create_task(self._cut.wait()),
        ]
        leave = asyncio.create_task(self._leave(client[1]))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*tasks, leave):
                task.cancel()
            for _, writer in (client, server):
                close(writer, reset=self._cut.is_set())
            await asyncio.gather(*tasks, leave, client[1].wait_closed(), server[1].wait_closed(), return_exceptions=True)

    async def _leave(self, client: asyncio.StreamWriter) -> None:
        await self._deserted.wait()
        close(client, reset=True)

    async def _pump(self, direction: Direction, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(_CHUNK_BYTES):
                await self._open[direction].wait()
                if self._swallows[direction]:
                    continue
                data = self._tap(self, direction, data)
                await self._forward(direction, data, sink)
                if self._cut.is_set():
                    return
        if self._swallows[direction]:
            await asyncio.Event().wait()  # a black hole tells neither side of the other's end

    async def _forward(self, direction: Direction, data: bytes, sink: asyncio.StreamWriter) -> None:
        while data:
            pace = self._bytes_per_s[direction]
            size = len(data) if pace is None else max(1, int(pace / _SLICES_PER_S))
            sink.write(data[:size])
            await sink.drain()
            self.forwarded[direction] += len(data[:size])
            data = data[size:]
            if pace is not None:
                await asyncio.sleep(size / pace)


_Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Proxy:
    """Listens at a free port of 127.0.0.1 until it is closed.

    Args:
        upstream: where the server is.
        tap: makes the tap of each new link; by default everything passes.
    """

    def __init__(self, upstream: Upstream, tap: Callable[[], Tap] | None = None) -> None:
        self.upstream = upstream
        self.host, self.port = LOOPBACK, 0
        self._make_tap = tap or _Transparent
        self._links: set[Link] = set()
        self._accepts = True
        self._blackhole = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._server = self._call(self._listen())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening, and reset every connection. Closing twice does nothing."""
        if self._loop.is_closed():
            return
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def links(self) -> list[Link]:
        """The connections that are open now."""
        return [] if self._loop.is_closed() else self._call(self._list())

    def cut_all(self) -> None:
        """Reset every connection; new ones are accepted."""
        for link in self.links:
            link.cut()

    def refuse(self) -> None:
        """Reset every connection, and each new one as soon as it is there: the network to the server is gone, and says so."""
        self._accepts = False
        self.cut_all()

    def blackhole(self) -> None:
        """Turn every connection into a black hole, and each new one: the network is gone without a word."""
        self._blackhole = True
        for link in self.links:
            link.blackhole()

    def heal(self) -> None:
        """Let new connections through again, and release what was held. What fell into a black hole stays lost."""
        self._accepts, self._blackhole = True, False
        for link in self.links:
            link.release()
            link.throttle(None)

    def _call(self, part: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(part, self._loop).result()

    async def _listen(self) -> asyncio.Server:
        server = await asyncio.start_server(self._accept, self.host, 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _list(self) -> list[Link]:
        return list(self._links)

    async def _end(self) -> None:
        self._server.close()
        self._accepts = False
        for link in self._links:
            link.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the loop closes the sockets in its next round

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "asyncio runs this in a task"
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # the proxy is being closed
        finally:
            close(writer, reset=True)
            self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._accepts:
            return
        if self._blackhole:
            with suppress(OSError):
                while await reader.read(_CHUNK_BYTES):
                    pass
            return
        try:
            server = await self._connect()
        except OSError:
            return  # the server is down
        link = Link(self._loop, self._make_tap)
        self._links.add(link)
        try:
            await link.run((reader, writer), server)
        finally:
            self._links.discard(link)

    async def _connect(self) -> _Pair:
        if isinstance(self.upstream, Path):
            return await asyncio.open_unix_connection(str(self.upstream))
        return await asyncio.open_connection(*self.upstream)


class _Transparent:
    """Lets everything pass."""

    def __call__(self, link: Link, direction: Direction, data: bytes) -> bytes:
        del link, direction
        return data


class CutAtByte:
    """Cuts, once armed, the link that a chosen byte goes over: `Proxy(upstream, lambda: cutter)`.

    One is shared by all links of a proxy, and counts over all of them.
    """

    def __init__(self) -> None:
        self._direction: Direction | None = None
        self._left = 0

    def arm(self, direction: Direction, count: int) -> None:
        """Cut after so many bytes more in one direction; 0 lets none pass."""
        self._left, self._direction = count, direction

    def disarm(self) -> None:
        """Let everything pass."""
        self._direction = None

    def __call__(self, link: Link, direction: Direction, data: bytes) -> bytes:
        """Return the bytes up to the chosen one."""
        if direction is not self._direction:
            return data
        passing, self._left = data[: self._left], self._left - len(data)
        if self._left < 0:
            self.disarm()
            link.cut()
        return passing


def close(writer: asyncio.StreamWriter, *, reset: bool = False) -> None:
    """Close a connection; a reset drops what was not delivered yet."""
    sock: socket.socket | None = writer.get_extra_info("socket")
    if reset:
        if sock is not None and sock.family != socket.AF_UNIX:
            with suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        writer.transport.abort()
    writer.close()

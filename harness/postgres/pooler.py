"""A tiny stand-in for PgBouncer: it pools sessions or transactions, as far as a gate can tell the difference.

Like PgBouncer, it tells each client a process id and a cancel key of its own making, and gives the session that became free last
to whoever comes next. It knows no COPY, no password and no cancel request. It listens on 127.0.0.1 only.
"""

from __future__ import annotations

import asyncio
import secrets
import struct
import threading
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.postgres.wire import Message, Messages
from harness.proxy import LOOPBACK, Direction, close

_CHUNK_BYTES = 65_536
_SSL_REQUEST, _GSS_REQUEST = 80877103, 80877104
_AUTHENTICATED = b"R" + struct.pack("!II", 8, 0)
_READY = b"Z" + struct.pack("!I", 5) + b"I"
_ENDS_A_BATCH = (b"Q", b"S")


class Pooling(StrEnum):
    """For how long a client keeps a session, as PgBouncer's pool_mode says it."""

    SESSION = "session"
    TRANSACTION = "transaction"


class _End:
    """One side of a connection, message by message."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: Direction) -> None:
        self.writer = writer
        self._reader, self._direction = reader, direction
        self._messages, self._waiting = Messages(), list[Message]()

    async def next(self) -> Message:
        """Return the next message.

        Raises:
            EOFError: the other side has ended.
        """
        while not self._waiting:
            data = await self._reader.read(_CHUNK_BYTES)
            if not data:
                raise EOFError
            self._waiting += self._messages.feed(self._direction, data)
        return self._waiting.pop(0)

    def close(self) -> None:
        close(self.writer, reset=True)


class Pooler:
    """Listens at a free port of 127.0.0.1 until it is closed.

    Args:
        upstream: the server's Unix socket.
        pooling: for how long a client keeps a session.
    """

    def __init__(self, upstream: Path, pooling: Pooling) -> None:
        self.host, self.port = LOOPBACK, 0
        self._upstream, self._pooling = upstream, pooling
        self._free: list[_End] = []
        self._parameters = b""
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="pooler", daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End every connection, to clients and to the server."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> asyncio.Server:
        server = await asyncio.start_server(self._accept, self.host, 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _end(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for session in self._free:
            session.close()
        await asyncio.sleep(0)  # the loop closes the sockets in its next round

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "asyncio runs this in a task"
        self._tasks.add(task)
        try:
            with suppress(EOFError, OSError, asyncio.CancelledError):
                await self._serve(_End(reader, writer, Direction.TO_SERVER))
        finally:
            close(writer)
            self._tasks.discard(task)

    async def _serve(self, client: _End) -> None:
        start = await self._started(client)
        session: _End | None = await self._take(start)
        idle = True
        try:
            client.writer.write(_AUTHENTICATED + self._parameters + _invented_key() + _READY)
            while True:
                if session is not None and idle and self._pooling is Pooling.TRANSACTION:
                    self._free.append(session)
                    session = None
                batch = await self._batch(client)
                session = session or await self._take(start)
                idle = await self._carry_out(batch, session, client)
        finally:
            if session is not None:
                session.close()

    async def _take(self, start: bytes) -> _End:
        """Return the session that became free last, or a new one."""
        if self._free:
            return self._free.pop()
        session = _End(*await asyncio.open_unix_connection(str(self._upstream)), Direction.TO_CLIENT)
        session.writer.write(start)
        parameters = b""
        while (message := await session.next()).kind != b"Z":
            parameters += message.raw if message.kind == b"S" else b""
        self._parameters = parameters
        return session

    async def _started(self, client: _End) -> bytes:
        """Return the client's start-up message."""
        while (message := await client.next()).number in (_SSL_REQUEST, _GSS_REQUEST):
            client.writer.write(b"N")
        return message.raw

    async def _batch(self, client: _End) -> bytes:
        batch = b""
        while True:
            message = await client.next()
            if message.kind == b"X":
                raise EOFError
            batch += message.raw
            if message.kind in _ENDS_A_BATCH:
                return batch

    async def _carry_out(self, batch: bytes, session: _End, client: _End) -> bool:
        """Have a batch carried out; return whether no transaction is open after it."""
        session.writer.write(batch)
        while True:
            message = await session.next()
            client.writer.write(message.raw)
            if message.kind == b"Z":
                await client.writer.drain()
                return message.body == b"I"


def _invented_key() -> bytes:
    """Return a BackendKeyData that names no process of the server: clients of one session could cancel each other's work."""
    return b"K" + struct.pack("!III", 12, 2**30 + secrets.randbelow(2**30), secrets.randbelow(2**31))

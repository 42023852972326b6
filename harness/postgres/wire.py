"""PostgreSQL's protocol, as far as a proxy has to follow it: messages, and which statement is under way.

postgresql.org/docs/current/protocol-message-formats.html has the formats.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from harness.proxy import Direction, Link

_LENGTH_BYTES = 4
_ENCRYPTION_REQUESTS = {80877103, 80877104}
"""SSLRequest and GSSENCRequest; the server answers each with one byte."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message, as it went over the line.

    Args:
        kind: its type byte; empty for a start-up message, and for the one-byte answer to a request for encryption.
        raw: all of it.
    """

    kind: bytes
    raw: bytes

    @property
    def body(self) -> bytes:
        """What follows its type and length."""
        return self.raw[len(self.kind) + _LENGTH_BYTES :]

    @property
    def number(self) -> int:
        """The first number of its body: a start-up message's code."""
        return int(struct.unpack("!I", self.body[:4])[0])


class Messages:
    """Cuts one connection's bytes into messages; what is not whole yet is kept."""

    def __init__(self) -> None:
        self._buffers = dict.fromkeys(Direction, b"")
        self._starting = True
        self._short_answers = 0

    def feed(self, direction: Direction, data: bytes) -> list[Message]:
        """Return the messages that these bytes complete."""
        self._buffers[direction] += data
        messages: list[Message] = []
        while (message := self._next(direction)) is not None:
            messages.append(message)
        return messages

    def _next(self, direction: Direction) -> Message | None:
        kind = b"" if direction is Direction.TO_SERVER and self._starting else self._buffers[direction][:1]
        if direction is Direction.TO_CLIENT and self._short_answers and kind:
            self._short_answers -= 1
            return self._take(direction, b"", 1)
        head = self._buffers[direction][len(kind) : len(kind) + _LENGTH_BYTES]
        if len(head) < _LENGTH_BYTES:
            return None
        message = self._take(direction, kind, len(kind) + int(struct.unpack("!I", head)[0]))
        if message is not None and not kind:
            self._note_start(message)
        return message

    def _take(self, direction: Direction, kind: bytes, size: int) -> Message | None:
        whole = self._buffers[direction]
        if len(whole) < size:
            return None
        self._buffers[direction] = whole[size:]
        return Message(kind, whole[:size])

    def _note_start(self, message: Message) -> None:
        if message.number in _ENCRYPTION_REQUESTS:
            self._short_answers += 1
        else:
            self._starting = False


class Moment(StrEnum):
    """When, in the life of a statement."""

    REQUEST = "before the server has it"
    MID_REPLY = "in the middle of the server's answer"
    REPLY = "after the server did it, before its answer gets back"


@dataclass
class Trap:
    """What happens at one statement, once."""

    text: bytes
    moment: Moment
    act: Callable[[Link], None]
    nth: int
    sprung: threading.Event


class Traps:
    """Waits for statements on all links of a proxy: `Proxy(upstream, traps.tap)`."""

    def __init__(self) -> None:
        self._armed: list[Trap] = []

    def set(self, text: str, moment: Moment, act: Callable[[Link], None] = Link.cut, nth: int = 1) -> threading.Event:
        """Act at the n-th statement, from now on, that holds a text. Returns what is set when it has happened.

        Args:
            text: part of the statement, such as the function that it calls.
            moment: when. At REQUEST, the statement's messages are dropped if the link was cut.
            act: what to do, on the proxy's own thread; by default the link is cut.
            nth: at which.
        """
        trap = Trap(text.encode(), moment, act, nth, threading.Event())
        self._armed.append(trap)
        return trap.sprung

    def clear(self) -> None:
        """Forget all that have not been sprung."""
        self._armed.clear()

    def tap(self) -> _Watch:
        """Return what watches one link."""
        return _Watch(self)

    def take(self, statement: bytes) -> Trap | None:
        """Return the trap that a statement has come to; it is not there any more for others."""
        for trap in self._armed:
            if trap.text in statement:
                trap.nth -= 1
                if trap.nth == 0:
                    self._armed.remove(trap)
                    return trap
        return None


class _Watch:
    """Follows one link."""

    def __init__(self, traps: Traps) -> None:
        self._traps = traps
        self._messages = Messages()
        self._statements: dict[bytes, bytes] = {}
        self._trap: Trap | None = None
        self._kept: list[bytes] = []

    def __call__(self, link: Link, direction: Direction, data: bytes) -> bytes:
        """Let whole messages pass."""
        step = self._request if direction is Direction.TO_SERVER else self._answer
        return b"".join(step(link, message) for message in self._messages.feed(direction, data))

    def _request(self, link: Link, message: Message) -> bytes:
        statement = self._statement(message)
        trap = self._traps.take(statement) if statement is not None else None
        if trap is not None and trap.moment is Moment.REQUEST:
            trap.act(link)
            trap.sprung.set()
            return b"" if link.is_cut else message.raw
        if trap is not None:
            self._trap = trap
        return b"" if link.is_cut else message.raw

    def _statement(self, message: Message) -> bytes | None:
        """Return the text of the statement that a message carries out."""
        match message.kind:
            case b"Q":
                return message.body
            case b"P":
                name, text, *_ = message.body.split(b"\0")
                self._statements[name] = text
            case b"B":
                _, name, *_ = message.body.split(b"\0")
                return self._statements.get(name)
        return None

    def _answer(self, link: Link, message: Message) -> bytes:
        trap = self._trap
        if trap is None:
            return message.raw
        self._kept.append(message.raw)
        if message.kind != b"Z":  # ReadyForQuery: a statement that commits by itself is committed
            return b""
        answer, self._kept, self._trap = b"".join(self._kept), [], None
        trap.act(link)
        trap.sprung.set()
        if not link.is_cut:
            return answer
        return answer[: len(answer) // 2] if trap.moment is Moment.MID_REPLY else b""

"""Where a monitor reads a log: the files that it publishes, in a folder or over HTTP, or the journal itself."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Protocol

from interlock.errors import InvalidConfiguration, JournalUnavailable, MalformedEvidence
from interlock.evidence.notes import MAX_NOTE_BYTES
from interlock.evidence.tiles import MAX_ENTRY_BYTES, TILE_WIDTH, Tile, decode_bundle
from interlock.witness.exchange import exchange

MAX_FILE_BYTES = TILE_WIDTH * (MAX_ENTRY_BYTES + 2)
_TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a log.

    Args:
        record: the record's bytes.
        state: the event's state, where it may be seen and was not erased.
    """

    record: bytes
    state: bytes | None = None


class Source(Protocol):
    """Gives what a log says. Nothing of it is taken on trust."""

    @property
    def shows_states(self) -> bool:
        """Whether entries come with their states, where those were not erased."""
        ...

    def checkpoint(self) -> bytes | None:
        """Return the log's latest signed checkpoint; None where there is none.

        Raises:
            JournalUnavailable: it can't be read.
            MalformedEvidence: what is there is none.
        """
        ...

    def root(self, size: int) -> bytes | None:
        """Return the root over the first so many leaves as the source holds them now; None where it does not say.

        Raises:
            JournalUnavailable: they can't be read.
            MalformedEvidence: they are not all there.
        """
        ...

    def entries(self, start: int, end: int) -> Iterator[Entry]:
        """Yield the entries from an index up to another one, in order.

        Args:
            start: the first index, from 0.
            end: the index behind the last.

        Raises:
            JournalUnavailable: they can't be read.
            MalformedEvidence: what is there is not what a log publishes.
        """
        ...


class PublishedLog:
    """A log as files (c2sp.org/tlog-tiles): `checkpoint`, and the bundles of entries.

    Args:
        read: gives a file by its path below the log's prefix; None where there is none.
    """

    shows_states = False

    def __init__(self, read: Callable[[str], bytes | None]) -> None:
        self._read = read

    def checkpoint(self) -> bytes | None:
        """Return the log's latest signed checkpoint; None where it publishes none."""
        return self._read("checkpoint")

    def root(self, size: int) -> bytes | None:
        """Say nothing: the entries that were read before are not read again."""
        del size
        return None

    def entries(self, start: int, end: int) -> Iterator[Entry]:
        """Yield the entries from an index up to another one."""
        for place in range(start // TILE_WIDTH, -(-end // TILE_WIDTH)):
            first = place * TILE_WIDTH
            records = self._bundle(Tile(None, place, min(TILE_WIDTH, end - first)))
            yield from map(Entry, records[max(0, start - first) : end - first])

    def _bundle(self, bundle: Tile) -> tuple[bytes, ...]:
        data = self._read(bundle.path)
        if data is not None:
            return decode_bundle(bundle, data)
        whole = Tile(None, bundle.index)  # a log may drop a partial bundle once there is the whole one
        return decode_bundle(whole, self._file(whole.path))

    def _file(self, path: str) -> bytes:
        data = self._read(path)
        if data is None:
            raise JournalUnavailable(f"the log does not publish {path}; nothing was checked")
        return data


def folder(path: Path) -> PublishedLog:
    """Return a log that is published in a folder.

    Raises:
        InvalidConfiguration: there is no such folder.
    """
    if not path.is_dir():
        raise InvalidConfiguration(f"there is no folder {path}; nothing was checked")

    def read(name: str) -> bytes | None:
        try:
            data = (path / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise JournalUnavailable(f"{name} of the log can't be read: {error}; nothing was checked") from error
        return _bounded(name, data)

    return PublishedLog(read)


def website(url: str) -> PublishedLog:
    """Return a log that is published by a web server.

    Args:
        url: the log's prefix, `http://…` or `https://…`.
    """

    def read(name: str) -> bytes | None:
        try:
            answer = exchange("GET", f"{url.rstrip('/')}/{name}", timeout_s=_TIMEOUT_S, max_bytes=MAX_FILE_BYTES)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise JournalUnavailable(f"{name} of the log can't be read: {error}; nothing was checked") from error
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        if answer.status != HTTPStatus.OK:
            raise JournalUnavailable(f"{name} of the log can't be read: HTTP {answer.status}; nothing was checked")
        return _bounded(name, answer.body)

    return PublishedLog(read)


def _bounded(name: str, data: bytes) -> bytes:
    limit = MAX_NOTE_BYTES if name == "checkpoint" else MAX_FILE_BYTES
    if len(data) > limit:
        raise MalformedEvidence(f"{name} of the log has {len(data)} bytes; more than {limit} are not read")
    return data

"""A log that a monitor reads straight from the journal, with the states: for whoever may read the database."""

from __future__ import annotations

from collections.abc import Iterator

from interlock.errors import JournalCorrupt, MalformedEvidence
from interlock.evidence.merkle import Frontier
from interlock.infrastructure.journal import Journal
from interlock.monitor.sources import Entry
from interlock.projections.log.tree import TransparencyLog, with_records

PAGE = 1000


class JournalSource:
    """Reads a journal; nothing of it is taken on trust, and nothing is written.

    Args:
        journal: the journal.
    """

    shows_states = True

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._log = TransparencyLog(journal)

    def checkpoint(self) -> bytes | None:
        """Return the latest checkpoint that the database holds; None where it holds none.

        Raises:
            JournalUnavailable: it can't be read.
            MalformedEvidence: what is there is none.
        """
        try:
            note = self._log.latest()
        except JournalCorrupt as error:
            raise MalformedEvidence(str(error)) from error
        return None if note is None else note.serialize()

    def root(self, size: int) -> bytes | None:
        """Return the root over the first so many leaf hashes as the rows have them now.

        Raises:
            JournalUnavailable: they can't be read.
            MalformedEvidence: they are not all there.
        """
        frontier = Frontier()
        try:
            while frontier.size < size:
                leaves = self._log.leaf_hashes(frontier.size, min(PAGE, size - frontier.size))
                if not leaves:
                    break
                frontier.extend(leaves)
        except JournalCorrupt as error:
            raise MalformedEvidence(str(error)) from error
        if frontier.size != size:
            raise MalformedEvidence(f"the journal holds {frontier.size} of {size} entries")
        return frontier.root()

    def entries(self, start: int, end: int) -> Iterator[Entry]:
        """Yield the entries from an index up to another one, made again from the rows.

        Raises:
            JournalUnavailable: they can't be read.
            MalformedEvidence: a row is missing, moved, or holds what no event does.
        """
        while start < end:
            rows = self._journal.rows(after=start, limit=min(PAGE, end - start))
            try:
                made = with_records(self._journal.log_id, self._log.store, rows, start)
            except JournalCorrupt as error:
                raise MalformedEvidence(str(error)) from error
            if not made:
                return
            for row, record in made:
                yield Entry(record, row.state if isinstance(row.state, bytes) else None)
            start += len(made)

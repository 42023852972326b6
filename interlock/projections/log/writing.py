"""Signing the log. Whoever signs has recomputed every new record, and goes by a mark outside the database."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Protocol

from interlock.domain.log import JournalLog
from interlock.domain.records import leaf_hash, state_digest
from interlock.errors import EpochNeeded, EvidenceError, InvalidConfiguration, JournalCorrupt, JournalUnavailable
from interlock.evidence.checkpoints import Checkpoint, Origin
from interlock.evidence.log_store import StoredCheckpoint, TreeNode
from interlock.evidence.merkle import Frontier
from interlock.evidence.notes import NoteSignature, SignedNote, verify_note
from interlock.evidence.signing import verifier_of
from interlock.evidence.tiles import TILE_HEIGHT, decode_tile, grown_tiles
from interlock.evidence.vkeys import VerifierKey
from interlock.projections.log.rotations import replaced_by, trusted_through
from interlock.projections.log.tree import LoggedJournal, TransparencyLog, with_records
from interlock.projections.verification import LogRow

_LOG = logging.getLogger("interlock")

PAGE = 2048
_POSITIONS_AT_ONCE = 1000
_AFTER_RESTORE = (
    "nothing was signed. If the journal was restored from a backup on purpose, run `interlock log new-epoch --after-restore`; "
    "otherwise somebody changed it: keep the mark and the database as they are, and find out who"
)


class LogSigner(Protocol):
    """A key of the log. It is one key for all epochs, and signs under the name of the present one."""

    @property
    def identity(self) -> str:
        """Who the log is, whatever the epoch: the origin without its number."""
        ...

    def key_for(self, origin: str) -> VerifierKey:
        """Return the public half under an origin's name."""
        ...

    def sign(self, origin: str, text: str) -> NoteSignature:
        """Sign the text of a checkpoint under an origin's name."""
        ...


class Mark(Protocol):
    """The last checkpoint that was signed here, kept where who can write to the database can't."""

    def read(self) -> SignedNote | None:
        """Return it; None before the first."""
        ...

    def witnessed(self) -> SignedNote | None:
        """Return the last one that witnesses had cosigned; None before the first."""
        ...

    def raise_to(self, note: SignedNote, *, after: SignedNote | None) -> None:
        """Put a later one in its place, durably, before this returns; where it is still the one that was read."""
        ...


class SignedJournal(LoggedJournal, Protocol):
    """What signing asks of a journal."""

    def sequence(self, at_most: int) -> int:
        """Give events their positions; return how many."""
        ...

    def append_log(self, log: JournalLog) -> bool:
        """Write the log's own pending events."""
        ...


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> datetime:
        """Return the time, in UTC."""
        ...


class LogWriter:
    """Signs checkpoints of one journal.

    Two of them do no harm: both sign only what continues the mark and the last checkpoint, and one of them finds that the other
    was faster.

    Args:
        journal: the journal.
        signers: the log's keys, the present one first; several sign side by side while one takes the place of another.
        mark: what was signed last.
        clock: the journal's clock.
    """

    def __init__(self, journal: SignedJournal, signers: Sequence[LogSigner], mark: Mark, clock: Clock) -> None:
        if not signers or len({signer.identity for signer in signers}) != 1:
            raise InvalidConfiguration("a log is signed by keys of one name; nothing was signed")
        self._journal, self._signers, self._mark, self._clock = journal, signers, mark, clock
        self.tree = TransparencyLog(journal)

    @property
    def identity(self) -> str:
        """Who the log is."""
        return self._signers[0].identity

    def keys_for(self, origin: str) -> tuple[VerifierKey, ...]:
        """Return the public keys under an origin's name."""
        return tuple(signer.key_for(origin) for signer in self._signers)

    def waiting(self) -> int:
        """Give events their positions, and return how many are under no checkpoint."""
        while self._journal.sequence(_POSITIONS_AT_ONCE) == _POSITIONS_AT_ONCE:
            pass
        last = self._last()
        return self.tree.size() - (last.checkpoint.size if last else 0)

    def checkpoint(self) -> SignedNote | None:
        """Sign what was added since the last checkpoint.

        Returns:
            The checkpoint; None where nothing was added, or another leader was faster.

        Raises:
            EpochNeeded: the journal does not continue what was signed.
            JournalCorrupt: an event is not what was written.
            InvalidConfiguration: the log is signed by other keys.
            JournalUnavailable: another process signed at the same moment; it can be tried again.
        """
        log = self._opened()
        self.waiting()
        marked = self._mark.read()
        last = self._trusted(log, self._last(), marked)
        size = self.tree.size()
        if size == (last.checkpoint.size if last else 0):
            return None
        return self._sign(log, last, size, marked)

    def start_epoch(self) -> SignedNote:
        """Begin a new epoch on what the database holds, after a restore, and sign its first checkpoint.

        Raises:
            InvalidConfiguration: there is nothing that a new epoch could follow on.
            JournalCorrupt: an event is not what was written.
            JournalUnavailable: the journal can't be written.
        """
        log, marked = self._journal.find_log(), self._mark.read()
        if log is None and marked is None:
            raise InvalidConfiguration("the log was never signed: it needs no new epoch, and begins with its first checkpoint")
        before = Origin.parse(Checkpoint.parse(marked.text).origin).epoch if marked else 0
        log = log or JournalLog.open(self.identity, self._clock.now())
        self._start(log, max(before, log.epoch) + 1, self._mark.witnessed() or marked)
        self.waiting()
        note = self._sign(log, self._last(), self.tree.size(), marked, anew=True)
        if note is None:
            raise EpochNeeded("another process signed the log meanwhile; stop it, and run this again")
        return note

    def accept_epoch(self) -> SignedNote:
        """Take over the epoch that was begun on another machine: this machine's mark is that of the one before.

        Raises:
            EpochNeeded: the journal's last checkpoint is not of its present epoch, or not signed by this key.
        """
        log, last, marked = self._journal.find_log(), self._last(), self._mark.read()
        if log is None or last is None or last.checkpoint.origin != log.origin:
            raise EpochNeeded("the journal holds no checkpoint of its present epoch; nothing was changed")
        self._require_signed(log, last)
        self._require_root(last.checkpoint, "the journal's last checkpoint")
        self._mark.raise_to(last.note, after=marked)
        return last.note

    def _opened(self) -> JournalLog:
        """Return the log, and begin it where nobody has."""
        log = self._journal.find_log()
        if log is None:
            if self._mark.read() is not None or self._last() is not None:
                raise EpochNeeded(f"the journal has no log, and checkpoints of one were signed: {_AFTER_RESTORE}")
            log = JournalLog.open(self.identity, self._clock.now())
            self._start(log, 1, None)
        if log.identity != self.identity:
            raise InvalidConfiguration(
                f"this journal's log is {log.identity}, and the key is for {self.identity}; nothing was signed. Name that log's"
            )
        return log

    def _start(self, log: JournalLog, epoch: int, previous: SignedNote | None) -> None:
        origin = str(Origin(self.identity, epoch))
        vkey = str(self._signers[0].key_for(origin))
        log.start_epoch(epoch, origin, vkey, previous.serialize().decode() if previous else None, self._clock.now())
        if not self._journal.append_log(log):
            raise JournalUnavailable(
                "another process wrote to the log at the same moment; nothing was signed, and it is tried again"
            )

    def _trusted(self, log: JournalLog, last: StoredCheckpoint | None, marked: SignedNote | None) -> StoredCheckpoint | None:
        """Return the last checkpoint, once it is known that the journal continues it and the mark.

        A mark that is ahead of the last checkpoint, and that the journal's events lead to, is what a crash between the two
        leaves: its row is written now.
        """
        if last is not None and last.checkpoint.origin == log.origin:
            self._require_signed(log, last)
            self._require_root(last.checkpoint, "the journal's last checkpoint")
        if marked is None:
            if last is not None:
                _LOG.warning("the log has no high-water mark here, and takes the journal's own word for its last checkpoint")
            return last
        mark = Checkpoint.parse(marked.text)
        if mark.origin != log.origin:
            raise EpochNeeded(
                f"the journal's log is {log.origin}, and the last checkpoint that was signed here is of {mark.origin}: "
                f"{_AFTER_RESTORE}. If the epoch was begun on another machine, run `interlock log new-epoch --accept`"
            )
        if last is None or mark != last.checkpoint:
            self._require_root(mark, "what was signed here last")
        if last is None or last.checkpoint.size < mark.size:
            return self._written_again(last, marked, mark)
        return last

    def _require_root(self, checkpoint: Checkpoint, what: str) -> None:
        size = self.tree.size()
        if checkpoint.size > size:
            raise EpochNeeded(f"{what} covers {checkpoint.size} events, and the journal holds {size}: {_AFTER_RESTORE}")
        if self.tree.root(checkpoint.size) != checkpoint.root:
            raise EpochNeeded(f"{what} covers {checkpoint.size} other events than the journal holds: {_AFTER_RESTORE}")

    def _require_signed(self, log: JournalLog, last: StoredCheckpoint) -> None:
        ours = [str(signer.key_for(log.origin)) for signer in self._signers]
        if _is_signed(last, log, trusted_through(self._journal.log_id, ours, log.rotations)):
            return
        if _is_signed(last, log, replaced_by(self._journal.log_id, ours, log.rotations)):
            raise InvalidConfiguration(
                f"another key took the place of the one that was given, and signed the last checkpoint ({last.checkpoint.size} "
                "events); nothing was signed. Give the new key, and this one beside it (`--old-key`) for as long as both sign"
            )
        raise EpochNeeded(
            f"the journal's last checkpoint, of {last.checkpoint.size} events, was not signed by this log's key: {_AFTER_RESTORE}"
        )

    def _written_again(self, last: StoredCheckpoint | None, marked: SignedNote, mark: Checkpoint) -> StoredCheckpoint:
        stored = StoredCheckpoint(mark, _own(marked, mark.origin), self._clock.now().isoformat())
        _, nodes = self._grown(last.checkpoint.size if last else 0, mark.size)
        self.tree.store.add_checkpoint(stored, nodes)
        return stored

    def _sign(
        self, log: JournalLog, last: StoredCheckpoint | None, size: int, marked: SignedNote | None, *, anew: bool = False
    ) -> SignedNote | None:
        """Sign the tree of a size: the mark first, and then the row."""
        frontier, nodes = self._grown(last.checkpoint.size if last else 0, size, check_all=anew)
        checkpoint = Checkpoint(log.origin, size, frontier.root())
        signatures = tuple(signer.sign(log.origin, checkpoint.text) for signer in self._present(log))
        note = SignedNote(checkpoint.text, signatures)
        self._mark.raise_to(note, after=marked)
        stored = StoredCheckpoint(checkpoint, signatures, self._clock.now().isoformat())
        return note if self.tree.store.add_checkpoint(stored, nodes) else None

    def _present(self, log: JournalLog) -> list[LogSigner]:
        signers = [signer for signer in self._signers if str(signer.key_for(log.origin)) in log.vkeys]
        if not signers:
            raise InvalidConfiguration(
                f"the key is none of those that sign {log.origin}; nothing was signed. Name the key of this log, or put it in "
                "the other's place with `interlock keys rotate`"
            )
        return signers

    def _grown(self, start: int, size: int, *, check_all: bool = False) -> tuple[Frontier, list[TreeNode]]:
        """Return the tree's right edge at a size, and the nodes that are new, after recomputing every record from its row.

        Args:
            start: the size of the last checkpoint.
            size: that of the next one.
            check_all: recompute everything from the first event on, and keep no node that is there: after a restore.
        """
        if check_all:
            self.tree.store.drop_nodes()
            start = 0
        frontier, nodes = self.tree.frontier(start), list[TreeNode]()
        for leaves in self._checked(start, size):
            if nodes:  # what is in front of these has to be there for them, and is right whoever signs
                self.tree.store.add_nodes(nodes)
            nodes = new_nodes(self.tree, frontier.size, leaves)
            frontier.extend(leaves)
        if frontier.size != size:
            raise JournalCorrupt(f"the journal holds {frontier.size} events, and not {size}; nothing was signed")
        return frontier, nodes

    def _checked(self, start: int, size: int) -> Iterator[list[bytes]]:
        """Yield the leaf hashes of new events, page by page. A leader that signed an edited one would launder it."""
        while start < size:
            rows = self._journal.rows(after=start, limit=min(PAGE, size - start))
            if not rows:
                return
            yield [_checked_leaf(row, entry) for row, entry in with_records(self._journal.log_id, self.tree.store, rows, start)]
            start += len(rows)

    def _last(self) -> StoredCheckpoint | None:
        return self.tree.store.last_checkpoint()


def rebuild(journal: SignedJournal) -> int:
    """Make all nodes again from the leaves, and hold them against the last checkpoint; return how many leaves they are over.

    Raises:
        JournalCorrupt: the leaves do not lead to what was signed.
    """
    tree = TransparencyLog(journal)
    last = tree.store.last_checkpoint()
    size = last.checkpoint.size if last else 0
    tree.store.drop_nodes()
    frontier = Frontier()
    while leaves := tree.leaf_hashes(frontier.size, min(PAGE, size - frontier.size)):
        tree.store.add_nodes(new_nodes(tree, frontier.size, leaves))
        frontier.extend(leaves)
    if last and frontier.root() != last.checkpoint.root:
        raise JournalCorrupt(f"the log's leaves do not lead to its checkpoint of {size} events; run `interlock verify`")
    return size


def new_nodes(tree: TransparencyLog, size: int, leaves: Sequence[bytes]) -> list[TreeNode]:
    """Return the hashes over full tiles that a tree gets when leaves are added.

    Args:
        tree: gives the tiles that are not full yet.
        size: how many leaves it had.
        leaves: the leaf hashes that are added.
    """
    new: list[TreeNode] = []
    for tile, data in grown_tiles(size, leaves, tree.read_tile):
        if tile.level:
            known = size >> TILE_HEIGHT * tile.level
            hashes = enumerate(decode_tile(tile, data), tile.index << TILE_HEIGHT)
            new += [TreeNode(tile.level, index, value) for index, value in hashes if index >= known]
    return new


def _checked_leaf(row: LogRow, entry: bytes) -> bytes:
    state_holds = row.state is None or (type(row.state) is bytes and state_digest(row.state) == row.state_digest)
    if not state_holds or leaf_hash(entry) != row.leaf_hash:
        raise JournalCorrupt(
            f"the event at position {row.position} is not what was written: it was edited, moved or retyped. Nothing was signed; "
            "run `interlock verify`"
        )
    return row.leaf_hash


def _is_signed(last: StoredCheckpoint, log: JournalLog, keys: set[str]) -> bool:
    """Whether one of these keys has signed a checkpoint, and none of them wrongly; only those of the present epoch count."""
    try:
        verify_note(last.note, [verifier_of(VerifierKey.parse(vkey)) for vkey in log.vkeys if vkey in keys])
    except EvidenceError:
        return False
    return True


def _own(note: SignedNote, origin: str) -> tuple[NoteSignature, ...]:
    """Return the log's own lines of a note: a mark may hold those of witnesses too."""
    return tuple(signature for signature in note.signatures if signature.name == origin)

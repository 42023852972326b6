"""One look at a log: is it the one that was seen before, grown, and did each action in it go a legal way?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from interlock.domain.records import leaf_hash
from interlock.errors import EvidenceError, JournalUnavailable, MalformedEvidence
from interlock.evidence.acceptance import accept_checkpoint
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.merkle import Frontier
from interlock.evidence.notes import SignedNote
from interlock.evidence.policies import Policy
from interlock.evidence.records import Record
from interlock.evidence.signing import NoteKey
from interlock.monitor.findings import Finding, FindingKind, Sighting
from interlock.monitor.paths import step
from interlock.monitor.progress import judge
from interlock.monitor.sources import Entry, Source
from interlock.monitor.state import Held, MonitorState

MAX_FINDINGS = 1000


@dataclass(slots=True)
class _Look:
    """What a look has come to so far."""

    frontier: Frontier
    log: str | None
    findings: list[Finding] = field(default_factory=list[Finding])
    entries: int = 0

    def add(self, kind: FindingKind, place: str, words: str) -> None:
        self.findings.append(Finding(kind, place, words))


class Monitor:
    """Watches one log.

    Its cosignature says two things: the checkpoint continues all that this monitor has seen, and it has read every record below
    it, and each action in there followed a path that a gate could have gone.

    Args:
        source: where the log is read.
        policy: the log's keys, and which witnesses count.
        state: what the monitor holds.
        key: what it signs with, of the type of a witness's.
        now_s: the time, in seconds since 1970.
    """

    def __init__(self, source: Source, policy: Policy, state: MonitorState, key: NoteKey, now_s: Callable[[], int]) -> None:
        self._source, self._policy, self._state, self._key, self._now_s = source, policy, state, key, now_s

    def look(self) -> Sighting:
        """Look at the log once. What was held stays held unless there is nothing wrong.

        Raises:
            JournalUnavailable: the log or the monitor's own state can't be read: nothing is known then, neither good nor bad.
        """
        # In one transaction with what is held: another monitor on this state may take it further meanwhile, and the entries after
        # what was held before would then stand twice in its paths.
        with self._state.looking():
            return self._look()

    def _look(self) -> Sighting:
        held = self._state.held()
        try:
            data = self._source.checkpoint()
        except MalformedEvidence as error:
            return self._refused(held, None, b"", [Finding(FindingKind.CHECKPOINT, "checkpoint", str(error))])
        if data is None:
            return self._nothing_there(held)
        try:
            note = SignedNote.parse(data)
            checkpoint = accept_checkpoint(note, self._policy).checkpoint
        except EvidenceError as error:
            return self._refused(held, None, data, [Finding(FindingKind.CHECKPOINT, "checkpoint", str(error))])
        finding = self._of_another(checkpoint) or _step_back(held.checkpoint, checkpoint) or self._changed_behind(held.checkpoint)
        if finding is not None:
            return self._refused(held, checkpoint, data, [finding])
        return self._read_up_to(held, note, checkpoint)

    def _nothing_there(self, held: Held) -> Sighting:
        if held.checkpoint is None:
            raise JournalUnavailable("the log has no checkpoint yet; nothing was checked")
        words = f"it has no checkpoint any more, and was seen with {held.checkpoint.size} entries"
        return self._refused(held, None, b"", [Finding(FindingKind.ROLLED_BACK, "checkpoint", words)])

    def _of_another(self, checkpoint: Checkpoint) -> Finding | None:
        """Say whether it is the checkpoint of a log that the policy names too, and that is not the one that is watched."""
        if checkpoint.origin == self._state.origin:
            return None
        words = f"it is of {checkpoint.origin}, and the log that is watched is {self._state.origin}"
        return Finding(FindingKind.CHECKPOINT, "checkpoint", words)

    def _changed_behind(self, held: Checkpoint | None) -> Finding | None:
        """Say whether what was read before is not there any more, where the source can tell."""
        if held is None:
            return None
        try:
            root = self._source.root(held.size)
        except MalformedEvidence as error:
            return Finding(FindingKind.REWRITTEN, f"size {held.size}", str(error))
        if root is None or root == held.root:
            return None
        return Finding(FindingKind.REWRITTEN, f"size {held.size}", "the entries up to there are not those that were seen")

    def _read_up_to(self, held: Held, note: SignedNote, checkpoint: Checkpoint) -> Sighting:
        look = _Look(held.frontier, held.log)
        size = look.frontier.size
        try:
            for index, entry in enumerate(self._source.entries(size, checkpoint.size), start=size):
                self._take(look, index, entry)
        except MalformedEvidence as error:
            look.add(FindingKind.RECORD, f"after index {size + look.entries - 1}", str(error))
        if look.frontier.size != checkpoint.size or look.frontier.root() != checkpoint.root:
            words = f"what was seen up to {size} and the entries after it do not lead to the root that was signed"
            look.findings.insert(0, Finding(FindingKind.REWRITTEN, f"size {checkpoint.size}", words))
        if look.findings:
            return self._refused(held, checkpoint, note.serialize(), look.findings, look.entries)
        return self._accepted(held, note, checkpoint, look)

    def _take(self, look: _Look, index: int, entry: Entry) -> None:
        """Take one entry into the tree, and see whether it could have been written after all those before it."""
        leaf = leaf_hash(entry.record)
        look.frontier.append(leaf)
        look.entries += 1
        if len(look.findings) >= MAX_FINDINGS:
            return
        look.findings += self._wrong_with(look, index, entry, leaf)

    def _wrong_with(self, look: _Look, index: int, entry: Entry, leaf: bytes) -> Iterator[Finding]:
        try:
            record = Record.parse(entry.record)
        except MalformedEvidence as error:
            yield Finding(FindingKind.RECORD, f"index {index}", str(error))
            return
        look.log = look.log or record.log
        if record.log != look.log:
            yield Finding(FindingKind.RECORD, f"index {index}", "it is the record of another journal")
        illegal = list(step(self._state, index, record, leaf))
        yield from illegal
        if self._source.shows_states and not illegal:
            place = f"index {index}, event {record.version} of {record.aggregate_id}"
            yield from judge(self._state, place, record, entry.state)

    def _accepted(self, held: Held, note: SignedNote, checkpoint: Checkpoint, look: _Look) -> Sighting:
        open_actions = self._state.open_actions()
        line = None
        if held.checkpoint != checkpoint:
            cosignature = self._key.cosign(checkpoint, at_s=self._now_s())
            line, note = cosignature.line, note.with_signatures(cosignature)
            # Before it is held: after a crash in between it is noted down again, and nothing that is held is missing there.
            self._state.note_down(accepted=note.serialize().decode(), at_s=self._now_s())
            self._state.hold(note, look.frontier, look.log)
        return Sighting(checkpoint.origin, checkpoint.size, checkpoint.size, look.entries, open_actions, (), line)

    def _refused(
        self, held: Held, checkpoint: Checkpoint | None, data: bytes, findings: list[Finding], entries: int = 0
    ) -> Sighting:
        """Note a refusal down, with both signed notes: where they contradict each other, they are proof to anybody."""
        before = None if held.note is None else held.note.serialize().decode()
        first = findings[0]
        self._state.note_down(
            refused=data.decode("utf-8", "replace"), held=before, why=f"{first.kind}: {first.words}", at_s=self._now_s()
        )
        size = checkpoint.size if checkpoint is not None else None
        return Sighting(self._state.origin, size, held.frontier.size, entries, self._state.open_actions(), tuple(findings))


def _step_back(held: Checkpoint | None, checkpoint: Checkpoint) -> Finding | None:
    if held is None:
        return None
    if checkpoint.size < held.size:
        words = f"it has {checkpoint.size} entries, and was seen with {held.size}: it was rolled back, or an old copy is served"
        return Finding(FindingKind.ROLLED_BACK, f"size {checkpoint.size}", words)
    if checkpoint.size == held.size and checkpoint.root != held.root:
        words = "it was seen with another root at this size: there are two histories, and both checkpoints are signed"
        return Finding(FindingKind.REWRITTEN, f"size {checkpoint.size}", words)
    return None

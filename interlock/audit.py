"""The audit: reads the providers again, and holds what they have on their books against what the journal says.

This is the only part that says whether something happened. A verified log says who said what, and that it has not changed since;
whether it is true, the provider's books know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any
from uuid import UUID

from interlock.domain.action import GatedAction, Status
from interlock.domain.answers import CannotTell, Evidence, Settlement
from interlock.domain.books import BookEntry
from interlock.domain.ports import AsyncTarget, Target
from interlock.errors import ActionErased, JournalCorrupt
from interlock.infrastructure.clock import WallDeadline
from interlock.infrastructure.journal import Journal

READ_DEADLINE_S = 60.0
"""How long reading the books about one subject may take; all of an account's, ten times as long."""


class AuditKind(StrEnum):
    """What the provider and the journal do not say alike."""

    MISSING = "missing"
    """The journal says that it happened, and the provider has no such entry."""
    EXTRA_MARKED = "extra_marked"
    """The provider has an entry with a gate's mark, and the journal does not say that this happened."""
    EXTRA_UNMARKED = "extra_unmarked"
    """The provider has an entry that bears no gate's mark: somebody did it past the gate. That may be quite right."""
    LATE_FAILURE = "late_failure"
    """The journal says that it happened, and at the provider it failed or was cancelled later."""
    DISAGREES = "disagrees"
    """The entry is of another amount, currency or subject than the action's effect."""
    OUTDATED = "outdated"
    """The provider is done with what the journal still has as open: `interlock reconcile` brings it up to date."""
    UNREADABLE = "unreadable"
    """The provider's books, or the journal's events, could not be read: nothing is known."""


WRONG = frozenset((AuditKind.MISSING, AuditKind.EXTRA_MARKED, AuditKind.LATE_FAILURE, AuditKind.DISAGREES))
"""What contradicts the journal. The other kinds want a look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinding:
    """One point in which the provider and the journal differ.

    Attributes:
        kind: what kind of difference.
        target: at which target.
        subject: about what, such as a payment.
        reference: the provider's id of the entry; None where there is none.
        action_id: the action's id; None where no action is named.
        key: the action's key, as far as it is known.
        words: what each of them says.
    """

    kind: AuditKind
    target: str
    subject: str
    reference: str | None = None
    action_id: str | None = None
    key: str | None = None
    words: str


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit came to.

    Attributes:
        actions: how many actions were looked at.
        subjects: about how many subjects the books were read.
        entries: how many entries they held.
        findings: where they differ.
        skipped: targets that the journal names and that were not given, with how many actions each has.
    """

    actions: int
    subjects: int
    entries: int
    findings: tuple[AuditFinding, ...]
    skipped: Mapping[str, int]

    @property
    def agrees(self) -> bool:
        """Whether nothing contradicts the journal, and everything could be read."""
        return not self.findings and not self.skipped

    @property
    def contradicted(self) -> bool:
        """Whether the provider contradicts the journal."""
        return any(finding.kind in WRONG for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {"agrees": self.agrees, **asdict(self)}


def audit(journal: Journal, targets: Iterable[Target[Any] | AsyncTarget[Any]], *, everything: bool = False) -> Audit:
    """Hold the providers' books against the journal.

    Args:
        journal: the journal.
        targets: the providers; those that are awaited are, on an event loop of this call's own.
        everything: read all that each provider has, and not only what is about subjects that the journal names: what was done
            past the gate altogether is found only so.

    Raises:
        JournalUnavailable: the journal can't be read.
    """
    # One loop for all: what an awaited target keeps open belongs to the loop that it was opened on.
    with closing(asyncio.Runner()) as loop:
        return _audit(_Work(journal, loop), targets, everything=everything)


def _audit(work: _Work, targets: Iterable[Target[Any] | AsyncTarget[Any]], *, everything: bool) -> Audit:
    by_name = {target.name: target for target in targets}
    for summary in work.journal.all_summaries():
        if summary.target in by_name:
            work.add(summary.action_id, summary.target, summary.subject)
        else:
            work.skipped[summary.target] = work.skipped.get(summary.target, 0) + 1
    for name, target in by_name.items():
        work.compare(name, target, everything=everything)
    return Audit(work.actions, work.subjects, work.entries, tuple(work.findings), work.skipped)


@dataclass(slots=True)
class _Work:
    journal: Journal
    loop: asyncio.Runner
    by_subject: dict[tuple[str, str], list[UUID]] = field(default_factory=dict[tuple[str, str], list[UUID]])
    skipped: dict[str, int] = field(default_factory=dict[str, int])
    findings: list[AuditFinding] = field(default_factory=list[AuditFinding])
    actions: int = 0
    subjects: int = 0
    entries: int = 0

    def add(self, action_id: str, target: str, subject: str) -> None:
        self.actions += 1
        self.by_subject.setdefault((target, subject), []).append(UUID(action_id))

    def compare(self, name: str, target: Target[Any] | AsyncTarget[Any], *, everything: bool) -> None:
        """Compare all that is about one target: subject by subject, or all at once."""
        mine = {subject: ids for (target_name, subject), ids in self.by_subject.items() if target_name == name}
        mine.pop("", None)  # an erased action has no subject any more; its entries bear its mark
        if everything:
            whole = self._books(name, target, None)
            by_subject = {subject: list[BookEntry]() for subject in mine}
            for entry in whole or ():
                by_subject.setdefault(entry.subject, []).append(entry)
            read = {} if whole is None else by_subject
        else:
            read = {subject: books for subject in mine if (books := self._books(name, target, subject)) is not None}
        for subject, entries in read.items():
            self.subjects += 1
            self.entries += len(entries)
            actions = self._load(name, subject, mine.get(subject, []))
            found = list(_Comparison(name, subject, actions, entries, self._standing_of).findings())
            if any(finding.kind is AuditKind.MISSING for finding in found):
                # It may have come about while the books were read: those of a later moment have it, or it is missing.
                found = [finding for finding in found if finding.kind is not AuditKind.MISSING]
                again = self._books(name, target, subject)
                if again is not None:
                    found = list(_Comparison(name, subject, actions, again, self._standing_of).findings())
            self.findings += found

    def _books(self, name: str, target: Target[Any] | AsyncTarget[Any], subject: str | None) -> list[BookEntry] | None:
        deadline = WallDeadline(READ_DEADLINE_S * (10 if subject is None else 1))
        asked = target.books(subject, deadline=deadline)
        books = self.loop.run(asked) if isinstance(asked, Coroutine) else asked
        if isinstance(books, CannotTell):
            self._unreadable(name, subject or "", f"the provider's books can't be read: {books.why}")
            return None
        return list(books.entries)

    def _load(self, name: str, subject: str, ids: list[UUID]) -> list[GatedAction]:
        loaded: list[GatedAction] = []
        for action_id in ids:
            try:
                loaded.append(self.journal.load_action(action_id))
            except (ActionErased, JournalCorrupt) as error:
                self._unreadable(name, subject, str(error), action_id.hex)
        return loaded

    def _unreadable(self, name: str, subject: str, words: str, action_id: str | None = None) -> None:
        finding = AuditFinding(kind=AuditKind.UNREADABLE, target=name, subject=subject, action_id=action_id, words=words)
        self.findings.append(finding)

    def _standing_of(self, mark: str) -> _Standing | None:
        """Return how an action that a mark names stands; None where the journal has no such action."""
        try:
            action = self.journal.load_action(UUID(mark))
        except ActionErased as erased:
            return _Standing(Status(erased.status), erased=True)
        except (JournalCorrupt, ValueError):
            return None
        evidence = _evidence(action)
        return _Standing(action.status, None if evidence is None else evidence.reference)


@dataclass(frozen=True, slots=True)
class _Standing:
    """How an action stands that was not loaded with the subject at hand."""

    status: Status
    reference: str | None = None
    erased: bool = False


@dataclass(frozen=True, slots=True)
class _Comparison:
    """What the journal and the provider say about one subject."""

    target: str
    subject: str
    actions: list[GatedAction]
    entries: list[BookEntry]
    standing_of: Callable[[str], _Standing | None]

    def findings(self) -> Iterator[AuditFinding]:
        told: set[str] = set()
        for action in self.actions:
            if action.status is Status.COMMITTED:
                evidence = _evidence(action)
                entry = self._entry_of(action, evidence)
                told |= {entry.reference} if entry is not None else set()
                yield from self._of_commit(action, evidence, entry)
        for entry in self.entries:
            if entry.reference not in told:
                yield from self._extra(entry)

    def _entry_of(self, action: GatedAction, evidence: Evidence | None) -> BookEntry | None:
        """Return the entry that an action's commit is about; where a person said that it happened, the one with its mark."""
        if evidence is not None:
            return next((entry for entry in self.entries if entry.reference == evidence.reference), None)
        return next((entry for entry in self.entries if entry.action_mark == action.id.hex), None)

    def _of_commit(self, action: GatedAction, evidence: Evidence | None, entry: BookEntry | None) -> Iterator[AuditFinding]:
        said = "that it happened, by a person's word" if evidence is None else evidence.state
        reference = evidence.reference if evidence is not None else entry.reference if entry is not None else None

        def finding(kind: AuditKind, words: str) -> AuditFinding:
            return self._finding(kind, words, reference, action.id.hex, action.key)

        if entry is None:
            yield finding(AuditKind.MISSING, f"the journal says {said}, and the provider has no such entry")
            return
        effect = action.intent.effect
        for what, asked, got in (
            ("amount", effect.amount_minor, entry.amount_minor),
            ("currency", effect.currency, entry.currency),
        ):
            if asked != got:
                yield finding(AuditKind.DISAGREES, f"its {what} is {got} at the provider, and {asked} in the journal")
        recorded = evidence.settlement if evidence is not None else Settlement.FINAL
        if entry.settlement is not recorded:
            late = entry.settlement is Settlement.REVERSED
            kind = AuditKind.LATE_FAILURE if late else AuditKind.OUTDATED
            yield finding(kind, f"the journal says {said}, and the provider {entry.state}")

    def _extra(self, entry: BookEntry) -> Iterator[AuditFinding]:
        """Say what an entry is that no commit about this subject names."""
        amount = "" if entry.amount_minor is None else f" of {entry.amount_minor} {entry.currency}"
        words = f"an entry{amount}, {entry.state}"
        if entry.action_mark is None:
            yield self._finding(AuditKind.EXTRA_UNMARKED, f"{words}, that bears no gate's mark", entry.reference)
            return
        action = next((one for one in self.actions if one.id.hex == entry.action_mark), None)
        standing = _Standing(action.status) if action is not None else self.standing_of(entry.action_mark)
        if standing is not None and standing.erased and standing.status is Status.COMMITTED:
            return  # what it was about is not kept any more, so there is nothing left to compare
        if action is None and standing is not None and standing.reference == entry.reference:
            return  # it began after the journal was read
        kind, of = _kind_of_marked(standing)
        key = action.key if action is not None else None
        yield self._finding(kind, f"{words}, {of}", entry.reference, entry.action_mark, key)

    def _finding(
        self, kind: AuditKind, words: str, reference: str | None, action_id: str | None = None, key: str | None = None
    ) -> AuditFinding:
        return AuditFinding(
            kind=kind,
            target=self.target,
            subject=self.subject,
            reference=reference,
            action_id=action_id,
            key=key,
            words=words,
        )


def _kind_of_marked(standing: _Standing | None) -> tuple[AuditKind, str]:
    """Return what an entry is that bears the mark of an action whose commit, if there is one, names another entry."""
    if standing is None:
        return AuditKind.EXTRA_MARKED, "with the mark of no action of this journal"
    if standing.status in (Status.DISPATCHED, Status.AMBIGUOUS):
        return AuditKind.OUTDATED, f"of an action that is {standing.status} in the journal: recover or reconcile it"
    if standing.status is Status.COMMITTED:
        return AuditKind.EXTRA_MARKED, "of an action that the journal has as COMMITTED by another entry"
    return AuditKind.EXTRA_MARKED, f"of an action that the journal has as {standing.status}"


def _evidence(action: GatedAction) -> Evidence | None:
    ending = action.ending
    return ending.evidence if isinstance(ending, GatedAction.Committed) else None

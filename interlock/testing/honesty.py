"""Whether the gate was told the truth: every answer of the target under test is compared with the provider's ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from interlock.domain.answers import (
    Absent,
    BurnAnswer,
    Burned,
    CannotTell,
    Declined,
    Done,
    Evidence,
    Found,
    InProgress,
    LookupAnswer,
    NotSent,
    SendAnswer,
)
from interlock.domain.profiles import CapabilityProfile
from interlock.testing.failures import LiarReport, TargetLies, WorldLies
from interlock.testing.faults import Call, Heard
from interlock.testing.world import LedgerEntry, ProviderWorld, WorldClock


@dataclass(frozen=True, slots=True)
class Sent:
    """One call to the target's `send`, and what it answered; None where its answer was not heard, or not yet.

    Args:
        action_id: whose it was.
        idempotency_key: under which key.
        at: when, on the world's clock.
        left_s: how many seconds were left until its deadline.
        answer: what the target said.
    """

    action_id: UUID
    idempotency_key: str
    at: datetime
    left_s: float
    answer: SendAnswer | None = None

    @property
    def said_no(self) -> bool:
        """Whether its answer rules out that it was carried out."""
        return isinstance(self.answer, Declined | NotSent)


class Honesty:
    """Keeps what was said, and finds what was not so.

    Args:
        world: whose ledger is compared.
        profile: what the target under test promises.
        clock: the world's.

    Attributes:
        others_act: whether it is somebody else who acts at the provider just now.
    """

    def __init__(self, world: ProviderWorld, profile: CapabilityProfile, clock: WorldClock) -> None:
        self._world = world
        self._clock = clock
        self._profile = profile
        self.sends: list[Sent] = []
        self.heard: list[Heard] = []
        self.forgotten: set[str] = set()
        self.lies: list[LiarReport] = []
        self.others_act = False
        self._burned_at: dict[str, datetime] = {}
        self._ledger: list[LedgerEntry] = []

    # --- what is told

    def sending(self, action_id: UUID, idempotency_key: str, at: datetime, left_s: float) -> None:
        """A send is about to be made."""
        self.sends.append(Sent(action_id, idempotency_key, at, left_s))

    def hear(self, heard: Heard, amount_minor: int | None) -> None:
        """The target under test has answered.

        Args:
            heard: what.
            amount_minor: what the effect has to move, in the minor unit; None where it moves no money.
        """
        self.heard.append(heard)
        self.read_ledger()
        if isinstance(heard.answer, Done | Found):
            self._judge_amount(heard.answer.evidence, amount_minor)
        match heard.call:
            case Call.SEND:
                self._hear_send(heard, heard.answer)
            case Call.LOOKUP:
                self._hear_lookup(heard, heard.answer)
            case Call.BURN:
                self._hear_burn(heard, heard.answer)
            case Call.OBSERVE:
                pass

    def entries_of(self, action_id: UUID) -> list[LedgerEntry]:
        """Return what the ledger has of an action, by its mark or by its keys."""
        keys = {sent.idempotency_key for sent in self.sends if sent.action_id == action_id}
        return [entry for entry in self._ledger if entry.action_id == action_id or entry.idempotency_key in keys]

    def read_ledger(self) -> Sequence[LedgerEntry]:
        """Read the ledger again, and judge what is new in it."""
        now = list(self._world.ledger())
        known = len(self._ledger)
        if now[:known] != self._ledger:
            gone = next(entry for entry, other in zip(self._ledger, [*now, None], strict=False) if entry != other)
            self._world_lies(f"its ledger had {gone.reference}, and has it no more, or another one in its place")
        if len({entry.reference for entry in now}) < len(now):
            self._world_lies("its ledger has two entries of one reference")
        new, self._ledger = now[known:], now
        for entry in new:
            self._judge_entry(entry)
        return now

    def raise_lies(self) -> None:
        """Say what was found, if anything.

        Raises:
            LiarReport: the first of it.
        """
        if self.lies:
            raise self.lies[0]

    def raise_silence(self) -> None:
        """Say that the last question to the target got no answer, where no fault can be the reason.

        Raises:
            TargetLies: it got none.
        """
        last = self.heard[-1] if self.heard else None
        if last is not None and isinstance(last.answer, CannotTell | InProgress):
            raise TargetLies(f"without any fault its {last.call} goes on answering {last.answer}")

    # --- what was answered

    def _judge_amount(self, evidence: Evidence, amount_minor: int | None) -> None:
        """What was asked for is what is in the ledger, or the evidence says that it is not."""
        moved = {entry.amount_minor for entry in self._ledger if entry.reference == evidence.reference} - {None}
        if amount_minor is not None and moved - {amount_minor} and not evidence.disagreements:
            self._target_lies(
                f"its evidence of {evidence.reference} names no disagreement, and {moved.pop()} was moved "
                f"in place of {amount_minor}"
            )

    def _hear_send(self, heard: Heard, answer: object) -> None:
        self._answered(heard)
        entries = self.entries_of(heard.action_id)
        added = heard.entries_after - heard.entries_before
        said = type(answer).__name__
        if added > 0 and heard.left_s <= 0:
            self._target_lies(f"it carried {entries[-1].reference} out after its deadline was over")
        if isinstance(answer, Done) and answer.evidence.reference not in {entry.reference for entry in entries}:
            self._target_lies(
                f"it answered Done with {answer.evidence.reference!r}, and the ledger has no such entry of the action"
            )
        if isinstance(answer, NotSent | Declined) and added > 0:
            self._target_lies(f"it answered {said}, and {entries[-1].reference} is in the ledger")
        if isinstance(answer, Declined) and answer.replayed and any(e.idempotency_key == heard.idempotency_key for e in entries):
            self._target_lies(f"it answered {said}, replayed, and the ledger has an entry under that key")

    def _answered(self, heard: Heard) -> None:
        """Note the answer with its send: the oldest one under that key that has none."""
        for index, sent in enumerate(self.sends):
            mine = (sent.action_id, sent.idempotency_key) == (heard.action_id, heard.idempotency_key)
            if mine and sent.answer is None and isinstance(heard.answer, SendAnswer):
                self.sends[index] = replace(sent, answer=heard.answer)
                return

    def _hear_lookup(self, heard: Heard, answer: LookupAnswer | object) -> None:
        entries = self.entries_of(heard.action_id)
        stale_s = self._profile.lookup_staleness_s or 0.0
        visible = [entry for entry in entries if entry.at <= heard.at - timedelta(seconds=stale_s)]
        if isinstance(answer, Absent) and visible:
            since_s = (heard.at - visible[0].at).total_seconds()
            self._target_lies(
                f"its lookup answered Absent, and {visible[0].reference} is in the ledger since {since_s:g} s "
                f"(it claims to be at most {stale_s:g} s behind)"
            )
        if isinstance(answer, Found) and answer.evidence.reference not in {entry.reference for entry in entries}:
            self._target_lies(f"its lookup found {answer.evidence.reference!r}, which is not in the ledger")

    def _hear_burn(self, heard: Heard, answer: BurnAnswer | object) -> None:
        key = heard.idempotency_key or ""
        if not isinstance(answer, Burned):
            return
        self._burned_at.setdefault(key, heard.at)
        under_it = [entry for entry in self._ledger if entry.idempotency_key == key]
        if under_it and self._in_window(key, heard.at):
            self._target_lies(f"it answered Burned, and {under_it[0].reference} was carried out under that key")

    # --- what is new in the ledger

    def _judge_entry(self, entry: LedgerEntry) -> None:
        if (wrong := misdated(entry, self._clock.now())) is not None:
            self._world_lies(wrong)
            return
        key = entry.idempotency_key
        if key is None:
            return
        sends = [sent for sent in self.sends if sent.idempotency_key == key]
        if not sends:
            self._judge_unknown_key(entry)
            return
        earlier = [other for other in self._ledger if other.idempotency_key == key and other.reference != entry.reference]
        if earlier and self._profile.dedupes and self._in_window(key, entry.at):
            self._target_lies(
                f"it claims that a key is recognised for {self._profile.dedupe_window_s:g} s, and "
                f"{earlier[0].reference} and {entry.reference} were carried out under one key, "
                f"{(entry.at - earlier[0].at).total_seconds():g} s apart"
            )
        if len(earlier) + 1 > len(sends):
            self._target_lies(
                f"its send was called {len(sends)} times under one key, and carried out {len(earlier) + 1} times: "
                f"a client that tries again by itself does what the gate can't see"
            )
        if key in self._burned_at and self._in_window(key, entry.at):
            self._target_lies(f"it claims that keys can be burned, and {entry.reference} was carried out under a burned key")
        if all(sent.said_no for sent in sends):
            said = type(sends[-1].answer).__name__
            self._target_lies(f"it answered {said}, and {entry.reference} was carried out all the same")
        self._judge_lateness(entry, sends)

    def _judge_unknown_key(self, entry: LedgerEntry) -> None:
        """A model that keeps the keys that it is given was rehearsed: what came under another one, the target has sent."""
        if self.others_act or not self.sends:
            self._world_lies(f"its ledger has {entry.reference} under a key that was never sent")
        else:
            self._target_lies(f"{entry.reference} was carried out under a key that its send was not given")

    def _judge_lateness(self, entry: LedgerEntry, sends: list[Sent]) -> None:
        profile = self._profile
        in_time = [sent for sent in sends if sent.left_s > 0]
        if not in_time:
            self._target_lies(f"it was called after its deadline was over, and {entry.reference} was carried out all the same")
            return
        if profile.roll_forward_s is None:
            return
        allowed_s = profile.send_deadline_s + profile.kernel_s + profile.settle_s + profile.roll_forward_s
        if entry.at > max(sent.at for sent in in_time) + timedelta(seconds=allowed_s):
            self._target_lies(
                f"it claims that nothing is carried out more than {allowed_s:g} s after a send; {entry.reference} was"
            )

    def _in_window(self, key: str, at: datetime) -> bool:
        """Whether the provider has promised to know the key still, counted from its first use."""
        if key in self.forgotten or self._profile.dedupe_window_s is None:
            return False
        first_at = min([sent.at for sent in self.sends if sent.idempotency_key == key], default=at)
        return at < first_at + timedelta(seconds=self._profile.dedupe_window_s)

    def _target_lies(self, words: str) -> None:
        self.lies.append(TargetLies(words))

    def _world_lies(self, words: str) -> None:
        self.lies.append(WorldLies(words))


def misdated(entry: LedgerEntry, now: datetime) -> str | None:
    """Return what is wrong with the time of an entry; None where nothing is.

    Args:
        entry: what is in the ledger.
        now: the world's time.
    """
    if entry.at.tzinfo is not None and entry.at <= now:
        return None
    return (
        f"its ledger has {entry.reference} at {entry.at.isoformat()}, and it is {now.isoformat()}: "
        "give entries the time of the clock that the model was made with"
    )

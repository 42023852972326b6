"""Whether the gate was told the truth: every answer of the target under test is compared with the provider's ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from interlock.domain.answers import (
    Absent,
    AlreadyUsed,
    BurnAnswer,
    Burned,
    CannotTell,
    Declined,
    Done,
    Evidence,
    Found,
    InProgress,
    KeyState,
    LookupAnswer,
    NotSent,
    SendAnswer,
    Unknown,
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

    @property
    def closed_its_key(self) -> bool:
        """Whether its answer rules out that anything is carried out under its key."""
        return isinstance(self.answer, Declined) and self.answer.replayed


class Honesty:
    """Keeps what was said, and finds what was not so.

    Args:
        world: whose ledger is compared.
        profile: what the target under test promises.
        clock: the world's.

    Attributes:
        profile: what the target under test promises.
        sends: every call to its `send`.
        heard: every answer of it.
        forgotten: the keys that the provider has lost before their time.
        lies: what was not so.
        others_act: whether it is somebody else who acts at the provider just now.
    """

    def __init__(self, world: ProviderWorld, profile: CapabilityProfile, clock: WorldClock) -> None:
        self._world = world
        self._clock = clock
        self.profile = profile
        self.sends: list[Sent] = []
        self.heard: list[Heard] = []
        self.forgotten: set[str] = set()
        self.lies: list[LiarReport] = []
        self.others_act = False
        self._burned_at: dict[str, datetime] = {}
        self._used: set[str] = set()
        self._ledger = entries_of(world)
        self._read_at = clock.now()

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
        """Read the ledger again, and judge what is new in it. What a fresh world began with is nobody's affair."""
        now = entries_of(self._world)
        known = len(self._ledger)
        if now[:known] != self._ledger:
            gone = next(entry for entry, other in zip(self._ledger, [*now, None], strict=False) if entry != other)
            self._world_lies(f"its ledger had {gone.reference}, and has it no more, or another one in its place")
        if len({entry.reference for entry in now}) < len(now):
            self._world_lies("its ledger has two entries of one reference")
        new, self._ledger = now[known:], now
        for entry in new:
            self._judge_entry(entry)
        self._read_at = self._clock.now()
        return now

    def raise_lies(self) -> None:
        """Say what was found, if anything.

        Raises:
            LiarReport: the first of it.
        """
        if self.lies:
            raise self.lies[0]

    @property
    def silent(self) -> Heard | None:
        """The last question to the target, where it got no answer that a gate could go on with; None where it got one."""
        last = self.heard[-1] if self.heard else None
        return last if last is not None and _says_nothing(last.answer) else None

    @property
    def disagrees(self) -> bool:
        """Whether the last answer was an evidence that differs from the effect by its own word: a person has to look at it."""
        answer = self.heard[-1].answer if self.heard else None
        return isinstance(answer, Done | Found) and bool(answer.evidence.disagreements)

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
        entries, added = self.entries_of(heard.action_id), self._added(heard)
        said = type(answer).__name__
        if added and heard.left_s <= 0:
            self._target_lies(f"it carried {added[-1].reference} out after its deadline was over")
        if isinstance(answer, Done) and answer.evidence.reference not in {entry.reference for entry in entries}:
            self._target_lies(
                f"it answered Done with {answer.evidence.reference!r}, and the ledger has no such entry of the action"
            )
        if isinstance(answer, NotSent | Declined) and added:
            self._target_lies(f"it answered {said}, and {added[-1].reference} is in the ledger")
        if isinstance(answer, Declined) and answer.replayed and any(e.idempotency_key == heard.idempotency_key for e in entries):
            self._target_lies(f"it answered {said}, replayed, and the ledger has an entry under that key")
        if isinstance(answer, Done) and added and heard.idempotency_key in self._used:
            self._target_lies(
                f"its burn answered AlreadyUsed, and a send that was to read what is stored under that key carried "
                f"{added[-1].reference} out"
            )
        if isinstance(answer, Unknown):
            self._judge_key_state(heard, answer.key)

    def _judge_key_state(self, heard: Heard, state: KeyState) -> None:
        """What it says about the key is what can be: one effect goes under it, and nothing else but its burning."""
        burning = any(other.call is Call.BURN and other.idempotency_key == heard.idempotency_key for other in self.heard)
        if state is KeyState.MISMATCHED and not burning:
            self._target_lies(
                "it answered that the key was first used with another request, and one effect alone was sent under it: what it "
                "sends for an effect has to be the same every time"
            )
        if state is KeyState.STORED_FAILURE and self.profile.dedupes and not self.profile.stores_failures:
            self._target_lies("it answered with a stored failure, and its capabilities say that failures are not stored")

    def _added(self, heard: Heard) -> list[LedgerEntry]:
        """Return what the ledger got of that action while it was asked."""
        during = self._ledger[heard.entries_before : heard.entries_after]
        mine = self.entries_of(heard.action_id)
        return [entry for entry in during if entry in mine]

    def _answered(self, heard: Heard) -> None:
        """Note the answer with its send: the oldest one under that key that has none."""
        for index, sent in enumerate(self.sends):
            mine = (sent.action_id, sent.idempotency_key) == (heard.action_id, heard.idempotency_key)
            if mine and sent.answer is None and isinstance(heard.answer, SendAnswer):
                self.sends[index] = replace(sent, answer=heard.answer)
                return

    def _hear_lookup(self, heard: Heard, answer: LookupAnswer | object) -> None:
        entries = self.entries_of(heard.action_id)
        stale_s = self.profile.lookup_staleness_s or 0.0
        visible = [entry for entry in entries if entry.at <= heard.at - timedelta(seconds=stale_s)]
        if isinstance(answer, Absent) and visible:
            since_s = (heard.at - visible[0].at).total_seconds()
            self._target_lies(
                f"its lookup answered Absent, and {visible[0].reference} is in the ledger since {since_s:g} s "
                f"(it claims to be at most {stale_s:g} s behind)"
            )
        if isinstance(answer, Found) and answer.evidence.reference not in {entry.reference for entry in entries}:
            self._target_lies(f"its lookup found {answer.evidence.reference!r}, which is not in the ledger of that action")
        if added := self._added(heard):
            self._target_lies(f"its lookup carried {added[0].reference} out")

    def _hear_burn(self, heard: Heard, answer: BurnAnswer | object) -> None:
        key = heard.idempotency_key or ""
        if added := self._added(heard):
            self._target_lies(f"its burn carried {added[0].reference} out, and has to be a harmless request")
        if isinstance(answer, AlreadyUsed) and self._in_window(key, heard.at):
            self._used.add(key)
        if not isinstance(answer, Burned):
            return
        self._burned_at.setdefault(key, heard.at)
        under_it = [entry for entry in self._ledger if entry.idempotency_key == key]
        if under_it and self._in_window(key, heard.at):
            self._target_lies(f"it answered Burned, and {under_it[0].reference} was carried out under that key")

    # --- what is new in the ledger

    def _judge_entry(self, entry: LedgerEntry) -> None:
        if (wrong := misdated(entry, self._clock.now(), self._read_at)) is not None:
            self._world_lies(wrong)
            return
        if entry.idempotency_key is None and entry.action_id is None:
            return  # somebody did it by hand
        sends = [sent for sent in self.sends if _is_of(entry, sent)]
        if not sends:
            self._judge_unsent(entry)
            return
        earlier = [other for other in self._ledger if other.reference != entry.reference and _is_alike(other, entry)]
        self._judge_repetition(entry, earlier, sends)
        if all(self._is_burned(sent.idempotency_key, entry.at) for sent in sends):
            self._target_lies(f"it claims that keys can be burned, and {entry.reference} was carried out under a burned key")
        if any(sent.closed_its_key and self._in_window(sent.idempotency_key, entry.at) for sent in sends):
            self._target_lies(
                f"it answered Declined, replayed, and {entry.reference} was carried out under that key all the same"
            )
            return
        open_sends = [sent for sent in sends if not sent.said_no]
        if len(open_sends) > len(earlier):
            self._judge_lateness(entry, open_sends)
        elif denied := [sent for sent in sends if sent.said_no]:
            said = type(denied[-1].answer).__name__
            self._target_lies(f"it answered {said}, and {entry.reference} was carried out all the same")

    def _judge_repetition(self, entry: LedgerEntry, earlier: list[LedgerEntry], sends: list[Sent]) -> None:
        """One key carries out once inside its window, and one call of the target once in any case."""
        key = entry.idempotency_key
        if earlier and key is not None and self._in_window(key, entry.at):
            self._target_lies(
                f"it claims that a key is recognised for {self.profile.dedupe_window_s:g} s, and "
                f"{earlier[0].reference} and {entry.reference} were carried out under one key, "
                f"{(entry.at - earlier[0].at).total_seconds():g} s apart"
            )
        if len(earlier) + 1 > len(sends):
            self._target_lies(
                f"its send was called {len(sends)} times {'for one action' if key is None else 'under one key'}, and carried out "
                f"{len(earlier) + 1} times: a client that tries again by itself does what the gate can't see"
            )

    def _judge_unsent(self, entry: LedgerEntry) -> None:
        """A model that keeps what it is given was rehearsed: what came under another key or mark, the target has sent."""
        if self.sends and not self.others_act:
            what = "mark" if entry.idempotency_key is None else "key"
            self._target_lies(f"{entry.reference} was carried out under a {what} that its send was not given")
        elif entry.idempotency_key is not None:
            self._world_lies(f"its ledger has {entry.reference} under a key that was never sent")

    def _judge_lateness(self, entry: LedgerEntry, sends: list[Sent]) -> None:
        """It came in time after one of the sends that may have been carried out."""
        profile = self.profile
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

    def _is_burned(self, key: str, at: datetime) -> bool:
        return key in self._burned_at and self._in_window(key, at)

    def _in_window(self, key: str, at: datetime) -> bool:
        """Whether the provider has promised to know the key still, counted from its first use."""
        if key in self.forgotten or self.profile.dedupe_window_s is None:
            return False
        first_at = min([sent.at for sent in self.sends if sent.idempotency_key == key], default=at)
        return at < first_at + timedelta(seconds=self.profile.dedupe_window_s)

    def _target_lies(self, words: str) -> None:
        self.lies.append(TargetLies(words))

    def _world_lies(self, words: str) -> None:
        self.lies.append(WorldLies(words))


def entries_of(world: ProviderWorld) -> list[LedgerEntry]:
    """Return what a world's ledger has.

    Raises:
        WorldLies: it is no list of entries.
    """
    given: Any = world.ledger()
    try:
        entries: list[Any] = list(given)
    except TypeError:
        raise WorldLies(f"its ledger() returned {type(given).__name__}, and not a list of LedgerEntry") from None
    for entry in entries:
        if not isinstance(entry, LedgerEntry):
            raise WorldLies(f"its ledger() has a {type(entry).__name__} in it, and not only LedgerEntry")
    return entries


def misdated(entry: LedgerEntry, now: datetime, read_at: datetime) -> str | None:
    """Return what is wrong with the time of an entry; None where nothing is.

    Args:
        entry: what is in the ledger.
        now: the world's time.
        read_at: when it was not there yet. A provider that writes whole seconds is a second behind.
    """
    if entry.at.tzinfo is None or entry.at > now:
        wrong = f"and it is {now.isoformat()}"
    elif entry.at < read_at - timedelta(seconds=1):
        wrong = f"and it was not there at {read_at.isoformat()}"
    else:
        return None
    return (
        f"its ledger has {entry.reference} at {entry.at.isoformat()}, {wrong}: "
        "give entries the time of the clock that the model was made with"
    )


def _is_of(entry: LedgerEntry, sent: Sent) -> bool:
    """Whether an entry is of a send: by its key, or by its mark where entries keep no key."""
    if entry.idempotency_key is None:
        return entry.action_id == sent.action_id
    return entry.idempotency_key == sent.idempotency_key


def _is_alike(one: LedgerEntry, other: LedgerEntry) -> bool:
    if other.idempotency_key is None:
        return one.idempotency_key is None and one.action_id == other.action_id
    return one.idempotency_key == other.idempotency_key


def _says_nothing(answer: object) -> bool:
    """Whether an answer tells nothing that a gate could go on with. What a provider has stored may be as good as it gets."""
    if isinstance(answer, Unknown):
        return answer.key in (KeyState.OPEN, KeyState.IN_PROGRESS)
    return isinstance(answer, CannotTell | InProgress | NotSent)

"""The service that signs the log: one leader of all processes, a checkpoint every so often, and witnesses asked beside it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol
from uuid import UUID

from interlock.errors import EpochNeeded, GateClosed, InterlockError, InvalidConfiguration, MalformedEvidence
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.notes import SignedNote
from interlock.evidence.policies import NO_WITNESSES, Log, Policy, Witness
from interlock.infrastructure.clock import Clock, elapsing_s
from interlock.infrastructure.high_water import HighWaterMark
from interlock.infrastructure.locks import LeaderLock
from interlock.keyfiles import read_log_key
from interlock.log.config import LogConfig
from interlock.log.witnessing import Answer, Witnessed, ask_witness
from interlock.projections.log.tree import TransparencyLog, accepts
from interlock.projections.log.writing import LogSigner, LogWriter, SignedJournal

_LOG = logging.getLogger("interlock")

POLL_S = 0.25
"""How often the leader looks for new events at least."""

_ANCHOR_POLL_S = 0.02
_WITNESS_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)
"""How long a witness that failed is left alone; the last pause repeats."""

_JOIN_S = 5.0


class ServedJournal(SignedJournal, Protocol):
    """What the service asks of a journal."""

    def log_lock(self) -> LeaderLock:
        """Return the lock of whoever signs."""
        ...


class LogService:
    """Signs a journal's log, where this process has a key, and says what stands under an accepted checkpoint.

    Args:
        journal: the journal.
        config: how the log is signed.
        clock: the journal's clock.

    Raises:
        InvalidConfiguration: a key or the policy can't be read.
    """

    def __init__(self, journal: ServedJournal, config: LogConfig, clock: Clock) -> None:
        self.config = config
        self.tree = TransparencyLog(journal)
        self.policy = read_policy(Path(config.policy_file)) if config.policy_file is not None else None
        self.mark: HighWaterMark | None = None
        self.writer: LogWriter | None = None
        if config.signs:
            signers = signers_of(config)
            self.mark = HighWaterMark(config.mark_of(signers[0].identity))
            self.writer = LogWriter(journal, signers, self.mark, clock)
        self._lock = journal.log_lock()
        self._threads: list[threading.Thread] = []
        self._accepted: tuple[int, SignedNote] | None = None
        self._reset()

    def _reset(self) -> None:
        self._stopping, self._wake = threading.Event(), threading.Event()
        self._signed = {witness.name: threading.Event() for witness in self.witnesses}
        self._changed, self._generation = threading.Condition(), 0
        self._wanted = self._leads = self._unannounced = False
        self._waiting_since_s: float | None = None
        self._told: tuple[type[Exception], str] | None = None

    @property
    def witnesses(self) -> tuple[Witness, ...]:
        """The witnesses that are asked: those of the policy that have an address."""
        return tuple(one for one in self.policy.witnesses if one.url) if self.policy is not None else ()

    @property
    def anchors(self) -> bool:
        """Whether sends wait until they stand under a checkpoint."""
        return self.config.anchor is not None

    @property
    def anchor_wait_s(self) -> float:
        """For how long they wait, in seconds."""
        return self.config.anchor_wait_s

    # --- running

    def start(self) -> None:
        """Sign on threads of its own, until it is stopped; without a key, nothing is done."""
        if self.writer is None or self._threads:
            return
        self._begin("interlock-log", self.run)
        for witness in self.witnesses:
            self._begin(f"interlock-witness-{witness.name}", partial(self._ask_forever, witness))

    def _begin(self, name: str, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self) -> None:
        """Sign what is still under no checkpoint, and give the lead back. Stopping twice does nothing."""
        self._stopping.set()
        self._wake.set()
        for event in self._signed.values():
            event.set()
        for thread in self._threads[:1]:  # what a witness is being asked may take longer than anybody wants to wait
            thread.join(_JOIN_S)
        self._threads.clear()

    def renew_after_fork(self) -> None:
        """Compete for the lead as a process of its own, in a forked child."""
        self._lock.forget_after_fork()
        ran = bool(self._threads)
        self._threads = []
        self._reset()
        if ran:
            self.start()

    def run(self) -> None:
        """Sign until `stop` is called, on the calling thread."""
        try:
            while not self._stopping.is_set():
                self._wake.wait(min(POLL_S, self.config.every_s / 4))
                self._wake.clear()
                if self._guarded(self._step) is False and self._stopping.wait(self.config.every_s):
                    break
            self._wanted = True
            self._guarded(self._step)
        finally:
            self._leads = False
            self._lock.release()

    def _guarded(self, step: Callable[[], object]) -> bool:
        """Run a step; what goes wrong is said once, and tried again."""
        try:
            step()
        except GateClosed:
            self._stopping.set()
        except Exception as error:  # noqa: BLE001 - nothing may end the service without a word
            self._tell(error)
            return False
        return True

    def _tell(self, error: Exception) -> None:
        # Errors of ours hold nothing that is secret; another one's text may hold anything.
        words = str(error) if isinstance(error, InterlockError) else type(error).__qualname__
        if self._told is None or self._told[0] is not type(error):
            level = logging.ERROR if isinstance(error, EpochNeeded) else logging.WARNING
            _LOG.log(level, "the log can't be signed, and it is tried again: %s", words)
        self._told = type(error), words

    @property
    def trouble(self) -> str | None:
        """Why the log could not be signed, in words; None when its last checkpoint was made."""
        return self._told[1] if self._told is not None else None

    def _step(self) -> None:
        led, self._leads = self._leads, self.writer is not None and self._lock.take()
        if self.writer is None or not self._leads:
            return
        if not led:
            self._unannounced = True  # the leader before may have left witnesses behind
        # Signed first: a witness that cosigns an old tree now says that what came since is younger than it is.
        wanted, self._wanted = self._wanted or not led, False
        if self._is_due(self.writer.waiting(), wanted=wanted):
            made = self.writer.checkpoint()
            self._told = None
            self._unannounced |= made is not None
        if self._unannounced:
            self._unannounced = False
            self._announce()

    def _is_due(self, waiting: int, *, wanted: bool) -> bool:
        now_s = elapsing_s()
        since_s = self._waiting_since_s = (self._waiting_since_s or now_s) if waiting else None
        if since_s is None:
            return False
        due = wanted or waiting >= self.config.every_events or now_s - since_s >= self.config.every_s
        if due:
            self._waiting_since_s = None
        return due

    def _announce(self) -> None:
        for event in self._signed.values():
            event.set()
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        with self._changed:
            self._generation += 1
            self._changed.notify_all()

    # --- witnesses

    def ask(self, witness: Witness) -> Answer:
        """Ask a witness for its cosignature on the last checkpoint, now.

        Raises:
            JournalError: the journal can't be read or written.
        """
        answer = ask_witness(self.tree, witness, timeout_s=self.config.witness_timeout_s)
        if answer.result is Witnessed.COSIGNED:
            latest = self.tree.latest()
            if self.mark is not None and self.policy is not None and latest is not None and accepts(self.policy, latest):
                self.mark.note_witnessed(latest)
            self._wake_waiters()
        return answer

    def _ask_forever(self, witness: Witness) -> None:
        signed, failures, told = self._signed[witness.name], 0, ""
        while not self._stopping.is_set():
            signed.wait(_WITNESS_PAUSES_S[min(failures, len(_WITNESS_PAUSES_S)) - 1] if failures else None)
            signed.clear()
            if not self._leads:
                continue
            try:
                answer = self.ask(witness)
            except GateClosed:
                return
            except Exception as error:  # noqa: BLE001 - as above
                answer = Answer(witness.name, Witnessed.UNREACHABLE, type(error).__qualname__)
            if answer.result in (Witnessed.COSIGNED, Witnessed.UP_TO_DATE):
                failures, told = 0, ""
                continue
            if told != answer.words:
                level = logging.ERROR if answer.is_alarm else logging.WARNING
                _LOG.log(level, "witness %s has not cosigned (%s): %s", witness.name, answer.result.value, answer.words)
            failures, told = failures + 1, answer.words

    # --- anchoring

    def await_anchor(self, action_id: UUID, version: int, is_closing: Callable[[], bool]) -> str | None:
        """Wait until an event stands under a checkpoint that the policy accepts.

        Args:
            action_id: whose event.
            version: which one.
            is_closing: says whether the gate is being closed.

        Returns:
            None when it does; otherwise, after `anchor_wait_s`, why not, in words.

        Raises:
            JournalError: the journal can't be read.
        """
        until_s = elapsing_s() + self.config.anchor_wait_s
        while not is_closing():
            seen = self._generation
            if self.is_anchored(action_id, version):
                return None
            left_s = until_s - elapsing_s()
            if left_s <= 0:
                return self.why_not()
            with self._changed:
                if self._generation == seen:
                    self._changed.wait(min(left_s, _ANCHOR_POLL_S))
        return "the gate was closed"

    def is_anchored(self, action_id: UUID, version: int) -> bool:
        """Say whether an event stands under a checkpoint that the policy accepts, and have the leader make one where it does not.

        Raises:
            JournalCorrupt: the event is not what was signed.
            JournalUnavailable: the journal can't be read.
        """
        index = self.tree.index_of(action_id, version)
        note = None if index is None else self._accepted_above(index)
        if index is None or note is None:
            self._wanted = True
            self._wake.set()
            return False
        self.tree.inclusion(index, note)
        return True

    def why_not(self) -> str:
        """Return, in words, why an event does not stand under a checkpoint."""
        if self.trouble is not None:
            return f"no checkpoint covers its announcement: {self.trouble}"
        return "no checkpoint that the policy accepts covers its announcement"

    def _accepted_above(self, index: int) -> SignedNote | None:
        accepted = self._accepted
        if accepted is None or accepted[0] <= index:
            note = self.tree.covering(index, self._present_policy())
            accepted = self._accepted = accepted if note is None else (Checkpoint.parse(note.text).size, note)
        return accepted[1] if accepted is not None and accepted[0] > index else None

    def _present_policy(self) -> Policy:
        """Return the policy that was given, or the one that accepts what this process's own key signs."""
        if self.policy is not None:
            return self.policy
        assert self.writer is not None, "without a policy there is a key"
        log = self.tree.state()
        keys = self.writer.keys_for(log.origin) if log is not None else ()
        return Policy(tuple(Log(key) for key in keys), (), (), NO_WITNESSES)


def read_policy(path: Path) -> Policy:
    """Read a tlog-policy.

    Raises:
        InvalidConfiguration: there is none, or it is malformed.
    """
    try:
        return Policy.parse(path.read_bytes())
    except OSError as error:
        raise InvalidConfiguration(f"the policy {path} can't be read: {error.strerror}") from None
    except MalformedEvidence as error:
        raise InvalidConfiguration(f"the policy {path} is malformed: {error}") from error


def signers_of(config: LogConfig) -> list[LogSigner]:
    """Return the log's keys, the present one first.

    Raises:
        InvalidConfiguration: one can't be read.
        UnsafeKeyFile: others could read or replace it.
    """
    files = [path for path in (config.key_file, config.old_key_file) if path is not None]
    return [*config.signers, *(read_log_key(Path(path)) for path in files)]

"""What a worker is given and what it reports, and the decision that it makes once: the same for every column."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from harness.agent import Decision, SupportCase, decide
from harness.keys import anthropic_key_from_environment, stripe_key_from_environment
from harness.postgres.journals import with_schema

LOCAL_STRIPE_KEY_PREFIX = "sk_test_local_"

_JOB_FILE = "job.json"
_ANSWER_FILE = "answer.json"
_DECISION_FILE = "decision.json"


class KillPoint(StrEnum):
    """Where a worker dies."""

    BEFORE_SEND = "before_send"
    """Right before the refund call, with everything durable that the column makes durable before it."""
    AFTER_ANSWER = "after_answer"
    """After the provider's answer was received and parsed, before anything recorded it."""


Reached = Callable[[KillPoint], None]
"""A column calls this where it has come to a point. It does not return where the run has armed that point."""


class JobRefused(Exception):
    """A job mixes the real world with the emulated one. Nothing was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSettings:
    """How the gate's target is set up. The defaults are the library's own."""

    lookup: bool = True
    burn: bool = True
    roll_forward_s: float | None = None
    settle_s: float = 80.0
    send_deadline_s: float = 30.0
    claim_ttl_s: float = 40.0

    @property
    def stand_in_only(self) -> bool:
        """Whether a figure holds for the stand-in only. How long a send and a claim may last is anybody's own choice."""
        stock = GateSettings()
        return replace(self, send_deadline_s=stock.send_deadline_s, claim_ttl_s=stock.claim_ttl_s) != stock


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One case, as a worker is told about it. Keys come through the environment and are in no file.

    Args:
        case_id: the case's id, which is the approval's id too.
        column: which way of working.
        folder: where the case's own files are.
        live: whether it talks to the real services.
        payment: the payment intent.
        approved_minor: what a person approved, in the minor unit.
        currency: of both.
        complaint: the customer's words.
        model: the model's name.
        stripe_api_base: where the payment provider is; None for the real one.
        anthropic_base_url: where the model is; None for the real one.
        kill_at: where this start of the worker dies; None where it is not armed.
        clock_ahead_s: how far the gate's clock is moved, in seconds.
        settings: how the gate's target is set up.
        database: the PostgreSQL database that the case's journal is a schema of; None for a file.
        journal: the URL of a journal that cases share; None for one of the case's own.
        temporal: the address of the Temporal server; None where the column needs none.
        emulated: whether a live job may have what can't be had at the real provider; its row says so.

    Raises:
        JobRefused: a live job with a moved clock or with figures that hold for the stand-in only, or a local one that would
            leave this machine.
    """

    case_id: str
    column: str
    folder: str
    live: bool
    payment: str
    approved_minor: int
    currency: str
    complaint: str
    model: str
    stripe_api_base: str | None
    anthropic_base_url: str | None
    kill_at: KillPoint | None = None
    clock_ahead_s: float = 0.0
    settings: GateSettings = field(default_factory=GateSettings)
    database: str | None = None
    journal: str | None = None
    temporal: str | None = None
    emulated: bool = False

    def __post_init__(self) -> None:
        plainly_live = self.live and not self.emulated
        if plainly_live and self.clock_ahead_s:
            raise JobRefused("a live job can't have a moved clock")
        if plainly_live and self.settings.stand_in_only:
            raise JobRefused("a live job runs with the library's own settings: others hold for the stand-in only")
        if self.emulated and not (self.live and _is_loopback(self.stripe_api_base)):
            raise JobRefused("an emulated job is a live one behind a proxy on 127.0.0.1 that forgets keys")
        if not self.live and not all(map(_is_loopback, (self.stripe_api_base, self.anthropic_base_url))):
            raise JobRefused("a local job talks to stand-ins on 127.0.0.1 only")

    @property
    def home(self) -> Path:
        """The folder with the case's own files."""
        return Path(self.folder)

    @property
    def journal_url(self) -> str:
        """The journal that the case is recorded in."""
        if self.journal is not None:
            return self.journal
        if self.database is None:
            return f"sqlite:///{self.home / 'journal.db'}"
        return with_schema(self.database, self.case_id.replace("-", "_"))

    @property
    def stripe_key(self) -> str:
        """The key for the payment provider.

        Raises:
            LiveKeyRefused: it is not a test key.
            JobRefused: there is none, or a local job was given a key that could be real.
        """
        key = stripe_key_from_environment()
        if key is None or (not self.live and not key.startswith(LOCAL_STRIPE_KEY_PREFIX)):
            raise JobRefused(f"no key for the payment provider; a local job takes {LOCAL_STRIPE_KEY_PREFIX}… only")
        return key

    @property
    def support_case(self) -> SupportCase:
        """The case as the model is told about it."""
        return SupportCase(self.case_id, self.payment, self.complaint, self.approved_minor, self.currency)

    def save(self) -> Path:
        """Write the job to its folder, durably, and return the file."""
        return save(self.home / _JOB_FILE, msgspec.json.encode(self))

    @classmethod
    def load(cls, path: Path) -> Job:
        """Read a job."""
        return msgspec.json.decode(path.read_bytes(), type=cls)


class Status(StrEnum):
    """What a worker reports of its case."""

    REFUNDED = "refunded"
    REFUSED = "refused"
    AMBIGUOUS = "ambiguous"
    NOT_YET = "not_yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A worker's report.

    Args:
        status: what became of the case.
        via: how that is known.
        words: the same for a person.
        refund: the provider's id of the refund.
        amount_minor: what was refunded, in the minor unit.
        retry_after_s: when to start a worker again, in seconds, where it is not known yet.
        receipt: the gate's receipt.
        receipt_text: the same for a person.
    """

    status: Status
    via: str
    words: str
    refund: str | None = None
    amount_minor: int | None = None
    retry_after_s: float = 0.0
    receipt: dict[str, Any] | None = None
    receipt_text: str | None = None

    def save(self, job: Job) -> None:
        """Write the answer beside its job."""
        save(job.home / _ANSWER_FILE, msgspec.json.encode(self))

    @classmethod
    def load(cls, job: Job) -> Answer | None:
        """Read the answer of a job's worker; None where it gave none."""
        path = job.home / _ANSWER_FILE
        return msgspec.json.decode(path.read_bytes(), type=cls) if path.exists() else None


class WrongDecision(Exception):
    """The model decided on something else than the case. Nothing was sent."""


def ask(job: Job, get_payment: Callable[[str], dict[str, object]]) -> Decision:
    """Let the model decide on the case. It decides whether, and the approval how much.

    Raises:
        WrongDecision: its decision is on another payment or in another currency.
    """
    decision = decide(
        base_url=job.anthropic_base_url,
        api_key=anthropic_key_from_environment() or "",
        model=job.model,
        case=job.support_case,
        get_payment=get_payment,
    )
    if (decision.payment, decision.currency) != (job.payment, job.currency):
        raise WrongDecision(f"the model decided on {decision.payment} in {decision.currency}; nothing was sent")
    return decision


def decide_once(job: Job, get_payment: Callable[[str], dict[str, object]]) -> Decision:
    """Return the saved decision; where there is none, let the model decide and save that before anything is sent."""
    path = job.home / _DECISION_FILE
    if path.exists():
        return Decision.from_json(path.read_text(encoding="utf-8"))
    decision = ask(job, get_payment)
    save(path, decision.to_json().encode())
    return decision


def show_decision(job: Job, decision: str) -> None:
    """Write a decision that is kept elsewhere into the case's folder, for whoever watches: no column reads it there."""
    save(job.home / _DECISION_FILE, decision.encode())


def save(path: Path, content: bytes) -> Path:
    """Write a file so that after a crash it is there whole, or not at all."""
    draft = path.with_suffix(".draft")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return path


def _is_loopback(url: str | None) -> bool:
    return url is not None and urlsplit(url).hostname == "127.0.0.1"

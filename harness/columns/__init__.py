"""The columns of the crash matrix: ways of working, each a module that is loaded when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Any, Protocol, cast

from harness.columns.job import Answer, Job, Reached


class Approvals(Protocol):
    """Where a column keeps the approval of a case. The parent grants and revokes it, and the worker reads it."""

    def grant(self, job: Job) -> None:
        """Approve the case's refund."""
        ...

    def revoke(self, job: Job) -> None:
        """Take the approval back."""
        ...


class StandaloneModule(Protocol):
    """A column whose worker is a process that carries the case as far as it can."""

    @property
    def APPROVALS(self) -> Approvals:
        """Where it keeps approvals."""
        ...

    def run(self, job: Job, reached: Reached) -> Answer:
        """Carry a case to its end, in this process."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What is a column's own in a worker on Temporal.

    Args:
        activities: what it serves.
        plugins: of the worker.
    """

    activities: Sequence[Callable[..., Any]]
    plugins: Sequence[Any] = ()


class TemporalModule(Protocol):
    """A column whose worker serves Temporal's task queue."""

    @property
    def APPROVALS(self) -> Approvals:
        """Where it keeps approvals."""
        ...

    @property
    def WORKFLOW(self) -> type[Any]:
        """The workflow: it takes a support case and the engine, and returns how the case was closed."""
        ...

    def serving(self, job: Job, reached: Reached) -> AbstractContextManager[Serving]:
        """Open what the activities need, and give what the worker needs."""
        ...

    def told(self, job: Job, answer: Answer) -> Answer:
        """Return the workflow's answer, with what is to be read of it elsewhere."""
        ...


class Engine(StrEnum):
    """What starts a column's worker, and carries the case on after its death."""

    NONE = "none"
    TEMPORAL = "temporal"
    TEMPORAL_DEFAULTS = "temporal_defaults"
    """Temporal with the options that it comes with."""


@dataclass(frozen=True, slots=True)
class Column:
    """A way of working.

    Args:
        name: its name.
        about: what it does, in a sentence.
        module: its module, below this package.
        engine: what carries its cases.
        gate: whether the library's gate is in it: it has rows of its own, and every row has to be as wanted.
    """

    name: str
    about: str
    module: str
    engine: Engine = Engine.NONE
    gate: bool = False

    @property
    def approvals(self) -> Approvals:
        """Where it keeps approvals."""
        return cast("StandaloneModule | TemporalModule", self._load()).APPROVALS

    @property
    def standalone(self) -> StandaloneModule:
        """The module of a column without an engine."""
        return cast("StandaloneModule", self._load())

    @property
    def on_temporal(self) -> TemporalModule:
        """The module of a column on Temporal."""
        return cast("TemporalModule", self._load())

    def has(self, *, gate_only: bool) -> bool:
        """Whether it has a row, given that the row says something about the gate only.

        With Temporal's defaults a column has only the rows that every column has: they are there for the time that is lost.
        """
        return not gate_only or (self.gate and self.engine is not Engine.TEMPORAL_DEFAULTS)

    def _load(self) -> object:
        return import_module(f"harness.columns.{self.module}")


def _with_defaults(column: Column) -> Column:
    about = f"`{column.name}`, with the worker and activity options that Temporal comes with."
    return Column(f"{column.name}_defaults", about, column.module, Engine.TEMPORAL_DEFAULTS, column.gate)


_STANDALONE = (
    Column(
        "standard", "The decision is saved before the send, the key is derived from the case, nothing is re-checked.", "standard"
    ),
    Column("checked", "The same, and by hand: own mark found, approval live, the payment's refunds unchanged.", "checked"),
    Column(
        "checked_with_our_rule",
        "The hand-written check, with the library's rule for refunds; for information.",
        "checked_with_our_rule",
    ),
    Column("interlock", "The model's tool is the gate; a restart ends what the journal has.", "interlock", gate=True),
)
_ON_TEMPORAL = (
    Column(
        "temporal",
        "A workflow; the decision is an activity's result, the key is run id and activity id, nothing is re-checked.",
        "temporal.plain",
        Engine.TEMPORAL,
    ),
    Column(
        "temporal_checked",
        "The same, and at the top of the activity, by hand: own mark found, approval live, the payment's refunds unchanged.",
        "temporal.checked",
        Engine.TEMPORAL,
    ),
    Column("temporal_interlock", "The activity's body is the gate.", "temporal.interlock", Engine.TEMPORAL, gate=True),
)
COLUMNS = {column.name: column for column in (*_STANDALONE, *_ON_TEMPORAL, *map(_with_defaults, _ON_TEMPORAL))}


def names(*engines: Engine) -> tuple[str, ...]:
    """Return the names of the columns that are carried by one of the engines."""
    return tuple(name for name, column in COLUMNS.items() if column.engine in engines)

"""The columns of the crash matrix: ways of working, each a module with `run` and `APPROVALS`, loaded when it is needed."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from harness.columns.job import Answer, Job, Reached


class Approvals(Protocol):
    """Where a column keeps the approval of a case. The parent grants and revokes it, and the worker reads it."""

    def grant(self, job: Job) -> None:
        """Approve the case's refund."""
        ...

    def revoke(self, job: Job) -> None:
        """Take the approval back."""
        ...


class _Module(Protocol):
    @property
    def APPROVALS(self) -> Approvals: ...

    def run(self, job: Job, reached: Reached) -> Answer: ...


@dataclass(frozen=True, slots=True)
class Column:
    """A way of working.

    Args:
        name: its name, which is its module's.
        about: what it does, in a sentence.
    """

    name: str
    about: str

    @property
    def approvals(self) -> Approvals:
        """Where it keeps approvals."""
        return self._module().APPROVALS

    def run(self, job: Job, reached: Reached) -> Answer:
        """Carry a case to its end, in this process."""
        return self._module().run(job, reached)

    def _module(self) -> _Module:
        return cast("_Module", import_module(f"harness.columns.{self.name}"))


COLUMNS = {
    column.name: column
    for column in (
        Column("standard", "The decision is saved before the send, the key is derived from the case, nothing is re-checked."),
        Column("checked", "The same, and by hand: own mark found, approval live, the payment's refunds unchanged."),
        Column("checked_with_our_rule", "The hand-written check, with the library's rule for refunds; for information."),
        Column("interlock", "The saved decision is fired through the gate."),
    )
}

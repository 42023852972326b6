"""eventsourcing as it comes, on PostgreSQL: the same two saves through its own application and recorder.

Four events of two aggregates, then two more, whose bodies are the very bytes that the gate stored. It reads nothing, checks
nothing and keeps no digests.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit
from uuid import UUID, uuid4

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate

from harness.benchmarks.peers.raw import Template


class Saved(Aggregate):
    """An aggregate whose events carry a text."""

    class Begun(Aggregate.Created):
        """Its first event."""

        content: str

    class Changed(Aggregate.Event):
        """Any other."""

        content: str

        def apply(self, aggregate: Saved) -> None:
            """Remember it."""
            aggregate.content = self.content

    def __init__(self, content: str) -> None:
        self.content = content

    @classmethod
    def create(cls, content: str) -> Saved:
        """Return a new one."""
        return cls._create(cls.Begun, id=uuid4(), content=content)

    def change(self, content: str) -> None:
        """Add an event."""
        self.trigger_event(self.Changed, content=content)


class StockPeer:
    """Saves twice.

    Args:
        application: which the threads share.
        template: an action as the gate stored it.
    """

    def __init__(self, application: Application[UUID], template: Template) -> None:
        self._application = application
        self._first, self._second = template.bodies()
        self._approvals: dict[str, Saved] = {}

    def prepare(self, names: Sequence[str]) -> None:
        """Save an approval for each action."""
        self._approvals = {name: Saved.create(self._first[-1][1]) for name in names}
        for approval in self._approvals.values():
            self._application.save(approval)

    def act(self, writer: int, name: str) -> None:
        """Save what was decided, and then how it ended."""
        del writer
        approval, action = self._approvals[name], Saved.create(self._first[0][1])
        by_kind = {"action": action, "approval": approval}
        for kind, content in self._first[1:]:
            by_kind[kind].change(content)
        self._application.save(action, approval)
        for kind, content in self._second:
            by_kind[kind].change(content)
        self._application.save(action, approval)


def make_stock_tables(url: str) -> None:
    """Make its tables."""
    Application[UUID](_environment(url, 1)).close()


@contextmanager
def open_stock(url: str, number: int, writers: int) -> Generator[StockPeer]:
    """Open an application with a connection for each writer; the arguments are those of `open_gate`."""
    del number
    application = Application[UUID]({**_environment(url, writers), "CREATE_TABLE": "n"})
    try:
        yield StockPeer(application, Template.read(url))
    finally:
        application.close()


def _environment(url: str, writers: int) -> dict[str, str]:
    parts = urlsplit(url)
    options = {name: values[0] for name, values in parse_qs(parts.query).items()}
    return {
        "PERSISTENCE_MODULE": "eventsourcing.postgres",
        "POSTGRES_DBNAME": parts.path.lstrip("/"),
        "POSTGRES_HOST": options["host"],
        "POSTGRES_PORT": options["port"],
        "POSTGRES_USER": parts.username or "",
        "POSTGRES_PASSWORD": "",
        "POSTGRES_POOL_SIZE": str(max(writers, 1)),
    }

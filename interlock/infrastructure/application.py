"""eventsourcing's application, with nothing of the host's environment in it: a compressor there would change our bytes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from eventsourcing.application import Application
from eventsourcing.persistence import ApplicationRecorder, InfrastructureFactory
from eventsourcing.utils import Environment

from interlock.infrastructure.mapper import EventMapper


class JournalApplication(Application[UUID]):
    """An application on a recorder that is open already."""

    name = "interlock"

    def __init__(self, recorder: ApplicationRecorder) -> None:
        self._given = recorder
        super().__init__()

    def construct_env(self, name: str, env: Any = None) -> Environment:
        """Return an environment with nothing in it."""
        del env
        return Environment(name, {})

    def construct_factory(self, env: Environment) -> InfrastructureFactory:
        """Return what gives out the one recorder that there is."""
        return _Factory(env, self._given)

    def construct_mapper(self) -> EventMapper:
        """Return the mapper of ADR 2."""
        return EventMapper()


class _Factory(InfrastructureFactory):
    def __init__(self, env: Environment, recorder: ApplicationRecorder) -> None:
        super().__init__(env)
        self._recorder = recorder

    def application_recorder(self) -> ApplicationRecorder:
        return self._recorder

    def aggregate_recorder(self, purpose: str = "events") -> Any:
        raise NotImplementedError(purpose)

    def tracking_recorder(self, tracking_recorder_class: Any = None) -> Any:
        raise NotImplementedError(tracking_recorder_class)

    def process_recorder(self) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        """Do nothing: the journal closes its recorder itself."""

"""Writers: a process for each processor, of several threads each, as a careful user of Python runs them, because of its lock.

One crew runs whatever is compared, in turn, in the same processes. The parent says what, how often and when to start.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from types import TracebackType
from typing import Protocol, Self

from harness.benchmarks.timing import BenchmarkFailed

PROCESSES = min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
"""More than there are processors only drive each other out of the caches: with twice as many, an action cost twice the time."""

_LEAD_S = 0.02
"""Between the word to start and the start, so that all processes have heard it."""

_TIMEOUT_S = 180.0


class Peer(Protocol):
    """One way to carry an action out, opened once in each process."""

    def prepare(self, names: Sequence[str]) -> None:
        """Do what is not timed: grant approvals, make rows."""
        ...

    def act(self, writer: int, name: str) -> None:
        """Carry one action out, durably. Called on one thread for each writer.

        Args:
            writer: the thread's number within the process.
            name: the action's key.
        """
        ...


Opener = Callable[[int, int], AbstractContextManager[Peer]]
"""Opens a peer in a process, given the process's number and how many writers there will be in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What the crew is to do.

    Args:
        peer: which way.
        name: what the keys of its actions begin with; no two tasks have one name.
        writers: how many carry actions out at once.
        actions: how many each.
        interval_s: how much later each writer's next action is due; None for one right after the other.
    """

    peer: str
    name: str
    writers: int
    actions: int
    interval_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What came of it.

    Attributes:
        wall_s: from the start to the end of the last action.
        durations_ns: of each action; from when it was due, where it was due at a time.
    """

    wall_s: float
    durations_ns: Sequence[int]

    @property
    def per_s(self) -> float:
        """How many actions a second."""
        return len(self.durations_ns) / self.wall_s


class Crew:
    """The processes. Use it as a context manager.

    Args:
        peers: how each peer is opened. It has to be possible to pickle them.
        writers: the most that a task will ask for.
        processes: how many; every one of them gets threads as soon as there are more writers than processes.
    """

    def __init__(self, peers: Mapping[str, Opener], *, writers: int, processes: int = PROCESSES) -> None:
        context = multiprocessing.get_context("spawn")
        self._members: list[tuple[SpawnProcess, Connection]] = []
        for number in range(processes):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(theirs, number, processes, dict(peers), share(writers, number, processes)), daemon=True
            )
            process.start()
            theirs.close()
            self._members.append((process, ours))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for _, pipe in self._members:
            pipe.close()
        for process, _ in self._members:
            process.join(10)
            if process.is_alive():
                process.kill()
                process.join()

    def run(self, task: Task) -> Done:
        """Carry a task out.

        Raises:
            BenchmarkFailed: a process could not, or took too long.
        """
        for _, pipe in self._members:
            pipe.send(task)
        for _, pipe in self._members:
            _answer(pipe, task)
        start_ns = time.perf_counter_ns() + round(_LEAD_S * 1e9)
        for _, pipe in self._members:
            pipe.send(start_ns)
        parts: list[tuple[int, list[int]]] = [_answer(pipe, task) for _, pipe in self._members]
        return Done(
            wall_s=(max(ended_ns for ended_ns, _ in parts) - start_ns) / 1e9,
            durations_ns=[duration_ns for _, durations_ns in parts for duration_ns in durations_ns],
        )


def share(writers: int, number: int, processes: int) -> int:
    """Return how many of the writers are threads of this process: as equal as can be."""
    return writers // processes + (1 if number < writers % processes else 0)


def _answer(pipe: Connection, task: Task) -> tuple[int, list[int]]:
    try:
        answer: tuple[int, list[int]] | str = pipe.recv() if pipe.poll(_TIMEOUT_S) else f"no answer within {_TIMEOUT_S:.0f} s"
    except (EOFError, OSError) as error:
        answer = f"a process is gone: {error!r}"
    if isinstance(answer, str):
        raise BenchmarkFailed(f"{task.peer}, {task.writers} writers: {answer}")
    return answer


def _serve(pipe: Connection, number: int, processes: int, openers: Mapping[str, Opener], most: int) -> None:
    """Do what the parent says, until it closes the pipe."""
    peers: dict[str, Peer] = {}
    with ExitStack() as stack:
        while True:
            try:
                task: Task = pipe.recv()
                if task.peer not in peers:
                    peers[task.peer] = stack.enter_context(openers[task.peer](number, most))
                pipe.send(_carry_out(pipe, peers[task.peer], task, number, share(task.writers, number, processes)))
            except (EOFError, ConnectionError):  # the parent has gone on without it
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, the parent reports it
                pipe.send(f"{type(error).__name__}: {error}")


def _carry_out(pipe: Connection, peer: Peer, task: Task, number: int, writers: int) -> tuple[int, list[int]]:
    names = [[f"{task.name}-{number:02}-{writer:02}-{i:04}" for i in range(task.actions)] for writer in range(writers)]
    peer.prepare([name for each in names for name in each])
    pipe.send((0, []))
    start_ns: int = pipe.recv()
    found: list[tuple[int, list[int]]] = []
    failures: list[Exception] = []

    def write(writer: int) -> None:
        try:
            found.append(_write(peer, task, writer, names[writer], start_ns))
        except Exception as error:  # noqa: BLE001 - it ends the whole task
            failures.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return max((ended_ns for ended_ns, _ in found), default=0), [ns for _, durations_ns in found for ns in durations_ns]


def _write(peer: Peer, task: Task, writer: int, names: Sequence[str], start_ns: int) -> tuple[int, list[int]]:
    """Carry out one writer's actions; return when the last one ended, and how long each took."""
    interval_ns = round((task.interval_s or 0.0) * 1e9)
    # Writers with a schedule are out of step, or each would find all the others before it.
    due_ns = start_ns + round(random.random() * interval_ns)
    durations_ns: list[int] = []
    for name in names:
        _sleep_until(due_ns)
        started_ns = due_ns if task.interval_s is not None else time.perf_counter_ns()
        peer.act(writer, name)
        durations_ns.append(time.perf_counter_ns() - started_ns)
        due_ns += interval_ns
    return time.perf_counter_ns(), durations_ns


def _sleep_until(due_ns: int) -> None:
    left_ns = due_ns - time.perf_counter_ns()
    if left_ns > 0:
        time.sleep(left_ns / 1e9)

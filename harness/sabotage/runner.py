"""Runs the tests against a copy of the repository that has one defect in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from harness.sabotage.defects import BURN, ENDS, HORIZON, INVARIANTS, RULES, Defect, StaleCatalogueError

ROOT = Path(__file__).resolve().parents[2]

_COPIED = ("docs", "harness", "interlock", "tests")
_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
PROCESSES = 2
_IN_THE_CRASH_KIT = ("interlock/domain/", "interlock/driver.py", "interlock/infrastructure/")
"""What the crash kit drives as it is; it has a provider of its own, and reads the journal through nothing else."""
_NOT_IN_IT = "interlock/infrastructure/postgres/"
"""The schedules are drawn on a journal of SQLite in memory."""
_PROTOCOL = frozenset((*INVARIANTS, *RULES, BURN, HORIZON, ENDS))
_ABOVE_THE_JOURNALS = ("interlock/domain/", "interlock/driver.py", "interlock/stripe/")
"""Where a defect shows on one journal and with one gate as on all."""
_ONE_OF_EACH = ("-k", "not postgres and not async")
_TEST_TIMEOUT_S = 60
_RUN_TIMEOUT_S = 600
_CONTROL_TIMEOUT_S = 3600
_PASSED, _FAILED = 0, 1
"""pytest's exit codes; any other means that the tests could not be run."""


class NotRunError(Exception):
    """The tests could not be run against the copy, so nothing is known of the defect."""


@dataclass(frozen=True, slots=True)
class Run:
    """What the tests made of a copy.

    Args:
        defect: the defect in it; None for the copy without one.
        red: the test that failed first; None where none did.
        tests: how many were run, that one included.
        seconds: how long it took, the start of pytest included.
        schedules: how many random schedules of the crash kit it took, over all profiles; None where they were not played, or
            found nothing.
        trouble: why the tests could not be run, so that nothing is known of the defect; None where they were.
    """

    defect: Defect | None
    red: str | None
    tests: int
    seconds: float
    schedules: int | None = None
    trouble: str | None = None

    @property
    def survived(self) -> bool:
        """Whether no test caught the defect."""
        return self.defect is not None and self.red is None and self.trouble is None


def run_without_defect(defects: Sequence[Defect]) -> Run:
    """Run all the tests that are named, on a copy without a defect: what is red there catches nothing.

    Raises:
        NotRunError: one of them fails.
    """
    tests, seconds = 0, 0.0
    for one_of_each in (True, False):
        files = sorted({test for defect in defects if _shows_on_one(defect) is one_of_each for test in defect.tests})
        if not files:
            continue
        with copy_of_repository() as root:
            run = _run(root, None, files, one_of_each=one_of_each, timeout_s=_CONTROL_TIMEOUT_S)
        if run.red is not None:
            raise NotRunError(f"{run.red} fails without any defect: make the tests green first")
        tests, seconds = tests + run.tests, seconds + run.seconds
    return Run(None, None, tests, seconds)


def run_with(defects: Sequence[Defect], schedules: int = 0, processes: int = PROCESSES) -> Iterator[Run]:
    """Run the tests of each defect on a copy that has it; yield the runs in order.

    Args:
        defects: which.
        schedules: how many random schedules to play at most, where the crash kit can see the defect at all.
        processes: how many copies to work on at once.
    """
    with ThreadPoolExecutor(processes) as pool:
        yield from pool.map(partial(_run_with, schedules=schedules), defects)


@contextmanager
def copy_of_repository() -> Iterator[Path]:
    """Make a copy of what the tests need, and remove it afterwards."""
    with tempfile.TemporaryDirectory(prefix="sabotage-", dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        root = Path(name)
        for folder in _COPIED:
            # With what is compiled already: it is valid there, but for the one file, and compiling takes longer than most tests.
            shutil.copytree(ROOT / folder, root / folder)
        shutil.copy(ROOT / "pyproject.toml", root)
        yield root


def _run_with(defect: Defect, schedules: int) -> Run:
    with copy_of_repository() as root:
        try:
            defect.apply(root)
            run = _run(root, defect, defect.tests, one_of_each=_shows_on_one(defect))
        except (StaleCatalogueError, NotRunError) as error:
            return Run(defect, None, 0, 0.0, trouble=str(error))
        if schedules and in_the_crash_kit(defect):
            run = replace(run, schedules=schedules_until_found(root, schedules))
        return run


def in_the_crash_kit(defect: Defect) -> bool:
    """Return whether the crash kit can see it: a defect of the protocol, or of what the protocol stands on in the kit."""
    kit = defect.file.startswith(_IN_THE_CRASH_KIT) and not defect.file.startswith(_NOT_IN_IT)
    return kit and not _PROTOCOL.isdisjoint(defect.breaks)


def schedules_until_found(root: Path, schedules: int) -> int | None:
    """Return how many random schedules of the crash kit it takes, on that copy; None where so many find nothing."""
    command = [sys.executable, "-m", "harness.crash_test", "--until-found", "--schedules", str(schedules)]
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    # A defect can also break the crash test itself, at once.
    said = done.stdout.strip() if done.returncode == 0 else "1"
    return int(said) if said.isdecimal() else None


def _shows_on_one(defect: Defect) -> bool:
    return defect.file.startswith(_ABOVE_THE_JOURNALS)


def _run(root: Path, defect: Defect | None, files: Sequence[str], *, one_of_each: bool, timeout_s: float = _RUN_TIMEOUT_S) -> Run:
    # Nothing of a pytest, or of a coverage, that this runs under.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV"))}
    environment = {**inherited, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    _require_copy_is_imported(root, environment)
    report = root / "report.xml"
    options = ["-x", "-q", "-p", "no:cacheprovider", f"--timeout={_TEST_TIMEOUT_S}", f"--junitxml={report}"]
    options += _ONE_OF_EACH if one_of_each else ()
    command = [sys.executable, "-m", "pytest", *options, *files]
    started = time.monotonic()
    try:
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise NotRunError(f"{_name(defect)}: the tests did not end within {timeout_s:g} s") from error
    seconds = time.monotonic() - started
    cases = list(ET.parse(report).getroot().iter("testcase")) if report.exists() else []  # noqa: S314 - pytest wrote it
    failed = [case for case in cases if case.find("failure") is not None]
    if done.returncode not in (_PASSED, _FAILED) or (done.returncode == _FAILED and not failed):
        raise NotRunError(f"{_name(defect)}: the tests could not be run\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return Run(defect, f"{failed[0].get('classname')}::{failed[0].get('name')}" if failed else None, len(cases), seconds)


def _require_copy_is_imported(root: Path, environment: dict[str, str]) -> None:
    """Make sure that it is not the editable install that is tested: every defect would survive then."""
    probe = [sys.executable, "-c", "import interlock; print(interlock.__file__)"]
    done = subprocess.run(probe, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0 or root.resolve() not in Path(done.stdout.strip()).resolve().parents:
        raise NotRunError(f"not the copy at {root} is imported, but {done.stdout.strip()!r} {done.stderr[-1000:]}")


def _name(defect: Defect | None) -> str:
    return defect.name if defect else "without a defect"

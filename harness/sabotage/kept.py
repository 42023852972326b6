"""Runs that are kept in a file, so that a long one that was broken off goes on where it stood."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path

from harness.sabotage.defects import Defect
from harness.sabotage.runner import Run, in_the_crash_kit


class Kept:
    """A file of runs, a line of JSON each.

    A run counts again for the very same defect and tests alone, with as many schedules where the crash kit can see it. Whether
    the code is still what it was, nobody asks: remove the file where it is not.

    Args:
        path: the file, which is made with the first run; None where nothing is kept.
        schedules: how many random schedules a run plays at most.
    """

    def __init__(self, path: Path | None, schedules: int) -> None:
        self._path = path
        self._schedules = schedules
        lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
        self._runs = {one.pop("of"): one for one in map(json.loads, lines)}

    def of(self, defect: Defect) -> Run | None:
        """Return the run that is there of a defect."""
        found = self._runs.get(self._key(defect))
        return None if found is None else replace(Run(**found), defect=defect)

    def without(self, defects: Sequence[Defect]) -> Run | None:
        """Return the run that is there of the tests of all these, without a defect."""
        found = self._runs.get(self._key(_tests_of(defects)))
        return None if found is None else Run(**found)

    def add(self, run: Run, defects: Sequence[Defect]) -> None:
        """Write a run down, unless it could not be made.

        Args:
            run: the run.
            defects: the defect that it was made with, or, where it was made without one, those whose tests were run.
        """
        if self._path is None or run.trouble is not None:
            return
        said = {"of": self._key(run.defect or _tests_of(defects)), **asdict(replace(run, defect=None))}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(said) + "\n")

    def _key(self, what: Defect | list[str]) -> str:
        played = self._schedules if isinstance(what, Defect) and in_the_crash_kit(what) else 0
        return sha256(f"{played} {what!r}".encode()).hexdigest()


def _tests_of(defects: Sequence[Defect]) -> list[str]:
    return sorted({test for defect in defects for test in defect.tests})

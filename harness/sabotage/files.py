"""Defects of the journal in a file: its locks, of which a gate's death is read, and its transactions."""

from __future__ import annotations

from harness.sabotage.defects import ENDS, LIVENESS, Defect, lines

_LOCKS = "interlock/infrastructure/locks.py"

_LOCKS_TEST = "tests/integration/test_liveness_locks.py"

DEFECTS: tuple[Defect, ...] = (
    Defect(
        name="released-lock-is-somebody-elses",
        breaks=(LIVENESS, "I7"),
        file=_LOCKS,
        old="            self._path(self.handle).unlink(missing_ok=True)\n",
        new=lines(
            '            for path in self._folder.glob("*.lock"):',
            "                path.unlink(missing_ok=True)",
            "",
        ),
        tests=(_LOCKS_TEST,),
    ),
    Defect(
        name="lock-of-another-kernel-is-taken-for-free",
        breaks=(LIVENESS, "I7"),
        file=_LOCKS,
        old='        if sys.platform == "win32" or not handle.startswith(f"{_realm()}-"):\n',
        new='        if sys.platform == "win32":\n',
        tests=(_LOCKS_TEST,),
    ),
    Defect(
        name="lock-that-can-not-be-opened-is-taken-for-free",
        breaks=(LIVENESS, "I7"),
        file=_LOCKS,
        old="            return Liveness.UNKNOWN\n\n    def ensure",
        new="            return Liveness.GONE\n\n    def ensure",
        tests=(_LOCKS_TEST,),
    ),
    Defect(
        name="who-asks-is-taken-for-the-holder",
        breaks=(LIVENESS,),
        file=_LOCKS,
        old="fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)",
        new="fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        tests=(_LOCKS_TEST,),
    ),
    Defect(
        name="lock-on-a-file-that-was-swept-away",
        breaks=(LIVENESS,),
        file=_LOCKS,
        old="st_nlink > 0",
        new="st_nlink >= 0",
        tests=(_LOCKS_TEST,),
    ),
    Defect(
        name="child-keeps-its-parents-lock",
        breaks=(LIVENESS,),
        file=_LOCKS,
        old="        self.lose()\n        self._take()\n",
        new="        self._parents = self._file\n        self._take()\n",
        tests=("tests/integration/test_fork.py",),
    ),
    Defect(
        name="transaction-that-reads-before-it-has-the-write-lock",
        breaks=(ENDS,),
        file="interlock/infrastructure/sqlite/connections.py",
        old='cursor.execute("BEGIN IMMEDIATE")',
        new='cursor.execute("BEGIN")',
        tests=("tests/contract/test_field_cases.py",),
    ),
)

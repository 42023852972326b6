"""Runs a server that ends when the process that started it does, however that ends.

`python launcher.py UID GID FOLDER COMMAND…` starts the command, prints its process id and waits for it. Its standard input
comes from the starter, and ends with it: then the server is shut down, and its folder removed.
It is run as a file: the standard library is all it needs.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
import threading

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(uid: int, gid: int, folder: str, command: list[str]) -> int:
    """Run the command to its end.

    Args:
        uid: the user that it runs as.
        gid: the group that it runs as.
        folder: what to remove when the starter is gone.
        command: the program, by its path, and its arguments.

    Returns:
        Its exit code; negative for a signal.
    """
    launcher = os.getpid()
    server = os.fork()
    if server == 0:
        _become(uid, gid)
        _die_with(launcher)
        os.chdir("/")
        os.execv(command[0], command)  # noqa: S606  # there is nothing for a shell to do
    os.write(1, b"%d\n" % server)
    # From here the server's processes alone hold the pipe: it ends when the last of them is gone.
    os.dup2(2, 1)
    orphaned = threading.Event()
    threading.Thread(target=_watch_starter, args=(server, orphaned), daemon=True).start()
    _, status = os.waitpid(server, 0)
    if orphaned.is_set():
        shutil.rmtree(folder, ignore_errors=True)
    return os.waitstatus_to_exitcode(status)


def _become(uid: int, gid: int) -> None:
    if os.geteuid() != uid:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)


def _die_with(launcher: int) -> None:
    """Have the kernel kill this process when the launcher is killed. A change of user would undo it, so it comes after."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != launcher:  # it was gone before
            os._exit(1)


def _watch_starter(server: int, orphaned: threading.Event) -> None:
    while os.read(0, 1):
        pass
    orphaned.set()
    # The server's immediate shutdown, which ends its children first; a stopped server has to go on for that.
    os.kill(server, signal.SIGQUIT)
    os.kill(server, signal.SIGCONT)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]))

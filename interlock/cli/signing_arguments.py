"""What the commands that sign the log, and those that look after keys, can be asked for."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from interlock.cli import signing

Command = Callable[..., argparse.ArgumentParser]


def add_log(commands: Any, command: Command) -> None:
    """Add `interlock log …`.

    Args:
        commands: where to add it.
        command: adds one command.
    """
    parts = _group(commands, "log", "sign the journal's log, and publish it")
    run = command(
        parts, "run", signing.run, "sign until SIGTERM or SIGINT; one of all that run signs, and the others wait", of="log "
    )
    run.add_argument("--every-events", metavar="N", type=int, help="a checkpoint for so many events at the most")
    run.add_argument("--every-s", metavar="S", type=float, help="or for so many seconds")
    checkpoint = command(
        parts, "checkpoint", signing.checkpoint, "sign what is under no checkpoint yet, and ask the witnesses", of="log "
    )
    epoch = command(parts, "new-epoch", signing.new_epoch, "go on under a new name after a restore", of="log ")
    which = epoch.add_mutually_exclusive_group(required=True)
    which.add_argument("--after-restore", action="store_true", help="the journal was restored from a backup on purpose")
    which.add_argument("--accept", action="store_true", help="the epoch was begun on another machine; set this one's mark to it")
    for one in (run, checkpoint, epoch):
        one.add_argument(
            "--key", metavar="FILE", dest="key_file", required=True, help="the log's key; see `interlock keys create`"
        )
        one.add_argument(
            "--old-key", metavar="FILE", dest="old_key_file", help="the key that it takes the place of, while both sign"
        )
        one.add_argument("--policy", metavar="FILE", help="which witnesses to ask (c2sp.org/tlog-policy)")
        one.add_argument("--high-water", metavar="FILE", help="where the last checkpoint is kept (default: beside the key)")
    publish = command(parts, "publish", signing.publish, "write the log as static files, the checkpoint last", of="log ")
    publish.add_argument("folder", metavar="DIR", help="where; each epoch has a folder of its own")
    command(parts, "rebuild", signing.rebuild, "make the tree again from the leaves", of="log ")
    status = command(parts, "status", signing.status, "say who the log is, what it has signed, and who has cosigned", of="log ")
    status.add_argument("--max-pending", metavar="S", type=float, help="exit with 1 where an event waits longer")


def add_keys(commands: Any, command: Command) -> None:
    """Add `interlock keys …`.

    Args:
        commands: where to add it.
        command: adds one command.
    """
    parts = _group(commands, "keys", "make, list and replace keys")
    create = command(parts, "create", signing.create_key, "make a key that only its owner can read", of="keys ", journal=False)
    create.add_argument("role", choices=("log", "attestor", "witness"), help="what it is for; one key has one role")
    create.add_argument("folder", metavar="DIR", help="where; made where it is missing")
    create.add_argument(
        "--name", metavar="NAME", dest="name_of_key", help="of a log (acme.example/interlock/prod) or of a witness"
    )
    create.add_argument(
        "--attestors", metavar="FILE", help="attestors.json, to add an attestor's key to; made where it is missing"
    )
    listed = command(parts, "list", signing.list_keys, "list keys, without their secrets", of="keys ", journal=False)
    listed.add_argument("folder", metavar="DIR")
    rotate = command(parts, "rotate", signing.rotate_key, "put a new key in the place of another one; both sign that", of="keys ")
    rotate.add_argument("key_file", metavar="FILE", help="the key that is replaced; the new one is made beside it")
    rotate.add_argument("--attestors", metavar="FILE", help="attestors.json, to end the old key in and to add the new one to")


def _group(commands: Any, name: str, words: str) -> Any:
    group: argparse.ArgumentParser = commands.add_parser(name, help=words, description=f"{words[0].upper()}{words[1:]}.")
    return group.add_subparsers(required=True, metavar="COMMAND")

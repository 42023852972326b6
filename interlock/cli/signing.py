"""The commands that sign the log, and those that look after keys."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock.cli.output import Exit, print_json, print_table, print_text, say
from interlock.cli.watching import stop_on_signal

if TYPE_CHECKING:
    from interlock.evidence.attestors import Attestors
    from interlock.infrastructure.journal import Journal
    from interlock.keyfiles import KeyFile
    from interlock.log.service import LogService


def run(arguments: argparse.Namespace) -> int:
    """Sign the log until a signal comes."""
    with _service(arguments) as (_, service):
        stopped = stop_on_signal()
        service.start()
        assert service.mark is not None, "it was given a key"
        print_text(f"signing the log; what was signed last is kept in {service.mark.path}")
        sys.stdout.flush()
        stopped.wait()
        service.stop()
    return Exit.OK


def checkpoint(arguments: argparse.Namespace) -> int:
    """Sign what is under no checkpoint yet, and ask the witnesses once."""
    with _service(arguments) as (_, service):
        assert service.writer is not None, "it was given a key"
        made = service.writer.checkpoint()
        answers = [service.ask(witness) for witness in service.witnesses]
        latest = service.tree.latest()
    values: dict[str, Any] = {"new": made is not None, "checkpoint": latest.serialize().decode() if latest else None}
    values["witnesses"] = {one.witness: {"result": one.result.value, "words": one.words} for one in answers}
    if arguments.json:
        print_json(values)
    else:
        print_text("a new checkpoint" if made else "nothing was added since the last checkpoint")
        print_text(values["checkpoint"] or "")
        for one in answers:
            print_text(f"witness {one.witness}: {one.result.value}{f' ({one.words})' if one.words else ''}")
    return Exit.FOUND if any(one.is_alarm for one in answers) else Exit.OK


def publish(arguments: argparse.Namespace) -> int:
    """Write the log as static files."""
    from interlock.errors import InvalidConfiguration
    from interlock.infrastructure.high_water import alone, write_durably
    from interlock.projections.log.publishing import publish as write_files
    from interlock.projections.log.tree import TransparencyLog

    def write(path: Path, data: bytes) -> None:
        write_durably(path, data, mode=0o644)

    folder = Path(arguments.folder)
    with _journal(arguments) as journal:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # The slower of two would put its older checkpoint over the newer: to a monitor, a log that was rolled back.
            with alone(folder / ".publishing"):
                made = write_files(TransparencyLog(journal), folder, write)
        except OSError as error:
            words = f"{folder} can't be written: {error.strerror}; the checkpoint there is the one before, with all its files"
            raise InvalidConfiguration(words) from error
    if arguments.json:
        print_json({"origin": made.origin, "size": made.size, "folder": arguments.folder})
    else:
        print_text(f"{made.origin}: {made.size} entries in {arguments.folder}")
    return Exit.OK


def rebuild(arguments: argparse.Namespace) -> int:
    """Make the tree again from the leaves."""
    from interlock.projections.log.writing import rebuild as make_again

    with _journal(arguments) as journal:
        size = make_again(journal)
    print_json({"size": size}) if arguments.json else print_text(
        f"the tree over {size} leaves was made again, and is what was signed"
    )
    return Exit.OK


def new_epoch(arguments: argparse.Namespace) -> int:
    """Begin a new epoch after a restore, or take over one that was begun on another machine."""
    from interlock.evidence.checkpoints import Checkpoint

    with _service(arguments) as (_, service):
        assert service.writer is not None, "it was given a key"
        note = service.writer.start_epoch() if arguments.after_restore else service.writer.accept_epoch()
        log = service.tree.state()
    made = Checkpoint.parse(note.text)
    assert log is not None, "a checkpoint was signed for it"
    if arguments.json:
        print_json({"origin": made.origin, "size": made.size, "vkeys": list(log.vkeys)})
        return Exit.OK
    print_text(f"the log is {made.origin} now, and its first checkpoint covers {made.size} events")
    print_text("put this line into the policies of those who rely on it, and tell the witnesses:")
    for vkey in log.vkeys:
        print_text(f"log {vkey}")
    return Exit.OK


def status(arguments: argparse.Namespace) -> int:
    """Say who the log is, what it has signed, and who has cosigned."""
    from interlock.projections.log.tree import TransparencyLog

    with _journal(arguments) as journal:
        tree = TransparencyLog(journal)
        log, last, size = tree.state(), tree.store.last_checkpoint(), journal.backlog().events
        signed = last.checkpoint.size if last else 0
        cosigned = tree.store.cosigned_sizes(last.checkpoint.origin) if last else []
        pending_s = _pending_s(journal, signed) if last else None
        names = [line.split(" ")[1] for line in tree.store.cosignatures(cosigned[0])] if cosigned else []
    values = {
        "origin": log.origin if log else None,
        "epoch": log.epoch if log else None,
        "vkeys": list(log.vkeys) if log else [],
        "events": size,
        "signed": signed,
        "signed_at": last.made_at if last else None,
        "pending_s": pending_s,
        "cosigned": cosigned[0] if cosigned else 0,
        "cosigned_by": names,
        "rotations": [{"role": one.role, "old": one.old, "new": one.new} for one in log.rotations] if log else [],
    }
    late = arguments.max_pending is not None and (pending_s or 0.0) > arguments.max_pending
    code = Exit.FOUND if late or (arguments.max_pending is not None and not last) else Exit.OK
    if arguments.json:
        print_json(values)
        return code
    if log is None:
        print_text(f"nobody has begun to sign this journal; {size} events")
        return code
    print_text(f"{log.origin}, epoch {log.epoch}: {size} events, {signed} of them under a checkpoint, {size - signed} pending")
    print_text(f"cosigned: {cosigned[0]} by {', '.join(names)}" if cosigned else "cosigned: none")
    if pending_s is not None:
        print_text(f"the oldest event that is under no checkpoint has waited for {pending_s:.0f} s")
    for vkey in log.vkeys:
        print_text(f"log {vkey}")
    return code


def _pending_s(journal: Journal, signed: int) -> float | None:
    """Return for how long the oldest event that is under no checkpoint has waited; None where there is none."""
    backlog = journal.backlog()
    rows = [*journal.rows(after=signed, limit=1), backlog.unplaced, backlog.oldest_held]
    states = [row for row in rows if row is not None and row.state is not None]
    if not states:
        return None
    began = min(journal.domain_event(row).timestamp for row in states)
    return float(max(0.0, (journal.clock().now() - began).total_seconds()))


def create_key(arguments: argparse.Namespace) -> int:
    """Make a key."""
    from interlock import keyfiles
    from interlock.errors import InvalidConfiguration, InvalidInput
    from interlock.evidence.attestors import Attestor, Attestors
    from interlock.infrastructure.high_water import write_durably

    role = keyfiles.Role(arguments.role)
    if arguments.attestors is not None and role is not keyfiles.Role.ATTESTOR:
        raise InvalidInput("only an attestor's key goes into a list of attestors; nothing was made")
    path = None if arguments.attestors is None else Path(arguments.attestors)
    before = _attestors_of(path).keys if path is not None and path.exists() else ()
    made = keyfiles.create_key(role, Path(arguments.folder), arguments.name_of_key or "")
    if path is not None:
        listed = Attestors((*before, Attestor(keyfiles.read_attestor_key(made.path).verifier)))
        try:
            write_durably(path, listed.serialize(), mode=0o644)
        except OSError as error:
            words = f"{path} can't be changed: {error.strerror}; {made.path} was made, and is not in it"
            raise InvalidConfiguration(words) from error
    _print_key(made, as_json=arguments.json)
    return Exit.OK


def list_keys(arguments: argparse.Namespace) -> int:
    """List keys, without their secrets."""
    from interlock import keyfiles

    keys = keyfiles.list_keys(Path(arguments.folder))
    if arguments.json:
        print_json({"keys": [_key_values(key) for key in keys]})
    else:
        print_table(
            ("role", "name", "file", "public"), [(key.role.value, key.name, key.path.name, key.public) for key in keys], "no keys"
        )
    return Exit.OK


def rotate_key(arguments: argparse.Namespace) -> int:
    """Make a key, and put it in the place of another one, in an event that both sign."""
    from interlock import keyfiles
    from interlock.infrastructure.high_water import write_durably
    from interlock.log import rotation

    old_path = Path(arguments.key_file)
    old = keyfiles.describe_key(old_path)
    path = None if arguments.attestors is None else Path(arguments.attestors)
    listed = None if path is None else _attestors_with(old, path)
    if old.role is keyfiles.Role.WITNESS:
        say("interlock keys rotate: a witness's key is no part of a journal; make a new one, and tell whose policies name it")
        return Exit.USAGE
    with _journal(arguments) as journal:
        clock = journal.clock()
        new = keyfiles.create_key(old.role, old_path.parent, old.name)
        if old.role is keyfiles.Role.LOG:
            keys = keyfiles.read_log_key(old_path), keyfiles.read_log_key(new.path)
            index = rotation.rotate_log_key(journal, *keys, clock)
        else:
            pair = keyfiles.read_attestor_key(old_path), keyfiles.read_attestor_key(new.path)
            index = rotation.rotate_attestor_key(journal, *pair, clock)
    if path is not None and listed is not None:
        after = listed.rotated(old.key_id, keyfiles.read_attestor_key(new.path).verifier, index)
        try:
            write_durably(path, after.serialize(), mode=0o644)
        except OSError as error:
            say(f"interlock keys rotate: {path} can't be changed: {error.strerror}")
            say(f"  done: {new.path} took the place of {old_path}, by the event at index {index}; do not rotate again")
            say(f"  next: end the old key in the list at that index by hand, and add the new one from there on: {new.public}")
            return Exit.FOUND
    if arguments.json:
        print_json({"index": index, **_key_values(new)})
        return Exit.OK
    print_text(f"{new.path} takes the place of {old_path}, by the event at index {index}")
    print_text(f"public key: {new.public}" if old.role is keyfiles.Role.ATTESTOR else _after_rotation(old_path))
    return Exit.OK


def _after_rotation(old_path: Path) -> str:
    return f"sign with both (--old-key {old_path}) until every policy names the new one, which `interlock log status` prints"


def _attestors_with(old: KeyFile, path: Path) -> Attestors:
    """Return the list that a key is to be replaced in: before anything is written, since a rotation can't be taken back.

    Raises:
        InvalidInput: the key is no attestor's, or not in the list.
    """
    from interlock import keyfiles
    from interlock.errors import InvalidInput

    if old.role is not keyfiles.Role.ATTESTOR:
        raise InvalidInput("only an attestor's key is in a list of attestors; nothing was rotated")
    listed = _attestors_of(path)
    if not listed.has_in_use(old.key_id):
        raise InvalidInput(f"{path} has no key {old.key_id} in use; nothing was rotated")
    return listed


def _attestors_of(path: Path) -> Attestors:
    """Read a list of attestors.

    Raises:
        InvalidConfiguration: it can't be read, or is none.
    """
    from interlock.errors import InvalidConfiguration, MalformedEvidence
    from interlock.evidence.attestors import Attestors

    try:
        return Attestors.parse(path.read_bytes())
    except OSError as error:
        raise InvalidConfiguration(f"{path} can't be read: {error.strerror}; no key was made or rotated") from error
    except MalformedEvidence as error:
        raise InvalidConfiguration(f"{path}: {error}; no key was made or rotated") from error


def _print_key(key: Any, *, as_json: bool) -> None:
    if as_json:
        print_json(_key_values(key))
        return
    print_text(f"{key.path}")
    print_text(f"public key: {key.public}")


def _key_values(key: Any) -> dict[str, str]:
    return {"role": key.role.value, "name": key.name, "file": str(key.path), "public": key.public, "key_id": key.key_id}


@contextmanager
def _journal(arguments: argparse.Namespace) -> Generator[Journal]:
    from interlock.infrastructure.opening import open_journal

    with open_journal(arguments.journal, create=False) as journal:
        yield journal


@contextmanager
def _service(arguments: argparse.Namespace) -> Generator[tuple[Journal, LogService]]:
    from interlock.log.config import LogConfig
    from interlock.log.service import LogService

    given = {name: getattr(arguments, name) for name in ("every_events", "every_s") if getattr(arguments, name, None) is not None}
    config = LogConfig(
        key_file=arguments.key_file,
        old_key_file=arguments.old_key_file,
        policy_file=arguments.policy,
        high_water=arguments.high_water,
        **given,
    )
    with _journal(arguments) as journal:
        yield journal, LogService(journal, config, journal.clock())

"""The commands for receipts that leave the house: `receipt export`, and `verify-receipt`, which has no journal."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.cli.output import Exit, print_json, print_table, print_text
from interlock.cli.reading import open_reader

if TYPE_CHECKING:
    from interlock.evidence.bundles import Bundle, Claim
    from interlock.evidence.findings import About, ReceiptVerification
    from interlock.evidence.tiles import Tile
    from interlock.evidence.verifying import Trust

OK, INVALID, UNVERIFIABLE, STALE = 0, 1, 3, 4
"""The exit codes of `verify-receipt`, which keep apart what is wrong, what could not be checked, and what is old."""

_MAX_FILE_BYTES = 8 << 20


def export(arguments: argparse.Namespace) -> int:
    """Write a receipt for somebody who has no journal."""
    from interlock.errors import InvalidInput
    from interlock.infrastructure.high_water import write_durably
    from interlock.keyfiles import read_attestor_key

    policy = None if arguments.policy is None else _trust(arguments.policy, None).policy
    attestor = read_attestor_key(Path(arguments.attestor_key))
    with open_reader(arguments) as reader:
        bundle = reader.export_receipt(arguments.key, attestor=attestor, withhold=arguments.withhold or (), policy=policy)
    try:
        if arguments.split is not None:
            _write_all(Path(arguments.split), bundle.split())
        if arguments.out is not None:
            write_durably(Path(arguments.out), bundle.serialize(), mode=0o644)
    except OSError as error:
        raise InvalidInput(f"the receipt can't be written: {error.strerror}") from error
    if arguments.out is None and arguments.split is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(bundle.serialize())
        return Exit.OK
    _say_what_was_written(arguments, bundle)
    return Exit.OK


def verify(arguments: argparse.Namespace) -> int:
    """Check a receipt, with nothing but what is trusted."""
    from interlock.evidence.verifying import Known, verify_receipt

    trust = _trust(arguments.policy, arguments.attestors)
    known = Known(
        now_s=time.time(),
        max_age_s=arguments.max_age,
        checkpoints=[_read(path) for path in arguments.checkpoint or ()],
        others=[_read(path) for path in arguments.other or ()],
        entries=None if arguments.log is None else _entries(Path(arguments.log)),
    )
    found = verify_receipt(_read(arguments.file), trust, known)
    if arguments.json:
        print_json(found.to_dict())
    else:
        _print(found)
    return _code_of(found)


def _code_of(found: ReceiptVerification) -> int:
    from interlock.evidence.findings import Verdict

    codes = {Verdict.INVALID: INVALID, Verdict.UNVERIFIABLE: UNVERIFIABLE, Verdict.STALE: STALE}
    return codes.get(found.verdict, OK)


def _print(found: ReceiptVerification) -> None:
    if found.claim is not None:
        print_text(_headline(found.claim, found.evidence))
    if found.about is not None:
        print_text(_about(found.about))
    rows = [
        (
            f"{event.of} {event.n}",
            event.event,
            "-" if event.index is None else str(event.index),
            event.state.value,
            "-" if event.claimed_at is None else event.claimed_at.isoformat(timespec="seconds"),
            "-" if event.not_before is None else event.not_before.isoformat(timespec="seconds"),
            "-" if event.not_after is None else event.not_after.isoformat(timespec="seconds"),
        )
        for event in found.events
    ]
    if rows:
        print_table(("EVENT", "WHAT", "INDEX", "STATE", "CLAIMED AT", "NOT BEFORE", "NOT AFTER"), rows, "")
    findings = [(one.verdict.name.lower(), one.kind.value, one.words) for one in found.findings]
    print_table(("VERDICT", "CHECK", "WORDS"), findings, "nothing was checked")
    print_text(f"{found.verdict.name.lower()}; completeness: {found.completeness.value}; evidence: {found.evidence}")


def _headline(claim: Claim, evidence: str) -> str:
    how = "".join(f", {word}" for word in (claim.via, claim.door) if word is not None)
    return f"{claim.status}  action {claim.action}  happened: {claim.happened or 'erased'} ({evidence}){how}"


def _about(about: About) -> str:
    amount = "" if about.amount_minor is None else f" of {about.amount_minor} {about.currency} (minor units)"
    reference = "" if about.reference is None else f"; the provider's reference, as the gate has it: {about.reference}"
    return f"{about.key}: {about.target} on {about.subject}{amount}, under approval {about.approval}{reference}"


def _say_what_was_written(arguments: argparse.Namespace, bundle: Bundle) -> None:
    pending = sum(proof is None for proof in bundle.proofs)
    written = [str(path) for path in (arguments.out, arguments.split) if path is not None]
    if arguments.json:
        print_json({"written": written, "events": len(bundle.records), "pending": pending})
        return
    state = f"{pending} of {len(bundle.records)} events are pending: no checkpoint covers them yet" if pending else "logged"
    print_text(f"written to {' and '.join(written)}; {state}")


def _trust(policy: str, attestors: str | None) -> Trust:
    """Read what is trusted.

    Raises:
        InvalidConfiguration: a file of it is missing, or none of its kind.
    """
    from interlock.errors import InvalidConfiguration, MalformedEvidence
    from interlock.evidence.attestors import Attestors
    from interlock.evidence.policies import Policy
    from interlock.evidence.verifying import Trust

    try:
        return Trust(Policy.parse(_read(policy)), None if attestors is None else Attestors.parse(_read(attestors)))
    except MalformedEvidence as error:
        raise InvalidConfiguration(f"what is to be trusted can't be read: {error}; nothing was checked") from error


def _read(path: str) -> bytes:
    """Return a file's bytes, and of one that is too large only enough to see that it is.

    Raises:
        InvalidInput: it can't be read.
    """
    from interlock.errors import InvalidInput

    try:
        with Path(path).open("rb") as file:
            return file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"{path} can't be read: {error.strerror}; nothing was checked") from error


def _entries(folder: Path) -> Iterator[bytes]:
    """Yield all entries of a copy of the log, as `interlock log publish` writes it (c2sp.org/tlog-tiles).

    Raises:
        MalformedEvidence: the copy can't be read, which says nothing about the receipt.
    """
    from interlock.errors import MalformedEvidence
    from interlock.evidence.tiles import TILE_WIDTH, Tile

    index = 0
    try:
        while (folder / Tile(None, index).path).is_file():
            yield from _bundle(folder, Tile(None, index))
            index += 1
        # The widest one; what else stands there, such as a file that is being written, is none of the log's.
        partials = [Tile(None, index, width) for width in range(TILE_WIDTH - 1, 0, -1)]
        widest = next((tile for tile in partials if (folder / tile.path).is_file()), None)
        if widest is not None:
            yield from _bundle(folder, widest)
    except OSError as error:
        raise MalformedEvidence(f"{error.filename or folder}: {error.strerror}") from error


def _bundle(folder: Path, tile: Tile) -> tuple[bytes, ...]:
    from interlock.evidence.tiles import MAX_ENTRY_BYTES, TILE_WIDTH, decode_bundle

    with (folder / tile.path).open("rb") as file:
        return decode_bundle(tile, file.read(TILE_WIDTH * (MAX_ENTRY_BYTES + 2) + 1))


def _write_all(folder: Path, files: dict[str, bytes]) -> None:
    """Write files into a folder that is new or empty, so that none of another receipt stays among them.

    Raises:
        InvalidInput: there is something in it.
    """
    from interlock.errors import InvalidInput

    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise InvalidInput(f"{folder} is not empty; nothing was written, name another folder")
    for name, data in files.items():
        (folder / name).write_bytes(data)

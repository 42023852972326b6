"""The commands that bring actions to their end, with the targets that are named to them."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

from interlock.cli.output import Exit, code_of, outcome_values, print_json, print_pass, print_report, print_text, say, words_of
from interlock.cli.reading import open_reader

if TYPE_CHECKING:
    from interlock.cli.awaiting import AwaitedGate
    from interlock.driver import AnyTarget
    from interlock.gate import Gate
    from interlock.outcomes import Report

TARGETS_VARIABLE = "INTERLOCK_TARGETS"


def recover(arguments: argparse.Namespace) -> int:
    """Bring actions in flight to their end: once, or until a signal comes."""
    with _gate(arguments, targets_of(arguments)) as gate:
        if arguments.watch:
            return _watch(gate, as_json=arguments.json)
        return _told(gate.recover(arguments.key), arguments)


def reconcile(arguments: argparse.Namespace) -> int:
    """Ask the providers again about endings that are not certain."""
    with _gate(arguments, targets_of(arguments)) as gate:
        return _told(gate.reconcile(arguments.key), arguments)


def resolve(arguments: argparse.Namespace) -> int:
    """Let a person decide an ambiguous action."""
    targets = targets_of(arguments)
    with _gate(arguments, targets) as gate:
        name = gate.receipt(arguments.key).target
        if not arguments.happened and all(target.name != name for target in targets):
            say(f"interlock resolve: target {name!r} was not given with --targets, so the provider is not asked once more")
        outcome = gate.resolve(
            arguments.key,
            happened=arguments.happened,
            by=arguments.by,
            note=arguments.note,
            despite_roll_forward=arguments.despite_roll_forward,
        )
    if arguments.json:
        print_json(outcome_values(outcome))
    else:
        print_text(outcome.receipt.to_text())
    return code_of([outcome])


def _told(report: Report, arguments: argparse.Namespace) -> int:
    print_report(report, as_json=arguments.json)
    if report.failed:
        return Exit.FOUND
    return Exit.OPEN if report.skipped else code_of(report.outcomes)


class _Stopped(BaseException):
    """SIGTERM or SIGINT came. No error: nothing that handles errors may take it for one."""


def _watch(gate: Gate | AwaitedGate, *, as_json: bool) -> int:
    """Recover until a signal comes, and then end what is being sent, and no more.

    The passes run on a thread, so that the signal finds this one where it does nothing but wait.
    """
    from interlock.outcomes import InFlight

    def told(report: Report) -> None:
        # Losing an action to another node is what happens where nodes share the work.
        if report.skipped or report.failed or not all(isinstance(one, InFlight) for one in report.outcomes):
            print_pass(report, datetime.now(UTC), as_json=as_json)

    errors: list[BaseException] = []

    def serve() -> None:
        try:
            gate.recover_forever(on_pass=told)
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    passes = threading.Thread(target=serve, name="interlock-recover", daemon=True)
    with _stopped_by(signal.SIGTERM, signal.SIGINT):
        try:
            passes.start()
            passes.join()
        except _Stopped:
            say("interlock recover: stopping after what is being sent; a second signal ends it at once")
    gate.stop()
    passes.join()
    if errors:
        raise errors[0]
    return Exit.OK


@contextmanager
def _stopped_by(*signals: signal.Signals) -> Generator[None]:
    def stop(number: int, frame: object) -> None:
        del number, frame
        raise _Stopped

    before = {number: signal.signal(number, stop) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _gate(arguments: argparse.Namespace, targets: Sequence[AnyTarget]) -> Gate | AwaitedGate:
    from interlock.config import GateConfig
    from interlock.domain.ports import Target
    from interlock.domain.sending import CLAIM_MARGIN_S
    from interlock.gate import Gate
    from interlock.log.config import BEFORE_DISPATCH, LogConfig

    with open_reader(arguments):
        pass  # a gate makes the journal where there is none, and a mistyped path must not look like a journal with nothing to do
    # The targets' own program may work with a longer time to live, which the journal does not know.
    deadlines_s = [target.capabilities.send_deadline_s + CLAIM_MARGIN_S for target in targets]
    config = GateConfig(claim_ttl_s=max([GateConfig().claim_ttl_s, *deadlines_s]))
    log = LogConfig(policy_file=arguments.anchor_policy, anchor=BEFORE_DISPATCH) if arguments.anchor_policy else None
    called = [target for target in targets if isinstance(target, Target)]
    if len(called) == len(targets):
        return Gate.open(arguments.journal, targets=called, config=config, log=log)
    from interlock.async_gate import AsyncGate
    from interlock.cli.awaiting import AwaitedGate

    return AwaitedGate(AsyncGate.open(arguments.journal, targets=targets, config=config, log=log))


def targets_of(arguments: argparse.Namespace) -> list[AnyTarget]:
    """Return the targets that are named to the command, or in the environment."""
    places: list[str] = arguments.targets or os.environ.get(TARGETS_VARIABLE, "").replace(",", " ").split()
    here = str(Path.cwd())
    if places and here not in sys.path:
        sys.path.insert(0, here)  # `python -m` looks here too; a console script does not
    return [target for place in places for target in _targets_at(place)]


def _targets_at(place: str) -> list[AnyTarget]:
    from interlock.domain.ports import AsyncTarget, Target
    from interlock.errors import InvalidConfiguration

    found = _load(place)
    several: Iterable[object] = cast("Iterable[object]", found) if isinstance(found, Iterable) else [found]
    targets = list(several)
    if not targets or not all(isinstance(target, Target | AsyncTarget) for target in targets):
        raise InvalidConfiguration(f"{place} is no target, nor several, nor a function without arguments that returns them")
    return cast("list[AnyTarget]", targets)


def _load(place: str) -> object:
    from importlib import import_module

    from interlock.errors import InterlockError, InvalidConfiguration

    module, colon, attribute = place.partition(":")
    if not (module and colon and attribute):
        raise InvalidConfiguration(f"targets are named by MODULE:ATTRIBUTE, not {place!r}")
    try:
        found: object = getattr(import_module(module), attribute)
        made: object = found() if callable(found) else found
    except InterlockError:
        raise
    except Exception as error:
        raise InvalidConfiguration(f"{place} can't be loaded: {words_of(error)}") from error
    return made

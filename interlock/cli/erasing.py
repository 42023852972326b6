"""The command that gives up what an action or an approval was about."""

from __future__ import annotations

import argparse

from interlock.cli.output import Exit, print_json, print_text
from interlock.cli.reading import open_reader


def erase(arguments: argparse.Namespace) -> int:
    """Erase one action, and show what is left of its receipt; or one approval."""
    from interlock.errors import InvalidInput
    from interlock.gate import Gate

    if (arguments.key is None) is (arguments.approval is None):
        raise InvalidInput("name the key of an action, or an approval with --approval")

    with open_reader(arguments):
        pass  # a gate makes the journal where there is none, and a mistyped path must not look like an empty journal
    with Gate.open(arguments.journal) as gate:
        if arguments.key is None:
            gate.erase_approval(arguments.approval, reason=arguments.reason, by=arguments.by)
            print_json({"erased": True}) if arguments.json else print_text("the approval was erased; its id stays taken")
            return Exit.OK
        left = gate.erase(arguments.key, reason=arguments.reason, by=arguments.by)
    if arguments.json:
        print_json(left.to_dict())
    else:
        print_text(left.to_text())
    return Exit.OK

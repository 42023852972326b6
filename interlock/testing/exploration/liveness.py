"""Which local variables of a suspended generator can still be read, from its bytecode.

Two suspended runs that differ only in variables that nobody reads again behave alike from there on.
"""

from __future__ import annotations

import dis
from functools import cache
from itertools import zip_longest
from types import CodeType
from typing import Any, cast

_NO_FALL_THROUGH = frozenset(
    (
        "JUMP_FORWARD",
        "JUMP_BACKWARD",
        "JUMP_BACKWARD_NO_INTERRUPT",
        "JUMP_NO_INTERRUPT",
        "RETURN_VALUE",
        "RETURN_CONST",
        "RAISE_VARARGS",
        "RERAISE",
    )
)
_NONE: frozenset[str] = frozenset()
_CONSTANT = ("id", "intent", "key")
"""What is the same of every action here, so that reading it tells nothing."""
_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))


def live_names(code: CodeType, lasti: int) -> frozenset[str]:
    """Return the variables of `code` that may be read after the instruction at `lasti`.

    Args:
        code: the code of a suspended frame.
        lasti: its `f_lasti`.
    """
    return _live_after(code)[lasti]


@cache
def read_names(code: CodeType) -> frozenset[str]:
    """Return the variables that `code` reads anywhere; of a closure, what it reads of the variables around it."""
    reads, _ = _uses(list(dis.get_instructions(code)))
    return _NONE.union(*reads)


@cache
def only_returns(code: CodeType, lasti: int) -> bool:
    """Whether the frame does nothing more than hand on what the generator that it waits for returns.

    Args:
        code: the code of a suspended frame.
        lasti: its `f_lasti`.
    """
    instructions = list(dis.get_instructions(code))
    place = next(number for number, instruction in enumerate(instructions) if instruction.offset == lasti)
    while instructions[place].opname != "SEND":
        place -= 1
    after = next(number for number, each in enumerate(instructions) if each.offset == instructions[place].argval)
    while instructions[after].opname in ("END_SEND", "NOP"):
        after += 1
    openers = {each.offset: each.opname for each in instructions}
    guarded = any(
        # From 3.12 on every generator ends in a handler that turns a StopIteration of its own into an error.
        entry.start <= lasti < entry.end and openers[entry.target] not in ("CALL_INTRINSIC_1", "CLEANUP_THROW")
        for entry in _handlers(code)
    )
    return instructions[after].opname == "RETURN_VALUE" and not guarded


@cache
def _live_after(code: CodeType) -> dict[int, frozenset[str]]:
    instructions = list(dis.get_instructions(code))
    place = {instruction.offset: number for number, instruction in enumerate(instructions)}
    reads, writes = _uses(instructions)
    successors = _successors(code, instructions, place)
    live_in: list[frozenset[str]] = [frozenset()] * len(instructions)
    live_out = list(live_in)
    changed = True
    while changed:
        changed = False
        for number in range(len(instructions) - 1, -1, -1):
            out = _NONE.union(*(live_in[successor] for successor in successors[number]))
            into = reads[number] | (out - writes[number])
            if out != live_out[number] or into != live_in[number]:
                live_out[number], live_in[number], changed = out, into, True
    return {instruction.offset: live_out[number] for number, instruction in enumerate(instructions)}


def _handlers(code: CodeType) -> list[Any]:
    """Return which instructions are covered by which handlers."""
    handlers: list[Any] = vars(dis.Bytecode(code))["exception_entries"]  # missing in typeshed
    return handlers


def _uses(instructions: list[dis.Instruction]) -> tuple[list[frozenset[str]], list[frozenset[str]]]:
    reads: list[frozenset[str]] = []
    writes: list[frozenset[str]] = []
    for instruction, following in zip_longest(instructions, instructions[1:]):
        read = written = _NONE
        names = _names(instruction)
        if instruction.opname == "STORE_FAST_LOAD_FAST":
            written, read = frozenset(names[:1]), frozenset(names[1:]) - frozenset(names[:1])
        elif instruction.opname.startswith(("LOAD_FAST", "LOAD_DEREF")):
            read = _NONE if len(names) == 1 and _takes_a_constant(following) else frozenset(names)
        elif instruction.opname.startswith(("STORE_FAST", "STORE_DEREF")):
            written = frozenset(names)
        elif instruction.opname == "FOR_ITER" and following is not None and following.opname.startswith("STORE_FAST"):
            # The iterator lies on the frame's stack, where nobody can see it; the loop's variable stands for it.
            read = frozenset(_names(following)[:1])
        reads.append(read)
        writes.append(written)
    return reads, writes


def _names(instruction: dis.Instruction) -> tuple[str, ...]:
    """Return the variables that an instruction is about: from Python 3.13 on, one may load or store two."""
    several = type(instruction.argval) is tuple
    return cast("tuple[str, ...]", instruction.argval) if several else (cast("str", instruction.argval),)


def _takes_a_constant(following: dis.Instruction | None) -> bool:
    return following is not None and following.opname in ("LOAD_ATTR", "LOAD_METHOD") and following.argval in _CONSTANT


def _successors(code: CodeType, instructions: list[dis.Instruction], place: dict[int, int]) -> list[list[int]]:
    successors: list[list[int]] = []
    for number, instruction in enumerate(instructions):
        following = [number + 1] if instruction.opname not in _NO_FALL_THROUGH and number + 1 < len(instructions) else []
        if instruction.opcode in _JUMPS:
            following.append(place[instruction.argval])
        successors.append(following)
    for entry in _handlers(code):
        for number, instruction in enumerate(instructions):
            if entry.start <= instruction.offset < entry.end:
                successors[number].append(place[entry.target])
    return successors

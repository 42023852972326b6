import ast
import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import interlock
from interlock import errors

PUBLIC = [
    "Absent",
    "AlreadyUsed",
    "Ambiguous",
    "Answer",
    "ApprovalSource",
    "ApprovalView",
    "AsyncFunctionTarget",
    "AsyncGate",
    "AsyncTarget",
    "BookEntry",
    "Books",
    "BurnAnswer",
    "Burned",
    "CannotTell",
    "CapabilityProfile",
    "Change",
    "ChangeKind",
    "Committed",
    "Cursor",
    "DataclassCodec",
    "Deadline",
    "Declined",
    "Done",
    "Effect",
    "EffectCodec",
    "EventBatch",
    "Evidence",
    "ExternalApproval",
    "ExternalTerms",
    "Facts",
    "Follower",
    "Found",
    "FunctionTarget",
    "Gate",
    "GateConfig",
    "InFlight",
    "InProgress",
    "Judgement",
    "KeyState",
    "Lag",
    "LogConfig",
    "LogEvent",
    "LookupAnswer",
    "Money",
    "NotSent",
    "Outcome",
    "Premise",
    "PremisePolicy",
    "Purpose",
    "Receipt",
    "ReceiptPage",
    "Receipts",
    "Refused",
    "Report",
    "Settlement",
    "Target",
    "Unknown",
    "Verification",
    "__version__",
    "facts_text",
    "target",
]
"""A name that is added or taken away is a change for users: it goes into CHANGELOG.md with this list."""

NEEDS_NO_WORDS = {
    "interlock.projections.verification.LogRow": "its properties are the columns that ADR 2 names",
}


def _modules() -> Iterator[ModuleType]:
    yield interlock
    for found in pkgutil.walk_packages(interlock.__path__, "interlock."):
        yield importlib.import_module(found.name)


def _members(owner: ModuleType | type, module: str, name: str) -> Iterator[tuple[str, Any]]:
    """Yield every public class, function, method and property that is defined here, with those inside it."""
    for short, value in vars(owner).items():
        inner = getattr(value, "__func__", value)
        is_code = inspect.isfunction(inner) or inspect.isclass(inner) or isinstance(inner, property)
        here = getattr(inner, "__module__", module) == module and getattr(inner, "__name__", short) == short
        if short.startswith("_") or not is_code or not here:
            continue
        yield f"{name}.{short}", inner
        if inspect.isclass(inner) and f"{name}.{short}" not in NEEDS_NO_WORDS:
            yield from _members(inner, module, f"{name}.{short}")


def _documented(name: str, value: Any) -> bool:
    # `inspect.getdoc` would inherit: what counts are the words at the thing itself. A dataclass without words gets its signature.
    said = value.__doc__ or ""
    return bool(said.strip()) and not said.startswith(f"{name.rpartition('.')[2]}(")


def _type_checking_block() -> dict[str, str]:
    """Return what a type checker sees: public name to `module:attribute`, below `interlock`."""
    tree = ast.parse(inspect.getsource(interlock))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {}
    for node in block.body:
        if isinstance(node, ast.AnnAssign):
            continue  # __version__, which is no module's
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            seen[alias.asname or ""] = f"{(node.module or '').removeprefix('interlock.')}:{alias.name}"
    return seen


def _drawn_tree() -> dict[str, str | None]:
    """Return the tree in the docstring of `errors`: each class with the one it is drawn under."""
    parents: dict[str, str | None] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        words = line.lstrip(" │├└─").split()
        if not words or not line.startswith("    "):
            continue
        depth = len(line) - len(line.lstrip(" │├└─"))
        above = [(column, name) for column, name in above if column < depth]
        parents[words[0]] = above[-1][1] if above else None
        above.append((depth, words[0]))
    return parents


def test_the_public_names_are_these() -> None:
    """`interlock.__all__` is the list above: no name comes or goes by accident."""
    assert sorted(interlock.__all__) == PUBLIC
    assert sorted(dir(interlock)) == PUBLIC


def test_every_public_name_can_be_had() -> None:
    """Each public name resolves, and a name that is none raises AttributeError."""
    assert all(getattr(interlock, name) is not None for name in interlock.__all__)
    assert not hasattr(interlock, "Gateway")


def test_names_are_loaded_when_they_are_used() -> None:
    """`import interlock` loads no other module of the package; a name loads what it needs, and stands in the module then."""
    script = (
        "import json, sys, interlock\n"
        "before = [name for name in sys.modules if name.startswith('interlock.')]\n"
        "gate = interlock.Gate\n"
        "print(json.dumps([before, 'interlock.gate' in sys.modules, vars(interlock)['Gate'] is gate]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[], True, True]


def test_type_checkers_see_what_is_loaded() -> None:
    """The names under TYPE_CHECKING are the same, from the same modules, as those that are loaded on use."""
    loaded = {}
    for name, place in interlock._WHERE.items():
        module, _, attribute = place.partition(":")
        loaded[name] = f"{module}:{attribute or name}"
    assert _type_checking_block() == loaded


def test_the_tree_of_errors_is_as_drawn() -> None:
    """The tree in the docstring of `errors` is the hierarchy of its classes, each under its own base."""
    classes = {name: value for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, Exception)}
    real = {name: value.__bases__[0].__name__ for name, value in classes.items()}
    assert _drawn_tree() == {**real, "InterlockError": None}


def test_everything_public_has_a_docstring() -> None:
    """Every public class, function, method and property of the package says what it is."""
    members = [found for module in _modules() for found in _members(module, module.__name__, module.__name__)]
    assert len(members) > 100
    assert [name for name, value in members if not _documented(name, value)] == []


def test_every_module_has_a_docstring() -> None:
    """Every module of the package says what it is for."""
    assert [module.__name__ for module in _modules() if not module.__doc__] == []

"""Where test data is: other projects' vectors, read where they lie, and small ones of our own.

The others' are no part of this repository. INTERLOCK_VECTORS names their folder; without it, `shared/vectors` beside the
checkout is looked for, and where that is not there either, what needs them is skipped, and says so.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "INTERLOCK_VECTORS"
ROOT = Path(__file__).resolve().parents[1]
OWN = ROOT / "tests" / "unit" / "vectors" / "evidence.json"


def folder() -> Path:
    """Return where the vectors of other projects should be."""
    return Path(os.environ.get(VARIABLE) or ROOT.parent / "shared" / "vectors")


def vectors(name: str) -> dict[str, Any]:
    """Return the content of a file of vectors, or skip the test that asks."""
    path = folder() / name
    if not path.is_file():
        pytest.skip(f"the vectors {name} are not in {folder()}: name their folder in {VARIABLE}")
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def each_case(
    name: str,
    *,
    key: Callable[[dict[str, Any]], str],
    only: Callable[[dict[str, Any]], bool] = lambda _: True,
    skipped: dict[str, str] | None = None,
) -> pytest.MarkDecorator:
    """Parametrize a test with `case`, once for each case of a file; those that are skipped are so by name, with a reason."""
    path = folder() / name
    if not path.is_file():
        why = f"the vectors {name} are not there: name their folder in {VARIABLE}"
        return pytest.mark.parametrize("case", [pytest.param({}, id=name, marks=pytest.mark.skip(reason=why))])
    reasons = skipped or {}
    parameters = []
    for case in filter(only, json.loads(path.read_text(encoding="utf-8"))["cases"]):
        marks = [pytest.mark.skip(reason=reasons[key(case)])] if key(case) in reasons else []
        parameters.append(pytest.param(case, id=key(case), marks=marks))
    return pytest.mark.parametrize("case", parameters)


def own() -> dict[str, Any]:
    """Return our own vectors, which harness/make_vectors.py makes."""
    loaded: dict[str, Any] = json.loads(OWN.read_text(encoding="utf-8"))
    return loaded


def unbase64(text: str | None) -> bytes:
    """Decode base64, as vectors hold it: None is nothing."""
    return base64.b64decode(text or "")


def hashes(texts: list[str] | None) -> list[bytes]:
    """Decode an array of hashes."""
    return [unbase64(text) for text in texts or []]

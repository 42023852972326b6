"""What checks evidence needs nothing of what made it."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys

import pytest

import interlock.evidence

BARRED = {"asyncio", "eventsourcing", "msgspec", "psycopg", "requests", "socket", "sqlite3", "ssl", "stripe", "threading"}
NEED_CRYPTOGRAPHY = {"acceptance", "signing"}
MODULES = sorted(module.name for module in pkgutil.iter_modules(interlock.evidence.__path__))


def _loaded_by(*modules: str) -> set[str]:
    script = f"import json, sys, {', '.join(modules)}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True, env=_only_paths())
    return set(json.loads(done.stdout))


def _only_paths() -> dict[str, str]:
    # Without `site`, so that nothing of the environment's start-up is taken for ours.
    return {"PYTHONPATH": ":".join(path for path in sys.path if path)}


def test_evidence_is_read_without_journal_database_and_network() -> None:
    """All modules that only read and verify need the standard library, and of the rest of the package its errors."""
    loaded = _loaded_by(*(f"interlock.evidence.{name}" for name in MODULES if name not in NEED_CRYPTOGRAPHY))
    assert BARRED.isdisjoint(loaded)
    assert "cryptography" not in loaded
    ours = {name for name in loaded if name.startswith("interlock.") and not name.startswith("interlock.evidence")}
    assert ours == {"interlock.errors"}


@pytest.mark.parametrize("name", sorted(NEED_CRYPTOGRAPHY))
def test_signatures_need_cryptography_and_nothing_more(name: str) -> None:
    """The extra `evidence` is all that checking signatures takes."""
    loaded = _loaded_by(f"interlock.evidence.{name}")
    assert "cryptography" in loaded
    assert not {"eventsourcing", "msgspec", "psycopg", "requests", "sqlite3", "stripe"} & loaded


def test_the_check_sees_a_journal() -> None:
    """The check above would see one, were it loaded."""
    assert {"eventsourcing", "sqlite3"} <= _loaded_by("interlock.infrastructure.sqlite.journal")

"""What checks evidence needs nothing of what made it."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import interlock.evidence

BARRED = {"asyncio", "eventsourcing", "http.client", "psycopg", "requests", "socket", "sqlite3", "ssl", "stripe"}
NEED_CRYPTOGRAPHY = {"acceptance", "attestors", "completeness", "signing", "trust", "verifying"}
NEED_MSGSPEC = {"decoding", "verifying"}
DOMAIN = {"account", "answers", "authority", "effects", "legality", "log_states", "premises", "progress", "records", "states"}
"""What of the domain is used: words and rules, without the aggregates."""
MODULES = sorted(module.name for module in pkgutil.iter_modules(interlock.evidence.__path__))


def _loaded_by(*modules: str) -> set[str]:
    script = f"import json, sys, {', '.join(modules)}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True, env=_only_paths())
    return set(json.loads(done.stdout))


def _only_paths() -> dict[str, str]:
    # Without `site`, so that nothing of the environment's start-up is taken for ours.
    return {"PYTHONPATH": ":".join(path for path in sys.path if path)}


def _ours(loaded: set[str]) -> set[str]:
    return {name for name in loaded if name.startswith("interlock.") and not name.startswith("interlock.evidence")}


def test_evidence_is_read_without_journal_database_and_network() -> None:
    """All modules that only read need the standard library, and of the rest of the package its errors and some of its words."""
    plain = [name for name in MODULES if name not in NEED_CRYPTOGRAPHY | NEED_MSGSPEC]
    loaded = _loaded_by(*(f"interlock.evidence.{name}" for name in plain))
    assert (BARRED | {"cryptography", "msgspec", "threading"}).isdisjoint(loaded)
    assert _ours(loaded) <= {"interlock.domain", "interlock.errors", *(f"interlock.domain.{name}" for name in DOMAIN)}


@pytest.mark.parametrize("name", sorted(NEED_CRYPTOGRAPHY | NEED_MSGSPEC))
def test_checking_needs_cryptography_or_msgspec_and_nothing_more(name: str) -> None:
    """Signatures the one, states the other; and no aggregate."""
    loaded = _loaded_by(f"interlock.evidence.{name}")
    assert BARRED.isdisjoint(loaded)
    assert ("cryptography" in loaded, "msgspec" in loaded) == (name in NEED_CRYPTOGRAPHY, name in NEED_MSGSPEC)
    assert _ours(loaded) <= {"interlock.domain", "interlock.errors", *(f"interlock.domain.{name}" for name in DOMAIN)}


def test_the_command_checks_a_receipt_without_them_too(tmp_path: Path) -> None:
    """`interlock verify-receipt` imports no journal, no eventsourcing and no network."""
    (tmp_path / "receipt").write_bytes(b"{}")
    (tmp_path / "policy").write_bytes(b"quorum none\n")
    script = (
        "import json, sys; from interlock.cli import main; "
        "code = main(['verify-receipt', sys.argv[1], '--policy', sys.argv[2], '--json']); "
        "print('\\n--', json.dumps([code, sorted(sys.modules)]))"
    )
    command = [sys.executable, "-S", "-c", script, str(tmp_path / "receipt"), str(tmp_path / "policy")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=_only_paths())
    code, loaded = json.loads(done.stdout.rpartition("-- ")[2])
    assert code == 1, "it is no receipt"
    assert BARRED.isdisjoint(loaded)
    assert "interlock.evidence.verifying" in loaded
    barred = ("interlock.infrastructure", "interlock.projections", "interlock.gate", "interlock.reading", "interlock.driver")
    assert not [name for name in loaded if name.startswith(barred)]


def test_the_check_sees_a_journal() -> None:
    """The check above would see one, were it loaded."""
    assert {"eventsourcing", "sqlite3"} <= _loaded_by("interlock.infrastructure.sqlite.journal")

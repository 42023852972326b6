"""A host's environment can't change our bytes: the event store's own settings are set to something hostile."""

import base64
import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from interlock import Gate
from tests.integration.processes import ROOT

# Valid values, each of which would change the bytes or where they go, if anybody listened.
HOSTILE = {
    "COMPRESSOR_TOPIC": "zlib",
    "CIPHER_TOPIC": "eventsourcing.cipher:AESCipher",
    "CIPHER_KEY": base64.b64encode(bytes(range(32))).decode(),
    "TRANSCODER_TOPIC": "eventsourcing.persistence:JSONTranscoder",
    "MAPPER_TOPIC": "eventsourcing.persistence:Mapper",
    "PERSISTENCE_MODULE": "eventsourcing.popo",
    "TZINFO_TOPIC": "datetime:timezone.min",
    "APPLICATION_RECORDER_TOPIC": "eventsourcing.popo:POPOApplicationRecorder",
    "AGGREGATE_RECORDER_TOPIC": "eventsourcing.popo:POPOAggregateRecorder",
    "INFRASTRUCTURE_FACTORY": "eventsourcing.popo:POPOFactory",
    "IS_SNAPSHOTTING_ENABLED": "y",
    "AGGREGATE_CACHE_MAXSIZE": "1000",
    "AGGREGATE_CACHE_FASTFORWARD": "n",
    "SQLITE_DBNAME": ":memory:",
    "SQLITE_LOCK_TIMEOUT": "0",
    "CREATE_TABLE": "n",
}
# eventsourcing itself can't be imported with a broken TZINFO_TOPIC: it reads that one before anybody can keep it from doing so.
BROKEN = dict.fromkeys(HOSTILE.keys() - {"TZINFO_TOPIC"}, "no.such.module:Nothing")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(?P<zone>.*)")
PROGRAM = """
import sys
from pathlib import Path
from tests.integration.shared_ledger import World
world = World(Path(sys.argv[1]))
world.approve()
with world.gate() as gate:
    outcome = gate.fire("case-1", world.payout(), approval="case-1")
    print(type(outcome).__name__, gate.verify().valid, gate.verify().events)
"""


def run(folder: Path, settings: dict[str, str]) -> sqlite3.Connection:
    """Fire once in a process with these settings, and return the journal."""
    prefixed = {f"INTERLOCK_{name}": value for name, value in settings.items()}
    clean = {name: value for name, value in os.environ.items() if name.removeprefix("INTERLOCK_") not in HOSTILE}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)],
        cwd=ROOT,
        env={**clean, **settings, **prefixed},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "Committed True 7\n"), done.stderr
    return sqlite3.connect(folder / "journal.db")


def shape(value: Any) -> Any:
    """Return the shape of a decoded value: its names, in their order, the types of its leaves, and the zones of its times."""
    if isinstance(value, dict):
        return [(name, shape(part)) for name, part in value.items()]
    if isinstance(value, list):
        return [shape(part) for part in value]
    time = TIME.fullmatch(value) if isinstance(value, str) else None
    return f"time {time['zone']}" if time else type(value).__name__


def stored(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    """Return what is stored of each event, with random ids and times reduced to their types."""
    with closing(connection):
        rows = connection.execute("SELECT topic, originator_version, typeof(state), state FROM stored_events ORDER BY position")
        return [(topic, version, kind, shape(json.loads(state))) for topic, version, kind, state in rows]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, ...]]:
    """What is stored in a clean environment."""
    return stored(run(tmp_path_factory.mktemp("clean"), {}))


CASES = {
    "all at once": HOSTILE,
    "all broken": BROKEN,
    **{name: {name: HOSTILE[name]} for name in ("COMPRESSOR_TOPIC", "TRANSCODER_TOPIC", "PERSISTENCE_MODULE", "TZINFO_TOPIC")},
    "CIPHER_TOPIC": {name: HOSTILE[name] for name in ("CIPHER_TOPIC", "CIPHER_KEY")},
}


@pytest.mark.parametrize("case", CASES)
def test_bytes_are_the_same(tmp_path: Path, ours: list[tuple[Any, ...]], case: str) -> None:
    """States are the same plain JSON, in the same order of fields and the same zone, whatever the environment asks for."""
    assert stored(run(tmp_path, CASES[case])) == ours
    assert "time Z" in str(ours)


def test_folder_of_the_program_may_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal that was named by a relative path stays the same file when the program changes its folder."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    with Gate.open("sqlite:///journal.db") as gate:
        monkeypatch.chdir(there)
        gate.approve("case-1", by="user:1", expires_in_s=60)
        assert gate.verify().valid
    assert list(there.iterdir()) == []

"""`interlock witness`, `monitor` and `erase`, as processes of their own, on a journal whose log is signed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from harness.attacks.hands import FileHands, rewrite
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.notes import SignedNote
from interlock.evidence.policies import Group, Log, Policy, Witness
from interlock.infrastructure.opening import open_journal
from interlock.keyfiles import Role, create_key, read_log_key, read_witness_key
from interlock.projections.log.tree import TransparencyLog
from tests.journals import SQLiteJournals
from tests.log_stage import Stage
from tests.served import served


@dataclass
class Place:
    """A journal whose log is signed, and the keys of a witness and of a monitor."""

    folder: Path
    stage: Stage

    def __post_init__(self) -> None:
        self.keys = {name: create_key(Role.WITNESS, self.folder / "keys", f"{name}.example/1").path for name in ("w", "m")}
        self.vkey = read_log_key(self.stage.key.path).key_for(self.stage.origin)
        self.policy = self.folder / "policy"
        self.write_policy(None)

    def write_policy(self, witness_url: str | None) -> Path:
        """Write the policy: the log, and where it is asked for, the witness."""
        key = read_witness_key(self.keys["w"]).key
        named = (Witness("w", key, witness_url),) if witness_url else ()
        groups = (Group("all", 1, ("w",)),) if witness_url else ()
        self.policy.write_bytes(Policy((Log(self.vkey),), named, groups, "all" if witness_url else "none").serialize())
        return self.policy

    def sign(self) -> None:
        """Let the log sign what was written."""
        writer = self.stage.service().writer
        assert writer is not None, "the stage has the key"
        writer.checkpoint()

    def note(self) -> SignedNote | None:
        """Return the log's latest checkpoint."""
        with open_journal(self.stage.url, create=False) as journal:
            return TransparencyLog(journal).latest()

    def command(self, *arguments: object) -> list[str]:
        return [sys.executable, "-m", "interlock.cli", *map(str, arguments)]

    def run(self, *arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run the command."""
        environment = {**os.environ, "NO_PROXY": "127.0.0.1", "INTERLOCK_JOURNAL": self.stage.url}
        done = subprocess.run(self.command(*arguments), env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, (done.stdout, done.stderr)
        return done

    def monitor(self, *where: object, code: int = 0) -> Any:
        """Let the monitor look once; return what it printed."""
        state = self.folder / "monitor.db"
        options = ["--key", self.keys["m"], "--policy", self.policy, "--state", state, *([] if state.exists() else ["--create"])]
        return json.loads(self.run("monitor", "--json", *where, *options, code=code).stdout)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Return a place with a journal of three actions, whose log has a checkpoint."""
    stage = Stage(SQLiteJournals(), tmp_path)
    made = Place(tmp_path, stage)
    stage.write("a", "b", "c")
    made.sign()
    yield made
    stage.close()


def test_a_witness_and_a_log_that_asks_it(place: Place) -> None:
    """A log gets its cosignature from a witness that is a process of its own, over HTTP; ended by a signal, it exits with 0."""
    state = place.folder / "witness.db"
    options = ["--key", place.keys["w"], "--policy", place.policy, "--state", state, "--port", 0, "--json"]
    refused = place.run("witness", *options, code=2)
    assert "no state of a witness" in refused.stderr
    with subprocess.Popen(
        place.command("witness", *options, "--create"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None, "it is a pipe"
        url = json.loads(_until_closed(process))["url"]
        place.write_policy(url)
        place.stage.write("d")
        place.run("log", "checkpoint", "--key", place.stage.key.path, "--policy", place.policy)
        note = place.note()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    assert note is not None
    assert [one.name for one in note.signatures] == [place.stage.origin, "w.example/1"]
    found = place.monitor("--from-journal", place.stage.url)
    assert found["clean"], "under a policy that asks for the witness"


def _until_closed(process: subprocess.Popen[str]) -> str:
    """Return the JSON that a process prints first."""
    assert process.stdout is not None, "it is a pipe"
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("}"):
            break
    return "".join(lines)


def test_a_monitor_of_the_journal_itself(place: Place) -> None:
    """It reads the states too, goes on from what it holds, and says so when the journal was changed behind what it saw."""
    url = place.stage.url
    first = place.monitor("--from-journal", url)
    assert (first["clean"], first["open_actions"], first["entries"]) == (True, 0, first["size"])
    place.stage.write("d")
    place.sign()
    second = place.monitor("--from-journal", url)
    assert (second["clean"], second["entries"]) == (True, second["size"] - first["size"])
    _edit(place, "UPDATE stored_events SET leaf_hash = state_digest WHERE position = 4")
    assert [one["kind"] for one in place.monitor("--from-journal", url, code=1)["findings"]] == ["rewritten"]
    notes = [json.loads(line) for line in (place.folder / "monitor.db.log").read_text().splitlines()]
    assert [next(iter(note)) for note in notes] == ["accepted", "accepted", "refused"]
    assert Checkpoint.parse(SignedNote.parse(notes[1]["accepted"].encode()).text).size == second["size"]


def test_a_state_that_no_gate_could_have_written(place: Place) -> None:
    """Signed by the log and right in every hash: the monitor reads what the states say, and refuses."""
    url = place.stage.url
    place.monitor("--from-journal", url)
    place.stage.write("d")
    hands = FileHands(place.stage.path)
    rows = hands.rows()
    claimed = [row for row in rows if row.event == "claimed"][-1]
    forged = replace(claimed, state=claimed.state.replace(b'"term":1', b'"term":7'))
    rewrite(hands, [forged if row == claimed else row for row in rows])
    place.sign()
    (finding,) = place.monitor("--from-journal", url, code=1)["findings"]
    assert (finding["kind"], finding["words"]) == ("legality", "term 7 does not follow term 0")
    _edit(place, "UPDATE stored_events SET state = x'7b7d' WHERE position = (SELECT max(position) FROM stored_events)")
    assert "state" in [one["kind"] for one in place.monitor("--from-journal", url, code=1)["findings"]]


def _edit(place: Place, statement: str) -> None:
    with closing(sqlite3.connect(place.stage.path)) as connection, connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(statement)


def test_a_monitor_of_what_the_log_publishes(place: Place) -> None:
    """A folder that `log publish` writes, and the same over HTTP, by whatever server."""
    published = place.folder / "published"
    place.run("log", "publish", published)
    (folder,) = [path.parent for path in published.rglob("checkpoint")]
    assert place.monitor("--dir", folder)["clean"]
    place.stage.write("d")
    place.sign()
    place.run("log", "publish", published)
    with served(folder) as url:
        found = place.monitor("--url", url)
    assert (found["clean"], found["entries"]) == (True, 7)
    assert place.run("monitor", "--url", url, *_options(place), code=3).stderr.count("can't be read") == 1


def _options(place: Place) -> list[object]:
    return ["--key", place.keys["m"], "--policy", place.policy, "--state", place.folder / "monitor.db"]


def test_a_monitor_that_looks_again_and_again(place: Place) -> None:
    """Until a signal comes; it exits with 1 then if it ever found something."""
    state = place.folder / "monitor.db"
    place.monitor("--from-journal", place.stage.url)
    arguments = ["monitor", "--from-journal", place.stage.url, "--every", 0.1, *_options(place)]
    with subprocess.Popen(place.command(*arguments), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None, "it is a pipe"
        process.stdout.readline()
        _edit(place, "UPDATE stored_events SET leaf_hash = state_digest WHERE position = 4")
        until_s = time.monotonic() + 20
        while "refused" not in state.with_name("monitor.db.log").read_text() and time.monotonic() < until_s:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        assert process.returncode == 1


def test_bad_input(place: Place) -> None:
    """A key of another role, a policy that is none, an address beyond loopback unasked: exit code 2, and nothing is made."""
    state = place.folder / "x.db"
    bad = place.folder / "bad"
    bad.write_text("no policy\n")
    made = ["--state", state, "--create"]
    place.run("witness", "--key", place.stage.key.path, "--policy", place.policy, *made, code=2)
    place.run("witness", "--key", place.keys["w"], "--policy", bad, *made, code=2)
    assert not state.exists()
    beyond = place.run("witness", "--key", place.keys["w"], "--policy", place.policy, *made, "--host", "0.0.0.0", code=2)  # noqa: S104
    assert "--beyond-loopback" in beyond.stderr
    place.run("monitor", "--dir", place.folder / "nowhere", *_options(place), "--create", code=2)
    place.run("monitor", *_options(place), code=2)


def test_erase(place: Place) -> None:
    """It erases one action and shows what is left; what can't be erased exits with 1, and an unknown key with 2."""
    place.monitor("--from-journal", place.stage.url)
    left = json.loads(place.run("erase", "pay:a", "--reason", "subject_request", "--by", "user:19", "--json").stdout)
    assert (left["key"], left["status"], left["erased_at"] is None) == ("", "COMMITTED", False)
    assert "erased" in place.run("show", "pay:a").stdout
    assert "4 events' states were erased" in place.run("verify").stdout
    place.run("erase", "nobody", "--reason", "r", "--by", "u", code=2)
    place.sign()
    found = place.monitor("--from-journal", place.stage.url)
    assert (found["clean"], found["entries"]) == (True, 1), "an erasure is a legal step, and the hashes stay"

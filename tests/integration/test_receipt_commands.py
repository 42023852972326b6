"""`interlock receipt export` and `interlock verify-receipt`, as processes of their own, on a journal whose log is signed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.cli import main
from interlock.evidence.attestors import Attestor, Attestors
from interlock.evidence.policies import NO_WITNESSES, Log, Policy
from interlock.evidence.vkeys import VerifierKey
from interlock.infrastructure.high_water import write_durably
from interlock.keyfiles import Role, create_key, read_attestor_key
from interlock.projections.log.publishing import publish
from interlock.projections.log.tree import TransparencyLog
from tests.journals import SQLiteJournals
from tests.log_stage import Stage

SCRIPT = Path(sys.executable).with_name("interlock")
OK, INVALID, USAGE, UNVERIFIABLE, STALE = 0, 1, 2, 3, 4


@dataclass(frozen=True)
class Case:
    """A journal with two actions, what signs it, and a folder with what an auditor has."""

    folder: Path
    url: str
    attestor: Path

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run the command in that folder."""
        command = [str(SCRIPT), *map(str, arguments)]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)

    def export(self, key: str, *more: str) -> subprocess.CompletedProcess[str]:
        """Export a receipt."""
        return self.run("receipt", "export", key, "--journal", self.url, "--attestor-key", self.attestor, *more)

    def verify(self, receipt: str, *more: str) -> subprocess.CompletedProcess[str]:
        """Check one, with all that is trusted."""
        return self.run("verify-receipt", receipt, "--policy", "policy", "--attestors", "attestors.json", *more)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    """One action under a checkpoint, one that came later, and the public halves of the keys."""
    folder = tmp_path_factory.mktemp("case")
    stage = Stage(SQLiteJournals(), folder)
    attestor = create_key(Role.ATTESTOR, folder / "keys")
    stage.write("logged")
    writer = stage.service().writer
    assert writer is not None
    writer.checkpoint()
    log = TransparencyLog(stage.journal())
    publish(log, folder / "copy", write_durably)
    state, note = log.state(), log.latest()
    assert state is not None
    assert note is not None
    stage.write("later")
    (folder / "note").write_bytes(note.serialize())
    logs = tuple(Log(VerifierKey.parse(vkey)) for vkey in state.vkeys)
    (folder / "policy").write_bytes(Policy(logs, (), (), NO_WITNESSES).serialize())
    (folder / "attestors.json").write_bytes(Attestors((Attestor(read_attestor_key(attestor.path).verifier),)).serialize())
    made = Case(folder, stage.url, attestor.path)
    assert made.export("pay:logged", "--out", "receipt.json").returncode == OK
    yield made
    stage.close()


def test_an_exported_receipt_verifies(case: Case) -> None:
    """Somebody with the policy and the attestors, and nothing else, is told what it says and what was checked."""
    done = case.verify("receipt.json")
    assert done.returncode == OK, done.stdout
    assert done.stdout.startswith("COMMITTED  action ")
    assert "happened: yes (gate-claimed), first-send" in done.stdout
    assert done.stdout.endswith("ok; completeness: unknown; evidence: gate-claimed\n")
    found = json.loads(case.verify("receipt.json", "--json").stdout)
    assert (found["verdict"], found["claim"]["status"], found["states"]) == ("ok", "COMMITTED", {"ok": 7})


def test_it_goes_to_standard_output_unless_told_otherwise(case: Case) -> None:
    """Byte by byte what is written into a file, the signature's time being none."""
    assert case.export("pay:logged").stdout == (case.folder / "receipt.json").read_text(encoding="utf-8")
    done = case.export("pay:logged", "--out", "second.json", "--split", "parts", "--json")
    assert json.loads(done.stdout) == {"written": ["second.json", "parts"], "events": 7, "pending": 0}
    assert {"pae.bin", "signature-1.bin", "chain.jsonl", "state-007.json"} <= {
        one.name for one in (case.folder / "parts").iterdir()
    }
    assert case.export("pay:logged", "--split", "parts").returncode == USAGE, "it is not empty any more"


def test_what_is_pending_is_said(case: Case) -> None:
    """No checkpoint covers the second action yet."""
    assert "7 of 7 events are pending" in case.export("pay:later", "--out", "later.json").stdout
    done = case.verify("later.json")
    assert done.returncode == UNVERIFIABLE
    assert "pending: no checkpoint covers any of its events yet" in done.stdout


def test_each_kind_of_fault_has_an_exit_code_of_its_own(case: Case) -> None:
    """Changed is not the same as unknown, and neither is old."""
    changed = (case.folder / "receipt.json").read_text(encoding="utf-8").replace("logged", "lagged", 1)
    (case.folder / "changed.json").write_text(changed, encoding="utf-8")
    assert case.verify("changed.json").returncode == INVALID
    assert case.run("verify-receipt", "receipt.json", "--policy", "policy").returncode == UNVERIFIABLE
    assert case.verify("receipt.json", "--max-age", "60").returncode == UNVERIFIABLE, "no witness says how old it is"
    assert case.verify("receipt.json", "--checkpoint", "note").returncode == OK


@pytest.mark.parametrize("wrong", ["policy", "attestors", "receipt"])
def test_what_is_to_be_trusted_has_to_be_readable(case: Case, wrong: str) -> None:
    """A policy that is none, attestors that are none, a file that is not there: nothing was checked, which is no verdict."""
    (case.folder / "none").write_text("?", encoding="utf-8")
    given = {"policy": "policy", "attestors": "attestors.json", "receipt": "receipt.json"}
    given[wrong] = "none" if wrong != "receipt" else "missing"
    done = case.run("verify-receipt", given["receipt"], "--policy", given["policy"], "--attestors", given["attestors"])
    assert done.returncode == USAGE
    assert "nothing was checked" in done.stderr


def test_a_copy_of_the_log_makes_it_complete(case: Case) -> None:
    """The published files hold every entry: there is no other event of this case."""
    done = case.verify("receipt.json", "--log", "copy")
    assert done.returncode == OK, done.stdout
    assert "completeness: audited" in done.stdout


@pytest.mark.parametrize("wrong", ["folder", "link", "cut", "missing", "name"])
def test_a_copy_of_the_log_that_can_not_be_read_is_no_verdict(case: Case, tmp_path: Path, wrong: str) -> None:
    """The copy is somebody else's: what is wrong with it makes no receipt invalid."""
    copy = str(tmp_path / "copy") if wrong != "name" else "x" * 5000
    shutil.copytree(case.folder / "copy", tmp_path / "copy")
    (bundle,) = (tmp_path / "copy" / "tile" / "entries" / "000.p").iterdir()
    if wrong == "cut":
        bundle.write_bytes(bundle.read_bytes()[:-1])
    else:
        bundle.unlink()
    if wrong == "folder":
        bundle.mkdir()
    if wrong == "link":
        bundle.symlink_to(bundle)
    done = case.verify("receipt.json", "--log", copy)
    assert done.returncode == UNVERIFIABLE, done.stderr
    assert "the copy of the log" in done.stdout


def test_what_else_stands_in_a_copy_of_the_log_is_passed_over(case: Case, tmp_path: Path) -> None:
    """A name that is no tile's, and a folder, are none of the log's."""
    shutil.copytree(case.folder / "copy", tmp_path / "copy")
    partial = tmp_path / "copy" / "tile" / "entries" / "000.p"
    (partial / "0200").touch()
    (partial / "\u0662\u0660\u0660").touch()
    (partial / "255").mkdir()
    assert "completeness: audited" in case.verify("receipt.json", "--log", str(tmp_path / "copy")).stdout


def test_what_nobody_foresaw_is_no_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    """Such as a name that no file can have: 1 would say that the receipt is invalid."""
    assert main(["verify-receipt", "receipt\0.json", "--policy", "policy\0"]) == UNVERIFIABLE
    assert "nobody foresaw" in capsys.readouterr().err


def test_what_is_too_large_is_not_read(case: Case) -> None:
    """Fifty megabytes, of which a sixth is looked at."""
    with (case.folder / "large.json").open("wb") as file:
        file.truncate(50 << 20)
    done = case.verify("large.json")
    assert done.returncode == INVALID
    assert "are not read" in done.stdout


def test_withheld_states_stay_out(case: Case) -> None:
    """The file has them not, and still verifies."""
    assert case.export("pay:logged", "--withhold", "intended", "--withhold", "approval", "--out", "short.json").returncode == OK
    found = json.loads(case.verify("short.json", "--json").stdout)
    assert (found["verdict"], found["states"]) == ("ok", {"ok": 3, "withheld": 4})
    assert case.export("pay:logged", "--withhold", "everything").returncode == USAGE


def test_a_key_is_made_together_with_the_list_of_who_may_sign(case: Case) -> None:
    """The first one begins the list, the next one is added to it; no other role's key goes into it."""
    for many in (1, 2):
        assert case.run("keys", "create", "attestor", "more-keys", "--attestors", "more.json").returncode == OK
        listed = Attestors.parse((case.folder / "more.json").read_bytes())
        assert [(key.from_index, key.until_index) for key in listed] == [(0, None)] * many
    done = case.run("keys", "create", "log", "more-keys", "--name", "test.example/x", "--attestors", "more.json")
    assert (done.returncode, len(list((case.folder / "more-keys").iterdir()))) == (USAGE, 2)


def test_an_unknown_key_is_said(case: Case) -> None:
    """And nothing is written."""
    done = case.export("pay:nobody", "--out", "nobody.json")
    assert done.returncode == USAGE
    assert not (case.folder / "nobody.json").exists()

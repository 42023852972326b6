"""The command `interlock`, as a process of its own, on a real journal."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interlock import Answer, Declined, Done, Evidence, Gate, Money, Settlement, target

SECRET = "sk_test_local_not_to_be_printed"
SCRIPT = Path(sys.executable).with_name("interlock")

TARGETS = '''
"""What the command is given with --targets."""
import asyncio
import os
import signal
from interlock import Evidence, Done, Settlement, target
from test_effects import Payout

@target("payout", effect=Payout)
def pay_out(effect, /, *, idempotency_key, deadline_s):
    return Done(Evidence(reference="po_9", state="paid", settlement=Settlement.FINAL, json="{}"))

@target("payout", effect=Payout)
async def awaited(effect, /, *, idempotency_key, deadline_s):
    await asyncio.sleep(0)
    return Done(Evidence(reference="po_8", state="paid", settlement=Settlement.FINAL, json="{}"))

@target("letter", effect=Payout)
def write_letter(effect, /, *, idempotency_key, deadline_s):
    raise NotImplementedError

several = [pay_out]
both = [awaited, write_letter]
nothing = 7

def made():
    return several

def broken():
    raise RuntimeError(os.environ["PAYOUT_API_KEY"])
'''

EFFECTS = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Payout:
    to: str
"""


@dataclass(frozen=True)
class Payout:
    """The parameters of the target under test."""

    to: str


@target("payout", effect=Payout)
def pay_out(effect: Payout, /, *, idempotency_key: str, deadline_s: float) -> Answer:
    """Act, refuse or leave everybody in doubt, as the recipient's name says."""
    del idempotency_key, deadline_s
    if effect.to == "nobody":
        raise ConnectionError(SECRET)
    if effect.to == "closed":
        return Declined("account_closed", "the account is closed\x1b[2J")
    return Done(Evidence(reference="po_1", state="paid", settlement=Settlement.FINAL, json="{}"))


class Place:
    """A folder with a journal, and the command run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "journal.db"
        self.url = f"sqlite:///{self.file}"

    def gate(self) -> Gate:
        """Open the gate that makes the journal."""
        return Gate.open(self.url, targets=[pay_out])

    def fire(self, gate: Gate, case: str, to: str, amount_minor: int = 2000) -> str:
        """Approve a case and fire it; return its key."""
        approval = gate.approve(case, by="user:17", expires_in_s=3600, cap_minor=9000, currency="usd")
        gate.fire(f"payout:{case}", self.effect(to, amount_minor), approval=approval)
        return f"payout:{case}"

    @staticmethod
    def effect(to: str, amount_minor: int = 2000) -> Any:
        """Return what to do."""
        return pay_out.effect(Payout(to), subject=to, money=Money(amount_minor, "usd"))

    def run(
        self, *arguments: str, environment: Mapping[str, str] | None = None, script: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run the command with the journal named in the environment."""
        command = [str(SCRIPT)] if script else [sys.executable, "-m", "interlock.cli"]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
        given = {**kept, "INTERLOCK_JOURNAL": self.url, "PAYOUT_API_KEY": SECRET, "COLUMNS": "130", **(environment or {})}
        done = subprocess.run([*command, *arguments], cwd=self.folder, env=given, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr
        assert SECRET not in done.stdout + done.stderr
        return done

    def json(self, *arguments: str, code: int = 0) -> Any:
        """Run the command with --json, and return what it printed."""
        done = self.run(*arguments, "--json")
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    def tamper(self, *statements: str) -> None:
        """Edit the file as somebody with the sqlite3 tool would: the triggers first."""
        with sqlite3.connect(self.file) as connection:
            triggers = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall()
            for statement in (*(f"DROP TRIGGER {name}" for (name,) in triggers), *statements):
                connection.execute(statement)
        connection.close()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder with a journal that holds one action of each ending."""
    (tmp_path / "test_effects.py").write_text(EFFECTS)
    (tmp_path / "test_targets.py").write_text(TARGETS)
    made = Place(tmp_path)
    with made.gate() as gate:
        made.fire(gate, "case-1", "customer-1", 1000)
        made.fire(gate, "case-2", "closed", 2000)
        made.fire(gate, "case-3", "nobody", 3000)
    return made


def _keys(listed: Any) -> list[str]:
    return [receipt["key"] for receipt in listed["receipts"]]


# --- reading


def test_the_installed_command_lists_receipts_newest_first(place: Place) -> None:
    """The console script prints an aligned table, with a header and a line for each action."""
    done = place.run("receipts", script=True)
    header, *rows = done.stdout.splitlines()
    assert done.returncode == 0
    assert [row.split()[:3] for row in rows] == [
        ["AMBIGUOUS", "unknown", "payout:case-3"],
        ["REFUSED", "no", "payout:case-2"],
        ["COMMITTED", "yes", "payout:case-1"],
    ]
    assert {row.index("payout:") for row in rows} == {header.index("KEY")}


@pytest.mark.parametrize(
    ("filters", "cases"),
    [
        (["--status", "COMMITTED"], [1]),
        (["--approval", "case-2"], [2]),
        (["--target", "payout"], [3, 2, 1]),
        (["--target", "other"], []),
        (["--since", "2020-01-01"], [3, 2, 1]),
        (["--since", "2999-01-01T00:00:00+02:00"], []),
        (["--until", "2020-01-01T00:00:00Z"], []),
        (["--min-amount", "2000"], [3, 2]),
        (["--max-amount", "2000"], [2, 1]),
        (["--min-amount", "2000", "--max-amount", "2000"], [2]),
        (["--limit", "1"], [3]),
    ],
)
def test_receipts_are_filtered(place: Place, filters: list[str], cases: list[int]) -> None:
    """Each filter lets through what it says, and nothing else."""
    assert _keys(place.json("receipts", *filters)) == [f"payout:case-{case}" for case in cases]


def test_pages_follow_one_another(place: Place) -> None:
    """`next_page` given to --after goes on where the page ended, to the last one, which has none."""
    first = place.json("receipts", "--limit", "2")
    second = place.json("receipts", "--limit", "2", "--after", first["next_page"])
    assert _keys(first) + _keys(second) == ["payout:case-3", "payout:case-2", "payout:case-1"]
    assert second["next_page"] is None
    assert first["next_page"] in place.run("receipts", "--limit", "2").stdout


def test_show_prints_the_receipt(place: Place) -> None:
    """`show` prints the receipt as text, and the same receipt as JSON."""
    with place.gate() as gate:
        receipt = gate.receipt("payout:case-1")
    assert place.run("show", "payout:case-1").stdout.split() == receipt.to_text().split()
    assert place.json("show", "payout:case-1") == receipt.to_dict()


def test_a_providers_words_do_not_steer_the_terminal(place: Place) -> None:
    """Control characters in what others said are printed as escapes."""
    shown = place.run("show", "payout:case-2").stdout
    assert "\x1b" not in shown
    assert "\\x1b[2J" in shown


def test_attention_exits_with_4_only_when_asked(place: Place) -> None:
    """`attention` lists what a person has to look at; with --exit-code its exit code says that there is something."""
    assert "payout:case-3" in place.run("attention").stdout
    assert place.run("attention").returncode == 0
    assert place.run("attention", "--exit-code").returncode == 4
    assert "payout:case-3" in _keys(place.json("attention", "--exit-code", code=4))


def test_attention_without_anything_exits_with_0(tmp_path: Path) -> None:
    """Where nothing wants attention, --exit-code changes nothing."""
    place = Place(tmp_path)
    with place.gate() as gate:
        place.fire(gate, "case-1", "customer-1")
    done = place.run("attention", "--exit-code")
    assert (done.returncode, done.stdout) == (0, "nothing wants attention\n")


# --- verify


def test_an_untouched_journal_verifies(place: Place) -> None:
    """`verify` finds nothing, exits with 0, and claims no more than it can: completeness stays unknown."""
    assert place.run("verify").returncode == 0
    found = place.json("verify")
    assert (found["valid"], found["findings"], found["completeness"]) == (True, [], "unknown")
    assert place.json("verify", "payout:case-1")["valid"] is True


def test_a_changed_byte_is_found_and_placed(place: Place) -> None:
    """A state edited with the sqlite3 tool is named with its position, and the exit code is 1."""
    place.tamper("UPDATE stored_events SET state = CAST(replace(state, 'customer-1', 'customer-2') AS BLOB) WHERE position = 2")
    found = place.json("verify", code=1)
    assert found["valid"] is False
    assert any(finding["kind"] == "state" and "position 2," in finding["place"] for finding in found["findings"])
    told = place.run("verify")
    assert told.returncode == 1
    assert "position 2," in told.stdout


def test_a_removed_event_is_found(place: Place) -> None:
    """An event taken out of the middle is found, although every other row is as it was."""
    place.tamper("DELETE FROM stored_events WHERE position = 4")
    kinds = {finding["kind"] for finding in place.json("verify", code=1)["findings"]}
    assert "position" in kinds


def test_a_receipt_row_that_says_something_else_is_found(place: Place) -> None:
    """A receipt's row that disagrees with its events is found."""
    place.tamper("UPDATE receipts SET status = 'COMMITTED' WHERE status = 'AMBIGUOUS'")
    kinds = [finding["kind"] for finding in place.json("verify", code=1)["findings"]]
    assert kinds == ["row"]


# --- working


@pytest.mark.parametrize(("targets", "reference"), [("several", "po_9"), ("awaited", "po_8"), ("both", "po_8")])
def test_recover_carries_on_what_was_left(place: Place, targets: str, reference: str) -> None:
    """`recover` with the targets, awaited ones too, brings a proposed action to its end, found by its name in the journal."""
    with place.gate() as gate:
        gate.approve("case-4", by="user:17", expires_in_s=3600, cap_minor=9000, currency="usd")
        gate.propose("payout:case-4", place.effect("customer-4"), approval="case-4")
    report = place.json("recover", "--targets", f"test_targets:{targets}")
    assert [(one["outcome"], one["key"]) for one in report["outcomes"]] == [("Committed", "payout:case-4")]
    assert report["outcomes"][0]["receipt"]["evidence"]["reference"] == reference
    assert place.run("recover", "--targets", f"test_targets:{targets}").stdout == "nothing to do\n"


@pytest.mark.parametrize("name", ["pay_out", "several", "made"])
def test_targets_are_one_or_several_or_made(place: Place, name: str) -> None:
    """--targets names a target, several, or a function that returns them."""
    assert place.run("recover", "--targets", f"test_targets:{name}").returncode == 0


def test_targets_come_from_the_environment_too(place: Place) -> None:
    """INTERLOCK_TARGETS names targets, also for the installed command, which does not look into the folder by itself."""
    done = place.run("recover", environment={"INTERLOCK_TARGETS": "test_targets:several"}, script=True)
    assert done.returncode == 0, done.stderr


def test_what_no_target_was_given_for_is_skipped_and_said(place: Place) -> None:
    """Without the target, an action in flight is reported as skipped, left as it is, and the exit code is 4."""
    with place.gate() as gate:
        gate.approve("case-4", by="user:17", expires_in_s=3600, cap_minor=9000, currency="usd")
        gate.propose("payout:case-4", place.effect("customer-4"), approval="case-4")
    skipped = place.json("recover", code=4)["skipped"]
    assert list(skipped) == ["payout:case-4"]
    assert skipped["payout:case-4"].startswith("payout")
    assert "skipped" in place.run("recover").stdout
    assert place.json("show", "payout:case-4")["status"] == "IN_FLIGHT"


@pytest.mark.parametrize("targets", ["several", "awaited"])
def test_reconcile_asks_again(place: Place, targets: str) -> None:
    """`reconcile` works on what ended without certainty; a target that can't look leaves it as it is."""
    report = place.json("reconcile", "--targets", f"test_targets:{targets}")
    assert [one["key"] for one in report["outcomes"]] == ["payout:case-3"]


def test_a_person_says_that_it_happened(place: Place) -> None:
    """`resolve --happened` ends an ambiguous action as committed, with the person's id and note, and needs no target."""
    receipt = place.json("resolve", "payout:case-3", "--happened", "--by", "user:9", "--note", "seen in the bank's list")[
        "receipt"
    ]
    assert (receipt["status"], receipt["via"], receipt["resolved_by"]) == ("COMMITTED", "resolution", "user:9")
    assert receipt["resolution_note"] == "seen in the bank's list"


def test_a_persons_no_is_not_taken_while_a_send_can_land(place: Place) -> None:
    """`resolve --did-not-happen` before the horizon changes nothing, says so, and exits with 1."""
    done = place.run("resolve", "payout:case-3", "--did-not-happen", "--by", "user:9", "--note", "not in the list")
    assert done.returncode == 1
    assert "nothing was written" in done.stderr
    assert "next: " in done.stderr
    assert "the provider is not asked" in done.stderr
    assert place.json("show", "payout:case-3")["status"] == "AMBIGUOUS"


def test_resolve_asks_a_target_that_is_awaited(place: Place) -> None:
    """Given the target, the gate asks it where it can look; this one can't, and the horizon is not over."""
    arguments = ("payout:case-3", "--did-not-happen", "--by", "user:9", "--note", "?", "--targets", "test_targets:awaited")
    assert "the provider is not asked" not in _explained(place.run("resolve", *arguments), 1)


def test_resolve_wants_one_word(place: Place) -> None:
    """`resolve` without --happened or --did-not-happen is a usage error: there is no default for what happened."""
    assert place.run("resolve", "payout:case-3", "--by", "user:9", "--note", "?").returncode == 2


# --- what goes wrong


def _explained(done: subprocess.CompletedProcess[str], code: int) -> str:
    assert done.returncode == code
    assert done.stdout == ""
    what, not_done, following = done.stderr.splitlines()[-3:]
    assert what.startswith("interlock ")
    assert not_done.startswith("  not done: ")
    assert following.startswith("  next: ")
    return done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "payout:unknown"],
        ["verify", "payout:unknown"],
        ["recover", "payout:unknown"],
        ["receipts", "--status", "DONE"],
        ["receipts", "--limit", "0"],
        ["receipts", "--after", "yesterday"],
        ["recover", "--targets", "test_targets"],
        ["recover", "--targets", "test_targets:nothing"],
        ["recover", "--targets", "test_targets:absent"],
        ["recover", "--targets", "absent:several"],
        ["recover", "--targets", "test_targets:broken"],
    ],
)
def test_bad_input_exits_with_2(place: Place, arguments: list[str]) -> None:
    """Bad input is explained in three lines: what happened, what was not done, what to do next."""
    _explained(place.run(*arguments), 2)


def test_a_target_that_can_not_be_made_does_not_tell_its_secret(place: Place) -> None:
    """The error of a user's own module is named by class and place; its text, which may hold a key, is not printed."""
    told = _explained(place.run("recover", "--targets", "test_targets:broken"), 2)
    assert "RuntimeError" in told
    assert "test_targets.py" in told


def test_no_journal_is_made_by_a_mistyped_path(place: Place, tmp_path: Path) -> None:
    """No command makes a journal, or a mistyped path would pass for one with nothing to do."""
    for command in ("receipts", "verify", "recover", "reconcile"):
        _explained(place.run(command, "--journal", f"sqlite:///{tmp_path / 'other.db'}"), 2)
    assert not (tmp_path / "other.db").exists()


def test_no_journal_at_all_exits_with_2(place: Place) -> None:
    """Without a journal from the flag or the environment, the command says how to name one."""
    assert "--journal" in _explained(place.run("receipts", environment={"INTERLOCK_JOURNAL": ""}), 2)


def test_a_journal_that_can_not_be_used_exits_with_3(place: Place) -> None:
    """A file that SQLite can't read is a journal that can't be used."""
    place.file.write_bytes(b"SQLite format 3\x00" + b"\xff" * 4096)
    _explained(place.run("receipts"), 3)


def test_a_journal_of_a_newer_version_exits_with_3(place: Place) -> None:
    """A journal of a newer version is left alone."""
    with sqlite3.connect(place.file) as connection:
        connection.execute("PRAGMA user_version=99")
    connection.close()
    assert "upgrade" in _explained(place.run("receipts"), 3)


def test_the_password_of_a_journal_is_not_printed(place: Place) -> None:
    """An error that quotes the journal's URL does not quote its password."""
    told = _explained(place.run("receipts", "--journal", f"other://user:{SECRET}@host/name"), 2)
    assert SECRET not in told


def test_a_reader_that_goes_away_is_no_error(place: Place) -> None:
    """A pipe that is closed early ends the command quietly."""
    command = f"{sys.executable} -m interlock.cli receipts --json | true"
    environment = {**os.environ, "INTERLOCK_JOURNAL": place.url}
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# --- recover --watch


@pytest.mark.parametrize(
    ("number", "targets"), [(signal.SIGTERM, "several"), (signal.SIGINT, "several"), (signal.SIGTERM, "awaited")]
)
def test_watch_recovers_until_a_signal_comes(place: Place, number: signal.Signals, targets: str) -> None:
    """`recover --watch` brings what comes up to its end, prints a line for it, and exits with 0 at SIGTERM or Ctrl-C."""
    environment = {**os.environ, "INTERLOCK_JOURNAL": place.url}
    command = [sys.executable, "-u", "-m", "interlock.cli", "recover", "--watch", "--targets", f"test_targets:{targets}"]
    with (
        place.gate() as gate,
        subprocess.Popen(
            command, cwd=place.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as watching,
    ):
        assert watching.stdout is not None
        assert watching.stderr is not None
        gate.approve("case-4", by="user:17", expires_in_s=3600, cap_minor=9000, currency="usd")
        gate.propose("payout:case-4", place.effect("customer-4"), approval="case-4")
        line = watching.stdout.readline()
        watching.send_signal(number)
        printed, told = watching.communicate(timeout=60)
    assert line.rstrip().endswith("1 Committed")
    assert printed == ""
    assert "stopping" in told
    assert "Traceback" not in told
    assert watching.returncode == 0
    assert place.json("show", "payout:case-4")["status"] == "COMMITTED"


def test_watch_prints_json_lines(place: Place) -> None:
    """With --json each pass is an object on a line of its own."""
    environment = {**os.environ, "INTERLOCK_JOURNAL": place.url}
    command = [sys.executable, "-u", "-m", "interlock.cli", "recover", "--watch", "--json", "--targets", "test_targets:several"]
    with place.gate() as gate:
        gate.approve("case-4", by="user:17", expires_in_s=3600, cap_minor=9000, currency="usd")
        gate.propose("payout:case-4", place.effect("customer-4"), approval="case-4")
    with subprocess.Popen(command, cwd=place.folder, env=environment, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        one = json.loads(watching.stdout.readline())
        watching.terminate()
    assert [outcome["outcome"] for outcome in one["outcomes"]] == ["Committed"]
    assert watching.returncode == 0


def test_watch_takes_no_key(place: Place) -> None:
    """`recover KEY --watch` is a usage error."""
    assert place.run("recover", "payout:case-1", "--watch").returncode == 2

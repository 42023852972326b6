"""`interlock log …` and `interlock keys …`, as an operator calls them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.cli import main
from interlock.domain.records import leaf_hash
from interlock.errors import JournalCorrupt, UnsafeKeyFile
from interlock.evidence.attestors import Attestor, Attestors
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.merkle import root_of
from interlock.evidence.notes import SignedNote, verify_note
from interlock.evidence.signing import verifier_of
from interlock.evidence.tiles import Tile, decode_bundle, decode_tile
from interlock.evidence.vkeys import VerifierKey
from interlock.infrastructure.high_water import alone, write_durably
from interlock.keyfiles import Role, create_key, list_keys, read_attestor_key
from interlock.projections.log.publishing import publish
from interlock.projections.log.rotations import verify_rotation
from tests.log_stage import Stage, wait_until


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, object]:
    """Run the command in this process, and return what it printed as JSON."""
    found = main([*arguments, "--json"])
    printed = capsys.readouterr()
    assert found == code, printed.err
    values: dict[str, object] = json.loads(printed.out) if printed.out else {"err": printed.err}
    return values


def test_what_is_published_is_the_whole_log(stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The static files hold every entry, tiles that its hashes make, and a checkpoint that is signed over them."""
    stage.write(*map(str, range(60)))
    key, folder = str(stage.key.path), tmp_path / "public"
    run(capsys, "log", "checkpoint", "--journal", stage.url, "--key", key)
    run(capsys, "log", "publish", str(folder), "--journal", stage.url)
    stage.write("more")
    run(capsys, "log", "checkpoint", "--journal", stage.url, "--key", key)
    published = run(capsys, "log", "publish", str(folder), "--journal", stage.url)
    note = SignedNote.parse((folder / "checkpoint").read_bytes())
    verify_note(note, [verifier_of(VerifierKey.parse(stage.key.public))])
    checkpoint = Checkpoint.parse(note.text)
    assert checkpoint.size == published["size"]
    full, rest = divmod(checkpoint.size, 256)
    names = [*((index, 256) for index in range(full)), *([(full, rest)] if rest else [])]
    bundles = [Tile(None, *name) for name in names]
    entries = [entry for tile in bundles for entry in decode_bundle(tile, (folder / tile.path).read_bytes())]
    assert root_of(map(leaf_hash, entries)) == checkpoint.root
    tiles = [Tile(0, *name) for name in names]
    assert root_of(leaf for tile in tiles for leaf in decode_tile(tile, (folder / tile.path).read_bytes())) == checkpoint.root
    assert (folder / Tile(1, 0, full).path).exists()


def test_the_checkpoint_is_published_last(stage: Stage, tmp_path: Path) -> None:
    """Wherever publishing is cut off, the checkpoint that stands there has all the files that it needs."""
    stage.write("a")
    service, folder = stage.service(), tmp_path / "public"
    assert service.writer is not None
    first = service.writer.checkpoint()
    publish(service.tree, folder, write_durably)
    stage.write(*map(str, range(60)))
    service.writer.checkpoint()
    written: list[Path] = []

    def write(path: Path, data: bytes) -> None:
        assert first is not None
        assert (folder / "checkpoint").read_bytes() == first.serialize()
        write_durably(path, data)
        written.append(path)

    publish(service.tree, folder, write)
    assert len(written) > 3
    assert written[-1] == folder / "checkpoint"


def test_a_record_that_was_changed_since_is_not_published(stage: Stage, tmp_path: Path) -> None:
    """A full bundle of entries is never written again, so a record goes into it only if it is the one that was signed."""
    stage.write("a")
    service = stage.service()
    assert service.writer is not None
    service.writer.checkpoint()
    stage.journals.edit(stage.path, "UPDATE stored_events SET topic = 'interlock.action.refused' WHERE topic LIKE '%committed'")
    with pytest.raises(JournalCorrupt, match="not what was signed"):
        publish(service.tree, tmp_path / "public", write_durably)
    assert not list((tmp_path / "public").rglob("entries/*"))


def test_a_leaf_hash_that_was_changed_since_is_not_published(stage: Stage, tmp_path: Path) -> None:
    """Nor is a full tile ever written again: its hashes have to make the one that stands for it in the level above."""
    stage.write(*map(str, range(60)))
    service, folder = stage.service(), tmp_path / "public"
    assert service.writer is not None
    service.writer.checkpoint()
    first, *_ = stage.journals.log(stage.path)[0]
    edit = f"UPDATE stored_events SET leaf_hash = state_digest WHERE originator_id = '{first}'"  # noqa: S608 - a test's own
    assert stage.journals.edit(stage.path, edit) > 0
    with pytest.raises(JournalCorrupt, match="not what was signed"):
        publish(service.tree, folder, write_durably)
    assert not list(folder.rglob("*"))


def test_another_log_is_not_published_over_this_one(stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each epoch has a folder of its own: full tiles are never written again."""
    stage.write("a")
    key, folder = str(stage.key.path), str(tmp_path / "public")
    run(capsys, "log", "checkpoint", "--journal", stage.url, "--key", key)
    run(capsys, "log", "publish", folder, "--journal", stage.url)
    epoch = run(capsys, "log", "new-epoch", "--after-restore", "--journal", stage.url, "--key", key)
    assert str(epoch["origin"]).endswith("-2")
    assert "folder of its own" in str(run(capsys, "log", "publish", folder, "--journal", stage.url, code=2)["err"])


def test_status_says_what_is_signed(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """Who the log is, how much of it is signed, and which keys sign it."""
    stage.write("a")
    assert run(capsys, "log", "status", "--journal", stage.url)["origin"] is None
    run(capsys, "log", "checkpoint", "--journal", stage.url, "--key", str(stage.key.path))
    stage.write("b")
    status = run(capsys, "log", "status", "--journal", stage.url)
    assert status["origin"] == stage.origin
    assert status["vkeys"] == [stage.key.public]
    assert 0 < int(str(status["signed"])) < int(str(status["events"]))


def test_status_tells_a_monitor_that_nobody_signs(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """With a bound, an event that has waited for longer is an exit code, and so is a journal that nobody signs."""
    command = ["log", "status", "--journal", stage.url, "--max-pending"]
    stage.write("a")
    run(capsys, *command, "3600", code=1)
    run(capsys, "log", "checkpoint", "--journal", stage.url, "--key", str(stage.key.path))
    assert run(capsys, *command, "0")["pending_s"] is None
    stage.write("b")
    run(capsys, *command, "3600")
    run(capsys, *command, "0", code=1)


def test_recover_sends_nothing_before_it_is_anchored(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`interlock recover` is a sender too: with a policy it waits for whoever signs."""
    module = f"targets_{stage.folder.name.replace('-', '_')}"
    (stage.folder / f"{module}.py").write_text(TARGETS.format(ledger=str(stage.folder / "ledger")), encoding="utf-8")
    monkeypatch.syspath_prepend(str(stage.folder))
    policy = stage.folder / "policy"
    policy.write_text(f"log {stage.key.public}\nquorum none\n", encoding="utf-8")
    with stage.gate() as gate:
        approval = gate.approve("case-a", cap_minor=100, currency="usd", by="user:1", expires_in_s=3600)
        gate.propose("pay:a", stage.effect("a"), approval=approval)
    command = ["recover", "--journal", stage.url, "--targets", f"{module}:pay", "--anchor-policy", str(policy)]
    service = stage.service()
    service.start()
    run(capsys, *command)
    service.stop()
    assert (stage.folder / "ledger").read_text(encoding="utf-8") == "a\n"
    with stage.gate() as gate:
        assert gate.receipt("pay:a").status == "COMMITTED"


TARGETS = """
from interlock import Done, Evidence, Settlement, target
from tests.provider_world import Transfer


@target("pay", effect=Transfer)
def pay(effect, /, *, idempotency_key, deadline_s):
    with open({ledger!r}, "a") as ledger:
        print(effect.account, file=ledger)
    return Done(Evidence(reference="tx", state="done", settlement=Settlement.FINAL, json="{{}}"))
"""


def test_a_rotation_is_signed_by_both_keys(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """The new key takes the old one's place in an event of the log; both sign over the overlap, and then the new one alone."""
    stage.write("a")
    old = str(stage.key.path)
    run(capsys, "log", "checkpoint", "--journal", stage.url, "--key", old)
    rotated = run(capsys, "keys", "rotate", old, "--journal", stage.url)
    new = str(rotated["file"])
    tree = stage.service().tree
    log = tree.state()
    assert log is not None
    verify_rotation(stage.journal().log_id, log.rotations[0])
    assert len(log.vkeys) == 2
    both = run(capsys, "log", "checkpoint", "--journal", stage.url, "--key", new, "--old-key", old)
    note = SignedNote.parse(str(both["checkpoint"]).encode())
    assert [found.key for found in verify_note(note, [verifier_of(VerifierKey.parse(key)) for key in log.vkeys])] == [
        VerifierKey.parse(key) for key in reversed(log.vkeys)
    ]
    stage.write("b")
    alone = SignedNote.parse(str(run(capsys, "log", "checkpoint", "--journal", stage.url, "--key", new)["checkpoint"]).encode())
    assert len(alone.signatures) == 1


def test_the_new_key_alone_goes_on_from_the_old_ones_checkpoint(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """Who drops the old key at once loses nothing: the rotation that both signed vouches for what the old one had signed."""
    stage.write("a")
    old = str(stage.key.path)
    run(capsys, "log", "checkpoint", "--journal", stage.url, "--key", old)
    new = str(run(capsys, "keys", "rotate", old, "--journal", stage.url)["file"])
    assert run(capsys, "log", "checkpoint", "--journal", stage.url, "--key", new)["new"] is True


def test_the_old_key_alone_is_told_that_it_was_replaced(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """A process that still has the replaced key is told so, and not to begin a new epoch; with both keys it goes on."""
    stage.write("a")
    old = str(stage.key.path)
    run(capsys, "log", "checkpoint", "--journal", stage.url, "--key", old)
    new = str(run(capsys, "keys", "rotate", old, "--journal", stage.url)["file"])
    newer = str(run(capsys, "keys", "rotate", new, "--journal", stage.url)["file"])
    run(capsys, "log", "checkpoint", "--journal", stage.url, "--key", newer)
    stage.write("b")
    for replaced in (old, new):
        told = str(run(capsys, "log", "checkpoint", "--journal", stage.url, "--key", replaced, code=2)["err"])
        assert "took the place of the one that was given" in told
        assert "new-epoch" not in told
    assert run(capsys, "log", "checkpoint", "--journal", stage.url, "--key", newer, "--old-key", new)["new"] is True


def test_a_rotation_that_only_one_key_signed_counts_for_nothing(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody with the database alone can't put a key of theirs in the log's place."""
    stage.write("a")
    run(capsys, "log", "checkpoint", "--journal", stage.url, "--key", str(stage.key.path))
    thief = create_key(Role.LOG, stage.folder / "thief", stage.origin.removesuffix("-1"))
    journal = stage.journal()
    log = journal.find_log()
    assert log is not None
    from interlock.evidence.encoding import to_base64
    from tests.log_stage import now

    forged = to_base64(bytes(64))
    log.rotate_key("log", (stage.key.public, thief.public), (forged, forged), now())
    assert journal.append_log(log)
    stage.write("b")
    found = run(capsys, "log", "checkpoint", "--journal", stage.url, "--key", str(thief.path), code=3)
    assert "not signed by this log's key" in str(found["err"])


def test_an_attestors_rotation_ends_the_old_key_in_the_list(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """From the event's index on the new key counts, and the old one for what came before."""
    stage.write("a")
    run(capsys, "log", "checkpoint", "--journal", stage.url, "--key", str(stage.key.path))
    old = create_key(Role.ATTESTOR, stage.folder / "attestors")
    listed = stage.folder / "attestors.json"
    listed.write_bytes(Attestors((Attestor(read_attestor_key(old.path).verifier),)).serialize())
    rotated = run(capsys, "keys", "rotate", str(old.path), "--journal", stage.url, "--attestors", str(listed))
    index = int(str(rotated["index"]))
    before, after = Attestors.parse(listed.read_bytes())
    assert (before.keyid, before.until_index) == (old.key_id, index)
    assert (after.keyid, after.from_index) == (rotated["key_id"], index)
    log = stage.journal().find_log()
    assert log is not None
    verify_rotation(stage.journal().log_id, log.rotations[0])


@pytest.mark.parametrize("listed", [b"[1", b"[]", None], ids=["broken", "without the key", "missing"])
def test_nothing_is_rotated_for_a_list_that_can_not_take_it(
    stage: Stage, listed: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rotation can't be taken back, so the list is read before it: whoever corrects the call and calls again rotates once."""
    stage.write("a")
    run(capsys, "log", "checkpoint", "--journal", stage.url, "--key", str(stage.key.path))
    old, path = create_key(Role.ATTESTOR, stage.folder / "attestors"), stage.folder / "attestors.json"
    if listed is not None:
        path.write_bytes(listed)
    run(capsys, "keys", "rotate", str(old.path), "--journal", stage.url, "--attestors", str(path), code=2)
    run(capsys, "keys", "rotate", str(stage.key.path), "--journal", stage.url, "--attestors", str(path), code=2)
    log = stage.journal().find_log()
    assert log is not None
    assert not log.rotations
    assert [key.path for key in list_keys(old.path.parent)] == [old.path]


def test_a_folder_that_can_not_be_written_is_said(stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is the operator's to mend, and no defect; so is a folder in the place of a key."""
    stage.write("a")
    run(capsys, "log", "checkpoint", "--journal", stage.url, "--key", str(stage.key.path))
    (tmp_path / "file").touch()
    (tmp_path / "folder" / "checkpoint").mkdir(parents=True)
    for where in ("file", "folder"):
        words = run(capsys, "log", "publish", str(tmp_path / where), "--journal", stage.url, code=2)["err"]
        assert "can't be written" in str(words)
    with pytest.raises(UnsafeKeyFile, match="a folder"):
        read_attestor_key(stage.key.path.parent)


def test_two_publishers_take_turns(stage: Stage, tmp_path: Path) -> None:
    """The slower of two would put an older checkpoint over a newer one, and to a monitor that is a log that was rolled back."""
    stage.write("a")
    service, folder = stage.service(), tmp_path / "public"
    assert service.writer is not None
    service.writer.checkpoint()
    folder.mkdir()
    command = [sys.executable, "-m", "interlock.cli", "log", "publish", str(folder), "--journal", stage.url, "--json"]
    with alone(folder / ".publishing"):
        publisher = subprocess.Popen(command, stdout=subprocess.PIPE)
        wait_until(lambda: publisher.poll() is not None or _waits_for_a_lock(publisher.pid))
        assert publisher.poll() is None
        stage.write("b")
        later = service.writer.checkpoint()
    printed, _ = publisher.communicate(timeout=60)
    assert later is not None
    assert json.loads(printed)["size"] == Checkpoint.parse(later.text).size, "what is published is read when its turn comes"


def _waits_for_a_lock(pid: int) -> bool:
    return any(f" {pid} " in line for line in Path("/proc/locks").read_text(encoding="ascii").splitlines() if "->" in line)


def test_keys_are_listed_without_their_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`keys list` prints what others may see."""
    folder = str(tmp_path / "keys")
    assert main(["keys", "create", "log", folder, "--name", "test.example/log"]) == 0
    assert main(["keys", "create", "attestor", folder]) == 0
    capsys.readouterr()
    assert main(["keys", "list", folder]) == 0
    printed = capsys.readouterr().out
    assert "test.example/log-1+" in printed
    assert "PRIVATE" not in printed
    assert all(secret not in printed for path in (tmp_path / "keys").iterdir() for secret in path.read_text().split("+")[-1:])


def test_log_run_signs_until_it_is_stopped(stage: Stage) -> None:
    """A process of its own signs what gates without a key write, and signs what is left when SIGTERM comes."""
    stage.write("a")
    command = [sys.executable, "-m", "interlock.cli", "log", "run", "--journal", stage.url, "--key", str(stage.key.path)]
    with subprocess.Popen([*command, "--every-s", "0.1"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "signing the log" in process.stdout.readline()
        with stage.gate() as gate:
            stage.fire(gate, "b")
            wait_until(lambda: gate.receipt("pay:b").signed)
        stage.write("c")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    with stage.gate() as gate:
        assert gate.receipt("pay:c").signed

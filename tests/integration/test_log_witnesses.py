"""Asking witnesses: one that is silent keeps nobody waiting, and one that has seen more says so."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from functools import partial

import pytest

from interlock import Gate
from interlock.cli import main
from interlock.evidence.acceptance import accept_checkpoint
from interlock.evidence.policies import Policy
from interlock.keyfiles import Role, create_key
from interlock.log.service import read_policy
from tests.log_stage import Stage, Witnesses, restore, wait_until


@pytest.fixture
def witnesses(stage: Stage) -> Iterator[Witnesses]:
    """A witness that the policy asks for."""
    made = Witnesses(stage)
    yield made
    made.stop()


@pytest.fixture
def silent(stage: Stage, witnesses: Witnesses) -> Iterator[Policy]:
    """Beside it one that takes connections and never answers, in a policy that one of the two is enough for."""
    other = create_key(Role.WITNESS, stage.folder / "silent", "silent.example").public
    with socket.create_server(("127.0.0.1", 0)) as server:
        lines = witnesses.policy.read_text(encoding="utf-8").splitlines()[:2]
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        lines += [f"witness w2 {other} {url}", "group any-of-them any w2 w1", "quorum any-of-them"]
        witnesses.policy.write_text("\n".join(lines) + "\n", encoding="utf-8")
        yield read_policy(witnesses.policy)


def _is_signed_by(gate: Gate, name: str, who: str) -> bool:
    return who in (gate.receipt(f"pay:{name}").signed_by or "")


def test_a_silent_witness_keeps_neither_the_log_nor_the_others_waiting(
    stage: Stage, witnesses: Witnesses, silent: Policy
) -> None:
    """Checkpoints are made and cosigned by the other one, while the silent one is still waited for."""
    with stage.gate(stage.config(policy_file=witnesses.policy, witness_timeout_s=60)) as gate:
        for name in ("a", "b"):
            stage.fire(gate, name)
            wait_until(partial(_is_signed_by, gate, name, "w.example"))
    latest = stage.service().tree.latest()
    assert latest is not None
    accept_checkpoint(latest, silent)


def test_a_witness_that_was_down_gets_the_newest_checkpoint(stage: Stage, witnesses: Witnesses) -> None:
    """What it missed is proven to it in one step."""
    witnesses.stop()
    with stage.gate(stage.config(policy_file=witnesses.policy)) as gate:
        for name in ("a", "b", "c"):
            stage.fire(gate, name)
            wait_until(partial(_is_signed_by, gate, name, stage.origin))
        witnesses.start()
        wait_until(lambda: "w.example" in (gate.receipt("pay:c").signed_by or ""))
    assert len(stage.journals.rows(stage.path, "cosignatures")) <= 2


def test_a_new_leader_signs_before_it_asks(stage: Stage, witnesses: Witnesses) -> None:
    """What the leader before left without a cosignature gets none any more: it would say that what came since is younger."""
    writer = stage.service().writer
    assert writer is not None
    stage.write("a")
    assert writer.checkpoint() is not None
    stage.write("b")
    service = stage.service(stage.config(policy_file=witnesses.policy, every_s=1.0))
    service.start()
    wait_until(lambda: service.tree.store.cosigned_sizes(stage.origin))
    service.stop()
    assert service.tree.store.cosigned_sizes(stage.origin, limit=10) == [service.tree.size()]


def test_a_witness_that_has_seen_more_is_an_alarm(stage: Stage, witnesses: Witnesses, capsys: pytest.CaptureFixture[str]) -> None:
    """A journal that was set back together with its mark is signed again, and the witness says that it has seen more."""
    command = [
        "log",
        "checkpoint",
        "--journal",
        stage.url,
        "--key",
        str(stage.key.path),
        "--policy",
        str(witnesses.policy),
        "--json",
    ]
    stage.write("a")
    assert main(command) == 0
    size = len(stage.journals.log(stage.path))
    stage.write("b", "c")
    assert main(command) == 0
    restore(stage, size)
    stage.mark.unlink()
    stage.write("d")
    capsys.readouterr()
    assert main(command) == 1
    (answer,) = json.loads(capsys.readouterr().out)["witnesses"].values()
    assert answer["result"] == "ahead"
    stage.write("e", "f", "g")
    assert main(command) == 1
    (answer,) = json.loads(capsys.readouterr().out)["witnesses"].values()
    assert answer["result"] == "forked"

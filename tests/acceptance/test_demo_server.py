"""The demo's server from outside: who may use it, what it tells, what it keeps, and what is left of it after Ctrl-C."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.demo.process import DemoProcess
from harness.standins.anthropic.client import AnthropicStandIn
from harness.standins.stripe.client import LOCAL_API_KEY as STRIPE_KEY
from harness.standins.stripe.client import StripeStandIn
from harness.world import ROOT
from interlock import Receipts
from interlock.domain.action import GatedAction

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("demo-server")]

JSON = {"content-type": "application/json"}
MOCK_RUN = {"scenario": "hand_refund_during_outage", "mock": True}
_BARE = ["--local", "--without-temporal"]
ONLY_KEY = "sk-ant-local-only-for-workers"


@dataclass(frozen=True)
class Reply:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        """Its body."""
        return json.loads(self.text)


def ask(demo: DemoProcess, path: str, *, body: object = None, headers: Mapping[str, str] | None = None) -> Reply:
    """Send a request as the demo's own page would; `headers` are added, or take the place of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", demo.port, timeout=30)
    sent = {"host": f"127.0.0.1:{demo.port}", **(JSON if body is not None else {}), **(headers or {})}
    connection.putrequest("GET" if body is None else "POST", path, skip_host=True)
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    for name, value in {**sent, "content-length": str(len(content))}.items():
        connection.putheader(name, value)
    connection.endheaders(content)
    with connection.getresponse() as response:
        reply = Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read().decode())
    connection.close()
    return reply


def play(demo: DemoProcess, page: str = "standalone", **asked: object) -> dict[str, Any]:
    """Start a run, and return it with all its events, once it has ended."""
    run = ask(demo, f"/api/pages/{page}/runs", body=MOCK_RUN | asked).json
    events = ask(demo, f"/api/runs/{run['id']}/events").text
    return dict(run) | {"events": [json.loads(line.removeprefix("data: ")) for line in events.splitlines() if "data: " in line]}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoProcess]:
    """A demo that has one of two keys, and so is LOCAL."""
    keys = {"ANTHROPIC_API_KEY": ONLY_KEY, "STRIPE_SECRET_KEY": "", "PATH": "/usr/bin:/bin"}
    with DemoProcess(tmp_path_factory.mktemp("demo"), ["--without-temporal", "--mock-pause-s", "0.05"], keys) as running:
        yield running


@pytest.fixture(scope="module")
def finished(demo: DemoProcess) -> str:
    """A run that has ended: its id."""
    return str(play(demo)["id"])


READS = ["/", "/standalone", "/static/run.js", "/api/pages/standalone", "/api/keys", "/api/receipts", "/api/runs/{run}/events"]
WRITES = ["/api/pages/standalone/runs", "/api/runs/{run}/stop", "/api/runs/{run}/verify", "/api/receipts/verify"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example:{port}", ""]
)
def test_a_foreign_host_is_answered_nothing(demo: DemoProcess, finished: str, host: str) -> None:
    """A name that resolves to this machine can't read, start or stop anything (DNS rebinding)."""
    headers = {"host": host.format(port=demo.port)}
    for path in READS:
        assert ask(demo, path.format(run=finished), headers=headers).status == 421, path
    for path in WRITES:
        assert ask(demo, path.format(run=finished), body=MOCK_RUN, headers=headers).status == 421, path
    assert ask(demo, "/api/pages/standalone").json["run"]["id"] == finished


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "https://127.0.0.1:{port}"},
        {"origin": "http://localhost:{port}"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_page_of_another_origin_is_refused(demo: DemoProcess, finished: str, headers: dict[str, str]) -> None:
    """It can't start, read or stop a run, and no answer gives it leave to."""
    sent = {name: value.format(port=demo.port) for name, value in headers.items()}
    for path in [path.format(run=finished) for path in READS if path.startswith("/api")]:
        assert ask(demo, path, headers=sent).status == 403, path
    for path in WRITES:
        assert ask(demo, path.format(run=finished), body=MOCK_RUN, headers=sent).status == 403, path
    assert ask(demo, "/api/pages/standalone").json["run"]["id"] == finished


@pytest.mark.parametrize("origin", ["http://127.0.0.1:{port}", "http://localhost:{port}"])
def test_its_own_pages_are_served_under_both_names(demo: DemoProcess, origin: str) -> None:
    """127.0.0.1 and localhost, each with its port."""
    own = origin.format(port=demo.port)
    headers = {"origin": own, "host": own.removeprefix("http://"), "sec-fetch-site": "same-origin"}
    assert ask(demo, "/api/receipts/verify", body={"key": "none"}, headers=headers).status == 404


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_a_form_can_send_does_nothing(demo: DemoProcess, media_type: str) -> None:
    """A request that does something is application/json, which no foreign page sends without asking first."""
    before = ask(demo, "/api/pages/standalone").json["run"]
    for path in WRITES:
        assert ask(demo, path.format(run="none"), body=MOCK_RUN, headers={"content-type": media_type}).status == 415, path
    assert ask(demo, "/api/pages/standalone").json["run"] == before


def test_every_answer_is_guarded(demo: DemoProcess, finished: str) -> None:
    """A strict policy without inline, no sniffing, no frames, and leave for no other origin; refusals too."""
    replies = [ask(demo, path.format(run=finished)) for path in READS]
    replies += [ask(demo, "/nothing"), ask(demo, "/standalone", headers={"host": "evil.example"})]
    for reply in replies:
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert not any(name.startswith("access-control-") for name in reply.headers)


def test_keys_never_reach_the_page(demo: DemoProcess, finished: str) -> None:
    """The routes name what is missing, and no answer holds the key that is there."""
    assert demo.mode == "LOCAL"
    assert ask(demo, "/api/keys").json == {"mode": "LOCAL", "missing": ["STRIPE_SECRET_KEY"]}
    for path in READS:
        assert ONLY_KEY not in ask(demo, path.format(run=finished)).text, path


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/pages/standalone/runs", {"scenario": "none"}, 400),
        ("/api/pages/standalone/runs", {"scenario": ["hand_refund_during_outage"]}, 400),
        ("/api/pages/standalone/runs", MOCK_RUN | {"mock": "yes"}, 400),
        ("/api/pages/standalone/runs", [], 400),
        ("/api/pages/standalone/runs", "x" * 5000, 413),
        ("/api/pages/standalone/runs", b"[" * 4000, 400),
        ("/api/pages/none/runs", MOCK_RUN, 404),
        ("/api/runs/none/stop", {}, 404),
        ("/api/receipts/verify", {"key": 1}, 400),
        ("/api/receipts/verify", {"key": "refund:none"}, 404),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(demo: DemoProcess, path: str, body: object, status: int) -> None:
    """Each refusal is JSON with an error, and starts nothing."""
    reply = ask(demo, path, body=body)
    assert reply.status == status
    assert reply.json["error"]


@pytest.mark.parametrize("asked", ["status=NONE", "since=yesterday", "min_amount_minor=much", "after=none", "approval=%00"])
def test_a_filter_that_makes_no_sense_is_refused_in_words(demo: DemoProcess, asked: str) -> None:
    """It is not taken for no filter."""
    reply = ask(demo, f"/api/receipts?{asked}")
    assert reply.status == 400
    assert reply.json["error"]


def test_one_run_goes_on_at_a_time_over_both_pages(demo: DemoProcess) -> None:
    """A second start is refused with 409 on either page, and the first goes on to its end."""
    run = ask(demo, "/api/pages/standalone/runs", body=MOCK_RUN).json
    assert ask(demo, "/api/pages/standalone/runs", body=MOCK_RUN).status == 409
    assert ask(demo, "/api/pages/temporal/runs", body=MOCK_RUN).status == 409
    assert '"state": "done"' in ask(demo, f"/api/runs/{run['id']}/events").text


def test_a_run_is_told_from_any_event_on(demo: DemoProcess, finished: str) -> None:
    """A page that lost the connection goes on where it was; what it had is not told again."""
    told = ask(demo, f"/api/runs/{finished}/events").text.splitlines()
    numbers = [int(line.removeprefix("id: ")) for line in told if line.startswith("id: ")]
    assert numbers == list(range(1, len(numbers) + 1))
    rest = ask(demo, f"/api/runs/{finished}/events", headers={"last-event-id": str(len(numbers) - 2)}).text
    assert [line for line in rest.splitlines() if line.startswith("id: ")] == [f"id: {number}" for number in numbers[-2:]]
    assert ask(demo, f"/api/runs/{finished}/events", headers={"last-event-id": "9" * 5000}).text.splitlines() == told


def test_the_time_of_a_run_that_has_ended_stands(demo: DemoProcess) -> None:
    """Asked twice, it says the same, and what its last event says."""
    run = play(demo)
    first = ask(demo, "/api/pages/standalone").json["run"]
    time.sleep(0.05)
    assert ask(demo, "/api/pages/standalone").json["run"] == first
    assert first["elapsed_s"] == next(event for event in run["events"] if event.get("kind") == "end")["took_s"]


def test_nothing_of_a_mock_is_in_the_journal(demo: DemoProcess) -> None:
    """Receipts of what was simulated are not listed beside real ones; its own can be verified."""
    run = play(demo)
    assert ask(demo, "/api/receipts").json["receipts"] == []
    assert ask(demo, f"/api/runs/{run['id']}/verify", body={}).json["valid"] is True


def test_a_bundle_is_only_of_what_the_journal_holds(demo: DemoProcess) -> None:
    """There is none of an action that it does not know."""
    assert ask(demo, "/api/receipts/bundle?key=refund:none").status == 404


def test_without_temporal_only_mock_can_be_played_on_its_page(demo: DemoProcess) -> None:
    """It says why, in a line."""
    reply = ask(demo, "/api/pages/temporal/runs", body=MOCK_RUN | {"mock": False})
    assert reply.status == 409
    assert "without Temporal" in reply.json["error"]
    assert play(demo, "temporal")["state"] == "running"


def test_it_listens_on_this_machine_only(demo: DemoProcess) -> None:
    """No address but 127.0.0.1 has its port (proc_net_tcp: the address is the bytes of 127.0.0.1)."""
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines() if " 0A " in line]
    listening += [line.split()[1] for line in Path("/proc/net/tcp6").read_text(encoding="ascii").splitlines() if " 0A " in line]
    assert [one for one in listening if one.endswith(f":{demo.port:04X}")] == [f"0100007F:{demo.port:04X}"]


def test_a_live_key_is_refused_at_the_start(tmp_path: Path) -> None:
    """Nothing is served with a key that moves real money."""
    with pytest.raises(RuntimeError, match="ended before it listened"):
        DemoProcess(tmp_path, ["--without-temporal"], {"STRIPE_SECRET_KEY": "sk_live_local_0000", "ANTHROPIC_API_KEY": "x"})


@pytest.mark.long
def test_a_live_demo_takes_the_same_path(tmp_path: Path) -> None:
    """Rehearsed at stand-ins: it says so, a row that can't be had at the real provider is EMULATED, and no key is told."""
    keys = {"STRIPE_SECRET_KEY": STRIPE_KEY, "ANTHROPIC_API_KEY": ONLY_KEY}
    with AnthropicStandIn() as model, StripeStandIn(tmp_path / "ledger.jsonl") as stripe:
        addresses = ["--stripe-address", stripe.api_base, "--model-address", model.base_url]
        with DemoProcess(tmp_path / "data", ["--without-temporal", *addresses], keys) as demo:
            assert demo.mode == "REHEARSAL"
            page = ask(demo, "/api/pages/standalone")
            emulated = [story["name"] for story in page.json["stories"] if story["emulated"]]
            assert "key_lost_inside_window" in emulated
            assert "hand_refund_during_outage" not in emulated
            events = play(demo, mock=False, scenario="key_lost_inside_window")["events"]
            assert not any(key in page.text + json.dumps(events) for key in keys.values())
    verdicts = {event["column"]: event["verdict"] for event in events if event.get("kind") == "verdict"}
    assert verdicts == {"standard": "VIOLATED by $20", "interlock": "held"}


def test_a_claim_that_is_too_short_for_a_send_is_refused_at_the_start(tmp_path: Path) -> None:
    """It would be found out by each worker only."""
    with pytest.raises(RuntimeError, match="ended before it listened"):
        DemoProcess(tmp_path, ["--local", "--without-temporal", "--claim-ttl-s", "12"])


def test_ctrl_c_ends_every_process_and_receipts_outlive_it(tmp_path: Path) -> None:
    """In the middle of a real run: nothing that it started is left, and the next demo lists what the journal holds."""
    with DemoProcess(tmp_path, ["--local", "--without-temporal"]) as demo:
        run = ask(demo, "/api/pages/standalone/runs", body=MOCK_RUN | {"mock": False}).json
        events = ask(demo, f"/api/runs/{run['id']}/events").text
        assert '"kind": "receipt"' in events
        kept = ask(demo, "/api/receipts").json["receipts"]
        assert _pace_s(demo.data / "journal-local.db", kept[0]["key"]) == pytest.approx((15.0, 10.0), abs=0.5)
        ask(demo, "/api/pages/standalone/runs", body=MOCK_RUN | {"mock": False})
        while len(started := _descendants(demo.process.pid)) < 5:
            time.sleep(0.02)
        assert demo.interrupt() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in started)
    with DemoProcess(tmp_path, ["--local", "--without-temporal"]) as demo:
        again = ask(demo, "/api/receipts").json["receipts"]
    assert [one["key"] for one in again if one in kept] == [one["key"] for one in kept] != []
    # It was ended in the middle, and not waited for: nobody has brought its action to an end.
    assert all(one["status"] == "IN_FLIGHT" for one in again if one not in kept)


def test_it_does_not_outlive_who_started_it(tmp_path: Path) -> None:
    """Where that was killed, nobody can tell it to end: its input is closed, and that ends it and what it started."""
    script = (
        "from pathlib import Path; from harness.demo.process import DemoProcess; "
        f"demo = DemoProcess(Path({str(tmp_path)!r}), {_BARE}); "
        "print(demo.process.pid, flush=True); input()"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        pid = int(one.stdout.readline())
        started = [pid, *_descendants(pid)]
        one.kill()
    deadline = time.monotonic() + 120
    while any(Path(f"/proc/{pid}").exists() for pid in started) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [pid for pid in started if Path(f"/proc/{pid}").exists()] == []


def test_it_ends_with_its_input_although_a_shell_had_it_ignore_interrupts(tmp_path: Path) -> None:
    """What runs in the background of a shell ignores them, and its input may be over before the server listens for them."""
    ignoring = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); os.execv(sys.executable, sys.argv[1:])"
    demo = [sys.executable, "-m", "harness.demo", "--port", "0", "--data", str(tmp_path), "--end-with-input", *_BARE]
    done = subprocess.run(
        [sys.executable, "-c", ignoring, *demo], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def _pace_s(journal: Path, key: str) -> tuple[float, float]:
    """Return for how long a claim and a send of an action may last, in seconds."""
    with Receipts.open(f"sqlite:///{journal}") as receipts:
        action = receipts.action(key)
    (claimed,) = [event for event in action.history if isinstance(event, GatedAction.Claimed) and event.claim.term == 1]
    sent = action.dispatches[0]
    return (claimed.claim.expires_at - claimed.timestamp).total_seconds(), (sent.deadline_at - sent.timestamp).total_seconds()


def _descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and those that they started."""
    tasks = Path(f"/proc/{pid}/task")
    children = [int(child) for task in tasks.iterdir() for child in (task / "children").read_text(encoding="ascii").split()]
    return children + [far for child in children if Path(f"/proc/{child}").exists() for far in _descendants(child)]

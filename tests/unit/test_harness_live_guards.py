"""Live runs of the crash matrix take test keys only, and inherit nothing that is emulated."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness import run
from harness.columns.job import GateSettings, Job, JobRefused, KillPoint
from harness.demo import __main__ as demo
from harness.keys import LiveKeyRefused
from harness.live import LiveWorld, NotEmulatedLive, Pace
from harness.run import Plan
from harness.scenarios import BURN_OFF, SCENARIOS
from harness.standins.anthropic.client import LOCAL_API_KEY as LOCAL_ANTHROPIC_KEY
from harness.standins.stripe.client import LOCAL_API_KEY as LOCAL_STRIPE_KEY

LIVE_KEY = "sk_live_local_0000"
LOOPBACK = "http://127.0.0.1:1"

EMULATED_LIVE = {
    "key_pruned_after_24h",
    "key_lost_inside_window",
    "no_lookup_after_24h",
    "hand_refund_during_outage (burn off)",
    "approval_revoked_during_outage (burn off)",
}


def _job(
    *,
    live: bool,
    clock_ahead_s: float = 0.0,
    settings: GateSettings | None = None,
    stripe_api_base: str | None = LOOPBACK,
    anthropic_base_url: str | None = LOOPBACK,
    kill_at: KillPoint | None = None,
    emulated: bool = False,
) -> Job:
    return Job(
        case_id="case-1",
        column="interlock",
        folder="nowhere",
        live=live,
        payment="pi_local_1",
        approved_minor=2000,
        currency="usd",
        complaint="broken",
        model="local",
        stripe_api_base=stripe_api_base,
        anthropic_base_url=anthropic_base_url,
        kill_at=kill_at,
        clock_ahead_s=clock_ahead_s,
        settings=settings or GateSettings(),
        emulated=emulated,
    )


def test_a_live_job_has_no_moved_clock() -> None:
    """A real approval would expire, or a real key be taken for forgotten, by a clock that is wrong."""
    with pytest.raises(JobRefused, match="moved clock"):
        _job(live=True, clock_ahead_s=1.0)


@pytest.mark.parametrize("settings", [BURN_OFF, GateSettings(lookup=False)])
def test_a_live_job_has_no_figures_of_the_stand_in(settings: GateSettings) -> None:
    """What holds for the stand-in is promised by no real provider."""
    with pytest.raises(JobRefused, match="stand-in only"):
        _job(live=True, settings=settings)


def test_an_emulated_job_may_have_both_and_says_so() -> None:
    """Its row is marked; and it is a live one behind a proxy on this machine, or it is none."""
    assert _job(live=True, emulated=True, clock_ahead_s=1.0, settings=BURN_OFF).emulated
    with pytest.raises(JobRefused, match="emulated"):
        _job(live=False, emulated=True)
    for elsewhere in (None, "https://api.stripe.com"):
        with pytest.raises(JobRefused, match="emulated"):
            _job(live=True, emulated=True, stripe_api_base=elsewhere)


def test_the_guard_holds_when_a_job_is_read_from_its_file(tmp_path: Path) -> None:
    """A file that was made by something else is checked as well."""
    path = replace(_job(live=False, clock_ahead_s=5.0), folder=str(tmp_path)).save()
    path.write_bytes(path.read_bytes().replace(b'"live":false', b'"live":true'))
    with pytest.raises(Exception, match="moved clock"):
        Job.load(path)


@pytest.mark.parametrize("elsewhere", [None, "https://api.stripe.com", "http://192.0.2.1"])
def test_a_local_job_never_leaves_this_machine(elsewhere: str | None) -> None:
    """Neither the payments nor the model of a local run are anywhere else."""
    with pytest.raises(JobRefused, match=r"127\.0\.0\.1"):
        _job(live=False, stripe_api_base=elsewhere)
    with pytest.raises(JobRefused, match=r"127\.0\.0\.1"):
        _job(live=False, anthropic_base_url=elsewhere)


def test_a_local_job_takes_no_key_that_could_be_real(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a test key, which would be sent over a socket of our own for nothing."""
    monkeypatch.setenv("STRIPE_SECRET_KEY", "sk_test_0123456789")
    with pytest.raises(JobRefused, match="sk_test_local_"):
        _ = _job(live=False).stripe_key


def test_a_live_key_is_refused_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command ends, without the key in what it says."""
    monkeypatch.setenv("STRIPE_SECRET_KEY", LIVE_KEY)
    assert run.main(["--live"]) == run.BAD_USAGE
    said = capsys.readouterr()
    assert "not a test key" in said.err
    assert LIVE_KEY not in said.out + said.err
    with pytest.raises(LiveKeyRefused):
        LiveWorld(stripe_key=LIVE_KEY, anthropic_key=LOCAL_ANTHROPIC_KEY)


def test_a_live_run_without_keys_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It does not quietly become a local one."""
    monkeypatch.setenv("STRIPE_SECRET_KEY", LOCAL_STRIPE_KEY)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    assert run.main(["--live"]) == run.BAD_USAGE
    assert "nothing was run" in capsys.readouterr().err


def test_a_live_worker_inherits_no_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its environment is a list of known names: keys, paths, a proxy."""
    for name in ("INTERLOCK_KILL_AT", "INTERLOCK_CLOCK_AHEAD_S", "PYTHONSTARTUP", "STRIPE_API_BASE"):
        monkeypatch.setenv(name, "1")
    world = LiveWorld(stripe_key=LOCAL_STRIPE_KEY, anthropic_key=LOCAL_ANTHROPIC_KEY)
    assert world.worker_environment().keys() <= {
        *("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "PYTHONPATH"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"),
        *("STRIPE_SECRET_KEY", "ANTHROPIC_API_KEY"),
    }


def test_rows_that_can_not_be_had_live_are_emulated_and_marked() -> None:
    """A forgotten key, a moved clock and figures of the stand-in: those rows run behind a proxy, and the others do not."""
    assert {cell[0].name for cell in Plan(scenarios=tuple(SCENARIOS.values()), columns=("interlock",)).cells()} == set(SCENARIOS)
    assert {name for name, scenario in SCENARIOS.items() if scenario.emulated} == EMULATED_LIVE
    with LiveWorld(stripe_key=LOCAL_STRIPE_KEY, anthropic_key=LOCAL_ANTHROPIC_KEY) as world:
        for name in EMULATED_LIVE:
            assert str(world.provider(SCENARIOS[name]).api_base).startswith("http://127.0.0.1:")
        provider = world.provider(SCENARIOS["crash_after_commit"])
        assert provider.api_base is None
        with pytest.raises(NotEmulatedLive):
            provider.forget_keys("pi_local_1")
        with pytest.raises(NotEmulatedLive):
            provider.pass_time(1.0)


@pytest.mark.parametrize(
    ("addresses", "words"),
    [
        (["--stripe-address", "http://192.0.2.1:80", "--model-address", "http://127.0.0.1:1"], "not at http://192.0.2.1:80"),
        (["--stripe-address", "http://127.0.0.1:1", "--model-address", "http://192.0.2.1:80"], "not at http://192.0.2.1:80"),
        (["--stripe-address", "http://127.0.0.1:1"], "for both services"),
        (["--model-address", "http://127.0.0.1:1"], "for both services"),
    ],
)
def test_a_rehearsal_is_at_stand_ins_on_this_machine_alone(
    addresses: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Keys go nowhere but to the real services or to 127.0.0.1, of the demo neither; and a half that is real is no rehearsal."""
    monkeypatch.setenv("STRIPE_SECRET_KEY", LOCAL_STRIPE_KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", LOCAL_ANTHROPIC_KEY)
    of_demo = ["--port", "0", "--data", str(tmp_path), "--without-temporal"]
    for main, others in ((run.main, ["--live"]), (demo.main, of_demo)):
        assert main([*others, *addresses]) == run.BAD_USAGE
        said = capsys.readouterr().err
        assert words in said
        assert "nothing was run" in said


def test_cases_begin_apart() -> None:
    """The first at once, each other a while after the one before, and none earlier for one that was late."""
    now_s, slept = [100.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now_s[0] += seconds

    pace = Pace(4.0, lambda: now_s[0], sleep)
    pace.begin()
    pace.begin()
    now_s[0] += 10.0
    pace.begin()
    pace.begin()
    assert slept == [0.0, 4.0, 0.0, 4.0]

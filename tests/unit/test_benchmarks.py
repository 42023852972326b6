import json
import math
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.benchmarks import null, raw
from harness.benchmarks.__main__ import PARTS, Part, main, run
from harness.benchmarks.actions import Load, Round, ratios, run_processes
from harness.benchmarks.chart import Rate, bars
from harness.benchmarks.crew import Done
from harness.benchmarks.machine import Machine, this_machine
from harness.benchmarks.postgres import CONTESTS, throughput
from harness.benchmarks.recovery import LIMIT_S, closing_time
from harness.benchmarks.report import Measure, Report, ratio
from harness.benchmarks.rounds import Contest, Length, Rounds, fitting
from harness.benchmarks.timing import BenchmarkFailed, Spread, quiet_median_us, timed_ns
from harness.case import CaseResult
from harness.columns.job import Status
from harness.scenarios import SCENARIOS
from harness.verdicts import AnswerVerdict
from interlock import Gate
from interlock.errors import InvalidApproval

MACHINE = Machine(
    at_utc="2026-01-01T00:00:00+00:00",
    commit="abc1234",
    cpu="A processor",
    cores=2,
    load=0.5,
    python="3.11.7",
    sqlite="3.40.1",
    packages={"psycopg": "3.3.9"},
    system="Linux 6",
)


def measure(value: float, limit: float | None) -> Measure:
    """A ratio of the benchmark `actions`."""
    return Measure(part="actions", name="1 process, median", value=value, unit="ratio", limit=limit, seen="3 µs against 1 µs")


def report(*measures: Measure, failures: tuple[str, ...] = ()) -> Report:
    """A run on a quiet machine."""
    return Report(machine=MACHINE, quick=False, measures=measures, failures=failures)


def part(*measures: Measure, failure: str | None = None) -> Part:
    """A benchmark that takes no time."""

    def measured(*, quick: bool) -> list[Measure]:
        del quick
        if failure is not None:
            raise BenchmarkFailed(failure)
        return list(measures)

    return measured


class TestArithmetic:
    def test_a_spread_has_median_p99_and_mean_in_microseconds(self) -> None:
        """Of 1 to 200 µs, the median is 100.5 µs, the 99th percentile 198 µs, and the mean 100.5 µs."""
        spread = Spread.of([us * 1000 for us in range(200, 0, -1)])
        assert spread == Spread(median_us=100.5, p99_us=198.0, mean_us=100.5)

    @pytest.mark.parametrize("durations", [[7000], [7000, 7000]])
    def test_a_percentile_is_a_duration_that_occurred(self, durations: list[int]) -> None:
        """With few durations the 99th percentile is the longest."""
        assert Spread.of(durations).p99_us == 7.0

    def test_no_durations_are_no_figure(self) -> None:
        """Nothing timed is a failure and not a zero."""
        with pytest.raises(BenchmarkFailed):
            Spread.of([])

    def test_a_quiet_median_is_the_lower_quartile_of_the_rounds(self) -> None:
        """Of eight rounds the second fastest counts, so one lucky and six disturbed ones do not."""
        assert quiet_median_us([[us * 1000] for us in (900, 5, 800, 10, 700, 600, 500, 400)]) == 10.0

    def test_every_call_is_made_once_and_timed(self) -> None:
        """There is a duration for each call, in order."""
        made: list[int] = []
        durations = timed_ns([lambda: made.append(1), lambda: made.append(2)])
        assert made == [1, 2]
        assert len(durations) == 2

    def test_a_ratio_is_ours_over_the_base(self) -> None:
        """600 µs against 200 µs are 3."""
        assert ratio("actions", "x", 600.0, 200.0, limit=None, base="for two raw commits") == Measure(
            part="actions", name="x", value=3.0, unit="ratio", limit=None, seen="600 µs against 200 µs for two raw commits"
        )

    @pytest.mark.parametrize(("limited", "processes"), [("median", 1), ("mean", 2)])
    def test_the_processes_of_a_round_count_together(self, limited: str, processes: int) -> None:
        """Gate durations are divided by raw ones, over all processes, and one figure carries the limit."""
        load = Load(processes=processes, rounds=2, actions=2, limited="mean" if limited == "mean" else "median", limit=3.0)
        one = [Round([4000, 6000], [1000, 3000]), Round([4000, 6000], [1000, 3000])]
        figures = ratios(load, [one] * processes)
        assert [figure.value for figure in figures] == [5 / 2, 6 / 3, 5 / 2]
        assert [figure.name.partition(", ")[2] for figure in figures] == ["median", "p99", "mean"]
        assert {figure.name.partition(", ")[2]: figure.limit for figure in figures if figure.limit} == {limited: 3.0}


class TestProcesses:
    def test_every_process_measures_every_round(self, tmp_path: Path) -> None:
        """Two processes on one file come back with a gate and a raw duration for each action of each counted round."""
        load = Load(processes=2, rounds=2, actions=3, limited="mean", limit=6.0)
        found = run_processes(load, tmp_path)
        assert [[(len(one.gate_ns), len(one.raw_ns)) for one in rounds] for rounds in found] == [[(3, 3)] * 2] * 2

    def test_a_process_that_fails_ends_the_others(self, tmp_path: Path) -> None:
        """No process waits for one that is gone: the run fails with the reason."""
        load = Load(processes=2, rounds=2, actions=3, limited="mean", limit=6.0)
        with Gate.open(f"sqlite:///{tmp_path / 'gate.db'}") as gate:
            gate.approve("case-01-00-0000", by="user:2", expires_in_s=60)
        with pytest.raises(InvalidApproval):
            run_processes(load, tmp_path)


class TestYardstick:
    @pytest.fixture
    def files(self, tmp_path: Path) -> Iterator[tuple[sqlite3.Connection, sqlite3.Connection]]:
        """A journal with two committed actions, and an empty file of equal schema."""
        path = tmp_path / "gate.db"
        with Gate.open(f"sqlite:///{path}", targets=[null.null_target]) as gate:
            for name in ("case-1", "case-2"):
                null.grant(gate, name)
                null.fire(gate, name)
        with closing(raw.connect(path)) as journal, closing(raw.connect(tmp_path / "raw.db")) as equal:
            raw.make_equal_schema(journal, equal)
            yield journal, equal

    def test_raw_commits_store_the_bytes_of_the_gate(self, files: tuple[sqlite3.Connection, sqlite3.Connection]) -> None:
        """After both raw commits the rows of the action are what the gate stored, byte for byte."""
        journal, equal = files
        for name in ("case-1", "case-2"):
            raw.write(equal, raw.stored_commits(journal, name, name))
        stored = "SELECT * FROM stored_events WHERE topic <> 'interlock.approval.granted' ORDER BY position"
        assert equal.execute(stored).fetchall() == journal.execute(stored).fetchall()
        taken = "SELECT * FROM names WHERE kind = 'action' ORDER BY digest"
        assert equal.execute(taken).fetchall() == journal.execute(taken).fetchall()
        rows = "SELECT * FROM receipts ORDER BY action_id"
        assert equal.execute(rows).fetchall() == journal.execute(rows).fetchall()

    def test_the_first_commit_announces_and_the_second_ends(self, files: tuple[sqlite3.Connection, sqlite3.Connection]) -> None:
        """The first holds Intended, Claimed, Dispatched and Reserved, and the second Committed and Spent."""
        journal, equal = files
        announced, ended = raw.stored_commits(journal, "case-1", "case-1")
        topics = "SELECT substr(topic, 11) FROM stored_events ORDER BY position"
        raw.write(equal, [announced])
        first = ["action.intended", "action.claimed", "action.dispatched", "approval.reserved"]
        assert [topic for (topic,) in equal.execute(topics)] == first
        raw.write(equal, [ended])
        assert [topic for (topic,) in equal.execute(topics)] == [*first, "action.committed", "approval.spent"]

    def test_raw_commits_are_durable(self, files: tuple[sqlite3.Connection, sqlite3.Connection]) -> None:
        """The yardstick is in WAL mode with `synchronous=FULL`, as the gate is."""
        _, equal = files
        assert equal.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert equal.execute("PRAGMA synchronous").fetchone() == (2,)

    def test_an_action_that_does_not_commit_is_not_timed(self, tmp_path: Path) -> None:
        """An action that is refused fails the benchmark."""
        with Gate.open(f"sqlite:///{tmp_path / 'gate.db'}", targets=[null.null_target]) as gate:
            null.grant(gate, "case-1")
            gate.revoke("case-1", by="user:1")
            with pytest.raises(BenchmarkFailed, match="Refused"):
                null.fire(gate, "case-1")


class TestRounds:
    def test_rates_and_medians_are_those_of_the_rounds(self) -> None:
        """The middle round counts for the rate and the median, and every action for the 99th percentile."""
        rounds = Rounds([Done(wall_s=wall_s, durations_ns=[us * 1000] * 2) for wall_s, us in ((1, 1000), (2, 3000), (4, 9000))])
        assert (rounds.per_s, rounds.p50_ms, rounds.p99_ms) == (1.0, 3.0, 9.0)

    @pytest.mark.parametrize(("per_s", "writers", "actions"), [(1000, 4, 125), (10, 16, 1), (1e9, 1, 500)])
    def test_a_round_holds_as_many_actions_as_there_is_time_for(self, per_s: float, writers: int, actions: int) -> None:
        """At least one for each writer, and at most what the length says."""
        assert fitting(per_s, writers, Length(rounds=1, round_s=0.5)) == actions


class TestThroughput:
    def found(self, **per_s: float) -> dict[Contest, Rounds]:
        """A run in which everything else does 100 a second."""
        return {
            contest: Rounds(
                [Done(wall_s=1 / (per_s.get(contest.peer, 100.0) if contest.writers == 16 else 100.0), durations_ns=[1000])]
            )
            for contest in CONTESTS
        }

    @pytest.mark.parametrize(
        ("per_s", "missed"),
        [
            ({"raw": 1000, "gate": 250, "stock": 80, "dbos": 50}, []),
            ({"raw": 1001, "gate": 250, "stock": 80, "dbos": 50}, ["Interlock / raw"]),
            ({"raw": 1000, "gate": 250, "stock": 84, "dbos": 50}, ["Interlock / eventsourcing"]),
            ({"raw": 1000, "gate": 250, "stock": 80, "dbos": 51}, ["Interlock / DBOS"]),
        ],
    )
    def test_16_writers_have_to_keep_up(self, per_s: dict[str, float], missed: list[str]) -> None:
        """With at least a quarter of raw throughput, three times the stock recorder's and five times DBOS's."""
        measures = throughput(self.found(**per_s))
        assert [measure.name.partition(",")[0] for measure in measures if measure.verdict == "MISSED"] == missed
        assert len([measure for measure in measures if measure.limit is not None]) == 3

    def test_every_contest_is_drawn(self) -> None:
        """Each peer, with each number of writers that it was measured with."""
        rates = [measure.rate for measure in throughput(self.found()) if measure.rate is not None]
        assert len({(rate.peer, rate.writers) for rate in rates}) == len(CONTESTS)


class TestChart:
    def test_there_is_a_bar_for_each_rate(self) -> None:
        """Its title names peer and rate, in well-formed XML, and higher rates have higher bars."""
        drawn = bars([Rate("a & b", 1, 10.0), Rate("a & b", 16, 1000.0), Rate("c", 16, 100.0)])
        found = {title: float(height) for height, title in re.findall(r'height="([\d.]+)"[^>]*><title>(.*?)</title>', drawn)}
        assert found["a &amp; b: 1,000/s"] > found["c: 100/s"] > found["a &amp; b: 10/s"] >= 0


class TestVerdict:
    @pytest.mark.parametrize(
        ("value", "limit", "verdict"),
        [(3.0, 3.0, "held"), (3.01, 3.0, "MISSED"), (math.nan, 3.0, "MISSED"), (99.0, None, "")],
    )
    def test_a_figure_is_held_up_to_its_limit(self, value: float, limit: float | None, verdict: str) -> None:
        """At the limit it is held; above it, or where it is no number, it is not; without a limit there is no verdict."""
        assert measure(value, limit).verdict == verdict

    @pytest.mark.parametrize(("value", "verdict"), [(3.0, "held"), (2.99, "MISSED"), (math.nan, "MISSED")])
    def test_a_figure_may_have_to_be_at_least_its_limit(self, value: float, verdict: str) -> None:
        """A throughput is held down to its limit, and no further."""
        assert replace(measure(value, 3.0), bound="at least").verdict == verdict

    def test_a_run_within_its_limits_exits_with_0(self) -> None:
        """Figures for information fail nothing."""
        assert report(measure(2.9, 3.0), measure(9.0, None)).exit_code == 0

    def test_one_figure_past_its_limit_exits_with_1(self) -> None:
        """One is enough."""
        assert report(measure(2.9, 3.0), measure(3.1, 3.0)).exit_code == 1

    def test_what_could_not_be_measured_exits_with_1(self) -> None:
        """A part that failed, or a run without figures, has not held."""
        assert report(measure(1.0, 3.0), failures=("growth: broken",)).exit_code == 1
        assert report().exit_code == 1


class TestCrashToClose:
    def result(self, scenario: str, took_s: float | None) -> CaseResult:
        """A case that ended as wanted."""
        row = SCENARIOS[scenario]
        return CaseResult(
            case_id="case-1",
            scenario=scenario,
            column="interlock",
            repetition=1,
            live=False,
            payment="pi_local_1",
            want=row.want,
            want_answer=row.answer,
            got=row.want,
            refunds=(),
            own_refunds=(),
            verdict="held",
            answer=None,
            answer_verdict=AnswerVerdict.MATCHES,
            as_wanted=True,
            decision=None,
            exit_codes=(-9, 0),
            killed_at=datetime(2026, 1, 2, tzinfo=UTC),
            crash_to_close_s=took_s,
            problem=None,
            lines=(),
        )

    def test_the_median_counts(self) -> None:
        """Of five cases the middle one is judged, against 2 s."""
        name = "crash_after_commit"
        found = closing_time(SCENARIOS[name], [self.result(name, took_s) for took_s in (9.0, 0.3, 0.4, 0.2, 5.0)])
        assert (found.value, found.limit, found.verdict) == (0.4, LIMIT_S, "held")

    def test_a_row_without_burning_has_no_limit(self) -> None:
        """It waits for the horizon, and is shown for information; every other row has a limit."""
        limits = {name: closing_time(row, [self.result(name, 9.0)]).limit for name, row in SCENARIOS.items()}
        assert {name for name, limit in limits.items() if limit is None} == {name for name in SCENARIOS if "burn off" in name}
        assert set(limits.values()) == {LIMIT_S, None}

    def test_a_case_that_went_wrong_has_no_time(self) -> None:
        """A fast wrong ending, or none, fails the benchmark."""
        row = SCENARIOS["crash_after_commit"]
        right = self.result(row.name, 0.3)
        for wrong in (replace(right, as_wanted=False, want_answer=Status.REFUSED), self.result(row.name, None)):
            with pytest.raises(BenchmarkFailed, match=row.name):
                closing_time(row, [right, wrong])


class TestCommand:
    def test_results_hold_machine_commit_time_and_figures(self, tmp_path: Path) -> None:
        """`bench.json` and `bench.md` say where, when, of what, and whether each figure held."""
        code = main(["--out", str(tmp_path / "results")], {"actions": lambda: part(measure(2.5, 3.0), measure(3.5, 3.0))})
        written = json.loads((tmp_path / "results" / "bench.json").read_text(encoding="utf-8"))
        page = (tmp_path / "results" / "bench.md").read_text(encoding="utf-8")
        assert code == written["exit_code"] == 1
        assert [figure["verdict"] for figure in written["measures"]] == ["held", "MISSED"]
        assert all(written["machine"][name] for name in ("at_utc", "commit", "cpu", "cores", "python", "sqlite", "packages"))
        assert "| 1 process, median | 3.50x | at most 3x | MISSED | 3 µs against 1 µs |" in page
        assert written["machine"]["commit"] in page

    def test_rates_make_a_chart_beside_the_page(self, tmp_path: Path) -> None:
        """A run with rates draws them, and its page shows the chart; one without does neither."""
        with_rate = replace(measure(0.5, None), part="postgres", rate=Rate("Interlock", 16, 1234.0))
        report(with_rate).write(tmp_path)
        assert "Interlock: 1,234/s" in (tmp_path / "bench.svg").read_text(encoding="utf-8")
        assert "](bench.svg)" in (tmp_path / "bench.md").read_text(encoding="utf-8")
        report(measure(0.5, None)).write(tmp_path, "other")
        assert not (tmp_path / "other.svg").exists()
        assert "svg" not in (tmp_path / "other.md").read_text(encoding="utf-8")

    def test_only_runs_what_it_names(self, tmp_path: Path) -> None:
        """`--only growth` measures growth and nothing else."""
        parts = {"actions": lambda: part(failure="must not run"), "growth": lambda: part(measure(1.0, 3.0))}
        assert main(["--only", "growth", "--out", str(tmp_path)], parts) == 0

    def test_the_others_go_on_after_a_part_that_failed(self) -> None:
        """It is named in the report, and the figures of the others are there."""
        found = run({"actions": lambda: part(failure="broken"), "growth": lambda: part(measure(1.0, 3.0))}, quick=True)
        assert found.failures == ["actions: broken"]
        assert len(found.measures) == 1
        assert "NOT MEASURED: actions: broken" in found.to_markdown()

    def test_every_part_can_be_loaded(self) -> None:
        """Each of them, without the packages that only `make bench` installs."""
        assert list(PARTS) == ["actions", "postgres", "slow-disk", "takeover", "async", "growth", "recovery", "signed-log"]
        assert all(callable(load()) for load in PARTS.values())

    def test_a_busy_machine_is_named(self) -> None:
        """Where more wanted to run than there are processors, the page says what that does to a ratio."""
        busy = Report(machine=replace(MACHINE, load=9.0), quick=False, measures=[measure(1.0, 3.0)], failures=[])
        assert "busy" in busy.to_markdown()
        assert "busy" not in report(measure(1.0, 3.0)).to_markdown()

    def test_this_machine_is_described(self) -> None:
        """The real machine has a time in UTC, a processor and at least one core."""
        machine = this_machine()
        assert machine.at_utc.endswith("+00:00")
        assert machine.cpu
        assert machine.cores >= 1

"""Defects of the whole matrix and of its audit, and of what a worker on Temporal does at its start."""

from __future__ import annotations

from harness.sabotage.defects import MATRIX, TEMPORAL, Defect, lines

_HISTORIES = "harness/audit/histories.py"
_FIGURES = "harness/audit/figures.py"
_TARGETS = "harness/targets.py"
_OPTIONS = "harness/columns/temporal/options.py"
_ABANDONED = "interlock/temporal/abandoned.py"
_FIGURES_TEST = "tests/unit/test_harness_full_matrix.py"
_ABANDONED_TEST = "tests/integration/test_temporal_abandoned.py"

DEFECTS = (
    Defect(
        name="attempts-not-held-against-the-history",
        breaks=(MATRIX,),
        file=_HISTORIES,
        old='    yield from differs("attempts", told["attempts"], max((event["attempt"] for event in starts), default=0))\n',
        new="",
        tests=(_FIGURES_TEST,),
    ),
    Defect(
        name="crash-to-close-taken-on-trust",
        breaks=(MATRIX,),
        file=_HISTORIES,
        old="if told_s is None or not took_s",
        new="if told_s is None and not took_s",
        tests=(_FIGURES_TEST,),
    ),
    Defect(
        name="nothing-need-have-been-done-after-the-death",
        breaks=(MATRIX,),
        file=_HISTORIES,
        old='if not any(event["kind"]',
        new='if not events and any(event["kind"]',
        tests=(_FIGURES_TEST,),
    ),
    Defect(
        name="histories-of-strangers-pass",
        breaks=(MATRIX,),
        file=_HISTORIES,
        old="if strangers := histories.keys() - of_cases:",
        new="if strangers := of_cases - histories.keys() - of_cases:",
        tests=(_FIGURES_TEST,),
    ),
    Defect(
        name="the-report-that-people-read-is-not-read",
        breaks=(MATRIX,),
        file="harness/audit/__main__.py",
        old='    yield from reading.audit(document, report.read_text(encoding="utf-8"))\n',
        new="",
        tests=(_FIGURES_TEST,),
    ),
    Defect(
        name="a-part-passes-for-the-matrix",
        breaks=(MATRIX,),
        file="harness/audit/__main__.py",
        old='    if not document["complete"]:\n',
        new='    if document["complete"] is None:\n',
        tests=("tests/unit/test_harness_results.py",),
    ),
    Defect(
        name="half-a-rehearsal-is-one",
        breaks=(MATRIX,),
        file="harness/live.py",
        old="        if (stripe_api_base is None) is not (anthropic_base_url is None):\n",
        new="        if stripe_api_base == 0:\n",
        tests=("tests/unit/test_harness_live_guards.py",),
    ),
    Defect(
        name="bounds-are-what-the-results-say",
        breaks=(MATRIX,),
        file=_FIGURES,
        old='        yield from differs(f"target {name}, bound", one["at_most"], bound)\n',
        new="",
        tests=(_FIGURES_TEST,),
    ),
    Defect(
        name="figures-are-what-the-results-say",
        breaks=(MATRIX,),
        file=_FIGURES,
        old='abs(figure - one["measured"]) > TOLERANCE_S',
        new='figure == "another"',
        tests=(_FIGURES_TEST,),
    ),
    Defect(
        name="a-case-without-an-end-is-left-out-of-the-median",
        breaks=(MATRIX,),
        file=_TARGETS,
        old="if ended and len(ended) == len(closes) else None",
        new="if ended else None",
        tests=(_FIGURES_TEST,),
    ),
    Defect(
        name="four-attempts-are-few",
        breaks=(MATRIX,),
        file=_TARGETS,
        old="ATTEMPTS = 3",
        new="ATTEMPTS = 4",
        tests=(_FIGURES_TEST,),
    ),
    Defect(
        name="half-a-second-more-than-temporal-is-a-second",
        breaks=(MATRIX,),
        file=_TARGETS,
        old="ABOVE_TEMPORAL_S = 0.5",
        new="ABOVE_TEMPORAL_S = 1.0",
        tests=(_FIGURES_TEST,),
    ),
    Defect(
        name="a-few-cells-are-measured-like-the-matrix",
        breaks=(MATRIX,),
        file="harness/results.py",
        old="self.matrix is E2E and self.complete and not self.live",
        new="self.matrix is E2E and not self.live",
        tests=(_FIGURES_TEST,),
    ),
    Defect(
        name="the-columns-run-with-options-of-their-own",
        breaks=(MATRIX,),
        file=_OPTIONS,
        old="heartbeat_timeout=timedelta(seconds=1.5)",
        new="heartbeat_timeout=timedelta(seconds=5)",
        tests=(_FIGURES_TEST,),
    ),
    Defect(
        name="temporals-defaults-with-heartbeats",
        breaks=(MATRIX,),
        file=_OPTIONS,
        old="start_to_close_timeout=timedelta(seconds=15))",
        new="start_to_close_timeout=timedelta(seconds=15), heartbeat_timeout=timedelta(seconds=2))",
        tests=(_FIGURES_TEST,),
    ),
    Defect(
        name="temporal-alone-is-expected-to-hold",
        breaks=(MATRIX,),
        file="harness/scenarios.py",
        old='    "temporal": _NOTHING_RE_CHECKED,\n',
        new="",
        tests=(_FIGURES_TEST,),
    ),
    Defect(
        name="no-activity-is-completed-for-the-dead",
        breaks=(TEMPORAL,),
        file=_ABANDONED,
        old="    await handle.complete(result_of(outcome))\n",
        new="    del handle\n",
        tests=(_ABANDONED_TEST,),
    ),
    Defect(
        name="the-workflow-stays-bound-to-the-dead-worker",
        breaks=(TEMPORAL,),
        file=_ABANDONED,
        old=lines(
            "    await client.workflow_service.reset_sticky_task_queue(",
            "        ResetStickyTaskQueueRequest(namespace=client.namespace, execution=execution)",
            "    )",
        ),
        new="    del execution",
        tests=(_ABANDONED_TEST,),
    ),
    Defect(
        name="a-later-activity-of-the-same-id-is-completed",
        breaks=(TEMPORAL,),
        file=_ABANDONED,
        old="if await _last_scheduled(client, execution, place.activity) != place.scheduled:",
        new="if await _last_scheduled(client, execution, place.activity) is None:",
        tests=(_ABANDONED_TEST,),
    ),
    Defect(
        name="cancellations-reach-the-send",
        breaks=(TEMPORAL,),
        file="interlock/temporal/waiting.py",
        old="            await asyncio.wait({task})",
        new="            await task",
        tests=("tests/integration/test_temporal_activities.py",),
    ),
    Defect(
        name="a-workflow-that-is-over-ends-the-finishing",
        breaks=(TEMPORAL,),
        file=_ABANDONED,
        old="with suppress(RPCError):",
        new="with suppress(KeyError):",
        tests=(_ABANDONED_TEST,),
    ),
    Defect(
        name="nobody-knows-where-an-action-was-fired",
        breaks=(TEMPORAL,),
        file="interlock/temporal/activities.py",
        old="return decision if place is None else place.beside(dict(decision or {}))",
        new="return decision",
        tests=(_ABANDONED_TEST,),
    ),
    Defect(
        name="a-worker-starts-without-looking-back",
        breaks=(TEMPORAL,),
        file="interlock/temporal/plugin.py",
        old="if self._recovering is None:",
        new="if self._recovering is not None:",
        tests=(_ABANDONED_TEST,),
    ),
)

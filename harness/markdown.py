"""The results as Markdown, made from nothing but the JSON document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.scenarios import Money
from harness.verdicts import in_words

Json = dict[str, Any]

_AUDITS = {"standalone.json": "make audit", "e2e.json": "make e2e-audit"}


def render(document: Json) -> str:
    """Return the results for a reader."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: Json) -> Iterator[str]:
    yield f"# {document['title']}: {document['mode']}"
    yield ""
    yield from _about(document)
    for table in document["tables"]:
        yield from _matrix(document, table)
    yield from _tallies(document)
    yield from _targets(document)
    yield from _bullets("What differs from what is expected", document["surprises"] or ["Nothing."])
    yield from _scenarios(document)
    yield from _bullets("Columns", [f"`{name}`: {about}" for name, about in document["columns"].items()])
    yield from _bullets("What is LOCAL", document["what_is_local"] or ["Nothing: Stripe in test mode, and the real model."])
    yield from _bullets("What is EMULATED", [f"`{name}`: {why}" for name, why in document["emulated"].items()] or ["Nothing."])
    yield from _bullets("What this does not show", document["limits"])
    yield "## Cases"
    yield ""
    for case in document["cases"]:
        yield from _case(case)


def _about(document: Json) -> Iterator[str]:
    versions = ", ".join(f"{name} {number}" for name, number in document["versions"].items())
    took = f"{document['wall_s']} s, {document['processors']} processors"
    yield f"- run: {document['started_at']} to {document['finished_at']} ({took})"
    yield f"- versions: {versions}"
    yield f"- the gate's journals: {document.get('journal', 'SQLite')}, a new one for each case"
    yield f"- commit: {document['git_commit'] or 'none'}"
    if "command" in document:  # what was kept of earlier runs has none
        yield f"- made by `{document['command']}`"
    results = document["ledger"].replace("-ledger.jsonl", ".json")
    audit = _AUDITS.get(results, f"make audit ARGS=results/{results}")
    yield f"- the provider's own record of every case: `{document['ledger']}`; check it against this with `{audit}`"
    if document["histories"]:
        yield f"- Temporal's own history of every workflow, in short: `{document['histories']}`; the same command reads it"
    yield f"- {'every cell of the matrix' if document['complete'] else 'PARTIAL: not every cell of the matrix was run'}"
    yield ""


def _matrix(document: Json, table: Json) -> Iterator[str]:
    columns = [name for name in table["columns"] if name in document["columns"]]
    rows = [(name, [_cell(document, name, column) for column in columns]) for name in document["scenarios"]]
    yield f"## {table['title']}"
    yield ""
    yield from _table(
        ["scenario", "wanted", *columns],
        [[f"`{name}`", _wanted(document, name), *cells] for name, cells in rows if any(cells)],
    )


def _wanted(document: Json, name: str) -> str:
    return _money(document["scenarios"][name]["want"]) + (" (EMULATED)" if name in document["emulated"] else "")


def _cell(document: Json, scenario: str, column: str) -> str:
    cases = [case for case in document["cases"] if (case["scenario"], case["column"]) == (scenario, column)]
    return "<br>".join(_in_short(case) for case in cases)


def _in_short(case: Json) -> str:
    status = case["answer"]["status"] if case["answer"] else "nothing"
    shown = status.upper() if status == "ambiguous" else status
    got = "" if case["verdict"] == "held" else f": {_money(case['got'])}"
    attempts = f", {_counted(case['workflow']['attempts'])}" if case["workflow"] else ""
    return f"**{case['verdict']}**{got}, answer {shown} {case['answer_verdict']}, {_seconds(case['crash_to_close_s'])}{attempts}"


def _tallies(document: Json) -> Iterator[str]:
    yield "## Tallies, over the rows that every column has"
    yield ""
    own = document["tallies_of_rows_of_its_own"]
    tallies = document["tallies"] | {f"{name}, rows of its own": figures for name, figures in own.items()}
    yield from _table(
        ["column", "held", "answers right", "known outcomes", "crash to close, median", "longest"],
        [
            [
                f"`{name}`",
                *(f"{figures[what]} of {figures['cases']}" for what in ("held", "answers_right", "known_outcomes")),
                _seconds(figures["crash_to_close_median_s"]),
                _seconds(figures["crash_to_close_max_s"]),
            ]
            for name, figures in tallies.items()
            if figures["cases"]
        ],
    )


def _targets(document: Json) -> Iterator[str]:
    if not document["targets"]:
        return
    yield "## What has to be reached"
    yield ""
    yield from _table(
        ["what", "measured", "at most", "reached"],
        [
            [one["what"], _figure(one["measured"]), _figure(one["at_most"]), "yes" if one["met"] else "**no**"]
            for one in document["targets"]
        ],
    )


def _figure(number: float | None) -> str:
    return "none" if number is None else f"{number:g}"


def _scenarios(document: Json) -> Iterator[str]:
    points = {
        "before_send": "right before the refund call",
        "after_answer": "after the provider's answer was received and parsed, before anything recorded it",
    }
    yield "## Scenarios"
    yield ""
    yield "A new $100 payment, one approved $20 refund, a model that reads it and decides, and a worker that is killed once."
    yield ""
    yield from _table(
        ["scenario", "the worker dies", "meanwhile", "wanted at the provider", "wanted answer"],
        [
            [f"`{name}`", points[row["dies"]], row["meanwhile"], _money(row["want"]), row["want_answer"]]
            for name, row in document["scenarios"].items()
        ],
    )


def _case(case: Json) -> Iterator[str]:
    answer = case["answer"] or {"status": "nothing", "via": "", "words": "", "receipt_text": None}
    decision = case["decision"] or {}
    yield f"### {case['scenario']}, {case['column']}" + (f", repetition {case['repetition']}" if case["repetition"] > 1 else "")
    yield ""
    yield f"- want {_money(case['want'])}, got {_money(case['got'])}: **{case['verdict']}**"
    yield f"- answer: {answer['status']} ({case['answer_verdict']}), via {answer['via']}: {answer['words']}"
    yield f"- case and approval `{case['case_id']}`, payment `{case['payment']}`"
    yield f"- refunds: {', '.join(_refund(one, case['own_refunds']) for one in case['refunds']) or 'none'}"
    yield f"- exit codes {case['exit_codes']}, starts {case['starts']}, crash to close {_seconds(case['crash_to_close_s'])}"
    if case["workflow"]:
        yield f"- workflow `{case['workflow']['workflow_id']}`, run `{case['workflow']['run_id']}`: {_attempts(case)}"
    yield f"- decided by {decision.get('model')}, message `{decision.get('message_id')}`: `{decision.get('arguments_json')}`"
    yield from (f"  > {line}" for line in str(decision.get("wording", "")).splitlines())
    if case["problem"]:
        yield f"- **problem**: {case['problem']}"
    yield ""
    if answer["receipt_text"]:
        yield from ("```", *answer["receipt_text"].splitlines(), "```", "")


def _attempts(case: Json) -> str:
    workflow = case["workflow"]
    return f"{_counted(workflow['attempts'])} of the refund activity, closed at {workflow['closed_at']}"


def _counted(attempts: int) -> str:
    return f"{attempts} attempt" if attempts == 1 else f"{attempts} attempts"


def _refund(refund: Json, own: list[str]) -> str:
    whose = "this case's own" if refund["id"] in own else "by hand"
    return f"`{refund['id']}` {refund['amount_minor']} {refund['status']} ({whose})"


def _table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield _row(head)
    yield _row(["---"] * len(head))
    yield from map(_row, rows)
    yield ""


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _bullets(title: str, lines: list[str]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield from (f"- {line}" for line in lines)
    yield ""


def _money(money: Json) -> str:
    return in_words(Money(**money))


def _seconds(seconds: float | None) -> str:
    return "no end" if seconds is None else f"{seconds:.2f} s"

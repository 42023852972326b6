"""Plays a soak and prints what it came to: `python -m harness.soak --duration-s 600 --out results/soak.md`."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from harness.made_by import made_by
from harness.soak.plan import Plan
from harness.soak.play import Result, play

_MOST_SHOWN = 50


def page(plan: Plan, result: Result, made: str) -> str:
    """Return what a soak came to as Markdown, which says how it was made."""
    record = result.record
    rows = [
        ("actions", f"{len(record.receipts):,}"),
        ("events", f"{record.events:,}"),
        ("endings", _in_words(record.endings)),
        ("payouts in the provider's ledger", f"{sum(map(len, record.payouts.values())):,}"),
        ("done to it", _in_words(result.happened)),
        ("told to the workers", _in_words(record.told)),
        ("fired for", f"{result.fired_s:.0f} s, and what was in flight then ended within {result.finished_s:.1f} s"),
        *result.samples.rows(),
    ]
    table = "\n".join(f"| {what} | {figure} |" for what, figure in rows)
    verdict = "\n".join(f"- {found}" for found in result.violations[:_MOST_SHOWN]) or (
        "The ledger and the journal agree on every action, every action ended, the journal verifies, what a worker was told\n"
        "still holds, and memory and connections stayed flat."
    )
    return (
        "# Soak\n\n"
        f"{plan.workers} processes fire and recover on one PostgreSQL, against a provider of the harness's own with keys and a\n"
        "lookup (LOCAL), which gives no answer to 2 % of the requests; 3 % of the approvals are revoked while they are used.\n\n"
        f"{datetime.now(UTC):%Y-%m-%d}, seed {plan.seed}, {os.cpu_count()} processors, shared with other work. {made}\n\n"
        f"## Violations: {len(result.violations)}\n\n{verdict}\n\n"
        "## Counts\n\nThree figures are the medians of the first, second and last third.\n\n"
        f"| what | count |\n| --- | --- |\n{table}\n"
    )


def main() -> int:
    """Play one from the command line; return 1 where something was found."""
    standard = Plan()
    parser = argparse.ArgumentParser(prog="python -m harness.soak", description=__doc__)
    parser.add_argument("--short", action="store_true", help="the one that ends in seconds")
    parser.add_argument("--duration-s", type=float, default=standard.duration_s)
    parser.add_argument("--least-actions", type=int, default=standard.least_actions)
    parser.add_argument("--actions-per-s", type=float, default=standard.actions_per_s)
    parser.add_argument("--seed", type=int, default=standard.seed)
    parser.add_argument("--out", type=Path, help="a Markdown file for the counts")
    given = parser.parse_args()
    plan = Plan(
        duration_s=given.duration_s,
        least_actions=given.least_actions,
        actions_per_s=given.actions_per_s,
        seed=given.seed,
    )
    result = play(Plan.short() if given.short else plan)
    text = page(plan, result, made_by("harness.soak"))
    print(text)
    if given.out is not None:
        given.out.write_text(text, encoding="utf-8")
    return 1 if result.violations else 0


def _in_words(counted: Counter[str]) -> str:
    return ", ".join(f"{many:,} {what}" for what, many in sorted(counted.items())) or "nothing"


if __name__ == "__main__":
    sys.exit(main())

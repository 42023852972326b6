"""The browser check: `python -m harness.demo.check` plays every row on both pages in a real browser, and judges by the ledger.

What a page says is compared with the provider's own record of each payment, which is read here again, and with what the matrix
expects of each column. The results say how long it took from the click to the verdict.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, expect, sync_playwright

from harness.demo.browser import open_chromium
from harness.demo.process import DemoProcess
from harness.demo.stories import STANDALONE_TRACKS, TEMPORAL_TRACKS, Track, Way
from harness.results import git_commit
from harness.scenarios import BURN_OFF, EXPECTED_TO_FAIL, SCENARIOS, Money, Scenario
from harness.standins.stripe.ledger import refunds_of
from harness.verdicts import HELD, in_words, judge_money

LIMITS_S = {"standalone": 8.0, "temporal": 15.0}
"""From the click to the verdict, for rows that do not wait on purpose."""

_TRACKS = {"standalone": STANDALONE_TRACKS, "temporal": TEMPORAL_TRACKS}
_PATIENCE_MS = 120_000
_SCREENS: tuple[tuple[int, int, Literal["light", "dark"]], ...] = ((1440, 1400, "light"), (400, 1400, "dark"))
_SHOWN = "hand_refund_during_outage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One column of one run.

    Attributes:
        scenario: the row's name.
        track: the column.
        payment: its payment.
        page_says: the verdict on the page.
        got: what the provider's ledger holds.
        ledger_says: the verdict by that.
        close: the words of the page on the time from crash to close.
    """

    scenario: str
    track: Track
    payment: str
    page_says: str
    got: Money
    ledger_says: str
    close: str

    @property
    def expected(self) -> str:
        """What the matrix expects of this column."""
        return EXPECTED_TO_FAIL.get(self.track.column, {}).get(self.scenario, HELD)

    @property
    def right(self) -> bool:
        """Whether page, ledger and matrix agree."""
        return self.page_says == self.ledger_says == self.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One run on a page.

    Attributes:
        scenario: the row.
        cells: its columns.
        click_to_verdict_s: from the click until the last verdict was on the page, in seconds.
    """

    scenario: Scenario
    cells: tuple[Cell, ...]
    click_to_verdict_s: float

    def in_time(self, page: str) -> bool:
        """Whether it was as quick as it has to be. A row that may not burn keys waits, and is about that."""
        return self.scenario.settings == BURN_OFF or self.click_to_verdict_s < LIMITS_S[page]


def main(arguments: list[str] | None = None) -> int:
    """Play, compare, write the results; return 0 where everything agrees and was in time."""
    options = _options().parse_args(arguments)
    pages = options.page or list(LIMITS_S)
    found: list[str] = []
    with tempfile.TemporaryDirectory(prefix="interlock-demo-check-") as data, sync_playwright() as playwright:
        browser = open_chromium(playwright)
        with browser, DemoProcess(Path(data)) as demo:
            for page in pages:
                if options.screenshots is not None:
                    _take_pictures(browser, f"{demo.url}/{page}", options.screenshots, lambda opened: _play(opened, _SHOWN))
                played = list(_play_all(browser, demo, page, options.scenario or list(SCENARIOS)))
                path = options.out / f"demo_{page}.md"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(report(page, demo.mode, played), encoding="utf-8")
                print(f"wrote {path}")
                found += _wrong(page, played)
            if options.screenshots is not None:
                _take_pictures(browser, f"{demo.url}/receipts", options.screenshots, _show_receipt)
    for one in found:
        print(f"WRONG: {one}", file=sys.stderr)
    return 1 if found else 0


def _play_all(browser: Browser, demo: DemoProcess, page: str, scenarios: list[str]) -> Iterator[Played]:
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, reduced_motion="reduce")
    with context, context.new_page() as opened:
        opened.goto(f"{demo.url}/{page}")
        for name in scenarios:
            click_to_verdict_s = _play(opened, name)
            cells = tuple(_cells(opened, demo, page, SCENARIOS[name]))
            print(f"  {page}, {name}: {click_to_verdict_s:.1f} s, {', '.join(cell.page_says for cell in cells)}", flush=True)
            yield Played(scenario=SCENARIOS[name], cells=cells, click_to_verdict_s=click_to_verdict_s)


def _play(page: Page, scenario: str) -> float:
    """Play a row with all columns; return the time from the click to the last verdict, in seconds."""
    page.locator(".column").first.wait_for()
    story = page.locator(f'input[value="{scenario}"]')
    if not story.is_visible():
        page.locator("#more summary").click()
    story.check()
    page.locator("#third").check()
    clicked = time.monotonic()
    page.locator("#start").click()
    expect(page.locator("#state-words")).to_have_text("Done", timeout=_PATIENCE_MS)
    return time.monotonic() - clicked


def _cells(page: Page, demo: DemoProcess, name: str, scenario: Scenario) -> Iterator[Cell]:
    tracks = {track.column: track for track in _TRACKS[name]}
    ledger = demo.data / ("ledger-moved-clock.jsonl" if scenario.moves_clock else "ledger.jsonl")
    for column in page.locator(".column").all():
        result = column.locator(".result")
        payment = result.get_attribute("data-payment") or ""
        refunds = refunds_of(ledger, payment)
        got = Money(sum(refund.amount for refund in refunds), len(refunds))
        yield Cell(
            scenario=scenario.name,
            track=tracks[column.get_attribute("data-column") or ""],
            payment=payment,
            page_says=result.get_attribute("data-verdict") or "",
            got=got,
            ledger_says=judge_money(scenario.want, got),
            close=result.locator(".close").inner_text().removeprefix("crash to close: "),
        )


def _wrong(page: str, played: list[Played]) -> list[str]:
    cells = [cell for run in played for cell in run.cells]
    wrong = [
        f"{page}, {cell.scenario}, {cell.track.column}: the page says {cell.page_says}, the ledger {cell.ledger_says}, "
        f"expected is {cell.expected}"
        for cell in cells
        if not cell.right
    ]
    late = [f"{page}, {run.scenario.name}: {run.click_to_verdict_s:.1f} s" for run in played if not run.in_time(page)]
    return wrong + [f"{words} from the click to the verdict, limit {LIMITS_S[page]:g} s" for words in late]


def report(page: str, mode: str, played: list[Played]) -> str:
    """Return the results as Markdown.

    Args:
        page: the page's name.
        mode: what its runs were made of.
        played: every run.
    """
    slowest = max((run.click_to_verdict_s for run in played if run.scenario.settings != BURN_OFF), default=0.0)
    wrong = _wrong(page, played)
    return "\n".join(
        [
            f"# The demo's page `{page}` in a browser: {mode}",
            "",
            f"- {datetime.now(UTC).isoformat(timespec='seconds')}, {os.cpu_count()} processors, commit {git_commit()}",
            "- written by `python -m harness.demo.check`: each row is played in a real Chromium with three columns",
            "- *ledger* is the provider's own record of the payment, read again by the check; the page has no part in that",
            f"- from the click to the last verdict: {slowest:.1f} s at the longest, limit {LIMITS_S[page]:g} s",
            "- rows with burning off wait on purpose until nothing can land any more, and are left out of that figure",
            "",
            "| scenario | column | wanted | at the provider | page | ledger | as expected | crash to close | click to verdict |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
            *(_row(run, cell) for run in played for cell in run.cells),
            "",
            "## What is not as it should be",
            "",
            *(f"- {one}" for one in wrong or ["Nothing."]),
            "",
        ]
    )


def _row(run: Played, cell: Cell) -> str:
    name = "the gate" if cell.track.way is Way.GATE else cell.track.title.lower()
    values = [
        f"`{cell.scenario}`",
        f"`{cell.track.column}` ({name})",
        in_words(run.scenario.want),
        in_words(cell.got),
        cell.page_says,
        cell.ledger_says,
        "yes" if cell.right else "NO",
        cell.close,
        f"{run.click_to_verdict_s:.1f} s",
    ]
    return f"| {' | '.join(values)} |"


def _take_pictures(browser: Browser, address: str, folder: Path, show: Callable[[Page], object]) -> None:
    """Take pictures of a page, wide and light, and narrow and dark."""
    folder.mkdir(parents=True, exist_ok=True)
    for width, height, scheme in _SCREENS:
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce")
        with context, context.new_page() as opened:
            opened.goto(address)
            show(opened)
            opened.screenshot(path=folder / f"demo-{address.rpartition('/')[2]}-{width}-{scheme}.png")


def _show_receipt(page: Page) -> None:
    page.get_by_role("button", name="Show the receipt").first.click()
    page.get_by_role("img").wait_for()


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harness.demo.check", description=__doc__)
    parser.add_argument("--page", action="append", choices=list(LIMITS_S), help="only this page (may be repeated)")
    parser.add_argument("--scenario", action="append", choices=list(SCENARIOS), help="only this row (may be repeated)")
    parser.add_argument("--out", type=Path, default=Path("results"), metavar="DIR", help="where the results go")
    parser.add_argument("--screenshots", type=Path, metavar="DIR", help="take pictures of the pages too")
    return parser


if __name__ == "__main__":
    sys.exit(main())

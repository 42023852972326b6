"""A page of the demo as a test sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # it comes without types
from playwright.sync_api import Page, expect

from harness.demo.process import DemoProcess
from harness.scenarios import SCENARIOS, Money
from harness.standins.stripe.ledger import refunds_of
from harness.verdicts import judge_money

expect.set_options(timeout=90_000)


@dataclass
class Visit:
    """A page of the demo, open in the browser, with everything that its console said.

    Args:
        page: the browser's page.
        demo: the demo.
        expected: what the console may say, in parts.
    """

    page: Page
    demo: DemoProcess
    said: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def open(self, name: str) -> Visit:
        """Go to a page, and wait until it is drawn."""
        self.page.goto(f"{self.demo.url}/{name}")
        if name.partition("#")[0] != "receipts":
            self.page.locator(".column").first.wait_for()
        return self

    def choose(self, scenario: str, *, third: bool = False) -> None:
        """Choose a scenario, and whether the hand-written check plays along."""
        story = self.page.locator(f'input[value="{scenario}"]')
        if not story.is_visible():
            self.page.locator("#more summary").click()
        story.check()
        self.page.locator("#third").set_checked(third)

    def play(self, scenario: str, *, mock: bool = False, third: bool = False) -> None:
        """Choose, start, and wait for the end."""
        self.choose(scenario, third=third)
        self.page.locator("#mock" if mock else "#start").click()
        self.wait_until("Done")

    def wait_until(self, state: str) -> None:
        """Wait for a state of the run."""
        expect(self.page.locator("#state-words")).to_contain_text(state)

    def verdicts(self) -> dict[str, str]:
        """Return what each column says in the end."""
        results = self.page.locator(".column .result").all()
        columns = [one.locator("xpath=ancestor::article").get_attribute("data-column") or "" for one in results]
        return dict(zip(columns, [one.locator(".verdict").inner_text() for one in results], strict=True))

    def payments(self) -> dict[str, str]:
        """Return the payment of each column."""
        columns = self.page.locator(".column").all()
        return {
            one.get_attribute("data-column") or "": one.locator(".result").get_attribute("data-payment") or "" for one in columns
        }

    def lines(self) -> list[str]:
        """Return every line on the page."""
        return self.page.locator(".lines .words").all_text_contents()

    def ledger_says(self, scenario: str) -> dict[str, str]:
        """Return each column's verdict by the provider's own ledger, which the demo has no part in."""
        ledger = self.demo.data / "ledger.jsonl"
        refunds = {column: refunds_of(ledger, payment) for column, payment in self.payments().items()}
        got = {column: Money(sum(one.amount for one in of), len(of)) for column, of in refunds.items()}
        return {column: judge_money(SCENARIOS[scenario].want, money) for column, money in got.items()}

    def serious(self) -> list[Any]:
        """Return what axe-core finds serious."""
        found = Axe().run(self.page).response["violations"]
        return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in {"serious", "critical"}]


class Open(Protocol):
    """Opens a page of the demo."""

    def __call__(
        self, name: str, *, width: int = 1440, height: int = 1000, dark: bool = False, at: DemoProcess | None = None
    ) -> Visit:
        """Open it, in a context of its own."""
        ...


@contextmanager
def held_back(page: Page, address: str) -> Iterator[Callable[[], None]]:
    """Hold the answer to the next request for an address back, until what this gives is called."""
    waiting: list[Callable[[], None]] = []
    page.route(address, lambda route: waiting.append(route.continue_), times=1)

    def release() -> None:
        while waiting:
            waiting.pop()()

    yield release
    release()

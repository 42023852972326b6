"""MOCK can't be taken for anything else; and what holds for the page whatever it plays."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from harness.demo.stories import STORIES
from harness.scenarios import EXPECTED_TO_FAIL, SCENARIOS
from harness.verdicts import HELD
from tests.demo_pages import Open, Visit, held_back

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("browser")]

OVERFLOWING = """(all) => all
  .filter((one) => one.firstElementChild.offsetHeight > one.lastElementChild.offsetHeight)
  .map((one) => one.firstElementChild.textContent)"""
SHIFTS = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""


def test_everything_that_is_simulated_says_so(visit: Open) -> None:
    """The banner, every column, step and result, every line, the state and the tab's title; and no line about settings."""
    page = visit("standalone")
    settings = page.page.locator("#mode .real")
    expect(settings).to_be_visible()
    page.choose("hand_refund_during_outage", third=True)
    page.page.locator("#mock").click()
    page.wait_until("Running (MOCK)")
    expect(settings).to_be_hidden()
    assert page.page.title().startswith("MOCK: ")
    page.wait_until("Done (MOCK)")
    _all_is_mock(page)
    page.page.reload()
    page.wait_until("Done (MOCK)")
    _all_is_mock(page)


def _all_is_mock(visit: Visit) -> None:
    page = visit.page
    assert page.title().startswith("MOCK: ")
    assert page.locator(".mocked").is_visible()
    assert page.locator("#mode .real").is_hidden()
    assert "repeating-linear-gradient" in page.locator("#mode").evaluate("(strip) => getComputedStyle(strip).backgroundImage")
    for marked in (".column > header", ".column .result", ".step", ".receipt > header"):
        badges = page.locator(f"{marked} .badge:visible")
        assert badges.count() == page.locator(marked).count() > 0
        assert set(badges.all_inner_texts()) == {"MOCK"}
    told = [*visit.lines(), *page.locator(".why p:first-child, .means p:first-child, .figures p:first-child").all_inner_texts()]
    told += page.locator("#now, .result .close, .receipt .plain, .receipt dd, .receipt td:last-child").all_inner_texts()
    assert [words for words in told if not words.startswith("MOCK.")] == []
    assert "LOCAL" not in page.locator("body").inner_text()


def test_what_is_chosen_next_leaves_nothing_of_a_mock(visit: Open) -> None:
    """Another choice empties the columns: real and simulated are never on screen together."""
    page = visit("standalone")
    page.play("hand_refund_during_outage", mock=True)
    page.choose("crash_after_commit")
    assert not page.page.title().startswith("MOCK")
    assert page.lines() == []
    assert page.page.locator(".receipt").count() == 0
    assert set(page.page.locator(".column > header .badge").all_inner_texts()) == {"LOCAL"}


def test_a_mock_has_the_verdicts_of_the_matrix(visit: Open) -> None:
    """Every row, also those behind "more": what the simulated provider's record shows is what the real one's shows."""
    page = visit("standalone")
    for scenario in (name for name in SCENARIOS if "burn off" not in name):
        page.play(scenario, mock=True, third=True)
        assert page.page.locator(".roomy").evaluate_all(OVERFLOWING) == [], scenario
        assert page.verdicts() == _expected(scenario), scenario


def _expected(scenario: str) -> dict[str, str]:
    gate = {"interlock": "held, AMBIGUOUS" if scenario == "no_lookup_after_24h" else HELD}
    if SCENARIOS[scenario].interlock_only:
        return gate
    return {column: EXPECTED_TO_FAIL[column].get(scenario, HELD) for column in ("standard", "checked")} | gate


def test_a_second_start_is_refused_on_both_pages(visit: Open) -> None:
    """One run at a time: the other page says so, and nothing of its own changes."""
    page, other = visit("standalone"), visit("temporal")
    other.expected.append("409")
    page.page.locator("#mock").click()
    page.wait_until("Running")
    other.page.locator("#mock").click()
    expect(other.page.locator("#trouble")).to_contain_text("a run is going on")
    assert other.lines() == []
    page.wait_until("Done")


def test_a_slow_answer_about_an_old_run_does_not_repaint_a_new_one(visit: Open) -> None:
    """The stream of an old run, and the verification of its receipt, arrive when another run is on screen."""
    page = visit("standalone")
    page.expected.append("404")  # the journal of a mock is gone with the next one
    page.play("hand_refund_during_outage", mock=True)
    with held_back(page.page, "**/api/runs/*/verify") as answer_now:
        page.page.get_by_role("button", name="Verify it now").click()
        page.play("crash_after_commit", mock=True)
        before = page.page.locator("main").inner_text()
        answer_now()
        page.page.wait_for_timeout(300)
        assert page.page.locator("main").inner_text() == before
    with held_back(page.page, "**/api/runs/*/events") as answer_now:
        page.page.reload()
        page.page.locator(".column").first.wait_for()
        page.choose("hand_refund_during_outage")
        page.page.locator("#mock").click()
        page.wait_until("Running")
        answer_now()
        page.wait_until("Done")
    assert page.page.locator('[data-step="meanwhile"] .words').all_inner_texts() == ["MOCK. support refunds $20 by hand"] * 2
    assert page.page.locator('[data-step="case"] .lines li').count() == 5


@pytest.mark.parametrize(("width", "dark"), [(1440, False), (400, True)])
def test_nothing_moves_while_events_arrive(visit: Open, width: int, dark: bool) -> None:  # noqa: FBT001
    """Room is kept for everything that comes, with two columns and with three."""
    page = visit("standalone", width=width, dark=dark)
    page.page.evaluate(SHIFTS)
    for third in (False, True):
        page.choose("hand_refund_during_outage", third=third)
        page.page.locator("#mock").click()
        page.wait_until("Running")
        page.page.evaluate("window.shifted = 0")
        before = _places(page)
        page.wait_until("Done")
        assert _places(page) == pytest.approx(before, abs=1.0)
        assert page.page.evaluate("window.shifted") < 0.01


def _places(visit: Visit) -> list[float]:
    places: list[float] = visit.page.locator(".step, .result, #receipt-place").evaluate_all(
        "(all) => all.map((one) => one.getBoundingClientRect().top + scrollY)"
    )
    return places


def test_no_width_makes_the_page_scroll_sideways(visit: Open) -> None:
    """From 400 px to 1440 px, with three columns and a receipt; and no caption is cut off."""
    page = visit("standalone")
    page.play("approval_revoked_during_outage", mock=True, third=True)
    for width in (400, 768, 899, 900, 1024, 1440):
        page.page.set_viewport_size({"width": width, "height": 900})
        assert page.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), width
        assert page.page.locator(".roomy").evaluate_all(OVERFLOWING) == [], width


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_serious(visit: Open, dark: bool) -> None:  # noqa: FBT001
    """Before a run, and after one, with everything opened."""
    page = visit("standalone", dark=dark)
    page.page.locator("summary").evaluate_all("(all) => all.forEach((one) => one.click())")
    assert page.serious() == []
    page.play("approval_revoked_during_outage", mock=True, third=True)
    page.page.get_by_role("button", name="Verify it now").click()
    expect(page.page.locator(".found")).to_have_attribute("data-valid", "true")
    assert page.serious() == []


def test_it_can_be_used_with_the_keyboard_alone(visit: Open) -> None:
    """Arrow keys choose, Tab goes on, Enter starts; where one is, is seen."""
    page = visit("standalone")
    page.choose("hand_refund_during_outage", third=False)
    keyboard = page.page.keyboard
    page.page.locator('input[name="scenario"]').first.focus()
    keyboard.press("ArrowDown")
    assert page.page.locator('input[value="approval_revoked_during_outage"]').is_checked()
    for _ in range(12):
        keyboard.press("Tab")
        if page.page.evaluate("document.activeElement.id") == "mock":
            break
    assert page.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    keyboard.press("Enter")
    page.wait_until("Done (MOCK)")
    assert page.verdicts() == {"standard": "VIOLATED by $20", "interlock": "held"}


def test_what_just_happened_is_read_aloud(visit: Open) -> None:
    """The caption stands in a polite live region, the page has landmarks, and the clock is kept from the reader."""
    page = visit("standalone").page
    assert page.locator("#now").get_attribute("aria-live") == "polite"
    assert page.locator("#run-clock").get_attribute("aria-hidden") == "true"
    assert [page.get_by_role(role).count() for role in ("main", "banner", "navigation", "contentinfo")] == [1, 1, 1, 1]


def test_motion_is_left_out_where_it_is_not_wanted(visit: Open) -> None:
    """With reduced motion nothing is animated, and nothing scrolls smoothly."""
    page = visit("standalone")
    page.play("hand_refund_during_outage", mock=True)
    animated = page.page.locator("*").evaluate_all(
        "(all) => all.filter((one) => getComputedStyle(one).animationName !== 'none').length"
    )
    assert animated == 0
    assert page.page.locator("html").evaluate("(root) => getComputedStyle(root).scrollBehavior") == "auto"


def test_every_row_has_its_story() -> None:
    """A row that is added to the matrix is told on the pages."""
    assert set(STORIES) == set(SCENARIOS)

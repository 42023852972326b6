"""The page with workers on Temporal, in LOCAL mode, on a real dev server; and what it says where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from harness.demo.process import DemoProcess
from tests.demo_pages import Open

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("browser-runs")]


@pytest.mark.parametrize(
    ("scenario", "alone"),
    [
        ("hand_refund_during_outage", "VIOLATED by $20"),
        pytest.param("approval_revoked_during_outage", "VIOLATED by $20", marks=pytest.mark.long),
        ("crash_after_commit", "held"),
    ],
)
def test_the_verdicts_are_those_of_the_matrix(visit: Open, scenario: str, alone: str) -> None:
    """Temporal repeats the activity whatever has changed; with the gate in the activity every row holds."""
    page = visit("temporal")
    page.play(scenario)
    assert page.verdicts() == {"temporal": alone, "temporal_interlock": "held"}
    assert page.ledger_says(scenario) == page.verdicts()
    assert page.page.locator('[data-step="kill"] .words').first.inner_text().endswith("exit code -9")


def test_a_run_that_is_stopped_makes_room_for_the_next(visit: Open) -> None:
    """Its worker is killed, its workflow is not waited for, and nothing is concluded."""
    page = visit("temporal")
    page.choose("hand_refund_during_outage")
    page.page.locator("#start").click()
    expect(page.page.locator('[data-step="first"][data-state]').first).to_be_attached()
    page.page.locator("#stop").click()
    page.wait_until("Stopped")
    assert set(page.verdicts().values()) == {"not yet"}
    page.play("hand_refund_during_outage", mock=True)


def test_its_own_web_pages_are_linked(visit: Open) -> None:
    """The link leads to the server's pages, which answer."""
    page = visit("temporal")
    page.choose("crash_after_commit")
    href = page.page.get_by_role("link", name="Temporal's own web pages").get_attribute("href")
    assert href is not None
    assert href.startswith("http://127.0.0.1:")
    assert page.page.request.get(href).ok


def test_without_temporal_the_page_says_so_and_mock_works(visit: Open, data: Path) -> None:
    """One line, a link to the other page, no start; and MOCK plays."""
    with DemoProcess(data, ["--local", "--without-temporal", "--mock-pause-s", "0.05"]) as demo:
        page = visit("temporal", at=demo)
        said = page.page.locator("#unavailable")
        assert "without Temporal" in said.inner_text()
        assert said.get_by_role("link").get_attribute("href") == "/standalone"
        expect(page.page.locator("#start")).to_be_disabled()
        page.play("approval_revoked_during_outage", mock=True)
        assert page.verdicts() == {"temporal": "VIOLATED by $20", "temporal_interlock": "held"}

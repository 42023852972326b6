"""The page with plain workers, in LOCAL mode: real processes, killed and restarted, judged by the provider's own ledger."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.demo_pages import Open, Visit

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("browser-runs")]


def test_a_refund_by_hand_meanwhile(visit: Open) -> None:
    """Without a gate $20 too much go out; the check and the gate hold; the page says what the provider's ledger says."""
    page = visit("standalone")
    page.play("hand_refund_during_outage", third=True)
    assert page.verdicts() == {"standard": "VIOLATED by $20", "checked": "held", "interlock": "held"}
    assert page.ledger_says("hand_refund_during_outage") == page.verdicts()
    _everything_is_told(page)
    _time_has_stopped(page)
    _receipt_is_verified(page)
    assert page.serious() == []
    before = page.lines()
    page.page.reload()
    expect(page.page.locator(".receipt")).to_be_visible()
    assert page.lines() == before
    _time_has_stopped(page)


def _everything_is_told(visit: Visit) -> None:
    """Each step of each column has its lines and its caption, with real process ids and the kill's exit code."""
    for column in visit.page.locator(".column").all():
        for step in column.locator(".step").all():
            assert step.locator(".lines li").count() >= 1
            assert step.locator(".why p").first.inner_text().strip()
        killed = column.locator('[data-step="kill"] .words').inner_text()
        first = re.fullmatch(r"SIGKILL, pid (\d+), exit code -9", killed)
        second = re.search(r"worker 2 starts, pid (\d+)", column.locator('[data-step="second"] .lines').inner_text())
        assert first
        assert second
        assert first[1] != second[1]
    gate = visit.page.locator('.column[data-way="gate"]')
    told = gate.locator('[data-source="journal"] .words').all_text_contents()
    assert [words.partition(":")[0].partition(",")[0] for words in told] == [
        "approval granted",
        "intended",
        "claimed",
        "dispatched",
        "$20 of the approval reserved",
        "claimed",
        "refused",
        "approval's amount released",
    ]
    assert "LOCAL" in visit.page.locator("#mode").inner_text()
    assert not any(words.startswith("MOCK") for words in visit.lines())


def _time_has_stopped(visit: Visit) -> None:
    """The time of the run and the times from crash to close stand still."""
    clocks = visit.page.locator("#run-clock, .result .close")
    before = clocks.all_text_contents()
    visit.page.wait_for_timeout(400)
    assert clocks.all_text_contents() == before
    assert all(re.search(r"\d s$", words) for words in before)


def _receipt_is_verified(visit: Visit) -> None:
    """The receipt is on the page, and its button reads the log there and then."""
    receipt = visit.page.locator(".receipt")
    assert receipt.get_attribute("data-status") == "REFUSED"
    assert receipt.locator("tbody tr").count() >= 9
    receipt.get_by_role("button", name="Verify it now").click()
    expect(receipt.locator(".found")).to_have_attribute("data-valid", "true")


def test_a_revoked_approval_and_a_reload_in_the_middle(visit: Open) -> None:
    """A page that is loaded again while a run goes on shows it from its beginning to its end."""
    page = visit("standalone")
    page.choose("approval_revoked_during_outage")
    page.page.locator("#start").click()
    expect(page.page.locator('[data-step="first"][data-state]').first).to_be_attached()
    page.page.reload()
    page.wait_until("Running")
    page.wait_until("Done")
    assert page.verdicts() == {"standard": "VIOLATED by $20", "interlock": "held"}
    assert page.ledger_says("approval_revoked_during_outage") == page.verdicts()
    assert len(page.page.locator('[data-step="case"] .lines li').all()) == 5
    assert "approval revoked" in page.page.locator('[data-column="interlock"] [data-step="meanwhile"]').inner_text()


def test_a_crash_after_the_answer(visit: Open) -> None:
    """Both ways come out right, and the gate has found the refund and not sent it again."""
    page = visit("standalone", width=400, height=900, dark=True)
    page.play("crash_after_commit")
    assert page.verdicts() == {"standard": "held", "interlock": "held"}
    assert page.ledger_says("crash_after_commit") == page.verdicts()
    assert page.page.locator(".receipt").get_attribute("data-status") == "COMMITTED"
    assert "not sent again" in page.page.locator(".receipt .plain").inner_text()
    assert page.serious() == []


def test_a_run_that_is_stopped_says_so_and_concludes_nothing(visit: Open) -> None:
    """Stop ends its processes; the columns have no verdict, and the next run can start."""
    page = visit("standalone")
    page.choose("hand_refund_during_outage")
    page.page.locator("#start").click()
    page.wait_until("Running")
    page.page.locator("#stop").click()
    page.wait_until("Stopped")
    assert set(page.verdicts().values()) == {"not yet"}
    assert "nothing is concluded" in page.page.locator("#now").inner_text()
    page.play("hand_refund_during_outage", mock=True)

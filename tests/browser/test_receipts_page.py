"""The page of receipts: what earlier runs left in the journal, found, shown, verified, and drawn as a chain."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from harness.columns import interlock
from harness.columns.job import GateSettings, Job
from harness.demo.mock import MockProvider, MockRefunds
from harness.demo.process import DemoProcess
from interlock.evidence.bundles import Bundle
from tests.demo_pages import Open, held_back

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("browser")]

AMOUNTS = {"case-done": 2000, "case-revoked": 1500, "case-dear": 9000}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoProcess]:
    """A demo that is started on the journal of an earlier one."""
    data = tmp_path_factory.mktemp("kept")
    _leave_receipts(data)
    with DemoProcess(data, ["--local", "--without-temporal"]) as demo:
        yield demo


def _leave_receipts(data: Path) -> None:
    provider = MockProvider()
    for case_id, amount_minor in AMOUNTS.items():
        job = Job(
            case_id=case_id,
            column="interlock",
            folder=str(data),
            live=False,
            payment=provider.create_payment(),
            approved_minor=amount_minor,
            currency="usd",
            complaint="",
            model="",
            stripe_api_base="http://127.0.0.1:0",
            anthropic_base_url="http://127.0.0.1:0",
            settings=GateSettings(),
            journal=f"sqlite:///{data / 'journal-local.db'}",
        )
        stripe = MockRefunds(provider, job)
        interlock.APPROVALS.grant(job)
        if case_id == "case-revoked":
            interlock.APPROVALS.revoke(job)
        with interlock.open_gate(job, stripe, lambda _: None) as gate:
            refund = stripe.refund(payment=job.payment, amount_minor=amount_minor, currency="usd", reference=case_id)
            gate.fire(f"refund:{case_id}", refund, approval=case_id, premises=[stripe.observe(job.payment)])


def _keys(page: Page) -> list[str | None]:
    return [row.get_attribute("data-key") for row in page.locator("#rows tr").all()]


def test_receipts_outlive_the_demo_and_are_found_by_filters(visit: Open, kept: DemoProcess) -> None:
    """Newest first; by status, by approval, by amount, and by what there is none of."""
    page = visit("receipts", at=kept).page
    page.locator("#rows tr").first.wait_for()
    assert _keys(page) == ["refund:case-dear", "refund:case-revoked", "refund:case-done"]
    for name, value, found in (
        ("status", "REFUSED", ["refund:case-revoked"]),
        ("approval", "case-done", ["refund:case-done"]),
        ("min_amount_minor", "2001", ["refund:case-dear"]),
        ("since", "2999-01-01", []),
    ):
        field = page.locator(f'[name="{name}"]')
        field.select_option(value) if name == "status" else field.fill(value)
        page.get_by_role("button", name="Filter").click()
        expect(page.locator("#rows tr")).to_have_count(len(found))
        assert _keys(page) == found
        page.get_by_role("button", name="Clear").click()
        expect(page.locator("#rows tr")).to_have_count(len(AMOUNTS))


def test_a_receipt_is_shown_with_its_chain_as_a_picture_and_verified(visit: Open, kept: DemoProcess) -> None:
    """One box for each event, the picture in words for who can't see it, and the address can be kept."""
    opened = visit("receipts", at=kept)
    page = opened.page
    page.get_by_role("button", name="Show the receipt refund:case-done").click()
    assert page.locator(".receipt").get_attribute("data-status") == "COMMITTED"
    picture = page.get_by_role("img")
    assert picture.locator(".box").count() == 4
    assert picture.locator(".link").count() == 3
    assert "A chain of 4 events" in (picture.get_attribute("aria-label") or "")
    page.get_by_role("button", name="Verify it now").click()
    expect(page.locator(".found")).to_have_attribute("data-valid", "true")
    assert "checked without the journal" in page.locator(".found").inner_text()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the bundle").click()
    assert download.value.suggested_filename == "refund-case-done.receipt.json"
    assert len(Bundle.parse(download.value.path().read_bytes()).records) >= 4
    assert opened.serious() == []
    page.reload()
    assert page.locator(".receipt .key").inner_text() == "refund:case-done"


def test_it_fits_a_narrow_page(visit: Open, kept: DemoProcess) -> None:
    """At 400 px, in the dark: nothing scrolls sideways, and axe-core finds nothing serious."""
    opened = visit("receipts#refund%3Acase-revoked", at=kept, width=400, dark=True)
    opened.page.get_by_role("img").wait_for()
    assert opened.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert opened.serious() == []


def test_a_slow_answer_about_one_receipt_does_not_take_the_place_of_another(visit: Open, kept: DemoProcess) -> None:
    """The receipt that was chosen last is the one that stays."""
    page = visit("receipts", at=kept).page
    with held_back(page, "**/api/receipts/one?key=refund%3Acase-done") as answer_now:
        page.get_by_role("button", name="Show the receipt refund:case-done").click()
        page.get_by_role("button", name="Show the receipt refund:case-dear").click()
        expect(page.locator(".receipt .key")).to_have_text("refund:case-dear")
        answer_now()
        page.wait_for_timeout(300)
        assert page.locator(".receipt .key").inner_text() == "refund:case-dear"

"""A page of another origin, open in the same browser: it can't start, read or stop a run."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.demo_pages import Open

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("browser")]

ELSEWHERE = "http://elsewhere.example/"

TRY_EVERYTHING = """async ([demo, run]) => {
  const tried = {};
  const attempt = async (name, ask) => {
    try {
      const response = await ask();
      tried[name] = response.type === "opaque" ? "opaque" : `${response.status} ${await response.text()}`;
    } catch (error) {
      tried[name] = "refused";
    }
  };
  const body = JSON.stringify({ scenario: "hand_refund_during_outage", mock: true });
  const json = { "content-type": "application/json" };
  await attempt("start as json", () => fetch(`${demo}/api/pages/standalone/runs`, { method: "POST", headers: json, body }));
  await attempt("start as a form", () => fetch(`${demo}/api/pages/standalone/runs`, { method: "POST", mode: "no-cors", body }));
  await attempt("stop", () => fetch(`${demo}/api/runs/${run}/stop`, { method: "POST", mode: "no-cors", body: "{}" }));
  await attempt("read", () => fetch(`${demo}/api/pages/standalone`));
  await attempt("read receipts", () => fetch(`${demo}/api/receipts`));
  tried.stream = await new Promise((resolve) => {
    const source = new EventSource(`${demo}/api/runs/${run}/events`);
    source.addEventListener("hello", () => resolve("told"));
    source.onerror = () => resolve("refused");
  });
  tried.frame = await new Promise((resolve) => {
    const frame = document.createElement("iframe");
    frame.src = `${demo}/standalone`;
    frame.onload = () => resolve(frame.contentDocument === null ? "closed" : "open");
    document.body.append(frame);
  });
  return tried;
}"""


def _elsewhere(page: Page) -> None:
    page.route(f"{ELSEWHERE}**", lambda route: route.fulfill(body="<!doctype html><title>elsewhere</title><p>another page"))
    page.goto(ELSEWHERE)


def test_a_page_of_another_origin_can_do_nothing(visit: Open) -> None:
    """While a run goes on: it starts none, stops none, and reads not a word of it."""
    own, other = visit("standalone"), visit("standalone")
    other.expected += ["CORS policy", "ERR_FAILED", "frame-ancestors", "403", "415", "Refused to frame", "ERR_BLOCKED_BY", "MIME"]
    own.page.locator("#mock").click()
    own.wait_until("Running")
    run = own.page.request.get(f"{own.demo.url}/api/pages/standalone").json()["run"]["id"]
    _elsewhere(other.page)
    tried = other.page.evaluate(TRY_EVERYTHING, [own.demo.url, run])
    assert {name: words for name, words in tried.items() if words not in {"refused", "opaque", "closed"}} == {}
    own.wait_until("Done")
    assert own.page.request.get(f"{own.demo.url}/api/pages/standalone").json()["run"]["id"] == run

// The page of receipts: find them, show one, draw its chain.

import { chainPicture } from "./chain.js";
import { ask, dateAndTime, dollars, el } from "./dom.js";
import { receiptCard } from "./receipt.js";

const $ = (id) => document.getElementById(id);

let mode = "";
let listing = 0; // raised with each list that is asked for: an answer to an older question comes too late
let showing = 0; // the same for the receipt below

async function list(after = null) {
  const mine = ++listing;
  const asked = new URLSearchParams([...new FormData($("filters"))].filter(([, value]) => value));
  if (after) asked.set("after", after);
  $("trouble").textContent = "";
  try {
    const page = await ask(`/api/receipts?${asked}`);
    if (mine !== listing) return;
    show(page, Boolean(after));
  } catch (error) {
    if (mine === listing) $("trouble").textContent = error.message;
  }
}

function show(page, more) {
  mode = page.mode;
  document.documentElement.dataset.mode = mode;
  $("mode-name").textContent = mode;
  $("mode-words").textContent =
    mode === "LIVE" ? "Refunds in Stripe's test mode." : "Refunds at the stand-in for Stripe, on this machine.";
  if ($("status").options.length === 1) $("status").append(...page.statuses.map((status) => el("option", { value: status, text: status })));
  const rows = page.receipts.map(row);
  if (more) $("rows").append(...rows);
  else $("rows").replaceChildren(...rows);
  const count = $("rows").children.length;
  $("count").textContent = count ? `${count} shown${page.next_page ? ", and there are older ones" : ""}` : "None. Play a run, or clear the filter.";
  $("older").hidden = !page.next_page;
  $("older").onclick = () => list(page.next_page);
}

function row(receipt) {
  const button = el("button", { type: "button", text: "Show", "aria-label": `Show the receipt ${receipt.key}` });
  const line = el(
    "tr",
    { "data-key": receipt.key },
    el("td", { text: receipt.at ? dateAndTime(receipt.at) : "–" }),
    el("td", {}, el("span", { class: "outcome", "data-status": receipt.status, text: receipt.status })),
    el("td", { text: receipt.amount_minor === null ? "–" : dollars(receipt.amount_minor) }),
    el("td", { text: receipt.via ?? receipt.refusal ?? "–" }),
    el("td", { text: receipt.approval }),
    el("td", {}, button),
  );
  button.addEventListener("click", () => {
    location.hash = encodeURIComponent(receipt.key);
  });
  return line;
}

async function one() {
  const key = decodeURIComponent(location.hash.slice(1));
  const mine = ++showing;
  for (const line of $("rows").children) line.setAttribute("aria-selected", String(line.dataset.key === key));
  if (!key) {
    $("one").replaceChildren();
    return;
  }
  try {
    const answer = await ask(`/api/receipts/one?key=${encodeURIComponent(key)}`);
    if (mine !== showing) return;
    const card = receiptCard(answer.receipt, {
      mode,
      verify: () => ask("/api/receipts/verify", { key }),
      bundle: true,
      stillShown: () => mine === showing,
    });
    const place = el("div");
    const chain = el(
      "section",
      { class: "chain", "aria-labelledby": "chain-title" },
      el("h2", { id: "chain-title", text: "How its events are chained" }),
      el("p", {
        text: "Each event of the action is hashed together with the hash of the one before. Whoever changes, removes or reorders one changes every hash after it.",
      }),
      place,
    );
    $("one").replaceChildren(card, chain);
    const draw = () => place.replaceChildren(chainPicture(answer.chain, place.clientWidth));
    draw();
    window.onresize = draw;
    $("one").scrollIntoView();
    $("one").focus({ preventScroll: true });
  } catch (error) {
    if (mine === showing) $("trouble").textContent = error.message;
  }
}

$("filters").addEventListener("submit", (event) => {
  event.preventDefault();
  list();
});
$("filters").addEventListener("reset", () => setTimeout(() => list()));
window.addEventListener("hashchange", one);
list().then(one);

// A receipt as a card: what became of the action, what was checked, and a button that verifies it there and then.

import { prefixed } from "./board.js";
import { dollars, el, timeOfDay } from "./dom.js";

const HAPPENED = { yes: "yes", no: "no", unknown: "not known" };
const VIA = {
  "first-send": "the first send was answered",
  "retry-idempotent": "sent again, under the same key",
  "recovery-query": "found at the provider, not sent again",
  resolution: "a person decided",
};
const DOORS = {
  burned: "the key was used up, so nothing can land late",
  horizon: "it waited until nothing could land any more",
  "nothing-sent": "nothing had been sent",
  answered: "the provider said no to this very request",
  person: "a person took it on themselves",
};

/**
 * @param receipt the receipt, as the library gives it.
 * @param options mode; verify(): asks the server; bundle: whether there is a file of it; stillShown(): whether the card is.
 */
export function receiptCard(receipt, options) {
  return el(
    "article",
    { class: "receipt", "data-status": receipt.status, "aria-label": `Receipt ${receipt.key}` },
    el(
      "header",
      {},
      el("span", { class: "status", text: receipt.status }),
      el("span", { class: "badge", "data-mode": options.mode, text: options.mode }),
      el("span", { class: "key", text: receipt.key }),
    ),
    el("p", { class: "plain", text: prefixed(inPlainWords(receipt), options.mode) }),
    facts(receipt, options.mode),
    checks(receipt.checks, options.mode),
    timeline(receipt.timeline, options.mode),
    verification(receipt.key, options),
  );
}

function inPlainWords(receipt) {
  const amount = receipt.amount_minor === null ? "The action" : `The refund of ${dollars(receipt.amount_minor)}`;
  if (receipt.status === "COMMITTED") return `${amount} happened, once: ${VIA[receipt.via]}.`;
  if (receipt.status === "REFUSED") return `${amount} did not happen and can't any more under this key: ${receipt.refusal.words}.`;
  if (receipt.status === "AMBIGUOUS") return `Nobody can know from here whether ${amount.toLowerCase()} happened. A person has to look at the provider.`;
  return `${amount} is not at its end yet.`;
}

function facts(receipt, mode) {
  const told = [
    ["Happened", HAPPENED[receipt.happened]],
    ["How that is known", receipt.via ? VIA[receipt.via] : receipt.refusal ? DOORS[receipt.refusal.door] : "it is not"],
    ["Approval live when it was sent", yesNo(receipt.authorized_when_fired)],
    ["Facts held when it was sent", yesNo(receipt.assumptions_held)],
    ["Sends announced", `${receipt.sends}, under ${receipt.attempts} key${receipt.attempts === 1 ? "" : "s"}`],
    ["At the provider", receipt.evidence ? `${receipt.evidence.reference}, ${receipt.evidence.state}` : "nothing of ours"],
  ];
  if (receipt.refusal) told.push(["Refused because", receipt.refusal.code], ["Still possible", receipt.refusal.possible]);
  if (receipt.ambiguity) told.push(["Not known", receipt.ambiguity]);
  return el(
    "dl",
    { class: "facts" },
    ...told.map(([name, value]) => el("div", {}, el("dt", { text: name }), el("dd", { text: prefixed(value, mode) }))),
  );
}

function yesNo(value) {
  if (value === null) return "nothing was sent";
  return value ? "yes" : "no";
}

function checks(list, mode) {
  const rows = list.toSorted((one, other) => one.at.localeCompare(other.at)).map((check) => [timeOfDay(check.at), check.what, [check.state, check.words].filter(Boolean).join(": ")]);
  return table("What it checked, and what it read", ["When", "What", "Read"], rows, mode);
}

function timeline(list, mode) {
  const rows = list.map((entry) => [timeOfDay(entry.at), entry.event, entry.words]);
  return table("What it wrote down, in order", ["When", "Event", "What it says"], rows, mode);
}

function table(title, heads, rows, mode) {
  const body = rows.map(([when, what, words]) =>
    el("tr", {}, el("td", { class: "mono", text: when }), el("td", { class: "name", text: what }), el("td", { text: prefixed(words, mode) })),
  );
  return el(
    "section",
    { "aria-label": title },
    el("h3", { text: title }),
    el(
      "div",
      { class: "table-wrap" },
      el(
        "table",
        { class: "stack" },
        el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col", text: head })))),
        el("tbody", {}, ...body),
      ),
    ),
  );
}

function verification(key, options) {
  const found = el("p", { class: "found", role: "status" });
  const button = el("button", { type: "button", text: "Verify it now" });
  button.addEventListener("click", async () => {
    button.disabled = true;
    found.textContent = "reading the log again…";
    delete found.dataset.valid;
    try {
      const answer = await options.verify();
      if (!options.stillShown()) return;
      found.dataset.valid = String(answer.valid && (answer.bundle ?? "ok") === "ok");
      found.textContent = prefixed(verdict(answer), options.mode);
    } catch (error) {
      found.dataset.valid = "false";
      found.textContent = prefixed(error.message, options.mode);
    }
    button.disabled = false;
  });
  const href = `/api/receipts/bundle?key=${encodeURIComponent(key)}`;
  const bundle = options.bundle ? el("a", { class: "button", href, download: true, text: "Download the bundle" }) : null;
  return el("div", { class: "verify" }, button, bundle, found);
}

function verdict(answer) {
  const time = timeOfDay(answer.at);
  if (!answer.valid) return `Not valid, at ${time}: ${answer.findings.join("; ")}`;
  const log = `Valid, at ${time}: ${answer.events} events of this action and all ${answer.events_of_log} of the log stand as they were written.`;
  if (answer.bundle === undefined) return log;
  if (answer.bundle !== "ok") return `${log} Its bundle is ${answer.bundle}: ${answer.bundle_findings.join("; ")}`;
  return `${log} Its bundle was checked without the journal, as an outsider would: ${answer.checks} checks, all of them hold.`;
}

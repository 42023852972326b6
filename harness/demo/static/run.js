// A page that plays runs: choose, start, watch, stop. One run is shown at a time, and nothing of any other.

import { Board, prefixed } from "./board.js";
import { ask, el, seconds } from "./dom.js";
import { receiptCard } from "./receipt.js";
import { Stream } from "./stream.js";

const $ = (id) => document.getElementById(id);
const PAGE = document.body.dataset.page;
const TITLE = document.title;
const TICK_MS = 100;
const STATES = { running: "Running", done: "Done", stopped: "Stopped", failed: "Failed" };

let page; // what the server says of this page
let board; // the columns on screen
let stream = null;
let shown = null; // the run on screen, and when its clock was read
let token = 0; // raised with everything that puts another run on screen: an answer under an older one comes too late

async function load() {
  document.querySelector(`[data-nav="${PAGE}"]`).setAttribute("aria-current", "page");
  page = await ask(`/api/pages/${PAGE}`);
  $("now-room").textContent = `MOCK. ${page.longest_caption}`;
  describe();
  offer();
  if (page.run) watch(page.run);
  else clear();
}

function offer() {
  for (const story of page.stories) {
    const id = `story-${story.name.replace(/\W+/g, "-")}`;
    const note = story.emulated ? " EMULATED: what the real provider does not do on demand is played on this side of it." : "";
    $(story.first ? "stories" : "more-stories").append(
      el(
        "label",
        { class: "story", for: id },
        el("input", { type: "radio", name: "scenario", id, value: story.name, checked: story === page.stories[0] }),
        el("strong", { text: story.title }),
        el("span", { text: story.words + note }),
      ),
    );
  }
  if (page.unavailable) {
    $("unavailable").replaceChildren(`${page.unavailable} `, el("a", { href: "/standalone", text: "The page with plain workers" }), " works without it. So does MOCK, here.");
    $("unavailable").hidden = false;
  }
  if (page.unavailable) $("start").disabled = true;
}

function chosen() {
  return page.stories.find((story) => story.name === new FormData($("controls")).get("scenario"));
}

function tracksFor(story, third) {
  if (story.gate_only) return page.tracks.filter((track) => track.way === "gate");
  return page.tracks.filter((track) => third || track.way !== "checked");
}

/** Put empty columns on screen, as the next run will have them. */
function clear() {
  leave();
  setMode(page.mode);
  board = new Board($("columns"), $("score"), tracksFor(chosen(), $("third").checked), page.mode);
  $("now").textContent = chosen().words;
  $("receipt").replaceChildren(el("p", { class: "placeholder", text: "It appears here when the gate's column is closed." }));
  setState("Ready", false);
}

/** Put a run on screen, from its first event on. */
function watch(run) {
  leave();
  const mine = token;
  setMode(run.mode);
  const tracks = page.tracks.filter((track) => run.columns.includes(track.column));
  board = new Board($("columns"), $("score"), tracks, run.mode, run.id);
  $("now").textContent = "";
  $("receipt").replaceChildren(el("p", { class: "placeholder", text: "It appears here when the gate's column is closed." }));
  choose(run);
  shown = { run, readAt: performance.now() };
  setState(run.state, true);
  stream = new Stream(run.id, {
    hello: (known) => {
      if (mine === token) shown = { run: known, readAt: performance.now() };
    },
    event: (event) => {
      if (mine === token) show(event);
    },
    bye: (known) => {
      if (mine === token) finish(known);
    },
    lost: () => {
      if (mine === token) trouble("The server does not answer any more.");
    },
  });
}

/** Leave the run on screen: whatever is still on its way about it, is not shown. */
function leave() {
  token += 1;
  if (stream) stream.close();
  stream = null;
  shown = null;
  trouble("");
}

function show(event) {
  if (!board.show(event)) return;
  const gate = page.tracks.find((track) => track.column === event.column && track.way === "gate");
  if (event.kind === "caption" && gate) say(event.words, gate.title);
  if (event.kind === "summary") say(event.words);
  if (event.kind === "receipt") showReceipt(event);
  if (event.kind === "end") {
    shown.run = { ...shown.run, state: event.state, elapsed_s: event.took_s };
    board.halt();
    setState(event.state, true);
    if (event.words) say(event.words);
  }
}

function say(words, whose) {
  $("now").replaceChildren(prefixed("", shown.run.mode), whose ? el("b", { text: `${whose}: ` }) : "", words);
}

function showReceipt(event) {
  const mine = token;
  const runId = event.run;
  const card = receiptCard(event.receipt, {
    mode: board.mode,
    verify: () => ask(`/api/runs/${runId}/verify`, {}),
    bundle: board.mode !== "MOCK",
    stillShown: () => mine === token,
  });
  $("receipt").replaceChildren(card);
}

function finish(run) {
  stream = null;
  shown = { run, readAt: performance.now() };
  board.halt();
  setState(run.state, true);
}

function choose(run) {
  const input = document.querySelector(`input[value="${CSS.escape(run.scenario)}"]`);
  input.checked = true;
  if (input.closest("#more")) $("more").open = true;
  $("third").checked = run.columns.some((column) => page.tracks.find((track) => track.column === column).way === "checked");
}

function setMode(mode) {
  document.documentElement.dataset.mode = mode;
  document.title = mode === "MOCK" ? `MOCK: ${TITLE}` : TITLE;
}

/** Say what real runs of this page are made of. While a mock is on screen the line keeps its room, and is not shown. */
function describe() {
  $("mode-name").textContent = page.mode;
  const missing = page.missing.length ? ` For a live run, set ${page.missing.join(" and ")}.` : "";
  const links = page.links.flatMap((link) => [" ", el("a", { href: link.href, target: "_blank", rel: "noreferrer", text: link.words })]);
  $("mode-words").replaceChildren(page.settings + missing, ...links);
}

function setState(state, withClock) {
  const running = state === "running";
  const mock = document.documentElement.dataset.mode === "MOCK" && withClock ? " (MOCK)" : "";
  $("state-words").textContent = (STATES[state] ?? state) + mock;
  $("run-clock").textContent = "";
  hold(running);
  $("stop").disabled = !running;
  if (withClock) tick();
}

/** Let nothing be chosen or started, or let it again. */
function hold(held) {
  $("start").disabled = held || Boolean(page.unavailable);
  $("mock").disabled = held;
  for (const input of $("controls").querySelectorAll("input")) input.disabled = held;
}

function tick() {
  if (!shown) return;
  const running = shown.run.state === "running";
  const nowS = shown.run.elapsed_s + (running ? (performance.now() - shown.readAt) / 1000 : 0);
  $("run-clock").textContent = ` · ${seconds(nowS)}`;
  if (running) board.tick(nowS);
}

function trouble(words) {
  $("trouble").textContent = words;
}

async function start(mock) {
  trouble("");
  const wanted = { scenario: chosen().name, third: $("third").checked, mock };
  hold(true);
  try {
    watch(await ask(`/api/pages/${PAGE}/runs`, wanted));
    document.querySelector(".actions").scrollIntoView();
  } catch (error) {
    hold(false);
    trouble(error.message);
  }
}

$("controls").addEventListener("submit", (event) => {
  event.preventDefault();
  start(false);
});
$("mock").addEventListener("click", () => start(true));
$("stop").addEventListener("click", () => {
  if (shown) ask(`/api/runs/${shown.run.id}/stop`, {}).catch((error) => trouble(error.message));
});
$("controls").addEventListener("change", () => clear());
setInterval(() => {
  if (shown && shown.run.state === "running") tick();
}, TICK_MS);
load().catch((error) => trouble(error.message));

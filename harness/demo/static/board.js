// The columns of one run: every event of that run is put in its place, and an event of another run nowhere.

import { el, seconds } from "./dom.js";

const STEPS = [
  ["case", "The case"],
  ["decision", "The model reads and decides"],
  ["first", "Worker 1"],
  ["kill", "Killed"],
  ["meanwhile", "Meanwhile"],
  ["second", "Worker 2"],
  ["record", "The provider's record, read again"],
];

/** How many lines a step has room for; more of them scroll. */
const SLOTS = {
  plain: { case: 3, decision: 5, first: 3, kill: 1, meanwhile: 1, second: 4, record: 3 },
  checked: { case: 3, decision: 5, first: 3, kill: 1, meanwhile: 1, second: 4, record: 3 },
  gate: { case: 4, decision: 5, first: 7, kill: 1, meanwhile: 2, second: 9, record: 3 },
};

const FIGURES = "At the provider: $40 in 2. Right: $20 in 1. Reported: ambiguous.";

export class Board {
  /**
   * @param place the element that holds the columns.
   * @param score the list that holds their verdicts, for pages on which columns stand below each other.
   * @param tracks the columns, as the server describes them.
   * @param mode LOCAL, LIVE or MOCK: what everything on it is made of.
   * @param runId the run whose events it shows; null where there is none yet.
   */
  constructor(place, score, tracks, mode, runId = null) {
    this.runId = runId;
    this.mode = mode;
    this.columns = new Map(tracks.map((track) => [track.column, new Column(track, mode)]));
    place.style.setProperty("--tracks", String(tracks.length));
    place.replaceChildren(...[...this.columns.values()].map((column) => column.element));
    score.replaceChildren(...[...this.columns.values()].map((column) => column.score));
  }

  /** Show an event. Return false where it is not of this run. */
  show(event) {
    if (event.run !== this.runId) return false;
    const column = this.columns.get(event.column);
    if (column) column.show(event);
    return true;
  }

  /** Let the clocks go on of columns that were killed and are not closed. */
  tick(nowS) {
    for (const column of this.columns.values()) column.tick(nowS);
  }

  /** Nothing more comes: stop all clocks where they are. */
  halt() {
    for (const column of this.columns.values()) column.halt();
  }
}

class Column {
  constructor(track, mode) {
    this.mode = mode;
    this.crashedAtS = null;
    this.going = null;
    this.steps = new Map(STEPS.map(([name, title], nth) => [name, new Step(track, name, title, nth + 1)]));
    this.verdict = el("p", { class: "verdict", text: "not yet" });
    this.figures = el("p");
    this.means = el("p");
    this.close = el("p", { class: "close" });
    this.scored = el("b", { text: "not yet" });
    this.score = el("li", {}, el("span", { text: track.title }), this.scored);
    this.result = el(
      "div",
      { class: "result", role: "group", "aria-label": `Result, ${track.title}` },
      this.verdict,
      el("span", { class: "badge", "data-mode": mode, text: mode }),
      roomy("figures", this.figures, FIGURES),
      roomy("means", this.means, track.room.verdict),
      this.close,
    );
    const id = `column-${track.column}`;
    this.element = el(
      "article",
      { class: "column", "data-way": track.way, "data-column": track.column, "aria-labelledby": id },
      el(
        "header",
        {},
        el("h2", { id }, track.title, el("span", { class: "badge", "data-mode": mode, text: mode })),
        el("p", { class: "about", text: track.about }),
      ),
      this.result,
      el("ol", { class: "steps" }, ...[...this.steps.values()].map((step) => step.element)),
    );
  }

  show(event) {
    switch (event.kind) {
      case "line":
        this.#goTo(event.step).line(event, this.mode);
        break;
      case "caption":
        this.#goTo(event.step).caption(prefixed(event.words, this.mode));
        break;
      case "worker":
        this.steps.get(event.nth === 1 ? "first" : "second").process(event);
        break;
      case "crash":
        this.crashedAtS = event.at_s;
        break;
      case "closed":
        this.#closed(event.crash_to_close_s);
        break;
      case "verdict":
        this.#judged(event);
        break;
    }
  }

  tick(nowS) {
    if (this.crashedAtS !== null) this.#clock(Math.max(0, nowS - this.crashedAtS));
  }

  halt() {
    this.crashedAtS = null;
    if (this.going) this.going.over();
  }

  #goTo(name) {
    const step = this.steps.get(name);
    if (this.going !== step) {
      if (this.going) this.going.over();
      step.begin();
      this.going = step;
    }
    return step;
  }

  #clock(value) {
    this.close.textContent = prefixed(`crash to close: ${seconds(value, 1)}…`, this.mode);
  }

  #closed(value) {
    this.crashedAtS = null;
    this.close.textContent = prefixed(value === null ? "never closed" : `crash to close: ${seconds(value, 2)}`, this.mode);
  }

  #judged(event) {
    this.going.over();
    this.result.dataset.tone = event.ambiguous ? "warn" : event.held ? "good" : event.verdict.startsWith("SHORT") ? "warn" : "bad";
    this.result.dataset.verdict = event.verdict;
    this.result.dataset.payment = event.payment;
    this.verdict.textContent = event.verdict + (event.ambiguous ? ", AMBIGUOUS" : "");
    this.scored.textContent = prefixed(this.verdict.textContent, this.mode);
    this.score.dataset.tone = this.result.dataset.tone;
    const answer = event.answer === null ? "nothing" : event.answer;
    this.figures.textContent = prefixed(`At the provider: ${event.got}. Right: ${event.want}. Reported: ${answer}.`, this.mode);
    this.means.textContent = prefixed(event.words, this.mode);
  }
}

class Step {
  constructor(track, name, title, nth) {
    this.lines = el("ul", { class: "lines", role: "list", tabindex: "-1" });
    this.lines.style.setProperty("--slots", String(SLOTS[track.way][name]));
    this.why = el("p");
    this.processWords = el("span", { class: "process" });
    this.element = el(
      "li",
      { class: "step", "data-step": name },
      el(
        "h3",
        {},
        el("span", { class: "nth", "aria-hidden": "true", text: nth }),
        title,
        el("span", { class: "badge", "data-mode": "MOCK", text: "MOCK" }),
        this.processWords,
      ),
      roomy("why", this.why, track.room[name]),
      this.lines,
    );
  }

  begin() {
    this.element.dataset.state = "going";
  }

  over() {
    this.element.dataset.state = "over";
  }

  line(event, mode) {
    const words = prefixed(event.words, mode);
    this.lines.append(
      el(
        "li",
        { "data-source": event.source, "data-tone": event.tone, "data-long": event.long },
        el("span", { class: "source", text: event.source }),
        el("span", { class: "words", title: words, text: words }),
      ),
    );
    // What scrolls has to be reached with the keyboard.
    if (this.lines.scrollHeight > this.lines.clientHeight + 1) {
      this.lines.tabIndex = 0;
      this.lines.scrollTop = this.lines.scrollHeight;
    }
  }

  caption(words) {
    this.why.textContent = words;
  }

  process(event) {
    this.processWords.textContent = event.alive ? "▸ runs" : `▪ exit ${event.exit_code}`;
  }
}

/** Put words that will come where the longest that can come have room, so that nothing moves when they do. */
export function roomy(name, words, longest) {
  return el("div", { class: `roomy ${name}` }, words, el("p", { class: "room", "aria-hidden": "true", text: `MOCK. ${longest}` }));
}

/** Whatever is simulated says so in front of every line. */
export function prefixed(words, mode) {
  return mode === "MOCK" ? `MOCK. ${words}` : words;
}

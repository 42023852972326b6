// Elements and words, without markup in strings: what comes from a provider or a model is only ever text.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element. Names that begin with "data-" or "aria-" and all others become attributes; `text` its text. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Make an SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") element.textContent = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** $20, or $20.50. */
export function dollars(minor) {
  return minor % 100 === 0 ? `$${minor / 100}` : `$${(minor / 100).toFixed(2)}`;
}

/** The time of day, to the millisecond. */
export function timeOfDay(text) {
  const at = new Date(text);
  return `${at.toLocaleTimeString("en-GB")}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

/** A date and a time. */
export function dateAndTime(text) {
  return new Date(text).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
}

/** Seconds, as they are read. */
export function seconds(value, digits = 1) {
  return `${value.toFixed(digits)} s`;
}

/** Ask the server; what it refuses is thrown with its own words. */
export async function ask(path, body) {
  const options = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, options);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

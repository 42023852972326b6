// A receipt's chain as a picture: each event with its hash, and each hash made over the one before.

import { svg, timeOfDay } from "./dom.js";

const BOX = { width: 236, height: 104, gapX: 44, gapY: 40, pad: 6 };

/**
 * Draw the chain.
 * @param links the events: event, at, words, position, leaf.
 * @param width how wide the picture may be, in pixels.
 */
export function chainPicture(links, width) {
  const perRow = Math.max(1, Math.min(links.length, Math.floor((width + BOX.gapX) / (BOX.width + BOX.gapX))));
  const rows = Math.ceil(links.length / perRow);
  const wide = perRow * BOX.width + (perRow - 1) * BOX.gapX + 2 * BOX.pad;
  const high = rows * BOX.height + (rows - 1) * BOX.gapY + 2 * BOX.pad;
  const picture = svg("svg", {
    viewBox: `0 0 ${wide} ${high}`,
    role: "img",
    "aria-label": inWords(links),
  });
  picture.style.maxWidth = `${wide}px`;
  const places = links.map((_, nth) => placeOf(nth, perRow));
  links.forEach((link, nth) => {
    if (nth > 0) picture.append(...arrow(places[nth - 1], places[nth]));
    picture.append(box(link, places[nth], nth === links.length - 1));
  });
  return picture;
}

function placeOf(nth, perRow) {
  const row = Math.floor(nth / perRow);
  // Every other row runs back, so that each arrow leads to a neighbour.
  const column = row % 2 === 0 ? nth % perRow : perRow - 1 - (nth % perRow);
  return { x: BOX.pad + column * (BOX.width + BOX.gapX), y: BOX.pad + row * (BOX.height + BOX.gapY) };
}

function box(link, place, last) {
  const line = (dy, text, attributes) => svg("text", { x: place.x + 14, y: place.y + dy, ...attributes, text });
  return svg(
    "g",
    {},
    svg("rect", { class: last ? "box end" : "box", x: place.x, y: place.y, width: BOX.width, height: BOX.height, rx: 9 }),
    line(26, link.event, { "font-size": 17, "font-weight": 650 }),
    line(48, `${timeOfDay(link.at)}, position ${link.position ?? "–"}`, { "font-size": 13, class: "small" }),
    line(68, shortened(link.words), { "font-size": 13, class: "small" }),
    line(90, `hash ${link.leaf}…`, { "font-size": 13, "font-family": "monospace" }),
  );
}

function shortened(words) {
  return words.length > 33 ? `${words.slice(0, 32)}…` : words;
}

function arrow(from, to) {
  const tip = 9;
  if (from.y === to.y) {
    const right = to.x > from.x;
    const y = from.y + BOX.height / 2;
    const x1 = right ? from.x + BOX.width : from.x;
    const x2 = right ? to.x : to.x + BOX.width;
    const back = right ? -tip : tip;
    return [
      svg("path", { class: "link", d: `M${x1} ${y}H${x2 + back}` }),
      svg("path", { class: "tip", d: `M${x2} ${y}l${back} -6v12z` }),
    ];
  }
  const x = from.x + BOX.width / 2;
  return [
    svg("path", { class: "link", d: `M${x} ${from.y + BOX.height}V${to.y - tip}` }),
    svg("path", { class: "tip", d: `M${x} ${to.y}l-6 ${-tip}h12z` }),
  ];
}

function inWords(links) {
  const told = links.map((link) => `${link.event} at ${timeOfDay(link.at)}, hash ${link.leaf}`);
  return `A chain of ${links.length} events, each hash covering the one before: ${told.join("; then ")}.`;
}

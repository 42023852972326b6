"""A chart of actions a second, as SVG: a group of bars for each number of writers, on a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_BAR, _GAP, _HEIGHT = 30, 26, 260
_LEFT, _TOP, _BELOW = 56, 58, 34
_COLOURS = ("#8c8c8c", "#1f6feb", "#c9a227", "#b5543a", "#6a4fb3", "#3a8f5c")
_TEXT = 'font-family="system-ui, sans-serif" font-size="12" fill="#222"'


@dataclass(frozen=True, slots=True)
class Rate:
    """One bar.

    Attributes:
        peer: what was measured.
        writers: how many wrote at once.
        per_s: actions a second.
    """

    peer: str
    writers: int
    per_s: float


def bars(rates: Sequence[Rate]) -> str:
    """Return the chart.

    Args:
        rates: at least one, and above zero.
    """
    peers = list(dict.fromkeys(rate.peer for rate in rates))
    colours = {peer: _COLOURS[i % len(_COLOURS)] for i, peer in enumerate(peers)}
    groups = [[rate for rate in rates if rate.writers == writers] for writers in sorted({rate.writers for rate in rates})]
    lowest = math.floor(math.log10(min(rate.per_s for rate in rates)))
    highest = math.ceil(math.log10(max(rate.per_s for rate in rates) * 1.05))
    width = max(_LEFT + sum(len(group) * _BAR + _GAP for group in groups) + _GAP, _LEFT + 108 * len(peers))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_TOP + _HEIGHT + _BELOW}" role="img">',
        f"<title>{escape('Actions a second, by writers: ' + ', '.join(peers))}</title>",
        '<rect width="100%" height="100%" fill="#fff"/>',
        *_scale(lowest, highest, width),
        *_legend(colours),
    ]
    x = _LEFT + _GAP
    for group in groups:
        lines += _group(group, colours, x, lowest, highest)
        x += len(group) * _BAR + _GAP
    return "\n".join([*lines, "</svg>"]) + "\n"


def _y(per_s: float, lowest: int, highest: int) -> float:
    return _TOP + _HEIGHT * (1 - (math.log10(per_s) - lowest) / (highest - lowest))


def _scale(lowest: int, highest: int, width: int) -> Iterator[str]:
    for power in range(lowest, highest + 1):
        y = _y(10.0**power, lowest, highest)
        yield f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{width}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" {_TEXT}>{10.0**power:,.0f}</text>'


def _legend(colours: dict[str, str]) -> Iterator[str]:
    yield f'<text x="{_LEFT}" y="18" {_TEXT}>actions a second, committed and durable (logarithmic)</text>'
    for i, (peer, colour) in enumerate(colours.items()):
        yield f'<rect x="{_LEFT + i * 108}" y="30" width="11" height="11" fill="{colour}"/>'
        yield f'<text x="{_LEFT + 15 + i * 108}" y="40" {_TEXT}>{escape(peer)}</text>'


def _group(group: Sequence[Rate], colours: dict[str, str], x: int, lowest: int, highest: int) -> Iterator[str]:
    bottom = _TOP + _HEIGHT
    for i, rate in enumerate(group):
        left, y = x + i * _BAR, _y(rate.per_s, lowest, highest)
        yield (
            f'<rect x="{left}" y="{y:.1f}" width="{_BAR - 4}" height="{bottom - y:.1f}" fill="{colours[rate.peer]}">'
            f"<title>{escape(rate.peer)}: {rate.per_s:,.0f}/s</title></rect>"
        )
        yield f'<text x="{left + _BAR / 2 - 2}" y="{y - 4:.1f}" text-anchor="middle" {_TEXT}>{_short(rate.per_s)}</text>'
    words = f"{group[0].writers} writer{'s' if group[0].writers > 1 else ''}"
    yield f'<text x="{x + len(group) * _BAR / 2}" y="{bottom + 20}" text-anchor="middle" {_TEXT}>{words}</text>'


def _short(per_s: float) -> str:
    return f"{per_s / 1000:.1f}k" if per_s >= 1000 else f"{per_s:.0f}"

"""Arrays of numbers that grow, and tables of them that are filled when they are first asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

_EMPTY = -1
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""2**64 divided by the golden ratio: it spreads numbers that are close to each other (Knuth's multiplicative hashing)."""
_COUNT_BITS = 12


class Grown:
    """An array of whole numbers that grows at its end."""

    def __init__(self) -> None:
        self._held: Ints = np.empty(1 << 8, np.int64)
        self.size = 0

    def append(self, value: int) -> None:
        """Add a number."""
        if self.size == len(self._held):
            self._held = np.concatenate((self._held, np.empty_like(self._held)))
        self._held[self.size] = value
        self.size += 1

    @property
    def values(self) -> Ints:
        """What it holds; to be read before it grows again."""
        return self._held[: self.size]


class Table:
    """A number for each key, made when the key is first asked for: a hash table with linear probing, looked up in bulk.

    Args:
        make: makes the number, from 0, for a key, from 0.
    """

    def __init__(self, make: Callable[[int], int]) -> None:
        self._make = make
        self._bits = 10
        self._keys: Ints = np.full(1 << self._bits, _EMPTY, np.int64)
        self._numbers: Ints = np.full(1 << self._bits, _EMPTY, np.int64)
        self._filled = 0

    def __len__(self) -> int:
        """Return how many keys were asked for."""
        return self._filled

    def __getitem__(self, keys: Ints) -> Ints:
        """Return the number of each key."""
        numbers = self._numbers[self._places(keys)]
        missing = np.flatnonzero(numbers == _EMPTY)
        if missing.size:
            new = sorted_set(keys[missing])
            self._put(new, np.array([self._make(key) for key in new.tolist()], np.int64))
            numbers[missing] = self._numbers[self._places(keys[missing])]
        return numbers

    def _places(self, keys: Ints) -> Ints:
        """Return where each key is, or where it would be."""
        last = len(self._keys) - 1
        places = ((keys.view(np.uint64) * _MULTIPLIER) >> np.uint64(64 - self._bits)).view(np.int64)
        held = self._keys[places]
        on = np.flatnonzero((held != keys) & (held != _EMPTY))
        while on.size:
            places[on] = (places[on] + 1) & last
            held = self._keys[places[on]]
            on = on[(held != keys[on]) & (held != _EMPTY)]
        return places

    def _put(self, keys: Ints, numbers: Ints) -> None:
        self._filled += len(keys)
        if 2 * self._filled > len(self._keys):
            self._grow()
        while keys.size:
            places = self._places(keys)
            # Of several keys that want one place the last gets it, and the others look further.
            self._keys[places] = keys
            got = self._keys[places] == keys
            self._numbers[places[got]] = numbers[got]
            keys, numbers = keys[~got], numbers[~got]

    def _grow(self) -> None:
        held = self._keys != _EMPTY
        keys, numbers = self._keys[held], self._numbers[held]
        while 2 * self._filled > 1 << self._bits:
            self._bits += 1
        self._keys, self._numbers = (np.full(1 << self._bits, _EMPTY, np.int64) for _ in range(2))
        self._filled -= len(keys)
        self._put(keys, numbers)


class Lines:
    """Any number of pairs of numbers for each key, made when the key is first asked for.

    Args:
        make: makes the pairs for a key.
    """

    def __init__(self, make: Callable[[int], Iterable[tuple[int, int]]]) -> None:
        self._make = make
        self._spans = Table(self._add)
        self._ones, self._others = Grown(), Grown()

    def __len__(self) -> int:
        """Return how many keys were asked for."""
        return len(self._spans)

    def __getitem__(self, keys: Ints) -> tuple[Ints, Ints, Ints]:
        """Return, for every pair of every key, the key's place among those asked for, and the pair's two numbers."""
        spans = self._spans[keys]
        starts, counts = spans >> _COUNT_BITS, spans & (1 << _COUNT_BITS) - 1
        sources = np.repeat(np.arange(len(keys)), counts)
        first = np.cumsum(counts) - counts
        at = np.arange(len(sources)) + (starts - first)[sources]
        return sources, self._ones.values[at], self._others.values[at]

    def _add(self, key: int) -> int:
        pairs = list(self._make(key))
        start = self._ones.size
        for one, other in pairs:
            self._ones.append(one)
            self._others.append(other)
        assert len(pairs) < 1 << _COUNT_BITS, "a key has outgrown its bits"
        return start << _COUNT_BITS | len(pairs)


class SortedSets:
    """Numbers that were seen, in a few sorted arrays, each at least twice as long as the next."""

    def __init__(self) -> None:
        self._parts: list[Ints] = []

    def add(self, numbers: Ints) -> None:
        """Add a sorted array of numbers that are not in it."""
        self._parts.append(numbers)
        while len(self._parts) > 1 and len(self._parts[-2]) < 2 * len(self._parts[-1]):
            last = self._parts.pop()
            self._parts[-1] = sorted_set(np.concatenate((self._parts[-1], last)))

    def without(self, numbers: Ints) -> Ints:
        """Return those of a sorted array that are not in it."""
        for part in self._parts:
            numbers = numbers[~holds(part, numbers)]
        return numbers

    def merged(self) -> Ints:
        """Return all of them, sorted."""
        return sorted_set(np.concatenate(self._parts))


def sorted_set(numbers: Ints) -> Ints:
    """Return the numbers sorted, each once."""
    numbers = np.sort(numbers)
    keep = np.ones(len(numbers), np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=keep[1:])
    return numbers[keep]


def holds(part: Ints, numbers: Ints) -> Bools:
    """Return which numbers are in a sorted array."""
    if not part.size:
        return np.zeros(len(numbers), np.bool_)
    at = np.searchsorted(part, numbers)
    at[at == len(part)] = 0
    found: Bools = part[at] == numbers
    return found


def pieces(numbers: Ints, size: int) -> Iterator[Ints]:
    """Yield the numbers piece by piece."""
    yield from (numbers[start : start + size] for start in range(0, len(numbers), size))

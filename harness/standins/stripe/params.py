"""Stripe's form encoding, and the checks that happen before anything is executed."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Union

from .refusals import Refusal, invalid_param

METADATA_MAX_KEYS = 50
METADATA_MAX_KEY_CHARS = 40
METADATA_MAX_VALUE_CHARS = 500
MAX_AMOUNT_MINOR = 99_999_999

Tree = dict[str, Union[str, "Tree"]]

_NAME = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])*)")
_SEGMENT = re.compile(r"\[([^\[\]]*)\]")
_INTEGER = re.compile(r"[+-]?[0-9]+")


def parse_pairs(pairs: Iterable[tuple[str, str]]) -> Tree:
    """Turn `a[b]=c` pairs into a tree; an empty index (`a[]`) counts up.

    Raises:
        Refusal: A name is not well formed, such as a metadata key with square brackets in it.
    """
    tree: Tree = {}
    for name, value in pairs:
        match = _NAME.fullmatch(name)
        if match is None:
            raise _malformed(name)
        _plant(tree, [match[1], *_SEGMENT.findall(match[2])], value, name)
    return tree


def _plant(tree: Tree, path: list[str], value: str, name: str) -> None:
    *parents, leaf = path
    for parent in parents:
        child = tree.setdefault(parent, {})
        if isinstance(child, str):
            raise _malformed(name)
        tree = child
    tree[leaf or str(len(tree))] = value


def _malformed(name: str) -> Refusal:
    root = name.partition("[")[0]
    if root == "metadata":
        return invalid_param(None, name, "Metadata keys can't contain square brackets.")
    return invalid_param("parameter_unknown", name, f"Received malformed parameter: {name}")


@dataclass(frozen=True, slots=True)
class Params:
    """The parameters of one request."""

    tree: Tree

    def allow(self, *names: str) -> None:
        """Refuse every parameter that the endpoint does not know."""
        for name in self.tree:
            if name not in {*names, "expand"}:
                raise invalid_param("parameter_unknown", name, f"Received unknown parameter: {name}")

    def text(self, name: str) -> str | None:
        """Return a string, or None where the parameter is absent or empty."""
        value = self.tree.get(name)
        if isinstance(value, dict):
            raise invalid_param(None, name, f"Invalid string: {name}")
        return value or None

    def required(self, name: str) -> str:
        """Return a string that must be there."""
        value = self.text(name)
        if value is None:
            raise invalid_param("parameter_missing", name, f"Missing required param: {name}.")
        return value

    def choice(self, name: str, allowed: Iterable[str]) -> str | None:
        """Return one of a few words."""
        value, words = self.text(name), tuple(allowed)
        if value is not None and value not in words:
            raise invalid_param(None, name, f"Invalid {name}: must be one of {', '.join(words)}")
        return value

    def integer(self, name: str, *, at_least: int | None = None, at_most: int | None = None) -> int | None:
        """Return an integer within bounds; `20.0` is none."""
        text = self.text(name)
        if text is None:
            return None
        if not _INTEGER.fullmatch(text):
            raise invalid_param("parameter_invalid_integer", name, f"Invalid integer: {text}")
        value = int(text)
        if (at_least is not None and value < at_least) or (at_most is not None and value > at_most):
            raise invalid_param("parameter_invalid_integer", name, f"This value is out of range: {text}")
        return value

    def boolean(self, name: str) -> bool:
        """Return a flag; absent is false."""
        return self.choice(name, ("true", "false")) == "true"

    def branch(self, name: str) -> "Params":
        """Return nested parameters; absent is empty."""
        value = self.tree.get(name, {})
        if isinstance(value, str):
            raise invalid_param(None, name, f"Invalid hash: {name}")
        return Params(value)

    def values(self, name: str) -> list[str]:
        """Return an array of strings; absent is empty."""
        return [value for value in self.branch(name).tree.values() if isinstance(value, str)]

    def metadata(self) -> Mapping[str, str] | None:
        """Return the metadata as sent, or None where it is absent or all of it is to be cleared."""
        if "metadata" not in self.tree or self.clears_metadata():
            return None
        branch = self.branch("metadata")
        sent: dict[str, str] = {}
        for key, value in branch.tree.items():
            if isinstance(value, dict):
                raise _malformed(f"metadata[{key}]")
            sent[key] = value
        return sent

    def clears_metadata(self) -> bool:
        """Whether `metadata=` asks for all metadata to be unset."""
        return self.tree.get("metadata") == ""

    def metadata_over(self, current: Mapping[str, str]) -> dict[str, str]:
        """Return `current` with the request's metadata merged in: an empty value deletes its key.

        Raises:
            Refusal: Too many keys, or a key or value that is too long.
        """
        if self.clears_metadata():
            return {}
        sent = self.metadata() or {}
        for key, value in sent.items():
            _check_metadata(key, value)
        merged = {key: value for key, value in {**current, **sent}.items() if value != ""}
        if len(merged) > METADATA_MAX_KEYS:
            raise invalid_param(None, "metadata", f"Metadata can have at most {METADATA_MAX_KEYS} keys.")
        return merged


def _check_metadata(key: str, value: str) -> None:
    if len(key) > METADATA_MAX_KEY_CHARS:
        limit = f"Metadata keys can have up to {METADATA_MAX_KEY_CHARS} characters."
        raise invalid_param(None, f"metadata[{key}]", limit)
    if len(value) > METADATA_MAX_VALUE_CHARS:
        limit = f"Metadata values can have up to {METADATA_MAX_VALUE_CHARS} characters."
        raise invalid_param(None, f"metadata[{key}]", limit)

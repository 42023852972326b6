"""Trust policies (c2sp.org/tlog-policy): which logs, which witnesses, and how many of them it takes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from interlock.errors import MalformedEvidence
from interlock.evidence.encoding import from_decimal
from interlock.evidence.vkeys import KeyType, VerifierKey

NO_WITNESSES = "none"
"""The name that stands for a quorum that asks for nobody."""

MAX_POLICY_BYTES = 1 << 20
MAX_MEMBERS = 1000
"""How many logs, witnesses and groups are read; the format asks for at least 32 of each."""

_BLANKS = re.compile(r"[ \t]+")
_LOG_TYPES = {KeyType.ED25519, KeyType.ML_DSA_44}
_WITNESS_TYPES = {KeyType.COSIGNATURE_V1, KeyType.ML_DSA_44}
_CONTROLS = frozenset(map(chr, range(0x20))) | {"\x7f"}


@dataclass(frozen=True, slots=True)
class Log:
    """A log that is accepted; its key's name is its origin."""

    key: VerifierKey
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Witness:
    """A witness that counts, under the name that it has in this policy."""

    name: str
    key: VerifierKey
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Witnesses and groups of which `threshold` have to have witnessed a checkpoint for the group to have."""

    name: str
    threshold: int
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """What makes a checkpoint acceptable: signed by one of the logs, and cosigned as the quorum says.

    Args:
        logs: the logs that are accepted.
        witnesses: the witnesses that are known.
        groups: the groups, each after its members.
        quorum: the name of a witness or a group, or `NO_WITNESSES`.

    Raises:
        MalformedEvidence: a name is missing, taken twice or a member twice, or a key is listed twice or for a wrong role.
    """

    logs: tuple[Log, ...]
    witnesses: tuple[Witness, ...]
    groups: tuple[Group, ...]
    quorum: str

    def __post_init__(self) -> None:
        if len(self.logs) + len(self.witnesses) + len(self.groups) > MAX_MEMBERS:
            raise MalformedEvidence(f"a policy has more than {MAX_MEMBERS} lines")
        urls = [*(log.url for log in self.logs), *(witness.url for witness in self.witnesses)]
        if any(url is not None and (not url or _unwritable(url)) for url in urls):
            raise MalformedEvidence("an address is empty, or holds a blank or a control character")
        _check_keys((log.key for log in self.logs), _LOG_TYPES, "log")
        _check_keys((witness.key for witness in self.witnesses), _WITNESS_TYPES, "witness")
        self._check_names()

    def _check_names(self) -> None:
        defined, members = {NO_WITNESSES}, {NO_WITNESSES}
        for witness in self.witnesses:
            _define(witness.name, defined)
        for group in self.groups:
            if not 1 <= group.threshold <= len(group.members):
                raise MalformedEvidence(f"group {group.name} asks for {group.threshold} of {len(group.members)} members")
            for member in group.members:
                if member not in defined or member in members:
                    raise MalformedEvidence(f"{member} is not defined before group {group.name}, or is a member already")
                members.add(member)
            _define(group.name, defined)
        if self.quorum not in defined:
            raise MalformedEvidence(f"the quorum {self.quorum} is not defined")

    def reached_by(self, cosigned: Collection[str]) -> bool:
        """Say whether these witnesses, by their names here, are a quorum."""
        done = {NO_WITNESSES, *(witness.name for witness in self.witnesses if witness.name in cosigned)}
        for group in self.groups:
            if sum(member in done for member in group.members) >= group.threshold:
                done.add(group.name)
        return self.quorum in done

    @classmethod
    def parse(cls, data: bytes) -> Policy:
        """Read a policy file.

        Raises:
            MalformedEvidence: it is none, and on which line.
        """
        if len(data) > MAX_POLICY_BYTES:
            raise MalformedEvidence(f"a policy of more than {MAX_POLICY_BYTES} bytes is not read")
        # Octets beyond ASCII are opaque in this format: each stays what it is, UTF-8 or not.
        text = data.decode("utf-8", "surrogateescape")
        if _CONTROLS & set(text) - {"\t", "\n"} or (text and not text.endswith("\n")):
            raise MalformedEvidence("a policy has a control character, or no newline at its end")
        reader = _Reader()
        for number, line in enumerate(text.split("\n"), start=1):
            try:
                reader.read(line.strip(" \t"))
            except MalformedEvidence as error:
                raise MalformedEvidence(f"line {number} of the policy: {error}") from error
        return reader.policy()

    def serialize(self) -> bytes:
        """Return the policy as a file."""
        lines = [
            *(f"log {log.key}{_url(log.url)}" for log in self.logs),
            *(f"witness {witness.name} {witness.key}{_url(witness.url)}" for witness in self.witnesses),
            *(f"group {group.name} {group.threshold} {' '.join(group.members)}" for group in self.groups),
            f"quorum {self.quorum}",
        ]
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


class _Reader:
    """Reads a policy line by line. A name has to be defined on a line above the one that uses it."""

    def __init__(self) -> None:
        self._logs: list[Log] = []
        self._witnesses: list[Witness] = []
        self._groups: list[Group] = []
        self._quorum: str | None = None
        self._names = {NO_WITNESSES}

    def read(self, line: str) -> None:
        if line.startswith("#"):
            return
        match [word for word in _BLANKS.split(line) if word]:
            case []:
                pass
            case ["log", vkey, *url] if len(url) <= 1:
                self._logs.append(Log(VerifierKey.parse(vkey), *url))
            case ["witness", name, vkey, *url] if len(url) <= 1:
                self._witnesses.append(Witness(name, VerifierKey.parse(vkey), *url))
                self._names.add(name)
            case ["group", name, threshold, *members]:
                self._group(name, threshold, tuple(members))
            case ["quorum", name]:
                self._set_quorum(name)
            case _:
                raise MalformedEvidence("it is no log, witness, group or quorum, or has too few words or too many")

    def policy(self) -> Policy:
        if self._quorum is None:
            raise MalformedEvidence("a policy has no quorum line")
        return Policy(tuple(self._logs), tuple(self._witnesses), tuple(self._groups), self._quorum)

    def _group(self, name: str, threshold: str, members: tuple[str, ...]) -> None:
        self._require_defined(*members)
        spelled = {"any": 1, "all": len(members)}
        needed = spelled[threshold] if threshold in spelled else from_decimal(threshold, "a threshold")
        self._groups.append(Group(name, needed, members))
        self._names.add(name)

    def _set_quorum(self, name: str) -> None:
        if self._quorum is not None:
            raise MalformedEvidence("there is a quorum already")
        self._require_defined(name)
        self._quorum = name

    def _require_defined(self, *names: str) -> None:
        missing = [name for name in names if name not in self._names]
        if missing:
            raise MalformedEvidence(f"{missing[0]} is not defined above")


def _check_keys(keys: Iterable[VerifierKey], types: Collection[KeyType], role: str) -> None:
    seen = set[bytes]()
    for key in keys:
        if key.type not in types:
            raise MalformedEvidence(f"a key of type {key.type:#04x} can't be that of a {role}")
        if key.public in seen:  # under another name it is still the same one, and would count twice
            raise MalformedEvidence(f"the key of {role} {key.name} is listed twice")
        seen.add(key.public)


def _define(name: str, defined: set[str]) -> None:
    if not name or _unwritable(name):
        raise MalformedEvidence("a name is empty, or holds a blank or a control character")
    if name in defined:
        raise MalformedEvidence(f"the name {name} is defined twice")
    defined.add(name)


def _unwritable(word: str) -> bool:
    return " " in word or not _CONTROLS.isdisjoint(word)


def _url(url: str | None) -> str:
    return "" if url is None else f" {url}"

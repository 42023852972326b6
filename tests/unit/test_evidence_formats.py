"""What is written is read back as the same, what is read was written in the one way there is, and nothing else gets through."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.errors import EvidenceError, MalformedEvidence
from interlock.evidence.checkpoints import Checkpoint, Origin
from interlock.evidence.dsse import Envelope, EnvelopeSignature, pae
from interlock.evidence.encoding import from_base64, from_decimal, to_base64
from interlock.evidence.notes import MAX_SIGNATURES, NoteSignature, SignedNote
from interlock.evidence.policies import Group, Log, Policy, Witness
from interlock.evidence.signing import NoteKey
from interlock.evidence.statements import PAYLOAD_TYPE, Statement, Subject
from interlock.evidence.tiles import MAX_ENTRY_BYTES, Tile, decode_bundle, decode_tile, encode_bundle, encode_tile
from interlock.evidence.tlog_proofs import TlogProof
from interlock.evidence.vkeys import KeyType, VerifierKey
from tests.evidence_vectors import own

HASHES = st.binary(min_size=32, max_size=32)
COUNTS = st.integers(0, 2**63 - 1)
PRINTABLE = st.characters(exclude_categories=["Cc", "Cs"])
NAMES = st.text(PRINTABLE, min_size=1, max_size=20).filter(lambda name: "+" not in name and not any(map(str.isspace, name)))
LINES = st.text(PRINTABLE, min_size=1, max_size=20)
TEXTS = st.lists(st.text(PRINTABLE, max_size=20), min_size=1, max_size=5).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)
ED25519_TYPES = st.sampled_from([KeyType.ED25519, KeyType.COSIGNATURE_V1])

SIGNATURES = st.builds(NoteSignature, NAMES, st.binary(min_size=4, max_size=4), st.binary(min_size=1, max_size=80))
NOTES = st.builds(SignedNote, TEXTS, st.lists(SIGNATURES, min_size=1, max_size=4).map(tuple))
VKEYS = st.builds(VerifierKey, NAMES, ED25519_TYPES, HASHES)
SECRETS = st.builds(NoteKey, NAMES, ED25519_TYPES, HASHES)
CHECKPOINTS = st.builds(Checkpoint, LINES, COUNTS, HASHES, st.lists(LINES, max_size=2).map(tuple))
ORIGINS = st.builds(Origin, NAMES, st.integers(1, 10**9 - 1))
EXTRAS = st.none() | st.binary(min_size=1, max_size=40)
PROOFS = st.builds(
    TlogProof, COUNTS, st.lists(HASHES, max_size=64).map(tuple), NOTES.map(lambda note: note.serialize().decode()), EXTRAS
)
TILES = st.builds(Tile, st.none() | st.integers(0, 63), COUNTS, st.integers(1, 256))
ENVELOPES = st.builds(
    Envelope,
    st.text(PRINTABLE),
    st.binary(),
    st.lists(st.builds(EnvelopeSignature, st.binary(), st.none() | st.text(PRINTABLE)), min_size=1, max_size=3).map(tuple),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(PRINTABLE), inner, max_size=3),
    max_leaves=8,
)
SUBJECTS = st.builds(Subject, st.text(PRINTABLE), st.fixed_dictionaries({"sha256": HASHES.map(bytes.hex)}))
STATEMENTS = st.builds(
    Statement,
    st.lists(SUBJECTS, min_size=1, max_size=3).map(tuple),
    LINES,
    st.dictionaries(st.text(PRINTABLE), JSON, max_size=3),
)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Draw a policy: groups of groups, names beyond ASCII, and a quorum."""
    publics = draw(st.lists(HASHES, min_size=6, max_size=6, unique=True))
    words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zs"]), min_size=1, max_size=8)
    names = draw(st.lists(words.filter(lambda word: word != "none"), min_size=5, max_size=5, unique=True))
    urls = st.none() | words
    logs = tuple(Log(VerifierKey(draw(NAMES), KeyType.ED25519, public), draw(urls)) for public in publics[:2])
    keys = [VerifierKey(draw(NAMES), KeyType.COSIGNATURE_V1, public) for public in publics[2:5]]
    witnesses = tuple(Witness(name, key, draw(urls)) for name, key in zip(names, keys, strict=False))
    groups = (Group(names[3], draw(st.integers(1, 2)), tuple(names[:2])), Group(names[4], 2, (names[2], names[3])))
    return Policy(logs, witnesses, groups, draw(st.sampled_from([*names, "none"])))


Read = Callable[[bytes], Any]
Write = Callable[[Any], bytes]
FORMATS: dict[str, tuple[st.SearchStrategy[Any], Write, Read]] = {
    "vkey": (VKEYS, lambda key: str(key).encode(), lambda data: VerifierKey.parse(_text(data))),
    "secret": (SECRETS, lambda key: key.to_secret_text().encode(), lambda data: NoteKey.parse(_text(data))),
    "note": (NOTES, SignedNote.serialize, SignedNote.parse),
    "checkpoint": (CHECKPOINTS, lambda checkpoint: checkpoint.text.encode(), lambda data: Checkpoint.parse(_text(data))),
    "origin": (ORIGINS, lambda origin: str(origin).encode(), lambda data: Origin.parse(_text(data))),
    "proof": (PROOFS, TlogProof.serialize, TlogProof.parse),
    "tile": (TILES, lambda tile: tile.path.encode(), lambda data: Tile.parse(_text(data))),
    "policy": (policies(), Policy.serialize, Policy.parse),
    "envelope": (ENVELOPES, Envelope.serialize, Envelope.parse),
    "statement": (STATEMENTS, Statement.serialize, Statement.parse),
}
ONE_WAY = ("vkey", "secret", "note", "checkpoint", "origin", "proof", "tile")
"""Formats that allow one spelling only. JSON and policies allow blanks."""


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedEvidence from error


@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data())
def test_what_is_written_is_read_back(name: str, data: st.DataObject) -> None:
    """parse(serialize(x)) == x, for every format."""
    strategy, write, read = FORMATS[name]
    value = data.draw(strategy)
    assert read(write(value)) == value


@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data())
@settings(max_examples=200)
def test_what_was_changed_is_read_as_something_else_or_refused(name: str, data: st.DataObject) -> None:
    """No byte can be changed, added or taken away without being noticed; and no bytes raise anything but an error of evidence."""
    strategy, write, read = FORMATS[name]
    value = data.draw(strategy)
    written = write(value)
    at = data.draw(st.integers(0, len(written)))
    changed = written[:at] + data.draw(st.binary(max_size=2)) + written[at + data.draw(st.integers(0, 2)) :]
    try:
        again = read(changed)
    except EvidenceError:
        return
    if name in ONE_WAY:
        assert write(again) == changed
    else:
        assert read(write(again)) == again


@pytest.mark.parametrize("name", FORMATS)
@given(st.binary())
def test_any_bytes_are_refused_in_one_way(name: str, data: bytes) -> None:
    """Whatever bytes come, the answer is a value or an error of evidence."""
    with contextlib.suppress(EvidenceError):
        FORMATS[name][2](data)


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=256), st.lists(HASHES, min_size=1, max_size=256))
@settings(max_examples=40)
def test_tiles_and_bundles_are_read_back(entries: list[bytes], hashes: list[bytes]) -> None:
    """Entries and hashes come back; a bundle cut short or with something behind it is refused."""
    bundle, tile = Tile(None, 0, len(entries)), Tile(0, 0, len(hashes))
    data = encode_bundle(entries)
    assert decode_bundle(bundle, data) == tuple(entries)
    assert decode_tile(tile, encode_tile(hashes)) == tuple(hashes)
    for wrong in (data[:-1], data + b"\0", data + b"\0\0", b"\0" + data):
        with pytest.raises(MalformedEvidence):
            decode_bundle(bundle, wrong)


def test_an_entry_that_a_bundle_can_not_hold() -> None:
    """The longest entry has 65,535 bytes; a longer one is refused where it is written."""
    longest = bytes(MAX_ENTRY_BYTES)
    assert decode_bundle(Tile(None, 0, 1), encode_bundle([longest])) == (longest,)
    with pytest.raises(ValueError, match="more than 65535"):
        encode_bundle([longest + b"\0"])


@pytest.mark.parametrize("text", ["QQ", "QQ=", "QR==", "QQ==\n", " QQ==", "Q Q=", "-_==", "QQ===", "QQ==QQ==", "é"])
def test_base64_has_one_spelling(text: str) -> None:
    """No missing padding, no stray bits, no blanks, no other alphabet."""
    assert from_base64("QQ==", "a letter") == b"A"
    with pytest.raises(MalformedEvidence):
        from_base64(text, "a letter")
    with pytest.raises(MalformedEvidence, match="not 2"):
        from_base64("QQ==", "a letter", length=2)


@pytest.mark.parametrize("text", ["", "00", "01", "+1", "-1", " 1", "1 ", "1_0", "1e3", "٣", "9223372036854775808", "9" * 5000])
def test_decimals_have_one_spelling(text: str) -> None:
    """No leading zeros, no signs, no blanks, no other digits, nothing beyond 2^63 - 1."""
    assert [from_decimal(good, "a size") for good in ("0", "10", "9223372036854775807")] == [0, 10, 2**63 - 1]
    with pytest.raises(MalformedEvidence):
        from_decimal(text, "a size")


KEY = VerifierKey("a", KeyType.ED25519, bytes(32))
COSIGNER = VerifierKey("a", KeyType.COSIGNATURE_V1, bytes(32))


@pytest.mark.parametrize(
    "make",
    [
        lambda: VerifierKey("a", KeyType.ED25519, bytes(31)),
        lambda: VerifierKey("a", KeyType.ML_DSA_44, bytes(32)),
        lambda: NoteSignature("a", b"123", b"s"),
        lambda: NoteSignature("a", b"1234", b""),
        lambda: SignedNote("text\n", ()),
        lambda: Checkpoint("o", -1, bytes(32)),
        lambda: Checkpoint("o", 2**63, bytes(32)),
        lambda: Checkpoint("o", 1, bytes(31)),
        lambda: Checkpoint("o\no", 1, bytes(32)),
        lambda: Checkpoint("o", 1, bytes(32), ("",)),
        lambda: Checkpoint("o\t", 1, bytes(32)),
        lambda: Checkpoint("", 1, bytes(32)),
        lambda: Checkpoint("\ud800", 1, bytes(32)),
        lambda: Origin("a b", 1),
        lambda: Origin("a", 10**9),
        lambda: TlogProof(-1, (), "c\n"),
        lambda: TlogProof(2**63, (), "c\n"),
        lambda: TlogProof(0, (), ""),
        lambda: TlogProof(0, (bytes(31),), "c\n"),
        lambda: TlogProof(0, (), "c\n", b""),
        lambda: TlogProof(0, (), "c\n", bytes(65537)),
        lambda: TlogProof(0, (), "\ud800"),
        lambda: Tile(64, 0),
        lambda: Tile(0, -1),
        lambda: Tile(0, 2**63),
        lambda: Tile(0, 0, 0),
        lambda: Tile(0, 0, 257),
        lambda: Policy((Log(KEY, ""),), (), (), "none"),
        lambda: Policy((Log(KEY, "a b"),), (), (), "none"),
        lambda: Policy((), (Witness("a b", COSIGNER),), (), "none"),
        lambda: Policy((), (Witness("a\n", COSIGNER),), (), "none"),
        lambda: Policy((), (Witness("", COSIGNER),), (), "none"),
        lambda: Policy((), (Witness("none", COSIGNER),), (), "none"),
        lambda: Policy((), (Witness("a", COSIGNER),), (Group("g", 1, ("b",)),), "none"),
        lambda: Policy((), (), (), "a"),
        lambda: Policy((), (Witness("a", COSIGNER),), (Group("a", 1, ("a",)),), "none"),
        lambda: Subject("a", {}),
        lambda: Subject("a", {"sha1": ""}),
        lambda: Statement((), "p", {}),
        lambda: Envelope("t", b"", ()),
        lambda: Envelope("t", b"", (EnvelopeSignature(b"s"),) * 17),
        lambda: Envelope("\ud800", b"", (EnvelopeSignature(b"s"),)).serialize(),
    ],
)
def test_what_could_not_be_written_is_not_made(make: Callable[[], object]) -> None:
    """A value that no text of its format could say is refused when it is made, and not when somebody reads it."""
    with pytest.raises(MalformedEvidence):
        make()


# Notes


NOTE = own()["checkpoints"]["8"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\n\n", "\n"), ("\u2014 ", "- "), ("\u2014 ", "\u2014"), ("\u2014 ", "\u2014  "), ("=\n", "=\r\n"),
        ("=\n", "= \n"), ("8\n", "8\t\n"), ("8\n", "8\0\n"),
        ("acme", "ac\u2003me"), ("\u2014 acme", "\u2014 ac+me"), ("=\n", "=\n\n"), ("=\n", ""),
    ],
)  # fmt: skip
def test_a_note_that_is_badly_written_is_refused(old: str, new: str) -> None:
    """Blank lines, dashes, blanks, control characters and key names, where they must not be."""
    assert old in NOTE
    with pytest.raises(MalformedEvidence):
        Checkpoint.parse(SignedNote.parse(NOTE.replace(old, new).encode()).text)


def test_a_note_beyond_the_limits_is_refused() -> None:
    """A hundred signatures are read, and one more is not; nor is a note of more than a mebibyte, or one that is not UTF-8."""
    line = NoteSignature("a", b"1234", b"signature")
    assert len(SignedNote.parse(SignedNote("text\n", (line,) * MAX_SIGNATURES).serialize()).signatures) == MAX_SIGNATURES
    many = f"text\n\n{line.line * (MAX_SIGNATURES + 1)}".encode()
    for data in (many, f"{'x' * (1 << 20)}\n\n{line.line}".encode(), b"\xff\n\n" + line.line.encode(), b"", b"\n\n"):
        with pytest.raises(MalformedEvidence):
            SignedNote.parse(data)
    for text in ("", "no newline", "\x1b[31m\n", "\ud800\n"):
        with pytest.raises(MalformedEvidence):
            SignedNote(text, (line,))


def test_the_text_of_a_note_may_hold_empty_lines() -> None:
    """The last empty line parts text and signatures."""
    note = SignedNote("\n\na\n\n\n", (NoteSignature("a", b"1234", b"s"),))
    assert SignedNote.parse(note.serialize()) == note


@pytest.mark.parametrize("name", ["", " ", "a b", "a+b", "a\u00a0b", "a\u2028b", "a\nb", "a\x00", "\ud800"])
def test_a_name_that_no_key_can_have(name: str) -> None:
    """Empty, with a space of any kind, a plus, a control character or half a character."""
    with pytest.raises(MalformedEvidence):
        VerifierKey(name, KeyType.ED25519, bytes(32))
    with pytest.raises(MalformedEvidence):
        NoteSignature(name, b"1234", b"s")


# Checkpoints and proofs


@pytest.mark.parametrize(
    "text",
    [
        "", "o\n8\n", "o\n8\nAAAA\n", f"o\n08\n{to_base64(bytes(32))}\n", f"o\n-8\n{to_base64(bytes(32))}\n",
        f"o\n8\n{to_base64(bytes(32))}", f"\n8\n{to_base64(bytes(32))}\n", f"o\n8\n{to_base64(bytes(32))}\n\n",
        f"o\n8\n{to_base64(bytes(32))}\n\nx\n", f"o\n8\n{to_base64(bytes(33))}\n",
        f"o\n9223372036854775808\n{to_base64(bytes(32))}\n",
    ],
)  # fmt: skip
def test_a_checkpoint_that_is_badly_written_is_refused(text: str) -> None:
    """Missing lines, empty lines, sizes that are none and roots of another length."""
    with pytest.raises(MalformedEvidence):
        Checkpoint.parse(text)


def test_the_epoch_of_an_origin() -> None:
    """It is the number behind the last dash; an origin of somebody else's need not have one."""
    assert Origin.parse("acme.example/interlock/prod-eu-12") == Origin("acme.example/interlock/prod-eu", 12)
    for text in ("go.sum database tree", "acme.example/prod", "acme.example/prod-0", "acme.example/prod-01", "-1", "a-1\n"):
        with pytest.raises(MalformedEvidence):
            Origin.parse(text)
    with pytest.raises(MalformedEvidence):
        Origin("acme.example/prod", 0)


def test_a_proof_of_ten_thousand_hashes_is_refused() -> None:
    """A proof has up to 64 hashes, however they come."""
    line = f"{to_base64(bytes(32))}\n"
    for text in (f"c2sp.org/tlog-proof@v1\nindex 0\n{line * 10_000}\no\n", f"c2sp.org/tlog-proof@v1\nindex 0\n{line * 65}\no\n"):
        with pytest.raises(MalformedEvidence):
            TlogProof.parse(text.encode())
    with pytest.raises(MalformedEvidence):
        TlogProof(0, (bytes(32),) * 65, "o\n")
    with pytest.raises(MalformedEvidence, match="more than"):
        TlogProof.parse(b"c2sp.org/tlog-proof@v1\nindex 0\n\n" + bytes(50 << 20))


# Policies


def test_the_policy_of_the_specification() -> None:
    """Two groups under a third: two of three X and one of three Y, in any file that says so."""
    keys = [VerifierKey(f"w{number}", KeyType.COSIGNATURE_V1, bytes([number]) * 32) for number in range(6)]
    x, y = zip(("X1", "X2", "X3"), keys[:3], strict=True), zip(("Y1", "Y2", "Y3"), keys[3:], strict=True)
    lines = [
        "# a policy\tof \xe9 and \udcff octets", "", " \t", f"log {VerifierKey('log', KeyType.ED25519, bytes(32))}  https://log.example/",
        *(f"witness {name}\t{key}" for name, key in x), "group X-witnesses 2 X1 X2 X3",
        *(f"  witness {name} {key} https://{name}.example/ " for name, key in y), "group Y-witnesses any Y1 Y2 Y3",
        "group X-and-Y all X-witnesses Y-witnesses", "quorum X-and-Y", "  # the end",
    ]  # fmt: skip
    policy = Policy.parse("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))
    assert policy.logs[0].url == "https://log.example/"
    assert Policy.parse(policy.serialize()) == policy
    reached = ["X1 X2 Y1", "X1 X3 Y3", "X1 X2 X3 Y1 Y2 Y3"]
    assert all(policy.reached_by(names.split()) for names in reached)
    missed = ["", "X1 Y1", "X1 X2", "Y1 Y2 Y3", "X1 Y1 Y2 Y3", "X-witnesses Y-witnesses", "X-and-Y", "none"]
    assert not any(policy.reached_by(names.split()) for names in missed)


W1 = f"witness w1 {VerifierKey('w1', KeyType.COSIGNATURE_V1, bytes(32))}\n"
W2 = f"witness w2 {VerifierKey('w2', KeyType.COSIGNATURE_V1, b'2' * 32)}\n"


@pytest.mark.parametrize(
    "text",
    [
        "", "\n", "# only words\n", "quorum w1\n", "quorum none\nquorum none\n", "quorum none", "quorum\n", "quorum none none\n",
        f"{W1}{W1}quorum none\n", f"{W1}{W1.replace('witness w1', 'witness w3')}quorum none\n", f"{W1}group w1 1 w1\nquorum w1\n",
        f"{W1}group g 2 w1\nquorum g\n", f"{W1}group g 0 w1\nquorum g\n", f"{W1}group g 01 w1\nquorum g\n",
        f"{W1}group g any\nquorum g\n", f"{W1}group g any none\nquorum g\n", f"{W1}group g any g\nquorum g\n",
        f"group g any w1\n{W1}quorum g\n",
        f"{W1}{W2}group g any w1 w2\ngroup h all g w1\nquorum h\n", f"{W1}group g 2 w1 w1\nquorum g\n", f"quorum w1\n{W1}",
        f"{W1}witness none {VerifierKey('w9', KeyType.COSIGNATURE_V1, b'9' * 32)}\nquorum none\n", "log x\nquorum none\n",
        f"log {VerifierKey('l', KeyType.COSIGNATURE_V1, bytes(32))}\nquorum none\n", "quorum none\r\n", "quorum none\x7f\n",
        f"witness w {VerifierKey('l', KeyType.ED25519, bytes(32))}\nquorum none\n", "trust everybody\nquorum none\n", "\0",
        f"{W1.strip()} https://a.example https://b.example\nquorum none\n",
        f"log {VerifierKey('l', KeyType.ED25519, bytes(32))}\nlog {VerifierKey('m', KeyType.ED25519, bytes(32))}\nquorum none\n",
    ],
)  # fmt: skip
def test_a_policy_that_is_badly_written_is_refused(text: str) -> None:
    """Names, keys, roles, thresholds, members and quorums that are missing, wrong, defined too late or used twice."""
    with pytest.raises(MalformedEvidence):
        Policy.parse(text.encode())


def test_a_policy_that_is_too_long_is_refused() -> None:
    """By its lines and by its bytes. One that names a thousand is read."""
    lines = [f"witness w{n} {VerifierKey('w', KeyType.COSIGNATURE_V1, n.to_bytes(32, 'big'))}\n" for n in range(1001)]
    assert len(Policy.parse("".join([*lines[:1000], "quorum none\n"]).encode()).witnesses) == 1000
    with pytest.raises(MalformedEvidence, match="more than 1000"):
        Policy.parse("".join([*lines, "quorum none\n"]).encode())
    with pytest.raises(MalformedEvidence, match="more than"):
        Policy.parse(b"quorum none\n#" + b" " * (1 << 20) + b"\n")


# Envelopes and statements


@given(st.tuples(st.text(PRINTABLE), st.binary()), st.tuples(st.text(PRINTABLE), st.binary()))
def test_type_and_payload_can_not_run_into_each_other(one: tuple[str, bytes], other: tuple[str, bytes]) -> None:
    """What is signed is the same for two envelopes only if both parts are."""
    assert (pae(*one) == pae(*other)) is (one == other)


def test_an_envelope_in_url_safe_base64_is_read() -> None:
    """The format allows both alphabets, one at a time; fields that it does not know are passed over."""
    fields = {"payloadType": "t", "payload": "_-8=", "signatures": [{"sig": "__8=", "x": 1}], "more": None}
    envelope = Envelope.parse(json.dumps(fields).encode())
    assert (envelope.payload, envelope.signatures) == (b"\xff\xef", (EnvelopeSignature(b"\xff\xff"),))
    for payload in ("_+8=", "_-8", "_-9=", "\u00e9", "_-8=\n"):
        with pytest.raises(MalformedEvidence):
            Envelope.parse(json.dumps({**fields, "payload": payload}).encode())


@pytest.mark.parametrize(
    "change",
    [
        {"payload": None}, {"payload": 1}, {"payloadType": []}, {"signatures": []}, {"signatures": {}}, {"signatures": ["x"]},
        {"signatures": [{}]}, {"signatures": [{"sig": 1}]}, {"signatures": [{"sig": "QQ==", "keyid": 1}]},
        {"signatures": [{"sig": "QQ=="}] * 17},
    ],
)  # fmt: skip
def test_an_envelope_of_wrong_types_is_refused(change: dict[str, Any]) -> None:
    """Missing fields, fields of another type, no signature and too many."""
    fields = {"payloadType": "t", "payload": "QQ==", "signatures": [{"sig": "QQ=="}]}
    assert Envelope.parse(json.dumps(fields).encode()).payload == b"A"
    with pytest.raises(MalformedEvidence):
        Envelope.parse(json.dumps(fields | change).encode())


@pytest.mark.parametrize(
    "change",
    [
        {"_type": "https://in-toto.io/Statement/v0.1"}, {"_type": None}, {"subject": []}, {"subject": [{}]}, {"predicate": []},
        {"subject": [{"name": "a", "digest": {}}]}, {"subject": [{"name": "a", "digest": {"sha256": "AB" * 32}}]},
        {"subject": [{"name": "a", "digest": {"sha256": "ab"}}]}, {"subject": [{"name": "a", "digest": {"sha256": 1}}]},
        {"predicateType": ""}, {"predicateType": None}, {"subject": [{"name": 1, "digest": {"sha256": "ab" * 32}}]},
    ],
)  # fmt: skip
def test_a_statement_of_wrong_types_is_refused(change: dict[str, Any]) -> None:
    """Another version, no subject, no digest, and what is no digest."""
    fields = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "a", "digest": {"sha256": "ab" * 32}, "more": 1}],
        "predicateType": "p",
        "predicate": {"more": True},
    }
    assert Statement.parse(json.dumps(fields).encode()).predicate == {"more": True}
    with pytest.raises(MalformedEvidence):
        Statement.parse(json.dumps(fields | change).encode())


@pytest.mark.parametrize("value", [float("nan"), 1.5, 2**53, {1: 2}, b"bytes", "\ud800", (1, 2)])
def test_a_statement_that_could_not_be_read_is_not_written(value: Any) -> None:
    """What the strict reader would refuse, or read as something else, is refused before it is signed."""
    statement = Statement((Subject("a", {"sha256": "ab" * 32}),), "p", {"value": value})
    with pytest.raises(MalformedEvidence):
        statement.serialize()


def test_an_envelope_that_holds_no_statement() -> None:
    """The type of the payload has to be in-toto's."""
    body = Statement((Subject("a", {"sha256": "ab" * 32}),), "p", {}).serialize()
    signatures = (EnvelopeSignature(b"s"),)
    assert Statement.of(Envelope(PAYLOAD_TYPE, body, signatures)).predicate_type == "p"
    with pytest.raises(MalformedEvidence):
        Statement.of(Envelope("text/plain", body, signatures))

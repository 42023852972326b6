"""Receipts made to cost a verifier more than they are worth: each is refused before much is done with it, and says why."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from interlock.evidence.bundles import LIMITS, MAX_CHECKPOINTS, MAX_RECORDS, Bundle
from interlock.evidence.encoding import to_base64
from interlock.evidence.findings import FindingKind, Verdict
from interlock.evidence.verifying import verify_receipt
from tests.receipt_lab import LAB, Forgery, exported, one_of_each

pytestmark = pytest.mark.timeout(20)
"""A hundred times what each takes."""

Fields = dict[str, Any]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bytes]:
    """The receipt of a commit."""
    with one_of_each(tmp_path_factory.mktemp("receipts") / "journal.db") as stage:
        yield exported(stage, "committed").serialize()


def assert_refused(data: bytes, words: str, kind: FindingKind = FindingKind.FORMAT) -> None:
    """It is invalid, for this reason."""
    found = verify_receipt(data, LAB.trust)
    assert found.verdict is Verdict.INVALID
    wrong = [one for one in found.findings if one.verdict is Verdict.INVALID]
    assert any(one.kind is kind and words in one.words for one in wrong), wrong


def test_fifty_megabytes_are_not_read(honest: bytes) -> None:
    """However much of it is blank."""
    assert_refused(honest + b" " * (50 << 20), f"more than {LIMITS.max_bytes} are not read")


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"format":"interlock-receipt/1","states":['])
def test_deep_nesting_is_refused(opening: bytes) -> None:
    """Before anything is built from it."""
    assert_refused(opening * 100_000, "deeper than")


def test_many_values_are_refused(honest: bytes) -> None:
    """An empty array takes two bytes of text, and fifty of memory."""
    assert_refused(honest.replace(b'"states":[', b'"states":[' + b"[]," * 1_000_000, 1), "has more than")


def test_a_name_that_stands_twice_is_refused(honest: bytes) -> None:
    """One reader takes the first, and another the last."""
    assert_refused(honest.replace(b"{", b'{"format":"interlock-receipt/1",', 1), "a name stands twice")


@pytest.mark.parametrize("number", [b"9007199254740992", b"1e400", b"1.5", b"-0", b"NaN", b"9" * 5000])
def test_a_number_that_readers_disagree_about_is_refused(honest: bytes, number: bytes) -> None:
    """Beyond 2^53, with an exponent or a fraction, or none at all."""
    assert_refused(honest.replace(b'"states":[', b'"states":[' + number + b",", 1), "number")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('"cap_minor":2000', '"cap_minor":9007199254740993', "a number is beyond 2^53"),
        ('"cap_minor":2000', '"cap_minor":1,"cap_minor":2000', "a name stands twice"),
        ('"cap_minor":2000', '"cap_minor":2000.5', "has a fraction"),
        ('"cap_minor":2000', '"cap_minor":"2000"', "is not what an event"),
        ('Z","originator_topic"', '","originator_topic"', "without a zone"),
        ('"approval_id":', '"id":', "is not what an event"),
        ('"by":"user:17"', '"by":"\\ud800"', "half a character"),
        ('"_salt":', '"salt":', "is not what an event"),
        ('"_salt":', '"more":1,"_salt":', "is not what an event"),
    ],
    ids=["beyond 2^53", "twice", "fraction", "text", "zone", "missing", "surrogate", "no salt", "more"],
)
def test_a_state_is_read_as_strictly(honest: bytes, before: str, after: str, words: str) -> None:
    """Its digest is right, its proof too, and still it may not say two things to two readers."""
    forged = Forgery.of(LAB, Bundle.parse(honest), 2_000_000_000)
    (topic, granted), *rest = forged.approval
    assert before in granted
    forged = forged.with_events("approval", [(topic, granted.replace(before, after)), *rest])
    assert_refused(forged.made().serialize(), words, FindingKind.STATES)


def test_a_proof_of_ten_thousand_hashes_is_refused(honest: bytes) -> None:
    """No tree asks for more than 64."""
    fields = json.loads(honest)
    header, index, *_ = fields["proofs"][0].split("\n")
    note = fields["proofs"][0].partition("\n\n")[2]
    fields["proofs"][0] = "\n".join([header, index, *[to_base64(bytes(32))] * 10_000, "", note])
    assert_refused(json.dumps(fields).encode(), "a proof has up to 64 hashes", FindingKind.INCLUSION)


def _more(name: str, many: int) -> Callable[[Fields], None]:
    def change(fields: Fields) -> None:
        names = ("records", "states", "proofs") if name == "records" else (name,)
        for one in names:
            fields[one] = [f"{fields['records'][0]}{at}" for at in range(many)]

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_more("records", MAX_RECORDS + 1), f"1 to {MAX_RECORDS} records"),
        (_more("checkpoints", MAX_CHECKPOINTS + 1), f"up to {MAX_CHECKPOINTS} checkpoints"),
        (lambda fields: fields["states"].pop(), "one state and one proof for each record"),
        (lambda fields: fields.update(records=[], states=[], proofs=[]), "1 to"),
        (lambda fields: fields.update(format="interlock-receipt/2"), "a newer version may read it"),
        (lambda fields: fields.update(comment=""), "a field that is not known here: comment"),
        (lambda fields: fields.pop("proofs"), "proofs of a receipt is missing"),
        (lambda fields: fields["envelope"].update(signatures=[]), "an envelope with 0 signatures"),
        (lambda fields: fields["envelope"].update(signatures=fields["envelope"]["signatures"] * 17), "17 signatures"),
        (lambda fields: fields["states"].__setitem__(0, 7), "not an array of strings and nulls"),
    ],
    ids=range(10),
)
def test_what_is_not_of_the_format_is_refused(honest: bytes, change: Callable[[Fields], object], words: str) -> None:
    """Too many, too few, of another version, of an unknown field, of a wrong type."""
    fields = json.loads(honest)
    change(fields)
    assert_refused(json.dumps(fields).encode(), words)


def test_checkpoints_are_one_for_all_proofs(honest: bytes) -> None:
    """So that a receipt can't ask for a thousand signatures to be checked."""
    fields = json.loads(honest)
    fields["proofs"][0] = fields["proofs"][0].replace("acme.example", "acne.example", 1)
    assert_refused(json.dumps(fields).encode(), "all under one checkpoint", FindingKind.INCLUSION)


@pytest.mark.parametrize("data", [b"", b"{}", b"null", b"\xff\xfe", b"[" * 10, b'"x"', b"{" + b"x" * 1000])
def test_what_is_no_receipt_at_all_is_refused(data: bytes) -> None:
    """With a finding, and never with a traceback."""
    assert verify_receipt(data, LAB.trust).verdict is Verdict.INVALID


def test_a_receipt_is_small(honest: bytes) -> None:
    """A case of seven events has less than a hundredth of what is read at the most."""
    assert len(honest) < LIMITS.max_bytes // 100

"""A chain of right hashes, proven and signed, that no gate could have written: the domain's own rules refuse it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from interlock.evidence.findings import FindingKind, Verdict
from interlock.evidence.verifying import verify_receipt
from tests.crashing import Stage
from tests.provider_world import PROFILES, SendFault, World
from tests.receipt_lab import LAB, Forgery, exported, now_s, one_of_each


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A journal with an action of each status."""
    with one_of_each(tmp_path_factory.mktemp("receipts") / "journal.db") as made:
        yield made


@pytest.fixture(scope="module")
def forgeries(stage: Stage) -> dict[str, Forgery]:
    """The receipt of each, taken apart."""
    return {key: Forgery.of(LAB, exported(stage, key), now_s(stage)) for key in ("committed", "declined", "doubtful", "flying")}


ODD: tuple[object, ...] = (
    *(None, True, -1, 2**53 - 1, "", "x", [], {}, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-03-01T12:00:00"),
)
"""What may stand in the place of a value: the last ones are times at the ends of the calendar, and one without a zone."""


def _paths(value: object, way: str = "") -> Iterator[str]:
    """Yield the way to each value in a state."""
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _paths(inner, f"{way}.{name}" if way else str(name))
    elif way:
        yield way


def _into(path: str, value: object) -> Callable[[Any], object]:
    """Return what sets a value deep in a state."""
    *way, name = path.split(".")

    def edit(state: Any) -> None:
        for step in way:
            state = state[int(step) if isinstance(state, list) else step]
        state[int(name) if isinstance(state, list) else name] = value

    return edit


REVOKED = ("interlock.approval.revoked", '{"timestamp":"2026-03-01T12:00:00Z","by":"user:18","note":"","_salt":"00"}')

EDITS = {
    "term": ("committed", "action", 2, _into("claim.term", 2), "term 2 does not follow term 0"),
    "claim over": ("committed", "action", 2, _into("claim.expires_at", "2020-01-01T00:00:00Z"), "had run out when it was taken"),
    "another effect": ("committed", "action", 1, _into("intent.effect.amount_minor", 1), "fingerprint is not that of its effect"),
    "another subject": (
        "committed",
        "action",
        1,
        _into("intent.effect.subject", "acct_2"),
        "fingerprint is not that of its effect",
    ),
    "attempt": ("committed", "action", 3, _into("attempt", 2), "attempt 2 does not follow attempt 0"),
    "send": ("committed", "action", 3, _into("send", 2), "send 2 does not follow send 0"),
    "foreign key": ("committed", "action", 3, _into("idempotency_key", "il-x-1"), "its idempotency key is not the action's"),
    "horizon": ("committed", "action", 3, _into("horizon_at", "2020-01-01T00:00:00Z"), "between its own time and its horizon"),
    "deadline": ("committed", "action", 3, _into("deadline_at", "2020-01-01T00:00:00Z"), "between its own time and its horizon"),
    "beyond the claim": (
        "committed",
        "action",
        2,
        _into("claim.expires_at", "2026-03-01T12:00:01Z"),
        "behind the end of the claim",
    ),
    "approval revoked": (
        "committed",
        "action",
        3,
        _into("checks.approval.state", "revoked"),
        "although the approval was revoked",
    ),
    "approval expired": (
        "committed",
        "action",
        3,
        _into("checks.approval.expires_at", "2020-01-01T00:00:00Z"),
        "although the approval had expired",
    ),
    "another approval": ("committed", "action", 3, _into("checks.approval.ref.id", "case-2"), "under another approval"),
    "not held": ("committed", "action", 3, _into("checks.approval.held", value=False), "under another approval"),
    "approval of another name": ("committed", "approval", 1, _into("approval_id", "case-9"), "without a reservation"),
    "older version": ("committed", "action", 3, _into("checks.approval.version", 7), "which had come to event 1"),
    "premise": ("committed", "action", 3, _into("checks.premises.0.state", "conflicting"), "although a premise did not hold"),
    "premise left out": ("committed", "action", 3, _into("checks.premises", []), "without each of its premises"),
    "no evidence": ("committed", "action", 4, _into("evidence", None), "without evidence and without a person"),
    "evidence disagrees": ("committed", "action", 4, _into("evidence.disagreements", ["amount"]), "disagrees with the effect"),
    "from memory": ("committed", "action", 4, _into("evidence.replayed", value=True), "the provider answered from memory"),
    "by a person": ("committed", "action", 4, _into("via", "resolution"), "not AMBIGUOUS"),
    "cap": ("committed", "approval", 1, _into("terms.cap_minor", 1), "covers 1 usd, and the effect needs 2000"),
    "currency": ("committed", "approval", 1, _into("terms.currency", "eur"), "is in eur"),
    "for another effect": ("committed", "approval", 1, _into("terms.fingerprint", "sha256:00"), "was given for another effect"),
    "no uses": ("committed", "approval", 1, _into("terms.uses", 0), "for more actions than it allows"),
    "expired": ("committed", "approval", 1, _into("terms.expires_in_s", 0), "although it had expired"),
    "another amount": ("committed", "approval", 2, _into("amount_minor", 1), "it says 1, and the action's effect 2000"),
    "for another action": ("committed", "approval", 2, _into("action_id", "0" * 32), "was not reserved for it"),
    "released instead": ("declined", "approval", 3, _into("action_id", "0" * 32), "had not been reserved"),
    "no reason": ("declined", "action", 4, _into("code", "approval_revoked"), "nothing that was read says so"),
    "never sent": (
        "declined",
        "action",
        4,
        _into("door", "nothing-sent"),
        "nothing written down says that its sends did not leave",
    ),
    "too early": ("declined", "action", 4, _into("door", "horizon"), "until when a send could still land"),
    "a person's no": ("declined", "action", 4, _into("door", "person"), "an ambiguous action is refused by a person"),
}


def assert_illegal(forged: Forgery, words: str) -> None:
    """It is refused by the rules of the protocol, for this reason."""
    found = verify_receipt(forged.made().serialize(), LAB.trust)
    assert found.verdict is Verdict.INVALID, found.findings
    wrong = [one for one in found.findings if one.verdict is Verdict.INVALID]
    assert any(one.kind is FindingKind.LEGALITY and words in one.words for one in wrong), wrong


@pytest.mark.parametrize("case", EDITS)
def test_what_no_gate_writes_is_refused(forgeries: dict[str, Forgery], case: str) -> None:
    """One value of one event is changed, and every hash, proof and signature made to fit."""
    key, chain, n, edit, words = EDITS[case]
    assert_illegal(forgeries[key].edited(chain, n, edit), words)


def test_without_the_approvals_events_nothing_shows_a_reservation(forgeries: dict[str, Forgery]) -> None:
    """An attestor that leaves them out is not believed, and not convicted either."""
    bare = forgeries["committed"].with_events("approval", [], "aaaa").claiming(approval=None)
    found = verify_receipt(bare.made().serialize(), LAB.trust)
    assert found.verdict is Verdict.UNVERIFIABLE
    assert any(one.kind is FindingKind.LEGALITY and "nothing shows that it was reserved" in one.words for one in found.findings)


def test_nothing_is_sent_without_a_reservation(forgeries: dict[str, Forgery]) -> None:
    """The approval's Reserved was left out of the log altogether."""
    honest = forgeries["committed"]
    assert honest.order == "paaapap"
    assert_illegal(honest.with_events("approval", [honest.approval[0], honest.approval[2]], "paaaap"), "was not reserved for it")
    assert_illegal(honest.with_events("approval", honest.approval[:1], "paaaa"), "without a reservation")


@pytest.mark.parametrize("hidden", [1, 3], ids=["its name", "all of it"])
@pytest.mark.parametrize("order", ["pppaaaa", "aaaappp", "ppaaapa", "paaaapp"])
def test_another_actions_approval_is_not_its_own(forgeries: dict[str, Forgery], order: str, hidden: int) -> None:
    """Its name is withheld, and its Reserved, for whomever, does not stand right behind the send: it was not reserved with it."""
    honest = forgeries["committed"]
    others = [(topic, state.replace(UUID(honest.claim["action"]).hex, "7" * 32)) for topic, state in honest.approval]
    assert others[0] == honest.approval[0]
    assert others[1] != honest.approval[1]
    foreign = honest.with_events("approval", others, order).made()
    shown = foreign.states[: len(honest.action)] + (None,) * hidden + foreign.states[len(honest.action) + hidden :]
    found = verify_receipt(replace(foreign, states=shown).serialize(), LAB.trust)
    assert found.verdict is Verdict.INVALID
    wrong = [one.words for one in found.findings if one.verdict is Verdict.INVALID]
    assert wrong == ["the approval that it shows was not reserved with its first send: it is another's"]


def test_an_approval_whose_states_are_withheld_is_known_by_its_place(forgeries: dict[str, Forgery]) -> None:
    """Its Reserved stands right behind the send, which can't be withheld; a state that names another action says otherwise."""
    honest = forgeries["committed"].made()
    hidden = replace(honest, states=(*honest.states[:4], None, None, None))
    assert verify_receipt(hidden.serialize(), LAB.trust).verdict is Verdict.OK
    named = forgeries["committed"].edited("approval", 2, _into("action_id", "7" * 32)).made()
    found = verify_receipt(replace(named, states=(*named.states[:4], None, named.states[5], None)).serialize(), LAB.trust)
    assert found.verdict is Verdict.INVALID


def test_a_reservation_is_given_back_with_the_refusal(forgeries: dict[str, Forgery]) -> None:
    """I3: not before it, or another action could be sent under it; and nothing is spent before a commit."""
    assert forgeries["declined"].order == "paaapap"
    early = forgeries["declined"].with_events("action", forgeries["declined"].action, "paaappa")
    assert_illegal(early, "Released was written for an action that was DISPATCHED")
    early = forgeries["committed"].with_events("action", forgeries["committed"].action, "paaappa")
    assert_illegal(early, "Spent was written for an action that was DISPATCHED")
    early = forgeries["committed"].with_events("action", forgeries["committed"].action, "papaaap")
    assert_illegal(early, "Reserved was written for an action that was INTENDED")


def test_nobody_is_in_doubt_about_an_answer_that_agrees(forgeries: dict[str, Forgery], tmp_path: Path) -> None:
    """Ambiguous beside the provider's own word that it happened is no answer."""
    with Stage(tmp_path / "journal.db", World(PROFILES["nothing"])) as stage:
        stage.approve()
        stage.world.send_faults = [SendFault.LOST_ANSWER]
        stage.actor().fire()
        doubtful = Forgery.of(LAB, exported(stage, "refund:case-1"), now_s(stage))
    assert [topic for topic, _ in doubtful.action][-1] == "interlock.action.ambiguous"
    assert verify_receipt(doubtful.made().serialize(), LAB.trust).verdict is Verdict.OK
    evidence = json.loads(forgeries["committed"].action[3][1])["evidence"]
    assert_illegal(doubtful.edited("action", 4, _into("evidence", evidence)), "the provider's answer says that it did")


def test_a_revocation_before_the_send_shows(forgeries: dict[str, Forgery]) -> None:
    """The send goes by an event of its approval that was not the last any more."""
    granted, reserved, spent = forgeries["committed"].approval
    forged = forgeries["committed"].with_events("approval", [granted, REVOKED, reserved, spent], "paapapap")
    assert_illegal(forged, "it was sent on event 1 of its approval, which had come to event 2")
    assert_illegal(forged, "it was reserved although it had been revoked")


@pytest.mark.parametrize(
    ("key", "order", "words"),
    [
        ("committed", (0, 2, 1, 3), "Dispatched can't follow in status INTENDED"),
        ("committed", (0, 1, 3, 2), "Committed can't follow in status CLAIMED"),
        ("committed", (1, 0, 2, 3), "Claimed can't follow in status None"),
        ("committed", (0, 1, 2, 3, 2), "Dispatched can't follow in status COMMITTED"),
        ("declined", (0, 1, 2, 3, 3), "Refused can't follow in status REFUSED"),
    ],
)
def test_events_in_another_order_are_refused(forgeries: dict[str, Forgery], key: str, order: tuple[int, ...], words: str) -> None:
    """As the aggregate would not have taken them."""
    honest = forgeries[key]
    more = honest.order + "a" * (len(order) - len(honest.action))
    assert_illegal(honest.with_events("action", [honest.action[at] for at in order], more), words)


@pytest.mark.parametrize(
    "claim", [{"status": "REFUSED"}, {"happened": "no"}, {"via": "recovery-query"}, {"door": "burned"}], ids=str
)
def test_what_is_signed_is_what_the_events_say(forgeries: dict[str, Forgery], claim: dict[str, str]) -> None:
    """The attestor can't sign another ending than the one that its own events tell; what they don't tell, it may not add."""
    found = verify_receipt(forgeries["committed"].claiming(**claim).made().serialize(), LAB.trust)
    assert found.verdict is Verdict.INVALID
    assert any(one.kind is FindingKind.STATEMENT and "its events say" in one.words for one in found.findings)


@pytest.mark.parametrize("key", ["committed", "declined"])
def test_whatever_a_state_holds_there_is_an_answer(forgeries: dict[str, Forgery], key: str) -> None:
    """Each value of each event in turn is something odd, with all hashes right: a finding comes back, and never a traceback."""
    honest, verdicts = forgeries[key], Counter[Verdict]()
    for chain in ("action", "approval"):
        for n, (_, text) in enumerate(getattr(honest, chain), 1):
            for at, path in enumerate(_paths(json.loads(text))):
                odd = ODD[(at + n) % len(ODD)]
                verdicts[verify_receipt(honest.edited(chain, n, _into(path, odd)).made().serialize(), LAB.trust).verdict] += 1
    assert verdicts[Verdict.INVALID] > 0.5 * verdicts.total(), verdicts

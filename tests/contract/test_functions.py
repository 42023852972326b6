"""A plain function as a target: no keys, no lookup; whatever goes wrong in it is not known to have not happened."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interlock import Answer, Declined, Done, Evidence, FunctionTarget, Gate, Money, NotSent, Settlement, Unknown, target
from interlock.domain import requests
from interlock.errors import ActionMismatch, GateClosed, InvalidEffect
from tests.crashing import CrashAt, Stage, When, abandon, crashes, once
from tests.journals import present
from tests.provider_world import PROFILES, SendFault, World


@dataclass(frozen=True)
class Letter:
    """What the function is told."""

    to: str
    tone: str | None = "formal"


Acting = Callable[[Letter], Any]


class Postbox:
    """The outside world of a function: what it was called with, and what it does next."""

    def __init__(self, *acts: Acting) -> None:
        self.letters: list[Letter] = []
        self.keys: list[str] = []
        self.deadlines: list[float] = []
        self._acts = list(acts)

    def target(self, send_deadline_s: float = 1.0) -> FunctionTarget[Letter]:
        """Declare the function, as a program does at its start."""

        @target("letters", effect=Letter, send_deadline_s=send_deadline_s)
        def post(effect: Letter, /, *, idempotency_key: str, deadline_s: float) -> Answer:
            self.keys.append(idempotency_key)
            self.deadlines.append(deadline_s)
            act = self._acts.pop(0) if self._acts else _done
            answer: Answer = act(effect)
            self.letters.append(effect)
            return answer

        return post


def _done(letter: Letter) -> Answer:
    del letter
    return _posted("letter-1")


def _posted(reference: Any, **more: Any) -> Answer:
    return Done(Evidence(reference=reference, state="posted", settlement=Settlement.FINAL, json=more.get("json", "{}")))


def _raise(error: BaseException) -> Acting:
    def act(letter: Letter) -> Any:
        del letter
        raise error

    return act


def _answer(answer: Any) -> Acting:
    return lambda _letter: answer() if callable(answer) else answer


class Desk:
    """A journal, and gates on it that know the function."""

    def __init__(self, folder: Path, postbox: Postbox) -> None:
        self.url = present.journals.url(folder / "journal.db")
        self.post = postbox.target()
        with self.open() as gate:
            gate.approve("letters", by="user:1", expires_in_s=3600, uses=9)

    def open(self) -> Gate:
        """Open a gate."""
        return Gate.open(self.url, targets=[self.post])

    def fire(self, gate: Gate, letter: Letter | None = None, key: str = "letter:1") -> Any:
        """Send one letter."""
        return gate.fire(key, self.post.effect(letter or Letter("anna"), subject="anna"), approval="letters")


def test_a_function_is_called_once_however_often_it_is_fired(folder: Path) -> None:
    """And with the key of its own, and with the time that is left."""
    postbox = Postbox()
    desk = Desk(folder, postbox)
    with desk.open() as gate:
        assert [desk.fire(gate).receipt.status for _ in range(3)] == ["COMMITTED"] * 3
    assert postbox.letters == [Letter("anna")]
    assert postbox.keys[0].startswith("il-")
    assert "letter:1" not in postbox.keys[0]
    assert 0 < postbox.deadlines[0] <= 1.0


def test_a_field_that_is_none_reaches_the_function_as_none(folder: Path) -> None:
    """Not as the field's default: the function is told what was fired."""
    postbox = Postbox()
    desk = Desk(folder, postbox)
    with desk.open() as gate:
        desk.fire(gate, Letter("anna", tone=None))
    assert postbox.letters == [Letter("anna", tone=None)]


@pytest.mark.parametrize(
    "error", [ValueError("secret: a-word-of-the-providers"), TimeoutError(), OSError(), RecursionError()], ids=repr
)
def test_an_exception_in_the_function_is_ambiguous_and_tells_no_secret(error: Exception, folder: Path) -> None:
    """It may have acted before it raised; only the class of the error is kept."""
    postbox = Postbox(_raise(error))
    desk = Desk(folder, postbox)
    with desk.open() as gate:
        receipt = desk.fire(gate).receipt
        assert (receipt.status, receipt.happened) == ("AMBIGUOUS", "unknown")
        assert desk.fire(gate).receipt.status == "AMBIGUOUS"
        assert "a-word-of-the-providers" not in receipt.to_json()
        assert len(postbox.keys) == 1
        assert [found.key for found in gate.attention()] == ["letter:1"]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        True,
        "ok",
        {"id": 1},
        Evidence,
        lambda: _posted(12345),
        lambda: _posted("letter-1", json={"a": 1}),
        lambda: _posted(None),
        lambda: Declined("no", None),  # type: ignore[arg-type]  # that is the point
        lambda: Unknown(None),  # type: ignore[arg-type]  # as above
        Unknown("nobody knows"),
    ],
    ids=["none", "bool", "text", "dict", "class", "int-id", "dict-json", "no-id", "no-words", "no-why", "unknown"],
)
def test_what_is_no_answer_is_not_known_and_can_be_read_back(answer: Any, folder: Path) -> None:
    """A forgotten return, or an answer of wrong types, is neither a yes nor a no, and its receipt can be read for ever."""
    postbox = Postbox(_answer(answer))
    desk = Desk(folder, postbox)
    with desk.open() as gate:
        assert desk.fire(gate).receipt.status == "AMBIGUOUS"
        assert gate.receipt("letter:1").status == "AMBIGUOUS"
        assert gate.verify().valid
    with desk.open() as gate:
        assert desk.fire(gate).receipt.status == "AMBIGUOUS"
    assert len(postbox.keys) == 1


def test_text_that_is_not_unicode_is_replaced_and_not_fatal(folder: Path) -> None:
    """JSON can carry a lone surrogate or a NUL, and a journal can't; what happened is recorded all the same."""
    desk = Desk(folder, Postbox(lambda _: _posted("\ud800\0", json='{"note": "\ud800\0"}')))
    with desk.open() as gate:
        receipt = desk.fire(gate).receipt
        assert receipt.status == "COMMITTED"
        assert gate.receipt("letter:1") == receipt
        assert gate.verify().valid


def test_a_code_that_is_no_text_refuses_all_the_same(folder: Path) -> None:
    """A refusal that could not be written would leave its action in flight for ever."""
    desk = Desk(folder, Postbox(_answer(Declined("no\0such", "street\0"))))
    with desk.open() as gate:
        refusal = desk.fire(gate).receipt.refusal
        assert refusal is not None
        assert (refusal.code, refusal.words) == ("declined:no\ufffdsuch", "street\ufffd")
        assert gate.receipts(status="REFUSED").receipts[0].key == "letter:1"


def test_a_definite_no_refuses_and_is_remembered(folder: Path) -> None:
    """With the function's own code and words."""
    postbox = Postbox(_answer(Declined("unknown_address", "there is no such street")))
    desk = Desk(folder, postbox)
    with desk.open() as gate:
        receipt = desk.fire(gate).receipt
        assert receipt.refusal is not None
        assert (receipt.refusal.code, receipt.refusal.words) == ("declined:unknown_address", "there is no such street")
        assert receipt.refusal.door == "answered"
        assert desk.fire(gate).receipt.status == "REFUSED"
    assert len(postbox.keys) == 1


def test_what_was_not_sent_is_tried_again_under_the_claim(folder: Path) -> None:
    """Each try is dispatched, checked and sent on its own, under the one key."""
    postbox = Postbox(_answer(NotSent("no connection")), _answer(NotSent("no connection")))
    desk = Desk(folder, postbox)
    with desk.open() as gate:
        receipt = desk.fire(gate).receipt
        assert (receipt.status, receipt.via, receipt.sends, receipt.attempts) == ("COMMITTED", "first-send", 3, 1)
        assert len(set(postbox.keys)) == 1
        assert gate.verify().valid


def test_not_sent_until_the_deadline_is_remembered_by_the_next_fire(folder: Path) -> None:
    """In flight, because nothing was sent; the next fire sends it, and it is a first send."""
    never = [_answer(NotSent("no connection"))] * 50
    postbox = Postbox(*never)
    desk = Desk(folder, postbox)
    with desk.open() as gate:
        outcome = desk.fire(gate)
        assert (outcome.receipt.status, outcome.reason) == ("IN_FLIGHT", "not_sent")
        postbox._acts.clear()
        assert (desk.fire(gate).receipt.via, len(postbox.letters)) == ("first-send", len(postbox.keys))


@pytest.mark.parametrize("ends", ["killed", "closed"])
def test_not_sent_is_remembered_over_a_restart(ends: str, folder: Path) -> None:
    """The next process knows that nothing was sent, although the function can't be asked."""
    postbox = Postbox(*[_answer(NotSent("no connection"))] * 50)
    desk = Desk(folder, postbox)
    gate = desk.open()
    desk.fire(gate)
    abandon(gate) if ends == "killed" else gate.close()
    postbox._acts.clear()
    with desk.open() as gate:
        (outcome,) = gate.recover().outcomes
        assert (outcome.receipt.status, outcome.receipt.via) == ("COMMITTED", "first-send")


@pytest.mark.parametrize("ends", ["killed", "closed"])
def test_a_gate_that_ends_while_it_waits_to_try_again_forgets_nothing(ends: str, folder: Path) -> None:
    """That nothing was sent is durable before the pause: the next process sends, where it could not have asked."""
    with Stage(folder / "journal.db", World(PROFILES["nothing"])) as stage:
        stage.approve()
        stage.world.send_faults = [SendFault.RATE_LIMITED]
        actor = stage.actor()
        if ends == "killed":
            assert crashes(actor.fire, CrashAt(requests.SleepUntil, When.BEFORE))
            actor.die()
        else:
            with pytest.raises(GateClosed):
                actor.fire(interpose=once(requests.SleepUntil, actor.gate.close))
        (outcome,) = stage.gate().recover().outcomes
        assert (outcome.receipt.status, outcome.receipt.via) == ("COMMITTED", "first-send")
        assert len(stage.world.ledger) == 1


def test_a_function_that_fires_another_action_does_not_uncover_its_own(folder: Path) -> None:
    """While the outer function is at work, another thread that fires its key is told that it is held."""
    seen: list[Any] = []

    def outer(letter: Letter) -> Answer:
        desk.fire(gate, key="inner")
        thread = threading.Thread(target=lambda: seen.append(desk.fire(gate, letter)))
        thread.start()
        thread.join()
        return _done(letter)

    postbox = Postbox(outer)
    desk = Desk(folder, postbox)
    with desk.open() as gate:
        assert desk.fire(gate).receipt.status == "COMMITTED"
        assert (seen[0].receipt.status, seen[0].reason) == ("IN_FLIGHT", "held")
        assert len(postbox.letters) == 2


def test_threads_that_fire_one_key_at_once_call_the_function_once(folder: Path) -> None:
    """One of them sends; the others get its outcome, or are told that it is in flight."""
    postbox, outcomes = Postbox(), []
    desk = Desk(folder, postbox)
    with desk.open() as gate:
        barrier = threading.Barrier(8)

        def fire() -> None:
            barrier.wait()
            outcomes.append(desk.fire(gate).receipt.status)

        threads = [threading.Thread(target=fire) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(postbox.keys) == 1
    assert set(outcomes) <= {"COMMITTED", "IN_FLIGHT"}
    assert "COMMITTED" in outcomes


def test_money_that_a_function_moves_is_part_of_its_effect(folder: Path) -> None:
    """The same letter with another amount is another effect."""
    desk = Desk(folder, Postbox())
    with desk.open() as gate:
        gate.approve("cheque", by="user:1", expires_in_s=60, cap_minor=500, currency="usd")

        def cheque(amount: int) -> Any:
            return desk.post.effect(Letter("anna"), subject="anna", money=Money(amount, "usd"))

        assert gate.fire("cheque:1", cheque(500), approval="cheque").receipt.amount_minor == 500
        with pytest.raises(ActionMismatch):
            gate.fire("cheque:1", cheque(499), approval="cheque")


def test_a_dataclass_that_could_not_be_written_down_fails_where_it_is_declared() -> None:
    """Not at the first letter."""

    @dataclass(frozen=True)
    class Parcel:
        weight_kg: float

    def act(effect: Any, /, *, idempotency_key: str, deadline_s: float) -> Answer:
        raise NotImplementedError(effect, idempotency_key, deadline_s)

    for kind in (Parcel, str):
        with pytest.raises(InvalidEffect):
            target("parcels", effect=kind)(act)

"""The captions: what just happened and why, in plain words. They are chosen by what happened and never by what was expected."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from harness.case import CaseResult
from harness.columns.job import Answer, KillPoint, Status
from harness.demo.stories import Way
from harness.scenarios import SCENARIOS, Meanwhile, Money, Scenario
from harness.verdicts import HELD, AnswerVerdict, dollars, in_words


class Step(StrEnum):
    """The steps of a column, in their order on the page."""

    CASE = "case"
    DECISION = "decision"
    FIRST = "first"
    KILL = "kill"
    MEANWHILE = "meanwhile"
    SECOND = "second"
    RECORD = "record"


_CASE = {
    Way.PLAIN: "The approval stands in a file. Nothing makes anybody look at it before money moves.",
    Way.CHECKED: "The approval stands in a file. The worker's own code looks at it before it sends.",
    Way.GATE: "The approval stands in the gate's journal, with a limit of $20. The gate sends nothing without it.",
}
_DECISION = {
    Way.PLAIN: "The model has read the payment and asks for the refund. That is saved, so a restart need not ask again.",
    Way.CHECKED: "The model has read the payment and asks for the refund. That is saved, and what the payment looked like.",
    Way.GATE: "The model has read the payment and asks for the refund. That is kept with the facts it rests on, to be compared.",
}
_FIRST = {
    Way.PLAIN: "It sets out to send the refund, under an idempotency key made from the case: by that Stripe recognises a repeat.",
    Way.CHECKED: "All its checks are passed, so it sets out to send the refund, under an idempotency key made from the case.",
    Way.GATE: (
        "Before anything leaves, the journal says durably what will be sent, by whom and under which idempotency key. "
        "The $20 of the approval are reserved in the same transaction."
    ),
}
_KILL = {
    KillPoint.BEFORE_SEND: (
        "Killed between deciding to send and sending. Whoever comes next can't see whether the request left: "
        "this crash and the one right after the send look the same from outside."
    ),
    KillPoint.AFTER_ANSWER: (
        "Killed with Stripe's answer in its hands, before a word of it was written down. The money is out, and nobody here knows."
    ),
}
_MEANWHILE = {
    Meanwhile.NOTHING: "Nothing else happens. A new worker is started.",
    Meanwhile.REVOKED: "The customer withdrew, and the approval is taken back. Nobody may refund any more.",
    Meanwhile.KEY_FORGOTTEN: "Stripe has lost the idempotency key. A repeat of the same request now looks like a new one to it.",
    Meanwhile.DAY_PASSED: "25 hours pass. Stripe keeps idempotency keys for a day, so a repeat now looks new to it.",
}
_TOO_LATE = "The approval is taken back, and too late: the refund is out already. What is right now is to say so."
_SAME_BY_HAND = "Support gives the customer the same $20 back from the dashboard. That settles it: another $20 would be too many."
_OTHER_BY_HAND = "Support gives $5 back for something else. It has nothing to do with this case: the approved $20 are still owed."


def case(way: Way) -> str:
    """Say where the approval is."""
    return _CASE[way]


def decision(way: Way) -> str:
    """Say what the model did, and what is kept of it."""
    return _DECISION[way]


def first(way: Way) -> str:
    """Say what the first worker does before it dies."""
    return _FIRST[way]


def kill(dies: KillPoint) -> str:
    """Say what the death means."""
    return _KILL[dies]


def meanwhile(scenario: Scenario) -> str:
    """Say what happened while no worker was there, and what it means for what is right."""
    if scenario.meanwhile is Meanwhile.HAND_REFUND:
        return _OTHER_BY_HAND if scenario.paid_out else _SAME_BY_HAND
    if scenario.meanwhile is Meanwhile.REVOKED and scenario.paid_out:
        return _TOO_LATE
    return _MEANWHILE[scenario.meanwhile]


class _Sent(StrEnum):
    """What a worker that repeats its request brought about."""

    STORED = "stored"
    ONCE = "once"
    ALTHOUGH_SETTLED = "although settled"
    ALTHOUGH_REVOKED = "although revoked"
    TWICE = "twice"


_REPEATED = {
    _Sent.STORED: (
        "It repeats its request under the same key, and looks at nothing. Stripe recognises the key and hands back its first "
        "answer, so there is one refund. This is what idempotency keys are for."
    ),
    _Sent.ONCE: (
        "It repeats what was decided before the crash, and looks at nothing. This time that is right: what changed meanwhile has "
        "nothing to do with this case."
    ),
    _Sent.ALTHOUGH_SETTLED: (
        "It repeats what was decided before the crash, and looks at nothing. It never learns that the matter is settled, "
        "so the customer is refunded a second time."
    ),
    _Sent.ALTHOUGH_REVOKED: (
        "It repeats what was decided before the crash, and looks at nothing. The refund goes out, and nobody allows it any more."
    ),
    _Sent.TWICE: (
        "It repeats its request and trusts the key. Stripe no longer knows the key, takes the request for a new one, and refunds "
        "a second time. The worker reports one refund."
    ),
}
_CHECKED = {
    "found": "It looks before it sends, finds a refund that carries this case's mark, and reports that one. Nothing is sent.",
    "sent": "It looks before it sends: no refund of ours, a live approval, nothing new on the payment. So it sends.",
    "revoked": "It looks before it sends: the approval has been taken back. It stops, and that is right.",
    "settled": "It looks before it sends: the payment's refunds are not what they were. It stops, and here that is right.",
    "owed": (
        "It looks before it sends: the payment's refunds are not what they were. It stops at any change, "
        "so the customer never gets the $20 that were approved."
    ),
}
_BURNED = "Before it says so it uses the first send's key up, so that a request still on its way can't land late."
_WAITED = "Before it says so it waits until a request still on its way can't land any more."
_ASKED = "The journal says that a send was announced, and not what came of it. So the gate asks Stripe"
_GATE = {
    "found": f"{_ASKED}, finds this very refund by its mark, and records it. Nothing is sent again.",
    "found_revoked": (
        f"{_ASKED}, finds this very refund, and records it. The approval is gone by now, and the receipt says that too. "
        "But the money is out, and denying it would be false."
    ),
    "resent": (
        f"{_ASKED}: no such refund. It reads approval and payment again, and both still allow it. So it sends again under the "
        "same key: had the first request got through, Stripe would recognise it."
    ),
    "resent_beside": (
        f"{_ASKED}: no such refund. Somebody has refunded less than this, without naming a case; there is room for both, "
        "so that is no reason to stop. It sends under the same key, and notes the other refund on the receipt."
    ),
    "duplicate": f"{_ASKED}: no such refund. It reads the payment again: somebody gave the same amount back. It refuses. ",
    "revoked": f"{_ASKED}: no such refund. It reads the approval again: it has been taken back. It refuses. ",
    "ambiguous": (
        "The journal says that a send was announced, and not what came of it. The gate may not look refunds up, and the key is "
        "too old to be used again. So nobody can know from here. It doesn't guess: it says AMBIGUOUS, for a person to look."
    ),
}
_TEMPORAL = "Temporal notices the loss and hands the activity to the new worker. "


def second(way: Way, result: CaseResult, *, on_temporal: bool = False) -> str:
    """Say what the new worker did, and why.

    Args:
        way: the way of working.
        result: what came of it.
        on_temporal: whether Temporal started it.
    """
    if result.answer is None:
        return "The worker gave no answer. Nothing is concluded from this column."
    told = {Way.PLAIN: _second_plain, Way.CHECKED: _second_checked, Way.GATE: _second_gate}[way]
    return (_TEMPORAL if on_temporal else "") + told(SCENARIOS[result.scenario], result, result.answer)


def _second_plain(scenario: Scenario, result: CaseResult, answer: Answer) -> str:
    if result.verdict == HELD:
        return _REPEATED[_Sent.STORED if scenario.dies is KillPoint.AFTER_ANSWER else _Sent.ONCE]
    if len(result.own_refunds) > 1:
        return _REPEATED[_Sent.TWICE]
    if scenario.meanwhile is Meanwhile.REVOKED:
        return _REPEATED[_Sent.ALTHOUGH_REVOKED]
    return _REPEATED[_Sent.ALTHOUGH_SETTLED] if answer.status is Status.REFUNDED else _as_told(answer)


def _second_checked(scenario: Scenario, result: CaseResult, answer: Answer) -> str:
    if answer.status is Status.REFUNDED:
        return _CHECKED["found" if "mark" in answer.via else "sent"]
    if answer.status is not Status.REFUSED:
        return _as_told(answer)
    if "approval" in answer.words:
        return _CHECKED["revoked"]
    return _CHECKED["owed" if scenario.paid_out and not result.own_refunds else "settled"]


def _second_gate(scenario: Scenario, result: CaseResult, answer: Answer) -> str:
    receipt = answer.receipt or {}
    match receipt.get("status"), receipt.get("via"):
        case "COMMITTED", "recovery-query":
            return _GATE["found_revoked" if scenario.meanwhile is Meanwhile.REVOKED else "found"]
        case "COMMITTED", "retry-idempotent":
            return _GATE["resent_beside" if len(result.refunds) > len(result.own_refunds) else "resent"]
        case "AMBIGUOUS", _:
            return _GATE["ambiguous"]
        case "REFUSED", _:
            refusal = receipt.get("refusal") or {}
            door = {"burned": _BURNED, "horizon": _WAITED}.get(refusal.get("door", ""), "")
            why = {"premise_duplicate": "duplicate", "approval_revoked": "revoked"}.get(refusal.get("code", ""))
            return _GATE[why] + door if why else _as_told(answer)
        case _:
            return _as_told(answer)


def _as_told(answer: Answer) -> str:
    return f"It reports: {answer.status}. {answer.words}"


def amount(money: Money) -> str:
    """Return an amount with its number of refunds, for a reader."""
    return in_words(money) if money.refunds else "nothing"


def record(want: Money) -> str:
    """Say where the figures come from, and what is wanted."""
    refunds = "one refund" if want.refunds == 1 else f"{want.refunds} refunds"
    right = f"{dollars(want.minor)} in {refunds}" if want.refunds else "no refund at all"
    return f"Read again from the provider's own record, not from what anybody reported. Right is: {right}."


_RIGHT = "The customer got what was right, and not a cent more."
_CONTRADICTS = "And what the worker reports is not what the provider's record says."


def verdict(way: Way, result: CaseResult) -> str:
    """Say what the figures mean for the customer and the shop."""
    words = _money(result)
    if result.answer_verdict is AnswerVerdict.CONTRADICTS:
        return f"{words} {_CONTRADICTS}"
    if result.answer is not None and result.answer.status is Status.AMBIGUOUS:
        return f"{words} The gate can't know that, says so, and does nothing: a person has to look."
    if way is Way.GATE and result.as_wanted:
        return f"{words} The report says the same, and the receipt below says why."
    return words


def _money(result: CaseResult) -> str:
    got, want = result.got, result.want
    if result.verdict == HELD:
        return _RIGHT if want.refunds else "Nothing was refunded, and that is right."
    if got.minor > want.minor:
        return f"The customer got {dollars(got.minor)} and should have got {dollars(want.minor) if want.refunds else 'nothing'}."
    if got.minor < want.minor:
        return f"The customer got {dollars(got.minor)} and is still owed {dollars(want.minor - got.minor)}."
    return f"The amount is right, and it went out in {got.refunds} refunds where {want.refunds} are right."


def summary(results: Iterable[tuple[Way, CaseResult]]) -> str:
    """Say what was to be seen, over all columns."""
    by_way = dict(results)
    sentences = ["The same crash, the same refund."] if len(by_way) > 1 else []
    sentences += [_SUMMARY[way][_kind(result)].format(sum=_off(result)) for way, result in by_way.items()]
    return " ".join(sentences)


def _kind(result: CaseResult) -> str:
    if result.answer is not None and result.answer.status is Status.AMBIGUOUS:
        return "ambiguous"
    if result.verdict == HELD:
        return "held"
    return "violated" if result.verdict.startswith("VIOLATED") else "short"


def _off(result: CaseResult) -> str:
    return dollars(abs(result.got.minor - result.want.minor))


_SUMMARY = {
    Way.PLAIN: {
        "held": "Without a gate it came out right, because a repeat of the request was right here.",
        "violated": "Without a gate {sum} too much went out: the new worker repeated what the old one had decided.",
        "short": "Without a gate the customer is owed {sum}.",
        "ambiguous": "Without a gate nobody knows.",
    },
    Way.CHECKED: {
        "held": "The check by hand got it right.",
        "violated": "The check by hand let {sum} too much go out.",
        "short": "The check by hand stopped at a change that did not matter: the customer is owed {sum}.",
        "ambiguous": "The check by hand does not know.",
    },
    Way.GATE: {
        "held": "With the gate the new worker first found out what had happened and what still held, and came out right.",
        "violated": "With the gate {sum} too much went out: that is a defect of the gate.",
        "short": "With the gate the customer is owed {sum}: that is a defect of the gate.",
        "ambiguous": "The gate could not know, and said so instead of guessing.",
    },
}


def longest(step: Step, way: Way, *, on_temporal: bool = False) -> str:
    """Return the longest caption that this step of this way can get: so much room is kept for it on the page."""
    told = {
        Step.CASE: [_CASE[way]],
        Step.DECISION: [_DECISION[way]],
        Step.FIRST: [_FIRST[way]],
        Step.KILL: list(_KILL.values()),
        Step.MEANWHILE: [meanwhile(scenario) for scenario in SCENARIOS.values()],
        Step.SECOND: [(_TEMPORAL if on_temporal else "") + words for words in _SECOND[way]],
        Step.RECORD: [record(scenario.want) for scenario in SCENARIOS.values()],
    }
    return max(told[step], key=len)


def longest_shown(*, on_temporal: bool = False) -> str:
    """Return the longest caption that can stand above the columns: one of the gate's, with its title, or a summary."""
    of_gate = max((longest(step, Way.GATE, on_temporal=on_temporal) for step in Step), key=len)
    summary = " ".join(max(told.values(), key=len) for told in _SUMMARY.values())
    return max(f"With Interlock: {of_gate}", summary, key=len)


LONGEST_VERDICT = f"{_RIGHT} {_CONTRADICTS}"

_SECOND = {
    Way.PLAIN: tuple(_REPEATED.values()),
    Way.CHECKED: tuple(_CHECKED.values()),
    Way.GATE: (*_GATE.values(), *(_GATE[why] + door for why in ("duplicate", "revoked") for door in (_BURNED, _WAITED))),
}

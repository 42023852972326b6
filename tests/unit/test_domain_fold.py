"""Actions and their approval folded together: what each says of the other, with and without their places in the log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from interlock.domain.approvals import ApprovalTerms
from interlock.domain.legality import Legality, Placed, fold
from interlock.domain.log_states import LOG_ID, EpochStartedState, OpenedState
from interlock.domain.states import (
    STATES_BY_TOPIC,
    CommittedState,
    DispatchedState,
    Door,
    EventState,
    GrantedState,
    IntendedState,
    RefusedState,
    ReleasedState,
    ReservedState,
    RevokedState,
    SendPurpose,
    SpentState,
    Via,
)
from tests.folded import last_send, states_of
from tests.scripted import ACTION_ID, APPROVAL_ID, AT, KEYS, approval, checked, dispatched, effect, evidence, gate, intent, later

ACTION, OTHER_ID = ACTION_ID, UUID(int=7)
TERMS = ApprovalTerms(cap_minor=2000, currency="usd", by="user:17", expires_in_s=100_000, fingerprint=None, uses=1)


def granted(**terms: Any) -> GrantedState:
    """Return the grant that the action was sent under."""
    return GrantedState(AT, "interlock.approval", "case-1", replace(TERMS, **terms))


INTENDED, CLAIMED, _ = (state for _, state in states_of(dispatched(gate())))
DISPATCHED = last_send(dispatched(gate()))
RESERVED = ReservedState(AT, ACTION.hex, 2000)
COMMITTED = CommittedState(later(1), Via.FIRST_SEND, evidence(), None, None, None)
SPENT = SpentState(later(1), ACTION.hex, 2000)
REFUSED = RefusedState(later(1), "declined:card", "", "", at_recovery=False, door=Door.ANSWERED, checks=None, by=None, note=None)
RELEASED = ReleasedState(later(1), ACTION.hex)
REVOKED = RevokedState(AT, "user:17", "")
HISTORY = (granted(), INTENDED, CLAIMED, DISPATCHED, RESERVED, COMMITTED, SPENT)
"""As the gate writes it: the approval's part of a transaction stands behind the action's."""


def placed(*states: EventState, known: bool = True) -> list[Placed]:
    """Return events in the log's order."""
    return [
        Placed(_owner(state), STATES_BY_TOPIC[state.TOPIC], state, index if known else None) for index, state in enumerate(states)
    ]


def _owner(state: EventState) -> UUID:
    return APPROVAL_ID if state.TOPIC.startswith("interlock.approval") else ACTION


def said(*states: EventState) -> list[str]:
    """Return what is said of this log."""
    return [breach.words for _, breach in fold(placed(*states))[1]]


def read(legality: Legality, *states: EventState) -> list[str]:
    """Go on by these events, and return what is said of them."""
    events = placed(*states)
    return [breach.words for one in events for breach in legality.read(one.aggregate_id, one.kind, one.state)]


# --- a log that a gate writes


@pytest.mark.parametrize("known", [True, False], ids=["places known", "places not known"])
def test_what_a_gate_writes_is_legal(known: bool) -> None:  # noqa: FBT001 - the case
    """Together, or each alone where nothing says how they stand among each other; and nothing is unreserved."""
    legality, found = fold(placed(*HISTORY, known=known))
    assert found == []
    assert legality.actions[ACTION].status == "COMMITTED"


def test_the_places_in_the_log_are_the_order() -> None:
    """Handed over by aggregate, as a receipt has them, they are read as they stand in the log."""
    events = placed(*HISTORY)
    by_aggregate = [one for one in events if one.aggregate_id == ACTION] + [one for one in events if one.aggregate_id != ACTION]
    assert fold(by_aggregate)[1] == []
    backwards = fold(list(reversed(events)))
    assert backwards[1] == []
    assert backwards[0].actions[ACTION].sends == 1
    assert fold(list(reversed(placed(INTENDED, CLAIMED))))[1] == []


def test_a_breach_names_the_event_that_was_handed_over() -> None:
    """By its number there, and not by its place in the log; and each one is told."""
    events = [*placed(granted(), INTENDED, CLAIMED, DISPATCHED, replace(RESERVED, amount_minor=1), COMMITTED)]
    events += [Placed(APPROVAL_ID, SpentState, replace(SPENT, amount_minor=2), 6)]
    shuffled = [events[4], *events[:4], *events[5:]]
    assert [(at, breach.words) for at, breach in fold(shuffled)[1]] == [
        (0, "it says 1, and the action's effect 2000"),
        (6, "it says 2, and the action's effect 2000"),
    ]


def test_without_their_places_nothing_is_said_across_aggregates() -> None:
    """Whatever the order of the lists: a reservation before the send is legal then, and one twice is not."""
    legality, found = fold(placed(granted(), RESERVED, RESERVED, INTENDED, CLAIMED, DISPATCHED, known=False))
    assert [(at, breach.words) for at, breach in found] == [(2, "it was reserved twice for one action")]
    assert set(legality.actions) == {ACTION}
    some = [*placed(granted(), INTENDED, CLAIMED), *placed(RESERVED, known=False)]
    assert fold(some)[1] == []
    odd = placed(INTENDED, CLAIMED, DISPATCHED)
    assert fold([replace(odd[0], index=None), replace(odd[1], index=9), replace(odd[2], index=4)])[1] == []


def test_every_action_is_in_the_fold() -> None:
    """Folded alone, each is as it is when folded together."""
    events = placed(INTENDED, known=False)
    both = [*events, replace(events[0], aggregate_id=OTHER_ID)]
    assert set(fold(both)[0].actions) == {ACTION, OTHER_ID}


# --- each in step with the other


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ((granted(), INTENDED, CLAIMED, DISPATCHED, RESERVED, REFUSED, RELEASED), []),
        ((granted(), INTENDED, CLAIMED, replace(DISPATCHED, send=2)), ["send 2 does not follow send 0"]),
        ((granted(), INTENDED, CLAIMED, RESERVED), ["Reserved was written for an action that was CLAIMED"]),
        ((*HISTORY[:5], SPENT, COMMITTED), ["Spent was written for an action that was DISPATCHED"]),
        ((*HISTORY[:5], RELEASED, REFUSED), ["Released was written for an action that was DISPATCHED"]),
        (
            (granted(), INTENDED, CLAIMED, DISPATCHED, COMMITTED, SPENT),
            [f"action {ACTION.hex} was sent on the event before, and it was not reserved for it (I3)"],
        ),
        (
            (granted(), REVOKED, INTENDED, CLAIMED, DISPATCHED),
            ["it was sent on event 1 of its approval, which had come to event 2"],
        ),
        (
            (granted(cap_minor=1999), INTENDED, CLAIMED, DISPATCHED),
            ["it was sent under an approval that covers 1999 usd, and the effect needs 2000"],
        ),
        (
            (granted(currency="eur"), INTENDED, CLAIMED, DISPATCHED),
            ["it was sent under an approval that is in eur, and the effect in usd"],
        ),
        (
            (granted(fingerprint="sha256:00"), INTENDED, CLAIMED, DISPATCHED),
            ["it was sent under an approval that was given for another effect"],
        ),
    ],
    ids=range(10),
)
def test_an_approval_is_written_to_with_its_action(log: tuple[EventState, ...], words: list[str]) -> None:
    """I3: its reservation with the send, its spend or release with the ending; and the send goes by all that it says."""
    assert said(*log) == words


def again(**changed: Any) -> DispatchedState:
    """Return a resend on the approval's second event, the action's own reservation."""
    held = approval()
    held.reserve(ACTION, effect(), AT)
    action = dispatched(gate())
    action.dispatch(1, SendPurpose.EXECUTE, checked(action, held).checks, KEYS, later(1))
    return replace(last_send(action), **changed)


def test_a_resend_goes_by_its_own_reservation() -> None:
    """Which is there already: nothing has to be reserved, and a revocation in between shows."""
    assert said(*HISTORY[:5], again(), COMMITTED, SPENT) == []
    assert said(*HISTORY[:5], REVOKED, again()) == ["it was sent on event 2 of its approval, which had come to event 3"]


def test_reading_a_stored_answer_goes_by_no_approval() -> None:
    """It can only replay, and a revoked approval does not keep it from being read."""
    assert said(*HISTORY[:5], REVOKED, again(purpose=SendPurpose.READ_STORED)) == []


def test_an_approval_elsewhere_is_no_matter_of_the_log() -> None:
    """Where the send says that the journal did not hold it, the journal's approval of that name is another one."""
    assert isinstance(INTENDED, IntendedState)
    reading = DISPATCHED.checks.approval
    ref = replace(reading.ref, source="crm")
    sent = replace(DISPATCHED, checks=replace(DISPATCHED.checks, approval=replace(reading, held=False, ref=ref, version=None)))
    log = (granted(), REVOKED, replace(INTENDED, intent=intent(source="crm")), CLAIMED, sent)
    legality = Legality()
    assert read(legality, *log) == []
    assert list(legality.unreserved()) == []


@pytest.mark.parametrize(("amount", "money"), [(0, False), (1, False), (2000, True), (0, True)])
def test_what_is_reserved_is_what_the_effect_needs(amount: int, money: bool) -> None:  # noqa: FBT001 - the case
    """Nothing where it moves no money."""
    assert isinstance(INTENDED, IntendedState)
    record = effect() if money else replace(effect(), amount_minor=None, currency=None)
    legality = Legality()
    read(legality, granted(), replace(INTENDED, intent=replace(INTENDED.intent, effect=record)), CLAIMED, DISPATCHED)
    needed = 2000 if money else None
    found = read(legality, replace(RESERVED, amount_minor=amount))
    assert found == ([] if amount == (needed or 0) else [f"it says {amount}, and the action's effect {needed}"])


# --- what is lost or withheld


def test_a_lost_action_is_out_of_step_with_nothing() -> None:
    """Its chain is broken, and that is named already."""
    legality = Legality()
    read(legality, granted(), INTENDED, CLAIMED)
    legality.lose(ACTION)
    assert read(legality, RESERVED) == []


def test_a_lost_approval_is_not_compared_with_the_send() -> None:
    """Neither its number of events nor its terms."""
    legality = Legality()
    read(legality, granted(cap_minor=1))
    legality.lose(APPROVAL_ID)
    assert read(legality, INTENDED, CLAIMED, DISPATCHED) == []


def test_a_withheld_reservation_owes_nothing() -> None:
    """It may be this one."""
    legality = Legality()
    read(legality, granted())
    legality.read(APPROVAL_ID, RevokedState, None)
    assert read(legality, INTENDED, CLAIMED, again(send=1)) == []
    assert legality.approvals[APPROVAL_ID].owes is None
    assert list(legality.unreserved()) == []


def test_a_withheld_grant_holds_no_terms_against_the_send() -> None:
    """Of an approval whose name is not known nothing is compared, and it may be the one that was reserved."""
    legality = Legality()
    legality.read(APPROVAL_ID, GrantedState, None)
    assert read(legality, INTENDED, CLAIMED, DISPATCHED) == []
    assert list(legality.unreserved()) == []


# --- what was never reserved


def another(number: int, **changed: Any) -> list[Placed]:
    """Return another action's events, sent under the same approval."""
    who = UUID(int=number)
    return [Placed(who, STATES_BY_TOPIC[one.TOPIC], changed.get(one.TOPIC, one), None) for one in (INTENDED, CLAIMED, DISPATCHED)]


def unreserved(*events: Placed) -> list[UUID]:
    """Return the actions that were sent although nothing was reserved for them."""
    legality = Legality()
    for one in events:
        legality.read(one.aggregate_id, one.kind, one.state)
    return list(legality.unreserved())


def test_each_action_that_was_sent_without_a_reservation_is_named() -> None:
    """However many others there are that were not sent, are somewhere else's, or hide what they are about."""
    assert isinstance(INTENDED, IntendedState)
    not_sent = another(10)[:2]
    elsewhere = another(11, **{INTENDED.TOPIC: replace(INTENDED, intent=intent(source="crm"))})
    hidden = [replace(one, state=None) for one in another(12)]
    sent = another(13) + another(14)
    mine = placed(*HISTORY)
    assert unreserved(*mine) == []
    assert unreserved(*mine, *not_sent, *elsewhere, *hidden, *sent) == [UUID(int=13), UUID(int=14)]
    assert unreserved(*another(13)) == [UUID(int=13)]


def test_a_spend_is_no_reservation_and_a_release_undoes_none() -> None:
    """What counts is that it was ever reserved."""
    released = placed(granted(), INTENDED, CLAIMED, DISPATCHED, RESERVED, REFUSED, RELEASED)
    assert unreserved(*released) == []
    assert unreserved(*placed(granted(), INTENDED, CLAIMED, DISPATCHED, COMMITTED, SPENT)) == [ACTION]


def test_an_action_of_an_approval_without_a_name_may_be_the_one() -> None:
    """Where some approval's grant is withheld; of one whose name is known it can be told all the same."""
    assert isinstance(INTENDED, IntendedState)
    nameless = Placed(OTHER_ID, GrantedState, None, None)
    unknown = replace(INTENDED, intent=replace(intent(), approval=replace(intent().approval, id="case-9")))
    of_case_9 = another(13, **{INTENDED.TOPIC: unknown})
    assert unreserved(nameless, *of_case_9) == []
    assert unreserved(*of_case_9) == [UUID(int=13)]
    assert unreserved(nameless, *of_case_9, *placed(granted()), *another(14)) == [UUID(int=14)]


# --- what is neither


def test_an_event_of_the_log_or_of_nobody_is_no_action() -> None:
    """The log's own are read as such, and what is none of all these is left alone."""
    legality = Legality()
    assert [one.words for one in legality.read(LOG_ID, EpochStartedState, None)] == [
        "EpochStarted stands before the log was opened"
    ]
    assert list(legality.read(LOG_ID, OpenedState, None)) != []
    assert legality.read(OTHER_ID, EventState, EventState(AT)) == []
    assert legality.actions == {}
    assert legality.approvals == {}


def test_an_action_is_no_approval() -> None:
    """Nor the other way round: whichever came first says what it is."""
    legality = Legality()
    assert read(legality, INTENDED, granted()) == []
    assert [one.words for one in legality.read(ACTION, RevokedState, REVOKED)] == [f"Revoked is no event of what {ACTION} is"]
    assert ACTION not in legality.approvals

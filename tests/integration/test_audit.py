"""The audit, with the real SDK against the stand-in: refund by refund, what the provider has and what the journal says."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import stripe

from harness.standins.stripe.client import LOCAL_API_KEY, StripeStandIn
from harness.standins.stripe.sdk import connect, pay, refund
from interlock import AsyncTarget, Gate
from interlock.audit import Audit, AuditKind, audit
from interlock.domain.answers import CannotTell, Settlement, Unknown
from interlock.domain.books import BookEntry, Books
from interlock.functions import target
from interlock.infrastructure.clock import WallDeadline
from interlock.infrastructure.opening import open_journal
from interlock.stripe import StripeRefunds
from interlock.stripe.marks import ACTION
from tests.provider_world import Transfer

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.usefixtures("healthy")


class Shop:
    """A journal, and refunds that were made through it; with a Stripe account of its own, so that all of it can be read.

    Args:
        standin: the provider.
        folder: where the journal is.
    """

    def __init__(self, standin: StripeStandIn, folder: Path) -> None:
        self.key = f"{LOCAL_API_KEY}_{folder.name.replace('_', '')}"
        self.standin, self.path = standin, folder / "journal.db"
        self.client = connect(standin, self.key)
        self.target = StripeRefunds(self.key, api_base=standin.api_base)
        self.url = f"sqlite:///{self.path}"

    def refunded(self, case: str, *, method: str = "pm_card_visa", amount_minor: int = 2000) -> str:
        """Take a payment, refund a part of it through the gate, and return the payment."""
        payment = pay(self.client, payment_method=method).id
        with Gate.open(self.url, targets=[self.target]) as gate:
            approval = gate.approve(case, by="user:1", expires_in_s=3600, cap_minor=amount_minor, currency="usd")
            effect = self.target.refund(payment=payment, amount_minor=amount_minor, currency="usd")
            gate.fire(f"refund:{case}", effect, approval=approval, premises=[self.target.observe(payment)])
        return payment

    def audit(self, **options: Any) -> Audit:
        with open_journal(self.url, create=False) as journal:
            return audit(journal, [self.target], **options)

    def action_of(self, case: str) -> str:
        with Gate.open(self.url, targets=[self.target]) as gate:
            return gate.receipt(f"refund:{case}").action_id

    def refunds_of(self, payment: str) -> list[stripe.Refund]:
        return list(self.client.v1.refunds.list({"payment_intent": payment}))

    def edit(self, statement: str, *values: object) -> None:
        """Change the journal behind its back: the audit believes the provider, whatever the journal was made to say."""
        with closing(sqlite3.connect(self.path)) as connection, connection:
            for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            assert connection.execute(statement, values).rowcount > 0


@pytest.fixture
def shop(standin: StripeStandIn, tmp_path: Path) -> Shop:
    """Return a shop with an account and a journal of its own."""
    return Shop(standin, tmp_path)


def kinds(found: Audit) -> list[AuditKind]:
    """Return the kinds of what was found."""
    return [finding.kind for finding in found.findings]


def test_what_agrees(shop: Shop) -> None:
    """Refunds through the gate are what the provider has, whichever way they are read."""
    shop.refunded("a")
    shop.refunded("b")
    for everything in (False, True):
        found = shop.audit(everything=everything)
        assert (found.agrees, found.contradicted, found.findings) == (True, False, ())
        assert (found.actions, found.subjects, found.entries) == (2, 2, 2)


def test_a_refund_past_the_gate(shop: Shop) -> None:
    """By hand on a payment of ours it is found; on a payment that no action names only where everything is read."""
    payment = shop.refunded("a")
    other = pay(shop.client).id
    refund(shop.client, payment, 500)
    refund(shop.client, other, 700)
    found = shop.audit()
    assert kinds(found) == [AuditKind.EXTRA_UNMARKED]
    assert (found.findings[0].subject, found.agrees, found.contradicted) == (payment, False, False)
    assert "of 500 usd" in found.findings[0].words
    everything = shop.audit(everything=True)
    assert {(finding.kind, finding.subject) for finding in everything.findings} == {
        (AuditKind.EXTRA_UNMARKED, payment),
        (AuditKind.EXTRA_UNMARKED, other),
    }


def test_a_second_refund_with_our_mark(shop: Shop) -> None:
    """One of an action that was committed by another refund, and one whose mark names no action of this journal."""
    payment = shop.refunded("a")
    mine = shop.action_of("a")
    refund(shop.client, payment, 500, metadata={ACTION: mine})
    refund(shop.client, payment, 600, metadata={ACTION: "0" * 32})
    refund(shop.client, payment, 700, metadata={ACTION: "no id at all"})
    found = shop.audit()
    assert kinds(found) == [AuditKind.EXTRA_MARKED] * 3
    assert found.contradicted
    words = {finding.words.split(", ")[0]: finding.words for finding in found.findings}
    assert "COMMITTED by another entry" in words["an entry of 500 usd"]
    assert "no action of this journal" in words["an entry of 600 usd"]
    assert [finding.key for finding in found.findings if finding.action_id == mine] == ["refund:a"]


def test_a_refund_of_an_action_that_was_refused(shop: Shop) -> None:
    """The journal says that it did not happen, and it did."""
    payment = pay(shop.client).id
    with Gate.open(shop.url, targets=[shop.target]) as gate:
        approval = gate.approve("a", by="user:1", expires_in_s=3600, cap_minor=2000, currency="usd")
        gate.revoke("a", by="user:1")
        effect = shop.target.refund(payment=payment, amount_minor=2000, currency="usd")
        gate.fire("refund:a", effect, approval=approval, premises=[shop.target.observe(payment)])
    assert shop.audit().agrees
    refund(shop.client, payment, 2000, metadata={ACTION: shop.action_of("a")})
    found = shop.audit()
    assert kinds(found) == [AuditKind.EXTRA_MARKED]
    assert "REFUSED" in found.findings[0].words


def test_a_refund_that_the_provider_does_not_have(shop: Shop) -> None:
    """A journal that was made to name another refund: the named one is missing, and the true one is one too many."""
    shop.refunded("a")
    topic = "interlock.action.committed"
    state = 'replace(state, \'"reference":"re_\', \'"reference":"re_x\')'
    shop.edit(f"UPDATE stored_events SET state = {state} WHERE topic = ?", topic)  # noqa: S608 - a test's own
    found = shop.audit()
    assert kinds(found) == [AuditKind.MISSING, AuditKind.EXTRA_MARKED]
    assert found.contradicted


def test_a_refund_of_another_amount(shop: Shop) -> None:
    """A journal that was made to say another amount than the provider moved."""
    shop.refunded("a")
    topic = "interlock.action.intended"
    state = "replace(state, '\"amount_minor\":2000', '\"amount_minor\":900')"
    shop.edit(f"UPDATE stored_events SET state = {state} WHERE topic = ?", topic)  # noqa: S608 - a test's own
    found = shop.audit()
    assert kinds(found) == [AuditKind.DISAGREES]
    assert "2000" in found.findings[0].words
    assert "900" in found.findings[0].words


def test_a_refund_that_failed_later(shop: Shop) -> None:
    """It was pending, or done, and failed afterwards: late failure; it was pending and is done: out of date."""
    shop.refunded("done later", method="pm_card_pendingRefund")
    shop.refunded("fails later", method="pm_card_refundFail")
    shop.standin.advance_clock(30 * 86_400)
    found = shop.audit()
    assert {(finding.kind, finding.key) for finding in found.findings} == {
        (AuditKind.OUTDATED, "refund:done later"),
        (AuditKind.LATE_FAILURE, "refund:fails later"),
    }
    with Gate.open(shop.url, targets=[shop.target]) as gate:
        gate.reconcile("refund:done later")
        gate.reconcile("refund:fails later")
    assert shop.audit().agrees, "the journal says now what the provider says"


def test_an_action_whose_fate_is_not_known_yet(shop: Shop) -> None:
    """A refund of an action that is in doubt is for recover to find, and no contradiction."""
    payment = shop.refunded("a")
    action_id = shop.action_of("a")
    shop.edit("DELETE FROM stored_events WHERE topic = ? AND originator_id = ?", "interlock.action.committed", action_id)
    found = shop.audit()
    assert [(finding.kind, finding.subject) for finding in found.findings] == [(AuditKind.OUTDATED, payment)]
    assert "DISPATCHED" in found.findings[0].words


def test_what_a_person_decided(shop: Shop) -> None:
    """A commit by a person's word has to have an entry with its mark, like any other."""
    payment = shop.refunded("a")
    with closing(sqlite3.connect(shop.path)) as connection:
        state = connection.execute("SELECT state FROM stored_events WHERE topic = 'interlock.action.committed'").fetchone()[0]
    fields = json.loads(state) | {"via": "resolution", "evidence": None, "by": "user:1", "note": "seen"}
    shop.edit("UPDATE stored_events SET state = ? WHERE topic = 'interlock.action.committed'", json.dumps(fields).encode())
    assert shop.audit().agrees
    (made,) = shop.refunds_of(payment)
    shop.client.v1.refunds.update(made.id, {"metadata": {ACTION: ""}})
    assert kinds(shop.audit()) == [AuditKind.MISSING, AuditKind.EXTRA_UNMARKED]


def test_what_was_erased(shop: Shop) -> None:
    """The refund of an erased action bears a mark that the journal knows: nothing is left to compare, and nothing is wrong."""
    payment = shop.refunded("a")
    shop.refunded("b")
    with Gate.open(shop.url, targets=[shop.target]) as gate:
        gate.erase("refund:a", reason="subject_request", by="user:19")
    for everything in (False, True):
        assert shop.audit(everything=everything).agrees
    refund(shop.client, payment, 10, metadata={ACTION: "1" * 32})
    assert kinds(shop.audit(everything=True)) == [AuditKind.EXTRA_MARKED]


def test_what_can_not_be_read(shop: Shop) -> None:
    """A provider that does not answer, an action that can't be read, a target not given or without books: each is named."""
    shop.refunded("a")
    away = StripeRefunds(shop.key, api_base="http://127.0.0.1:9")
    with open_journal(shop.url, create=False) as journal:
        for everything in (False, True):
            unreadable = audit(journal, [away], everything=everything)
            assert (kinds(unreadable), unreadable.agrees, unreadable.contradicted) == ([AuditKind.UNREADABLE], False, False)
        found = audit(journal, [])
    assert (found.agrees, dict(found.skipped)) == (False, {"stripe": 1})
    shop.edit("UPDATE stored_events SET state = x'00' WHERE topic = 'interlock.action.claimed'")
    assert AuditKind.UNREADABLE in kinds(shop.audit())

    @target("pay", effect=Transfer)
    def pay_out(effect: Transfer, /, *, idempotency_key: str, deadline_s: float) -> Unknown:
        del effect, idempotency_key, deadline_s
        return Unknown("it is never sent")

    answer = pay_out.books("x", deadline=WallDeadline(1.0))
    assert isinstance(answer, CannotTell)


def test_a_target_that_is_awaited(shop: Shop) -> None:
    """Its books are awaited; what goes wrong there is no empty book either, and by default it has none."""
    payment = shop.refunded("a")
    shop.refunded("b")

    class Awaited(AsyncTarget[Any]):
        name = shop.target.name

        async def _send(self, effect: Any, *, action_id: UUID, idempotency_key: str, deadline: Any) -> Unknown:
            return Unknown(f"it is never sent {effect, action_id, idempotency_key, deadline}")

    class WithBooks(Awaited):
        async def _books(self, subject: str | None, *, deadline: Any) -> Books | CannotTell:
            return shop.target.books(subject, deadline=deadline)

    class Keeping(WithBooks):
        loop: asyncio.AbstractEventLoop | None = None

        async def _books(self, subject: str | None, *, deadline: Any) -> Books | CannotTell:
            self.loop = self.loop or asyncio.get_running_loop()
            assert self.loop is asyncio.get_running_loop(), "a connection that it keeps is of another loop"
            return await super()._books(subject, deadline=deadline)

    class Broken(Awaited):
        async def _books(self, subject: str | None, *, deadline: Any) -> Books | CannotTell:
            raise OSError(f"{subject} {deadline}")

    with open_journal(shop.url, create=False) as journal:
        assert audit(journal, [WithBooks()]).agrees
        assert audit(journal, [Keeping()]).agrees, "all is awaited on one loop"
        assert kinds(audit(journal, [Awaited()])) == kinds(audit(journal, [Broken()])) == 2 * [AuditKind.UNREADABLE]
        refund(shop.client, payment, 500)
        assert kinds(audit(journal, [WithBooks()])) == [AuditKind.EXTRA_UNMARKED]


@pytest.mark.parametrize("everything", [False, True])
def test_gates_that_go_on_meanwhile(shop: Shop, everything: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """What is refunded between the reading of the journal and of the books, or behind it, contradicts nobody."""
    payment = pay(shop.client).id

    def fire(case: str, amount_minor: int, *, later: bool = False) -> None:
        effect = shop.target.refund(payment=payment, amount_minor=amount_minor, currency="usd")
        with Gate.open(shop.url, targets=[shop.target]) as gate:
            approval = gate.approve(case, by="user:1", expires_in_s=3600, cap_minor=amount_minor, currency="usd")
            begin = gate.propose if later else gate.fire
            begin(f"refund:{case}", effect, approval=approval, premises=[shop.target.observe(payment)])

    class Busy(StripeRefunds):
        def _books(self, subject: str | None, *, deadline: Any) -> Books | CannotTell:
            if shop.refunds_of(payment):
                return super()._books(subject, deadline=deadline)
            fire("new", 300)
            books = super()._books(subject, deadline=deadline)
            fire("waiting", 500)
            return books

    fire("waiting", 500, later=True)
    busy = Busy(shop.key, api_base=shop.standin.api_base)
    with open_journal(shop.url, create=False) as journal:
        found = audit(journal, [busy], everything=everything)
    assert len(shop.refunds_of(payment)) == 2
    assert found.findings == ()


def test_books_that_are_none() -> None:
    """Whatever a target gives that is no entry becomes CannotTell, and never an empty book."""
    entry: dict[str, Any] = {"subject": "pi_1", "reference": "re_1", "state": "succeeded", "settlement": Settlement.FINAL}
    BookEntry(**entry)
    wrongs: list[dict[str, Any]] = [{"amount_minor": 1.5}, {"subject": None}, {"settlement": "final"}, {"action_mark": 3}]
    for wrong in wrongs:
        with pytest.raises(TypeError):
            BookEntry(**(entry | wrong))
    with pytest.raises(TypeError):
        Books(["re_1"])  # type: ignore[arg-type]  # it must be refused


def test_the_command(shop: Shop, tmp_path: Path) -> None:
    """A table or JSON; 0 where they agree, 1 where the journal is contradicted, 4 where somebody has to look."""
    payment = shop.refunded("a")
    module = tmp_path / "my_targets.py"
    module.write_text(
        f"from interlock.stripe import StripeRefunds\nstripe = StripeRefunds({shop.key!r}, api_base={shop.standin.api_base!r})\n"
    )
    assert _command(shop, tmp_path)[:1] == (0,)
    refund(shop.client, payment, 500)
    code, out = _command(shop, tmp_path)
    assert (code, "extra_unmarked" in out) == (4, True)
    refund(shop.client, payment, 600, metadata={ACTION: "0" * 32})
    code, out = _command(shop, tmp_path, "--json", "--everything")
    told = json.loads(out)
    assert (code, told["agrees"]) == (1, False)
    assert sorted(finding["kind"] for finding in told["findings"]) == ["extra_marked", "extra_unmarked"]


def _command(shop: Shop, folder: Path, *options: str) -> tuple[int, str]:
    arguments = [
        sys.executable,
        "-m",
        "interlock.cli",
        "audit",
        "--journal",
        shop.url,
        "--targets",
        "my_targets:stripe",
        *options,
    ]
    environment = {"PYTHONPATH": f"{ROOT}:{folder}", "NO_PROXY": "127.0.0.1", "PATH": ""}
    done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout

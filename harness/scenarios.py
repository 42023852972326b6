"""The rows of the crash matrix: where the worker dies, what happens meanwhile, and what is wanted at the provider."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from harness.columns.job import GateSettings, KillPoint, Status

PAYMENT_MINOR = 10_000
APPROVED_MINOR = 2_000
CURRENCY = "usd"
DAY_AND_AN_HOUR_S = 25 * 3600.0

BURN_OFF = GateSettings(burn=False, roll_forward_s=0.0, settle_s=1.0, send_deadline_s=3.0, claim_ttl_s=8.0)
"""A gate that may not burn keys. The stand-in carries no stored failure to its end by itself and settles at once: these are
figures of the stand-in and not of Stripe, which states none."""


class Meanwhile(StrEnum):
    """What happens while no worker is there."""

    NOTHING = "nothing"
    HAND_REFUND = "hand_refund"
    REVOKED = "revoked"
    KEY_FORGOTTEN = "key_forgotten"
    DAY_PASSED = "day_passed"


@dataclass(frozen=True, slots=True)
class Money:
    """An amount at the provider, and in how many refunds."""

    minor: int
    refunds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One row.

    Args:
        name: its name.
        dies: where the worker dies, once.
        meanwhile: what happens then, before a new process starts.
        words: the same for a reader.
        by_hand_before_minor: what support refunds before the model looks, in the minor unit.
        by_hand_meanwhile_minor: what support refunds while no worker is there, in the minor unit.
        paid_out: whether the approved refund is wanted in the end.
        answer: what the worker has to report.
        settings: how the gate is set up.
        interlock_only: whether the row says something about the gate only.
    """

    name: str
    dies: KillPoint
    meanwhile: Meanwhile = Meanwhile.NOTHING
    words: str = "nothing"
    by_hand_before_minor: int = 0
    by_hand_meanwhile_minor: int = 0
    paid_out: bool = True
    answer: Status = Status.REFUNDED
    settings: GateSettings = field(default_factory=GateSettings)
    interlock_only: bool = False

    @property
    def want(self) -> Money:
        """What is wanted at the provider: what was refunded by hand, and the approved refund where it should come about."""
        amounts = [self.by_hand_before_minor, self.by_hand_meanwhile_minor, APPROVED_MINOR if self.paid_out else 0]
        return Money(sum(amounts), sum(1 for amount in amounts if amount))

    @property
    def forgets_key(self) -> bool:
        """Whether the provider forgets the key of the first send."""
        return self.meanwhile in (Meanwhile.KEY_FORGOTTEN, Meanwhile.DAY_PASSED)

    @property
    def moves_clock(self) -> bool:
        """Whether the provider's clock is moved, which every payment at that stand-in sees."""
        return self.meanwhile is Meanwhile.DAY_PASSED

    @property
    def emulated(self) -> bool:
        """Whether the row can't be had at the real provider."""
        return self.meanwhile in (Meanwhile.KEY_FORGOTTEN, Meanwhile.DAY_PASSED) or self.settings.stand_in_only


_HAND_REFUND = Scenario(
    name="hand_refund_during_outage",
    dies=KillPoint.BEFORE_SEND,
    meanwhile=Meanwhile.HAND_REFUND,
    words="support refunds the same $20 by hand",
    by_hand_meanwhile_minor=APPROVED_MINOR,
    paid_out=False,
    answer=Status.REFUSED,
)
_REVOKED = Scenario(
    name="approval_revoked_during_outage",
    dies=KillPoint.BEFORE_SEND,
    meanwhile=Meanwhile.REVOKED,
    words="the approval is revoked",
    paid_out=False,
    answer=Status.REFUSED,
)


def _without_burning(scenario: Scenario) -> Scenario:
    return Scenario(
        name=f"{scenario.name} (burn off)",
        dies=scenario.dies,
        meanwhile=scenario.meanwhile,
        words=f"{scenario.words}; the gate may not burn keys, so it waits for the horizon",
        by_hand_meanwhile_minor=scenario.by_hand_meanwhile_minor,
        paid_out=scenario.paid_out,
        answer=scenario.answer,
        settings=BURN_OFF,
        interlock_only=True,
    )


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(name="crash_after_commit", dies=KillPoint.AFTER_ANSWER),
        Scenario(
            name="hand_refund_before_decision",
            dies=KillPoint.AFTER_ANSWER,
            words="nothing; support had refunded $5 before the model looked",
            by_hand_before_minor=500,
        ),
        _HAND_REFUND,
        Scenario(
            name="unrelated_refund_during_outage",
            dies=KillPoint.BEFORE_SEND,
            meanwhile=Meanwhile.HAND_REFUND,
            words="support refunds an unrelated $5 by hand",
            by_hand_meanwhile_minor=500,
        ),
        _REVOKED,
        Scenario(
            name="approval_revoked_after_commit",
            dies=KillPoint.AFTER_ANSWER,
            meanwhile=Meanwhile.REVOKED,
            words="the approval is revoked; the refund is out, and has to be reported as sent",
        ),
        Scenario(
            name="key_pruned_after_24h",
            dies=KillPoint.AFTER_ANSWER,
            meanwhile=Meanwhile.DAY_PASSED,
            words="25 h pass, and the provider forgets the key",
        ),
        Scenario(
            name="key_lost_inside_window",
            dies=KillPoint.AFTER_ANSWER,
            meanwhile=Meanwhile.KEY_FORGOTTEN,
            words="the provider forgets the key early; no clock moves",
        ),
        Scenario(
            name="no_lookup_after_24h",
            dies=KillPoint.AFTER_ANSWER,
            meanwhile=Meanwhile.DAY_PASSED,
            words="25 h pass, and the gate cannot look refunds up",
            answer=Status.AMBIGUOUS,
            settings=GateSettings(lookup=False),
            interlock_only=True,
        ),
        _without_burning(_HAND_REFUND),
        _without_burning(_REVOKED),
    )
}

_NOTHING_RE_CHECKED = {
    "hand_refund_during_outage": "VIOLATED by $20",
    "approval_revoked_during_outage": "VIOLATED by $20",
    "key_pruned_after_24h": "VIOLATED by $20",
    "key_lost_inside_window": "VIOLATED by $20",
}
_CHECKED_BY_HAND = {"unrelated_refund_during_outage": "SHORT by $20"}

EXPECTED_TO_FAIL = {
    "standard": _NOTHING_RE_CHECKED,
    "checked": _CHECKED_BY_HAND,
    "temporal": _NOTHING_RE_CHECKED,
    "temporal_checked": _CHECKED_BY_HAND,
    "temporal_defaults": _NOTHING_RE_CHECKED,
    "temporal_checked_defaults": _CHECKED_BY_HAND,
}
"""What each of these columns is expected to get wrong, and how; it is expected to get every other row right."""

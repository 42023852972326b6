"""What the decision of a crash test rests on: read without faults, and judged by the target's own policy, for nobody's action."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from interlock.domain.effects import Effect, record_effect
from interlock.domain.ports import Target
from interlock.domain.premises import (
    ChangeKind,
    Premise,
    PremisePolicy,
    PremiseReading,
    Purpose,
    Strict,
    judge_premise,
    require_judged,
)
from interlock.testing.failures import TargetLies
from interlock.testing.faults import Network, quiet


class PremiseReader:
    """Reads premises where no fault can be the reason that they can't be read.

    Args:
        target: the target under test.
        network: what lies below it; it is quiet meanwhile.
        effect: what was decided.
        approval_id: by which others would refer to the same.

    Attributes:
        policies: by which the gates judge, by name.
    """

    def __init__(self, target: Target[Any], network: Network | None, effect: Effect[Any], approval_id: str) -> None:
        self._target = target
        self._network = network
        self._effect = record_effect(effect, target.codec, target.version)
        self._references = frozenset((approval_id,))
        policies: tuple[PremisePolicy, ...] = (Strict(), target.policy)
        self.policies = {policy.name: policy for policy in policies}

    def observe(self, subject: str) -> Premise:
        """Read what a decision is made on.

        Raises:
            TargetLies: it can't be read.
        """
        try:
            with quiet(self._network):
                return self._target.observe(subject)
        except Exception as error:
            raise unread(error) from error

    def look(self, decided: Premise) -> PremiseReading:
        """Read a premise again as the gates do.

        Raises:
            InvalidPremise: its policy says by itself that it can't judge the effect.
            TargetLies: it can't be read, or not be judged.
        """
        now = self.observe(decided.subject)
        purpose = Purpose(uuid4(), self._effect, self._references)
        policy = self.policies.get(decided.policy)
        if policy is None:
            raise TargetLies(
                f"its observations name the premise policy {decided.policy!r}, and it has {self._target.policy.name!r}"
            )
        require_judged(decided, policy, self._effect)
        try:
            return judge_premise(decided, now, policy, purpose)
        except Exception as error:
            raise TargetLies(f"without any fault its premise policy {policy.name!r} raised {_said(error)}") from error

    def require_noticed(self, kind: ChangeKind, decided: Premise, *, objects: bool, ours: bool) -> None:
        """See that the policy makes of what others changed what it has to.

        Args:
            kind: what was changed last.
            decided: the premise, as it was decided on.
            objects: whether it has to object, by all that was changed.
            ours: whether something of ours is there, which may look like somebody else's here.

        Raises:
            TargetLies: it makes something else of it.
        """
        reading = self.look(decided)
        if not reading.holds if objects else reading.holds or ours:
            return
        said = f"somebody made a {kind} change, and its premise policy says {reading.state}"
        if reading.facts_json != decided.facts_json:
            raise TargetLies(f"{said}: {reading.words}")
        raise TargetLies(
            f"{said}: what is observed is as it was; either the model's change changes nothing, or the target does not observe it"
        )

    def require_read(self, seen: Premise | None) -> None:
        """See that what was observed past a fault was read: a client may try again, and may not make it up.

        Raises:
            TargetLies: it was not read, or is not so.
        """
        if seen is None:
            return
        unanswered = self._network is not None and not self._network.answered
        if unanswered or self.observe(seen.subject).facts_json != seen.facts_json:
            raise TargetLies(f"its observe got no answer from the provider, and answered {seen.facts_json} all the same")


def unread(error: Exception) -> TargetLies:
    """Return what is wrong with a target that can't be observed.

    Args:
        error: what it raised.
    """
    return TargetLies(f"without any fault its observe raised {_said(error)}")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"

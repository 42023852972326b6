"""Interlock: a gate between a program that decides and an action that can't be taken back.

Public names are loaded when they are first used, so that `import interlock` brings in no journal and no provider.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str

    from interlock.approvals import ExternalApproval as ExternalApproval
    from interlock.config import GateConfig as GateConfig
    from interlock.domain.answers import Declined as Declined
    from interlock.domain.answers import Done as Done
    from interlock.domain.answers import Evidence as Evidence
    from interlock.domain.answers import NotSent as NotSent
    from interlock.domain.answers import SendAnswer as Answer
    from interlock.domain.answers import Settlement as Settlement
    from interlock.domain.answers import Unknown as Unknown
    from interlock.domain.effects import Effect as Effect
    from interlock.domain.effects import Money as Money
    from interlock.domain.ports import AsyncTarget as AsyncTarget
    from interlock.domain.ports import Target as Target
    from interlock.domain.premises import Premise as Premise
    from interlock.domain.profiles import CapabilityProfile as CapabilityProfile
    from interlock.functions import FunctionTarget as FunctionTarget
    from interlock.functions import target as target
    from interlock.gate import Gate as Gate
    from interlock.outcomes import Ambiguous as Ambiguous
    from interlock.outcomes import Committed as Committed
    from interlock.outcomes import InFlight as InFlight
    from interlock.outcomes import Outcome as Outcome
    from interlock.outcomes import Refused as Refused
    from interlock.projections.receipts import Receipt as Receipt
    from interlock.reading import Receipts as Receipts

_WHERE = {
    "Ambiguous": "outcomes",
    "Answer": "domain.answers:SendAnswer",
    "AsyncTarget": "domain.ports",
    "CapabilityProfile": "domain.profiles",
    "Committed": "outcomes",
    "Declined": "domain.answers",
    "Done": "domain.answers",
    "Effect": "domain.effects",
    "Evidence": "domain.answers",
    "ExternalApproval": "approvals",
    "FunctionTarget": "functions",
    "Gate": "gate",
    "GateConfig": "config",
    "InFlight": "outcomes",
    "Money": "domain.effects",
    "NotSent": "domain.answers",
    "Outcome": "outcomes",
    "Premise": "domain.premises",
    "Receipt": "projections.receipts",
    "Receipts": "reading",
    "Refused": "outcomes",
    "Settlement": "domain.answers",
    "Target": "domain.ports",
    "Unknown": "domain.answers",
    "target": "functions",
}

__all__ = [
    "Ambiguous",
    "Answer",
    "AsyncTarget",
    "CapabilityProfile",
    "Committed",
    "Declined",
    "Done",
    "Effect",
    "Evidence",
    "ExternalApproval",
    "FunctionTarget",
    "Gate",
    "GateConfig",
    "InFlight",
    "Money",
    "NotSent",
    "Outcome",
    "Premise",
    "Receipt",
    "Receipts",
    "Refused",
    "Settlement",
    "Target",
    "Unknown",
    "__version__",
    "target",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name == "__version__":
        from importlib.metadata import version

        return version("interlock-gate")
    if name not in _WHERE:
        raise AttributeError(f"module 'interlock' has no attribute {name!r}")
    module, _, attribute = _WHERE[name].partition(":")
    value = getattr(import_module(f"interlock.{module}"), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted(__all__)

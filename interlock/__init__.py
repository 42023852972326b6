"""Interlock: a gate between a program that decides and an action that can't be taken back.

Public names are loaded when they are first used, so that `import interlock` brings in no journal and no provider.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str

    from interlock.approvals import ApprovalView as ApprovalView
    from interlock.approvals import ExternalApproval as ExternalApproval
    from interlock.async_gate import AsyncGate as AsyncGate
    from interlock.config import GateConfig as GateConfig
    from interlock.domain.answers import Absent as Absent
    from interlock.domain.answers import AlreadyUsed as AlreadyUsed
    from interlock.domain.answers import BurnAnswer as BurnAnswer
    from interlock.domain.answers import Burned as Burned
    from interlock.domain.answers import CannotTell as CannotTell
    from interlock.domain.answers import Declined as Declined
    from interlock.domain.answers import Done as Done
    from interlock.domain.answers import Evidence as Evidence
    from interlock.domain.answers import Found as Found
    from interlock.domain.answers import InProgress as InProgress
    from interlock.domain.answers import KeyState as KeyState
    from interlock.domain.answers import LookupAnswer as LookupAnswer
    from interlock.domain.answers import NotSent as NotSent
    from interlock.domain.answers import SendAnswer as Answer
    from interlock.domain.answers import Settlement as Settlement
    from interlock.domain.answers import Unknown as Unknown
    from interlock.domain.books import BookEntry as BookEntry
    from interlock.domain.books import Books as Books
    from interlock.domain.cursors import Cursor as Cursor
    from interlock.domain.effects import DataclassCodec as DataclassCodec
    from interlock.domain.effects import Effect as Effect
    from interlock.domain.effects import EffectCodec as EffectCodec
    from interlock.domain.effects import Money as Money
    from interlock.domain.ports import ApprovalSource as ApprovalSource
    from interlock.domain.ports import AsyncTarget as AsyncTarget
    from interlock.domain.ports import Deadline as Deadline
    from interlock.domain.ports import ExternalTerms as ExternalTerms
    from interlock.domain.ports import Target as Target
    from interlock.domain.premises import Change as Change
    from interlock.domain.premises import ChangeKind as ChangeKind
    from interlock.domain.premises import Facts as Facts
    from interlock.domain.premises import Judgement as Judgement
    from interlock.domain.premises import Premise as Premise
    from interlock.domain.premises import PremisePolicy as PremisePolicy
    from interlock.domain.premises import Purpose as Purpose
    from interlock.domain.premises import facts_text as facts_text
    from interlock.domain.profiles import CapabilityProfile as CapabilityProfile
    from interlock.functions import AsyncFunctionTarget as AsyncFunctionTarget
    from interlock.functions import FunctionTarget as FunctionTarget
    from interlock.functions import target as target
    from interlock.gate import Gate as Gate
    from interlock.log.config import LogConfig as LogConfig
    from interlock.outcomes import Ambiguous as Ambiguous
    from interlock.outcomes import Committed as Committed
    from interlock.outcomes import InFlight as InFlight
    from interlock.outcomes import Outcome as Outcome
    from interlock.outcomes import Refused as Refused
    from interlock.outcomes import Report as Report
    from interlock.projections.followers import EventBatch as EventBatch
    from interlock.projections.followers import Follower as Follower
    from interlock.projections.followers import Lag as Lag
    from interlock.projections.followers import LogEvent as LogEvent
    from interlock.projections.receipts import Receipt as Receipt
    from interlock.projections.verification import Verification as Verification
    from interlock.reading import ReceiptPage as ReceiptPage
    from interlock.reading import Receipts as Receipts

_WHERE = {
    "Absent": "domain.answers",
    "AlreadyUsed": "domain.answers",
    "Ambiguous": "outcomes",
    "Answer": "domain.answers:SendAnswer",
    "ApprovalSource": "domain.ports",
    "ApprovalView": "approvals",
    "AsyncFunctionTarget": "functions",
    "AsyncGate": "async_gate",
    "AsyncTarget": "domain.ports",
    "BookEntry": "domain.books",
    "Books": "domain.books",
    "BurnAnswer": "domain.answers",
    "Burned": "domain.answers",
    "CannotTell": "domain.answers",
    "CapabilityProfile": "domain.profiles",
    "Change": "domain.premises",
    "ChangeKind": "domain.premises",
    "Committed": "outcomes",
    "Cursor": "domain.cursors",
    "DataclassCodec": "domain.effects",
    "Deadline": "domain.ports",
    "Declined": "domain.answers",
    "Done": "domain.answers",
    "Effect": "domain.effects",
    "EffectCodec": "domain.effects",
    "EventBatch": "projections.followers",
    "Evidence": "domain.answers",
    "ExternalApproval": "approvals",
    "ExternalTerms": "domain.ports",
    "Facts": "domain.premises",
    "Follower": "projections.followers",
    "Found": "domain.answers",
    "FunctionTarget": "functions",
    "Gate": "gate",
    "GateConfig": "config",
    "InFlight": "outcomes",
    "InProgress": "domain.answers",
    "Judgement": "domain.premises",
    "KeyState": "domain.answers",
    "Lag": "projections.followers",
    "LogConfig": "log.config",
    "LogEvent": "projections.followers",
    "LookupAnswer": "domain.answers",
    "Money": "domain.effects",
    "NotSent": "domain.answers",
    "Outcome": "outcomes",
    "Premise": "domain.premises",
    "PremisePolicy": "domain.premises",
    "Purpose": "domain.premises",
    "Receipt": "projections.receipts",
    "ReceiptPage": "reading",
    "Receipts": "reading",
    "Refused": "outcomes",
    "Report": "outcomes",
    "Settlement": "domain.answers",
    "Target": "domain.ports",
    "Unknown": "domain.answers",
    "Verification": "projections.verification",
    "facts_text": "domain.premises",
    "target": "functions",
}

__all__ = [
    "Absent",
    "AlreadyUsed",
    "Ambiguous",
    "Answer",
    "ApprovalSource",
    "ApprovalView",
    "AsyncFunctionTarget",
    "AsyncGate",
    "AsyncTarget",
    "BookEntry",
    "Books",
    "BurnAnswer",
    "Burned",
    "CannotTell",
    "CapabilityProfile",
    "Change",
    "ChangeKind",
    "Committed",
    "Cursor",
    "DataclassCodec",
    "Deadline",
    "Declined",
    "Done",
    "Effect",
    "EffectCodec",
    "EventBatch",
    "Evidence",
    "ExternalApproval",
    "ExternalTerms",
    "Facts",
    "Follower",
    "Found",
    "FunctionTarget",
    "Gate",
    "GateConfig",
    "InFlight",
    "InProgress",
    "Judgement",
    "KeyState",
    "Lag",
    "LogConfig",
    "LogEvent",
    "LookupAnswer",
    "Money",
    "NotSent",
    "Outcome",
    "Premise",
    "PremisePolicy",
    "Purpose",
    "Receipt",
    "ReceiptPage",
    "Receipts",
    "Refused",
    "Report",
    "Settlement",
    "Target",
    "Unknown",
    "Verification",
    "__version__",
    "facts_text",
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

"""The crash kit: crash your own target at every transition, and see whether it can be trusted with a gate.

    from interlock.testing import CrashTest

    PAYOUTS = CrashTest(world=Bank, target=Payouts, effect=lambda bank, payouts: payouts.pay("acct_1", 2000))
    TestPayouts = PAYOUTS.as_test_case()

Needs the extra `testing` where a test case is made: `pip install interlock-gate[testing]`.
"""

from __future__ import annotations

from interlock.domain.premises import ChangeKind as ChangeKind
from interlock.testing.failures import CrashTestFailure as CrashTestFailure
from interlock.testing.failures import GateViolation as GateViolation
from interlock.testing.failures import LiarReport as LiarReport
from interlock.testing.failures import TargetLies as TargetLies
from interlock.testing.failures import WorldLies as WorldLies
from interlock.testing.faults import Call as Call
from interlock.testing.faults import Fault as Fault
from interlock.testing.faults import JournalFault as JournalFault
from interlock.testing.faults import Network as Network
from interlock.testing.instants import Instant as Instant
from interlock.testing.machine import CrashTest as CrashTest
from interlock.testing.machine import run_crash_test as run_crash_test
from interlock.testing.outside_steps import Approve as Approve
from interlock.testing.outside_steps import Arm as Arm
from interlock.testing.outside_steps import ArmJournal as ArmJournal
from interlock.testing.outside_steps import ArmProvider as ArmProvider
from interlock.testing.outside_steps import Change as Change
from interlock.testing.outside_steps import ForgetKeys as ForgetKeys
from interlock.testing.outside_steps import Resolve as Resolve
from interlock.testing.outside_steps import Revoke as Revoke
from interlock.testing.provider import PROFILES as PROFILES
from interlock.testing.provider import SimulatedProvider as SimulatedProvider
from interlock.testing.provider import SimulatedTarget as SimulatedTarget
from interlock.testing.report import Report as Report
from interlock.testing.steps import Crash as Crash
from interlock.testing.steps import Fire as Fire
from interlock.testing.steps import GoOn as GoOn
from interlock.testing.steps import LoseLock as LoseLock
from interlock.testing.steps import PassTime as PassTime
from interlock.testing.steps import Place as Place
from interlock.testing.steps import Reconcile as Reconcile
from interlock.testing.steps import Recover as Recover
from interlock.testing.steps import Step as Step
from interlock.testing.steps import StepBack as StepBack
from interlock.testing.world import HasChanges as HasChanges
from interlock.testing.world import HasFaults as HasFaults
from interlock.testing.world import LedgerEntry as LedgerEntry
from interlock.testing.world import ProviderWorld as ProviderWorld
from interlock.testing.world import WorldClock as WorldClock

"""Puts a gate together: the journal, its lock and its clock, and what effects may name."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Mapping
from typing import TypeVar

from interlock.config import GateConfig
from interlock.domain.ports import ApprovalSource, AsyncTarget
from interlock.domain.premises import PremisePolicy, Strict
from interlock.domain.sending import CLAIM_MARGIN_S
from interlock.driver import AnyTarget, Driver, Performer, Registry
from interlock.errors import InvalidConfiguration
from interlock.infrastructure.clock import Clock
from interlock.infrastructure.opening import open_journal

D = TypeVar("D", bound=Performer)

_assembled: weakref.WeakSet[Performer] = weakref.WeakSet()


def assemble(
    kind: type[D],
    url: str,
    targets: Iterable[AnyTarget],
    policies: Iterable[PremisePolicy],
    approval_sources: Mapping[str, ApprovalSource],
    config: GateConfig,
    clock: Clock | None,
) -> D:
    """Return a driver on the journal that the URL names, as a holder of its own, also in every child that is forked.

    Raises:
        InvalidConfiguration: the targets do not fit together, or with the kind of driver or the figures.
        JournalError: the journal can't be opened.
    """
    registered = _registry(list(targets), policies, approval_sources)
    for target in registered.targets.values():
        _require_deadline_inside_claim(target, config)
        if issubclass(kind, Driver) and isinstance(target, AsyncTarget):
            raise InvalidConfiguration(
                f"target {target.name!r} has to be awaited; open an AsyncGate for it, or register a Target"
            )
    journal = open_journal(url)
    try:
        locks = journal.take_lock()
        try:
            driver = kind(journal, registered, locks, clock or journal.clock(), config)
        except BaseException:
            locks.release()
            raise
    except BaseException:
        journal.close()
        raise
    _assembled.add(driver)
    return driver


def _registry(
    targets: list[AnyTarget], policies: Iterable[PremisePolicy], approval_sources: Mapping[str, ApprovalSource]
) -> Registry:
    by_name = {target.name: target for target in targets}
    if len(by_name) != len(targets):
        raise InvalidConfiguration("two targets have the same name; give one of them another")
    known: dict[str, PremisePolicy] = {}
    for policy in (Strict(), *(target.policy for target in targets), *policies):
        known[policy.name] = policy
    return Registry(by_name, known, dict(approval_sources))


def _require_deadline_inside_claim(target: AnyTarget, config: GateConfig) -> None:
    deadline_s = target.capabilities.send_deadline_s
    if deadline_s + CLAIM_MARGIN_S > config.claim_ttl_s:
        raise InvalidConfiguration(
            f"target {target.name!r} may send for {deadline_s:g} s, which is not at least {CLAIM_MARGIN_S} s inside the claim's "
            f"time to live of {config.claim_ttl_s:g} s; lower send_deadline_s or raise claim_ttl_s"
        )


def _renew_all_after_fork() -> None:
    for driver in list(_assembled):
        if not driver.is_shut:  # one that was stopped still has its lock
            driver.renew_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all_after_fork)

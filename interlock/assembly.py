"""Puts a gate together: the journal, its lock and its clock, and what effects may name."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Mapping
from typing import TypeVar

from interlock.config import GateConfig
from interlock.domain.effects import is_a
from interlock.domain.ports import ApprovalSource, AsyncTarget, Target
from interlock.domain.premises import PremisePolicy, Strict
from interlock.domain.sending import CLAIM_MARGIN_S
from interlock.driver import Anchoring, AnyTarget, Driver, Performer, Registry
from interlock.errors import InvalidConfiguration
from interlock.infrastructure.clock import Clock
from interlock.infrastructure.journal import Journal
from interlock.infrastructure.opening import open_journal
from interlock.log.config import LogConfig

D = TypeVar("D", bound=Performer)

SEND_MARGIN_S = 5
"""How much of a send's time is left for the send itself when its checkpoint comes at the last moment."""

_assembled: weakref.WeakSet[Performer] = weakref.WeakSet()


def assemble(
    kind: type[D],
    url: str,
    targets: Iterable[AnyTarget],
    policies: Iterable[PremisePolicy],
    approval_sources: Mapping[str, ApprovalSource],
    config: GateConfig,
    clock: Clock | None,
    log: LogConfig | None = None,
) -> D:
    """Return a driver on the journal that the URL names, as a holder of its own, also in every child that is forked.

    Raises:
        InvalidConfiguration: the targets do not fit together, or with the kind of driver or the figures.
        JournalError: the journal can't be opened.
    """
    _require_types(config, clock, log)
    registered = _registry(_targets(targets), policies, approval_sources)
    for target in registered.targets.values():
        _require_deadline_inside_claim(target, config)
        _require_time_to_send(target, log)
        if issubclass(kind, Driver) and isinstance(target, AsyncTarget):
            raise InvalidConfiguration(
                f"target {target.name!r} has to be awaited; open an AsyncGate for it, or register a Target"
            )
    journal = open_journal(url)
    try:
        locks = journal.take_lock()
        try:
            given = clock or journal.clock()
            service = None if log is None else _service(journal, log, given)
            driver = kind(journal, registered, locks, given, config, service)
        except BaseException:
            locks.release()
            raise
    except BaseException:
        journal.close()
        raise
    _assembled.add(driver)
    if service is not None:
        service.start()
    return driver


def _service(journal: Journal, log: LogConfig, clock: Clock) -> Anchoring:
    try:
        from interlock.log.service import LogService
    except ImportError as error:
        raise InvalidConfiguration(
            "a log that is signed needs cryptography: install interlock-gate with the extra `evidence`; nothing was opened"
        ) from error
    return LogService(journal, log, clock)


def _require_types(config: object, clock: object, log: object) -> None:
    """Refuse what Python's own checks would let through until the first action."""
    if not isinstance(config, GateConfig) or not isinstance(log, LogConfig | None):
        raise InvalidConfiguration("config is a GateConfig, and log a LogConfig; nothing was opened")
    if clock is not None and not callable(getattr(clock, "now", None)):
        raise InvalidConfiguration("a clock has a method now(); nothing was opened")


def _targets(given: Iterable[AnyTarget]) -> list[AnyTarget]:
    if not is_a(given, Iterable):
        raise InvalidConfiguration("targets is a list, such as targets=[target]; nothing was opened")
    targets = list(given)
    for each in targets:
        if not is_a(each, Target, AsyncTarget) or type(each.name) is not str or not each.name.isprintable():
            raise InvalidConfiguration(
                f"{each!r:.80} is no target with a printable name: an instance of a Target, or a function under @target; "
                "nothing was opened"
            )
    return targets


def _registry(
    targets: list[AnyTarget], policies: Iterable[PremisePolicy], approval_sources: Mapping[str, ApprovalSource]
) -> Registry:
    by_name = {target.name: target for target in targets}
    if len(by_name) != len(targets):
        raise InvalidConfiguration("two targets have the same name; give one of them another")
    for source in approval_sources.values():
        if not callable(getattr(source, "read", None)):
            raise InvalidConfiguration(
                f"{source!r:.80} is no approval source: it has no method read(approval_id); nothing was opened"
            )
    known: dict[str, PremisePolicy] = {}
    for policy in (Strict(), *(target.policy for target in targets), *policies):
        if not callable(getattr(policy, "judge", None)):
            raise InvalidConfiguration(f"{policy!r:.80} is no premise policy: it has no method judge(…); nothing was opened")
        known[policy.name] = policy
    return Registry(by_name, known, dict(approval_sources))


def _require_deadline_inside_claim(target: AnyTarget, config: GateConfig) -> None:
    deadline_s = target.capabilities.send_deadline_s
    if deadline_s + CLAIM_MARGIN_S > config.claim_ttl_s:
        raise InvalidConfiguration(
            f"target {target.name!r} may send for {deadline_s:g} s, which is not at least {CLAIM_MARGIN_S} s inside the claim's "
            f"time to live of {config.claim_ttl_s:g} s; lower send_deadline_s or raise claim_ttl_s"
        )


def _require_time_to_send(target: AnyTarget, log: LogConfig | None) -> None:
    deadline_s = target.capabilities.send_deadline_s
    if log is not None and log.anchor is not None and log.anchor_wait_s + SEND_MARGIN_S > deadline_s:
        raise InvalidConfiguration(
            f"target {target.name!r} may send for {deadline_s:g} s, and up to {log.anchor_wait_s:g} s of it are waited for a "
            f"checkpoint, which leaves less than {SEND_MARGIN_S} s; lower anchor_wait_s or raise send_deadline_s"
        )


def _renew_all_after_fork() -> None:
    for driver in list(_assembled):
        if not driver.is_shut:  # one that was stopped still has its lock
            driver.renew_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all_after_fork)

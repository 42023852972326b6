"""Defects of what watches from outside, and of what forgets: witness, monitor, erasure, audit."""

from __future__ import annotations

from harness.sabotage.defects import AUDIT, ERASURE, MONITOR, WITNESS, Defect, lines

_WITNESS_STATE = "interlock/witness/state.py"
_WITNESS = "interlock/witness/protocol.py"
_WITNESS_SERVER = "interlock/witness/server.py"
_WATCHING = "interlock/monitor/watching.py"
_PATHS = "interlock/monitor/paths.py"
_SQLITE_TRIGGER = "interlock/infrastructure/sqlite/migrations/0003_erasure.sql"
_POSTGRES_TRIGGER = "interlock/infrastructure/postgres/migrations/0004_erasure.sql"
_AUDIT = "interlock/audit.py"
_VERIFICATION = "interlock/projections/verification.py"
_WITNESS_TEST = "tests/integration/test_witness.py"
_MONITOR_TEST = "tests/integration/test_monitor.py"
_ERASURE_TEST = "tests/contract/test_erasure.py"
_AUDIT_TEST = "tests/integration/test_audit.py"
_COMMAND_TEST = "tests/integration/test_cli_watching.py"
_RIGHTS_TEST = "tests/integration/test_postgres_rights.py"

DEFECTS = (
    Defect(
        name="two-monitors-on-one-state",
        breaks=(MONITOR,),
        file=_WATCHING,
        old=lines(
            "        with self._state.looking():",
            "            return self._look()",
        ),
        new=lines(
            "        return self._look()",
        ),
        tests=(_MONITOR_TEST,),
    ),
    Defect(
        name="audit-of-many-loops",
        breaks=(AUDIT,),
        file=_AUDIT,
        old="self.loop.run(asked)",
        new="asyncio.run(asked)",
        tests=(_AUDIT_TEST,),
    ),
    Defect(
        name="witness-no-compare-and-set",
        breaks=(WITNESS,),
        file=_WITNESS_STATE,
        old="if (None if row is None else row[0]) != (None if before is None else before.serialize()):",
        new="if False:",
        tests=(_WITNESS_TEST,),
    ),
    Defect(
        name="witness-answers-without-writing",
        breaks=(WITNESS,),
        file=_WITNESS,
        old="if self._heads.advance(checkpoint.origin, before, note.with_signatures(line)):",
        new="if True:",
        tests=(_WITNESS_TEST,),
    ),
    Defect(
        name="witness-no-consistency-check",
        breaks=(WITNESS,),
        file=_WITNESS,
        old=lines(
            "        verify_consistency(head.size, checkpoint.size, head.root, checkpoint.root, proof)",
        ),
        new=lines(
            "        pass",
        ),
        tests=(_WITNESS_TEST,),
    ),
    Defect(
        name="witness-a-pages-requests-pass",
        breaks=(WITNESS,),
        file=_WITNESS_SERVER,
        old="        if any(name in self.headers for name in _OF_A_PAGE):",
        new="        if False:",
        tests=(_WITNESS_TEST,),
    ),
    Defect(
        name="witness-any-host-name-passes",
        breaks=(WITNESS,),
        file=_WITNESS_SERVER,
        old="        if host not in self.allowed_hosts:",
        new="        if False:",
        tests=(_WITNESS_TEST,),
    ),
    Defect(
        name="witness-waits-for-the-slowest",
        breaks=(WITNESS,),
        file=_WITNESS_SERVER,
        old=lines(
            "            if len(self._open) >= self._most:",
            "                self._hang_up_on_the_slowest()",
            "            if not self._changed.wait_for(lambda: len(self._open) < self._most, _PATIENCE_S):",
        ),
        new="            if not self._changed.wait_for(lambda: len(self._open) < self._most):",
        tests=(_WITNESS_TEST,),
    ),
    Defect(
        name="witness-makes-a-lost-state-anew",
        breaks=(WITNESS,),
        file=_WITNESS_STATE,
        old=lines(
            "        if create:",
        ),
        new=lines(
            "        if create or not path.exists():",
        ),
        tests=(_WITNESS_TEST,),
    ),
    Defect(
        name="witness-keeps-strangers-signatures",
        breaks=(WITNESS,),
        file=_WITNESS,
        old="tuple(one for one in note.signatures if (one.name, one.key_id) in ids)",
        new="note.signatures",
        tests=(_WITNESS_TEST,),
    ),
    Defect(
        name="witness-body-limit-off",
        breaks=(WITNESS,),
        file=_WITNESS_SERVER,
        old="        elif length > MAX_REQUEST_BYTES:",
        new="        elif False:",
        tests=(_WITNESS_TEST,),
    ),
    Defect(
        name="witness-listens-anywhere",
        breaks=(WITNESS,),
        file=_WITNESS_SERVER,
        old="    if not (loopback or beyond_loopback):",
        new="    if False:",
        tests=(_WITNESS_TEST,),
    ),
    Defect(
        name="monitor-root-not-compared",
        breaks=(MONITOR,),
        file=_WATCHING,
        old="if look.frontier.size != checkpoint.size or look.frontier.root() != checkpoint.root:",
        new="if False:",
        tests=(_MONITOR_TEST,),
    ),
    Defect(
        name="monitor-steps-back-unseen",
        breaks=(MONITOR,),
        file=_WATCHING,
        old="_step_back(held.checkpoint, checkpoint) or ",
        new="",
        tests=(_MONITOR_TEST,),
    ),
    Defect(
        name="monitor-chain-not-checked",
        breaks=(MONITOR,),
        file=_PATHS,
        old="if (record.version, record.prev) != (version + 1, prev):",
        new="if False:",
        tests=(_MONITOR_TEST,),
    ),
    Defect(
        name="monitor-any-order-is-legal",
        breaks=(MONITOR,),
        file=_PATHS,
        old='    return None if event.capitalize() in legal else f"{event} can\'t follow in status {status}"',
        new="    return None",
        tests=(_MONITOR_TEST,),
    ),
    Defect(
        name="monitor-held-before-it-is-noted-down",
        breaks=(MONITOR,),
        file=_WATCHING,
        old=lines(
            "            self._state.note_down(accepted=note.serialize().decode(), at_s=self._now_s())",
            "            self._state.hold(note, look.frontier, look.log)",
        ),
        new=lines(
            "            self._state.hold(note, look.frontier, look.log)",
            "            self._state.note_down(accepted=note.serialize().decode(), at_s=self._now_s())",
        ),
        tests=(_MONITOR_TEST,),
    ),
    Defect(
        name="monitor-policys-quorum-ignored",
        breaks=(MONITOR,),
        file=_WATCHING,
        old="accept_checkpoint(note, self._policy)",
        new='accept_checkpoint(note, Policy(self._policy.logs, (), (), "none"))',
        tests=(_MONITOR_TEST,),
    ),
    Defect(
        name="monitor-states-not-judged",
        breaks=(MONITOR,),
        file=_WATCHING,
        old="if self._source.shows_states and not illegal:",
        new="if False:",
        tests=(_COMMAND_TEST,),
    ),
    Defect(
        name="monitor-what-was-read-before-is-not-read-again",
        breaks=(MONITOR,),
        file=_WATCHING,
        old=" or self._changed_behind(held.checkpoint)",
        new="",
        tests=(_COMMAND_TEST,),
    ),
    Defect(
        name="erasure-sqlite-forgets-without-an-erased",
        breaks=(ERASURE,),
        file=_SQLITE_TRIGGER,
        old=lines(
            "            AND later.topic IN ('interlock.action.erased', 'interlock.approval.erased')",
        ),
        new="",
        tests=(_ERASURE_TEST,),
    ),
    Defect(
        name="erasure-postgresql-forgets-without-an-erased",
        breaks=(ERASURE,),
        file=_POSTGRES_TRIGGER,
        old="            'AND topic IN (''interlock.action.erased'', ''interlock.approval.erased''))',",
        new="            ')',",
        tests=(_ERASURE_TEST,),
    ),
    Defect(
        name="erasure-forgotten-before-it-is-written",
        breaks=(ERASURE,),
        file="interlock/operations.py",
        old=lines(
            "            yield from mark_erased(action, checked_reason, checked_by)",
            "            action_id = action.id",
        ),
        new=lines(
            "            yield from ForgetStates(action.id)",
            "            yield from mark_erased(action, checked_reason, checked_by)",
            "            action_id = action.id",
        ),
        tests=(_ERASURE_TEST,),
    ),
    Defect(
        name="erasure-a-missing-state-is-nothing",
        breaks=(ERASURE,),
        file=_VERIFICATION,
        old=lines(
            "        for aggregate_id, places in self.hidden.items():",
        ),
        new=lines(
            "        for aggregate_id, places in ():",
        ),
        tests=(_ERASURE_TEST,),
    ),
    Defect(
        name="erasure-a-half-erasure-is-nothing",
        breaks=(ERASURE,),
        file=_VERIFICATION,
        old=lines(
            "        if gone != row.version - 1:",
        ),
        new=lines(
            "        if False:",
        ),
        tests=(_ERASURE_TEST,),
    ),
    Defect(
        name="erasure-freed-bytes-stay",
        breaks=(ERASURE,),
        file="interlock/infrastructure/sqlite/connections.py",
        old=lines(
            '    connection.execute("PRAGMA secure_delete=ON")',
        ),
        new=lines(
            '    connection.execute("PRAGMA secure_delete=OFF")',
        ),
        tests=(_ERASURE_TEST,),
    ),
    Defect(
        name="erasure-what-is-open-is-erased-too",
        breaks=(ERASURE,),
        file="interlock/domain/erasure.py",
        old=lines(
            "        _require_erasable(action)",
        ),
        new="",
        tests=(_ERASURE_TEST,),
    ),
    Defect(
        name="erasure-the-key-is-free-again",
        breaks=(ERASURE,),
        file="interlock/infrastructure/journal.py",
        old=lines(
            "            raise ActionErased(str(erased.originator_id), erased.remains.status)",
            "        aggregate",
        ),
        new=lines(
            "            return None",
            "        aggregate",
        ),
        tests=(_ERASURE_TEST,),
    ),
    Defect(
        name="erasure-a-live-approval-is-erased",
        breaks=(ERASURE,),
        file="interlock/approvals.py",
        old="        if not approval.is_over(now):",
        new="        if False:",
        tests=(_ERASURE_TEST,),
    ),
    Defect(
        name="erasure-the-owners-function-takes-the-callers-tables",
        breaks=(ERASURE,),
        file=_POSTGRES_TRIGGER,
        old="format('ALTER FUNCTION forget_states(uuid) SET search_path = %I, pg_catalog, pg_temp', current_schema())",
        new="'SELECT 1'",
        tests=(_RIGHTS_TEST,),
    ),
    Defect(
        name="erasure-anybody-may-forget",
        breaks=(ERASURE,),
        file=_POSTGRES_TRIGGER,
        old="REVOKE EXECUTE ON FUNCTION forget_states(uuid) FROM PUBLIC;",
        new="",
        tests=(_RIGHTS_TEST,),
    ),
    Defect(
        name="audit-a-failed-read-is-an-empty-book",
        breaks=(AUDIT,),
        file="interlock/domain/ports.py",
        old=lines(
            "            return _one_of((Books, CannotTell), self._books(subject, deadline=deadline))",
            "        except Exception as error:  # noqa: BLE001 - a failed read is not an empty book",
            "            return CannotTell(_named(error))",
        ),
        new=lines(
            "            got = self._books(subject, deadline=deadline)",
            "            return got if isinstance(got, Books) else Books(())",
            "        except Exception:",
            "            return Books(())",
        ),
        tests=(_AUDIT_TEST,),
    ),
    Defect(
        name="audit-marks-are-not-looked-at",
        breaks=(AUDIT,),
        file=_AUDIT,
        old="        if entry.action_mark is None:",
        new="        if True:",
        tests=(_AUDIT_TEST,),
    ),
    Defect(
        name="audit-amounts-are-not-compared",
        breaks=(AUDIT,),
        file=_AUDIT,
        old="            if asked != got:",
        new="            if False:",
        tests=(_AUDIT_TEST,),
    ),
    Defect(
        name="audit-late-failures-are-not-seen",
        breaks=(AUDIT,),
        file=_AUDIT,
        old="        if entry.settlement is not recorded:",
        new="        if False:",
        tests=(_AUDIT_TEST,),
    ),
    Defect(
        name="audit-what-is-missing-is-not-seen",
        breaks=(AUDIT,),
        file=_AUDIT,
        old=lines(
            "        if entry is None:",
            "            yield",
        ),
        new=lines(
            "        if entry is None:",
            "            return",
            "            yield",
        ),
        tests=(_AUDIT_TEST,),
    ),
)

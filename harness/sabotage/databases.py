"""Defects of the journal on PostgreSQL: answers that are lost, locks that lie, and what the server is relied on for."""

from __future__ import annotations

from harness.sabotage.defects import FOLLOWERS, LIVENESS, Defect, lines

_FOLDER = "interlock/infrastructure/postgres"
_RECORDER = f"{_FOLDER}/recorder.py"
_CONNECTIONS = f"{_FOLDER}/connections.py"
_LOCKS = f"{_FOLDER}/locks.py"
_JOURNAL = f"{_FOLDER}/migrations/0001_journal.sql"
_APPENDING = f"{_FOLDER}/appending.py"
_APPEND = f"{_FOLDER}/migrations/0005_append.sql"
_STATEMENTS = f"{_FOLDER}/statements.py"
_SEQUENCER = f"{_FOLDER}/migrations/0002_sequencer.sql"

_TESTS = "tests/integration/test_postgres"
_FAILURES_TEST = f"{_TESTS}_failures.py"
_LIMITS_TEST = f"{_TESTS}_failures_limits.py"
_STANDBY_TEST = f"{_TESTS}_failures_standby.py"
_CONNECTING_TEST = f"{_TESTS}_fork.py"
_CLOCK_TEST = f"{_TESTS}_failures_clock.py"
_CLAIMS_TEST = f"{_TESTS}_claims.py"
_FORK_TEST = "tests/integration/test_fork.py"
_DEFAULTS_TEST = f"{_TESTS}_defaults.py"
_RESTORED_TEST = f"{_TESTS}_restored.py"
_RIGHTS_TEST = f"{_TESTS}_rights.py"
_SEQUENCER_TEST = f"{_TESTS}_sequencer.py"
_APPROVALS_TEST = f"{_TESTS}_approvals.py"
_APPENDING_TEST = f"{_TESTS}_appending.py"
_STATEMENTS_TEST = f"{_TESTS}_statements.py"
_MANY_TEST = f"{_TESTS}_many_processes.py"

_APPENDS = (
    Defect(
        name="writers-of-an-approval-do-not-stand-in-line",
        breaks=("I3",),
        file=_APPENDING,
        old="        if share.is_approval or not share.events:\n",
        new="        if not share.events:\n",
        tests=(_APPROVALS_TEST,),
    ),
    Defect(
        name="asserted-version-read-before-the-wait",
        breaks=("I3",),
        file=_APPEND,
        old="    PERFORM pg_advisory_xact_lock(hashtextextended(aggregate::text, 0::bigint));\n",
        new="",
        tests=(_APPROVALS_TEST,),
    ),
    Defect(
        name="asserted-version-not-looked-at",
        breaks=("I3",),
        file=_APPEND,
        old="RETURN version = coalesce(",
        new="RETURN true OR version = coalesce(",
        tests=(_APPROVALS_TEST,),
    ),
    Defect(
        name="chain-goes-on-from-an-end-that-is-not-the-journal-s",
        breaks=("I9",),
        file=_APPENDING,
        old='({version}, {next(places)}::bytea)")',
        new='({version}, coalesce({head}.leaf_hash, {next(places)}::bytea))")',
        tests=(_APPENDING_TEST,),
    ),
)

_ANSWERS = (
    Defect(
        name="commit-that-fails-behind-its-rows-is-taken-for-one",
        breaks=("I1", "I8"),
        file=_STATEMENTS,
        old="    for result in results:\n",
        new="    for result in results[:1]:\n",
        tests=(_STATEMENTS_TEST,),
    ),
    Defect(
        name="session-whose-answer-was-lost-may-still-write",
        breaks=("I8",),
        file=_RECORDER,
        old="                self._await_last_word(lost)\n",
        new="                pass\n",
        tests=(_FAILURES_TEST,),
    ),
    Defect(
        name="session-that-does-not-end-is-taken-for-ended",
        breaks=("I8",),
        file=_RECORDER,
        old='                        raise JournalUnavailable(f"the session does not end, and {_NOT_KNOWN}")\n',
        new="                        return\n",
        tests=(_FAILURES_TEST,),
    ),
    Defect(
        name="read-back-is-not-behind-a-commit",
        breaks=("I1", "I8"),
        file=_RECORDER,
        old="        self._rows(_COMMIT_NOTHING)\n",
        new="        pass\n",
        tests=(_FAILURES_TEST,),
    ),
    Defect(
        name="session-named-by-what-a-proxy-invents",
        breaks=("I8",),
        file=_RECORDER,
        old="end_session(connection, lost.session)",
        new="end_session(connection, (lost.info.backend_pid, lost.session[1]))",
        tests=(_CLAIMS_TEST,),
    ),
    Defect(
        name="lost-session-is-asked-after-by-a-role-that-may-not-see-it",
        breaks=("I8",),
        file=_CONNECTIONS,
        old='        connection.execute("SET LOCAL ROLE NONE")\n',
        new="",
        tests=(_FAILURES_TEST,),
    ),
    Defect(
        name="session-that-hides-its-beginning-counts-as-ended",
        breaks=("I8",),
        file=_CONNECTIONS,
        old="WHERE coalesce(backend_start = %(began)s, true)",
        new="WHERE backend_start = %(began)s",
        tests=(_RIGHTS_TEST,),
    ),
    Defect(
        name="interrupted-preparation-is-made-again-for-ever",
        breaks=(LIVENESS,),
        file="interlock/infrastructure/postgres/statements.py",
        old="            connection.close()\n            raise\n\n\ndef _result",
        new="            raise\n\n\ndef _result",
        tests=(_STATEMENTS_TEST,),
    ),
    Defect(
        name="journal-that-was-set-back-is-written-to",
        breaks=("I2",),
        file=_RECORDER,
        old="                if sends:\n",
        new="                if False:\n",
        tests=(_RESTORED_TEST,),
    ),
    Defect(
        name="standby-that-is-behind-has-the-last-word",
        breaks=("I6", "I8"),
        file=_RECORDER,
        old="        if behind:\n",
        new="        if False:\n",
        tests=(_STANDBY_TEST,),
    ),
    Defect(
        name="deadlock-is-an-error",
        breaks=("I8",),
        file=_RECORDER,
        old="(errors.UniqueViolation, errors.DeadlockDetected)",
        new="(errors.UniqueViolation,)",
        tests=(_LIMITS_TEST,),
    ),
    Defect(
        name="key-that-is-taken-is-an-error",
        breaks=("I8",),
        file=_RECORDER,
        old="(errors.UniqueViolation, errors.DeadlockDetected)",
        new="(errors.DeadlockDetected,)",
        tests=(_MANY_TEST,),
    ),
    Defect(
        name="answer-is-waited-for-without-end",
        breaks=("I8",),
        file=_CONNECTIONS,
        old="            if not ready and time.monotonic() >= until_s:\n",
        new="            if False and time.monotonic() >= until_s:\n",
        tests=(f"{_TESTS}_statements.py",),
    ),
)

_COMMITS = (
    Defect(
        name="commits-that-the-server-does-not-sync",
        breaks=("I1",),
        file=_CONNECTIONS,
        old="SELECT set_config('synchronous_commit', 'on', false)\n",
        new="SELECT set_config('synchronous_commit', current_setting('synchronous_commit'), false)\n",
        tests=(_DEFAULTS_TEST,),
    ),
    Defect(
        name="versions-judged-on-an-old-snapshot",
        breaks=("I3",),
        file=_CONNECTIONS,
        old="    SET default_transaction_isolation = 'read committed';\n",
        new="",
        tests=(_APPENDING_TEST,),
    ),
    Defect(
        name="server-lets-a-name-be-changed",
        breaks=("I9",),
        file=_JOURNAL,
        old="CREATE TRIGGER names_append_only BEFORE UPDATE OR DELETE",
        new="CREATE TRIGGER names_append_only BEFORE DELETE",
        tests=(_RIGHTS_TEST,),
    ),
    Defect(
        name="dump-of-another-cluster-goes-on",
        breaks=(FOLLOWERS,),
        file=f"{_FOLDER}/schema.py",
        old="    if is_ahead:\n        raise JournalOutdated(",
        new="    if False:\n        raise JournalOutdated(",
        tests=(_RESTORED_TEST,),
    ),
    Defect(
        name="sequencer-goes-past-the-watermark",
        breaks=(FOLLOWERS,),
        file=_SEQUENCER,
        old=" AND commit_order < watermark()\n",
        new="\n",
        tests=(_SEQUENCER_TEST,),
    ),
    Defect(
        name="two-sequencers-at-once",
        breaks=(FOLLOWERS,),
        file=_SEQUENCER,
        old=lines(
            "    IF NOT pg_try_advisory_xact_lock(hashtextextended('positions' || (SELECT log FROM journal), 0::bigint)) THEN",
            "        RETURN 0;",
            "    END IF;",
            "",
        ),
        new="",
        tests=(_SEQUENCER_TEST,),
    ),
    Defect(
        name="clock-that-can-not-be-read-stops-the-record",
        breaks=("I8",),
        file=f"{_FOLDER}/clock.py",
        old="suppress(JournalError)",
        new="suppress(ZeroDivisionError)",
        tests=(_CLOCK_TEST,),
    ),
)

_CLAIMS = (
    Defect(
        name="lock-that-was-lost-is-taken-for-held",
        breaks=(LIVENESS,),
        file=_LOCKS,
        old="            if self._connection is not None and is_usable(self._connection):\n",
        new="            if True:\n",
        tests=(_CLAIMS_TEST,),
    ),
    Defect(
        name="session-that-held-the-lock-is-left-alone",
        breaks=(LIVENESS,),
        file=_LOCKS,
        old="                end_session(connection, self._session, wait_ms=_LAST_WORD_MS)\n",
        new="                pass\n",
        tests=(_CLAIMS_TEST,),
    ),
    Defect(
        name="lock-on-a-standby",
        breaks=(LIVENESS,),
        file=_LOCKS,
        old="            if stands_by:\n",
        new="            if False:\n",
        tests=(_STANDBY_TEST,),
    ),
    Defect(
        name="every-holder-is-taken-for-dead",
        breaks=(LIVENESS, "I7"),
        file=_LOCKS,
        old="return Liveness.GONE if row is not None and row[0] else Liveness.ALIVE",
        new="return Liveness.GONE",
        tests=(_MANY_TEST,),
    ),
    Defect(
        name="closed-gate-is-taken-for-alive",
        breaks=(LIVENESS,),
        file=_LOCKS,
        old='                    self._connection.execute("SELECT pg_advisory_unlock_all()")\n',
        new="                    pass\n",
        tests=(_MANY_TEST,),
    ),
    Defect(
        name="transaction-pooling-is-not-noticed",
        breaks=(LIVENESS,),
        file=_CONNECTIONS,
        old="        if ours == theirs or ours",
        new="        if False and ours",
        tests=(_CLAIMS_TEST,),
    ),
    Defect(
        name="reads-from-any-of-several-hosts",
        breaks=(LIVENESS,),
        file=_CONNECTIONS,
        old='"target_session_attrs": "read-write"',
        new='"target_session_attrs": "any"',
        tests=(_STANDBY_TEST,),
    ),
    Defect(
        name="server-ends-a-gate-that-is-idle",
        breaks=(LIVENESS,),
        file=_CONNECTIONS,
        old="SELECT set_config('idle_session_timeout', '0', false)",
        new="SELECT set_config('idle_session_timeout', current_setting('idle_session_timeout'), false)",
        tests=(_LIMITS_TEST,),
    ),
    Defect(
        name="connection-that-was-ended-while-idle-is-lent",
        breaks=(LIVENESS,),
        file=_CONNECTIONS,
        old="                if is_usable(connection):\n",
        new="                if True:\n",
        tests=(_LIMITS_TEST,),
    ),
    Defect(
        name="child-keeps-its-parents-session-open",
        breaks=(LIVENESS,),
        file=_CONNECTIONS,
        old="        os.close(connection.pgconn.socket)\n",
        new="        pass\n",
        tests=(_FORK_TEST, _CLAIMS_TEST),
    ),
    Defect(
        name="child-ends-its-parents-session",
        breaks=(LIVENESS,),
        file=_CONNECTIONS,
        old="        os.close(connection.pgconn.socket)\n",
        new="        connection.close()\n",
        tests=(_FORK_TEST,),
    ),
    Defect(
        name="forks-while-a-connection-is-made-go-unseen",
        breaks=(LIVENESS,),
        file=_CONNECTIONS,
        old="        if before is not None and before == _forks.so_far():\n",
        new="        if before is None or connection.process:\n",
        tests=(_CONNECTING_TEST,),
    ),
    Defect(
        name="connections-that-no-pool-has-yet-are-not-let-go-of",
        breaks=(LIVENESS,),
        file=_CONNECTIONS,
        old="        _connections.add(connection)\n",
        new="",
        tests=(_CONNECTING_TEST,),
    ),
    Defect(
        name="child-takes-its-parents-session-for-its-own",
        breaks=(LIVENESS,),
        file=_LOCKS,
        old="            self._connection = self._session = None  # the session is the parent's\n",
        new="            self._connection = None\n",
        tests=(_FORK_TEST, _CLAIMS_TEST),
    ),
)

DEFECTS = (*_APPENDS, *_ANSWERS, *_COMMITS, *_CLAIMS)

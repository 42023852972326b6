"""Defects of what runs on and on: an event that a follower passes over or sees twice, and nodes that recover in vain."""

from __future__ import annotations

from harness.sabotage.defects import FOLLOWERS, SERVICE, Defect, lines

_RECORDER = "interlock/infrastructure/postgres/recorder.py"
_FOLLOWERS = "interlock/projections/followers.py"
_PICKING = "interlock/domain/picking.py"
_OPERATIONS = "interlock/operations.py"
_TEST = "tests/integration/test_followers.py"
_PICKING_TEST = "tests/unit/test_picking.py"
_SERVICE_TEST = "tests/integration/test_recovery_service.py"

DEFECTS = (
    Defect(
        name="follow-by-arrival-alone",
        breaks=(FOLLOWERS,),
        file=_RECORDER,
        old=lines(
            '    f"WHERE (commit_order, arrival) >= (%s, %s) AND commit_order < (SELECT watermark()) {_IN_ORDER} LIMIT %s"',
        ),
        new='    "WHERE %s::bigint IS NOT NULL AND arrival >= %s ORDER BY arrival LIMIT %s"',
        tests=(_TEST,),
    ),
    Defect(
        name="follow-past-the-watermark",
        breaks=(FOLLOWERS,),
        file=_RECORDER,
        old="(%s, %s) AND commit_order < (SELECT watermark()) {_IN_ORDER} LIMIT %s",
        new="(%s, %s) {_IN_ORDER} LIMIT %s",
        tests=(_TEST,),
    ),
    Defect(
        name="cursor-moved-before-the-batch-was-read",
        breaks=(FOLLOWERS,),
        file=_FOLLOWERS,
        old=lines(
            "            if batch is not None:",
            "                yield batch",
            "                self.cursor = batch.cursor",
            "            elif not self._wait or",
        ),
        new=lines(
            "            if batch is not None:",
            "                self.cursor = batch.cursor",
            "                yield batch",
            "            elif not self._wait or",
        ),
        tests=(_TEST,),
    ),
    Defect(
        name="every-node-begins-with-the-oldest",
        breaks=(SERVICE,),
        file=_OPERATIONS,
        old="random.Random().sample)",
        new="lambda free, many: list(free[:many]))",
        tests=(_SERVICE_TEST,),
    ),
    Defect(
        name="pass-without-a-bound",
        breaks=(SERVICE,),
        file=_PICKING,
        old="return [*ours, *others][: self.at_most]",
        new="return [*ours, *others]",
        tests=(_PICKING_TEST,),
    ),
    Defect(
        name="living-holders-not-left-alone",
        breaks=(SERVICE,),
        file=_PICKING,
        old="in (Liveness.GONE, Liveness.IDLE)",
        new="in (Liveness.GONE, Liveness.IDLE, Liveness.ALIVE)",
        tests=(_PICKING_TEST,),
    ),
    Defect(
        name="stopped-gate-goes-on-with-its-pass",
        breaks=(SERVICE,),
        file=_OPERATIONS,
        old="            if (yield from Pause(0)):\n                break  # the gate was stopped\n",
        new="            yield from Pause(0)\n",
        tests=(_SERVICE_TEST,),
    ),
)

"""The exploration can fail: each deliberate defect in a copy of the package is found, with the shortest schedule to it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import interlock

PACKAGE = Path(interlock.__file__).parent

SCRIPT = """
import json, sys
import interlock
from interlock.testing.exploration.families import FAMILIES
from interlock.testing.exploration.scope import all_profiles
from interlock.testing.exploration.search import explore
from interlock.testing.exploration.world import World

assert interlock.__file__.startswith(sys.argv[1]), interlock.__file__
world = World(list(all_profiles())[int(sys.argv[2])], FAMILIES[sys.argv[3]])
found = explore(world, most_states=60_000, stop_at_violation=True)
print(json.dumps({"states": found.states, "violations": found.violations, "stuck": found.stuck_schedule}))
"""


@dataclass(frozen=True)
class Sabotage:
    """A small defect: in which module, what is replaced by what, with which profile and faults it shows, and as what."""

    name: str
    module: str
    sound: str
    broken: str
    profile: int
    violation: str
    family: str = "late request, revocation"


SABOTAGES = (
    Sabotage(
        "the lookup that counts is the one before the door was closed",
        "recovery.py",
        "    seen = yield from _look_or_end(action, sender, doubt, checked)\n"
        "    if not isinstance(seen, Sight):\n        return seen\n"
        "    if not row.refuses:",
        "    if not row.refuses:",
        0,
        "I",
    ),
    Sabotage(
        "a resend without a Dispatched of its own",
        "sending.py",
        "        announced = yield from announce(action, sender, checked, attempt)\n",
        "        announced = AppendAnswer.APPENDED\n"
        "        if doubt.nothing_sent:\n"
        "            announced = yield from announce(action, sender, checked, attempt)\n",
        17,
        "I1",
    ),
    Sabotage(
        "a refusal is forced on a conflict",
        "endings.py",
        "        if action.version != version:\n            return AppendAnswer.ACTION_MOVED\n",
        "        version = action.version\n",
        0,
        "",
    ),
    Sabotage(
        "the approval is not asserted with Dispatched",
        "sending.py",
        "    return (yield from Append(action, checked.approval))\n",
        "    return (yield from Append(action))\n",
        0,
        "I3",
    ),
    Sabotage(
        "a no to a resend is taken for a no to the action",
        "sending.py",
        "        case Declined(replayed=replayed) if replayed or doubt.nothing_sent:\n",
        "        case Declined(replayed=replayed) if replayed or not replayed:\n",
        17,
        "I6",
    ),
    Sabotage(
        "the horizon is not waited for",
        "recovery.py",
        "    if now < horizon:\n",
        "    if now < horizon and not by_horizon:\n",
        0,
        "I",
    ),
    Sabotage(
        "a Done is dropped where somebody else wrote",
        "endings.py",
        "        if step is not AppendAnswer.ACTION_MOVED:\n            return step\n",
        "        if step is not None:\n            return step\n",
        0,
        "rule 6",
    ),
    Sabotage(
        "a person's no is taken before the horizon",
        "protocol.py",
        "    if now < action.horizon_at:\n        raise NotResolvable(\n",
        "    if now < action.created_on:\n        raise NotResolvable(\n",
        6,
        "I6",
        family="everything",
    ),
    Sabotage(
        "a burn counts although the key's window has ended",
        "recovery.py",
        "            case Burned() if key_still_deduped(action, attempt, sender.profile, now):\n",
        "            case Burned() if now:\n",
        29,
        "I",
    ),
    Sabotage(
        "a key that is used already is taken for a burned one",
        "recovery.py",
        "            case AlreadyUsed() if attempt == action.attempt:\n"
        "                read = yield from _read_used_key(action, sender, doubt, checked, by_horizon=by_horizon)\n"
        "                if read is not None:\n"
        "                    return read\n",
        "            case AlreadyUsed() if attempt == action.attempt:\n                return _Closed(Door.BURNED)\n",
        29,
        "I",
    ),
    Sabotage(
        "a resend whose key may be forgotten",
        "sending.py",
        "    if not fresh_key and sender.profile.dedupes and not "
        "key_still_deduped(action, dispatch.attempt, sender.profile, now):\n",
        "    if not fresh_key and not sender.profile.dedupes:\n",
        17,
        "I2",
    ),
    Sabotage(
        "an approval that expires while its sender is paused",
        "checking.py",
        "        return expires_at is None or at < expires_at\n",
        "        return expires_at is None or at < at.max.replace(tzinfo=at.tzinfo)\n",
        6,
        "I3",
        family="expiry after 2",
    ),
    Sabotage(
        "premises are read before the first send only",
        "checking.py",
        "    premises = yield from ReadPremises(action_id, intent)\n"
        "    approval, reading = yield from read_approval(action_id, intent)\n"
        "    return Checked(",
        "    premises = ()\n    approval, reading = yield from read_approval(action_id, intent)\n    return Checked(",
        17,
        "I4",
        family="premises",
    ),
    Sabotage(
        "another effect under the key is taken for the same one",
        "action.py",
        "        if intent.effect.fingerprint != self.intent.effect.fingerprint:\n",
        "        if intent.key != self.key:\n",
        6,
        "I5",
        family="another effect",
    ),
    Sabotage(
        "a clock that was set back is taken for one that has passed the horizon",
        "recovery.py",
        "    if now < horizon:\n",
        "    if action.last_dispatch.timestamp <= now < horizon:\n",
        0,
        "I2",
        family="clock set back",
    ),
    Sabotage(
        "nobody sends again where nobody can look",
        "recovery.py",
        "    (Recheck.HOLDS, Sight.CANNOT_LOOK, DEDUPED): Row.SEND_AGAIN,\n",
        "    (Recheck.HOLDS, Sight.CANNOT_LOOK, DEDUPED): Row.NEW_KEY_BEHIND_BURNED_KEYS,\n",
        17,
        "usefulness: ambiguous as cannot_look, where a send under its key would tell",
    ),
    Sabotage(
        "nobody sends again where a failure may roll forward",
        "recovery.py",
        "    (Recheck.HOLDS, Sight.ABSENT, DEDUPED): Row.SEND_AGAIN,\n",
        "    (Recheck.HOLDS, Sight.ABSENT, DEDUPED): Row.NEW_KEY_BEHIND_CLOSED_DOOR,\n",
        12,
        "usefulness: ambiguous as may_roll_forward, where a send under its key would tell",
    ),
    Sabotage(
        "keys are burned only where somebody can look",
        "recovery.py",
        "    if sender.profile.burns and key_still",
        "    if by_horizon and sender.profile.burns and key_still",
        29,
        "usefulness: ambiguous as cannot_look, where a burn would tell",
    ),
    Sabotage(
        "what could not be sent is taken for what was declined",
        "sending.py",
        "    return (yield from pend(action, sender, doubt, PendingReason.NOT_SENT, why))\n\n\n",
        '    return (yield from refuse_declined(action, Declined("not_sent", why), at_recovery=False))\n\n\n',
        0,
        "usefulness: refused as declined",
    ),
    Sabotage(
        "premises are not read again behind the closed door",
        "recovery.py",
        "        checked = yield from check(action.id, action.intent)\n"
        "        if checked.unreadable is not None:\n"
        "            return (yield from pend(action, sender, doubt, PendingReason.SETTLING, checked.unreadable))\n"
        "        if checked.objection is None and doubt.sends",
        "        if checked.objection is None and doubt.sends",
        0,
        "I4",
    ),
    Sabotage(
        "the approval is asserted with Dispatched, and not reserved",
        "sending.py",
        "        checked.approval.reserve(action.id, action.intent.effect, now)\n",
        "        pass\n",
        0,
        "I3",
    ),
    Sabotage(
        "a resend says that it only reads what is stored, and asserts no approval",
        "sending.py",
        "        announced = yield from announce(action, sender, checked, attempt)\n",
        "        purpose = SendPurpose.EXECUTE if doubt.nothing_sent else SendPurpose.READ_STORED\n"
        "        announced = yield from announce(action, sender, checked, attempt, purpose)\n",
        17,
        "I3",
    ),
    Sabotage(
        "a stored answer is read although nobody knows that there is one",
        "recovery.py",
        "        answer = yield from Burn(action.id, action.intent.effect, dispatch.idempotency_key)\n",
        "        answer = AlreadyUsed() if dispatch else InProgress()\n",
        29,
        "I3",
    ),
    Sabotage(
        "an Ambiguous gives its reservation back",
        "endings.py",
        "lambda current, at: current.leave_ambiguous(code, words, at, evidence=evidence, checks=checks))\n",
        "lambda current, at: current.leave_ambiguous(code, words, at, evidence=evidence, checks=checks),"
        " lambda approval, at: approval.release(action.id, at))\n",
        6,
        "I3",
    ),
    Sabotage(
        "evidence that disagrees is taken for a Done",
        "endings.py",
        "    if evidence.disagreements:\n",
        "    if evidence.disagreements and not evidence.reference:\n",
        6,
        "I6",
        family="disagreeing evidence",
    ),
    Sabotage(
        "an Ambiguous stays one when it is found",
        "recovery.py",
        "    if not isinstance(seen, Found) or seen.evidence.disagreements or _knows(action, seen.evidence):\n",
        "    if action.ended or not isinstance(seen, Found):\n",
        2,
        "rule 6",
    ),
    Sabotage(
        "a person who overlooks it is believed without a lookup",
        "protocol.py",
        "    seen = (yield from LookUp(action.id, action.intent.effect)) if looks_up else None\n",
        "    seen = (yield from LookUp(action.id, action.intent.effect)) if looks_up is None else None\n",
        0,
        "I6",
        family="disagreeing evidence",
    ),
)
NEVER_DONE = Sabotage(
    "the horizon is waited for for ever",
    "recovery.py",
    "    if now < horizon:\n",
    "    if now:\n",
    0,
    "",
    family="late request",
)


def _explored(sabotage: Sabotage, place: Path) -> dict[str, Any]:
    shutil.copytree(PACKAGE, place / "interlock", ignore=shutil.ignore_patterns("__pycache__"))
    module = place / "interlock" / "domain" / sabotage.module
    text = module.read_text(encoding="utf-8")
    assert text.count(sabotage.sound) == 1, "the place of the defect has moved"
    module.write_text(text.replace(sabotage.sound, sabotage.broken), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(place), str(sabotage.profile), sabotage.family],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    print(f"{sabotage.name}: {found['states']} states")  # noqa: T201 - shown by pytest -rP
    for violation, schedule in (*found["violations"].items(), ("stuck", found["stuck"])):
        print(f"  {violation}", *(f"    {number}. {words}" for number, words in enumerate(schedule, 1)), sep="\n")  # noqa: T201 - as above
    return found


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=[each.name for each in SABOTAGES])
def test_a_deliberate_defect_is_found(sabotage: Sabotage, tmp_path: Path) -> None:
    """A protocol with this defect is caught, and the shortest schedule to the violation is told."""
    found = _explored(sabotage, tmp_path)
    assert any(violation.startswith(sabotage.violation) for violation in found["violations"]), found


def test_what_never_ends_is_found_stuck(tmp_path: Path) -> None:
    """A protocol that breaks nothing, and that in some states comes to no end, is caught, and how it gets there is told."""
    found = _explored(NEVER_DONE, tmp_path)
    assert found["violations"] == {}
    assert found["stuck"]

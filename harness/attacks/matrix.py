"""Plays every attack, and says who caught it, and who had to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from harness.attacks.catalogue import ATTACKS, Attack, edit_commit
from harness.attacks.hands import rewrite
from harness.attacks.scene import ORIGIN, SILENT, Scene
from harness.clocks import ShiftedClock
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.notes import NoteSignature, SignedNote
from interlock.evidence.signing import NoteKey, new_seed
from interlock.evidence.vkeys import KeyType

NOT_ASKED = "-"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Who caught one attack of one attacker.

    Attributes:
        journal: on which database.
        attack: what was done.
        attacker: what they had.
        itself: what `verify` found, with the database and the public keys.
        mark: what the log did that was to sign on, from its mark outside the database.
        monitor: what a monitor found that had seen the log before.
        witness: what a witness answered.
        problems: what had to be caught, and was not.
    """

    journal: str
    attack: str
    attacker: str
    itself: str
    mark: str
    monitor: str
    witness: str
    problems: tuple[str, ...]


def play(scene: Scene, journal: str) -> Iterator[Outcome]:
    """Play every attack, with the database alone and with all the keys."""
    for attack in ATTACKS:
        yield _with_database(scene, journal, attack)
        yield _with_keys(scene, journal, attack.name, attack.witness, partial(_forge, scene, attack))
    yield _rolled_back(scene, journal)
    yield _with_keys(scene, journal, "roll back to a backup", "400", lambda: scene.hands.restore(scene.backup), sign=False)
    yield _with_keys(scene, journal, "roll back, and grow past the old size", "422", lambda: _regrow(scene))


def _with_database(scene: Scene, journal: str, attack: Attack) -> Outcome:
    with scene.attack():
        attack.by_hand(scene.hands)
        itself, mark, monitor = scene.check_self(), scene.check_mark(), scene.look()
    problems = [
        *_silent("self", itself, allowed=attack.self_may_be_silent),
        *_silent("monitor", monitor, allowed=attack.monitor_may_be_silent),
        *_silent("everybody", *[one for one in (itself, mark, monitor) if one != SILENT], allowed=False),
    ]
    return Outcome(journal, attack.name, "database", itself, mark, monitor, NOT_ASKED, tuple(problems))


def _rolled_back(scene: Scene, journal: str) -> Outcome:
    """Roll back without the keys: all is consistent inside, and what is outside knows better."""
    with scene.attack():
        scene.hands.restore(scene.backup)
        itself, mark, monitor = scene.check_self(), scene.check_mark(), scene.look()
    problems = [*_silent("mark", mark, allowed=False), *_silent("monitor", monitor, allowed=False)]
    return Outcome(journal, "roll back to a backup", "database", itself, mark, monitor, NOT_ASKED, tuple(problems))


def _with_keys(scene: Scene, journal: str, name: str, wanted: str, forge: Callable[[], None], *, sign: bool = True) -> Outcome:
    with scene.attack():
        forge()
        if sign:
            scene.sign(scene.forged_mark())
        itself, monitor, witness = scene.check_self(), scene.look(), scene.ask(scene.witness_keys[0])
    problems = [*_silent("monitor", monitor, allowed=False)]
    if witness != wanted:
        problems.append(f"the witness answered {witness}, not {wanted}")
    return Outcome(journal, name, "database and keys", itself, NOT_ASKED, monitor, witness, tuple(problems))


def _forge(scene: Scene, attack: Attack) -> None:
    rewrite(scene.hands, attack.forged(scene.hands.rows()))
    scene.hands.forget_log()


def _regrow(scene: Scene) -> None:
    scene.hands.restore(scene.backup)
    scene.act("frank", "gina", "hugo", "ida")


def _silent(who: str, *answers: str, allowed: bool) -> Iterator[str]:
    if not allowed and (not answers or SILENT in answers):
        yield f"{who} did not catch it"


def impostors(scene: Scene) -> dict[str, str]:
    """Show checkpoints that the log did not sign, and events that are dated back; return who says what."""
    answers: dict[str, str] = {}
    with scene.attack():
        text = scene.cosigned(scene.witness_keys[0]).text
        strangers = NoteKey(ORIGIN, KeyType.ED25519, new_seed())
        signature = strangers.sign(text)
        spoofed = NoteSignature(ORIGIN, scene.vkey.key_id, signature.signature)
        other = NoteKey("another.example/log-1", KeyType.ED25519, new_seed())
        foreign = text.replace(ORIGIN, other.name)
        shown = {
            "a stranger's key under the log's name": SignedNote(text, (signature,)),
            "the same, with the id of the log's key": SignedNote(text, (spoofed,)),
            "another log's key and name": SignedNote(foreign, (other.sign(foreign),)),
        }
        for what, note in shown.items():
            answers[f"a checkpoint signed by {what}, to the monitor"] = scene.look_at(note)
            answers[f"a checkpoint signed by {what}, to a witness"] = scene.ask(scene.witness_keys[0], note)
    with scene.attack():
        scene.act("jack", clock=ShiftedClock(-30 * 86_400.0))
        scene.sign()
        answers["events dated back by 30 days, to a witness, which knows nothing of times"] = scene.ask(scene.witness_keys[0])
        answers["the same, to whoever checks the receipt"] = scene.check_receipt("pay:jack")
        answers["an honest receipt beside it"] = scene.check_receipt("pay:emil")
    return answers


IMPOSTORS = (
    *("caught (checkpoint)", "403", "caught (checkpoint)", "403", "caught (checkpoint)", "404"),
    *("200", "caught (time bounds)", SILENT),
)
"""What has to come of them. A witness sees no times; its own, before and after, are what a receipt is held against."""


def fork(scene: Scene) -> dict[str, str]:
    """Show one history to one witness, and another one, of the same size, to the other; return what each answered."""
    first, second = scene.witness_keys
    with scene.attack():
        rewrite(scene.hands, edit_commit(scene.hands.rows(), -1))  # after what the second one has seen
        scene.hands.forget_log()
        scene.sign(scene.forged_mark())
        of_second_history = scene.ask(first), scene.ask(second)
        forged = scene.cosigned(second)
        scene.hands.restore(scene.present)
        of_first_history = scene.ask(second)
        genuine = scene.cosigned(first)
    heads = [Checkpoint.parse(note.text) for note in (genuine, forged)]
    proven = heads[0].size == heads[1].size and heads[0].root != heads[1].root
    return {
        "the witness that saw the first history, of the second": of_second_history[0],
        "the witness that saw neither, of the second": of_second_history[1],
        "that one, of the first, afterwards": of_first_history,
        "a quorum of both witnesses, for the first": scene.quorum(genuine),
        "a quorum of both witnesses, for the second": scene.quorum(forged),
        "two signed roots of one size, which prove it to anybody": "yes" if proven else "no",
    }


FORK = ("422", "200", "422", "not reached", "not reached", "yes")
"""What has to come of a fork: no history gets both witnesses."""

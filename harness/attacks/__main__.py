"""Does every attack and prints who caught it: `python -m harness.attacks`; exits with 1 where one got through."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from harness.attacks.hands import FileHands, SchemaHands
from harness.attacks.matrix import FORK, IMPOSTORS, Outcome, fork, impostors, play
from harness.attacks.scene import Scene
from harness.postgres.journals import JournalKind, journal_database, with_schema

OUT = Path("results/attack-matrix.md")
_HEAD = """# Who catches which attack

Each attack was done on a real journal with the database's own tools, after the triggers had been dropped, by somebody who owns
the database, and by somebody who also has every key of the log. **self** is `interlock verify` and a look at the stored
checkpoint, with the database and the public keys alone. **mark** is the log itself, which is to sign on, and compares with what
it signed last, in a file outside the database. **monitor** had seen the log before, and reads the journal. **witness** was asked
to cosign what the attacker signed; it answers 200 only to what continues all that it saw.

Made by `python -m harness.attacks`, {date}. Everything that had to be caught was: {good}.
"""
_COLUMNS = "| attack | attacker has | self | mark | monitor | witness |\n| --- | --- | --- | --- | --- | --- |\n"


def main() -> int:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m harness.attacks", description=__doc__)
    parser.add_argument(
        "--journal", type=JournalKind, choices=list(JournalKind), action="append", help="repeatable; default: both"
    )
    parser.add_argument("--out", type=Path, default=OUT, help=f"where the table is kept (default: {OUT})")
    given = parser.parse_args()
    outcomes: list[Outcome] = []
    forks: dict[str, dict[str, str]] = {}
    others: dict[str, dict[str, str]] = {}
    for kind in given.journal or list(JournalKind):
        with journal_database(kind, in_memory=True) as database, tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            hands = (
                FileHands(folder / "journal.db")
                if database is None
                else SchemaHands(database, "attacked", with_schema(database, "attacked"))
            )
            scene = Scene(hands, folder)
            outcomes += play(scene, str(kind))
            forks[str(kind)], others[str(kind)] = fork(scene), impostors(scene)
    text = page(outcomes, forks, others)
    print(text)
    given.out.write_text(text, encoding="utf-8")
    good = not any(outcome.problems for outcome in outcomes)
    good = good and all(tuple(one.values()) == FORK for one in forks.values())
    return 0 if good and all(tuple(one.values()) == IMPOSTORS for one in others.values()) else 1


def page(outcomes: Sequence[Outcome], forks: dict[str, dict[str, str]], others: dict[str, dict[str, str]] | None = None) -> str:
    """Return the table as Markdown."""
    good = "no" if any(outcome.problems for outcome in outcomes) else "yes"
    parts = [_HEAD.format(date=f"{datetime.now(UTC):%Y-%m-%d}", good=good)]
    for journal in dict.fromkeys(outcome.journal for outcome in outcomes):
        parts.append(f"\n## {journal}\n\n{_COLUMNS}")
        for one in outcomes:
            if one.journal == journal:
                problems = "".join(f" **{problem}**" for problem in one.problems)
                cells = (one.attack + problems, one.attacker, one.itself, one.mark, one.monitor, one.witness)
                parts.append(f"| {' | '.join(cells)} |\n")
        parts.append("\nA fork, with all the keys, of two histories of one size that are shown to two witnesses:\n\n")
        parts += [f"- {who}: {answer}\n" for who, answer in forks.get(journal, {}).items()]
        parts.append("\nCheckpoints that the log did not sign, and events that are dated back:\n\n")
        parts += [f"- {what}: {answer}\n" for what, answer in (others or {}).get(journal, {}).items()]
    return "".join(parts)


if __name__ == "__main__":
    sys.exit(main())

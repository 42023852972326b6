"""One committed case in a journal on PostgreSQL, and what the superuser sees and does there."""

from typing import Any

import psycopg

from tests.integration.shared_ledger import World

CASE = "case-1"
EVENTS = 7
"""Of an approval that is granted, reserved and spent, and of its action."""


def commit(world: World, case: str = CASE) -> None:
    """Approve and fire one case."""
    world.approve(case)
    with world.gate() as gate:
        assert type(gate.fire(case, world.payout(case), approval=case)).__name__ == "Committed"


def run(url: str, *statements: str) -> list[Any]:
    """Run statements as the superuser, on the journal's own schema; return what the last one says."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path = interlock")
        cursor: Any = None
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return list(cursor.fetchall()) if cursor is not None and cursor.description else []


def tables(url: str) -> set[tuple[str, str]]:
    """Return schema and name of every table that is not PostgreSQL's own."""
    listed = "SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
    return set(run(url, listed))


def as_role(url: str, role: str) -> str:
    """Return the URL for another user."""
    return url.replace("//postgres@", f"//{role}@") if "//postgres@" in url else f"{url}&user={role}"

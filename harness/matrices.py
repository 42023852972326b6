"""The matrices that can be run: which columns each has, how they are shown, and what has to be said about them."""

from __future__ import annotations

from dataclasses import dataclass

from harness.columns import COLUMNS, Engine, names
from harness.scenarios import BURN_OFF

_LOCAL = (
    "The payment provider is a stand-in on 127.0.0.1 that keeps the rules which Stripe documents; the real SDK speaks to it.",
    "The model is a scripted stand-in on 127.0.0.1 with wording drawn anew; the real SDK speaks to it.",
    "The 25 hours are moved clocks, the provider's and the gate's. The forgotten key is forgotten because it was told to be.",
    "Real are the processes, the SIGKILL, the SDKs, the database, and the ledger that the verdicts are read from.",
)
_LIMITS = (
    "One kill per case, at one of two points. Kills elsewhere, stopped processes and many workers at once are left to tests.",
    "Nothing happens between a hand-written column's last check and its send, so the matrix does not show that gap.",
    "The next worker starts at once. How long a supervisor takes to notice a death is not part of crash to close.",
    f"Rows with burning off use figures of the stand-in: it settles within {BURN_OFF.settle_s:g} s and carries on no failure.",
    f"Their send deadline is {BURN_OFF.send_deadline_s:g} s, their claim holds for {BURN_OFF.claim_ttl_s:g} s.",
    "Stripe states no such figures: without burning, and with the library's own, a refusing row ends as AMBIGUOUS.",
    "Locally the model always asks for the approved refund. What is sent comes from the approval, in every column.",
)
_LOCAL_TEMPORAL = (
    "Temporal is its own dev server, one process on 127.0.0.1 with a SQLite file. A cluster has other latencies.",
    "Temporal's clock is not moved where 25 hours pass: the workflow waits for no longer than in the other rows.",
)
_LIMITS_TEMPORAL = (
    "Each case has a task queue and a worker of its own: a kill strikes it alone. Many workflows at once are left to tests.",
    "By hand, most of crash to close on Temporal is the server noticing the death: heartbeat, retry, the dead one's queue.",
    "With the gate, the next worker notices it at its start. Where none is started, it waits for the server like the rest.",
    "A heartbeat time-out of 1.5 s suits a worker that is never starved of its processor. One that is loses attempts by it.",
    "Cases at once for each processor: one on Temporal, a half standalone, six with Temporal's defaults, which only wait.",
    "`temporal` and `temporal_checked` are what we would write by hand. Their sources stand in `harness/columns/temporal`.",
)


@dataclass(frozen=True, slots=True)
class Table:
    """Columns that are shown side by side.

    Args:
        title: what it shows.
        columns: their names.
    """

    title: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """A set of columns over all rows.

    Args:
        name: what its files are called.
        title: the same for a reader.
        tables: how its columns are shown, each in one table or more.
        local: what is not the real thing in a local run, and what is.
        limits: what it does not show.
    """

    name: str
    title: str
    tables: tuple[Table, ...]
    local: tuple[str, ...]
    limits: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Its columns' names, each once."""
        return tuple(dict.fromkeys(name for table in self.tables for name in table.columns))


STANDALONE = Matrix(
    name="standalone",
    title="Crash matrix, standalone",
    tables=(Table("Verdicts", names(Engine.NONE)),),
    local=_LOCAL,
    limits=(*_LIMITS, "Times were taken with as many cases at once as there are processors."),
)
E2E = Matrix(
    name="e2e",
    title="Crash matrix, standalone and on Temporal",
    tables=(
        Table("Verdicts", names(Engine.NONE, Engine.TEMPORAL)),
        Table("Verdicts, with Temporal's own default options", names(Engine.TEMPORAL_DEFAULTS)),
    ),
    local=(*_LOCAL, *_LOCAL_TEMPORAL),
    limits=(*_LIMITS, *_LIMITS_TEMPORAL),
)
MATRICES = {matrix.name: matrix for matrix in (STANDALONE, E2E)}
assert set(E2E.columns) == set(COLUMNS), "every column is in the whole matrix"

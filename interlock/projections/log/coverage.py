"""What the log has signed of which action, for its receipt."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from interlock.evidence.log_store import LogStore
from interlock.projections.receipts import Receipt


def logged(store: LogStore, receipts: Sequence[tuple[Receipt, int]]) -> tuple[Receipt, ...]:
    """Return receipts with what the log has signed of them; as they are where nobody signs.

    Args:
        store: the log's tree and checkpoints.
        receipts: each with the version of its action's last event.
    """
    last = store.last_checkpoint() if receipts else None
    if last is None:
        return tuple(receipt for receipt, _ in receipts)
    origin, size = last.checkpoint.origin, last.checkpoint.size
    cosigned = next(iter(store.cosigned_sizes(origin)), 0)
    witnesses = [line.split(" ")[1] for line in store.cosignatures(cosigned)] if cosigned else []
    places = [(_id_of(receipt), version) for receipt, version in receipts]
    leaves = store.leaves_of(places)
    made: list[Receipt] = []
    for (receipt, _), place in zip(receipts, places, strict=True):
        leaf = leaves.get(place)
        index = size if leaf is None or leaf.index is None else leaf.index
        by = [origin, *(witnesses if index < cosigned else [])]
        made.append(receipt.logged(signed_by=", ".join(by) if index < size else None))
    return tuple(made)


def _id_of(receipt: Receipt) -> UUID:
    try:
        return UUID(receipt.action_id)
    except ValueError:  # what somebody put there by hand is no action's
        return UUID(int=0)

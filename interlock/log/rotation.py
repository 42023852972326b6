"""Putting one key in the place of another: an event of the log, which both keys sign."""

from __future__ import annotations

import threading

from interlock.domain.log import ATTESTOR_ROLE, LOG_ROLE, JournalLog
from interlock.domain.log_states import rotation_text
from interlock.errors import InvalidConfiguration, JournalUnavailable
from interlock.evidence.encoding import to_base64
from interlock.evidence.signing import AttestorKey
from interlock.projections.log.tree import TransparencyLog
from interlock.projections.log.writing import Clock, LogSigner, SignedJournal

_LOOKS = 200
_LOOK_S = 0.05


def rotate_log_key(journal: SignedJournal, old: LogSigner, new: LogSigner, clock: Clock) -> int:
    """Record that a log's key takes the place of another one. Both sign from now on, until the old one is no longer given.

    Args:
        journal: the journal.
        old: the key that is replaced.
        new: the one that takes its place.
        clock: the journal's clock.

    Returns:
        The index of the event.

    Raises:
        InvalidConfiguration: the old key does not sign this log, or the keys are of different logs.
        JournalError: the journal can't be written.
    """
    log = _log_of(journal)
    before, after = (str(key.key_for(log.origin)) for key in (old, new))
    if old.identity != new.identity or before not in log.vkeys:
        raise InvalidConfiguration(
            f"the old key does not sign {log.origin}, or the new one is for another log; nothing was written"
        )
    text = rotation_text(journal.log_id, LOG_ROLE, before, after)
    signed, also = (to_base64(key.sign(log.origin, text).signature) for key in (old, new))
    log.rotate_key(LOG_ROLE, (before, after), (signed, also), clock.now())
    return _written(journal, log)


def rotate_attestor_key(journal: SignedJournal, old: AttestorKey, new: AttestorKey, clock: Clock) -> int:
    """Record that an attestor's key takes the place of another one: receipts as of an earlier leaf are the old one's to sign.

    Returns:
        The index of the event: from there on the new key counts.

    Raises:
        InvalidConfiguration: the log was never signed.
        JournalError: the journal can't be written.
    """
    log = _log_of(journal)
    before, after = (to_base64(key.verifier.spki) for key in (old, new))
    text = rotation_text(journal.log_id, ATTESTOR_ROLE, before, after)
    signed, also = (to_base64(key.sign(text.encode())) for key in (old, new))
    log.rotate_key(ATTESTOR_ROLE, (before, after), (signed, also), clock.now())
    return _written(journal, log)


def _log_of(journal: SignedJournal) -> JournalLog:
    log = journal.find_log()
    if log is None:
        raise InvalidConfiguration("the log was never signed: begin with the new key; nothing was written")
    return log


def _written(journal: SignedJournal, log: JournalLog) -> int:
    version = log.version
    if not journal.append_log(log):
        raise JournalUnavailable("somebody else wrote to the log at the same moment; nothing was written, run this again")
    tree, pause = TransparencyLog(journal), threading.Event()
    for _ in range(_LOOKS):
        journal.sequence(1000)
        index = tree.index_of(log.id, version)
        if index is not None:
            return index
        pause.wait(_LOOK_S)
    raise JournalUnavailable(
        "the rotation is written, and has no place in the log yet, because a transaction holds it back; see "
        "`interlock db status`. Don't rotate again: both keys count from now on"
    )

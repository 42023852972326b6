"""Every error that Interlock raises.

    InterlockError
    ├── InvalidInput                 nothing was written, nothing was sent
    │   ├── InvalidKey
    │   ├── InvalidEffect
    │   ├── InvalidPremise
    │   ├── InvalidApproval
    │   ├── InvalidConfiguration
    │   │   └── UnsafeKeyFile        others could read or replace it
    │   ├── ActionMismatch
    │   ├── UnknownTarget
    │   ├── UnknownAction
    │   ├── ActionErased             its key stays taken
    │   ├── UnknownApproval
    │   ├── ApprovalErased           its id stays taken
    │   └── ApprovalNotUsable
    ├── PremiseUnreadable            nothing was written, nothing was sent
    ├── NotResolvable                nothing was written
    ├── NotErasable                  nothing was written, nothing was forgotten
    ├── JournalError
    │   ├── JournalUnavailable       down, full, read-only, or too busy
    │   ├── JournalTooNew
    │   ├── JournalOutdated          an older one: `interlock db upgrade`
    │   ├── JournalCorrupt
    │   ├── EpochNeeded              the journal does not continue what the log signed
    │   ├── EventNotStorable
    │   └── GateClosed
    ├── EvidenceError                what was shown is not to be relied upon
    │   ├── MalformedEvidence        not of the format that it claims
    │   ├── WrongKey                 signed by no key that is trusted
    │   ├── WrongSignature           a trusted key's name on what it did not sign
    │   ├── InconsistentEvidence     a proof that does not lead where it claims
    │   └── QuorumNotReached         cosigned by too few witnesses
    ├── ModelError                   the model was not asked; what was done before is recorded
    │   ├── ModelUnavailable         not now
    │   └── ModelRequestRefused      not like this
    └── OutcomeNotRecorded           it was sent, and the journal does not say so yet

Refused, Ambiguous and InFlight are outcomes and not errors: see `interlock.outcomes`.
"""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.domain.answers import Evidence


class InterlockError(Exception):
    """The root of all errors of this library."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Come out of another process as it was: Python would call `__init__` with the finished message alone."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined] # documented as protocol 2's


class InvalidInput(InterlockError, ValueError):
    """What was asked for can't be done as asked. Nothing was written and nothing was sent; correct the call."""


class InvalidKey(InvalidInput):
    """The key of an action is empty, too long or not printable."""


class InvalidEffect(InvalidInput):
    """The effect is malformed: a wrong type, an amount out of range, an unknown currency, an unknown field."""


class InvalidPremise(InvalidInput):
    """A premise is malformed, or names a policy that is not registered."""


class InvalidApproval(InvalidInput):
    """An approval can't be granted as asked, or was granted before under other terms."""


class InvalidConfiguration(InvalidInput):
    """The gate can't be opened with these settings."""


class UnsafeKeyFile(InvalidConfiguration):
    """A key's file or folder is open to others, or is a link. Nothing was signed; correct owner and mode, or make a new one."""


class ActionMismatch(InvalidInput):
    """The key already names an action with another effect (I5). That action is unchanged; use another key for another effect."""

    def __init__(self, key: str, recorded_fingerprint: str, given_fingerprint: str) -> None:
        """Keep both fingerprints, so that a caller can tell which effect is recorded."""
        self.key = key
        self.recorded_fingerprint = recorded_fingerprint
        self.given_fingerprint = given_fingerprint
        super().__init__(
            f"key {key!r} already names an action with effect {recorded_fingerprint}, not {given_fingerprint}; "
            "nothing was written or sent. Fire the recorded effect again, or use a new key for a new action."
        )


class UnknownTarget(InvalidInput):
    """No target of that name is registered at this gate. Register it with `Gate.open(targets=…)`."""


class UnknownAction(InvalidInput):
    """The journal knows no action under that key."""


class ActionErased(InvalidInput):
    """The key names an action that was erased. It stays taken: nothing was written or sent, and nothing will be under this key.

    Attributes:
        action_id: the action.
        status: how it had ended, COMMITTED or REFUSED.
    """

    def __init__(self, action_id: str, status: str) -> None:
        """Keep what is left of it."""
        self.action_id = action_id
        self.status = status
        super().__init__(
            f"action {action_id} was erased; it had ended as {status}. Its key stays taken: nothing was written or sent, and a "
            "new action needs a new approval and a new key"
        )


class UnknownApproval(InvalidInput):
    """The journal knows no approval under that id."""


class ApprovalErased(InvalidInput):
    """The id names an approval that was erased. It stays taken, and nothing was written: approve under another id."""


class ApprovalNotUsable(InvalidInput):
    """The approval is missing, of another currency, for another effect, or its cap is below the amount.

    Nothing was written or sent, and the key is not used up.
    """


class PremiseUnreadable(InterlockError):
    """A premise could not be read before the first commit (I4).

    Nothing was written or sent, and the key is not used up: fire again when the provider can be read.
    """


class NotResolvable(InterlockError):
    """A person's word can't be taken: the action is not Ambiguous, or its door is still open (rule 7). Nothing was written."""


class NotErasable(InterlockError):
    """The action or the approval is not at its end, so what it says is still needed. Nothing was written or forgotten."""


class JournalError(InterlockError):
    """The journal could not do what was asked. What the message does not call written was not acted upon: nothing was sent."""


class JournalUnavailable(JournalError):
    """The journal is down, full, read-only or too busy. Nothing was sent. Repair it and fire again under the same key."""


class JournalTooNew(JournalError):
    """The journal was written by a newer version of Interlock. Nothing was read or written; upgrade this program."""


class JournalOutdated(JournalError):
    """The journal has to be upgraded before this version of Interlock uses it. Nothing was written; run `interlock db upgrade`.

    It was made by an older version, or restored from the dump of another PostgreSQL cluster.
    """


class JournalCorrupt(JournalError):
    """A stored event can't be read back as what it says it is. Nothing was sent; run `interlock verify` to see where."""


class EpochNeeded(JournalError):
    """The journal does not continue what the log has signed: it was restored from a backup, replaced, or changed.

    Nothing was signed. After a restore that was meant, run `interlock log new-epoch --after-restore`; otherwise find who changed
    it before anything else is done.
    """


class EventNotStorable(JournalError):
    """An event holds a value that the journal could not give back. It was not written; correct what the host or a target gave."""


class GateClosed(JournalError):
    """The gate or the journal was closed. Nothing was written or sent; open a new one."""


class EvidenceError(InterlockError):
    """What was shown as evidence is not to be relied upon. It says nothing about whether the action happened."""


class MalformedEvidence(EvidenceError, ValueError):
    """It is not of the format that it claims to be, or beyond the limits of what is read. Ask for it again, from its source."""


class WrongKey(EvidenceError):
    """No key that is trusted for this has signed it. Check that the policy is the one meant for this log."""


class WrongSignature(EvidenceError):
    """It bears the name of a trusted key over something which that key did not sign: it was changed, or forged."""


class InconsistentEvidence(EvidenceError):
    """A proof does not lead from what it is for to the root it claims: an entry, a proof or a log was changed."""


class QuorumNotReached(EvidenceError):
    """The log has signed it, and too few of the policy's witnesses have. Ask for it again when they have cosigned.

    `cosigned` names the policy's witnesses that did.
    """

    def __init__(self, message: str, cosigned: tuple[str, ...]) -> None:
        """Keep the names, for whoever reports how many of how many."""
        self.cosigned = cosigned
        super().__init__(message)


class ModelError(InterlockError):
    """The model could not be asked. Nothing was decided by this question; what was done before it is recorded.

    Attributes:
        status: the status of the service's answer, where there was one.
        request_id: the service's id of the request, for its support.
        retry_after_s: when the service wants to be asked again, in seconds, where it says so.
    """

    _next = "Run the conversation again."

    def __init__(
        self, what: str, *, status: int | None = None, request_id: str | None = None, retry_after_s: float | None = None
    ) -> None:
        """Keep what tells one failure from another; the service's own words may hold the conversation, and are left out."""
        self.status = status
        self.request_id = request_id
        self.retry_after_s = retry_after_s
        super().__init__(f"the model could not be asked ({what}); nothing was decided by it. {self._next}")


class ModelUnavailable(ModelError):
    """The model's service is overloaded, limits the rate, or can't be reached, or its answer broke off. Ask again later."""

    _next = "Run the conversation again, later: it begins with what is recorded."


class ModelRequestRefused(ModelError):
    """The model's service refuses the request: a wrong key or model, too long a conversation. Correct that first."""

    _next = "Correct the key, the model or the conversation, and run it again."


class OutcomeNotRecorded(InterlockError):
    """The provider carried the action out, and the journal could not be told.

    It was sent; it is not recorded. Do not fire it under another key: fire again under the same key, or run `recover`, once the
    journal is back. `evidence` is what the provider answered.
    """

    def __init__(self, key: str, evidence: Evidence, why: str) -> None:
        """Keep the evidence: until the journal has it, this exception is its only holder."""
        self.key = key
        self.evidence = evidence
        # The journal's error goes on to say what it did not do ("nothing was sent"), which is not so here.
        happened = why.partition("; ")[0]
        super().__init__(
            f"action {key!r} was carried out by the provider ({evidence.reference}) and could not be recorded: {happened}. "
            "Do not fire it under another key; fire it again under this one, or run recover()."
        )

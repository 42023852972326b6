-- Version 3: erasure. The one change that the log lets through is a state that is set to null, of an event that an Erased of the
-- same action or approval follows. Digest and leaf hash stay, so the log still verifies (ADR 2).

DROP TRIGGER stored_events_no_update;

CREATE TRIGGER stored_events_no_update BEFORE UPDATE ON stored_events
WHEN NOT (
    NEW.state IS NULL
    AND NEW.position IS OLD.position
    AND NEW.originator_id IS OLD.originator_id
    AND NEW.originator_version IS OLD.originator_version
    AND NEW.topic IS OLD.topic
    AND NEW.state_digest IS OLD.state_digest
    AND NEW.leaf_hash IS OLD.leaf_hash
    AND NEW.running_hash IS OLD.running_hash
    AND EXISTS (
        SELECT 1 FROM stored_events AS later
        WHERE later.originator_id = OLD.originator_id
            AND later.originator_version > OLD.originator_version
            AND later.topic IN ('interlock.action.erased', 'interlock.approval.erased')
    )
)
BEGIN SELECT RAISE(ABORT, 'interlock: the log is append-only'); END;

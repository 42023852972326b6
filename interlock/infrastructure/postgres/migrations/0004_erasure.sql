-- Version 4: erasure. The one change that the log lets through is a state that is set to null, of an event that an Erased of the
-- same action or approval follows. Digest and leaf hash stay, so the log still verifies (ADR 2).

-- The table is named in full: whoever may write could put another one of its name in front on the search path.
CREATE FUNCTION refuse_change_but_erasure() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    was_erased boolean := false;
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.state IS NULL AND to_jsonb(NEW) - 'state' = to_jsonb(OLD) - 'state' THEN
        EXECUTE format(
            'SELECT EXISTS (SELECT 1 FROM %I.%I WHERE originator_id = $1 AND originator_version > $2 '
            'AND topic IN (''interlock.action.erased'', ''interlock.approval.erased''))',
            TG_TABLE_SCHEMA, TG_TABLE_NAME
        ) INTO was_erased USING OLD.originator_id, OLD.originator_version;
    END IF;
    IF was_erased THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'interlock: %.% is append-only', TG_TABLE_SCHEMA, TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;

DROP TRIGGER stored_events_append_only ON stored_events;
CREATE TRIGGER stored_events_append_only BEFORE UPDATE OR DELETE ON stored_events
    FOR EACH ROW EXECUTE FUNCTION refuse_change_but_erasure();

-- What does it. A gate's role can't change the log, and may only call this; who owns the table forgets what an Erased follows, and
-- no more. The search path is fixed, or whoever calls could put other tables in front of ours.
CREATE FUNCTION forget_states(erased uuid) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    forgotten integer;
BEGIN
    UPDATE stored_events SET state = NULL
        WHERE originator_id = erased AND state IS NOT NULL AND originator_version < (
            SELECT max(originator_version) FROM stored_events
            WHERE originator_id = erased AND topic IN ('interlock.action.erased', 'interlock.approval.erased')
        );
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    RETURN forgotten;
END
$$;

DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION forget_states(uuid) SET search_path = %I, pg_catalog, pg_temp', current_schema());
END
$$;

REVOKE EXECUTE ON FUNCTION forget_states(uuid) FROM PUBLIC;

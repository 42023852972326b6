-- Version 2: the sequencer. It gives every event its dense position after the event was committed, so that no writer waits for
-- another, and commits to their order with the running hash of ADR 2.

CREATE TABLE positions (
    position bigint PRIMARY KEY,
    originator_id uuid NOT NULL,
    originator_version integer NOT NULL,
    commit_order bigint NOT NULL,
    arrival bigint NOT NULL,
    running_hash bytea NOT NULL,
    UNIQUE (originator_id, originator_version)
);

CREATE TRIGGER positions_append_only BEFORE UPDATE OR DELETE ON positions
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER positions_no_truncate BEFORE TRUNCATE ON positions
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The number behind which every transaction has ended. Any long transaction of the cluster holds it back.
CREATE FUNCTION watermark() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT commit_order_from + pg_snapshot_xmin(pg_current_snapshot())::text::bigint FROM journal
$$;

-- Give positions to at most so many events; returns how many. One sequencer at a time: another one finds the lock taken, and 0.
CREATE FUNCTION sequence_events(at_most integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    last positions%ROWTYPE;
    event record;
    done integer := 0;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'interlock: the journal is written in read committed transactions only';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('positions' || (SELECT log FROM journal), 0::bigint)) THEN
        RETURN 0;
    END IF;
    SELECT * INTO last FROM positions ORDER BY position DESC LIMIT 1;
    last.position := coalesce(last.position, 0);
    last.commit_order := coalesce(last.commit_order, -1);
    last.arrival := coalesce(last.arrival, -1);
    last.running_hash := coalesce(last.running_hash, decode(repeat('00', 32), 'hex'));
    FOR event IN
        SELECT originator_id, originator_version, commit_order, arrival, leaf_hash FROM stored_events
        WHERE (commit_order, arrival) > (last.commit_order, last.arrival) AND commit_order < watermark()
        ORDER BY commit_order, arrival LIMIT at_most
    LOOP
        done := done + 1;
        last.running_hash := sha256(last.running_hash || event.leaf_hash);
        INSERT INTO positions VALUES (
            last.position + done, event.originator_id, event.originator_version, event.commit_order, event.arrival,
            last.running_hash
        );
    END LOOP;
    RETURN done;
END
$$;

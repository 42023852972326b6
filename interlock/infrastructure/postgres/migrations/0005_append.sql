-- Version 5: a commit is one statement that the client writes (`appending.py`): planned once, and without the cost of a function
-- that runs statement by statement. What it can't say by itself is here.

DROP FUNCTION append_events;

-- Whether an approval is at this version still. One that is only asserted has no row that could conflict, so an approval's writers
-- stand in line, and nobody else's. The version is read after the lock was taken, by a snapshot of its own, or it would be judged
-- on an old one (I3).
CREATE FUNCTION is_latest(aggregate uuid, version integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'interlock: the journal is written in read committed transactions only';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(aggregate::text, 0::bigint));
    RETURN version = coalesce((SELECT max(originator_version) FROM stored_events WHERE originator_id = aggregate), 0);
END
$$;

CREATE FUNCTION refuse_another_journal() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'interlock: another journal stands in the place of the one that was opened';
END
$$;

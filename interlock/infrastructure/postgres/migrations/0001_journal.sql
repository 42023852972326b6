-- The journal, version 1. Written for PostgreSQL 14 and newer. Names are without a schema: the session's search_path says which.

-- What this schema is: the log's id is in every record that is hashed (ADR 2). `commit_order_from` is added to the number of
-- every transaction: a dump that was restored into another cluster goes on above the numbers that it brought along.
CREATE TABLE journal (
    log text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    commit_order_from bigint NOT NULL DEFAULT 0
);

CREATE TABLE migrations (
    version integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The log. `commit_order` is the number of the writing transaction: a reader who stays behind the oldest one that is still
-- running passes over nothing, whatever commits late, and no writer waits for another. `arrival` orders within it.
-- `state` is null only for an erased action; its digest and leaf hash stay.
CREATE TABLE stored_events (
    originator_id uuid NOT NULL,
    originator_version integer NOT NULL,
    topic text NOT NULL,
    state bytea,
    state_digest bytea NOT NULL,
    leaf_hash bytea NOT NULL,
    commit_order bigint NOT NULL,
    arrival bigint GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (originator_id, originator_version)
);

CREATE UNIQUE INDEX stored_events_by_commit_order ON stored_events (commit_order, arrival);

-- Which aggregate a key or an approval's id names, for ever (ADR 3).
CREATE TABLE names (
    kind text NOT NULL,
    digest bytea NOT NULL,
    aggregate_id uuid NOT NULL,
    PRIMARY KEY (kind, digest)
);

-- What actions are found by: one row an action, written in the transaction of its events, and rebuildable from them.
CREATE TABLE receipts (
    action_id uuid PRIMARY KEY,
    version integer NOT NULL,
    key text,
    status text NOT NULL,
    target text NOT NULL,
    subject text NOT NULL,
    approval_id text NOT NULL,
    amount_minor bigint,
    currency text,
    via text,
    code text,
    attention boolean NOT NULL,
    claim_lock text,
    claim_expires_at timestamptz,
    intended_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL
) WITH (fillfactor = 70);

CREATE INDEX receipts_by_open_status ON receipts (status, action_id) WHERE status <> 'COMMITTED';
CREATE INDEX receipts_by_attention ON receipts (action_id) WHERE attention;
CREATE INDEX receipts_by_approval ON receipts (approval_id, action_id);

-- History is append-only (I9), in the database as well as in the code. There is no INSERT OR REPLACE here: ON CONFLICT DO
-- UPDATE wakes the trigger against updates.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'interlock: %.% is append-only', TG_TABLE_SCHEMA, TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER stored_events_append_only BEFORE UPDATE OR DELETE ON stored_events
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER stored_events_no_truncate BEFORE TRUNCATE ON stored_events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER names_append_only BEFORE UPDATE OR DELETE ON names
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER names_no_truncate BEFORE TRUNCATE ON names
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER journal_no_delete BEFORE DELETE ON journal
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER journal_no_truncate BEFORE TRUNCATE ON journal
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER journal_keeps_its_id BEFORE UPDATE OF log, created_at ON journal
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE UNIQUE INDEX journal_is_one ON journal ((true));

-- All that one commit needs, in one round trip. Returns 0, or which of the expected aggregates is at another version, counted
-- from 1; then nothing was written. A name or a version that another transaction took at the same moment is a unique violation.
CREATE FUNCTION append_events(
    ids uuid[], versions integer[], topics text[], states bytea[],
    name_kinds text[], name_digests bytea[], name_ids uuid[],
    expected_ids uuid[], expected_versions integer[],
    approval uuid, log_wanted text,
    summary_id uuid, summary_version integer, summary_key text, summary_status text, summary_target text,
    summary_subject text, summary_approval_id text, summary_amount_minor bigint, summary_currency text, summary_via text,
    summary_code text, summary_attention boolean, summary_claim_lock text, summary_claim_expires_at timestamptz,
    summary_intended_at timestamptz, summary_changed_at timestamptz
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    log_id text;
    first_order bigint;
    head_versions integer[] := '{}';
    head_leaves bytea[] := '{}';
    head_version integer;
    head_leaf bytea;
    digests bytea[] := '{}';
    leaves bytea[] := '{}';
    digest bytea;
    at integer;
BEGIN
    -- Every statement below must see what was committed before it, or a version would be judged on an old snapshot (I3).
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'interlock: the journal is written in read committed transactions only';
    END IF;
    -- An asserted approval has no row that could conflict, so its writers stand in line, and nobody else's.
    IF approval IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended(approval::text, 0::bigint));
    END IF;
    FOR i IN 1 .. cardinality(expected_ids) LOOP
        SELECT originator_version, leaf_hash INTO head_version, head_leaf FROM stored_events
            WHERE originator_id = expected_ids[i] ORDER BY originator_version DESC LIMIT 1;
        IF coalesce(head_version, 0) <> expected_versions[i] THEN
            RETURN i;
        END IF;
        head_leaves[i] := head_leaf;
    END LOOP;
    SELECT log, commit_order_from INTO STRICT log_id, first_order FROM journal;
    IF log_id <> log_wanted THEN
        RAISE EXCEPTION 'interlock: another journal stands in the place of the one that was opened';
    END IF;
    FOR i IN 1 .. cardinality(ids) LOOP
        at := array_position(expected_ids, ids[i]);
        digest := sha256(states[i]);
        -- The record of ADR 2, in the canonical form of RFC 8785: only printable ASCII without quotes reaches it.
        head_leaves[at] := sha256('\x00'::bytea || convert_to(format(
            '{"id":"%s","log":"%s","n":%s,"prev":"%s","state":"sha256:%s","topic":"%s","v":1}',
            ids[i], log_id, versions[i], coalesce('sha256:' || encode(head_leaves[at], 'hex'), 'genesis'),
            encode(digest, 'hex'), topics[i]
        ), 'UTF8'));
        digests[i] := digest;
        leaves[i] := head_leaves[at];
    END LOOP;
    IF cardinality(name_ids) > 0 THEN
        INSERT INTO names SELECT * FROM unnest(name_kinds, name_digests, name_ids);
    END IF;
    INSERT INTO stored_events (originator_id, originator_version, topic, state, state_digest, leaf_hash, commit_order)
        SELECT e.id, e.version, e.topic, e.state, e.digest, e.leaf, first_order + pg_current_xact_id()::text::bigint
        FROM unnest(ids, versions, topics, states, digests, leaves) AS e (id, version, topic, state, digest, leaf);
    IF summary_id IS NOT NULL THEN
        INSERT INTO receipts VALUES (
            summary_id, summary_version, summary_key, summary_status, summary_target, summary_subject, summary_approval_id,
            summary_amount_minor, summary_currency, summary_via, summary_code, summary_attention, summary_claim_lock,
            summary_claim_expires_at, summary_intended_at, summary_changed_at
        ) ON CONFLICT (action_id) DO UPDATE SET (
            version, key, status, target, subject, approval_id, amount_minor, currency, via, code, attention,
            claim_lock, claim_expires_at, intended_at, changed_at
        ) = (
            excluded.version, excluded.key, excluded.status, excluded.target, excluded.subject, excluded.approval_id,
            excluded.amount_minor, excluded.currency, excluded.via, excluded.code, excluded.attention,
            excluded.claim_lock, excluded.claim_expires_at, excluded.intended_at, excluded.changed_at
        );
    END IF;
    RETURN 0;
END
$$;

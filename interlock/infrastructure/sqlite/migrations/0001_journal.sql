-- The journal, version 1. Written for SQLite 3.40 and older.

-- What this file is: its id is in every record that is hashed (ADR 2).
CREATE TABLE journal (
    log TEXT NOT NULL,
    created_at TEXT NOT NULL
);

-- The log. `position` is dense and assigned in the event's transaction; the leaf's index is position - 1.
-- `running_hash` commits to the order of all leaves up to here.
-- `state` is null only for an erased action; its digest and leaf hash stay.
CREATE TABLE stored_events (
    position INTEGER PRIMARY KEY,
    originator_id TEXT NOT NULL,
    originator_version INTEGER NOT NULL,
    topic TEXT NOT NULL,
    state BLOB,
    state_digest BLOB NOT NULL,
    leaf_hash BLOB NOT NULL,
    running_hash BLOB NOT NULL,
    UNIQUE (originator_id, originator_version)
);

-- Which aggregate a key or an approval's id names, for ever (ADR 3).
CREATE TABLE names (
    kind TEXT NOT NULL,
    digest BLOB NOT NULL,
    aggregate_id TEXT NOT NULL,
    PRIMARY KEY (kind, digest)
) WITHOUT ROWID;

-- What actions are found by: one row an action, written in the transaction of its events, and rebuildable from them.
CREATE TABLE receipts (
    action_id TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    key TEXT,
    status TEXT NOT NULL,
    target TEXT NOT NULL,
    subject TEXT NOT NULL,
    approval_id TEXT NOT NULL,
    amount_minor INTEGER,
    currency TEXT,
    via TEXT,
    code TEXT,
    attention INTEGER NOT NULL,
    claim_lock TEXT,
    claim_expires_at TEXT,
    intended_at TEXT NOT NULL,
    changed_at TEXT NOT NULL
) WITHOUT ROWID;

-- Most actions end as committed, and a page of those is found by the primary key alone. An index that leaves them out stays
-- small, and is not written to by the commit that every action pays for.
CREATE INDEX receipts_by_open_status ON receipts (status, action_id) WHERE status <> 'COMMITTED';
CREATE INDEX receipts_by_attention ON receipts (action_id) WHERE attention = 1;
CREATE INDEX receipts_by_approval ON receipts (approval_id, action_id);

-- History is append-only (I9), in the database as well as in the code.
CREATE TRIGGER stored_events_no_update BEFORE UPDATE ON stored_events
BEGIN SELECT RAISE(ABORT, 'interlock: the log is append-only'); END;

CREATE TRIGGER stored_events_no_delete BEFORE DELETE ON stored_events
BEGIN SELECT RAISE(ABORT, 'interlock: the log is append-only'); END;

-- INSERT OR REPLACE deletes the old row without waking the delete trigger, so it is caught on the way in.
CREATE TRIGGER stored_events_no_replace BEFORE INSERT ON stored_events
WHEN EXISTS (SELECT 1 FROM stored_events WHERE position = NEW.position)
    OR EXISTS (
        SELECT 1 FROM stored_events
        WHERE originator_id = NEW.originator_id AND originator_version = NEW.originator_version
    )
BEGIN SELECT RAISE(ABORT, 'interlock: the log is append-only'); END;

CREATE TRIGGER names_no_update BEFORE UPDATE ON names
BEGIN SELECT RAISE(ABORT, 'interlock: a name is for ever'); END;

CREATE TRIGGER names_no_delete BEFORE DELETE ON names
BEGIN SELECT RAISE(ABORT, 'interlock: a name is for ever'); END;

CREATE TRIGGER names_no_replace BEFORE INSERT ON names
WHEN EXISTS (SELECT 1 FROM names WHERE kind = NEW.kind AND digest = NEW.digest)
BEGIN SELECT RAISE(ABORT, 'interlock: a name is for ever'); END;

CREATE TRIGGER journal_no_update BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ABORT, 'interlock: a journal keeps its id'); END;

CREATE TRIGGER journal_no_second BEFORE INSERT ON journal
WHEN EXISTS (SELECT 1 FROM journal)
BEGIN SELECT RAISE(ABORT, 'interlock: a journal keeps its id'); END;

CREATE TRIGGER journal_no_delete BEFORE DELETE ON journal
BEGIN SELECT RAISE(ABORT, 'interlock: a journal keeps its id'); END;

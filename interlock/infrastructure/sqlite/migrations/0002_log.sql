-- Version 2: the transparency log. Its leaves are the events' leaf hashes; here is what stands above them, and what was signed.

-- One hash for every full tile of 256 leaves, and so on upwards. They can be dropped and made again from the leaves.
CREATE TABLE log_nodes (
    level INTEGER NOT NULL CHECK (level >= 1),
    idx INTEGER NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (level, idx)
) WITHOUT ROWID;

-- What the log signed. `signatures` are its own lines; origin, size and root are the text that they are over.
CREATE TABLE checkpoints (
    size INTEGER PRIMARY KEY,
    origin TEXT NOT NULL,
    root BLOB NOT NULL,
    signatures TEXT NOT NULL,
    made_at TEXT NOT NULL
);

-- What witnesses signed, who are named by their key's name and id.
CREATE TABLE cosignatures (
    size INTEGER NOT NULL,
    cosigner TEXT NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (size, cosigner)
) WITHOUT ROWID;

-- What was signed was signed (I9).
CREATE TRIGGER checkpoints_no_update BEFORE UPDATE ON checkpoints
BEGIN SELECT RAISE(ABORT, 'interlock: the log is append-only'); END;

CREATE TRIGGER checkpoints_no_delete BEFORE DELETE ON checkpoints
BEGIN SELECT RAISE(ABORT, 'interlock: the log is append-only'); END;

CREATE TRIGGER checkpoints_no_replace BEFORE INSERT ON checkpoints
WHEN EXISTS (SELECT 1 FROM checkpoints WHERE size >= NEW.size)
BEGIN SELECT RAISE(ABORT, 'interlock: a checkpoint of that size or more is there'); END;

CREATE TRIGGER cosignatures_no_update BEFORE UPDATE ON cosignatures
BEGIN SELECT RAISE(ABORT, 'interlock: the log is append-only'); END;

CREATE TRIGGER cosignatures_no_delete BEFORE DELETE ON cosignatures
BEGIN SELECT RAISE(ABORT, 'interlock: the log is append-only'); END;

CREATE TRIGGER cosignatures_no_replace BEFORE INSERT ON cosignatures
WHEN EXISTS (SELECT 1 FROM cosignatures WHERE size = NEW.size AND cosigner = NEW.cosigner)
BEGIN SELECT RAISE(ABORT, 'interlock: the log is append-only'); END;

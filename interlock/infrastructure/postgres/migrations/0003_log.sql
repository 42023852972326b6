-- Version 3: the transparency log. Its leaves are the events' leaf hashes, in the order of their positions; here is what stands
-- above them, and what was signed.

-- One hash for every full tile of 256 leaves, and so on upwards. They can be dropped and made again from the leaves.
CREATE TABLE log_nodes (
    level integer NOT NULL CHECK (level >= 1),
    idx bigint NOT NULL,
    hash bytea NOT NULL,
    PRIMARY KEY (level, idx)
);

-- What the log signed. `signatures` are its own lines; origin, size and root are the text that they are over.
CREATE TABLE checkpoints (
    size bigint PRIMARY KEY,
    origin text NOT NULL,
    root bytea NOT NULL,
    signatures text NOT NULL,
    made_at text NOT NULL
);

-- What witnesses signed, who are named by their key's name and id.
CREATE TABLE cosignatures (
    size bigint NOT NULL,
    cosigner text NOT NULL,
    line text NOT NULL,
    PRIMARY KEY (size, cosigner)
);

-- What was signed was signed (I9).
CREATE TRIGGER checkpoints_append_only BEFORE UPDATE OR DELETE ON checkpoints
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER checkpoints_no_truncate BEFORE TRUNCATE ON checkpoints
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER cosignatures_append_only BEFORE UPDATE OR DELETE ON cosignatures
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER cosignatures_no_truncate BEFORE TRUNCATE ON cosignatures
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

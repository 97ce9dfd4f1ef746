-- Schema version 4: incarnations. Nothing in the logs is touched.
-- A transaction that writes has the whole database to itself, and the look at the number is
-- made inside it.

-- The newest incarnation of each participant that was given one.
CREATE TABLE participants (
    name TEXT PRIMARY KEY,
    incarnation INTEGER NOT NULL CHECK (incarnation > 0),
    started_at TEXT NOT NULL
);

CREATE TRIGGER participants_count_up BEFORE UPDATE ON participants BEGIN
    SELECT RAISE(ABORT, 'an incarnation can only be counted up')
    WHERE NEW.name IS NOT OLD.name OR NEW.incarnation <= OLD.incarnation;
END;

-- A number that was forgotten would be given out again.
CREATE TRIGGER participants_no_delete BEFORE DELETE ON participants BEGIN
    SELECT RAISE(ABORT, 'participants are never removed');
END;

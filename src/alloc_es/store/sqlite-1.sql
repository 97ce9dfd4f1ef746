-- Schema version 1 of a store of alloc-es in SQLite.
-- Two logs of the same shape: what was decided, and which run got which version.

CREATE TABLE alloc_es_schema (
    version INTEGER PRIMARY KEY,
    applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);

-- An explicit notification_id: VACUUM may renumber a rowid that has no column.
CREATE TABLE decision_events (
    notification_id INTEGER PRIMARY KEY CHECK (notification_id > 0),
    originator_id TEXT NOT NULL,
    originator_version INTEGER NOT NULL CHECK (originator_version > 0),
    topic TEXT NOT NULL,
    state BLOB NOT NULL CHECK (json_valid(CAST(state AS TEXT))),
    UNIQUE (originator_id, originator_version)
);

CREATE UNIQUE INDEX decision_events_command_id
ON decision_events (originator_id, json_extract(CAST(state AS TEXT), '$.command_id'));

CREATE TABLE run_events (
    notification_id INTEGER PRIMARY KEY CHECK (notification_id > 0),
    originator_id TEXT NOT NULL,
    originator_version INTEGER NOT NULL CHECK (originator_version = 1),
    topic TEXT NOT NULL,
    state BLOB NOT NULL CHECK (json_valid(CAST(state AS TEXT))),
    UNIQUE (originator_id, originator_version)
);

-- INSERT OR REPLACE deletes without firing a DELETE trigger, so what it would
-- replace is refused before the insert.
CREATE TRIGGER decision_events_append BEFORE INSERT ON decision_events BEGIN
    SELECT RAISE(ABORT, 'not the next generation of its stream')
    WHERE NEW.originator_version IS NOT 1 + (
        SELECT COALESCE(MAX(originator_version), 0) FROM decision_events
        WHERE originator_id = NEW.originator_id
    );
    SELECT RAISE(ABORT, 'command id taken')
    WHERE EXISTS (
        SELECT 1 FROM decision_events WHERE originator_id = NEW.originator_id
        AND json_extract(CAST(state AS TEXT), '$.command_id')
            = json_extract(CAST(NEW.state AS TEXT), '$.command_id')
    );
    SELECT RAISE(ABORT, 'positions are given by the database') WHERE NEW.notification_id > 0;
END;

CREATE TRIGGER run_events_append BEFORE INSERT ON run_events BEGIN
    SELECT RAISE(ABORT, 'run id taken')
    WHERE EXISTS (SELECT 1 FROM run_events WHERE originator_id = NEW.originator_id);
    SELECT RAISE(ABORT, 'positions are given by the database') WHERE NEW.notification_id > 0;
END;

CREATE TRIGGER decision_events_no_update BEFORE UPDATE ON decision_events BEGIN
    SELECT RAISE(ABORT, 'events are never changed');
END;

CREATE TRIGGER decision_events_no_delete BEFORE DELETE ON decision_events BEGIN
    SELECT RAISE(ABORT, 'events are never removed');
END;

CREATE TRIGGER run_events_no_update BEFORE UPDATE ON run_events BEGIN
    SELECT RAISE(ABORT, 'events are never changed');
END;

CREATE TRIGGER run_events_no_delete BEFORE DELETE ON run_events BEGIN
    SELECT RAISE(ABORT, 'events are never removed');
END;

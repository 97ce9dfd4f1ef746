-- Schema version 5: the logs as plain SQL sees them, and room for archives of old runs.

CREATE VIEW decision_log AS
SELECT
    notification_id AS position,
    json_extract(event, '$.allocation.tenant_id') AS tenant_id,
    json_extract(event, '$.allocation.workflow_id') AS workflow_id,
    originator_version AS generation,
    topic AS type,
    json_extract(event, '$.decision') AS decision,
    json_extract(event, '$.version') AS version,
    json_extract(event, '$.allocation.arms[0].version') AS current_version,
    (
        SELECT json_group_object(json_extract(arm.value, '$.version'), (
            SELECT COALESCE(SUM(json_extract(slot.value, '$[1]') - json_extract(slot.value, '$[0]')), 0)
            FROM json_each(arm.value, '$.slots') AS slot
        ))
        FROM json_each(event, '$.allocation.arms') AS arm
    ) AS split,
    json_extract(event, '$.allocation.episode') AS episode,
    json_extract(event, '$.max_challengers') AS max_challengers,
    json_extract(event, '$.actor') AS actor,
    json_extract(event, '$.reason') AS reason,
    json_extract(event, '$.recorded_at') AS recorded_at,
    json_extract(event, '$.command_id') AS command_id,
    json_extract(event, '$.previous_digest') AS previous_digest,
    event
FROM (SELECT *, CAST(state AS TEXT) AS event FROM decision_events);

CREATE VIEW run_log AS
SELECT
    notification_id AS position,
    json_extract(event, '$.tenant_id') AS tenant_id,
    json_extract(event, '$.workflow_id') AS workflow_id,
    json_extract(event, '$.run_id') AS run_id,
    json_extract(event, '$.unit') AS unit,
    json_extract(event, '$.version') AS version,
    json_extract(event, '$.arm') AS arm,
    json_extract(event, '$.generation') AS generation,
    json_extract(event, '$.bucket') AS bucket,
    json_extract(event, '$.slot[0]') AS slot_first,
    json_extract(event, '$.slot[1]') AS slot_end,
    json_extract(event, '$.episode') AS episode,
    json_extract(event, '$.salt') AS salt,
    json_extract(event, '$.hash_version') AS hash_version,
    json_extract(event, '$.actor') AS actor,
    json_extract(event, '$.recorded_at') AS recorded_at,
    json_extract(event, '$.decision_position') AS decision_position,
    json_extract(event, '$.decision_digest') AS decision_digest,
    event
FROM (SELECT *, CAST(state AS TEXT) AS event FROM run_events);

-- The archives that took runs out of the log. Each holds the runs behind the one before it, up
-- to its last position: so a run is archived if its position is not above the last of all.
CREATE TABLE run_archives (
    name TEXT PRIMARY KEY,
    last_position INTEGER NOT NULL UNIQUE CHECK (last_position > 0),
    runs INTEGER NOT NULL,
    digest TEXT NOT NULL,
    archived_at TEXT NOT NULL
);

-- What is left of each archived run: that its id was given out, and where its event was.
CREATE TABLE archived_runs (
    originator_id TEXT PRIMARY KEY,
    position INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TRIGGER run_archives_no_update BEFORE UPDATE ON run_archives BEGIN
    SELECT RAISE(ABORT, 'archives are never changed');
END;

CREATE TRIGGER run_archives_no_delete BEFORE DELETE ON run_archives BEGIN
    SELECT RAISE(ABORT, 'archives are never forgotten');
END;

CREATE TRIGGER archived_runs_no_update BEFORE UPDATE ON archived_runs BEGIN
    SELECT RAISE(ABORT, 'archived runs are never changed');
END;

CREATE TRIGGER archived_runs_no_delete BEFORE DELETE ON archived_runs BEGIN
    SELECT RAISE(ABORT, 'archived runs are never forgotten');
END;

DROP TRIGGER run_events_no_delete;

-- A run leaves the log only behind its archive. The newest one stays: its position would be
-- given out again.
CREATE TRIGGER run_events_no_delete BEFORE DELETE ON run_events BEGIN
    SELECT RAISE(ABORT, 'events are never removed, but for runs that are archived')
    WHERE OLD.notification_id > (SELECT COALESCE(MAX(last_position), 0) FROM run_archives)
    OR OLD.notification_id = (SELECT MAX(notification_id) FROM run_events)
    OR NOT EXISTS (
        SELECT 1 FROM archived_runs
        WHERE originator_id = OLD.originator_id AND position = OLD.notification_id
    );
END;

DROP TRIGGER decision_events_append;
DROP TRIGGER run_events_append;

-- As before, each rule by itself, and the id of an archived run is taken. Whoever imports a
-- log drops the triggers about positions and verified runs, and makes them again, in the
-- transaction that imports.
CREATE TRIGGER decision_events_append BEFORE INSERT ON decision_events BEGIN
    SELECT RAISE(ABORT, 'an event is stored as bytes') WHERE typeof(NEW.state) <> 'blob';
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
END;

CREATE TRIGGER decision_events_position BEFORE INSERT ON decision_events BEGIN
    SELECT RAISE(ABORT, 'positions are given by the database') WHERE NEW.notification_id > 0;
END;

CREATE TRIGGER run_events_append BEFORE INSERT ON run_events BEGIN
    SELECT RAISE(ABORT, 'an event is stored as bytes') WHERE typeof(NEW.state) <> 'blob';
    SELECT RAISE(ABORT, 'run id taken')
    WHERE EXISTS (SELECT 1 FROM run_events WHERE originator_id = NEW.originator_id)
    OR EXISTS (SELECT 1 FROM archived_runs WHERE originator_id = NEW.originator_id);
END;

CREATE TRIGGER run_events_position BEFORE INSERT ON run_events BEGIN
    SELECT RAISE(ABORT, 'positions are given by the database') WHERE NEW.notification_id > 0;
END;

CREATE TRIGGER run_events_verified BEFORE INSERT ON run_events BEGIN
    SELECT RAISE(ABORT, 'not verified at a position of the decision log; upgrade alloc-es')
    WHERE instr(NEW.state, CAST('"decision_position":null' AS BLOB)) > 0;
END;

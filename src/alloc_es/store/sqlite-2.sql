-- Schema version 2: the fence between decisions and runs.
-- A transaction that writes has the whole database to itself, and the look at the newest
-- decisions is made inside it, so the tables need nothing for it.

DROP TRIGGER run_events_append;

-- As before, and besides it refuses what a release that knows no fence would still write
-- through a connection that it opened before. A quotation mark inside of a JSON text is
-- escaped, so no id can hold these bytes.
CREATE TRIGGER run_events_append BEFORE INSERT ON run_events BEGIN
    SELECT RAISE(ABORT, 'run id taken')
    WHERE EXISTS (SELECT 1 FROM run_events WHERE originator_id = NEW.originator_id);
    SELECT RAISE(ABORT, 'positions are given by the database') WHERE NEW.notification_id > 0;
    SELECT RAISE(ABORT, 'not verified at a position of the decision log; upgrade alloc-es')
    WHERE instr(NEW.state, CAST('"decision_position":null' AS BLOB)) > 0;
END;

-- Schema version 2: the fence between decisions and runs.
-- Runs of a key share a lock that its decisions take alone, so no run is recorded by a
-- generation that another one has superseded. The keys share 64 stripes: a lock per key
-- would fill the server's lock table when a group holds a thousand of them.

CREATE FUNCTION close_fence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(TG_RELID::integer, hashtext(NEW.originator_id) & 63);
    RETURN NEW;
END $$;

CREATE TRIGGER close_fence BEFORE INSERT ON decision_events
FOR EACH ROW EXECUTE FUNCTION close_fence();

-- First the lock that orders commits, which the insert would take anyway: so only one group
-- at a time is inside of the fence, and a decision waits for no more than that. Then in the
-- order of the stripes, so that nobody ever waits in a circle.
-- The search path of whoever calls these two functions begins with the tables' schema.
CREATE FUNCTION share_fence(decision_streams text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1634496355, 'run_events'::regclass::oid::integer);
    PERFORM pg_advisory_xact_lock_shared('decision_events'::regclass::oid::integer, stripe)
    FROM (
        SELECT DISTINCT hashtext(stream) & 63 AS stripe
        FROM unnest(decision_streams) AS stream ORDER BY stripe
    ) AS stripes;
END $$;

-- What a release that knows no fence would still write through a connection that it opened
-- before. A quotation mark inside of a JSON text is escaped, so no id can hold these bytes.
ALTER TABLE run_events ADD CONSTRAINT run_events_verified
CHECK (position('"decision_position":null'::bytea IN state) = 0) NOT VALID;

-- Each argument is a list, its items parted by line feeds. Returns the position of the
-- decision log at which every decision was found to be the newest of its stream, by the
-- digest of its bytes; NULL, and nothing is recorded, when one is not. A statement here
-- sees what was committed before it began, so the look follows the lock.
CREATE FUNCTION record_runs(
    run_streams text, states text, decision_streams text, digests text
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    fenced text[] := string_to_array(decision_streams, E'\n');
    verified_at bigint;
BEGIN
    PERFORM share_fence(fenced);
    IF EXISTS (
        SELECT FROM unnest(fenced, string_to_array(digests, E'\n')) AS held (stream, digest)
        WHERE digest IS DISTINCT FROM (
            SELECT encode(sha256(state), 'hex') FROM decision_events
            WHERE originator_id = stream ORDER BY originator_version DESC LIMIT 1
        )
    ) THEN
        RETURN NULL;
    END IF;
    -- Looked up by itself, so that runs which were verified too early can be told by it.
    SELECT max(notification_id) INTO verified_at FROM decision_events;
    INSERT INTO run_events (originator_id, originator_version, topic, state)
    SELECT stream, 1, 'RunSpawned', convert_to(state, 'UTF8')
    FROM unnest(
        string_to_array(run_streams, E'\n'),
        string_to_array(replace(states, E'\x01', verified_at::text), E'\n')
    ) AS run (stream, state);
    RETURN verified_at;
END $$;

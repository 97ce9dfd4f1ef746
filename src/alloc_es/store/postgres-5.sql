-- Schema version 5: the logs as plain SQL sees them, and room for archives of old runs.

CREATE VIEW decision_log AS
SELECT
    notification_id AS position,
    event #>> '{allocation,tenant_id}' AS tenant_id,
    event #>> '{allocation,workflow_id}' AS workflow_id,
    originator_version AS generation,
    topic AS type,
    event ->> 'decision' AS decision,
    event ->> 'version' AS version,
    event #>> '{allocation,arms,0,version}' AS current_version,
    (
        SELECT jsonb_object_agg(arm ->> 'version', coalesce((
            SELECT sum((slot ->> 1)::integer - (slot ->> 0)::integer)
            FROM jsonb_array_elements(arm -> 'slots') AS slot
        ), 0))
        FROM jsonb_array_elements(event #> '{allocation,arms}') AS arm
    ) AS split,
    (event #>> '{allocation,episode}')::bigint AS episode,
    (event ->> 'max_challengers')::bigint AS max_challengers,
    event ->> 'actor' AS actor,
    event ->> 'reason' AS reason,
    (event ->> 'recorded_at')::timestamptz AS recorded_at,
    event ->> 'command_id' AS command_id,
    event ->> 'previous_digest' AS previous_digest,
    encode(sha256(state), 'hex') AS digest,
    event
-- OFFSET 0 keeps the planner from parsing the JSON once for each column.
FROM decision_events, LATERAL (SELECT convert_from(state, 'UTF8')::jsonb AS event OFFSET 0) AS json;

CREATE VIEW run_log AS
SELECT
    notification_id AS position,
    event ->> 'tenant_id' AS tenant_id,
    event ->> 'workflow_id' AS workflow_id,
    event ->> 'run_id' AS run_id,
    event ->> 'unit' AS unit,
    event ->> 'version' AS version,
    event ->> 'arm' AS arm,
    (event ->> 'generation')::bigint AS generation,
    (event ->> 'bucket')::integer AS bucket,
    (event #>> '{slot,0}')::integer AS slot_first,
    (event #>> '{slot,1}')::integer AS slot_end,
    (event ->> 'episode')::bigint AS episode,
    event ->> 'salt' AS salt,
    (event ->> 'hash_version')::integer AS hash_version,
    event ->> 'actor' AS actor,
    (event ->> 'recorded_at')::timestamptz AS recorded_at,
    (event ->> 'decision_position')::bigint AS decision_position,
    event ->> 'decision_digest' AS decision_digest,
    encode(sha256(state), 'hex') AS digest,
    event
FROM run_events, LATERAL (SELECT convert_from(state, 'UTF8')::jsonb AS event OFFSET 0) AS json;

-- The archives that took runs out of the log. Each holds the runs behind the one before it, up
-- to its last position: so a run is archived if its position is not above the last of all.
CREATE TABLE run_archives (
    name text PRIMARY KEY,
    last_position bigint NOT NULL UNIQUE CHECK (last_position > 0),
    runs bigint NOT NULL,
    digest text NOT NULL,
    archived_at timestamptz NOT NULL
);

-- What is left of each archived run: that its id was given out, and where its event was.
CREATE TABLE archived_runs (
    originator_id text NOT NULL,
    position bigint NOT NULL,
    CONSTRAINT archived_runs_place PRIMARY KEY (originator_id)
);

-- Runs are recorded with the rights of whoever records them, and by what is archived. So who may
-- read a log may read what belongs to it, and nobody is kept from their work by the migration.
DO $$
DECLARE
    log text;
    reader text;
BEGIN
    FOR log, reader IN
        SELECT relname, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END
        FROM pg_class, LATERAL aclexplode(relacl)
        WHERE pg_class.oid IN ('decision_events'::regclass, 'run_events'::regclass)
        AND privilege_type = 'SELECT' AND grantee <> relowner
    LOOP
        EXECUTE format(
            'GRANT SELECT ON %s TO %s',
            CASE log WHEN 'run_events' THEN 'run_log, run_archives, archived_runs' ELSE 'decision_log' END,
            reader
        );
    END LOOP;
END $$;

CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON run_archives
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON archived_runs
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- A run leaves the log only behind its archive. The newest one stays, by which the end of the
-- log is told.
CREATE FUNCTION refuse_removal() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    refused boolean;
BEGIN
    EXECUTE format(
        'SELECT EXISTS ('
        ' SELECT FROM gone WHERE notification_id > (SELECT coalesce(max(last_position), 0) FROM %1$I.run_archives)'
        ' OR NOT EXISTS ('
        '  SELECT FROM %1$I.archived_runs AS archived'
        '  WHERE archived.originator_id = gone.originator_id AND archived.position = gone.notification_id'
        ' )'
        ') OR (SELECT max(notification_id) FROM gone)'
        ' > (SELECT coalesce(max(notification_id), 0) FROM %1$I.%2$I)',
        TG_TABLE_SCHEMA, TG_TABLE_NAME
    ) INTO refused;
    IF refused THEN
        RAISE EXCEPTION 'events of %.% are never removed, but for runs that are archived',
            TG_TABLE_SCHEMA, TG_TABLE_NAME
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;

DROP TRIGGER refuse_change ON run_events;
CREATE TRIGGER refuse_change BEFORE UPDATE OR TRUNCATE ON run_events
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER refuse_removal AFTER DELETE ON run_events
REFERENCING OLD TABLE AS gone
FOR EACH STATEMENT EXECUTE FUNCTION refuse_removal();

-- As before, and a run id that is archived is taken. A group holds the lock that orders commits
-- from before the look at the archived ids until its commit: whoever removes runs has committed
-- their ids here, and then waited for that lock, before the first run goes.
CREATE OR REPLACE FUNCTION record_runs(
    run_streams text, states text, decision_streams text, digests text
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    fenced text[] := string_to_array(decision_streams, E'\n');
    spawned text[] := string_to_array(run_streams, E'\n');
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
    IF EXISTS (SELECT FROM archived_runs WHERE originator_id = ANY (spawned)) THEN
        RAISE EXCEPTION 'the id of a run is that of an archived one'
            USING ERRCODE = 'unique_violation', CONSTRAINT = 'archived_runs_place';
    END IF;
    -- Looked up by itself, so that runs which were verified too early can be told by it.
    SELECT max(notification_id) INTO verified_at FROM decision_events;
    INSERT INTO run_events (originator_id, originator_version, topic, state)
    SELECT stream, 1, 'RunSpawned', convert_to(state, 'UTF8')
    FROM unnest(
        spawned, string_to_array(replace(states, E'\x01', verified_at::text), E'\n')
    ) AS run (stream, state);
    RETURN verified_at;
END $$;

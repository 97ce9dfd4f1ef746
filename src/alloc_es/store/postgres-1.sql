-- Schema version 1 of a store of alloc-es in PostgreSQL, made in the schema that the
-- search path names. Two logs of the same shape: what was decided, and which run got
-- which version.

CREATE TABLE alloc_es_schema (
    version integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- convert_from is declared STABLE because a server's conversions can be redefined;
-- UTF-8 to a UTF-8 server is none, and migrations refuse any other server encoding.
CREATE FUNCTION command_id(state bytea) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$ SELECT convert_from(state, 'UTF8')::jsonb ->> 'command_id' $$;

CREATE TABLE decision_events (
    originator_id text NOT NULL,
    originator_version bigint NOT NULL CHECK (originator_version > 0),
    topic text NOT NULL,
    state bytea NOT NULL,
    notification_id bigint GENERATED ALWAYS AS IDENTITY,
    CONSTRAINT decision_events_place PRIMARY KEY (originator_id, originator_version)
);

CREATE UNIQUE INDEX decision_events_notification_id ON decision_events (notification_id);

CREATE UNIQUE INDEX decision_events_command_id ON decision_events (originator_id, command_id(state));

CREATE TABLE run_events (
    originator_id text NOT NULL,
    originator_version bigint NOT NULL CHECK (originator_version = 1),
    topic text NOT NULL,
    state bytea NOT NULL,
    notification_id bigint GENERATED ALWAYS AS IDENTITY,
    CONSTRAINT run_events_place PRIMARY KEY (originator_id, originator_version)
);

CREATE UNIQUE INDEX run_events_notification_id ON run_events (notification_id);

-- Positions must become readable in their order, or a reader that follows the log passes
-- over an event that commits late. So whoever inserts holds this lock until commit, and
-- takes it before the first position is drawn. An advisory lock, because LOCK TABLE needs
-- more rights than INSERT and waits for a vacuum.
CREATE FUNCTION order_commits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1634496355, TG_RELID::integer);
    RETURN NULL;
END $$;

CREATE FUNCTION tell_followers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify(TG_TABLE_SCHEMA || '.' || TG_TABLE_NAME, '');
    RETURN NULL;
END $$;

-- A place that is taken is left to the primary key, whose error callers know.
-- The table is named at run time, so that a schema can be renamed or restored under another
-- name.
CREATE FUNCTION refuse_gap() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    newest bigint;
BEGIN
    EXECUTE format(
        'SELECT max(originator_version) FROM %I.%I WHERE originator_id = $1',
        TG_TABLE_SCHEMA, TG_TABLE_NAME
    ) INTO newest USING NEW.originator_id;
    IF NEW.originator_version > 1 + coalesce(newest, 0) THEN
        RAISE EXCEPTION 'generation % of % leaves a gap behind %',
            NEW.originator_version, NEW.originator_id, coalesce(newest, 0)
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'events of %.% are never changed or removed', TG_TABLE_SCHEMA, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER order_commits BEFORE INSERT ON decision_events
FOR EACH STATEMENT EXECUTE FUNCTION order_commits();
CREATE TRIGGER refuse_gap BEFORE INSERT ON decision_events
FOR EACH ROW EXECUTE FUNCTION refuse_gap();
CREATE TRIGGER tell_followers AFTER INSERT ON decision_events
FOR EACH STATEMENT EXECUTE FUNCTION tell_followers();
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON decision_events
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TRIGGER order_commits BEFORE INSERT ON run_events
FOR EACH STATEMENT EXECUTE FUNCTION order_commits();
CREATE TRIGGER tell_followers AFTER INSERT ON run_events
FOR EACH STATEMENT EXECUTE FUNCTION tell_followers();
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON run_events
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

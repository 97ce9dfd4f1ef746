-- Schema version 3: the read side. Nothing in these tables is needed to decide or to spawn.

-- The builds of each read model, with how far into each log their rows go; NULL for a log
-- that the model does not follow. The rows of one build are in tables that end with its
-- number; views of the plain names show those of the live one.
CREATE TABLE projection_builds (
    name text NOT NULL,
    build bigint NOT NULL,
    version bigint NOT NULL,
    state text NOT NULL CHECK (state IN ('building', 'live', 'old')),
    tenant_id text,
    tables text NOT NULL,
    views text NOT NULL,
    decisions_position bigint,
    runs_position bigint,
    revision bigint NOT NULL DEFAULT 0,
    writer text,
    updated_at timestamptz NOT NULL,
    failed_log text,
    failed_position bigint,
    failed_event text,
    failed_error text,
    CONSTRAINT projection_builds_place PRIMARY KEY (name, build)
);

CREATE UNIQUE INDEX projection_builds_live ON projection_builds (name) WHERE state = 'live';

-- The tenants that a read model leaves out.
CREATE TABLE projection_purges (
    name text NOT NULL,
    tenant_id text NOT NULL,
    purged_at timestamptz NOT NULL,
    PRIMARY KEY (name, tenant_id)
);

-- Who is handed the triggers, each behind the position at which it began. Up to the position
-- scanned_to every trigger of the decision log has a row in trigger_deliveries.
CREATE TABLE trigger_consumers (
    consumer text PRIMARY KEY,
    begins_after bigint NOT NULL,
    scanned_to bigint NOT NULL,
    created_at timestamptz NOT NULL
);

CREATE TABLE trigger_deliveries (
    consumer text NOT NULL,
    position bigint NOT NULL,
    tenant_id text NOT NULL,
    workflow_id text NOT NULL,
    generation bigint NOT NULL,
    attempts bigint NOT NULL DEFAULT 0,
    worker text,
    acknowledged_at timestamptz,
    PRIMARY KEY (consumer, position)
);

CREATE INDEX trigger_deliveries_pending ON trigger_deliveries (consumer, attempts, position)
WHERE acknowledged_at IS NULL;

-- A worker that holds triggers writes another beat now and then; one whose beat stands still
-- for lease_seconds is dead, and what it held is free. No clock is compared with another's.
CREATE TABLE trigger_workers (
    consumer text NOT NULL,
    worker text NOT NULL,
    beat bigint NOT NULL,
    lease_seconds double precision NOT NULL,
    PRIMARY KEY (consumer, worker)
);

-- In a transaction that sees one moment, and that began before a read model was rebuilt, the
-- model's view would show the tables of the new build without rows. The views call this.
CREATE FUNCTION require_live(live boolean) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT live THEN
        RAISE EXCEPTION 'the read model was rebuilt after this transaction began; begin it again'
            USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN true;
END $$;

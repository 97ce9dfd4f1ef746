-- Schema version 3: the read side. Nothing in these tables is needed to decide or to spawn.

-- The builds of each read model, with how far into each log their rows go; NULL for a log
-- that the model does not follow. The rows of one build are in tables that end with its
-- number; views of the plain names show those of the live one.
CREATE TABLE projection_builds (
    name TEXT NOT NULL,
    build INTEGER NOT NULL,
    version INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('building', 'live', 'old')),
    tenant_id TEXT,
    tables TEXT NOT NULL,
    views TEXT NOT NULL,
    decisions_position INTEGER,
    runs_position INTEGER,
    revision INTEGER NOT NULL DEFAULT 0,
    writer TEXT,
    updated_at TEXT NOT NULL,
    failed_log TEXT,
    failed_position INTEGER,
    failed_event TEXT,
    failed_error TEXT,
    CONSTRAINT projection_builds_place PRIMARY KEY (name, build)
);

CREATE UNIQUE INDEX projection_builds_live ON projection_builds (name) WHERE state = 'live';

-- The tenants that a read model leaves out.
CREATE TABLE projection_purges (
    name TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    purged_at TEXT NOT NULL,
    PRIMARY KEY (name, tenant_id)
);

-- Who is handed the triggers, each behind the position at which it began. Up to the position
-- scanned_to every trigger of the decision log has a row in trigger_deliveries.
CREATE TABLE trigger_consumers (
    consumer TEXT PRIMARY KEY,
    begins_after INTEGER NOT NULL,
    scanned_to INTEGER NOT NULL,
    created_at TEXT NOT NULL
);

CREATE TABLE trigger_deliveries (
    consumer TEXT NOT NULL,
    position INTEGER NOT NULL,
    tenant_id TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    generation INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    worker TEXT,
    acknowledged_at TEXT,
    PRIMARY KEY (consumer, position)
);

CREATE INDEX trigger_deliveries_pending ON trigger_deliveries (consumer, attempts, position)
WHERE acknowledged_at IS NULL;

-- A worker that holds triggers writes another beat now and then; one whose beat stands still
-- for lease_seconds is dead, and what it held is free. No clock is compared with another's.
CREATE TABLE trigger_workers (
    consumer TEXT NOT NULL,
    worker TEXT NOT NULL,
    beat INTEGER NOT NULL,
    lease_seconds REAL NOT NULL,
    PRIMARY KEY (consumer, worker)
);

-- Schema version 4: incarnations. Nothing in the logs is touched.

-- The newest incarnation of each participant that was given one.
CREATE TABLE participants (
    name text PRIMARY KEY,
    incarnation bigint NOT NULL CHECK (incarnation > 0),
    started_at timestamptz NOT NULL
);

-- Whoever writes as an incarnation shares a lock, from its look at the number until its commit,
-- that whoever counts the number up takes alone: so what was recorded by the old one was
-- recorded before, and what comes later sees the new one. No row is locked, which would need
-- the right to change it, and let a busy old one keep the new one waiting. The look is a
-- statement of its own, because one sees what was committed before it began.
-- The lock comes before the locks of the fence, and before the one that orders runs; behind
-- the one that orders decisions, which nobody waits for who holds any of the others.
-- The search path of whoever calls it begins with the tables' schema.
CREATE FUNCTION check_incarnation(participant text, number bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    newest bigint;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(
        'participants'::regclass::oid::integer, hashtext(participant)
    );
    SELECT incarnation INTO newest FROM participants WHERE name = participant;
    IF newest IS DISTINCT FROM number THEN
        RAISE EXCEPTION 'incarnation % of % is not the newest', number, participant
            USING ERRCODE = 'ZI001', DETAIL = coalesce(newest::text, '');
    END IF;
END $$;

CREATE FUNCTION supersede_incarnation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.name <> OLD.name OR NEW.incarnation <= OLD.incarnation THEN
        RAISE EXCEPTION 'the incarnation of % is % and can only be counted up',
            OLD.name, OLD.incarnation
            USING ERRCODE = 'restrict_violation';
    END IF;
    PERFORM pg_advisory_xact_lock(TG_RELID::integer, hashtext(NEW.name));
    RETURN NEW;
END $$;

-- A number that was forgotten would be given out again.
CREATE FUNCTION refuse_forgetting() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'participants of % are never removed', TG_TABLE_SCHEMA
        USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER supersede_incarnation BEFORE UPDATE ON participants
FOR EACH ROW EXECUTE FUNCTION supersede_incarnation();
CREATE TRIGGER refuse_forgetting BEFORE DELETE OR TRUNCATE ON participants
FOR EACH STATEMENT EXECUTE FUNCTION refuse_forgetting();

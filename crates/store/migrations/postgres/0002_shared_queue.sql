-- The lease queue of several hubs. A run waits in the lane of its owner and place: one runner's, or the pool's (place '').
-- Within a lane runs go by priority, then by turn: each group's runs are numbered one after another from where the lane
-- stands, so that groups alternate however many runs each has (start-time fair queueing).

ALTER TABLE runs ADD COLUMN place TEXT COLLATE "C" GENERATED ALWAYS AS (COALESCE(runner, '')) STORED;
ALTER TABLE runs ADD COLUMN turn BIGINT NOT NULL DEFAULT 0;
-- When the lease ends, by the clock of this server: hubs on several machines have several clocks.
ALTER TABLE runs ADD COLUMN expires_at BIGINT;
ALTER TABLE runners ADD COLUMN paused TEXT COLLATE "C";

-- Only a hub with the queue in its own memory reads all open runs.
DROP INDEX runs_open;
CREATE INDEX runs_waiting ON runs (owner, place, priority, required_caps, turn, id) WHERE status = 'queued';
CREATE INDEX runs_by_group ON runs (owner, place, priority, fair_group, turn) WHERE status = 'queued';
CREATE INDEX runs_leased ON runs (expires_at) WHERE status = 'running';

-- Every combination that a run has waited under; few, so that the next run is found without walking past others.
CREATE TABLE lanes (
    owner         TEXT COLLATE "C" NOT NULL,
    place         TEXT COLLATE "C" NOT NULL,
    priority      TEXT COLLATE "C" NOT NULL,
    required_caps TEXT COLLATE "C" NOT NULL,
    served        BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (owner, place, priority, required_caps)
);

-- When a runner with these capabilities ('*': any) last showed that it is busy with other runs, not gone.
CREATE TABLE askers (
    owner  TEXT COLLATE "C" NOT NULL,
    runner TEXT COLLATE "C" NOT NULL,
    caps   TEXT COLLATE "C" NOT NULL,
    at     BIGINT NOT NULL,
    PRIMARY KEY (owner, runner, caps)
);

-- How far a run's log and evidence go: lines of one run may come in through several hubs.
CREATE TABLE run_extents (
    run_id      TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    log_seq     BIGINT NOT NULL DEFAULT 0,
    log_bytes   BIGINT NOT NULL DEFAULT 0,
    event_seq   BIGINT NOT NULL DEFAULT 0,
    event_bytes BIGINT NOT NULL DEFAULT 0
);

-- The latest screen of a run that is going; worth nothing after a crash.
CREATE UNLOGGED TABLE run_screens (
    run_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    at     BIGINT NOT NULL,
    frame  TEXT NOT NULL
);

-- News between hubs that are too large for a notification.
CREATE UNLOGGED TABLE hub_mail (
    id   BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at   BIGINT NOT NULL,
    body TEXT NOT NULL
);

CREATE FUNCTION hub_clock() RETURNS BIGINT LANGUAGE sql VOLATILE AS
$$ SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT $$;

-- Leases runs of one owner to callers that wait, each first from its own lane, then from the pool's. A caller that lacks
-- what the first run of its own lane needs gets that run back as lacking, and the next one. `p_caps` has a text of words for
-- each caller, or NULL for one that takes anything.
--
-- Hubs take turns at one owner, so that none sees a run that another is about to take, and sleeps.
CREATE FUNCTION hub_claim_1(p_owner TEXT, p_runners TEXT[], p_caps TEXT[], p_at BIGINT, p_ttl BIGINT, p_hub TEXT)
RETURNS TABLE (seat INT, job_id TEXT, epoch BIGINT, job TEXT, lacking TEXT)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_until BIGINT;
    v_filled BOOLEAN[] := array_fill(FALSE, ARRAY[cardinality(p_runners)]);
    v_taken TEXT[] := '{}';
    v_served_now BIGINT := -1;
    v_served_later BIGINT := -1;
    v_seats INT[];
    v_caps TEXT;
    v_asker RECORD;
    v_run RECORD;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(p_owner, 7));
    v_until := hub_clock() + p_ttl;

    FOR v_asker IN
        SELECT a.at AS seat, a.runner, a.caps
        FROM unnest(p_runners, p_caps) WITH ORDINALITY AS a (runner, caps, at)
        WHERE EXISTS (SELECT 1 FROM runs r WHERE r.status = 'queued' AND r.owner = p_owner AND r.place = a.runner)
        ORDER BY a.at
    LOOP
        FOR v_run IN
            SELECT x.id, x.turn, l.priority, l.required_caps
            FROM lanes l CROSS JOIN LATERAL (
                SELECT r.id, r.turn FROM runs r
                WHERE r.status = 'queued' AND r.owner = l.owner AND r.place = l.place
                  AND r.priority = l.priority AND r.required_caps = l.required_caps
                ORDER BY r.turn, r.id LIMIT 20) x
            WHERE l.owner = p_owner AND l.place = v_asker.runner
            ORDER BY l.priority <> 'interactive', x.turn, x.id
        LOOP
            IF v_asker.caps IS NOT NULL AND NOT
               string_to_array(v_run.required_caps, ' ') <@ string_to_array(v_asker.caps, ' ') THEN
                seat := v_asker.seat; job_id := v_run.id; epoch := 0; job := ''; lacking := v_run.required_caps;
                RETURN NEXT;
                CONTINUE;
            END IF;
            UPDATE runs r SET status = 'running', lease_epoch = r.lease_epoch + 1, leased_by = v_asker.runner,
                              expires_at = v_until, updated_at = p_at, activity_at = p_at,
                              started_at = COALESCE(r.started_at, p_at)
            WHERE r.id = (SELECT s.id FROM runs s WHERE s.id = v_run.id AND s.status = 'queued' FOR UPDATE SKIP LOCKED)
            RETURNING r.id, r.lease_epoch, r.job INTO job_id, epoch, job;
            CONTINUE WHEN NOT FOUND;
            UPDATE lanes l SET served = v_run.turn
            WHERE l.owner = p_owner AND l.place = v_asker.runner AND l.priority = v_run.priority
              AND l.served < v_run.turn;
            seat := v_asker.seat; lacking := NULL;
            v_filled[seat] := TRUE;
            v_taken := v_taken || job_id;
            RETURN NEXT;
            EXIT;
        END LOOP;
    END LOOP;

    FOR v_caps, v_seats IN
        SELECT a.caps, array_agg(a.at::INT ORDER BY a.at)
        FROM unnest(p_runners, p_caps) WITH ORDINALITY AS a (runner, caps, at)
        WHERE NOT v_filled[a.at::INT] GROUP BY a.caps ORDER BY MIN(a.at)
    LOOP
        FOR v_run IN
            WITH next AS MATERIALIZED (
                SELECT x.id, row_number() OVER (ORDER BY l.priority <> 'interactive', x.turn, x.id) AS at
                FROM lanes l CROSS JOIN LATERAL (
                    SELECT r.id, r.turn FROM runs r
                    WHERE r.status = 'queued' AND r.owner = l.owner AND r.place = l.place
                      AND r.priority = l.priority AND r.required_caps = l.required_caps
                    ORDER BY r.turn, r.id LIMIT cardinality(v_seats)) x
                WHERE l.owner = p_owner AND l.place = ''
                  AND (v_caps IS NULL OR string_to_array(l.required_caps, ' ') <@ string_to_array(v_caps, ' '))
                ORDER BY 2 LIMIT cardinality(v_seats)
            ), held AS MATERIALIZED (
                SELECT r.id, next.at FROM next JOIN runs r ON r.id = next.id
                WHERE r.status = 'queued' FOR UPDATE OF r SKIP LOCKED
            )
            UPDATE runs r SET status = 'running', lease_epoch = r.lease_epoch + 1,
                              leased_by = p_runners[v_seats[held.at::INT]], expires_at = v_until, updated_at = p_at,
                              activity_at = p_at, started_at = COALESCE(r.started_at, p_at)
            FROM held WHERE r.id = held.id
            RETURNING v_seats[held.at::INT] AS seat, r.id, r.lease_epoch, r.job, r.priority, r.turn
        LOOP
            IF v_run.priority = 'interactive' THEN
                v_served_now := GREATEST(v_served_now, v_run.turn);
            ELSE
                v_served_later := GREATEST(v_served_later, v_run.turn);
            END IF;
            v_taken := v_taken || v_run.id;
            seat := v_run.seat; job_id := v_run.id; epoch := v_run.lease_epoch; job := v_run.job; lacking := NULL;
            RETURN NEXT;
        END LOOP;
    END LOOP;

    IF v_served_now >= 0 OR v_served_later >= 0 THEN
        UPDATE lanes l SET served = CASE WHEN l.priority = 'interactive' THEN v_served_now ELSE v_served_later END
        WHERE l.owner = p_owner AND l.place = ''
          AND l.served < CASE WHEN l.priority = 'interactive' THEN v_served_now ELSE v_served_later END;
    END IF;
    IF v_taken <> '{}' THEN
        PERFORM pg_notify('everdict_hub', json_build_object(
            'from', p_hub, 'news', json_build_array(json_build_object('running', to_json(v_taken))))::TEXT);
    END IF;
END $$;

-- Puts back runs whose holders were lost, and says so to everybody.
CREATE FUNCTION hub_expire_1(p_at BIGINT, p_hub TEXT)
RETURNS TABLE (job_id TEXT, job_owner TEXT, job_place TEXT) LANGUAGE plpgsql AS $$
DECLARE
    v_jobs TEXT[];
    v_owners TEXT[];
    v_places TEXT[];
BEGIN
    WITH lost AS (
        SELECT r.id FROM runs r WHERE r.status = 'running' AND r.expires_at <= hub_clock()
        ORDER BY r.expires_at LIMIT 100 FOR UPDATE SKIP LOCKED
    ), put AS (
        UPDATE runs r SET status = 'queued', requeues = r.requeues + 1, expires_at = NULL,
                          updated_at = p_at, activity_at = p_at
        FROM lost WHERE r.id = lost.id RETURNING r.id, r.owner, r.place
    )
    SELECT array_agg(put.id), array_agg(put.owner), array_agg(put.place) INTO v_jobs, v_owners, v_places FROM put;
    IF v_jobs IS NULL THEN
        RETURN;
    END IF;
    PERFORM pg_notify('everdict_hub', json_build_object('from', p_hub, 'news', json_build_array(
        json_build_object('waiting', to_json(v_jobs))))::TEXT);
    PERFORM pg_notify('everdict_hub', json_build_object('from', p_hub, 'news', json_build_array(
        json_build_object('work', json_build_array(o.owner, o.place))))::TEXT)
    FROM (SELECT DISTINCT u.owner, u.place FROM unnest(v_owners, v_places) AS u (owner, place)) o;
    RETURN QUERY SELECT * FROM unnest(v_jobs, v_owners, v_places);
END $$;

-- Appends a line to the log of a run that its holder still has. Answers 0 when it has not, 1, or 2 when the log is full.
CREATE FUNCTION hub_log_1(p_run TEXT, p_epoch BIGINT, p_holder TEXT, p_at BIGINT, p_line TEXT, p_cap BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_seq BIGINT;
    v_bytes BIGINT;
BEGIN
    PERFORM 1 FROM runs WHERE id = p_run AND status = 'running' AND lease_epoch = p_epoch AND leased_by = p_holder;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    INSERT INTO run_extents AS e (run_id, log_seq, log_bytes) VALUES (p_run, 1, octet_length(p_line))
    ON CONFLICT (run_id) DO UPDATE
        SET log_seq = e.log_seq + 1, log_bytes = e.log_bytes + octet_length(p_line) WHERE e.log_bytes <= p_cap
    RETURNING log_seq, log_bytes INTO v_seq, v_bytes;
    IF NOT FOUND THEN
        RETURN 2;
    END IF;
    INSERT INTO run_logs (run_id, seq, at, line) VALUES (p_run, v_seq, p_at,
        CASE WHEN v_bytes > p_cap THEN '[the log ends here: it reached ' || p_cap || ' bytes]' ELSE p_line END);
    RETURN CASE WHEN v_bytes > p_cap THEN 2 ELSE 1 END;
END $$;

-- The same for a piece of evidence; one that does not fit is left out.
CREATE FUNCTION hub_event_1(p_run TEXT, p_epoch BIGINT, p_holder TEXT, p_at BIGINT, p_kind TEXT, p_body TEXT, p_cap BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    v_seq BIGINT;
BEGIN
    PERFORM 1 FROM runs WHERE id = p_run AND status = 'running' AND lease_epoch = p_epoch AND leased_by = p_holder;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    IF octet_length(p_body) > p_cap THEN
        RETURN 2;
    END IF;
    INSERT INTO run_extents AS e (run_id, event_seq, event_bytes) VALUES (p_run, 1, octet_length(p_body))
    ON CONFLICT (run_id) DO UPDATE
        SET event_seq = e.event_seq + 1, event_bytes = e.event_bytes + octet_length(p_body)
        WHERE e.event_bytes + octet_length(p_body) <= p_cap
    RETURNING event_seq INTO v_seq;
    IF NOT FOUND THEN
        RETURN 2;
    END IF;
    INSERT INTO run_events (run_id, seq, at, kind, body) VALUES (p_run, v_seq, p_at, p_kind, p_body);
    RETURN 1;
END $$;

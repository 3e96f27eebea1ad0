-- All tables and functions of agentstore, in one schema. The name of the schema is inserted for `$schema$`. Ids are
-- compared byte by byte. Times are milliseconds since 1970. A property by which rows are filtered or ordered has a
-- column of its own. The column `record` contains all properties.
--
-- Each secondary index is a partial one, sometimes with a condition that is true for all rows. Only the statements that
-- are meant to use the index contain its condition. So the planner cannot use it for other statements: whatever
-- statistics it has of a table, it looks up a row by the primary key, and does not scan the rows of a tenant instead.

CREATE TABLE $schema$.meta (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    incarnation bigint NOT NULL DEFAULT 0,
    cursor_key bytea NOT NULL
);

-- Tenants that are being deleted: their rows are removed in steps. Nothing is written to these tenants.
CREATE TABLE $schema$.dropped (
    tenant text COLLATE "C" PRIMARY KEY
);

-- Thread ids: the thread, if there is one, and the record of the id. `stamp` is the number of the transaction that last
-- wrote to the thread or to anything that belongs to it. A write takes effect only if the stamp is still the one on
-- which the decision was based.
CREATE TABLE $schema$.thread (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    stamp bigint NOT NULL,
    -- The rows of other tables that belong to the thread have this number in their keys. NULL if there is no thread.
    log bigint,
    head bigint,
    created_at bigint,
    updated_at bigint,
    last_time bigint,
    resource_id text COLLATE "C",
    parent_id text COLLATE "C",
    has_open_runs boolean NOT NULL,
    has_pending boolean NOT NULL,
    deleted_at bigint,
    record text,
    id_record text NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX thread_activity ON $schema$.thread (tenant, updated_at, id) WHERE updated_at >= 0;
CREATE INDEX thread_creation ON $schema$.thread (tenant, created_at, id) WHERE created_at >= 0;
CREATE INDEX thread_resource ON $schema$.thread (tenant, resource_id, updated_at, id) WHERE resource_id IS NOT NULL;
CREATE INDEX thread_parent ON $schema$.thread (tenant, parent_id, updated_at, id) WHERE parent_id IS NOT NULL;
CREATE INDEX thread_pending ON $schema$.thread (tenant, id) WHERE has_pending;
CREATE INDEX thread_deleted ON $schema$.thread (tenant, deleted_at, id) WHERE deleted_at IS NOT NULL;
CREATE SEQUENCE $schema$.log CACHE 32;

-- The logs of deleted threads, until a purge has removed all rows with their numbers. Until then readers ignore these
-- rows.
CREATE TABLE $schema$.purge (
    log bigint PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL
);
CREATE INDEX purge_tenant ON $schema$.purge (tenant, log);

CREATE TABLE $schema$.entry (
    log bigint NOT NULL,
    seq bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    parent bigint,
    jump bigint,
    side boolean NOT NULL,
    node text NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (log, seq)
);
CREATE UNIQUE INDEX entry_id ON $schema$.entry (log, id) WHERE id >= '';
-- Entries whose parent is not the previous entry of the log.
CREATE INDEX entry_branch ON $schema$.entry (log, parent, seq) WHERE parent IS DISTINCT FROM seq - 1;

-- The marks of an entry: properties that later entries determine. Marks that follow from the next entry alone have no
-- row.
CREATE TABLE $schema$.mark (
    log bigint NOT NULL,
    seq bigint NOT NULL,
    children bigint NOT NULL,
    record text NOT NULL,
    PRIMARY KEY (log, seq)
);
CREATE INDEX mark_branch ON $schema$.mark (log, seq) WHERE children > 1;

-- The leaves, except the head.
CREATE TABLE $schema$.tip (
    log bigint NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (log, seq)
);

-- The current names of checkpoints: `seq` is the sequence number of the checkpoint, `giver` that of the entry that gave
-- the name.
CREATE TABLE $schema$.snapshot (
    log bigint NOT NULL,
    name bytea NOT NULL,
    seq bigint NOT NULL,
    giver bigint NOT NULL,
    PRIMARY KEY (log, name, seq)
);

CREATE TABLE $schema$.commit_key (
    log bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    record text NOT NULL,
    PRIMARY KEY (log, key)
);

CREATE TABLE $schema$.state (
    log bigint NOT NULL,
    key bytea NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (log, key)
);

CREATE TABLE $schema$.run (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    log bigint NOT NULL,
    created_at bigint NOT NULL,
    phase text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    parent_run text COLLATE "C",
    record text NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX run_creation ON $schema$.run (tenant, created_at, id) WHERE created_at >= 0;
CREATE INDEX run_log ON $schema$.run (log, created_at, id) WHERE log >= 0;
CREATE INDEX run_open ON $schema$.run (tenant, phase, created_at, id) WHERE phase <> 'done';
CREATE INDEX run_parent ON $schema$.run (tenant, parent_run, created_at, id) WHERE parent_run IS NOT NULL;

CREATE TABLE $schema$.input (
    log bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    rank bigint NOT NULL,
    record text NOT NULL,
    PRIMARY KEY (log, id)
);
CREATE INDEX input_rank ON $schema$.input (log, rank) WHERE rank >= 0;

CREATE TABLE $schema$.decision (
    log bigint NOT NULL,
    run text COLLATE "C" NOT NULL,
    ticket bytea NOT NULL,
    record text NOT NULL,
    PRIMARY KEY (log, run, ticket)
);

-- Event scopes: `count` is the number of events that were ever appended, `floor` the sequence number up to which they
-- are trimmed.
CREATE TABLE $schema$.scope (
    tenant text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    count bigint NOT NULL,
    floor bigint NOT NULL,
    -- The sequence number up to which trimmed events have been removed.
    swept bigint NOT NULL DEFAULT 0,
    record text NOT NULL,
    PRIMARY KEY (tenant, kind, id)
);

-- Events, each with its sequence number in the scope of its thread and in that of its run. An event that is trimmed in
-- all of its scopes is removed.
CREATE TABLE $schema$.event (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    thread text COLLATE "C",
    thread_seq bigint,
    run text COLLATE "C",
    run_seq bigint,
    writer text COLLATE "C",
    key text COLLATE "C",
    record text NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX event_thread ON $schema$.event (tenant, thread, thread_seq) WHERE thread IS NOT NULL;
CREATE UNIQUE INDEX event_run ON $schema$.event (tenant, run, run_seq) WHERE run IS NOT NULL;
CREATE INDEX event_keyed ON $schema$.event (tenant, writer, key) WHERE key IS NOT NULL;

CREATE TABLE $schema$.event_key (
    tenant text COLLATE "C" NOT NULL,
    writer text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    record text NOT NULL,
    PRIMARY KEY (tenant, writer, key)
);

-- Rows of the outbox. `is_ready` says that a claim may take the row: no earlier row of its group has to be delivered
-- first.
CREATE TABLE $schema$.outbox (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    lane text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    available_at bigint NOT NULL,
    lease_until bigint,
    finished_at bigint,
    dedupe_key text COLLATE "C",
    order_key text COLLATE "C",
    order_number bigint,
    is_ready boolean NOT NULL,
    revision bigint NOT NULL,
    record text NOT NULL,
    payload text NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX outbox_created ON $schema$.outbox (tenant, created_at, id) WHERE created_at >= 0;
CREATE INDEX outbox_lane ON $schema$.outbox (tenant, lane, created_at, id) WHERE lane >= '';
CREATE INDEX outbox_target ON $schema$.outbox (tenant, lane, target, created_at, id) WHERE target >= '';
CREATE INDEX outbox_dead ON $schema$.outbox (tenant, created_at, id) WHERE status = 'dead_letter';
CREATE INDEX outbox_ready ON $schema$.outbox (tenant, lane, available_at, created_at, id) WHERE is_ready;
CREATE INDEX outbox_ready_target ON $schema$.outbox (tenant, lane, target, available_at, created_at, id) WHERE is_ready;
CREATE INDEX outbox_leased ON $schema$.outbox (tenant, lane, lease_until, id) WHERE lease_until IS NOT NULL;
CREATE INDEX outbox_finished ON $schema$.outbox (tenant, finished_at, id) WHERE finished_at IS NOT NULL;
CREATE UNIQUE INDEX outbox_keyed ON $schema$.outbox (tenant, lane, target, dedupe_key) WHERE dedupe_key IS NOT NULL;
CREATE UNIQUE INDEX outbox_group ON $schema$.outbox (tenant, lane, target, order_key, order_number) WHERE order_key IS NOT NULL;

-- Groups of outbox rows that are delivered in order. `stamp` is the number of the transaction that last wrote to a row
-- of the group.
CREATE TABLE $schema$.outbox_order (
    tenant text COLLATE "C" NOT NULL,
    lane text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    stamp bigint NOT NULL,
    PRIMARY KEY (tenant, lane, target, key)
);

-- What the mailbox keeps about each thread. A thread has at most one position in each of three lists: that of ready
-- threads, that of threads with a dispatch that will become due, and that of leases. `free_since` is the time since
-- which no dispatch of the thread has been claimed.
CREATE TABLE $schema$.mailbox (
    tenant text COLLATE "C" NOT NULL,
    thread text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    epoch bigint NOT NULL,
    free_since bigint NOT NULL,
    -- The claimed dispatch.
    running text COLLATE "C",
    lease_until bigint,
    -- The time up to which due dispatches have been made available by the function `turn`.
    turned bigint NOT NULL DEFAULT 0,
    ready_priority smallint,
    ready_since bigint,
    -- Whether the thread was put at a position in the list of ready threads that searches may already skip.
    is_passed boolean NOT NULL DEFAULT false,
    due_at bigint,
    record text NOT NULL,
    PRIMARY KEY (tenant, thread)
);
CREATE INDEX mailbox_ready ON $schema$.mailbox (tenant, ready_priority, ready_since, thread) WHERE ready_priority IS NOT NULL;
CREATE INDEX mailbox_passed ON $schema$.mailbox (tenant, ready_priority, ready_since, thread) WHERE is_passed;
CREATE INDEX mailbox_due ON $schema$.mailbox (tenant, due_at, thread) WHERE due_at IS NOT NULL;
CREATE INDEX mailbox_lease ON $schema$.mailbox (tenant, lease_until, thread) WHERE lease_until IS NOT NULL;

-- Dispatches. A change of the state changes no index, and each page has room for new versions of its rows. The
-- positions of dispatches in lists are in the two tables below.
CREATE TABLE $schema$.dispatch (
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    thread text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    number bigint NOT NULL,
    dedupe_key text COLLATE "C",
    status text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    body text NOT NULL,
    state text NOT NULL,
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 50);
CREATE INDEX dispatch_created ON $schema$.dispatch (tenant, created_at, id) WHERE created_at >= 0;
CREATE INDEX dispatch_thread ON $schema$.dispatch (tenant, thread, created_at, id) WHERE thread >= '';
CREATE INDEX dispatch_keyed ON $schema$.dispatch (tenant, thread, dedupe_key, number) WHERE dedupe_key IS NOT NULL;

-- The queued dispatches, including those of interrupted epochs. `is_available` says whether the dispatch was due at the
-- time `turned` of the thread's mailbox.
CREATE TABLE $schema$.queued (
    tenant text COLLATE "C" NOT NULL,
    thread text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    is_available boolean NOT NULL,
    priority smallint NOT NULL,
    number bigint NOT NULL,
    due bigint NOT NULL,
    created_at bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, thread, epoch, is_available, priority, number)
);
CREATE INDEX queued_created ON $schema$.queued (tenant, created_at, id) WHERE created_at >= 0;
CREATE INDEX queued_due ON $schema$.queued (tenant, thread, epoch, is_available, due) WHERE due >= 0;

-- The dispatches that have ended.
CREATE TABLE $schema$.ended (
    tenant text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    finished_at bigint NOT NULL,
    PRIMARY KEY (tenant, status, created_at, id)
);
CREATE INDEX ended_finished ON $schema$.ended (tenant, finished_at, id) WHERE finished_at >= 0;

-- The interrupts of each thread. `holds` is the number of dispatches that still need the record of the interrupt,
-- because it contains the time at which they ended and the reason. An interrupt without such a dispatch can be removed.
CREATE TABLE $schema$.interrupt (
    tenant text COLLATE "C" NOT NULL,
    thread text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    at bigint NOT NULL,
    holds bigint NOT NULL,
    record text NOT NULL,
    PRIMARY KEY (tenant, thread, epoch)
);
CREATE INDEX interrupt_lot ON $schema$.interrupt (tenant, at, thread, epoch) WHERE holds > 0;

-- For each tenant, a number that is higher than all claim numbers from before its mailbox was created.
CREATE TABLE $schema$.claims (
    tenant text COLLATE "C" PRIMARY KEY,
    first bigint NOT NULL
);

-- The live channel. Its rows are needed for a short time only, and its times are always those of the server.
--
-- The processes that have receivers, each with the time of its last heartbeat.
CREATE TABLE $schema$.live_process (
    id text COLLATE "C" PRIMARY KEY,
    seen_at timestamptz NOT NULL
);

-- The process that has the receiver of each target.
CREATE TABLE $schema$.live_receiver (
    tenant text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    process text COLLATE "C" NOT NULL,
    opened_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, target)
);
CREATE INDEX live_receiver_process ON $schema$.live_receiver (process);

-- Commands of the live channel that were sent to a process, until their senders have the answers.
CREATE TABLE $schema$.live_letter (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    tenant text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    process text COLLATE "C" NOT NULL,
    sender text COLLATE "C" NOT NULL,
    sent_at timestamptz NOT NULL,
    deadline_ms bigint NOT NULL,
    command text NOT NULL,
    is_taken boolean NOT NULL DEFAULT false,
    answer text
);
CREATE INDEX live_letter_process ON $schema$.live_letter (process, number) WHERE NOT is_taken;

CREATE FUNCTION $schema$.now() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;

-- The number of milliseconds by which a process's estimate of the server's time may be too early when it sends a write.
CREATE FUNCTION $schema$.lag() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 250::bigint $$;

-- Returns whether a thread is put at a position in the list of ready threads that searches may already skip.
CREATE FUNCTION $schema$.is_passed(
    p_old_priority smallint, p_old_since bigint, p_was_passed boolean, p_priority smallint, p_since bigint, p_now bigint
) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_priority IS NULL THEN false
        WHEN p_priority = p_old_priority AND p_since = p_old_since THEN p_was_passed
        ELSE p_since < p_now - $schema$.lag() END
$$;

-- Loads the records that a decision about a thread needs, as of one moment. Each row of the answer contains its kind. A
-- record that does not exist has no row.
CREATE FUNCTION $schema$.look(
    p_tenant text, p_thread text, p_head boolean,
    p_threads text[], p_lineages text[], p_runs text[], p_keys text[], p_entries text[],
    p_paths bigint[], p_marks bigint[], p_names bytea[], p_states bytea[],
    p_inputs text[], p_queue boolean, p_decision_runs text[], p_decision_tickets bytea[],
    p_scope_kinds text[], p_scope_ids text[], p_events text[], p_event_writers text[], p_event_keys text[]
) RETURNS TABLE (kind text, i bigint, j bigint, a text, b text)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    v_log bigint;
    v_head bigint;
    v_found bigint[];
BEGIN
    RETURN QUERY SELECT 'clock', $schema$.now(), 0::bigint, NULL, NULL;
    IF p_thread IS NOT NULL THEN
        RETURN QUERY SELECT 'thread', t.stamp, t.log, t.record, t.id_record
            FROM $schema$.thread t WHERE t.tenant = p_tenant AND t.id = p_thread;
        SELECT t.log, t.head INTO v_log, v_head FROM $schema$.thread t WHERE t.tenant = p_tenant AND t.id = p_thread;
    END IF;
    IF p_head AND v_head IS NOT NULL THEN
        p_marks := p_marks || v_head;
        RETURN QUERY WITH RECURSIVE jumps AS (
            SELECT e.* FROM $schema$.entry e WHERE e.log = v_log AND e.seq = v_head
            UNION ALL
            SELECT e.* FROM jumps CROSS JOIN LATERAL (SELECT e.* FROM $schema$.entry e
                WHERE e.log = v_log AND e.seq = jumps.jump LIMIT 1) e
        )
        SELECT 'node', e.seq, 0::bigint, e.id, e.node FROM jumps e;
    END IF;
    IF cardinality(p_threads) > 0 THEN
        RETURN QUERY SELECT 'exists', 0::bigint, 0::bigint, t.id, NULL FROM unnest(p_threads) w (id) CROSS JOIN LATERAL (
            SELECT t.id FROM $schema$.thread t WHERE t.tenant = p_tenant AND t.id = w.id AND t.log IS NOT NULL LIMIT 1) t;
    END IF;
    IF cardinality(p_lineages) > 0 THEN
        RETURN QUERY WITH RECURSIVE line (of, id, parent_id, depth) AS (
            SELECT t.id, t.id, t.parent_id, 1::bigint FROM unnest(p_lineages) w (id)
                CROSS JOIN LATERAL (SELECT t.id, t.parent_id FROM $schema$.thread t
                    WHERE t.tenant = p_tenant AND t.id = w.id AND t.log IS NOT NULL LIMIT 1) t
            UNION ALL
            SELECT line.of, t.id, t.parent_id, line.depth + 1 FROM line CROSS JOIN LATERAL (SELECT t.id, t.parent_id
                FROM $schema$.thread t WHERE t.tenant = p_tenant AND t.id = line.parent_id LIMIT 1) t
        ) SELECT 'lineage', line.depth, 0::bigint, line.of, line.id FROM line ORDER BY line.depth;
    END IF;
    IF cardinality(p_runs) > 0 THEN
        RETURN QUERY SELECT 'run', 0::bigint, 0::bigint, r.id, r.record FROM unnest(p_runs) w (id)
            CROSS JOIN LATERAL (SELECT r.* FROM $schema$.run r WHERE r.tenant = p_tenant AND r.id = w.id LIMIT 1) r
            WHERE NOT EXISTS (SELECT FROM $schema$.purge p WHERE p.log = r.log);
    END IF;
    IF cardinality(p_keys) > 0 THEN
        RETURN QUERY SELECT 'key', 0::bigint, 0::bigint, w.key, k.record FROM unnest(p_keys) w (key)
            CROSS JOIN LATERAL (SELECT k.record FROM $schema$.commit_key k WHERE k.log = v_log AND k.key = w.key LIMIT 1) k;
    END IF;
    IF cardinality(p_entries) > 0 THEN
        v_found := ARRAY(SELECT e.seq FROM unnest(p_entries) w (id) CROSS JOIN LATERAL (
            SELECT e.seq FROM $schema$.entry e WHERE e.log = v_log AND e.id = w.id AND e.id >= '' LIMIT 1) e);
        -- A rule that asks for an entry by its id needs its node and its marks next.
        RETURN QUERY SELECT k.kind, e.seq, 0::bigint, e.id, CASE k.kind WHEN 'node' THEN e.node END FROM unnest(v_found) w (seq)
            CROSS JOIN LATERAL (SELECT e.* FROM $schema$.entry e WHERE e.log = v_log AND e.seq = w.seq LIMIT 1) e
            CROSS JOIN (VALUES ('entry'), ('node')) k (kind);
        p_marks := p_marks || v_found;
    END IF;
    IF cardinality(p_paths) > 0 THEN
        -- A rule that follows a path continues at the jump pointers of an entry, or at the entries in front of it.
        RETURN QUERY WITH RECURSIVE jumps (seq, jump) AS (
            SELECT e.seq, e.jump FROM unnest(p_paths) w (seq) CROSS JOIN LATERAL (SELECT e.seq, e.jump
                FROM $schema$.entry e WHERE e.log = v_log AND e.seq = w.seq LIMIT 1) e
            UNION
            SELECT e.seq, e.jump FROM jumps CROSS JOIN LATERAL (SELECT e.seq, e.jump FROM $schema$.entry e
                WHERE e.log = v_log AND e.seq = jumps.jump LIMIT 1) e
        ), wanted (seq) AS (
            SELECT seq FROM jumps UNION SELECT s FROM unnest(p_paths) p, generate_series(p - 63, p) s
        )
        SELECT 'node', e.seq, 0::bigint, e.id, e.node FROM wanted w CROSS JOIN LATERAL (SELECT e.seq, e.id, e.node
            FROM $schema$.entry e WHERE e.log = v_log AND e.seq = w.seq LIMIT 1) e;
    END IF;
    IF cardinality(p_marks) > 0 THEN
        RETURN QUERY SELECT 'marks', s.seq, (e.seq IS NOT NULL)::int::bigint, m.record, NULL
            FROM unnest(p_marks) s (seq)
            LEFT JOIN LATERAL (SELECT m.record FROM $schema$.mark m WHERE m.log = v_log AND m.seq = s.seq LIMIT 1) m ON true
            LEFT JOIN LATERAL (SELECT e.seq FROM $schema$.entry e WHERE e.log = v_log AND e.seq = s.seq + 1
                AND e.parent = s.seq AND NOT e.side LIMIT 1) e ON true;
    END IF;
    -- Names, keys and tickets may be text that the server does not accept as text. So the answer refers to them by
    -- their index in the argument.
    IF cardinality(p_names) > 0 THEN
        RETURN QUERY SELECT 'name', (SELECT max(s.seq) FROM $schema$.snapshot s WHERE s.log = v_log AND s.name = w.name),
            w.n, NULL, NULL FROM unnest(p_names) WITH ORDINALITY w (name, n);
    END IF;
    IF cardinality(p_states) > 0 THEN
        RETURN QUERY SELECT 'state', 0::bigint, w.n, s.value, NULL
            FROM unnest(p_states) WITH ORDINALITY w (key, n) CROSS JOIN LATERAL (SELECT s.value FROM $schema$.state s
                WHERE s.log = v_log AND s.key = w.key LIMIT 1) s;
    END IF;
    IF cardinality(p_inputs) > 0 THEN
        RETURN QUERY SELECT 'input', q.rank, 0::bigint, w.id, q.record FROM unnest(p_inputs) w (id) CROSS JOIN LATERAL (
            SELECT q.rank, q.record FROM $schema$.input q WHERE q.log = v_log AND q.id = w.id LIMIT 1) q;
    END IF;
    IF p_queue THEN
        RETURN QUERY SELECT 'queued', q.rank, 0::bigint, q.id, NULL
            FROM $schema$.input q WHERE q.log = v_log AND q.rank >= 0 ORDER BY q.rank;
    END IF;
    IF cardinality(p_decision_runs) > 0 THEN
        RETURN QUERY SELECT 'decision', 0::bigint, w.n, d.record, NULL
            FROM unnest(p_decision_runs, p_decision_tickets) WITH ORDINALITY w (run, ticket, n)
            CROSS JOIN LATERAL (SELECT d.record FROM $schema$.decision d
                WHERE d.log = v_log AND d.run = w.run AND d.ticket = w.ticket LIMIT 1) d;
    END IF;
    IF cardinality(p_scope_ids) > 0 THEN
        RETURN QUERY SELECT 'scope', 0::bigint, w.n, s.record, NULL
            FROM unnest(p_scope_kinds, p_scope_ids) WITH ORDINALITY w (kind, id, n)
            CROSS JOIN LATERAL (SELECT s.record FROM $schema$.scope s
                WHERE s.tenant = p_tenant AND s.kind = w.kind AND s.id = w.id LIMIT 1) s;
    END IF;
    IF cardinality(p_events) > 0 THEN
        RETURN QUERY SELECT 'event', coalesce(e.thread_seq, 0), coalesce(e.run_seq, 0), e.id, e.record
            FROM unnest(p_events) w (id)
            CROSS JOIN LATERAL (SELECT e.* FROM $schema$.event e WHERE e.tenant = p_tenant AND e.id = w.id LIMIT 1) e
            LEFT JOIN LATERAL (SELECT s.floor FROM $schema$.scope s
                WHERE s.tenant = p_tenant AND s.kind = 'thread' AND s.id = e.thread LIMIT 1) t ON true
            LEFT JOIN LATERAL (SELECT s.floor FROM $schema$.scope s
                WHERE s.tenant = p_tenant AND s.kind = 'run' AND s.id = e.run LIMIT 1) r ON true
            WHERE e.thread_seq > t.floor OR e.run_seq > r.floor;
    END IF;
    IF cardinality(p_event_keys) > 0 THEN
        RETURN QUERY SELECT 'event key', 0::bigint, w.n, k.record, NULL
            FROM unnest(p_event_writers, p_event_keys) WITH ORDINALITY w (writer, key, n)
            CROSS JOIN LATERAL (SELECT k.record FROM $schema$.event_key k
                WHERE k.tenant = p_tenant AND k.writer = w.writer AND k.key = w.key LIMIT 1) k;
    END IF;
END $$;

-- The mailboxes that a batch writes. A mailbox without a record is not written, but must be unchanged.
CREATE TYPE $schema$.mailbox_rows AS (
    thread text[], before bigint[], revision bigint[], epoch bigint[], free_since bigint[], running text[], lease_until bigint[],
    at bigint[], record text[]
);
CREATE TYPE $schema$.dispatch_rows AS (
    id text[], status text[], epoch bigint[], state text[],
    new_id text[], thread text[], created_at bigint[], number bigint[], dedupe_key text[], new_status text[], new_epoch bigint[],
    body text[], new_state text[],
    gone text[]
);
-- Rows of `queued` that are removed, and rows that are inserted.
CREATE TYPE $schema$.queued_rows AS (
    old_thread text[], old_epoch bigint[], old_priority smallint[], old_number bigint[],
    thread text[], epoch bigint[], is_available boolean[], priority smallint[], number bigint[], due bigint[],
    created_at bigint[], id text[]
);
CREATE TYPE $schema$.ended_rows AS (
    old_status text[], old_created_at bigint[], old_id text[],
    status text[], created_at bigint[], id text[], finished_at bigint[]
);
-- An interrupt without a record is removed.
CREATE TYPE $schema$.interrupt_rows AS (thread text[], epoch bigint[], at bigint[], holds bigint[], record text[]);

-- Writes a batch, all of it or nothing. `n` is the number of the thread to which a row belongs, counted from 1.
--
-- If the batch was written, the answer has a row `done` with the new stamp and log of each thread. Otherwise nothing
-- was written, and `status` says why:
-- - `stale`: other transactions have changed threads. The answer has their current rows, and a row `key` for each
--   commit key that exists already.
-- - `scope`, `mailbox`, `outbox`: other transactions have changed event scopes, mailboxes, or rows of the outbox.
-- - `time`: the process's estimate of the server's time differs too much.
-- - `closed`: the tenant is being deleted.
--
-- Each expression of this function takes time, even if it has nothing to do. So two arguments say whether the batch has
-- rows that few commits have: `p_parts` for rows of the log, `p_around` for rows outside of it.
CREATE FUNCTION $schema$.write(
    p_tenant text, p_parts boolean, p_around boolean,
    t_id text[], t_stamp bigint[], t_log bigint[], t_makes boolean[], t_head bigint[], t_created bigint[], t_updated bigint[], t_last bigint[],
    t_resource text[], t_parent text[], t_open boolean[], t_pending boolean[], t_deleted bigint[], t_record text[],
    t_id_record text[],
    e_n int[], e_seq bigint[], e_id text[], e_parent bigint[], e_jump bigint[], e_side boolean[], e_node text[], e_body text[],
    m_n int[], m_seq bigint[], m_children bigint[], m_record text[],
    l_n int[], l_seq bigint[], l_is boolean[],
    s_n int[], s_seq bigint[], s_name bytea[], s_giver bigint[], s_other boolean[],
    k_n int[], k_key text[], k_record text[],
    v_clears int[], v_n int[], v_key bytea[], v_value text[],
    r_n int[], r_id text[], r_new boolean[], r_created bigint[], r_phase text[], r_agent text[], r_parent text[], r_record text[],
    q_n int[], q_id text[], q_rank bigint[], q_record text[],
    d_n int[], d_run text[], d_ticket bytea[], d_record text[],
    g_kind text[], g_id text[], g_count bigint[], g_floor bigint[], g_new_count bigint[], g_new_floor bigint[], g_record text[],
    f_id text[], f_thread text[], f_thread_seq bigint[], f_run text[], f_run_seq bigint[], f_writer text[], f_key text[],
    f_record text[],
    h_writer text[], h_key text[], h_record text[],
    o_rows text, o_new text, o_ready text, o_gone text, o_groups text,
    p_mailboxes $schema$.mailbox_rows, p_dispatches $schema$.dispatch_rows, p_queued $schema$.queued_rows,
    p_ended $schema$.ended_rows, p_interrupts $schema$.interrupt_rows, p_first_claim bigint,
    p_sent bigint
) RETURNS TABLE (status text, n int, clock bigint, stamp bigint, log bigint, record text, id_record text)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := $schema$.now();
    v_stamp bigint;
    v_lock text;
    v_count bigint;
    v_new bigint;
    v_places tid[];
    v_due bigint[];
    v_turned bigint[];
    v_clock bigint;
    v_outbox json;
    v_outbox_new json;
    v_outbox_ready json;
    v_outbox_gone json;
    v_outbox_groups json;
BEGIN
    -- A deletion of the tenant waits until this transaction ends. After the deletion has begun, nothing is written to
    -- the tenant.
    v_lock := pg_advisory_xact_lock_shared(hashtext('agentstore.$schema$'), hashtext('tenant ' || p_tenant));
    IF EXISTS (SELECT FROM $schema$.dropped d WHERE d.tenant = p_tenant) THEN
        RETURN QUERY SELECT 'closed', 0, v_now, NULL::bigint, NULL::bigint, NULL::text, NULL::text;
        RETURN;
    END IF;
    IF p_sent > v_now OR p_sent < v_now - $schema$.lag() THEN
        RETURN QUERY SELECT 'time', 0, v_now, NULL::bigint, NULL::bigint, NULL::text, NULL::text;
        RETURN;
    END IF;
    IF p_around THEN
        v_outbox := o_rows::json;
        v_outbox_new := o_new::json;
        v_outbox_ready := o_ready::json;
        v_outbox_gone := o_gone::json;
        v_outbox_groups := o_groups::json;
        IF g_id IS NOT NULL THEN
            RETURN QUERY SELECT 'scope', w.n, v_now, NULL::bigint, NULL::bigint, s.record, NULL::text
                FROM (SELECT i AS n, g_kind[i] AS kind, g_id[i] AS id, g_count[i] AS count, g_floor[i] AS floor
                    FROM generate_series(1, cardinality(g_id)) i
                    ORDER BY g_kind[i] COLLATE "C", g_id[i] COLLATE "C") w
                LEFT JOIN LATERAL (SELECT s.count, s.floor, s.record FROM $schema$.scope s
                    WHERE s.tenant = p_tenant AND s.kind = w.kind AND s.id = w.id FOR NO KEY UPDATE) s ON true
                WHERE (coalesce(s.count, 0), coalesce(s.floor, 0)) <> (w.count, w.floor);
            IF FOUND THEN
                RETURN;
            END IF;
        END IF;
        IF p_mailboxes.thread IS NOT NULL THEN
            -- The rows are locked in a fixed order, so that two transactions never wait for each other.
            SELECT count(*) FILTER (WHERE coalesce(m.revision, 0) <> w.before), array_agg(m.place ORDER BY w.n),
                array_agg(m.due_at ORDER BY w.n), array_agg(m.turned ORDER BY w.n)
                INTO v_count, v_places, v_due, v_turned
                FROM (SELECT * FROM unnest(p_mailboxes.thread, p_mailboxes.before) WITH ORDINALITY w (thread, before, n)
                    ORDER BY thread COLLATE "C") w
                LEFT JOIN LATERAL (SELECT m.ctid AS place, m.revision, m.due_at, m.turned FROM $schema$.mailbox m
                    WHERE m.tenant = p_tenant AND m.thread = w.thread FOR NO KEY UPDATE) m ON true;
            -- If the tenant was deleted and created again, its claims are numbered differently.
            IF v_count > 0 OR p_first_claim <> coalesce((SELECT c.first FROM $schema$.claims c WHERE c.tenant = p_tenant), -1)
            THEN
                RETURN QUERY SELECT 'mailbox', 0, v_now, NULL::bigint, NULL::bigint, NULL::text, NULL::text;
                RETURN;
            END IF;
        END IF;
        IF v_outbox_groups IS NOT NULL THEN
            RETURN QUERY SELECT 'outbox', 0, v_now, NULL::bigint, NULL::bigint, NULL::text, NULL::text
                FROM (SELECT * FROM json_to_recordset(v_outbox_groups) AS w (lane text, target text, key text, stamp bigint)
                    ORDER BY lane, target, key) w
                LEFT JOIN LATERAL (SELECT z.stamp FROM $schema$.outbox_order z WHERE z.tenant = p_tenant AND z.lane = w.lane
                    AND z.target = w.target AND z.key = w.key FOR NO KEY UPDATE) z ON true
                WHERE coalesce(z.stamp, 0) <> w.stamp;
            IF FOUND THEN
                RETURN;
            END IF;
        END IF;
        IF v_outbox IS NOT NULL OR v_outbox_gone IS NOT NULL THEN
            RETURN QUERY SELECT 'outbox', 0, v_now, NULL::bigint, NULL::bigint, NULL::text, NULL::text FROM (
                SELECT w.id, w.before FROM json_to_recordset(v_outbox) AS w (id text, before bigint)
                UNION ALL SELECT w.id, w.before FROM json_to_recordset(v_outbox_gone) AS w (id text, before bigint)
                ORDER BY id
            ) w LEFT JOIN LATERAL (SELECT o.revision FROM $schema$.outbox o
                WHERE o.tenant = p_tenant AND o.id = w.id FOR NO KEY UPDATE) o ON true
                WHERE coalesce(o.revision, 0) <> w.before;
            IF FOUND THEN
                RETURN;
            END IF;
        END IF;
    END IF;
    IF cardinality(t_id) > 1 THEN
        -- The rows are locked in a fixed order, so that two transactions never wait for each other.
        RETURN QUERY SELECT 'stale', w.n::int, v_now, coalesce(t.stamp, 0), t.log, t.record, t.id_record
            FROM (SELECT * FROM unnest(t_id, t_stamp) WITH ORDINALITY w (id, stamp, n) ORDER BY id) w
            LEFT JOIN LATERAL (SELECT t.stamp, t.log, t.record, t.id_record FROM $schema$.thread t
                WHERE t.tenant = p_tenant AND t.id = w.id FOR NO KEY UPDATE) t ON true
            WHERE coalesce(t.stamp, 0) <> w.stamp;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    v_stamp := pg_current_xact_id()::text::bigint;
    IF t_id IS NOT NULL THEN
        v_new := 0;
        IF true = ANY (t_makes) THEN
            t_log := ARRAY(SELECT CASE WHEN t_makes[i] THEN nextval('$schema$.log') ELSE t_log[i] END
                FROM generate_series(1, cardinality(t_id)) i ORDER BY i);
        END IF;
        IF 0 = ANY (t_stamp) THEN
            INSERT INTO $schema$.thread SELECT p_tenant, t_id[i], v_stamp, t_log[i], t_head[i], t_created[i], t_updated[i],
                t_last[i], t_resource[i], t_parent[i], t_open[i], t_pending[i], t_deleted[i], t_record[i], t_id_record[i]
                FROM generate_series(1, cardinality(t_id)) i WHERE t_stamp[i] = 0
                ON CONFLICT DO NOTHING;
            GET DIAGNOSTICS v_new = ROW_COUNT;
        END IF;
        -- The rows are updated one by one. In a join, the planner might not look each row up by its key.
        FOR i IN 1 .. cardinality(t_id) LOOP
            IF t_stamp[i] > 0 THEN
                UPDATE $schema$.thread t SET
                    stamp = v_stamp, log = CASE WHEN t_record[i] IS NOT NULL THEN t_log[i] END, head = t_head[i],
                    created_at = t_created[i], updated_at = t_updated[i], last_time = t_last[i],
                    resource_id = t_resource[i], parent_id = t_parent[i], has_open_runs = t_open[i],
                    has_pending = t_pending[i], deleted_at = t_deleted[i], record = t_record[i], id_record = t_id_record[i]
                    WHERE t.tenant = p_tenant AND t.id = t_id[i] AND t.stamp = t_stamp[i];
                v_new := v_new + FOUND::int;
            END IF;
        END LOOP;
        IF v_new <> cardinality(t_id) THEN
            IF cardinality(t_id) > 1 THEN
                RAISE EXCEPTION 'another transaction has created or changed the thread' USING ERRCODE = 'serialization_failure';
            END IF;
            RETURN QUERY SELECT 'stale', 1, v_now, t.stamp, t.log, t.record, t.id_record
                FROM $schema$.thread t WHERE t.tenant = p_tenant AND t.id = t_id[1];
            IF NOT FOUND THEN
                RETURN QUERY SELECT 'stale', 1, v_now, 0::bigint, NULL::bigint, NULL::text, NULL::text;
            END IF;
            -- When the decision is repeated, it needs the commit keys first.
            RETURN QUERY SELECT 'key', 1, v_now, NULL::bigint, NULL::bigint, k.record, k.key
                FROM (SELECT t.log FROM $schema$.thread t WHERE t.tenant = p_tenant AND t.id = t_id[1] LIMIT 1) t
                CROSS JOIN unnest(k_key) w (key)
                CROSS JOIN LATERAL (SELECT k.* FROM $schema$.commit_key k WHERE k.log = t.log AND k.key = w.key LIMIT 1) k;
            RETURN;
        END IF;
        IF array_position(t_record, NULL) IS NOT NULL THEN
            INSERT INTO $schema$.purge SELECT t_log[i], p_tenant FROM generate_series(1, cardinality(t_id)) i
                WHERE t_record[i] IS NULL AND t_log[i] IS NOT NULL;
        END IF;
        status := 'done';
        clock := v_now;
        stamp := v_stamp;
        FOR at IN 1 .. cardinality(t_id) LOOP
            n := at;
            log := CASE WHEN t_record[at] IS NOT NULL THEN t_log[at] END;
            RETURN NEXT;
        END LOOP;
    END IF;
    IF e_n IS NOT NULL THEN
        INSERT INTO $schema$.entry
            SELECT t_log[e_n[i]], e_seq[i], e_id[i], e_parent[i], e_jump[i], e_side[i], e_node[i], e_body[i]
            FROM generate_series(1, cardinality(e_n)) i;
    END IF;
    IF k_n IS NOT NULL THEN
        INSERT INTO $schema$.commit_key SELECT t_log[k_n[i]], k_key[i], k_record[i]
            FROM generate_series(1, cardinality(k_n)) i;
    END IF;
    IF r_n IS NOT NULL THEN
        v_count := 0;
        FOR i IN 1 .. cardinality(r_n) LOOP
            IF NOT r_new[i] THEN
                UPDATE $schema$.run r SET phase = r_phase[i], record = r_record[i]
                    WHERE r.tenant = p_tenant AND r.id = r_id[i] AND r.log = t_log[r_n[i]];
                v_count := v_count + FOUND::int;
            END IF;
        END LOOP;
        v_new := 0;
        IF true = ANY (r_new) THEN
            -- The id may belong to a run whose thread was deleted.
            INSERT INTO $schema$.run AS r
                SELECT p_tenant, r_id[i], t_log[r_n[i]], r_created[i], r_phase[i], r_agent[i], r_parent[i], r_record[i]
                FROM generate_series(1, cardinality(r_n)) i WHERE r_new[i]
                ON CONFLICT (tenant, id) DO UPDATE SET log = excluded.log, created_at = excluded.created_at,
                    phase = excluded.phase, agent = excluded.agent, parent_run = excluded.parent_run, record = excluded.record
                    WHERE EXISTS (SELECT FROM $schema$.purge p WHERE p.log = r.log);
            GET DIAGNOSTICS v_new = ROW_COUNT;
        END IF;
        IF v_count + v_new <> cardinality(r_n) THEN
            RAISE EXCEPTION 'another transaction has created or removed the run' USING ERRCODE = 'unique_violation', CONSTRAINT = 'run_pkey';
        END IF;
    END IF;
    IF p_parts THEN
        IF m_n IS NOT NULL THEN
            INSERT INTO $schema$.mark AS m SELECT t_log[m_n[i]], m_seq[i], m_children[i], m_record[i]
                FROM generate_series(1, cardinality(m_n)) i
                ON CONFLICT (log, seq) DO UPDATE SET children = excluded.children, record = excluded.record;
        END IF;
        IF l_n IS NOT NULL THEN
            IF false = ANY (l_is) THEN
                DELETE FROM $schema$.tip t USING generate_series(1, cardinality(l_n)) i
                    WHERE t.log = t_log[l_n[i]] AND t.seq = l_seq[i] AND NOT l_is[i];
            END IF;
            INSERT INTO $schema$.tip SELECT t_log[l_n[i]], l_seq[i] FROM generate_series(1, cardinality(l_n)) i WHERE l_is[i]
                ON CONFLICT DO NOTHING;
        END IF;
        IF s_n IS NOT NULL THEN
            IF true = ANY (s_other) THEN
                DELETE FROM $schema$.snapshot s USING generate_series(1, cardinality(s_n)) i
                    WHERE s_other[i] AND s.log = t_log[s_n[i]] AND s.seq = s_seq[i];
            END IF;
            INSERT INTO $schema$.snapshot SELECT t_log[s_n[i]], s_name[i], s_seq[i], s_giver[i]
                FROM generate_series(1, cardinality(s_n)) i WHERE s_name[i] IS NOT NULL;
        END IF;
        IF v_clears IS NOT NULL THEN
            DELETE FROM $schema$.state s USING generate_series(1, cardinality(v_clears)) i WHERE s.log = t_log[v_clears[i]];
        END IF;
        IF v_n IS NOT NULL THEN
            IF array_position(v_value, NULL) IS NOT NULL THEN
                DELETE FROM $schema$.state s USING generate_series(1, cardinality(v_n)) i
                    WHERE s.log = t_log[v_n[i]] AND s.key = v_key[i] AND v_value[i] IS NULL;
            END IF;
            INSERT INTO $schema$.state AS s SELECT t_log[v_n[i]], v_key[i], v_value[i]
                FROM generate_series(1, cardinality(v_n)) i WHERE v_value[i] IS NOT NULL
                ON CONFLICT (log, key) DO UPDATE SET value = excluded.value;
        END IF;
        IF q_n IS NOT NULL THEN
            DELETE FROM $schema$.input q USING generate_series(1, cardinality(q_n)) i
                WHERE q.log = t_log[q_n[i]] AND q.id = q_id[i] AND q_rank[i] IS NULL;
            UPDATE $schema$.input q SET rank = q_rank[i] FROM generate_series(1, cardinality(q_n)) i
                WHERE q.log = t_log[q_n[i]] AND q.id = q_id[i] AND q_rank[i] IS NOT NULL AND q_record[i] IS NULL;
            INSERT INTO $schema$.input AS q SELECT t_log[q_n[i]], q_id[i], q_rank[i], q_record[i]
                FROM generate_series(1, cardinality(q_n)) i WHERE q_record[i] IS NOT NULL
                ON CONFLICT (log, id) DO UPDATE SET rank = excluded.rank, record = excluded.record;
        END IF;
        IF d_n IS NOT NULL THEN
            INSERT INTO $schema$.decision AS d SELECT t_log[d_n[i]], d_run[i], d_ticket[i], d_record[i]
                FROM generate_series(1, cardinality(d_n)) i
                ON CONFLICT (log, run, ticket) DO UPDATE SET record = excluded.record;
        END IF;
    END IF;
    IF p_around THEN
        IF g_id IS NOT NULL THEN
            INSERT INTO $schema$.scope AS s (tenant, kind, id, count, floor, record)
                SELECT p_tenant, g_kind[i], g_id[i], g_new_count[i], g_new_floor[i], g_record[i]
                FROM generate_series(1, cardinality(g_kind)) i
                ON CONFLICT (tenant, kind, id) DO UPDATE SET count = excluded.count, floor = excluded.floor, record = excluded.record
                    WHERE s.count <= excluded.count AND s.floor <= excluded.floor
                        AND (s.count < excluded.count OR s.floor < excluded.floor);
            GET DIAGNOSTICS v_count = ROW_COUNT;
            IF v_count <> cardinality(g_id) THEN
                RAISE EXCEPTION 'another transaction has written to the event scope' USING ERRCODE = 'serialization_failure';
            END IF;
        END IF;
        IF f_id IS NOT NULL THEN
            INSERT INTO $schema$.event SELECT p_tenant, f_id[i], f_thread[i], f_thread_seq[i], f_run[i], f_run_seq[i],
                f_writer[i], f_key[i], f_record[i]
                FROM generate_series(1, cardinality(f_id)) i;
        END IF;
        IF h_key IS NOT NULL THEN
            INSERT INTO $schema$.event_key SELECT p_tenant, h_writer[i], h_key[i], h_record[i]
                FROM generate_series(1, cardinality(h_writer)) i;
        END IF;
        IF v_outbox IS NOT NULL THEN
            UPDATE $schema$.outbox o SET status = w.status, available_at = w.available, lease_until = w.lease,
                finished_at = w.finished, is_ready = coalesce(w.ready, o.is_ready), revision = w.revision, record = w.record
                FROM (SELECT w.*, o.place FROM json_to_recordset(v_outbox) AS w (id text, status text, available bigint,
                    lease bigint, finished bigint, ready boolean, revision bigint, record text)
                    CROSS JOIN LATERAL (SELECT o.ctid AS place FROM $schema$.outbox o
                        WHERE o.tenant = p_tenant AND o.id = w.id LIMIT 1) o) w
                WHERE o.ctid = w.place;
        END IF;
        IF v_outbox_new IS NOT NULL THEN
            INSERT INTO $schema$.outbox SELECT p_tenant, w.id, w.lane, w.target, w.status, w.created, w.available, w.lease,
                w.finished, w.dedupe, w.order_key, w.number, coalesce(w.ready, false), w.revision, w.record, w.payload
                FROM json_to_recordset(v_outbox_new) AS w (id text, lane text, target text, status text, created bigint,
                    available bigint, lease bigint, finished bigint, dedupe text, order_key text, number bigint, ready boolean,
                    revision bigint, record text, payload text);
        END IF;
        IF v_outbox_ready IS NOT NULL THEN
            UPDATE $schema$.outbox o SET is_ready = w.ready
                FROM json_to_recordset(v_outbox_ready) AS w (id text, ready boolean)
                WHERE o.tenant = p_tenant AND o.id = w.id;
        END IF;
        IF v_outbox_gone IS NOT NULL THEN
            DELETE FROM $schema$.outbox o WHERE o.ctid = ANY (ARRAY(SELECT o.place
                FROM json_to_recordset(v_outbox_gone) AS w (id text) CROSS JOIN LATERAL (SELECT o.ctid AS place
                    FROM $schema$.outbox o WHERE o.tenant = p_tenant AND o.id = w.id LIMIT 1) o));
        END IF;
        IF v_outbox_groups IS NOT NULL THEN
            INSERT INTO $schema$.outbox_order AS z SELECT p_tenant, w.lane, w.target, w.key, v_stamp
                FROM json_to_recordset(v_outbox_groups) AS w (lane text, target text, key text)
                ON CONFLICT (tenant, lane, target, key) DO UPDATE SET stamp = excluded.stamp;
        END IF;
        IF p_dispatches.id IS NOT NULL THEN
            -- Each row is looked up by its key, whatever statistics the planner has of the table. The mailboxes are
            -- locked, so the dispatches do not change meanwhile.
            UPDATE $schema$.dispatch d SET status = w.status, epoch = w.epoch, state = w.state FROM (
                SELECT w.status, w.epoch, w.state, d.place
                FROM unnest(p_dispatches.id, p_dispatches.status, p_dispatches.epoch, p_dispatches.state)
                    w (id, status, epoch, state)
                CROSS JOIN LATERAL (SELECT d.ctid AS place FROM $schema$.dispatch d WHERE d.tenant = p_tenant AND d.id = w.id
                    LIMIT 1) d
            ) w WHERE d.ctid = w.place;
        END IF;
        IF p_dispatches.new_id IS NOT NULL THEN
            INSERT INTO $schema$.dispatch SELECT p_tenant, w.* FROM unnest(p_dispatches.new_id, p_dispatches.thread,
                p_dispatches.created_at, p_dispatches.number, p_dispatches.dedupe_key, p_dispatches.new_status,
                p_dispatches.new_epoch, p_dispatches.body, p_dispatches.new_state) w;
        END IF;
        IF p_dispatches.gone IS NOT NULL THEN
            DELETE FROM $schema$.dispatch d WHERE d.ctid = ANY (ARRAY(SELECT d.place FROM unnest(p_dispatches.gone) w (id)
                CROSS JOIN LATERAL (SELECT d.ctid AS place FROM $schema$.dispatch d WHERE d.tenant = p_tenant AND d.id = w.id
                    LIMIT 1) d));
        END IF;
        IF p_queued.old_thread IS NOT NULL THEN
            DELETE FROM $schema$.queued q WHERE q.ctid = ANY (ARRAY(SELECT q.place
                FROM unnest(p_queued.old_thread, p_queued.old_epoch, p_queued.old_priority, p_queued.old_number)
                    w (thread, epoch, priority, number)
                CROSS JOIN LATERAL (
                    SELECT q.ctid AS place FROM $schema$.queued q WHERE q.tenant = p_tenant AND q.thread = w.thread
                        AND q.epoch = w.epoch AND q.is_available AND q.priority = w.priority AND q.number = w.number
                    UNION ALL
                    SELECT q.ctid FROM $schema$.queued q WHERE q.tenant = p_tenant AND q.thread = w.thread
                        AND q.epoch = w.epoch AND NOT q.is_available AND q.priority = w.priority AND q.number = w.number
                    LIMIT 1) q));
        END IF;
        IF p_queued.thread IS NOT NULL THEN
            INSERT INTO $schema$.queued SELECT p_tenant, w.* FROM unnest(p_queued.thread, p_queued.epoch,
                p_queued.is_available, p_queued.priority, p_queued.number, p_queued.due, p_queued.created_at, p_queued.id) w;
        END IF;
        IF p_ended.old_id IS NOT NULL THEN
            DELETE FROM $schema$.ended e WHERE e.ctid = ANY (ARRAY(SELECT e.place
                FROM unnest(p_ended.old_status, p_ended.old_created_at, p_ended.old_id) w (status, created_at, id)
                CROSS JOIN LATERAL (SELECT e.ctid AS place FROM $schema$.ended e WHERE e.tenant = p_tenant
                    AND e.status = w.status AND e.created_at = w.created_at AND e.id = w.id LIMIT 1) e));
        END IF;
        IF p_ended.id IS NOT NULL THEN
            INSERT INTO $schema$.ended SELECT p_tenant, w.*
                FROM unnest(p_ended.status, p_ended.created_at, p_ended.id, p_ended.finished_at) w;
        END IF;
        IF p_interrupts.thread IS NOT NULL THEN
            DELETE FROM $schema$.interrupt x USING unnest(p_interrupts.thread, p_interrupts.epoch, p_interrupts.record)
                w (thread, epoch, record)
                WHERE x.tenant = p_tenant AND x.thread = w.thread AND x.epoch = w.epoch AND w.record IS NULL;
            INSERT INTO $schema$.interrupt AS x SELECT p_tenant, w.* FROM unnest(p_interrupts.thread, p_interrupts.epoch,
                p_interrupts.at, p_interrupts.holds, p_interrupts.record) w (thread, epoch, at, holds, record)
                WHERE w.record IS NOT NULL
                ON CONFLICT (tenant, thread, epoch) DO UPDATE SET at = excluded.at, holds = excluded.holds, record = excluded.record;
        END IF;
        IF p_mailboxes.thread IS NOT NULL THEN
            -- Dispatches that a later decision made available stay available, unless the clock was set back.
            v_clock := $schema$.now();
            v_turned := ARRAY(SELECT CASE WHEN w.record IS NOT NULL AND (w.due <= w.until OR w.turned > w.until)
                    THEN $schema$.ripen(p_tenant, w.thread, w.epoch, w.until) ELSE w.until END
                FROM (SELECT *, CASE WHEN turned BETWEEN at AND v_clock THEN turned ELSE at END AS until
                    FROM unnest(v_turned, v_due, p_mailboxes.thread, p_mailboxes.epoch, p_mailboxes.at, p_mailboxes.record)
                        WITH ORDINALITY w (turned, due, thread, epoch, at, record, n)) w ORDER BY w.n);
            UPDATE $schema$.mailbox m SET revision = w.revision, epoch = w.epoch, free_since = w.free_since,
                running = w.running, lease_until = w.lease_until, turned = w.turned, ready_priority = p.priority,
                ready_since = p.since, is_passed = $schema$.is_passed(m.ready_priority, m.ready_since, m.is_passed,
                p.priority, p.since, v_clock), due_at = p.due, record = w.record
                FROM unnest(v_places, p_mailboxes.thread, p_mailboxes.revision, p_mailboxes.epoch, p_mailboxes.free_since,
                    p_mailboxes.running, p_mailboxes.lease_until, v_turned, p_mailboxes.record)
                    w (place, thread, revision, epoch, free_since, running, lease_until, turned, record)
                CROSS JOIN LATERAL $schema$.place(p_tenant, w.thread, w.epoch, w.lease_until, w.free_since) p
                WHERE m.ctid = w.place AND w.record IS NOT NULL;
            IF 0 = ANY (p_mailboxes.before) THEN
                INSERT INTO $schema$.mailbox SELECT p_tenant, w.thread, w.revision, w.epoch, w.free_since, w.running,
                    w.lease_until, w.at, p.priority, p.since,
                    $schema$.is_passed(NULL, NULL, NULL, p.priority, p.since, v_clock), p.due, w.record
                    FROM unnest(p_mailboxes.before, p_mailboxes.thread, p_mailboxes.revision, p_mailboxes.epoch,
                        p_mailboxes.free_since, p_mailboxes.running, p_mailboxes.lease_until, p_mailboxes.at,
                        p_mailboxes.record)
                        w (before, thread, revision, epoch, free_since, running, lease_until, at, record)
                    CROSS JOIN LATERAL $schema$.place(p_tenant, w.thread, w.epoch, w.lease_until, w.free_since) p
                    WHERE w.before = 0 AND w.record IS NOT NULL
                    ON CONFLICT DO NOTHING;
                GET DIAGNOSTICS v_count = ROW_COUNT;
                IF v_count <> (SELECT count(*) FROM unnest(p_mailboxes.before, p_mailboxes.record) w (before, record)
                    WHERE w.before = 0 AND w.record IS NOT NULL) THEN
                    RAISE EXCEPTION 'another transaction has created the mailbox' USING ERRCODE = 'serialization_failure';
                END IF;
            END IF;
        END IF;
    END IF;
END $$;

-- Removes up to 1,000 rows of deleted logs: of the given logs, or of any logs of the tenant. Returns the number of logs
-- that were removed completely, and whether some are left.
CREATE FUNCTION $schema$.purge_step(p_tenant text, p_logs bigint[]) RETURNS TABLE (ended bigint, rest bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_logs bigint[];
    v_table text;
    v_count bigint;
    v_left bigint := 1000;
BEGIN
    ended := 0;
    IF p_logs IS NULL THEN
        v_logs := ARRAY(SELECT p.log FROM $schema$.purge p WHERE p.tenant = p_tenant
            ORDER BY p.log LIMIT 256 FOR UPDATE SKIP LOCKED);
        IF cardinality(v_logs) = 0 THEN
            -- Another transaction may be removing the remaining logs. This one waits for it, because it must not report
            -- that nothing is left before that transaction has ended.
            PERFORM FROM $schema$.purge p WHERE p.tenant = p_tenant ORDER BY p.log LIMIT 1 FOR UPDATE;
        END IF;
    ELSE
        v_logs := ARRAY(SELECT p.log FROM $schema$.purge p WHERE p.log = ANY (p_logs)
            ORDER BY p.log LIMIT 256 FOR UPDATE SKIP LOCKED);
        IF cardinality(v_logs) = 0 THEN
            PERFORM FROM $schema$.purge p WHERE p.log = ANY (p_logs) ORDER BY p.log LIMIT 1 FOR UPDATE;
        END IF;
    END IF;
    IF cardinality(v_logs) > 0 THEN
        FOREACH v_table IN ARRAY ARRAY['entry', 'mark', 'tip', 'snapshot', 'commit_key', 'state', 'run', 'input', 'decision'] LOOP
            EXECUTE format('DELETE FROM $schema$.%I WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM $schema$.%I WHERE log = ANY ($1) AND log >= 0 LIMIT $2))', v_table, v_table)
                USING v_logs, v_left;
            GET DIAGNOSTICS v_count = ROW_COUNT;
            v_left := v_left - v_count;
            EXIT WHEN v_left <= 0;
        END LOOP;
        IF v_left > 0 THEN
            DELETE FROM $schema$.purge p WHERE p.log = ANY (v_logs);
            GET DIAGNOSTICS ended = ROW_COUNT;
        END IF;
    END IF;
    IF p_logs IS NULL THEN
        rest := (EXISTS (SELECT FROM $schema$.purge p WHERE p.tenant = p_tenant))::int;
    ELSE
        rest := (EXISTS (SELECT FROM $schema$.purge p WHERE p.log = ANY (p_logs)))::int;
    END IF;
    RETURN NEXT;
END $$;

-- Begins the deletion of a tenant: from then on nothing is written to it. `drop_step` removes its rows.
CREATE FUNCTION $schema$.drop_begin(p_tenant text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('agentstore.$schema$'), hashtext('tenant ' || p_tenant));
    INSERT INTO $schema$.dropped VALUES (p_tenant) ON CONFLICT DO NOTHING;
END $$;

-- Removes some of the remaining rows of a deleted tenant. Returns whether there may be more.
CREATE FUNCTION $schema$.drop_step(p_tenant text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_count bigint;
BEGIN
    WITH gone AS (
        DELETE FROM $schema$.thread t WHERE t.tenant = p_tenant
            AND t.id IN (SELECT id FROM $schema$.thread WHERE tenant = p_tenant LIMIT 1000) RETURNING t.log
    )
    INSERT INTO $schema$.purge SELECT g.log, p_tenant FROM gone g WHERE g.log IS NOT NULL;
    IF EXISTS (SELECT FROM $schema$.thread WHERE tenant = p_tenant) THEN
        RETURN true;
    END IF;
    PERFORM $schema$.purge_step(p_tenant, NULL);
    IF EXISTS (SELECT FROM $schema$.purge WHERE tenant = p_tenant) THEN
        RETURN true;
    END IF;
    DELETE FROM $schema$.event e WHERE e.tenant = p_tenant
        AND e.id IN (SELECT id FROM $schema$.event WHERE tenant = p_tenant LIMIT 1000);
    DELETE FROM $schema$.scope s WHERE s.tenant = p_tenant
        AND (s.kind, s.id) IN (SELECT kind, id FROM $schema$.scope WHERE tenant = p_tenant LIMIT 1000);
    DELETE FROM $schema$.event_key k WHERE k.tenant = p_tenant
        AND (k.writer, k.key) IN (SELECT writer, key FROM $schema$.event_key WHERE tenant = p_tenant LIMIT 1000);
    DELETE FROM $schema$.outbox o WHERE o.tenant = p_tenant
        AND o.id IN (SELECT id FROM $schema$.outbox WHERE tenant = p_tenant LIMIT 1000);
    DELETE FROM $schema$.outbox_order z WHERE z.tenant = p_tenant AND (z.lane, z.target, z.key)
        IN (SELECT lane, target, key FROM $schema$.outbox_order WHERE tenant = p_tenant LIMIT 1000);
    DELETE FROM $schema$.dispatch d WHERE d.tenant = p_tenant
        AND d.id IN (SELECT id FROM $schema$.dispatch WHERE tenant = p_tenant LIMIT 1000);
    DELETE FROM $schema$.queued q WHERE q.ctid = ANY (ARRAY(
        SELECT ctid FROM $schema$.queued WHERE tenant = p_tenant LIMIT 1000));
    DELETE FROM $schema$.ended e WHERE e.ctid = ANY (ARRAY(
        SELECT ctid FROM $schema$.ended WHERE tenant = p_tenant LIMIT 1000));
    DELETE FROM $schema$.mailbox m WHERE m.tenant = p_tenant
        AND m.thread IN (SELECT thread FROM $schema$.mailbox WHERE tenant = p_tenant LIMIT 1000);
    DELETE FROM $schema$.interrupt x WHERE x.tenant = p_tenant AND (x.thread, x.epoch)
        IN (SELECT thread, epoch FROM $schema$.interrupt WHERE tenant = p_tenant LIMIT 1000);
    IF EXISTS (SELECT FROM $schema$.event WHERE tenant = p_tenant)
        OR EXISTS (SELECT FROM $schema$.dispatch WHERE tenant = p_tenant)
        OR EXISTS (SELECT FROM $schema$.queued WHERE tenant = p_tenant)
        OR EXISTS (SELECT FROM $schema$.ended WHERE tenant = p_tenant)
        OR EXISTS (SELECT FROM $schema$.mailbox WHERE tenant = p_tenant)
        OR EXISTS (SELECT FROM $schema$.interrupt WHERE tenant = p_tenant)
        OR EXISTS (SELECT FROM $schema$.outbox WHERE tenant = p_tenant)
        OR EXISTS (SELECT FROM $schema$.outbox_order WHERE tenant = p_tenant)
        OR EXISTS (SELECT FROM $schema$.scope WHERE tenant = p_tenant)
        OR EXISTS (SELECT FROM $schema$.event_key WHERE tenant = p_tenant) THEN
        RETURN true;
    END IF;
    DELETE FROM $schema$.live_receiver WHERE tenant = p_tenant;
    DELETE FROM $schema$.live_letter WHERE tenant = p_tenant;
    -- The next mailbox of the tenant numbers its claims above this number, so that no claim number is used twice.
    UPDATE $schema$.claims c SET first = greatest($schema$.now(), c.first + 1) WHERE c.tenant = p_tenant;
    DELETE FROM $schema$.dropped WHERE tenant = p_tenant;
    RETURN false;
END $$;

-- Removes some of the events of a scope that are trimmed in all of their scopes. Returns whether there may be more, and
-- the writers and keys of the removed events.
CREATE FUNCTION $schema$.sweep_step(p_tenant text, p_kind text, p_id text)
RETURNS TABLE (is_more boolean, writer text, key text) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_from bigint;
    v_to bigint;
BEGIN
    SELECT s.swept, least(s.floor, s.swept + 1000) INTO v_from, v_to FROM $schema$.scope s
        WHERE s.tenant = p_tenant AND s.kind = p_kind AND s.id = p_id FOR NO KEY UPDATE;
    IF v_from IS NULL OR v_from >= v_to THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT true, NULL::text, NULL::text;
    RETURN QUERY WITH gone AS (
        DELETE FROM $schema$.event e WHERE e.tenant = p_tenant
            AND CASE p_kind WHEN 'thread' THEN e.thread = p_id AND e.thread_seq > v_from AND e.thread_seq <= v_to
                ELSE e.run = p_id AND e.run_seq > v_from AND e.run_seq <= v_to END
            AND NOT EXISTS (SELECT FROM $schema$.scope s WHERE s.tenant = p_tenant
                AND CASE p_kind WHEN 'thread' THEN s.kind = 'run' AND s.id = e.run AND s.floor < e.run_seq
                    ELSE s.kind = 'thread' AND s.id = e.thread AND s.floor < e.thread_seq END)
            RETURNING e.writer, e.key
    ) SELECT DISTINCT true, g.writer, g.key FROM gone g WHERE g.key IS NOT NULL;
    UPDATE $schema$.scope s SET swept = v_to WHERE s.tenant = p_tenant AND s.kind = p_kind AND s.id = p_id;
END $$;

-- Loads the records that a decision about the outbox needs: rows, the beginnings of lists after a given position, and
-- the stamps of groups. With `p_lock`, they are locked, so that no other transaction decides about them. Lists leave
-- out rows that other transactions have locked, except lists of one group.
CREATE FUNCTION $schema$.look_outbox(
    p_tenant text, p_lock boolean, p_rows text[], p_group_lanes text[], p_group_targets text[], p_group_keys text[],
    p_lists text[], p_lanes text[], p_targets text[], p_keys text[], p_statuses text[],
    p_firsts bigint[], p_seconds bigint[], p_ids text[], p_limit integer
) RETURNS TABLE (n integer, kind text, i bigint, j bigint, id text, record text, payload text)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    at integer;
BEGIN
    RETURN QUERY SELECT 0, 'clock', $schema$.now(), NULL::bigint, NULL::text, NULL::text, NULL::text;
    IF cardinality(p_rows) > 0 THEN
        IF p_lock THEN
            PERFORM 1 FROM (SELECT id FROM unnest(p_rows) w (id) ORDER BY id) w CROSS JOIN LATERAL (SELECT
                FROM $schema$.outbox o WHERE o.tenant = p_tenant AND o.id = w.id FOR NO KEY UPDATE) o;
        END IF;
        RETURN QUERY SELECT 0, 'row', NULL::bigint, NULL::bigint, w.id, o.record, o.payload
            FROM unnest(p_rows) w (id) CROSS JOIN LATERAL (SELECT o.record, o.payload FROM $schema$.outbox o
                WHERE o.tenant = p_tenant AND o.id = w.id LIMIT 1) o;
    END IF;
    IF cardinality(p_group_keys) > 0 THEN
        IF p_lock THEN
            INSERT INTO $schema$.outbox_order SELECT p_tenant, w.lane, w.target, w.key, 0
                FROM unnest(p_group_lanes, p_group_targets, p_group_keys) w (lane, target, key)
                ORDER BY w.lane, w.target, w.key ON CONFLICT DO NOTHING;
            PERFORM 1 FROM (SELECT * FROM unnest(p_group_lanes, p_group_targets, p_group_keys) w (lane, target, key)
                    ORDER BY lane, target, key) w
                CROSS JOIN LATERAL (SELECT FROM $schema$.outbox_order z WHERE z.tenant = p_tenant AND z.lane = w.lane
                    AND z.target = w.target AND z.key = w.key FOR NO KEY UPDATE) z;
        END IF;
        RETURN QUERY SELECT w.n::integer, 'group', coalesce(z.stamp, 0), NULL::bigint, NULL::text, NULL::text, NULL::text
            FROM unnest(p_group_lanes, p_group_targets, p_group_keys) WITH ORDINALITY w (lane, target, key, n)
            LEFT JOIN LATERAL (SELECT z.stamp FROM $schema$.outbox_order z WHERE z.tenant = p_tenant AND z.lane = w.lane
                AND z.target = w.target AND z.key = w.key LIMIT 1) z ON true;
    END IF;
    FOR at IN 1 .. cardinality(p_lists) LOOP
        CASE p_lists[at]
        WHEN 'ready' THEN
            IF p_lock THEN
                RETURN QUERY SELECT at, 'place', o.available_at, o.created_at, o.id, o.record, o.payload FROM $schema$.outbox o
                    WHERE o.tenant = p_tenant AND o.is_ready AND o.lane = p_lanes[at]
                    AND (o.available_at, o.created_at, o.id) > (p_firsts[at], p_seconds[at], p_ids[at])
                    ORDER BY o.available_at, o.created_at, o.id LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED;
            ELSE
                RETURN QUERY SELECT at, 'place', o.available_at, o.created_at, o.id, o.record, o.payload FROM $schema$.outbox o
                    WHERE o.tenant = p_tenant AND o.is_ready AND o.lane = p_lanes[at]
                    AND (o.available_at, o.created_at, o.id) > (p_firsts[at], p_seconds[at], p_ids[at])
                    ORDER BY o.available_at, o.created_at, o.id LIMIT p_limit;
            END IF;
        WHEN 'ready target' THEN
            RETURN QUERY SELECT at, 'place', o.available_at, o.created_at, o.id, o.record, o.payload FROM $schema$.outbox o
                WHERE o.tenant = p_tenant AND o.is_ready AND o.lane = p_lanes[at] AND o.target = p_targets[at]
                AND (o.available_at, o.created_at, o.id) > (p_firsts[at], p_seconds[at], p_ids[at])
                ORDER BY o.available_at, o.created_at, o.id LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED;
        WHEN 'leased' THEN
            RETURN QUERY SELECT at, 'place', o.lease_until, 0::bigint, o.id, o.record, o.payload FROM $schema$.outbox o
                WHERE o.tenant = p_tenant AND o.lease_until IS NOT NULL AND o.lane = p_lanes[at]
                AND (p_targets[at] IS NULL OR o.target = p_targets[at])
                AND (o.lease_until, o.id) > (p_firsts[at], p_ids[at])
                ORDER BY o.lease_until, o.id LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED;
        WHEN 'finished' THEN
            RETURN QUERY SELECT at, 'place', o.finished_at, 0::bigint, o.id, o.record, o.payload FROM $schema$.outbox o
                WHERE o.tenant = p_tenant AND o.finished_at IS NOT NULL AND (o.finished_at, o.id) > (p_firsts[at], p_ids[at])
                ORDER BY o.finished_at, o.id LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED;
        WHEN 'created' THEN
            RETURN QUERY SELECT at, 'place', o.created_at, 0::bigint, o.id, o.record, o.payload FROM $schema$.outbox o
                WHERE o.tenant = p_tenant AND (p_lanes[at] IS NULL OR o.lane = p_lanes[at])
                AND (p_targets[at] IS NULL OR o.target = p_targets[at]) AND (p_statuses[at] IS NULL OR o.status = p_statuses[at])
                AND o.created_at >= 0 AND (o.created_at, o.id) > (p_firsts[at], p_ids[at])
                ORDER BY o.created_at, o.id LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED;
        WHEN 'keyed' THEN
            RETURN QUERY SELECT at, 'place', 0::bigint, 0::bigint, o.id, o.record, o.payload FROM $schema$.outbox o
                WHERE o.tenant = p_tenant AND o.lane = p_lanes[at] AND o.target = p_targets[at] AND o.dedupe_key = p_keys[at];
        WHEN 'last' THEN
            RETURN QUERY SELECT at, 'place', o.order_number, 0::bigint, o.id, o.record, o.payload FROM $schema$.outbox o
                WHERE o.tenant = p_tenant AND o.lane = p_lanes[at] AND o.target = p_targets[at] AND o.order_key = p_keys[at]
                ORDER BY o.order_number DESC LIMIT 1;
        WHEN 'open' THEN
            RETURN QUERY SELECT at, 'place', o.order_number, 0::bigint, o.id, o.record, o.payload FROM $schema$.outbox o
                WHERE o.tenant = p_tenant AND o.lane = p_lanes[at] AND o.target = p_targets[at] AND o.order_key = p_keys[at]
                AND o.finished_at IS NULL AND (o.order_number, o.id) > (p_firsts[at], p_ids[at])
                ORDER BY o.order_number, o.id LIMIT p_limit;
        WHEN 'held' THEN
            RETURN QUERY SELECT at, 'place', 0::bigint, 0::bigint, o.id, o.record, o.payload FROM $schema$.outbox o
                WHERE o.tenant = p_tenant AND o.lane = p_lanes[at] AND o.target = p_targets[at] AND o.order_key = p_keys[at]
                AND o.lease_until IS NOT NULL AND o.id > p_ids[at] ORDER BY o.id LIMIT p_limit;
        WHEN 'next' THEN
            RETURN QUERY SELECT at, 'place', o.available_at, o.created_at, o.id, o.record, o.payload FROM $schema$.outbox o
                WHERE o.tenant = p_tenant AND o.lane = p_lanes[at] AND o.target = p_targets[at] AND o.order_key = p_keys[at]
                AND o.is_ready AND (o.available_at, o.created_at, o.id) > (p_firsts[at], p_seconds[at], p_ids[at])
                ORDER BY o.available_at, o.created_at, o.id LIMIT p_limit;
        END CASE;
    END LOOP;
END $$;

-- Makes the due dispatches of an epoch of a thread available. If the clock was set back, dispatches that are not due
-- become unavailable again.
CREATE FUNCTION $schema$.ripen(p_tenant text, p_thread text, p_epoch bigint, p_now bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE $schema$.queued q SET is_available = true WHERE q.ctid = ANY (ARRAY(SELECT q.ctid FROM $schema$.queued q
        WHERE q.tenant = p_tenant AND q.thread = p_thread AND q.epoch = p_epoch AND NOT q.is_available
        AND q.due BETWEEN 0 AND p_now ORDER BY q.due));
    UPDATE $schema$.queued q SET is_available = false WHERE q.ctid = ANY (ARRAY(SELECT q.ctid FROM $schema$.queued q
        WHERE q.tenant = p_tenant AND q.thread = p_thread AND q.epoch = p_epoch AND q.is_available
        AND q.due >= 0 AND q.due > p_now ORDER BY q.due));
    RETURN p_now;
END $$;

-- Returns the positions of a thread in the lists of the mailbox, after `ripen`. The rule is `mailbox::thread_positions`
-- of core.
CREATE FUNCTION $schema$.place(p_tenant text, p_thread text, p_epoch bigint, p_lease_until bigint, p_free_since bigint)
    RETURNS TABLE (priority smallint, since bigint, due bigint) LANGUAGE sql STABLE AS $$
    SELECT f.first, CASE WHEN f.first IS NOT NULL THEN greatest(p_free_since, (SELECT q.due FROM $schema$.queued q
            WHERE q.tenant = p_tenant AND q.thread = p_thread AND q.epoch = p_epoch AND q.is_available AND q.due >= 0
            ORDER BY q.due LIMIT 1)) END, f.next
    FROM (SELECT
        CASE WHEN p_lease_until IS NULL THEN (SELECT q.priority FROM $schema$.queued q WHERE q.tenant = p_tenant
            AND q.thread = p_thread AND q.epoch = p_epoch AND q.is_available ORDER BY q.priority, q.number LIMIT 1) END AS first,
        (SELECT q.due FROM $schema$.queued q WHERE q.tenant = p_tenant AND q.thread = p_thread AND q.epoch = p_epoch
            AND NOT q.is_available AND q.due >= 0 ORDER BY q.due LIMIT 1) AS next
        OFFSET 0) f
    -- Callers use the columns of the result several times. `OFFSET 0` keeps the planner from evaluating the queries
    -- each time.
    OFFSET 0
$$;

-- Makes the due dispatches of threads available, and puts the threads at their new positions. The caller has locked the
-- threads.
CREATE FUNCTION $schema$.turn(p_tenant text, p_threads text[], p_now bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM $schema$.ripen(p_tenant, w.thread, m.epoch, p_now) FROM unnest(p_threads) w (thread)
        CROSS JOIN LATERAL (SELECT m.epoch FROM $schema$.mailbox m WHERE m.tenant = p_tenant AND m.thread = w.thread LIMIT 1) m;
    UPDATE $schema$.mailbox m SET turned = p_now, ready_priority = w.priority, ready_since = w.since,
        is_passed = $schema$.is_passed(m.ready_priority, m.ready_since, m.is_passed, w.priority, w.since, p_now),
        due_at = w.due FROM (
        SELECT m.place, p.* FROM unnest(p_threads) w (thread)
        CROSS JOIN LATERAL (SELECT m.ctid AS place, m.epoch, m.lease_until, m.free_since FROM $schema$.mailbox m
            WHERE m.tenant = p_tenant AND m.thread = w.thread LIMIT 1) m
        CROSS JOIN LATERAL $schema$.place(p_tenant, w.thread, m.epoch, m.lease_until, m.free_since) p
    ) w WHERE m.ctid = w.place;
END $$;

-- Does the same as `turn` for up to `p_limit` threads whose next dispatch became due between two times, except threads
-- that other transactions have locked. Returns the number of these threads.
CREATE FUNCTION $schema$.turn_all(p_tenant text, p_from bigint, p_now bigint, p_limit integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_threads text[] := ARRAY(SELECT m.thread FROM $schema$.mailbox m
        WHERE m.tenant = p_tenant AND m.due_at >= p_from AND m.due_at <= p_now
        ORDER BY m.due_at, m.thread LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED);
BEGIN
    IF cardinality(v_threads) > 0 THEN
        PERFORM $schema$.turn(p_tenant, v_threads, p_now);
    END IF;
    RETURN cardinality(v_threads);
END $$;

-- Loads the records that a decision about the mailbox needs. The mailbox of a thread is returned with its newest
-- interrupt, the first available dispatch and the claimed dispatch. Up to `p_claim` threads with claimable dispatches
-- and up to `p_lapse` threads with expired leases are chosen. With `p_lock`, everything is locked, so that no other
-- transaction decides about it. `p_numbers` says whether the decision may make claims, which need numbers.
--
-- The last arguments are the watermarks: at `p_passed_at`, a search found nothing more before the time `p_due` among
-- threads with dispatches that will become due, before `p_lease` among leases, and before `p_since` in each of
-- `p_priorities`. These parts of the indexes are skipped, because they may contain old versions of rows that other
-- transactions may still see.
CREATE FUNCTION $schema$.look_mailbox(
    p_tenant text, p_lock boolean, p_numbers boolean, p_threads text[], p_dispatches text[], p_key_threads text[],
    p_keys text[], p_interrupt_threads text[], p_interrupt_epochs bigint[], p_claim integer, p_lapse integer,
    p_passed_at bigint, p_due bigint, p_lease bigint, p_priorities smallint[], p_since bigint[]
) RETURNS TABLE (kind text, n bigint, id text, epoch bigint, record text, interrupt text, first_body text, first_state text,
    body text, state text) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := $schema$.now();
    v_threads text[] := p_threads || p_key_threads || p_interrupt_threads;
    v_chosen text[];
    v_late text[] := '{}';
    v_due bigint;
    v_turned bigint;
    is_late boolean;
BEGIN
    IF cardinality(p_dispatches) > 0 THEN
        v_threads := v_threads || ARRAY(SELECT d.thread FROM unnest(p_dispatches) w (id)
            CROSS JOIN LATERAL (SELECT d.thread FROM $schema$.dispatch d WHERE d.tenant = p_tenant AND d.id = w.id LIMIT 1) d);
    END IF;
    IF cardinality(v_threads) > 0 THEN
        v_threads := ARRAY(SELECT DISTINCT w.thread COLLATE "C" FROM unnest(v_threads) w (thread) ORDER BY 1);
        IF p_lock THEN
            -- The rows are locked in a fixed order, so that two transactions never wait for each other.
            SELECT min(m.due_at), max(m.turned) INTO v_due, v_turned FROM unnest(v_threads) w (thread)
                CROSS JOIN LATERAL (SELECT m.due_at, m.turned FROM $schema$.mailbox m
                    WHERE m.tenant = p_tenant AND m.thread = w.thread FOR NO KEY UPDATE) m;
            -- Time has passed while this transaction waited for the locks.
            v_now := $schema$.now();
            IF v_due <= v_now OR v_turned > v_now THEN
                v_late := v_threads;
            END IF;
        END IF;
    END IF;
    -- This row belongs to the whole tenant. It is inserted only now, so that no other transaction waits for it while
    -- this one waits for locks.
    IF p_numbers THEN
        INSERT INTO $schema$.claims SELECT p_tenant, v_now ON CONFLICT DO NOTHING;
        v_now := $schema$.now();
    END IF;
    kind := 'clock';
    n := v_now;
    epoch := (SELECT c.first FROM $schema$.claims c WHERE c.tenant = p_tenant);
    RETURN NEXT;
    epoch := NULL;
    -- If the clock was set back, the watermarks are useless.
    IF coalesce(p_passed_at > v_now, true) THEN
        p_passed_at := NULL;
        p_due := 0;
        p_lease := 0;
        p_priorities := '{}';
        p_since := '{}';
    END IF;
    IF p_lapse > 0 THEN
        v_chosen := ARRAY(SELECT m.thread FROM $schema$.mailbox m
            WHERE m.tenant = p_tenant AND m.lease_until >= p_lease AND m.lease_until <= v_now
            ORDER BY m.lease_until, m.thread LIMIT p_lapse FOR NO KEY UPDATE SKIP LOCKED);
        kind := 'lapsed';
        FOREACH id IN ARRAY v_chosen LOOP
            RETURN NEXT;
        END LOOP;
        v_threads := v_threads || v_chosen;
        v_late := v_late || v_chosen;
    END IF;
    IF p_claim > 0 THEN
        kind := 'turned';
        n := $schema$.turn_all(p_tenant, p_due, v_now, 1000);
        RETURN NEXT;
        kind := 'ready';
        FOR n, epoch, id, record, is_late IN
            SELECT r.priority, r.since, r.thread, max(r.place), bool_or(r.is_late) FROM (
                (SELECT m.* FROM unnest(-1::smallint || p_priorities, 0::bigint || p_since, p_priorities || 256::smallint)
                        w (first, since, before)
                    CROSS JOIN LATERAL (SELECT m.ready_priority AS priority, m.ready_since AS since, m.thread, 'its own' AS place,
                            m.due_at <= v_now OR m.turned > v_now AS is_late
                        FROM $schema$.mailbox m WHERE m.tenant = p_tenant AND m.ready_priority IS NOT NULL
                            AND (m.ready_priority, m.ready_since) >= (w.first, w.since) AND m.ready_priority < w.before
                        ORDER BY m.ready_priority, m.ready_since, m.thread LIMIT p_claim FOR NO KEY UPDATE SKIP LOCKED) m
                    LIMIT p_claim)
                UNION ALL
                SELECT m.* FROM (SELECT m.ready_priority AS priority, m.ready_since AS since, m.thread, 'a passed one' AS place,
                            m.due_at <= v_now OR m.turned > v_now AS is_late
                        FROM $schema$.mailbox m WHERE m.tenant = p_tenant AND m.is_passed AND p_passed_at IS NOT NULL
                        ORDER BY m.ready_priority, m.ready_since, m.thread LIMIT p_claim FOR NO KEY UPDATE SKIP LOCKED) m
            ) r GROUP BY r.priority, r.since, r.thread ORDER BY r.priority, r.since, r.thread LIMIT p_claim
        LOOP
            RETURN NEXT;
            v_threads := v_threads || id;
            IF is_late THEN
                v_late := v_late || id;
            END IF;
        END LOOP;
    END IF;
    IF cardinality(v_late) > 0 THEN
        PERFORM $schema$.turn(p_tenant, v_late, v_now);
    END IF;
    IF cardinality(v_threads) > 0 THEN
        -- One statement loads the mailboxes and their dispatches as of one moment. A write is refused if a mailbox has
        -- changed since, and this check must cover its dispatches.
        RETURN QUERY SELECT 'mailbox', NULL::bigint, w.thread, m.epoch, m.record, x.record, f.body, f.state, d.body, d.state
            FROM unnest(v_threads) w (thread)
            CROSS JOIN LATERAL (SELECT m.epoch, m.running, m.record FROM $schema$.mailbox m
                WHERE m.tenant = p_tenant AND m.thread = w.thread LIMIT 1) m
            LEFT JOIN LATERAL (SELECT x.record FROM $schema$.interrupt x
                WHERE m.epoch > 0 AND x.tenant = p_tenant AND x.thread = w.thread AND x.epoch = m.epoch LIMIT 1) x ON true
            LEFT JOIN LATERAL (SELECT q.id FROM $schema$.queued q WHERE q.tenant = p_tenant AND q.thread = w.thread
                AND q.epoch = m.epoch AND q.is_available ORDER BY q.priority, q.number LIMIT 1) q ON true
            LEFT JOIN LATERAL (SELECT d.body, d.state FROM $schema$.dispatch d
                WHERE d.tenant = p_tenant AND d.id = q.id LIMIT 1) f ON true
            LEFT JOIN LATERAL (SELECT d.body, d.state FROM $schema$.dispatch d
                WHERE d.tenant = p_tenant AND d.id = m.running LIMIT 1) d ON true
        UNION ALL
        SELECT 'dispatch', NULL::bigint, d.id, NULL::bigint, NULL::text, NULL::text, NULL::text, NULL::text,
            d.body, d.state FROM unnest(p_dispatches) w (id)
            CROSS JOIN LATERAL (SELECT d.* FROM $schema$.dispatch d WHERE d.tenant = p_tenant AND d.id = w.id LIMIT 1) d;
    END IF;
    IF cardinality(p_keys) > 0 THEN
        RETURN QUERY SELECT 'key', w.n, k.id, NULL::bigint, NULL::text, NULL::text, NULL::text, NULL::text, NULL::text, NULL::text
            FROM unnest(p_key_threads, p_keys) WITH ORDINALITY w (thread, key, n)
            JOIN LATERAL (SELECT d.id FROM $schema$.dispatch d WHERE d.tenant = p_tenant AND d.thread = w.thread
                AND d.dedupe_key = w.key
                ORDER BY (d.status = 'claimed' OR (d.status = 'queued' AND d.epoch = coalesce((SELECT m.epoch
                    FROM $schema$.mailbox m WHERE m.tenant = p_tenant AND m.thread = w.thread), 0))) DESC, d.number DESC
                LIMIT 1) k ON true;
    END IF;
    IF cardinality(p_interrupt_threads) > 0 THEN
        RETURN QUERY SELECT 'interrupt', NULL::bigint, w.thread, w.epoch, NULL::text, x.record, NULL::text, NULL::text,
            NULL::text, NULL::text FROM unnest(p_interrupt_threads, p_interrupt_epochs) w (thread, epoch)
            CROSS JOIN LATERAL (SELECT x.record FROM $schema$.interrupt x
                WHERE x.tenant = p_tenant AND x.thread = w.thread AND x.epoch = w.epoch LIMIT 1) x;
    END IF;
END $$;

-- Returns the server's time, and the earliest time at which a claim finds a dispatch. The watermarks are those of
-- `look_mailbox`.
CREATE FUNCTION $schema$.next_claim(
    p_tenant text, p_passed_at bigint, p_due bigint, p_lease bigint, p_priorities smallint[], p_since bigint[]
) RETURNS TABLE (clock bigint, next bigint) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    clock := $schema$.now();
    IF coalesce(p_passed_at > clock, true) THEN
        p_due := 0;
        p_lease := 0;
        p_priorities := '{}';
        p_since := '{}';
    END IF;
    next := least(
        (SELECT m.ready_since FROM $schema$.mailbox m WHERE m.tenant = p_tenant AND m.is_passed
            ORDER BY m.ready_priority, m.ready_since, m.thread LIMIT 1),
        (SELECT m.ready_since FROM unnest(-1::smallint || p_priorities, 0::bigint || p_since, p_priorities || 256::smallint)
                w (first, since, before)
            CROSS JOIN LATERAL (SELECT m.ready_since FROM $schema$.mailbox m
                WHERE m.tenant = p_tenant AND m.ready_priority IS NOT NULL
                    AND (m.ready_priority, m.ready_since) >= (w.first, w.since) AND m.ready_priority < w.before
                ORDER BY m.ready_priority, m.ready_since, m.thread LIMIT 1) m LIMIT 1),
        (SELECT m.due_at FROM $schema$.mailbox m WHERE m.tenant = p_tenant AND m.due_at >= p_due
            ORDER BY m.due_at, m.thread LIMIT 1),
        (SELECT m.lease_until FROM $schema$.mailbox m WHERE m.tenant = p_tenant AND m.lease_until >= p_lease
            ORDER BY m.lease_until, m.thread LIMIT 1));
    RETURN NEXT;
END $$;

-- Makes a statement fail, so that it has no effect, because a row on which it depends has changed.
CREATE FUNCTION $schema$.clash() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE EXCEPTION 'another transaction has changed a row on which the statement depends' USING ERRCODE = 'serialization_failure';
END $$;

CREATE FUNCTION $schema$.next_tenant(p_after text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT min(t) FROM (
        (SELECT tenant FROM $schema$.thread WHERE tenant > p_after ORDER BY tenant LIMIT 1)
        UNION ALL
        (SELECT tenant FROM $schema$.event WHERE tenant > p_after ORDER BY tenant LIMIT 1)
        UNION ALL
        (SELECT tenant FROM $schema$.outbox WHERE tenant > p_after ORDER BY tenant LIMIT 1)
        UNION ALL
        (SELECT tenant FROM $schema$.mailbox WHERE tenant > p_after ORDER BY tenant LIMIT 1)
    ) n (t)
$$;

-- Registers the receiver of a target. The process that had the receiver before is notified.
CREATE FUNCTION $schema$.live_open(p_tenant text, p_target text, p_process text, p_channel text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_before text;
BEGIN
    PERFORM $schema$.live_beat(p_process);
    SELECT r.process INTO v_before FROM $schema$.live_receiver r WHERE r.tenant = p_tenant AND r.target = p_target;
    INSERT INTO $schema$.live_receiver VALUES (p_tenant, p_target, p_process, clock_timestamp())
        ON CONFLICT (tenant, target) DO UPDATE SET process = excluded.process, opened_at = excluded.opened_at;
    IF v_before <> p_process THEN
        PERFORM pg_notify(p_channel, E'\nlive\n' || v_before);
    END IF;
END $$;

-- Records the heartbeat of a process, and removes rows of processes that no longer have one.
CREATE FUNCTION $schema$.live_beat(p_process text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO $schema$.live_process VALUES (p_process, clock_timestamp())
        ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at;
    DELETE FROM $schema$.live_process p WHERE p.id IN (SELECT id FROM $schema$.live_process
        WHERE seen_at < clock_timestamp() - interval '5 minutes' FOR UPDATE SKIP LOCKED);
    DELETE FROM $schema$.live_receiver r WHERE NOT EXISTS (SELECT FROM $schema$.live_process p WHERE p.id = r.process);
    DELETE FROM $schema$.live_letter l WHERE l.sent_at < clock_timestamp() - interval '5 minutes'
        AND l.sent_at + l.deadline_ms * interval '1 millisecond' < clock_timestamp() - interval '5 minutes';
END $$;

-- Sends a command to the process that has the receiver of a target. Returns whether there is one.
CREATE FUNCTION $schema$.live_send(
    p_tenant text, p_target text, p_id text, p_sender text, p_command text, p_deadline bigint, p_channel text
) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_process text;
BEGIN
    SELECT r.process INTO v_process FROM $schema$.live_receiver r JOIN $schema$.live_process p ON p.id = r.process
        WHERE r.tenant = p_tenant AND r.target = p_target AND p.seen_at > clock_timestamp() - interval '10 seconds';
    IF v_process IS NULL THEN
        RETURN false;
    END IF;
    INSERT INTO $schema$.live_letter (id, tenant, target, process, sender, sent_at, deadline_ms, command)
        VALUES (p_id, p_tenant, p_target, v_process, p_sender, clock_timestamp(), p_deadline, p_command);
    PERFORM pg_notify(p_channel, E'\nlive\n' || v_process);
    RETURN true;
END $$;

-- Returns the new commands for a process, each with the time for which its sender still waits.
CREATE FUNCTION $schema$.live_take(p_process text)
RETURNS TABLE (id text, tenant text, target text, command text, sender text, left_ms bigint)
LANGUAGE sql VOLATILE AS $$
    WITH taken AS (
        UPDATE $schema$.live_letter l SET is_taken = true WHERE l.process = p_process AND NOT l.is_taken RETURNING l.*
    )
    SELECT t.id, t.tenant, t.target, t.command, t.sender,
        t.deadline_ms - floor(extract(epoch FROM clock_timestamp() - t.sent_at) * 1000)::bigint
    FROM taken t ORDER BY t.number
$$;

-- Writes the answer to a command, and notifies the sender's process.
CREATE FUNCTION $schema$.live_answer(p_id text, p_answer text, p_sender text, p_channel text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE $schema$.live_letter SET answer = p_answer WHERE id = p_id;
    PERFORM pg_notify(p_channel, E'\nanswer\n' || p_sender);
END $$;

-- Plans are made once, possibly while tables are still small. Each of these functions looks up few rows by their keys,
-- so these settings force plans that use indexes.
DO $do$
DECLARE
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY ARRAY['look', 'write', 'look_outbox', 'look_mailbox', 'next_claim', 'turn_all', 'sweep_step'] LOOP
        EXECUTE format('ALTER FUNCTION $schema$.%I SET plan_cache_mode = force_generic_plan SET enable_seqscan = off '
            'SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off', v_function);
    END LOOP;
END $do$;

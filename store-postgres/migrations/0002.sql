-- Documents, and events in topics.

-- Numbers the writes that put documents. A number is taken when the rows are locked, so that it is larger than every
-- number that one of the documents ever had.
CREATE SEQUENCE $schema$.document_revision;

-- Documents. `log` is the number of the thread's log, or 0 for a document of the tenant. `key` is the encoded key, whose
-- order is that of its bytes.
CREATE TABLE $schema$.document (
    log bigint NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    collection text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    -- 0 for a row that only keeps other transactions from creating the document. No reader sees such a row, because it
    -- is removed before the end of the transaction that inserts it.
    revision bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (log, tenant, collection, key)
);

-- The topics of an event, in the order of their ids, and its sequence number in each of them.
ALTER TABLE $schema$.event ADD COLUMN topics text[] COLLATE "C", ADD COLUMN topic_seqs bigint[];

-- The events of each topic. A row is removed together with its event.
CREATE TABLE $schema$.event_topic (
    tenant text COLLATE "C" NOT NULL,
    topic text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    event text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, topic, seq)
);

-- Returns whether one of the scopes of an event still contains it.
CREATE FUNCTION $schema$.is_in_a_scope(
    p_tenant text, p_thread text, p_thread_seq bigint, p_run text, p_run_seq bigint, p_topics text[], p_topic_seqs bigint[]
) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM (
            SELECT 'thread', p_thread, p_thread_seq
            UNION ALL SELECT 'run', p_run, p_run_seq
            UNION ALL SELECT 'topic', t.topic, t.seq FROM unnest(p_topics, p_topic_seqs) t (topic, seq)
        ) w (kind, id, seq)
        CROSS JOIN LATERAL (SELECT s.floor FROM $schema$.scope s
            WHERE s.tenant = p_tenant AND s.kind = w.kind AND s.id = w.id LIMIT 1) s
        WHERE w.seq > s.floor);
END $$;

-- Does for documents and for events in topics what `look` does for other records. The rows have the same form. A row
-- `topic` has the sequence number of an event in one of its topics; these rows have the order of the topics.
CREATE FUNCTION $schema$.look_documents(
    p_tenant text, p_threads text[], p_collections text[], p_keys text[], p_events text[]
) RETURNS TABLE (kind text, i bigint, j bigint, a text, b text) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    IF cardinality(p_keys) > 0 THEN
        RETURN QUERY SELECT 'document', d.revision, w.n, d.created_at::text, d.updated_at::text
            FROM unnest(p_threads, p_collections, p_keys) WITH ORDINALITY w (thread, collection, key, n)
            CROSS JOIN LATERAL (SELECT CASE WHEN w.thread IS NULL THEN 0 ELSE (SELECT t.log FROM $schema$.thread t
                WHERE t.tenant = p_tenant AND t.id = w.thread) END AS log) l
            CROSS JOIN LATERAL (SELECT d.revision, d.created_at, d.updated_at FROM $schema$.document d WHERE d.log = l.log
                AND d.tenant = p_tenant AND d.collection = w.collection AND d.key = w.key LIMIT 1) d;
    END IF;
    IF cardinality(p_events) > 0 THEN
        RETURN QUERY SELECT 'event', coalesce(e.thread_seq, 0), coalesce(e.run_seq, 0), e.id, e.record
            FROM unnest(p_events) w (id)
            CROSS JOIN LATERAL (SELECT e.* FROM $schema$.event e WHERE e.tenant = p_tenant AND e.id = w.id LIMIT 1) e
            WHERE $schema$.is_in_a_scope(p_tenant, e.thread, e.thread_seq, e.run, e.run_seq, e.topics, e.topic_seqs);
        RETURN QUERY SELECT 'topic', t.seq, 0::bigint, e.id, NULL::text FROM unnest(p_events) w (id)
            CROSS JOIN LATERAL (SELECT e.* FROM $schema$.event e WHERE e.tenant = p_tenant AND e.id = w.id LIMIT 1) e
            CROSS JOIN LATERAL unnest(e.topic_seqs) WITH ORDINALITY t (seq, n)
            WHERE $schema$.is_in_a_scope(p_tenant, e.thread, e.thread_seq, e.run, e.run_seq, e.topics, e.topic_seqs)
            ORDER BY e.id, t.n;
    END IF;
END $$;

-- Returns whether a write to a tenant that writes to no thread may be made. A deletion of the tenant waits until this
-- transaction ends. After the deletion has begun, nothing is written to the tenant. `p_sent` is the time of the decision
-- plus the time that has passed since.
CREATE FUNCTION $schema$.can_write(p_tenant text, p_sent bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now bigint := $schema$.now();
    v_lock text;
BEGIN
    v_lock := pg_advisory_xact_lock_shared(hashtext('agentstore.$schema$'), hashtext('tenant ' || p_tenant));
    RETURN p_sent BETWEEN v_now - $schema$.lag() AND v_now
        AND NOT EXISTS (SELECT FROM $schema$.dropped d WHERE d.tenant = p_tenant);
END $$;

-- Writes documents, events in topics, and the commit key of a commit that puts documents. Returns the revision of the
-- documents that it puts, or null if it puts none.
--
-- If a document is not as expected, or the thread of a document does not exist, the statement fails and has no effect.
-- `d_low` and `d_high` are the revisions between which that of the document must be. A document that does not exist has
-- the revision 0. The documents come in the order of their keys, those of the tenant first, so that two transactions
-- never wait for each other.
--
-- `p_log` is the log of the thread whose documents are written. The statement has locked the thread. `t_topic` and
-- `t_seq` are the topics of all events, and `f_last_topic` is the position of the last topic of each event.
CREATE FUNCTION $schema$.write_documents(
    p_tenant text, p_log bigint,
    d_of_thread boolean[], d_collection text[], d_key text[], d_op text[], d_low bigint[], d_high bigint[], d_value text[],
    d_at bigint[],
    f_id text[], f_thread text[], f_thread_seq bigint[], f_run text[], f_run_seq bigint[], f_writer text[], f_key text[],
    f_record text[], f_last_topic int[],
    t_topic text[], t_seq bigint[],
    k_key text, k_record text
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_log bigint;
    v_found bigint;
    v_place tid;
    v_places tid[] := '{}';
    v_revision bigint;
    v_first_topic int := 1;
BEGIN
    FOR i IN 1 .. coalesce(cardinality(d_key), 0) LOOP
        v_log := CASE WHEN d_of_thread[i] THEN p_log ELSE 0 END;
        IF v_log IS NULL THEN
            PERFORM $schema$.clash();
        END IF;
        LOOP
            IF d_op[i] = 'keep' THEN
                SELECT d.revision, d.ctid INTO v_found, v_place FROM $schema$.document d WHERE d.log = v_log
                    AND d.tenant = p_tenant AND d.collection = d_collection[i] AND d.key = d_key[i] FOR SHARE;
            ELSE
                SELECT d.revision, d.ctid INTO v_found, v_place FROM $schema$.document d WHERE d.log = v_log
                    AND d.tenant = p_tenant AND d.collection = d_collection[i] AND d.key = d_key[i] FOR UPDATE;
            END IF;
            EXIT WHEN FOUND;
            v_found := 0;
            -- If the document may exist or not, and is not put, it need not stay absent.
            EXIT WHEN d_op[i] <> 'put' AND d_low[i] = 0 AND d_high[i] > 0;
            -- Until this transaction ends, this row keeps other transactions from creating the document.
            INSERT INTO $schema$.document VALUES (v_log, p_tenant, d_collection[i], d_key[i], 0, 0, 0, '')
                ON CONFLICT DO NOTHING RETURNING ctid INTO v_place;
            EXIT WHEN FOUND;
        END LOOP;
        IF v_found NOT BETWEEN d_low[i] AND d_high[i] THEN
            PERFORM $schema$.clash();
        END IF;
        v_places[i] := v_place;
    END LOOP;
    IF 'put' = ANY (d_op) THEN
        v_revision := nextval('$schema$.document_revision');
    END IF;
    FOR i IN 1 .. cardinality(v_places) LOOP
        IF d_op[i] = 'put' THEN
            UPDATE $schema$.document d SET revision = v_revision, value = d_value[i],
                updated_at = greatest(d.updated_at, d_at[i]),
                created_at = CASE d.revision WHEN 0 THEN d_at[i] ELSE d.created_at END
                WHERE d.ctid = v_places[i];
        ELSE
            -- A document that is kept is only removed if this transaction has inserted its row.
            DELETE FROM $schema$.document d WHERE d.ctid = v_places[i] AND (d_op[i] = 'delete' OR d.revision = 0);
        END IF;
    END LOOP;
    FOR i IN 1 .. coalesce(cardinality(f_id), 0) LOOP
        INSERT INTO $schema$.event VALUES (p_tenant, f_id[i], f_thread[i], f_thread_seq[i], f_run[i], f_run_seq[i],
            f_writer[i], f_key[i], f_record[i],
            t_topic[v_first_topic : f_last_topic[i]], t_seq[v_first_topic : f_last_topic[i]]);
        FOR j IN v_first_topic .. f_last_topic[i] LOOP
            INSERT INTO $schema$.event_topic VALUES (p_tenant, t_topic[j], t_seq[j], f_id[i]);
        END LOOP;
        v_first_topic := f_last_topic[i] + 1;
    END LOOP;
    IF k_key IS NOT NULL THEN
        -- The receipt in the record was made before the revision was known. Before this field there are only numbers and
        -- texts, which cannot contain these quotation marks without a backslash. After it there may be JSON of the caller.
        INSERT INTO $schema$.commit_key VALUES (p_log, k_key,
            regexp_replace(k_record, '"document_revision":0', '"document_revision":' || v_revision));
    END IF;
    RETURN v_revision;
END $$;

-- Removes up to 1,000 rows of deleted logs: of the given logs, or of any logs of the tenant. Returns the number of logs
-- that were removed completely, and whether some are left.
CREATE OR REPLACE FUNCTION $schema$.purge_step(p_tenant text, p_logs bigint[]) RETURNS TABLE (ended bigint, rest bigint)
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
        FOREACH v_table IN ARRAY ARRAY['entry', 'mark', 'tip', 'snapshot', 'commit_key', 'state', 'run', 'input', 'decision',
            'document'] LOOP
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

-- Removes some of the remaining rows of a deleted tenant. Returns whether there may be more. The threads are removed first:
-- after that, no commit that began before the deletion can write a document or an event. `drop_other_rows` removes what
-- is neither a thread nor a document nor an event in a topic.
ALTER FUNCTION $schema$.drop_step(text) RENAME TO drop_other_rows;
CREATE FUNCTION $schema$.drop_step(p_tenant text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    WITH gone AS (
        DELETE FROM $schema$.thread t WHERE t.tenant = p_tenant
            AND t.id IN (SELECT id FROM $schema$.thread WHERE tenant = p_tenant LIMIT 1000) RETURNING t.log
    )
    INSERT INTO $schema$.purge SELECT g.log, p_tenant FROM gone g WHERE g.log IS NOT NULL;
    IF EXISTS (SELECT FROM $schema$.thread WHERE tenant = p_tenant) THEN
        RETURN true;
    END IF;
    DELETE FROM $schema$.document d WHERE d.ctid = ANY (ARRAY(
        SELECT ctid FROM $schema$.document WHERE log = 0 AND tenant = p_tenant LIMIT 1000));
    DELETE FROM $schema$.event_topic t WHERE t.ctid = ANY (ARRAY(
        SELECT ctid FROM $schema$.event_topic WHERE tenant = p_tenant LIMIT 1000));
    IF EXISTS (SELECT FROM $schema$.document WHERE log = 0 AND tenant = p_tenant)
        OR EXISTS (SELECT FROM $schema$.event_topic WHERE tenant = p_tenant) THEN
        RETURN true;
    END IF;
    RETURN $schema$.drop_other_rows(p_tenant);
END $$;

-- Removes some of the events of a scope that are trimmed in all of their scopes. Returns whether there may be more, and
-- the writers and keys of the removed events.
CREATE OR REPLACE FUNCTION $schema$.sweep_step(p_tenant text, p_kind text, p_id text)
RETURNS TABLE (is_more boolean, writer text, key text) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_from bigint;
    v_to bigint;
    v_events text[];
BEGIN
    SELECT s.swept, least(s.floor, s.swept + 1000) INTO v_from, v_to FROM $schema$.scope s
        WHERE s.tenant = p_tenant AND s.kind = p_kind AND s.id = p_id FOR NO KEY UPDATE;
    IF v_from IS NULL OR v_from >= v_to THEN
        RETURN;
    END IF;
    CASE p_kind
    WHEN 'thread' THEN
        v_events := ARRAY(SELECT e.id FROM $schema$.event e WHERE e.tenant = p_tenant AND e.thread = p_id
            AND e.thread_seq > v_from AND e.thread_seq <= v_to);
    WHEN 'run' THEN
        v_events := ARRAY(SELECT e.id FROM $schema$.event e WHERE e.tenant = p_tenant AND e.run = p_id
            AND e.run_seq > v_from AND e.run_seq <= v_to);
    ELSE
        v_events := ARRAY(SELECT t.event FROM $schema$.event_topic t WHERE t.tenant = p_tenant AND t.topic = p_id
            AND t.seq > v_from AND t.seq <= v_to);
    END CASE;
    RETURN QUERY SELECT true, NULL::text, NULL::text;
    RETURN QUERY WITH gone AS (
        DELETE FROM $schema$.event e WHERE e.tenant = p_tenant AND e.id = ANY (v_events)
            AND NOT $schema$.is_in_a_scope(p_tenant, e.thread, e.thread_seq, e.run, e.run_seq, e.topics, e.topic_seqs)
            RETURNING e.writer, e.key, e.topics, e.topic_seqs
    ), gone_from_topics AS (
        DELETE FROM $schema$.event_topic t USING gone g CROSS JOIN LATERAL unnest(g.topics, g.topic_seqs) w (topic, seq)
            WHERE t.tenant = p_tenant AND t.topic = w.topic AND t.seq = w.seq
    ) SELECT DISTINCT true, g.writer, g.key FROM gone g WHERE g.key IS NOT NULL;
    UPDATE $schema$.scope s SET swept = v_to WHERE s.tenant = p_tenant AND s.kind = p_kind AND s.id = p_id;
END $$;

CREATE OR REPLACE FUNCTION $schema$.next_tenant(p_after text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT min(t) FROM (
        (SELECT tenant FROM $schema$.thread WHERE tenant > p_after ORDER BY tenant LIMIT 1)
        UNION ALL
        (SELECT tenant FROM $schema$.event WHERE tenant > p_after ORDER BY tenant LIMIT 1)
        UNION ALL
        (SELECT tenant FROM $schema$.outbox WHERE tenant > p_after ORDER BY tenant LIMIT 1)
        UNION ALL
        (SELECT tenant FROM $schema$.mailbox WHERE tenant > p_after ORDER BY tenant LIMIT 1)
        UNION ALL
        (SELECT tenant FROM $schema$.document WHERE log = 0 AND tenant > p_after ORDER BY tenant LIMIT 1)
    ) n (t)
$$;

-- Plans are made once, possibly while tables are still small. Each of these functions looks up few rows by their keys,
-- so these settings force plans that use indexes.
DO $do$
DECLARE
    v_function text;
BEGIN
    FOREACH v_function IN ARRAY ARRAY['is_in_a_scope', 'look_documents', 'can_write', 'write_documents',
        'sweep_step'] LOOP
        EXECUTE format('ALTER FUNCTION $schema$.%I SET plan_cache_mode = force_generic_plan SET enable_seqscan = off '
            'SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off', v_function);
    END LOOP;
END $do$;

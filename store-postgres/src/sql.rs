//! The statements, with the name of the schema inserted.

use std::sync::Arc;

use store_core::DispatchStatus;

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident: $text:expr;)*) => {
        /// The statements. Their texts are made once, when the store is opened. The tables and functions keep their
        /// names, because existing databases contain them. The files in `migrations` say what each of them is.
        #[derive(Debug)]
        pub(crate) struct Sql {
            $($(#[$doc])* pub(crate) $name: Arc<str>,)*
            pub(crate) lists: ListStatements, pub(crate) records: crate::records::RecordStatements,
            schema: Box<str>,
        }

        impl Sql {
            pub(crate) fn new(schema: &str) -> Self {
                Self { $($name: in_schema(AsRef::<str>::as_ref(&$text), schema).into(),)* lists: ListStatements::new(schema), records: crate::records::RecordStatements::new(schema), schema: schema.into() }
            }

            pub(crate) fn in_schema(&self, text: &str) -> String {
                in_schema(text, &self.schema)
            }
        }
    };
}

/// Returns a text with the name of the schema inserted. The name was checked earlier and needs no quotes.
pub(crate) fn in_schema(text: &str, schema: &str) -> String {
    text.replace("$schema$", schema)
}

/// Returns the call of a function with this number of arguments.
fn call(function: &str, arguments: usize) -> String {
    let placeholders: Vec<_> = (1..=arguments).map(|at| format!("${at}")).collect();
    format!("SELECT * FROM $schema$.{function}({})", placeholders.join(", "))
}

/// Returns the call that writes the result of a decision. A function takes at most 100 arguments, so the columns of
/// each table of the mailbox are passed as one argument. The last argument is the time of the decision plus the time
/// that has passed since. In front of it come `more` arguments that the function does not take.
fn call_write(more: usize) -> String {
    let mut last = 84;
    let mut arguments: Vec<_> = (1..=last).map(|at| format!("${at}")).collect();
    for (table, columns) in [("mailbox", 9), ("dispatch", 14), ("queued", 12), ("ended", 7), ("interrupt", 5)] {
        let placeholders: Vec<_> = (last + 1..=last + columns).map(|at| format!("${at}")).collect();
        arguments.push(format!("ROW({})::$schema$.{table}_rows", placeholders.join(", ")));
        last += columns;
    }
    arguments.extend([last + 1, last + 2 + more].map(|at| format!("${at}")));
    format!("SELECT * FROM $schema$.write({})", arguments.join(", "))
}

/// The number of arguments of the function `write` without the last one, where each column of a table counts as one.
const WRITE_ARGUMENTS: usize = 84 + 9 + 14 + 12 + 7 + 5 + 1;
/// The number of arguments of the function `write_documents` after the tenant and the log.
pub(crate) const DOCUMENT_ARGUMENTS: usize = 21;

/// Returns the call that writes the result of a decision with documents or with events in topics. The documents are
/// written only if everything else was. A thread whose documents are written is locked first, as everywhere, so that it
/// is not deleted meanwhile. After the arguments of `write` come the thread, and the arguments of `write_documents`
/// after the tenant and the log.
fn call_write_with_documents() -> String {
    let thread = WRITE_ARGUMENTS + 1;
    let arguments: Vec<_> = (1..=DOCUMENT_ARGUMENTS).map(|at| format!("${}", thread + at)).collect();
    let after_lock = "write((SELECT $1::text FROM (SELECT count(*) FROM locked) l),";
    format!(
        "WITH locked AS MATERIALIZED (SELECT t.log FROM $schema$.thread t WHERE t.tenant = $1 AND t.id = ${thread} FOR SHARE), \
         written AS MATERIALIZED ({}), documents AS MATERIALIZED (SELECT $schema$.write_documents($1, \
         coalesce((SELECT w.log FROM written w WHERE w.n = 1), (SELECT l.log FROM locked l)), {}) AS revision \
         WHERE NOT EXISTS (SELECT FROM written w WHERE w.status <> 'done')) \
         SELECT * FROM written UNION ALL \
         SELECT 'documents', 0, $schema$.now(), documents.revision, NULL::bigint, NULL::text, NULL::text FROM documents",
        call_write(1 + DOCUMENT_ARGUMENTS).replace("write($1,", after_lock),
        arguments.join(", ")
    )
}

statements! {
    /// Loads what a decision about a thread needs.
    load_records: call("look", 21);
    /// Does the same, and loads states of documents, and events with their topics.
    load_records_and_documents: format!(
        "{} UNION ALL SELECT * FROM $schema$.look_documents($1, $22, $23, $24, $19)", call("look", 21));
    /// Writes the result of a decision.
    write: call_write(0);
    /// Writes the result of a decision with documents or with events in topics.
    write_with_documents: call_write_with_documents();
    /// Ends with the row with which the values have more than `$5` bytes together, but not with the first one.
    load_documents: "SELECT d.n, d.value, d.revision, d.created_at, d.updated_at FROM (
            SELECT w.n, d.*, row_number() OVER (ORDER BY w.n) AS place, coalesce(sum(octet_length(d.value)) OVER (
                ORDER BY w.n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS bytes_before
            FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY w (thread, collection, key, n)
            CROSS JOIN LATERAL (SELECT CASE WHEN w.thread IS NULL THEN 0 ELSE (SELECT t.log FROM $schema$.thread t
                WHERE t.tenant = $1 AND t.id = w.thread) END AS log) l
            CROSS JOIN LATERAL (SELECT d.* FROM $schema$.document d WHERE d.log = l.log AND d.tenant = $1
                AND d.collection = w.collection AND d.key = w.key LIMIT 1) d
        ) d WHERE d.place <= 2 OR d.bytes_before <= $5 ORDER BY d.n";
    list_documents: document_list("");
    list_documents_backward: document_list(" DESC");
    lock_family: "WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtext('agentstore.$schema$'), hashtext('family ' || $1)))
        SELECT 'held', $schema$.now() FROM held";
    notify: "SELECT pg_notify($1, text) FROM unnest($2::text[]) n (text)";
    live_open: "SELECT $schema$.live_open($1, $2, $3, $4)";
    live_heartbeat: "SELECT $schema$.live_beat($1)";
    live_receivers: "SELECT tenant, target, opened_at::text FROM $schema$.live_receiver WHERE process = $1";
    live_remove_receivers: "DELETE FROM $schema$.live_receiver r USING unnest($2::text[], $3::text[], $4::text[]) w (tenant, target, opened_at)
        WHERE r.process = $1 AND r.tenant = w.tenant AND r.target = w.target AND r.opened_at = w.opened_at::timestamptz";
    live_send: "SELECT $schema$.live_send($1, $2, $3, $4, $5, $6, $7)";
    live_take_commands: "SELECT * FROM $schema$.live_take($1)";
    live_answer: "SELECT $schema$.live_answer($1, $2, $3, $4)";
    live_read_answers: "SELECT id, answer FROM $schema$.live_letter WHERE id = ANY ($1) AND answer IS NOT NULL";
    live_remove_command: "DELETE FROM $schema$.live_letter WHERE id = $1 RETURNING answer, is_taken";
    server_time: "SELECT $schema$.now()";
    next_transaction: "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
    list_tenants: "WITH RECURSIVE name (tenant) AS (
            SELECT $schema$.next_tenant($1) UNION ALL SELECT $schema$.next_tenant(tenant) FROM name WHERE tenant IS NOT NULL
        ) SELECT tenant FROM name WHERE tenant IS NOT NULL LIMIT $2";
    load_thread: "SELECT record FROM $schema$.thread WHERE tenant = $1 AND id = $2 AND log IS NOT NULL";
    load_rows: "SELECT id, stamp, log, record, id_record FROM $schema$.thread WHERE tenant = $1 AND id = ANY ($2)";
    load_log: "SELECT log FROM $schema$.thread WHERE tenant = $1 AND id = $2 AND log IS NOT NULL";
    list_children_of_thread: "SELECT id FROM $schema$.thread WHERE tenant = $1 AND parent_id = $2 ORDER BY id";
    load_lineage: "WITH RECURSIVE line (id, parent_id) AS (
            SELECT id, parent_id FROM $schema$.thread WHERE tenant = $1 AND id = $2 AND log IS NOT NULL
            UNION ALL
            SELECT t.id, t.parent_id FROM line JOIN $schema$.thread t ON t.tenant = $1 AND t.id = line.parent_id
        ) SELECT id FROM line";
    count_threads: "SELECT count(*) FROM $schema$.thread WHERE tenant = $1 AND log IS NOT NULL";
    list_idle: "SELECT t.id, t.updated_at, t.record, (
            SELECT count(*) FROM $schema$.thread c WHERE c.tenant = t.tenant AND c.parent_id = t.id
        ) FROM $schema$.thread t WHERE t.tenant = $1 AND t.log IS NOT NULL AND t.updated_at >= 0 AND t.updated_at < $2
        AND (t.updated_at, t.id) > ($3, $4) ORDER BY t.updated_at, t.id LIMIT 256";
    forget_deleted_ids: "DELETE FROM $schema$.thread WHERE tenant = $1 AND id IN (
            SELECT id FROM $schema$.thread WHERE tenant = $1 AND deleted_at < $2 AND log IS NULL
            ORDER BY deleted_at, id LIMIT $3
        ) AND log IS NULL AND deleted_at < $2 RETURNING id";
    begin_tenant_deletion: "SELECT $schema$.drop_begin($1)";
    delete_tenant_step: "SELECT $schema$.drop_step($1)::int::bigint";
    /// Removes some objects of a tenant that is deleted.
    delete_object_step: "WITH gone AS (DELETE FROM $schema$.object WHERE id IN (
            SELECT id FROM $schema$.object WHERE tenant = $1 LIMIT 100) RETURNING id),
        chunks AS (DELETE FROM $schema$.object_chunk c USING gone WHERE c.object = gone.id)
        SELECT (count(*) > 0)::int::bigint FROM gone";
    begin_object: "INSERT INTO $schema$.object (tenant, bytes, created_at) VALUES ($1, 0, $schema$.now()) RETURNING id";
    /// Locks the row of the upload, so that it is not discarded meanwhile.
    write_object_chunk: "INSERT INTO $schema$.object_chunk (object, number, bytes)
        SELECT o.id, $2, $3 FROM (SELECT id FROM $schema$.object WHERE id = $1 AND key IS NULL FOR SHARE) o RETURNING number";
    store_object: "WITH made AS (INSERT INTO $schema$.object (tenant, key, bytes, created_at)
            VALUES ($1, $2, $3, $schema$.now()) RETURNING id),
        chunk AS (INSERT INTO $schema$.object_chunk (object, number, bytes)
            SELECT made.id, $4::bigint, $5::bytea FROM made WHERE $3 > 0)
        SELECT id FROM made";
    finish_object: "WITH made AS (UPDATE $schema$.object SET key = $2, bytes = $3, created_at = $schema$.now()
            WHERE id = $6 AND tenant = $1 AND key IS NULL RETURNING id),
        chunk AS (INSERT INTO $schema$.object_chunk (object, number, bytes)
            SELECT made.id, $4::bigint, $5::bytea FROM made WHERE octet_length($5::bytea) > 0)
        SELECT id FROM made";
    load_object: "SELECT id, bytes FROM $schema$.object WHERE tenant = $1 AND key = $2";
    load_object_chunk: "SELECT bytes FROM $schema$.object_chunk WHERE object = $1 AND number = $2";
    delete_objects: "WITH gone AS (DELETE FROM $schema$.object WHERE tenant = $1 AND key = ANY ($2) RETURNING id)
        DELETE FROM $schema$.object_chunk c USING gone WHERE c.object = gone.id";
    list_objects: "SELECT key, bytes, created_at FROM $schema$.object WHERE tenant = $1 AND key > $2 ORDER BY key LIMIT $3";
    discard_uploads: "WITH gone AS (DELETE FROM $schema$.object WHERE tenant = $1 AND key IS NULL AND created_at < $2 RETURNING id),
        chunks AS (DELETE FROM $schema$.object_chunk c USING gone WHERE c.object = gone.id)
        SELECT count(*) FROM gone";
    purge_logs: call("purge_step", 2);
    /// Loads what a decision about the mailbox needs.
    load_mailbox_records: call("look_mailbox", 16);
    /// Makes the due dispatches of all threads available.
    make_due_available: "SELECT $schema$.turn_all($1, 0, $schema$.now(), 10000)";
    load_mailboxes: "SELECT record FROM $schema$.mailbox WHERE tenant = $1 AND ($2::text IS NULL OR thread = $2)";
    load_epoch: "SELECT epoch FROM $schema$.mailbox WHERE tenant = $1 AND thread = $2";
    next_claim: call("next_claim", 6);
    list_ready_threads: "(SELECT m.ready_priority::bigint, m.ready_since, m.thread FROM $schema$.mailbox m WHERE m.tenant = $1
            AND m.ready_priority IS NOT NULL AND (m.ready_priority, m.ready_since, m.thread) > ($2::bigint, $3, $4)
            ORDER BY m.ready_priority, m.ready_since, m.thread LIMIT $6)
        UNION ALL
        (SELECT $5::bigint, m.lease_until, m.thread FROM $schema$.mailbox m WHERE m.tenant = $1
            AND m.lease_until <= (SELECT $schema$.now())
            AND (m.lease_until, m.thread) > (CASE WHEN $2 < $5 THEN -1 ELSE $3 END, CASE WHEN $2 < $5 THEN '' ELSE $4 END)
            ORDER BY m.lease_until, m.thread LIMIT $6)
        LIMIT $6";
    list_ended_before: "SELECT id FROM (
            (SELECT e.finished_at AS at, e.id FROM $schema$.ended e WHERE e.tenant = $1
                AND e.finished_at >= 0 AND e.finished_at < $2
                ORDER BY e.finished_at, e.id LIMIT $3)
            UNION ALL
            (SELECT x.at, q.id FROM $schema$.interrupt x JOIN $schema$.queued q ON q.tenant = x.tenant
                AND q.thread = x.thread AND q.epoch = x.epoch - 1
                WHERE x.tenant = $1 AND x.holds > 0 AND x.at < $2 ORDER BY x.at, q.id LIMIT $3)
        ) e ORDER BY at, id LIMIT $3";
    /// Loads what a decision about the outbox needs.
    load_outbox_records: call("look_outbox", 15);
    load_outbox: "SELECT record, payload FROM $schema$.outbox WHERE tenant = $1 AND id = $2";
    count_outbox: "SELECT status, count(*) FROM $schema$.outbox WHERE tenant = $1 AND ($2::text IS NULL OR lane = $2)
        AND ($3::text IS NULL OR target = $3) GROUP BY status";
    load_event: "SELECT coalesce(e.thread_seq, 0), coalesce(e.run_seq, 0), e.record, e.topic_seqs FROM $schema$.event e
        WHERE e.tenant = $1 AND e.id = $2
        AND $schema$.is_in_a_scope($1, e.thread, e.thread_seq, e.run, e.run_seq, e.topics, e.topic_seqs)";
    load_scope: "SELECT record FROM $schema$.scope WHERE tenant = $1 AND kind = $2 AND id = $3";
    /// Removes some of the trimmed events of a scope.
    remove_trimmed_events: "SELECT * FROM $schema$.sweep_step($1, $2, $3)";
    /// Replaces records of events, and forgets the keys of their appends.
    redact_events: "WITH w AS (SELECT w.id, w.record FROM unnest($2::text[], $3::text[]) w (id, record)),
            keyed AS MATERIALIZED (SELECT DISTINCT e.writer, e.key FROM w
                JOIN $schema$.event e ON e.tenant = $1 AND e.id = w.id AND e.key IS NOT NULL),
            forgotten AS (DELETE FROM $schema$.event_key k USING keyed
                WHERE k.tenant = $1 AND k.writer = keyed.writer AND k.key = keyed.key),
            changed AS MATERIALIZED (SELECT c.id, max(c.record) AS record FROM (SELECT w.id, w.record FROM w
                UNION ALL SELECT e.id, NULL FROM keyed
                JOIN $schema$.event e ON e.tenant = $1 AND e.writer = keyed.writer AND e.key = keyed.key) c GROUP BY c.id)
        UPDATE $schema$.event e SET record = coalesce(changed.record, e.record), writer = NULL, key = NULL
        FROM changed WHERE e.tenant = $1 AND e.id = changed.id";
    event_key: "SELECT k.record, EXISTS (SELECT FROM $schema$.event e
            WHERE e.tenant = $1 AND e.writer = $2 AND e.key = $3) FROM $schema$.event_key k
        WHERE k.tenant = $1 AND k.writer = $2 AND k.key = $3";
    forget_event_key: "DELETE FROM $schema$.event_key WHERE tenant = $1 AND writer = $2 AND key = $3
        AND NOT EXISTS (SELECT FROM $schema$.event e WHERE e.tenant = $1 AND e.writer = $2 AND e.key = $3)";
    load_run: "SELECT r.record FROM $schema$.run r WHERE r.tenant = $1 AND r.id = $2
            AND NOT EXISTS (SELECT FROM $schema$.purge p WHERE p.log = r.log)";
    load_queue: "SELECT t.record, q.rank, q.record FROM $schema$.thread t LEFT JOIN $schema$.input q ON q.log = t.log AND q.rank >= 0
        WHERE t.tenant = $1 AND t.id = $2 AND t.log IS NOT NULL ORDER BY q.rank";
    list_pending: "SELECT id FROM $schema$.thread WHERE tenant = $1 AND has_pending AND id > $2 ORDER BY id LIMIT $3";
    load_entry: "SELECT e.seq, e.body FROM $schema$.thread t JOIN $schema$.entry e ON e.log = t.log
        WHERE t.tenant = $1 AND t.id = $2 AND e.id = $3 AND e.id >= ''";
    load_entries: "SELECT e.seq, e.body FROM unnest($2::bigint[]) w (seq) CROSS JOIN LATERAL (
            SELECT e.seq, e.body FROM $schema$.entry e WHERE e.log = $1 AND e.seq = w.seq LIMIT 1) e ORDER BY e.seq";
    load_ancestors: "WITH RECURSIVE way (seq, id, node, parent, jump) AS (
            SELECT e.seq, e.id, e.node, e.parent, e.jump FROM $schema$.entry e WHERE e.log = $1 AND e.seq = $2
            UNION ALL
            SELECT n.* FROM way CROSS JOIN LATERAL (
                (SELECT e.seq, e.id, e.node, e.parent, e.jump FROM $schema$.entry e WHERE e.log = $1 AND e.seq = way.jump
                    AND e.seq > $4 AND (e.node::json->>'depth')::bigint >= $3 LIMIT 1)
                UNION ALL
                (SELECT e.seq, e.id, e.node, e.parent, e.jump FROM $schema$.entry e WHERE e.log = $1 AND e.seq = way.parent LIMIT 1)
                LIMIT 1) n WHERE way.seq > $4 AND (way.node::json->>'depth')::bigint > $3
        )
        SELECT seq, id, node FROM way
        UNION ALL
        SELECT e.seq, e.id, e.node FROM (SELECT min(seq) FROM way) w (seq) CROSS JOIN LATERAL (SELECT e.seq, e.id, e.node
            FROM $schema$.entry e WHERE e.log = $1 AND e.seq < w.seq ORDER BY e.seq DESC LIMIT 63) e";
    thread_ids: "SELECT id FROM $schema$.thread WHERE tenant = $1 AND id > $2 AND log IS NOT NULL ORDER BY id LIMIT $3";
    inspect_thread: "SELECT t.stamp, t.log, t.record, t.id_record, t.head, t.created_at, t.updated_at, t.last_time,
            t.resource_id, t.parent_id, t.has_open_runs, t.has_pending,
            t.parent_id IS NULL OR EXISTS (SELECT FROM $schema$.thread p WHERE p.tenant = $1 AND p.id = t.parent_id
                AND p.log IS NOT NULL),
            (SELECT count(*) FROM $schema$.input i WHERE i.log = t.log)
        FROM $schema$.thread t WHERE t.tenant = $1 AND t.id = $2 AND t.log IS NOT NULL";
    inspect_entries: "SELECT seq, node, body FROM $schema$.entry WHERE log = $1 AND seq > $2 ORDER BY seq LIMIT $3";
    inspect_marks: "SELECT seq, record FROM $schema$.mark WHERE log = $1";
    /// Returns the leaves of a log, except the head.
    inspect_leaves: "SELECT seq FROM $schema$.tip WHERE log = $1";
    /// Returns the names of checkpoints, each with the checkpoint and the entry that gave the name.
    inspect_names: "SELECT seq, name, giver FROM $schema$.snapshot WHERE log = $1";
    inspect_runs: "SELECT record FROM $schema$.run WHERE log = $1 AND log >= 0";
    scopes_with_wrong_event_count: "SELECT kind, id, events, wanted FROM (
            SELECT s.kind, s.id, s.count - s.floor AS wanted, CASE s.kind
                WHEN 'thread' THEN (SELECT count(*) FROM $schema$.event e WHERE e.tenant = $1 AND e.thread = s.id
                    AND e.thread_seq > s.floor)
                WHEN 'topic' THEN (SELECT count(*) FROM $schema$.event_topic t WHERE t.tenant = $1 AND t.topic = s.id
                    AND t.seq > s.floor AND EXISTS (SELECT FROM $schema$.event e WHERE e.tenant = $1 AND e.id = t.event))
                ELSE (SELECT count(*) FROM $schema$.event e WHERE e.tenant = $1 AND e.run = s.id AND e.run_seq > s.floor)
                END AS events
            FROM $schema$.scope s WHERE s.tenant = $1
        ) n WHERE events <> wanted";
    running_but_unclaimed: "SELECT m.thread, m.running FROM $schema$.mailbox m LEFT JOIN $schema$.dispatch d
            ON d.tenant = m.tenant AND d.id = m.running AND d.status = 'claimed'
        WHERE m.tenant = $1 AND m.running IS NOT NULL AND d.id IS NULL";
    rows_without_owner: "SELECT 'dispatches without a mailbox', count(*) FROM $schema$.dispatch d WHERE d.tenant = $1
            AND NOT EXISTS (SELECT FROM $schema$.mailbox m WHERE m.tenant = $1 AND m.thread = d.thread) HAVING count(*) > 0
        UNION ALL SELECT 'runs without a thread', count(*) FROM $schema$.run r WHERE r.tenant = $1
            AND NOT EXISTS (SELECT FROM $schema$.thread t WHERE t.log = r.log)
            AND NOT EXISTS (SELECT FROM $schema$.purge p WHERE p.log = r.log) HAVING count(*) > 0
        UNION ALL SELECT 'documents without a thread', count(*) FROM $schema$.document d WHERE d.tenant = $1 AND d.log > 0
            AND NOT EXISTS (SELECT FROM $schema$.thread t WHERE t.log = d.log)
            AND NOT EXISTS (SELECT FROM $schema$.purge p WHERE p.log = d.log) HAVING count(*) > 0";
    load_state: "SELECT key, value FROM $schema$.state WHERE log = $1";
    list_entries: "SELECT seq, body FROM $schema$.entry WHERE log = $1 AND seq >= $2 AND seq <= $3 ORDER BY seq LIMIT $4";
    list_entries_backward: "SELECT seq, body FROM $schema$.entry WHERE log = $1 AND seq >= $2 AND seq <= $3
        ORDER BY seq DESC LIMIT $4";
    list_children: "SELECT seq, parent IS NOT DISTINCT FROM seq FROM (
            SELECT e.seq, e.parent FROM $schema$.entry e WHERE e.log = $1 AND e.parent = $2 AND e.parent IS DISTINCT FROM e.seq - 1
            UNION ALL
            SELECT e.seq, e.parent FROM $schema$.entry e WHERE e.log = $1 AND e.seq = $2 + 1 AND e.parent = $2
        ) c WHERE seq >= $3 AND seq <= $4 ORDER BY seq LIMIT $5";
    list_children_backward: "SELECT seq, parent IS NOT DISTINCT FROM seq FROM (
            SELECT e.seq, e.parent FROM $schema$.entry e WHERE e.log = $1 AND e.parent = $2 AND e.parent IS DISTINCT FROM e.seq - 1
            UNION ALL
            SELECT e.seq, e.parent FROM $schema$.entry e WHERE e.log = $1 AND e.seq = $2 + 1 AND e.parent = $2
        ) c WHERE seq >= $3 AND seq <= $4 ORDER BY seq DESC LIMIT $5";
    list_leaves: "SELECT e.seq, e.node, e.body FROM (
            SELECT seq FROM $schema$.tip WHERE log = $1 AND seq > $2
            UNION SELECT $3 WHERE $3 > $2
        ) s JOIN $schema$.entry e ON e.log = $1 AND e.seq = s.seq ORDER BY e.seq LIMIT $4";
    list_branches: "SELECT m.seq, e.id, m.children FROM $schema$.mark m JOIN $schema$.entry e ON e.log = m.log AND e.seq = m.seq
        WHERE m.log = $1 AND m.children > 1 AND m.seq > $2 ORDER BY m.seq LIMIT $3";
    list_snapshots: "SELECT s.name, s.seq, s.giver, e.node, e.body FROM $schema$.snapshot s
        JOIN $schema$.entry e ON e.log = s.log AND e.seq = s.seq
        WHERE s.log = $1 AND (s.name, s.seq) > ($2, $3) ORDER BY s.name, s.seq LIMIT $4";
}

/// Which threads a list contains, and in which order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadList {
    /// 0 for all threads, 1 for those of a parent, 2 for those of a resource.
    pub(crate) list_index: usize,
    pub(crate) by_creation: bool,
    pub(crate) is_forward: bool,
}

/// The statements of lists, one for each condition and order.
#[derive(Debug)]
pub(crate) struct ListStatements {
    threads: Vec<Arc<str>>,
    runs: Vec<Arc<str>>,
    events: Vec<Arc<str>>,
    outbox: Vec<Arc<str>>,
    dispatches: Vec<Arc<str>>,
}

#[expect(clippy::indexing_slicing, reason = "each condition and direction has its statement")]
impl ListStatements {
    pub(crate) fn new(schema: &str) -> Self {
        let (mut threads, mut runs) = (Vec::new(), Vec::new());
        let (mut events, mut outbox, mut dispatches) = (Vec::new(), Vec::new(), Vec::new());
        for direction in [("<", " DESC"), (">", "")] {
            for condition in ["{time} >= 0 AND $2::text IS NULL", "t.parent_id = $2", "t.resource_id = $2"] {
                for time in ["t.updated_at", "t.created_at"] {
                    let condition = condition.replace("{time}", time);
                    threads.push(in_schema(&thread_list(&condition, time, direction), schema).into());
                }
            }
            for condition in [
                "r.log = (SELECT t.log FROM $schema$.thread t WHERE t.tenant = $1 AND t.id = $2) AND r.log >= 0 AND $3::text IS NULL \
                 AND $4::text[] IS NOT NULL",
                "r.parent_run = $3 AND $2::text IS NULL AND $4::text[] IS NOT NULL",
                "r.created_at >= 0 AND $2::text IS NULL AND $3::text IS NULL AND $4::text[] IS NOT NULL",
                "r.phase = ANY ($4) AND r.created_at >= 0 AND $2::text IS NULL AND $3::text IS NULL",
            ] {
                runs.push(in_schema(&run_list(condition, direction), schema).into());
            }
            for scope in ["thread", "run", "topic"] {
                events.push(in_schema(&event_list(scope, direction), schema).into());
            }
            for condition in [
                "o.created_at >= 0 AND $2::text IS NULL AND $3::text IS NULL",
                "o.lane = $2 AND o.lane >= '' AND $3::text IS NULL",
                "o.lane = $2 AND o.target = $3 AND o.target >= ''",
            ] {
                outbox.push(in_schema(&outbox_list(condition, direction), schema).into());
            }
            for list in dispatch_lists(direction) {
                dispatches.push(in_schema(&list, schema).into());
            }
        }
        Self { threads, runs, events, outbox, dispatches }
    }

    pub(crate) fn threads(&self, list: ThreadList) -> &Arc<str> {
        &self.threads[usize::from(list.is_forward) * 6 + list.list_index * 2 + usize::from(list.by_creation)]
    }

    /// Returns a statement that lists the events of a scope: 0 is for a thread, 1 for a run, 2 for a topic.
    pub(crate) fn events(&self, list_index: usize, is_forward: bool) -> &Arc<str> {
        &self.events[usize::from(is_forward) * 3 + list_index]
    }

    /// Returns a statement that lists outbox rows: 0 is for all rows, 1 for those of a lane, 2 for those of a target of
    /// a lane.
    pub(crate) fn outbox(&self, list_index: usize, is_forward: bool) -> &Arc<str> {
        &self.outbox[usize::from(is_forward) * 3 + list_index]
    }

    /// Returns a statement that lists dispatches. `list_index` is 0 to 2 for the order of creation (0 for all, 1 for
    /// those of a thread, 2 for those with certain statuses), 3 for the order of their ends, 4 for the order of claims.
    pub(crate) fn dispatches(&self, list_index: usize, is_forward: bool) -> &Arc<str> {
        &self.dispatches[usize::from(is_forward) * 5 + list_index]
    }

    /// Returns a statement that lists runs: 0 is for those of a thread, 1 for those of a parent run, 2 for all runs, 3
    /// for those with certain phases.
    pub(crate) fn runs(&self, list_index: usize, is_forward: bool) -> &Arc<str> {
        &self.runs[usize::from(is_forward) * 4 + list_index]
    }
}

/// Returns a statement that lists events. Each row contains the state of the scope. A scope without events yields one
/// row.
fn event_list(scope: &str, (comparison, order): (&str, &str)) -> String {
    let events = if scope == "topic" {
        format!(
            "SELECT p.seq, e.* FROM (SELECT t.seq, t.event FROM $schema$.event_topic t \
             WHERE t.tenant = $1 AND t.topic = $2 AND t.seq > s.floor AND t.seq {comparison} $3 \
             ORDER BY t.seq{order} LIMIT $4) p CROSS JOIN LATERAL (SELECT e.* FROM $schema$.event e \
             WHERE e.tenant = $1 AND e.id = p.event LIMIT 1) e ORDER BY p.seq{order}"
        )
    } else {
        format!(
            "SELECT e.{scope}_seq AS seq, e.* FROM $schema$.event e \
             WHERE e.tenant = $1 AND e.{scope} = $2 AND e.{scope}_seq > s.floor AND e.{scope}_seq {comparison} $3 \
             ORDER BY e.{scope}_seq{order} LIMIT $4"
        )
    };
    format!(
        "SELECT s.record, e.seq, coalesce(e.thread_seq, 0), coalesce(e.run_seq, 0), e.record, e.topic_seqs \
         FROM $schema$.scope s LEFT JOIN LATERAL ({events}) e ON true \
         WHERE s.tenant = $1 AND s.kind = '{scope}' AND s.id = $2"
    )
}

/// Returns a statement that lists the documents of a collection in a range of keys. It returns no more once the values
/// have a certain number of bytes together. `$8` says whether the first key of the range is left out.
fn document_list(order: &str) -> String {
    format!(
        "SELECT d.key, d.value, d.revision, d.created_at, d.updated_at FROM (SELECT d.*, coalesce(sum(octet_length(d.value)) \
         OVER (ORDER BY d.key{order} ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING), 0) AS bytes_before \
         FROM (SELECT d.* FROM $schema$.document d WHERE d.log = $1 AND d.tenant = $2 AND d.collection = $3 \
         AND d.key >= $4 AND d.key < $5 AND (d.key > $4 OR NOT $8) ORDER BY d.key{order} LIMIT $6) d) d \
         WHERE d.bytes_before < $7 ORDER BY d.key{order}"
    )
}

fn dispatch_lists((comparison, order): (&str, &str)) -> [String; 5] {
    let by_creation = |condition: &str| {
        format!(
            "SELECT d.created_at, 0::bigint, d.body, d.state FROM $schema$.dispatch d WHERE d.tenant = $1 \
             AND {condition} AND $3::text[] IS NOT NULL AND $5::bigint IS NOT NULL \
             AND (d.created_at, d.id) {comparison} ($4, $6) ORDER BY d.created_at{order}, d.id{order} LIMIT $7"
        )
    };
    let by_status = DispatchStatus::ALL.iter().map(|status| {
        let name = status.name();
        let from = match status {
            DispatchStatus::Queued => "(SELECT * FROM $schema$.queued WHERE created_at >= 0) s".to_owned(),
            DispatchStatus::Claimed => "(SELECT d.tenant, d.created_at, d.id FROM $schema$.mailbox m \
                                        JOIN $schema$.dispatch d ON d.tenant = m.tenant AND d.id = m.running \
                                        WHERE m.tenant = $1 AND m.lease_until IS NOT NULL) s"
                .to_owned(),
            _ => format!("(SELECT * FROM $schema$.ended WHERE status = '{name}') s"),
        };
        format!(
            "(SELECT s.created_at, s.id FROM {from} WHERE s.tenant = $1 AND '{name}' = ANY ($3) \
             AND (s.created_at, s.id) {comparison} ($4, $6) ORDER BY s.created_at{order}, s.id{order} LIMIT $7)"
        )
    });
    let by_status = by_status.collect::<Vec<_>>().join(" UNION ALL ");
    let of_dispatch = |places: &str| format!("({places}) e JOIN $schema$.dispatch d ON d.tenant = $1 AND d.id = e.id");
    [
        by_creation("d.created_at >= 0 AND $2::text IS NULL"),
        by_creation("d.thread = $2 AND d.thread >= ''"),
        format!(
            "SELECT e.created_at, 0::bigint, d.body, d.state FROM {} WHERE $2::text IS NULL AND $5::bigint IS NOT NULL \
             ORDER BY e.created_at{order}, e.id{order} LIMIT $7",
            of_dispatch(&by_status)
        ),
        format!(
            "SELECT e.at, 0::bigint, d.body, d.state FROM {} WHERE $2::text IS NULL AND $3::text[] IS NOT NULL \
             AND $5::bigint IS NOT NULL AND (e.at, e.id) {comparison} ($4, $6) ORDER BY e.at{order}, e.id{order} LIMIT $7",
            of_dispatch(
                "SELECT e.finished_at AS at, e.id FROM $schema$.ended e WHERE e.tenant = $1 AND e.finished_at >= 0 UNION ALL \
                 SELECT x.at, q.id FROM $schema$.interrupt x JOIN $schema$.queued q ON q.tenant = x.tenant \
                 AND q.thread = x.thread AND q.epoch = x.epoch - 1 WHERE x.tenant = $1 AND x.holds > 0"
            )
        ),
        format!(
            "SELECT e.priority::bigint, e.number, d.body, d.state FROM {} ORDER BY e.priority{order}, e.number{order} LIMIT $7",
            of_dispatch(&[true, false].map(|is_available| format!(
                "(SELECT q.priority, q.number, q.id FROM $schema$.mailbox m JOIN $schema$.queued q \
                 ON q.tenant = m.tenant AND q.thread = m.thread AND q.epoch = m.epoch AND q.is_available = {is_available} \
                 WHERE m.tenant = $1 AND m.thread = $2 AND $3::text[] IS NOT NULL AND $6::text IS NOT NULL \
                 AND (q.priority, q.number) {comparison} ($4, $5) ORDER BY q.priority{order}, q.number{order} LIMIT $7)"
            )).join(" UNION ALL "))
        ),
    ]
}

fn outbox_list(condition: &str, (comparison, order): (&str, &str)) -> String {
    format!(
        "SELECT o.record, o.payload FROM $schema$.outbox o WHERE o.tenant = $1 AND {condition} \
         AND ($4::text[] IS NULL OR o.status = ANY ($4)) AND (o.created_at, o.id) {comparison} ($5, $6) \
         ORDER BY o.created_at{order}, o.id{order} LIMIT $7"
    )
}

fn thread_list(condition: &str, time: &str, (comparison, order): (&str, &str)) -> String {
    format!(
        "SELECT t.stamp, t.record FROM $schema$.thread t WHERE t.tenant = $1 AND t.log IS NOT NULL AND {condition} \
         AND {time} >= $3 AND {time} < $4 AND ({time}, t.id) {comparison} ($5, $6) ORDER BY {time}{order}, t.id{order} LIMIT $7"
    )
}

fn run_list(condition: &str, (comparison, order): (&str, &str)) -> String {
    format!(
        "SELECT r.record FROM $schema$.run r WHERE r.tenant = $1 AND {condition} \
         AND NOT EXISTS (SELECT FROM $schema$.purge p WHERE p.log = r.log) AND r.created_at >= $5 AND r.created_at < $6 AND (r.created_at, r.id) {comparison} ($7, $8) \
         ORDER BY r.created_at{order}, r.id{order} LIMIT $9"
    )
}

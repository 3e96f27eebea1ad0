//! The statements of dumps and restores.

use std::sync::Arc;

use store_core::records::RecordList;

use crate::sql::in_schema;

/// The statements, with the name of the schema inserted.
#[derive(Debug)]
pub(crate) struct RecordStatements {
    dumps: Vec<Arc<str>>,
    restores: Vec<Arc<str>>,
    /// Keeps writers away from a tenant, except writes to threads that exist.
    pub(crate) lock_tenant: Arc<str>,
    /// Keeps writers away from the next threads of a tenant.
    pub(crate) lock_threads: Arc<str>,
    /// Whether the tenant may be written to. Its deletion waits until this transaction ends.
    pub(crate) begin_restore: Arc<str>,
    /// The logs and heads of threads.
    pub(crate) load_logs: Arc<str>,
}

/// What a restore writes. Each has one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restored {
    Numbers,
    Threads,
    Entries,
    Marks,
    Leaves,
    /// Names that a checkpoint had before.
    RemovedNames,
    Names,
    Runs,
    State,
    Inputs,
    Decisions,
    CommitKeys,
    Documents,
    RemovedDocuments,
    DocumentRevision,
    Scopes,
    Events,
    EventTopics,
    EventKeys,
    KeyedEvents,
    Outbox,
    /// Which row of each group may be claimed.
    OutboxReady,
    Mailboxes,
    Interrupts,
    Dispatches,
    RemovedQueued,
    Queued,
    Ended,
    Turned,
}

impl RecordStatements {
    pub(crate) fn new(schema: &str) -> Self {
        let text = |text: &str| Arc::<str>::from(in_schema(text, schema));
        Self {
            dumps: RecordList::ALL.iter().map(|list| text(&dump(*list))).collect(),
            restores: RESTORES.iter().map(|(_, statement)| text(statement)).collect(),
            lock_tenant: text(
                "SELECT pg_advisory_xact_lock(hashtext('agentstore.$schema$'), hashtext('tenant ' || $1))::text",
            ),
            lock_threads: text(
                "SELECT t.id FROM $schema$.thread t WHERE t.tenant = $1 AND t.id > $2 ORDER BY t.id LIMIT 5000 FOR UPDATE",
            ),
            begin_restore: text("SELECT $schema$.can_write($1, $schema$.now())"),
            load_logs: text(
                "SELECT t.id, t.log, t.head FROM $schema$.thread t WHERE t.tenant = $1 AND t.id = ANY ($2)",
            ),
        }
    }

    /// The statement that returns the next records of a list. Its arguments: the tenant, a number of bytes after which
    /// it returns no more, a number of records, and the parts of the key after which it begins.
    #[expect(clippy::indexing_slicing, reason = "each list has its statement")]
    pub(crate) fn dump(&self, list: RecordList) -> &Arc<str> {
        &self.dumps[list as usize]
    }

    #[expect(clippy::indexing_slicing, reason = "each place has its statement, as a test checks")]
    pub(crate) fn restore(&self, what: Restored) -> &Arc<str> {
        &self.restores[what as usize]
    }
}

/// Returns the statement of a list. `rows` returns the columns `a` to `d`, which are text, `name`, which is bytes, and
/// `bytes`, in the order of the list.
fn dump(list: RecordList) -> String {
    let rows = match list {
        RecordList::Numbers => {
            return "SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END::text, coalesce(c.first, 0)::text, NULL::text, \
                    NULL::text, NULL::bytea FROM $schema$.document_revision s \
                    LEFT JOIN $schema$.claims c ON c.tenant = $1 WHERE $2::bigint > 0 AND $3::bigint > 0"
                .to_owned();
        }
        RecordList::Threads => {
            "SELECT t.id AS a, CASE WHEN t.log IS NOT NULL THEN t.record END AS b, t.id_record AS c, NULL::text AS d, \
             NULL::bytea AS name, coalesce(octet_length(t.record), 0) + 256 AS bytes FROM $schema$.thread t \
             WHERE t.tenant = $1 AND t.id > $4 ORDER BY t.id"
                .to_owned()
        }
        RecordList::Entries => of_threads(
            "t.id AS a, x.node AS b, x.body AS c, x.marks AS d, NULL::bytea AS name, x.bytes",
            "e.node, e.body, octet_length(e.body) AS bytes, coalesce((SELECT m.record FROM $schema$.mark m \
             WHERE m.log = e.log AND m.seq = e.seq), (SELECT '' FROM $schema$.entry n WHERE n.log = e.log \
             AND n.seq = e.seq + 1 AND n.parent = e.seq AND NOT n.side)) AS marks",
            "entry e",
            ("e.log", "e.seq > $5", "e.seq"),
        ),
        RecordList::State => of_threads(
            "t.id AS a, x.value AS b, NULL::text AS c, NULL::text AS d, x.key AS name, octet_length(x.value) AS bytes",
            "s.key, s.value",
            "state s",
            ("s.log", "s.key > $5", "s.key"),
        ),
        RecordList::Inputs => of_threads(
            "t.id AS a, x.record AS b, x.rank::text AS c, NULL::text AS d, NULL::bytea AS name, octet_length(x.record) AS bytes",
            "q.record, q.rank",
            "input q",
            ("q.log", "q.rank >= 0 AND q.rank > $5", "q.rank"),
        ),
        RecordList::Decisions => of_threads(
            "t.id AS a, x.run AS b, x.record AS c, NULL::text AS d, x.ticket AS name, 256 AS bytes",
            "d.run, d.ticket, d.record",
            "decision d",
            ("d.log", "(d.run, d.ticket) > ($5, $6)", "d.run, d.ticket"),
        ),
        RecordList::CommitKeys => of_threads(
            "t.id AS a, x.record AS b, NULL::text AS c, NULL::text AS d, NULL::bytea AS name, octet_length(x.record) AS bytes",
            "k.key, k.record",
            "commit_key k",
            ("k.log", "k.key > $5", "k.key"),
        ),
        RecordList::ThreadDocuments => of_threads(
            "t.id AS a, x.collection AS b, x.key AS c, x.value AS d, \
             convert_to(x.revision || ' ' || x.created_at || ' ' || x.updated_at, 'UTF8') AS name, \
             octet_length(x.value) AS bytes",
            "d.*",
            "document d",
            ("d.tenant = $1 AND d.revision > 0 AND d.log", "(d.collection, d.key) > ($5, $6)", "d.collection, d.key"),
        ),
        list => of_tenant(list).to_owned(),
    };
    format!(
        "SELECT q.a, q.b, q.c, q.d, q.name FROM (SELECT p.*, sum(p.bytes) OVER (ORDER BY p.n) - p.bytes AS before \
         FROM (SELECT r.*, row_number() OVER () AS n FROM ({rows} LIMIT $3) r) p) q WHERE q.before < $2 ORDER BY q.n"
    )
}

/// Returns the rows of a table of logs: those of the thread `$4` after a key, and those of later threads. Each of the
/// two parts is read in the order of its indexes and ends with the limit.
fn of_threads(columns: &str, of_row: &str, table: &str, (log, after, order): (&str, &str, &str)) -> String {
    let rows = |condition: &str| {
        format!(
            "CROSS JOIN LATERAL (SELECT {of_row} FROM $schema$.{table} WHERE {log} = t.log AND {condition} \
             ORDER BY {order} LIMIT $3) x"
        )
    };
    format!(
        "(SELECT {columns} FROM (SELECT t.id, t.log FROM $schema$.thread t WHERE t.tenant = $1 AND t.id = $4 \
         AND t.log IS NOT NULL LIMIT 1) t {}) UNION ALL \
         (SELECT {columns} FROM (SELECT t.id, t.log FROM $schema$.thread t WHERE t.tenant = $1 AND t.id > $4 \
         AND t.log IS NOT NULL ORDER BY t.id) t {})",
        rows(after),
        rows("true")
    )
}

const fn of_tenant(list: RecordList) -> &'static str {
    match list {
        RecordList::Runs => {
            "SELECT r.record AS a, NULL::text AS b, NULL::text AS c, NULL::text AS d, NULL::bytea AS name, \
             octet_length(r.record) AS bytes FROM $schema$.run r WHERE r.tenant = $1 AND r.id > $4 \
             AND NOT EXISTS (SELECT FROM $schema$.purge p WHERE p.log = r.log) ORDER BY r.id"
        }
        RecordList::Documents => {
            "SELECT NULL::text AS a, d.collection AS b, d.key AS c, d.value AS d, \
             convert_to(d.revision || ' ' || d.created_at || ' ' || d.updated_at, 'UTF8') AS name, \
             octet_length(d.value) AS bytes FROM $schema$.document d WHERE d.log = 0 AND d.tenant = $1 \
             AND d.revision > 0 AND (d.collection, d.key) > ($4, $5) ORDER BY d.collection, d.key"
        }
        RecordList::Scopes => {
            "SELECT s.kind AS a, s.id AS b, s.record AS c, NULL::text AS d, NULL::bytea AS name, 128 AS bytes \
             FROM $schema$.scope s WHERE s.tenant = $1 AND (s.kind, s.id) > ($4, $5) ORDER BY s.kind, s.id"
        }
        RecordList::Events => {
            "SELECT e.record AS a, e.thread_seq::text AS b, e.run_seq::text AS c, array_to_string(e.topic_seqs, ' ') AS d, \
             NULL::bytea AS name, octet_length(e.record) AS bytes FROM $schema$.event e WHERE e.tenant = $1 AND e.id > $4 \
             AND $schema$.is_in_a_scope($1, e.thread, e.thread_seq, e.run, e.run_seq, e.topics, e.topic_seqs) \
             ORDER BY e.id"
        }
        RecordList::EventKeys => {
            "SELECT k.writer AS a, k.key AS b, k.record AS c, NULL::text AS d, NULL::bytea AS name, 256 AS bytes \
             FROM $schema$.event_key k WHERE k.tenant = $1 AND (k.writer, k.key) > ($4, $5) ORDER BY k.writer, k.key"
        }
        RecordList::Outbox => {
            "SELECT o.record AS a, o.payload AS b, NULL::text AS c, NULL::text AS d, NULL::bytea AS name, \
             octet_length(o.payload) AS bytes FROM $schema$.outbox o WHERE o.tenant = $1 AND o.id > $4 ORDER BY o.id"
        }
        RecordList::Mailboxes => {
            "SELECT m.thread AS a, m.record AS b, NULL::text AS c, NULL::text AS d, NULL::bytea AS name, 512 AS bytes \
             FROM $schema$.mailbox m WHERE m.tenant = $1 AND m.thread > $4 ORDER BY m.thread"
        }
        RecordList::Interrupts => {
            "SELECT x.thread AS a, x.record AS b, NULL::text AS c, NULL::text AS d, NULL::bytea AS name, 512 AS bytes \
             FROM $schema$.interrupt x WHERE x.tenant = $1 AND (x.thread, x.epoch) > ($4, $5) ORDER BY x.thread, x.epoch"
        }
        _ => {
            "SELECT d.body AS a, d.state AS b, NULL::text AS c, NULL::text AS d, NULL::bytea AS name, \
             octet_length(d.body) AS bytes FROM $schema$.dispatch d WHERE d.tenant = $1 AND d.id > $4 ORDER BY d.id"
        }
    }
}

/// The statements of a restore, in the order of [`Restored`]. The first argument is the tenant. The others are columns.
const RESTORES: [(Restored, &str); 29] = [
    (
        Restored::Numbers,
        "INSERT INTO $schema$.claims AS c SELECT $1, $2 WHERE $2 > 0 \
         ON CONFLICT (tenant) DO UPDATE SET first = greatest(c.first, excluded.first)",
    ),
    (
        Restored::Threads,
        "INSERT INTO $schema$.thread AS t SELECT $1, w.id, pg_current_xact_id()::text::bigint, \
         CASE WHEN w.record IS NOT NULL THEN nextval('$schema$.log') END, w.head, w.created_at, w.updated_at, w.last_time, \
         w.resource_id, w.parent_id, w.has_open_runs, w.has_pending, w.deleted_at, w.record, w.id_record \
         FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::text[], \
         $9::boolean[], $10::boolean[], $11::bigint[], $12::text[], $13::text[]) w (id, head, created_at, updated_at, \
         last_time, resource_id, parent_id, has_open_runs, has_pending, deleted_at, record, id_record) \
         ON CONFLICT (tenant, id) DO UPDATE SET stamp = excluded.stamp, \
         log = CASE WHEN excluded.record IS NOT NULL THEN coalesce(t.log, excluded.log) END, head = excluded.head, \
         created_at = excluded.created_at, updated_at = excluded.updated_at, last_time = excluded.last_time, \
         resource_id = excluded.resource_id, parent_id = excluded.parent_id, has_open_runs = excluded.has_open_runs, \
         has_pending = excluded.has_pending, deleted_at = excluded.deleted_at, record = excluded.record, \
         id_record = excluded.id_record",
    ),
    (
        Restored::Entries,
        "INSERT INTO $schema$.entry SELECT w.* FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::bigint[], \
         $6::bigint[], $7::boolean[], $8::text[], $9::text[]) w WHERE $1::text IS NOT NULL ON CONFLICT (log, seq) DO NOTHING",
    ),
    (
        Restored::Marks,
        "INSERT INTO $schema$.mark SELECT w.* FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[]) w \
         WHERE $1::text IS NOT NULL \
         ON CONFLICT (log, seq) DO UPDATE SET children = excluded.children, record = excluded.record",
    ),
    (
        Restored::Leaves,
        "INSERT INTO $schema$.tip SELECT w.* FROM unnest($2::bigint[], $3::bigint[]) w WHERE $1::text IS NOT NULL \
         ON CONFLICT DO NOTHING",
    ),
    (
        Restored::RemovedNames,
        "DELETE FROM $schema$.snapshot s USING unnest($2::bigint[], $3::bigint[]) w (log, seq) \
         WHERE $1::text IS NOT NULL AND s.log = w.log AND s.seq = w.seq",
    ),
    (
        Restored::Names,
        "INSERT INTO $schema$.snapshot SELECT w.log, w.name, w.seq, w.giver \
         FROM unnest($2::bigint[], $3::bytea[], $4::bigint[], $5::bigint[]) w (log, name, seq, giver) \
         CROSS JOIN LATERAL (SELECT e.node FROM $schema$.entry e WHERE e.log = w.log AND e.seq = w.seq LIMIT 1) e \
         WHERE $1::text IS NOT NULL AND e.node::json ->> 'checkpoint' = w.seq::text ON CONFLICT DO NOTHING",
    ),
    (
        Restored::Runs,
        "INSERT INTO $schema$.run SELECT $1, w.* FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::text[], \
         $6::text[], $7::text[], $8::text[]) w ON CONFLICT (tenant, id) DO UPDATE SET log = excluded.log, \
         created_at = excluded.created_at, phase = excluded.phase, agent = excluded.agent, \
         parent_run = excluded.parent_run, record = excluded.record",
    ),
    (
        Restored::State,
        "INSERT INTO $schema$.state SELECT w.* FROM unnest($2::bigint[], $3::bytea[], $4::text[]) w \
         WHERE $1::text IS NOT NULL ON CONFLICT (log, key) DO UPDATE SET value = excluded.value",
    ),
    (
        Restored::Inputs,
        "INSERT INTO $schema$.input SELECT w.* FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::text[]) w \
         WHERE $1::text IS NOT NULL ON CONFLICT (log, id) DO UPDATE SET rank = excluded.rank, record = excluded.record",
    ),
    (
        Restored::Decisions,
        "INSERT INTO $schema$.decision SELECT w.* FROM unnest($2::bigint[], $3::text[], $4::bytea[], $5::text[]) w \
         WHERE $1::text IS NOT NULL ON CONFLICT (log, run, ticket) DO UPDATE SET record = excluded.record",
    ),
    (
        Restored::CommitKeys,
        "INSERT INTO $schema$.commit_key SELECT w.* FROM unnest($2::bigint[], $3::text[], $4::text[]) w \
         WHERE $1::text IS NOT NULL ON CONFLICT (log, key) DO UPDATE SET record = excluded.record",
    ),
    (
        Restored::Documents,
        "INSERT INTO $schema$.document SELECT w.log, $1, w.collection, w.key, w.revision, w.created_at, w.updated_at, \
         w.value FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[]) \
         w (log, collection, key, revision, created_at, updated_at, value) \
         ON CONFLICT (log, tenant, collection, key) DO UPDATE SET revision = excluded.revision, \
         created_at = excluded.created_at, updated_at = excluded.updated_at, value = excluded.value",
    ),
    (
        Restored::RemovedDocuments,
        "DELETE FROM $schema$.document d USING unnest($2::bigint[], $3::text[], $4::text[]) w (log, collection, key) \
         WHERE d.log = w.log AND d.tenant = $1 AND d.collection = w.collection AND d.key = w.key",
    ),
    (
        Restored::DocumentRevision,
        "SELECT setval('$schema$.document_revision', $2) WHERE $1::text IS NOT NULL \
         AND $2 > coalesce(pg_sequence_last_value('$schema$.document_revision'::regclass), 0)",
    ),
    (
        Restored::Scopes,
        "INSERT INTO $schema$.scope (tenant, kind, id, count, floor, swept, record) \
         SELECT $1, w.kind, w.id, w.count, w.floor, w.floor, w.record \
         FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[]) w (kind, id, count, floor, record) \
         ON CONFLICT (tenant, kind, id) DO UPDATE SET count = excluded.count, floor = excluded.floor, \
         swept = excluded.swept, record = excluded.record",
    ),
    (
        Restored::Events,
        "INSERT INTO $schema$.event (tenant, id, thread, thread_seq, run, run_seq, record, topics, topic_seqs) \
         SELECT $1, w.id, w.thread, w.thread_seq, w.run, w.run_seq, w.record, string_to_array(w.topics, E'\\x01'), \
         string_to_array(w.seqs, ' ')::bigint[] \
         FROM unnest($2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::text[]) \
         w (id, thread, thread_seq, run, run_seq, record, topics, seqs) \
         ON CONFLICT (tenant, id) DO UPDATE SET record = excluded.record",
    ),
    (
        Restored::EventTopics,
        "INSERT INTO $schema$.event_topic SELECT $1, w.* FROM unnest($2::text[], $3::bigint[], $4::text[]) w \
         ON CONFLICT (tenant, topic, seq) DO NOTHING",
    ),
    (
        Restored::EventKeys,
        "INSERT INTO $schema$.event_key SELECT $1, w.* FROM unnest($2::text[], $3::text[], $4::text[]) w \
         ON CONFLICT (tenant, writer, key) DO UPDATE SET record = excluded.record",
    ),
    (
        Restored::KeyedEvents,
        "UPDATE $schema$.event e SET writer = w.writer, key = w.key \
         FROM unnest($2::text[], $3::text[], $4::text[]) w (writer, key, event) WHERE e.tenant = $1 AND e.id = w.event",
    ),
    (
        Restored::Outbox,
        "INSERT INTO $schema$.outbox SELECT $1, w.* FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], \
         $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::text[], $11::text[], $12::bigint[], $13::boolean[], \
         $14::bigint[], $15::text[], $16::text[]) w ON CONFLICT (tenant, id) DO UPDATE SET status = excluded.status, \
         available_at = excluded.available_at, lease_until = excluded.lease_until, finished_at = excluded.finished_at, \
         is_ready = excluded.is_ready, revision = excluded.revision, record = excluded.record, payload = excluded.payload",
    ),
    (
        Restored::OutboxReady,
        "UPDATE $schema$.outbox o SET is_ready = o.status = 'pending' \
         AND NOT EXISTS (SELECT FROM $schema$.outbox c WHERE c.tenant = $1 AND c.lane = o.lane AND c.target = o.target \
             AND c.order_key = o.order_key AND c.lease_until IS NOT NULL) \
         AND NOT EXISTS (SELECT FROM $schema$.outbox c WHERE c.tenant = $1 AND c.lane = o.lane AND c.target = o.target \
             AND c.order_key = o.order_key AND c.order_number < o.order_number AND c.finished_at IS NULL) \
         FROM (SELECT DISTINCT * FROM unnest($2::text[], $3::text[], $4::text[]) g (lane, target, key)) w \
         WHERE o.tenant = $1 AND o.lane = w.lane AND o.target = w.target AND o.order_key = w.key",
    ),
    (
        Restored::Mailboxes,
        "INSERT INTO $schema$.mailbox (tenant, thread, revision, epoch, free_since, running, lease_until, record) \
         SELECT $1, w.* FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], \
         $8::text[]) w ON CONFLICT (tenant, thread) DO UPDATE SET revision = excluded.revision, epoch = excluded.epoch, \
         free_since = excluded.free_since, running = excluded.running, lease_until = excluded.lease_until, \
         record = excluded.record",
    ),
    (
        Restored::Interrupts,
        "INSERT INTO $schema$.interrupt SELECT $1, w.* FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[], \
         $6::text[]) w ON CONFLICT (tenant, thread, epoch) DO UPDATE SET at = excluded.at, holds = excluded.holds, \
         record = excluded.record",
    ),
    (
        Restored::Dispatches,
        "INSERT INTO $schema$.dispatch SELECT $1, w.* FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], \
         $6::text[], $7::text[], $8::bigint[], $9::text[], $10::text[]) w ON CONFLICT (tenant, id) DO UPDATE SET \
         status = excluded.status, epoch = excluded.epoch, body = excluded.body, state = excluded.state",
    ),
    (
        Restored::RemovedQueued,
        "DELETE FROM $schema$.queued q USING unnest($2::text[], $3::bigint[], $4::smallint[], $5::bigint[]) \
         w (thread, epoch, priority, number) WHERE q.tenant = $1 AND q.thread = w.thread AND q.epoch = w.epoch \
         AND q.priority = w.priority AND q.number = w.number",
    ),
    (
        Restored::Queued,
        "INSERT INTO $schema$.queued SELECT $1, w.thread, w.epoch, false, w.priority, w.number, w.due, w.created_at, w.id \
         FROM unnest($2::text[], $3::bigint[], $4::smallint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[]) \
         w (thread, epoch, priority, number, due, created_at, id) ON CONFLICT DO NOTHING",
    ),
    (
        Restored::Ended,
        "INSERT INTO $schema$.ended SELECT $1, w.* FROM unnest($2::text[], $3::bigint[], $4::text[], $5::bigint[]) w \
         ON CONFLICT DO NOTHING",
    ),
    (Restored::Turned, "SELECT $schema$.turn($1, $2, $schema$.now())::text"),
];

#[cfg(test)]
mod tests {
    use super::RESTORES;

    #[test]
    fn each_statement_has_the_place_of_its_name() {
        for (place, (what, _)) in RESTORES.iter().enumerate() {
            assert_eq!(*what as usize, place, "{what:?}");
        }
    }
}

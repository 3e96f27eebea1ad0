//! All SQL statements. Each statement on which a decision depends looks up its rows by a key or names its index. If
//! SQLite cannot use that index, it refuses the statement and does not choose a plan that scans a backlog.

use store_core::Direction;

pub(crate) const BEGIN_WRITE: &str = "BEGIN IMMEDIATE";
pub(crate) const BEGIN_READ: &str = "BEGIN";
pub(crate) const COMMIT: &str = "COMMIT";
pub(crate) const ROLLBACK: &str = "ROLLBACK";
/// Returns a number that changes with each commit of another connection.
pub(crate) const DATA_VERSION: &str = "PRAGMA data_version";

/// Makes SQLite write and sync a transaction that changes nothing else. The number has no other use.
pub(crate) const FORCE_SYNC: &str = "UPDATE meta SET syncs = syncs + 1 WHERE one = 1";
pub(crate) const CURSOR_KEY: &str = "SELECT cursors FROM meta WHERE one = 1";
pub(crate) const NEXT_INCARNATION: &str = "SELECT last_incarnation + 1 FROM meta WHERE one = 1";
pub(crate) const SET_INCARNATION: &str = "UPDATE meta SET last_incarnation = ?1 WHERE one = 1";

pub(crate) const TENANT_BY_NAME: &str = "SELECT no, incarnation FROM tenants WHERE name = ?1";
pub(crate) const TENANT_BY_NUMBER: &str = "SELECT no, incarnation FROM tenants WHERE no = ?1 AND name IS NOT NULL";
pub(crate) const ADD_TENANT: &str = "INSERT INTO tenants (name, incarnation) VALUES (?1, ?2)";
pub(crate) const LIST_TENANTS: &str = "SELECT name FROM tenants WHERE name > ?1 ORDER BY name LIMIT ?2";
pub(crate) const REMOVE_TENANT_NAME: &str = "UPDATE tenants SET name = NULL WHERE name = ?1";
/// A deletion first removes the name of the tenant, then its rows.
pub(crate) const TENANT_BEING_DELETED: &str = "SELECT no FROM tenants WHERE name IS NULL LIMIT 1";
pub(crate) const REMOVE_SOME_DISPATCHES: &str = "DELETE FROM dispatches WHERE (tenant, id) IN
    (SELECT tenant, id FROM dispatches WHERE tenant = ?1 ORDER BY id LIMIT ?2) RETURNING payload";
pub(crate) const REMOVE_SOME_INTERRUPTS: &str = "DELETE FROM interrupts WHERE mailbox IN
    (SELECT no FROM mailboxes INDEXED BY mailbox_of_thread WHERE tenant = ?1 ORDER BY thread LIMIT ?2)";
pub(crate) const REMOVE_SOME_MAILBOXES: &str = "DELETE FROM mailboxes WHERE no IN
    (SELECT no FROM mailboxes INDEXED BY mailbox_of_thread WHERE tenant = ?1 ORDER BY thread LIMIT ?2)";
pub(crate) const REMOVE_TENANT: &str = "DELETE FROM tenants WHERE no = ?1";

pub(crate) const MAILBOX: &str = "SELECT no, record, crc, priority, since, due, lease
    FROM mailboxes INDEXED BY mailbox_of_thread
    WHERE tenant = ?1 AND thread = ?2";
pub(crate) const ADD_MAILBOX: &str = "INSERT INTO mailboxes (tenant, thread, record, crc, priority, since, due, lease)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
pub(crate) const SET_MAILBOX: &str =
    "UPDATE mailboxes SET record = ?2, crc = ?3, priority = ?4, since = ?5, due = ?6, lease = ?7 WHERE no = ?1";
// An update visits each index of a column that it names, even if the value stays the same. So there is one statement
// for each usual kind of change.
pub(crate) const SET_RECORD: &str = "UPDATE mailboxes SET record = ?2, crc = ?3 WHERE no = ?1";
pub(crate) const SET_LEASE: &str = "UPDATE mailboxes SET record = ?2, crc = ?3, lease = ?4 WHERE no = ?1";
pub(crate) const SET_READY_LEASE: &str =
    "UPDATE mailboxes SET record = ?2, crc = ?3, priority = ?4, since = ?5, lease = ?6 WHERE no = ?1";
pub(crate) const SET_POSITIONS: &str =
    "UPDATE mailboxes SET priority = ?2, since = ?3, due = ?4, lease = ?5 WHERE no = ?1";
pub(crate) const MAILBOX_RECORDS: &str = "SELECT record, crc, thread, no FROM mailboxes INDEXED BY mailbox_of_thread
    WHERE tenant = ?1 AND thread > ?2 ORDER BY thread LIMIT 1000";

pub(crate) const DISPATCH: &str = "SELECT body, body_crc, state, state_crc, payload FROM dispatches
    WHERE tenant = ?1 AND id = ?2";
pub(crate) const ADD_DISPATCH: &str = "INSERT INTO dispatches (tenant, id, mailbox, created, status, epoch, available,
    priority, number, due, ended, key, payload, body, body_crc, state, state_crc)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
pub(crate) const SET_DISPATCH: &str = "UPDATE dispatches SET status = ?3, epoch = ?4, available = ?5, due = ?6,
    ended = ?7, key = ?8, state = ?9, state_crc = ?10 WHERE tenant = ?1 AND id = ?2";
pub(crate) const SET_STATE: &str = "UPDATE dispatches SET state = ?3, state_crc = ?4 WHERE tenant = ?1 AND id = ?2";
pub(crate) const SET_CLAIMED: &str = "UPDATE dispatches SET status = 1, available = NULL, due = NULL, state = ?3,
    state_crc = ?4 WHERE tenant = ?1 AND id = ?2";
pub(crate) const SET_ENDED: &str = "UPDATE dispatches SET status = ?3, ended = ?4, state = ?5, state_crc = ?6
    WHERE tenant = ?1 AND id = ?2";
pub(crate) const REMOVE_DISPATCH: &str = "DELETE FROM dispatches WHERE tenant = ?1 AND id = ?2 RETURNING payload";
pub(crate) const PAYLOAD: &str = "SELECT payload, crc FROM payloads WHERE no = ?1";
pub(crate) const ADD_PAYLOAD: &str = "INSERT INTO payloads (payload, crc) VALUES (?1, ?2)";
pub(crate) const REMOVE_PAYLOAD: &str = "DELETE FROM payloads WHERE no = ?1";

pub(crate) const FREE_KEY: &str = "UPDATE dispatches INDEXED BY live_keys SET key = NULL
    WHERE mailbox = ?1 AND key = ?2 AND id <> ?3";
pub(crate) const LAST_WITH_KEY: &str = "SELECT id FROM dispatches INDEXED BY live_keys WHERE mailbox = ?1 AND key = ?2";

pub(crate) const FIRST_AVAILABLE: &str =
    "SELECT body, body_crc, state, state_crc, payload, id FROM dispatches INDEXED BY queue
    WHERE mailbox = ?1 AND epoch = ?2 AND available = 1 AND due <= ?3 ORDER BY priority, number LIMIT 1";
pub(crate) const QUEUE_SUMMARY: &str = "SELECT
    (SELECT priority FROM dispatches INDEXED BY queue
        WHERE mailbox = ?1 AND epoch = ?2 AND available = 1 ORDER BY priority, number LIMIT 1),
    (SELECT due FROM dispatches INDEXED BY queue_due
        WHERE mailbox = ?1 AND epoch = ?2 AND available = 1 ORDER BY due LIMIT 1),
    (SELECT due FROM dispatches INDEXED BY queue_due
        WHERE mailbox = ?1 AND epoch = ?2 AND available = 0 ORDER BY due LIMIT 1)";
pub(crate) const PROMOTE_DUE: &str = "UPDATE dispatches INDEXED BY queue_due SET available = 1
    WHERE mailbox = ?1 AND epoch = ?2 AND available = 0 AND due <= ?3";
pub(crate) const DEMOTE_NOT_DUE: &str = "UPDATE dispatches INDEXED BY queue_due SET available = 0
    WHERE mailbox = ?1 AND epoch = ?2 AND available = 1 AND due > ?3";

pub(crate) const INTERRUPT: &str = "SELECT record, crc FROM interrupts WHERE mailbox = ?1 AND epoch = ?2";
/// Writes an interrupt. `lot` is the epoch of the dispatches that it superseded, or NULL if there were none.
pub(crate) const SET_INTERRUPT: &str =
    "INSERT OR REPLACE INTO interrupts (mailbox, epoch, tenant, at, lot, record, crc)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
pub(crate) const REMOVE_INTERRUPT: &str = "DELETE FROM interrupts WHERE mailbox = ?1 AND epoch = ?2";

pub(crate) const READY_THREADS: &str = "SELECT priority, since, thread FROM mailboxes INDEXED BY ready
    WHERE tenant = ?1 AND priority IS NOT NULL AND (priority, since, thread) > (?2, ?3, ?4)
    ORDER BY priority, since, thread LIMIT ?5";
pub(crate) const DUE_THREADS: &str = "SELECT thread FROM mailboxes INDEXED BY due
    WHERE tenant = ?1 AND due IS NOT NULL AND due <= ?2 ORDER BY due, thread LIMIT ?3";
pub(crate) const EXPIRED_LEASES: &str = "SELECT lease, thread FROM mailboxes INDEXED BY leases
    WHERE tenant = ?1 AND lease IS NOT NULL AND lease <= ?2 AND (lease, thread) > (?3, ?4)
    ORDER BY lease, thread LIMIT ?5";
pub(crate) const NEXT_CLAIM_TIMES: &str = "SELECT
    (SELECT since FROM mailboxes INDEXED BY ready
        WHERE tenant = ?1 AND priority IS NOT NULL ORDER BY priority, since LIMIT 1),
    (SELECT due FROM mailboxes INDEXED BY due WHERE tenant = ?1 AND due IS NOT NULL ORDER BY due LIMIT 1),
    (SELECT lease FROM mailboxes INDEXED BY leases WHERE tenant = ?1 AND lease IS NOT NULL ORDER BY lease LIMIT 1)";

/// The next dispatches of a dump.
pub(crate) const DUMP_DISPATCHES: &str = "SELECT body, body_crc, state, state_crc, payload, id FROM dispatches
    WHERE tenant = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
/// The next interrupts of a dump, in the order of threads and epochs.
pub(crate) const DUMP_INTERRUPTS: &str = "SELECT m.thread, i.epoch, i.record, i.crc
    FROM mailboxes m INDEXED BY mailbox_of_thread CROSS JOIN interrupts i ON i.mailbox = m.no
    WHERE m.tenant = ?1 AND m.thread >= ?2 AND (m.thread > ?2 OR i.epoch > ?3) ORDER BY m.thread, i.epoch LIMIT ?4";
pub(crate) const RAISE_TENANT: &str = "UPDATE tenants SET incarnation = ?2 WHERE no = ?1";
pub(crate) const RAISE_INCARNATION: &str = "UPDATE meta SET last_incarnation = max(last_incarnation, ?1) WHERE one = 1";

pub(crate) const INTEGRITY_CHECK: &str = "PRAGMA integrity_check(10)";
pub(crate) const TENANTS: &str = "SELECT name, no, incarnation FROM tenants WHERE name > ?1 ORDER BY name LIMIT 1000";
pub(crate) const IDS_OF_MAILBOX: &str = "SELECT created, id FROM dispatches INDEXED BY by_thread
    WHERE mailbox = ?1 AND (created, id) > (?2, ?3) ORDER BY created, id LIMIT ?4";
pub(crate) const INTERRUPT_EPOCHS: &str = "SELECT epoch FROM interrupts WHERE mailbox = ?1";
pub(crate) const COUNT_BY_STATUS: &str = "SELECT status, epoch, count(*) FROM dispatches INDEXED BY by_thread
    WHERE mailbox = ?1 GROUP BY status, epoch";
pub(crate) const DISPATCH_COLUMNS: &str = "SELECT status, epoch, available IS NULL, due, ended, key FROM dispatches
    WHERE tenant = ?1 AND id = ?2";
pub(crate) const MAILBOX_POSITIONS: &str = "SELECT priority, since, due, lease FROM mailboxes WHERE no = ?1";
pub(crate) const TAKE_OUT_OF_QUEUE: &str = "UPDATE dispatches SET available = NULL WHERE tenant = ?1 AND id = ?2";

/// Two variants of a statement that reads the next part of a list: one reads forward, one reads backward.
#[derive(Debug)]
pub(crate) struct ListStatement {
    forward: &'static str,
    backward: &'static str,
}

impl ListStatement {
    pub(crate) const fn in_direction(&self, direction: Direction) -> &'static str {
        match direction {
            Direction::Forward => self.forward,
            Direction::Backward => self.backward,
        }
    }
}

macro_rules! list_statement {
    ($select:literal, $order:literal is $place:literal, $backward:literal) => {
        ListStatement {
            forward: concat!($select, " AND (", $order, ") > (", $place, ") ORDER BY ", $order, " LIMIT ?1"),
            backward: concat!($select, " AND (", $order, ") < (", $place, ") ORDER BY ", $backward, " LIMIT ?1"),
        }
    };
}

pub(crate) const BY_STATUS: ListStatement = list_statement!(
    "SELECT created, id FROM dispatches INDEXED BY by_status WHERE tenant = ?4 AND status = ?5",
    "created, id" is "?2, ?3",
    "created DESC, id DESC"
);
pub(crate) const BY_THREAD: ListStatement = list_statement!(
    "SELECT created, id FROM dispatches INDEXED BY by_thread WHERE mailbox = ?4",
    "created, id" is "?2, ?3",
    "created DESC, id DESC"
);
pub(crate) const BY_END: ListStatement = list_statement!(
    "SELECT ended, id FROM dispatches INDEXED BY by_end WHERE tenant = ?4 AND ended IS NOT NULL",
    "ended, id" is "?2, ?3",
    "ended DESC, id DESC"
);
/// The queued dispatches of a thread, in claim order.
pub(crate) const BY_CLAIM: ListStatement = list_statement!(
    "SELECT priority, number, id FROM dispatches INDEXED BY queue WHERE mailbox = ?4 AND epoch = ?5 AND available = ?6",
    "priority, number" is "?2, ?3",
    "priority DESC, number DESC"
);
/// The dispatches of one batch, by id. A batch contains the dispatches that one interrupt superseded.
pub(crate) const SUPERSEDED_BATCH: ListStatement = list_statement!(
    "SELECT id FROM dispatches INDEXED BY queue_id WHERE mailbox = ?3 AND epoch = ?4 AND available IS NOT NULL",
    "id" is "?2",
    "id DESC"
);
/// All batches with the same time of interrupt: forward, the earliest time that is not before `?2`; backward, the
/// latest that is not after `?2`. The column `lot` contains the epoch under which the dispatches of a batch were
/// queued.
pub(crate) const SUPERSEDED_BATCHES: ListStatement = ListStatement {
    forward: "SELECT at, mailbox, lot FROM interrupts INDEXED BY lots
        WHERE tenant = ?1 AND lot IS NOT NULL AND at = (SELECT at FROM interrupts INDEXED BY lots
            WHERE tenant = ?1 AND lot IS NOT NULL AND at >= ?2 ORDER BY at LIMIT 1)",
    backward: "SELECT at, mailbox, lot FROM interrupts INDEXED BY lots
        WHERE tenant = ?1 AND lot IS NOT NULL AND at = (SELECT at FROM interrupts INDEXED BY lots
            WHERE tenant = ?1 AND lot IS NOT NULL AND at <= ?2 ORDER BY at DESC LIMIT 1)",
};

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// Returns SQLite's plan for a statement, with one step per line.
    fn query_plan(conn: &Connection, text: &str) -> Vec<String> {
        let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {text}")).unwrap();
        let nothing = (0..statement.parameter_count()).map(|_| rusqlite::types::Null);
        let steps = statement.query_map(rusqlite::params_from_iter(nothing), |row| row.get(3)).unwrap();
        steps.map(Result::unwrap).collect()
    }

    fn empty_database() -> Connection {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(include_str!("schema.sql")).unwrap();
        conn
    }

    /// SQLite looks rows up by an index. It scans no table from its beginning, sorts nothing and creates no index of
    /// its own (MB-28, PR-15). So it visits no backlog of queued or finished dispatches, and no rows of other tenants.
    #[test]
    fn every_deciding_statement_uses_an_index() {
        let conn = empty_database();
        let list_statements = [&BY_STATUS, &BY_THREAD, &BY_END, &BY_CLAIM, &SUPERSEDED_BATCH, &SUPERSEDED_BATCHES];
        let lists = list_statements.iter().flat_map(|list| [list.forward, list.backward]);
        let others = [
            TENANT_BY_NAME,
            TENANT_BY_NUMBER,
            LIST_TENANTS,
            REMOVE_TENANT_NAME,
            TENANT_BEING_DELETED,
            REMOVE_SOME_DISPATCHES,
            REMOVE_SOME_INTERRUPTS,
            REMOVE_SOME_MAILBOXES,
            MAILBOX,
            SET_MAILBOX,
            SET_RECORD,
            SET_LEASE,
            SET_READY_LEASE,
            SET_POSITIONS,
            MAILBOX_RECORDS,
            DISPATCH,
            SET_DISPATCH,
            SET_STATE,
            SET_CLAIMED,
            SET_ENDED,
            REMOVE_DISPATCH,
            PAYLOAD,
            REMOVE_PAYLOAD,
            FREE_KEY,
            LAST_WITH_KEY,
            FIRST_AVAILABLE,
            QUEUE_SUMMARY,
            PROMOTE_DUE,
            DEMOTE_NOT_DUE,
            INTERRUPT,
            REMOVE_INTERRUPT,
            READY_THREADS,
            DUE_THREADS,
            EXPIRED_LEASES,
            NEXT_CLAIM_TIMES,
            DUMP_DISPATCHES,
            DUMP_INTERRUPTS,
            RAISE_TENANT,
            RAISE_INCARNATION,
        ];
        for text in others.into_iter().chain(lists) {
            let steps = query_plan(&conn, text);
            let looks_up = |step: &String| {
                step.starts_with("SEARCH") && !step.contains("AUTOMATIC")
                    || ["SCAN CONSTANT ROW", "SCALAR SUBQUERY", "LIST SUBQUERY", "CREATE BLOOM FILTER"]
                        .iter()
                        .any(|part| step.starts_with(part))
            };
            assert!(!steps.is_empty() && steps.iter().all(looks_up), "{text}: {steps:#?}");
        }
    }

    /// Each deciding statement uses the intended index, and the intended number of its columns.
    #[test]
    fn deciding_statements_use_the_intended_index() {
        let conn = empty_database();
        for (text, expected_step) in [
            (FIRST_AVAILABLE, "USING INDEX queue (mailbox=? AND epoch=? AND available=?)"),
            (QUEUE_SUMMARY, "USING COVERING INDEX queue (mailbox=? AND epoch=? AND available=?)"),
            (QUEUE_SUMMARY, "USING COVERING INDEX queue_due (mailbox=? AND epoch=? AND available=?)"),
            (PROMOTE_DUE, "INDEX queue_due (mailbox=? AND epoch=? AND available=? AND due<?)"),
            (DEMOTE_NOT_DUE, "INDEX queue_due (mailbox=? AND epoch=? AND available=? AND due>?)"),
            (READY_THREADS, "USING COVERING INDEX ready (tenant=? AND (priority,since,thread)>(?,?,?))"),
            (DUE_THREADS, "USING COVERING INDEX due (tenant=? AND due>? AND due<?)"),
            (EXPIRED_LEASES, "USING COVERING INDEX leases (tenant=? AND (lease,thread)>(?,?) AND lease<?)"),
            (LAST_WITH_KEY, "USING COVERING INDEX live_keys (mailbox=? AND key=?)"),
            (FREE_KEY, "INDEX live_keys (mailbox=? AND key=?)"),
            (DISPATCH, "USING PRIMARY KEY (tenant=? AND id=?)"),
            (MAILBOX, "USING INDEX mailbox_of_thread (tenant=? AND thread=?)"),
            (BY_STATUS.forward, "USING COVERING INDEX by_status (tenant=? AND status=? AND (created,id)>(?,?))"),
            (BY_END.backward, "USING COVERING INDEX by_end (tenant=? AND ended>? AND (ended,id)<(?,?))"),
            (
                BY_CLAIM.forward,
                "USING COVERING INDEX queue (mailbox=? AND epoch=? AND available=? AND (priority,number)>(?,?))",
            ),
            (SUPERSEDED_BATCH.forward, "USING INDEX queue_id (mailbox=? AND epoch=? AND id>?)"),
        ] {
            let steps = query_plan(&conn, text);
            assert!(steps.iter().any(|step| step.contains(expected_step)), "{expected_step}: {steps:#?}");
        }
    }
}

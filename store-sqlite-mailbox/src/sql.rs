//! Every statement. Each that decides something names its index, so that a plan that would walk through a backlog
//! cannot come about: SQLite refuses the statement instead.

use store_core::Direction;

pub(crate) const BEGIN_WRITE: &str = "BEGIN IMMEDIATE";
pub(crate) const BEGIN_READ: &str = "BEGIN";
pub(crate) const COMMIT: &str = "COMMIT";
pub(crate) const ROLLBACK: &str = "ROLLBACK";
pub(crate) const SAVE: &str = "SAVEPOINT call";
pub(crate) const KEEP: &str = "RELEASE call";
pub(crate) const BACK: &str = "ROLLBACK TO call";

pub(crate) const TOUCH: &str = "UPDATE meta SET last_incarnation = last_incarnation WHERE one = 1";
pub(crate) const META: &str = "SELECT cursors FROM meta WHERE one = 1";
pub(crate) const NEXT_INCARNATION: &str = "SELECT last_incarnation + 1 FROM meta WHERE one = 1";
pub(crate) const SET_INCARNATION: &str = "UPDATE meta SET last_incarnation = ?1 WHERE one = 1";

pub(crate) const TENANT_BY_NAME: &str = "SELECT no, incarnation FROM tenants WHERE name = ?1";
pub(crate) const TENANT_BY_NO: &str = "SELECT no, incarnation FROM tenants WHERE no = ?1 AND name IS NOT NULL";
pub(crate) const ADD_TENANT: &str = "INSERT INTO tenants (name, incarnation) VALUES (?1, ?2) RETURNING no";
pub(crate) const LIST_TENANTS: &str = "SELECT name FROM tenants WHERE name > ?1 ORDER BY name LIMIT ?2";
pub(crate) const DROP_TENANT: &str = "UPDATE tenants SET name = NULL WHERE name = ?1";
pub(crate) const DROPPING: &str = "SELECT no FROM tenants WHERE name IS NULL LIMIT 1";
pub(crate) const DROP_DISPATCHES: &str = "DELETE FROM dispatches WHERE (tenant, id) IN
    (SELECT tenant, id FROM dispatches WHERE tenant = ?1 ORDER BY id LIMIT ?2) RETURNING payload";
pub(crate) const DROP_INTERRUPTS: &str = "DELETE FROM interrupts WHERE mailbox IN
    (SELECT no FROM mailboxes INDEXED BY mailbox_of_thread WHERE tenant = ?1 ORDER BY thread LIMIT ?2)";
pub(crate) const DROP_MAILBOXES: &str = "DELETE FROM mailboxes WHERE no IN
    (SELECT no FROM mailboxes INDEXED BY mailbox_of_thread WHERE tenant = ?1 ORDER BY thread LIMIT ?2)";
pub(crate) const FORGET_TENANT: &str = "DELETE FROM tenants WHERE no = ?1";

pub(crate) const MAILBOX: &str = "SELECT no, record, crc, due FROM mailboxes INDEXED BY mailbox_of_thread
    WHERE tenant = ?1 AND thread = ?2";
pub(crate) const ADD_MAILBOX: &str =
    "INSERT INTO mailboxes (tenant, thread, record, crc) VALUES (?1, ?2, ?3, ?4) RETURNING no";
pub(crate) const SET_MAILBOX: &str =
    "UPDATE mailboxes SET record = ?2, crc = ?3, priority = ?4, since = ?5, due = ?6, lease = ?7 WHERE no = ?1";
pub(crate) const SET_PLACES: &str =
    "UPDATE mailboxes SET priority = ?2, since = ?3, due = ?4, lease = ?5 WHERE no = ?1";
pub(crate) const RECORDS: &str = "SELECT record, crc, thread FROM mailboxes INDEXED BY mailbox_of_thread
    WHERE tenant = ?1 AND thread > ?2 ORDER BY thread LIMIT 1000";

pub(crate) const DISPATCH: &str = "SELECT body, body_crc, state, state_crc, payload FROM dispatches
    WHERE tenant = ?1 AND id = ?2";
pub(crate) const ADD_DISPATCH: &str = "INSERT INTO dispatches (tenant, id, mailbox, created, status, epoch, available,
    priority, number, due, ended, key, payload, body, body_crc, state, state_crc)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
pub(crate) const SET_DISPATCH: &str = "UPDATE dispatches SET status = ?3, epoch = ?4, available = ?5, due = ?6,
    ended = ?7, key = ?8, state = ?9, state_crc = ?10 WHERE tenant = ?1 AND id = ?2";
pub(crate) const REMOVE_DISPATCH: &str = "DELETE FROM dispatches WHERE tenant = ?1 AND id = ?2 RETURNING payload";
pub(crate) const PAYLOAD: &str = "SELECT payload, crc FROM payloads WHERE no = ?1";
pub(crate) const ADD_PAYLOAD: &str = "INSERT INTO payloads (payload, crc) VALUES (?1, ?2)";
pub(crate) const REMOVE_PAYLOAD: &str = "DELETE FROM payloads WHERE no = ?1";

pub(crate) const FREE_KEY: &str = "UPDATE dispatches INDEXED BY live_keys SET key = NULL
    WHERE mailbox = ?1 AND key = ?2 AND id <> ?3";
pub(crate) const LAST_WITH_KEY: &str = "SELECT id FROM dispatches INDEXED BY live_keys WHERE mailbox = ?1 AND key = ?2";

pub(crate) const FIRST: &str = "SELECT id FROM dispatches INDEXED BY queue
    WHERE mailbox = ?1 AND epoch = ?2 AND available = 1 AND due <= ?3 ORDER BY priority, number LIMIT 1";
pub(crate) const ENDS: &str = "SELECT
    (SELECT priority FROM dispatches INDEXED BY queue
        WHERE mailbox = ?1 AND epoch = ?2 AND available = 1 ORDER BY priority, number LIMIT 1),
    (SELECT due FROM dispatches INDEXED BY queue_due
        WHERE mailbox = ?1 AND epoch = ?2 AND available = 1 ORDER BY due LIMIT 1),
    (SELECT due FROM dispatches INDEXED BY queue_due
        WHERE mailbox = ?1 AND epoch = ?2 AND available = 0 ORDER BY due LIMIT 1)";
pub(crate) const TURN: &str = "UPDATE dispatches INDEXED BY queue_due SET available = 1
    WHERE mailbox = ?1 AND epoch = ?2 AND available = 0 AND due <= ?3";
pub(crate) const TURN_BACK: &str = "UPDATE dispatches INDEXED BY queue_due SET available = 0
    WHERE mailbox = ?1 AND epoch = ?2 AND available = 1 AND due > ?3";

pub(crate) const INTERRUPT: &str = "SELECT record, crc FROM interrupts WHERE mailbox = ?1 AND epoch = ?2";
pub(crate) const SET_INTERRUPT: &str =
    "INSERT OR REPLACE INTO interrupts (mailbox, epoch, tenant, at, lot, record, crc)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
pub(crate) const REMOVE_INTERRUPT: &str = "DELETE FROM interrupts WHERE mailbox = ?1 AND epoch = ?2";

pub(crate) const READY: &str = "SELECT priority, since, thread FROM mailboxes INDEXED BY ready
    WHERE tenant = ?1 AND priority IS NOT NULL AND (priority, since, thread) > (?2, ?3, ?4)
    ORDER BY priority, since, thread LIMIT ?5";
pub(crate) const DUE: &str = "SELECT thread FROM mailboxes INDEXED BY due
    WHERE tenant = ?1 AND due IS NOT NULL AND due <= ?2 ORDER BY due, thread LIMIT ?3";
pub(crate) const LAPSED: &str = "SELECT lease, thread FROM mailboxes INDEXED BY leases
    WHERE tenant = ?1 AND lease IS NOT NULL AND lease <= ?2 AND (lease, thread) > (?3, ?4)
    ORDER BY lease, thread LIMIT ?5";
pub(crate) const NEXT_CLAIM: &str = "SELECT
    (SELECT since FROM mailboxes INDEXED BY ready
        WHERE tenant = ?1 AND priority IS NOT NULL ORDER BY priority, since LIMIT 1),
    (SELECT due FROM mailboxes INDEXED BY due WHERE tenant = ?1 AND due IS NOT NULL ORDER BY due LIMIT 1),
    (SELECT lease FROM mailboxes INDEXED BY leases WHERE tenant = ?1 AND lease IS NOT NULL ORDER BY lease LIMIT 1)";

/// A part of a list behind a place, in both directions.
#[derive(Debug)]
pub(crate) struct Both {
    forward: &'static str,
    backward: &'static str,
}

impl Both {
    pub(crate) const fn towards(&self, direction: Direction) -> &'static str {
        match direction {
            Direction::Forward => self.forward,
            Direction::Backward => self.backward,
        }
    }
}

macro_rules! both {
    ($select:literal, $order:literal is $place:literal, $backward:literal) => {
        Both {
            forward: concat!($select, " AND (", $order, ") > (", $place, ") ORDER BY ", $order, " LIMIT ?1"),
            backward: concat!($select, " AND (", $order, ") < (", $place, ") ORDER BY ", $backward, " LIMIT ?1"),
        }
    };
}

pub(crate) const BY_STATUS: Both = both!(
    "SELECT created, id FROM dispatches INDEXED BY by_status WHERE tenant = ?4 AND status = ?5",
    "created, id" is "?2, ?3",
    "created DESC, id DESC"
);
pub(crate) const BY_THREAD: Both = both!(
    "SELECT created, id FROM dispatches INDEXED BY by_thread WHERE mailbox = ?4",
    "created, id" is "?2, ?3",
    "created DESC, id DESC"
);
pub(crate) const BY_END: Both = both!(
    "SELECT ended, id FROM dispatches INDEXED BY by_end WHERE tenant = ?4 AND ended IS NOT NULL",
    "ended, id" is "?2, ?3",
    "ended DESC, id DESC"
);
/// What is queued of a thread, as claims go.
pub(crate) const BY_CLAIM: Both = both!(
    "SELECT priority, number, id FROM dispatches INDEXED BY queue WHERE mailbox = ?4 AND epoch = ?5 AND available = ?6",
    "priority, number" is "?2, ?3",
    "priority DESC, number DESC"
);
pub(crate) const LOT: Both = both!(
    "SELECT id FROM dispatches INDEXED BY queue_id WHERE mailbox = ?3 AND epoch = ?4 AND available IS NOT NULL",
    "id" is "?2",
    "id DESC"
);
/// The lots of the next time at which there are some.
pub(crate) const LOTS: Both = Both {
    forward: "SELECT at, mailbox, lot FROM interrupts INDEXED BY lots
        WHERE tenant = ?1 AND lot IS NOT NULL AND at = (SELECT at FROM interrupts INDEXED BY lots
            WHERE tenant = ?1 AND lot IS NOT NULL AND at >= ?2 ORDER BY at LIMIT 1)",
    backward: "SELECT at, mailbox, lot FROM interrupts INDEXED BY lots
        WHERE tenant = ?1 AND lot IS NOT NULL AND at = (SELECT at FROM interrupts INDEXED BY lots
            WHERE tenant = ?1 AND lot IS NOT NULL AND at <= ?2 ORDER BY at DESC LIMIT 1)",
};

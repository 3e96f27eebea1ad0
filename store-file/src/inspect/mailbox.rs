//! What the index says of the mailbox of a tenant, compared with what its logs say together: a dispatch is in one log,
//! and what became of it may be in another.

use store_core::{
    Error, Result, TenantId, ThreadId,
    inspect::{Finding, FindingKind, RepairStatus},
};

use super::{Inspected, together::take_log};
use crate::{
    codec::{LogRow, damaged, read},
    dispatch_rows::{MailboxRows, PlacedRow},
    fold::{self, mailbox::turn},
    index::{Direction, Index, Key, Snapshot},
    names::mailbox_log_id,
    shared::Shared,
    staged::Staged,
    table,
};

/// Compares them, and with `repair` writes again what the index says. The logs were checked before: of one that cannot
/// be read to its end nothing follows.
pub(super) fn check(inspected: &Inspected, tenant: &TenantId) -> Result<Option<Finding>> {
    let Inspected { shared, repair, .. } = inspected;
    let Some(mut comparison) = Comparison::by(shared, tenant)? else { return Ok(None) };
    let Some(key) = comparison.differs()? else { return Ok(None) };
    let detail = format!("it does not agree with the logs about {}", table::describe(&key));
    let mut finding = Finding::new(FindingKind::StaleIndex, "index", detail);
    finding.tenant = Some(tenant.clone());
    finding.repair = RepairStatus::CanBeRebuilt;
    if *repair {
        let _exclusive = shared.exclusive();
        let Some(again) = Comparison::by(shared, tenant)? else {
            return Err(Error::unavailable("a log was changed while it was read"));
        };
        comparison = again;
        let _recent = shared.show(comparison.written(&shared.index)?)?;
        finding.repair = RepairStatus::Rebuilt;
    }
    Ok(Some(finding))
}

/// What the index said of a mailbox at a time, and what the logs say up to the same places.
struct Comparison {
    snapshot: Snapshot,
    given: Index,
    /// The keys under which there is something about the mailbox.
    lists: Vec<Key>,
    turned: Vec<u8>,
    tenant: TenantId,
}

impl Comparison {
    /// None if a log cannot be read.
    fn by(shared: &Shared, tenant: &TenantId) -> Result<Option<Self>> {
        let (snapshot, given) = (shared.index.snapshot(), Index::in_memory());
        if snapshot.get(table::dropping(tenant).as_bytes())?.is_some() {
            return Ok(None);
        }
        let logs = logs(&snapshot, tenant)?;
        for (log, row) in &logs {
            if !take_log(shared, &given, (*log, row), fold::mailbox::line)? {
                return Ok(None);
            }
        }
        let marks = logs.iter().map(|(log, _)| table::log_mailbox(*log));
        let lists = table::mailbox_of(tenant).into_iter().chain(marks).collect();
        let turned = table::mailbox_turned(tenant).into_bytes();
        let comparison = Self { snapshot, given, lists, turned, tenant: tenant.clone() };
        comparison.turn(tenant)?;
        Ok(Some(comparison))
    }

    /// Makes available in `given` what is available in the index.
    fn turn(&self, tenant: &TenantId) -> Result<()> {
        let mut staged = Staged::new(&self.given);
        for pair in self.snapshot.prefix(table::mailboxes(tenant).as_bytes(), Direction::Forward) {
            let (_, thread) = table::read_mailbox(&pair?.0).ok_or_else(|| damaged("mailbox"))?;
            let thread = ThreadId::new(thread)?;
            let until = self.snapshot.placed_row(tenant, &thread)?.until;
            turn(&mut staged, tenant, &thread, until)?;
        }
        self.given.apply(&staged.into_changes())
    }

    /// The key of something that differs.
    fn differs(&self) -> Result<Option<Vec<u8>>> {
        let given = self.given.snapshot();
        for list in &self.lists {
            for pair in given.prefix(list.as_bytes(), Direction::Forward) {
                let (key, value) = pair?;
                let is_same = self.snapshot.get(&key)?.is_some_and(|stored| is_same(&key, &stored, &value));
                if !is_same && !self.is_idle(&key)? {
                    return Ok(Some(key));
                }
            }
            for pair in self.snapshot.prefix(list.as_bytes(), Direction::Forward) {
                let (key, _) = pair?;
                if key != self.turned && given.get(&key)?.is_none() && !self.is_idle(&key)? {
                    return Ok(Some(key));
                }
            }
        }
        Ok(None)
    }

    /// Whether a key is not read any more, because it says what was available before an interrupt.
    fn is_idle(&self, key: &[u8]) -> Result<bool> {
        let Some((thread, epoch)) = table::read_available(&self.tenant, key) else { return Ok(false) };
        let row = self.snapshot.mailbox_row(&self.tenant, &thread)?;
        Ok(row.is_some_and(|row| epoch < row.mailbox.epoch))
    }

    /// What makes the index say what the logs say.
    fn written<'a>(&self, index: &'a Index) -> Result<Staged<'a>> {
        let mut staged = Staged::new(index);
        for list in &self.lists {
            staged.delete_all(list)?;
            for pair in self.given.snapshot().prefix(list.as_bytes(), Direction::Forward) {
                let (key, value) = pair?;
                staged.put(Key::from_bytes(&key), value);
            }
        }
        Ok(staged)
    }
}

/// The log of the mailbox, and after it those of threads that have something of the mailbox.
fn logs(snapshot: &Snapshot, tenant: &TenantId) -> Result<Vec<(u64, LogRow)>> {
    let own = mailbox_log_id()?;
    let mut logs = Vec::new();
    for list in [table::logs(), table::purges()] {
        for pair in snapshot.prefix(list.as_bytes(), Direction::Forward) {
            let (key, value) = pair?;
            let log = table::read_log(&key).ok_or_else(|| damaged("log"))?;
            let row: LogRow = read("log", &value)?;
            let is_own = row.generation == 0 && row.thread == own;
            if row.tenant == *tenant && (is_own || snapshot.get(table::log_mailbox(log).as_bytes())?.is_some()) {
                logs.push((log, row));
            }
        }
    }
    logs.sort_by_key(|(log, row)| (row.generation > 0, *log));
    Ok(logs)
}

/// Whether two values under a key say the same. Places of a thread may differ in the time up to which the thread was
/// looked at.
fn is_same(key: &[u8], one: &[u8], other: &[u8]) -> bool {
    let places = |bytes| read::<PlacedRow>("place of a thread", bytes).map(|row| row.places);
    one == other
        || (table::is_placed(key) && places(one).is_ok_and(|one| places(other).is_ok_and(|other| one == other)))
}

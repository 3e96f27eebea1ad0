//! The keys of rows of the outbox, and of the lists that they stand in.

use store_core::{
    OutboxId, TenantId,
    outbox::{OrderGroup, OutboxList, OutboxPosition, OutboxSubset},
};

use super::{LOG_OUTBOX, OUTBOX, OUTBOX_PAYLOAD, OUTBOX_PLACE, of_log, read_tenant_and_id};
use crate::index::{Key, KeyReader};

/// The rows of all tenants.
pub(crate) fn all_outbox() -> Key {
    Key::new(OUTBOX)
}

/// The rows of a tenant.
pub(crate) fn outbox_rows(tenant: &TenantId) -> Key {
    all_outbox().text(tenant.as_str())
}

/// A row.
pub(crate) fn outbox_row(tenant: &TenantId, id: &OutboxId) -> Key {
    outbox_rows(tenant).text(id.as_str())
}

/// The tenant and id of a row's key.
pub(crate) fn read_outbox_row(key: &[u8]) -> Option<(String, String)> {
    read_tenant_and_id(OUTBOX, key)
}

/// Where the payload of a row stands.
pub(crate) fn outbox_payload(tenant: &TenantId, id: &OutboxId) -> Key {
    outbox_payloads(tenant).text(id.as_str())
}

fn outbox_payloads(tenant: &TenantId) -> Key {
    Key::new(OUTBOX_PAYLOAD).text(tenant.as_str())
}

/// All lists of a tenant.
fn outbox_lists(tenant: &TenantId) -> Key {
    Key::new(OUTBOX_PLACE).text(tenant.as_str())
}

/// A list, without its places.
pub(crate) fn outbox_list(tenant: &TenantId, list: &OutboxList) -> Key {
    let key = outbox_lists(tenant);
    match list {
        OutboxList::Created(scope, status) => {
            let status = status.map_or(0, |status| 1 + status as u8);
            scoped(key.mark(0), scope).mark(status)
        }
        OutboxList::Ready(scope) => scoped(key.mark(1), scope),
        OutboxList::Leased(scope) => scoped(key.mark(2), scope),
        OutboxList::Finished => key.mark(3),
        OutboxList::Keyed(lane, target, name) => {
            key.mark(4).text(lane.as_str()).text(target.as_str()).text(name.as_str())
        }
        OutboxList::AllOfGroup(group) => grouped(key.mark(5), group),
        OutboxList::OpenOfGroup(group) => grouped(key.mark(6), group),
        OutboxList::ClaimedOfGroup(group) => grouped(key.mark(7), group),
        OutboxList::ReadyOfGroup(group) => grouped(key.mark(8), group),
    }
}

fn scoped(key: Key, scope: &OutboxSubset) -> Key {
    match scope {
        OutboxSubset::All => key.mark(0),
        OutboxSubset::Lane(lane) => key.mark(1).text(lane.as_str()),
        OutboxSubset::Target(lane, target) => key.mark(2).text(lane.as_str()).text(target.as_str()),
    }
}

fn grouped(key: Key, group: &OrderGroup) -> Key {
    key.text(group.lane.as_str()).text(group.target.as_str()).text(group.key.as_str())
}

/// A place in a list.
pub(crate) fn outbox_place(list: Key, place: &OutboxPosition) -> Key {
    list.number(place.rank.0).number(place.rank.1).text(place.id.as_str())
}

/// The place of a key below `list`.
pub(crate) fn read_outbox_place(list: &Key, key: &[u8]) -> Option<OutboxPosition> {
    let mut reader = KeyReader::below(list, key)?;
    Some(OutboxPosition { rank: (reader.number()?, reader.number()?), id: OutboxId::new(reader.text()?).ok()? })
}

/// Everything about the outbox that stands under the name of a tenant.
pub(crate) fn outbox_of(tenant: &TenantId) -> [Key; 3] {
    [outbox_rows(tenant), outbox_payloads(tenant), outbox_lists(tenant)]
}

/// The rows whose payloads are in a log.
pub(crate) fn log_outbox(log: u64) -> Key {
    of_log(LOG_OUTBOX, log)
}

/// The id of a row of a log.
pub(crate) fn read_log_outbox(key: &[u8]) -> Option<OutboxId> {
    OutboxId::new(KeyReader::of_log(LOG_OUTBOX, key)?.text()?).ok()
}

/// Whether a key is about the outbox: several logs may say something of what it stands for.
pub(crate) fn is_of_outbox(key: &[u8]) -> bool {
    matches!(key.first(), Some(&(OUTBOX | OUTBOX_PLACE | OUTBOX_PAYLOAD | LOG_OUTBOX)))
}

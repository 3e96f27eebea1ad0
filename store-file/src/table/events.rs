//! The keys of events, of their scopes, and of their logs.

use store_core::{EventId, EventKey, RunId, Scope, TenantId, ThreadId, TopicId, WriterId};

use super::{
    ERASED, EVENT, EVENT_KEY, EVENT_LOG, EVENT_PLACE, LOG_EVENT, LOG_EVENT_KEY, SCOPE, of_log, read_tenant_and_id,
};
use crate::index::{Key, KeyReader};

/// The events of all tenants.
pub(crate) fn all_events() -> Key {
    Key::new(EVENT)
}

/// The events of a tenant.
pub(crate) fn events(tenant: &TenantId) -> Key {
    all_events().text(tenant.as_str())
}

/// The tenant and id of an event's key.
pub(crate) fn read_event(key: &[u8]) -> Option<(String, String)> {
    read_tenant_and_id(EVENT, key)
}

/// Where an event stands.
pub(crate) fn event(tenant: &TenantId, id: &EventId) -> Key {
    events(tenant).text(id.as_str())
}

/// How a scope of events stands.
pub(crate) fn scope(tenant: &TenantId, scope: &Scope) -> Key {
    scoped(SCOPE, tenant, scope)
}

/// The scopes of all tenants.
pub(crate) fn all_scopes() -> Key {
    Key::new(SCOPE)
}

/// The scopes of a tenant.
pub(crate) fn scopes(tenant: &TenantId) -> Key {
    all_scopes().text(tenant.as_str())
}

/// The tenant and the scope of a scope's key.
pub(crate) fn read_scope(key: &[u8]) -> Option<(String, Scope)> {
    let mut reader = KeyReader::new(SCOPE, key)?;
    let tenant = reader.text()?;
    let (mark, id) = (reader.mark()?, reader.text()?);
    let scope = match mark {
        0 => Scope::Thread(ThreadId::new(id).ok()?),
        1 => Scope::Run(RunId::new(id).ok()?),
        _ => Scope::Topic(TopicId::new(id).ok()?),
    };
    Some((tenant, scope))
}

/// The events of a scope, by sequence number.
pub(crate) fn event_places(tenant: &TenantId, scope: &Scope) -> Key {
    scoped(EVENT_PLACE, tenant, scope)
}

fn scoped(sort: u8, tenant: &TenantId, scope: &Scope) -> Key {
    let key = Key::new(sort).text(tenant.as_str());
    match scope {
        Scope::Thread(thread) => key.mark(0).text(thread.as_str()),
        Scope::Run(run) => key.mark(1).text(run.as_str()),
        Scope::Topic(topic) => key.mark(2).text(topic.as_str()),
    }
}

/// What is remembered of the key of an append of events.
pub(crate) fn event_key(tenant: &TenantId, writer: &WriterId, key: &EventKey) -> Key {
    event_keys(tenant).text(writer.as_str()).text(key.as_str())
}

/// What is remembered of such keys of a tenant.
pub(crate) fn event_keys(tenant: &TenantId) -> Key {
    Key::new(EVENT_KEY).text(tenant.as_str())
}

/// The writer and the key of one.
pub(crate) fn read_event_key(key: &[u8]) -> Option<(WriterId, EventKey)> {
    let mut reader = KeyReader::new(EVENT_KEY, key)?;
    reader.text()?;
    Some((WriterId::new(reader.text()?).ok()?, EventKey::new(reader.text()?).ok()?))
}

/// The number of the log that holds the events of an id outside of its thread's.
pub(crate) fn event_log(tenant: &TenantId, id: &ThreadId) -> Key {
    event_logs(tenant).text(id.as_str())
}

/// The numbers of such logs of a tenant.
pub(crate) fn event_logs(tenant: &TenantId) -> Key {
    Key::new(EVENT_LOG).text(tenant.as_str())
}

/// The id of such a key.
pub(crate) fn read_event_log(key: &[u8]) -> Option<String> {
    read_tenant_and_id(EVENT_LOG, key).map(|(_, id)| id)
}

/// Everything about events that stands under the name of a tenant, but the numbers of their logs.
pub(crate) fn events_of(tenant: &TenantId) -> [Key; 4] {
    [EVENT, SCOPE, EVENT_PLACE, EVENT_KEY].map(|sort| Key::new(sort).text(tenant.as_str()))
}

/// The events of a log, by their places in it.
pub(crate) fn log_events(log: u64) -> Key {
    of_log(LOG_EVENT, log)
}

/// The keys of events of a log.
pub(crate) fn log_event_keys(log: u64) -> Key {
    of_log(LOG_EVENT_KEY, log)
}

/// A key of events of a log.
pub(crate) fn log_event_key(log: u64, writer: &WriterId, key: &EventKey) -> Key {
    log_event_keys(log).text(writer.as_str()).text(key.as_str())
}

/// The writer and the key of such a key.
pub(crate) fn read_log_event_key(key: &[u8]) -> Option<(WriterId, EventKey)> {
    let mut reader = KeyReader::of_log(LOG_EVENT_KEY, key)?;
    Some((WriterId::new(reader.text()?).ok()?, EventKey::new(reader.text()?).ok()?))
}

/// The former lines of events that lost their content, by their places in a log: they are to be erased.
pub(crate) fn erased(log: u64) -> Key {
    of_log(ERASED, log)
}

/// All such lines.
pub(crate) fn all_erased() -> Key {
    Key::new(ERASED)
}

/// The number of the log of such a line.
pub(crate) fn read_erased(key: &[u8]) -> Option<u64> {
    KeyReader::new(ERASED, key)?.number()
}

/// Whether a key is about events: several logs may say something of what it stands for.
pub(crate) fn is_of_events(key: &[u8]) -> bool {
    matches!(key.first(), Some(&(EVENT | SCOPE | EVENT_PLACE | EVENT_KEY | LOG_EVENT | LOG_EVENT_KEY | ERASED)))
}

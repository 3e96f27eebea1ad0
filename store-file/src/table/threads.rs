//! Keys about threads and runs: their rows, and the lists that show them.

use store_core::{RunId, RunListKey, TenantId, ThreadId, ThreadListKey, ThreadOrder, Timestamp};

use super::{ID, PENDING, RUN, RUN_ORDER, THREAD, THREAD_ORDER, read_tenant_and_id};
use crate::index::{Key, KeyReader};

/// The thread of this id.
pub(crate) fn thread(tenant: &TenantId, id: &ThreadId) -> Key {
    threads(tenant).text(id.as_str())
}

/// The threads of a tenant, by id.
pub(crate) fn threads(tenant: &TenantId) -> Key {
    Key::new(THREAD).text(tenant.as_str())
}

/// The threads of all tenants.
pub(crate) fn all_threads() -> Key {
    Key::new(THREAD)
}

/// The tenant and id of a thread's key.
pub(crate) fn read_thread(key: &[u8]) -> Option<(String, String)> {
    read_tenant_and_id(THREAD, key)
}

/// What is remembered of a thread id.
pub(crate) fn id(tenant: &TenantId, id: &ThreadId) -> Key {
    ids(tenant).text(id.as_str())
}

/// What is remembered of the ids of a tenant.
pub(crate) fn ids(tenant: &TenantId) -> Key {
    Key::new(ID).text(tenant.as_str())
}

/// The tenant and id of an id's key.
pub(crate) fn read_id(key: &[u8]) -> Option<(String, String)> {
    read_tenant_and_id(ID, key)
}

/// The runs of a tenant.
pub(crate) fn runs(tenant: &TenantId) -> Key {
    Key::new(RUN).text(tenant.as_str())
}

/// A run.
pub(crate) fn run(tenant: &TenantId, id: &RunId) -> Key {
    Key::new(RUN).text(tenant.as_str()).text(id.as_str())
}

/// The runs of all tenants.
pub(crate) fn all_runs() -> Key {
    Key::new(RUN)
}

/// The tenant and id of a run's key.
pub(crate) fn read_run(key: &[u8]) -> Option<(String, String)> {
    read_tenant_and_id(RUN, key)
}

/// A list of threads, without its places.
pub(crate) fn thread_list(tenant: &TenantId, scope: ThreadListKey<'_>, order: ThreadOrder) -> Key {
    let key = Key::new(THREAD_ORDER).text(tenant.as_str());
    let key = match scope {
        ThreadListKey::All => key.mark(0),
        ThreadListKey::Roots => key.mark(1),
        ThreadListKey::Of(parent) => key.mark(2).text(parent.as_str()),
        ThreadListKey::Resource(resource) => key.mark(3).text(resource.as_str()),
    };
    key.mark(match order {
        ThreadOrder::LastActivity => 0,
        ThreadOrder::Creation => 1,
    })
}

/// A list of runs, without its places.
pub(crate) fn run_list(tenant: &TenantId, scope: RunListKey<'_>) -> Key {
    let key = Key::new(RUN_ORDER).text(tenant.as_str());
    match scope {
        RunListKey::All => key.mark(0),
        RunListKey::Thread(thread) => key.mark(1).text(thread.as_str()),
        RunListKey::Parent(run) => key.mark(2).text(run.as_str()),
        RunListKey::Status(status) => key.mark(3).text(status.name()),
    }
}

/// A place in a list of threads or runs.
pub(crate) fn place(list: Key, time: Timestamp, id: &str) -> Key {
    list.number(time.as_millis()).text(id)
}

/// The time and id of a place; `list` is the list without its places.
pub(crate) fn read_place(list: &Key, key: &[u8]) -> Option<(u64, String)> {
    let mut reader = KeyReader::below(list, key)?;
    Some((reader.number()?, reader.text()?))
}

/// The threads of a tenant that have pending input, by id.
pub(crate) fn pending_threads(tenant: &TenantId) -> Key {
    Key::new(PENDING).text(tenant.as_str())
}

/// The tenant and id of such a thread.
pub(crate) fn read_pending_thread(key: &[u8]) -> Option<(String, String)> {
    read_tenant_and_id(PENDING, key)
}

/// All places of threads, and of runs.
pub(crate) fn all_places() -> [Key; 3] {
    [Key::new(THREAD_ORDER), Key::new(PENDING), Key::new(RUN_ORDER)]
}

/// The tenant and id of a place of a thread, in any list.
pub(crate) fn read_thread_place(key: &[u8]) -> Option<(String, String)> {
    if let Some(place) = read_pending_thread(key) {
        return Some(place);
    }
    let mut reader = KeyReader::new(THREAD_ORDER, key)?;
    let tenant = reader.text()?;
    if reader.mark()? > 1 {
        reader.text()?;
    }
    reader.mark()?;
    reader.number()?;
    Some((tenant, reader.text()?))
}

/// The tenant and id of a place of a run, in any list.
pub(crate) fn read_run_place(key: &[u8]) -> Option<(String, String)> {
    let mut reader = KeyReader::new(RUN_ORDER, key)?;
    let tenant = reader.text()?;
    if reader.mark()? > 0 {
        reader.text()?;
    }
    reader.number()?;
    Some((tenant, reader.text()?))
}

#[cfg(test)]
mod tests {
    use store_core::{TenantId, ThreadListKey, ThreadOrder, Timestamp};

    use super::{place, read_place, thread_list};

    #[test]
    fn a_place_is_parsed_after_its_list_prefix() {
        let tenant = TenantId::new("a\u{301}.b").unwrap();
        for scope in [ThreadListKey::All, ThreadListKey::Roots] {
            let list = || thread_list(&tenant, scope, ThreadOrder::Creation);
            let key = place(list(), Timestamp::from_millis(258).unwrap(), "t-1").into_bytes();
            assert_eq!(read_place(&list(), &key), Some((258, "t-1".to_owned())));
        }
    }
}

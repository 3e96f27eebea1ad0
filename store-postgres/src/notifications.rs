//! Notifications for other processes: which scopes have new events, and which tenants have work. They are sent after
//! the writes that they announce, many at once. A lost notification does no harm, because waiting callers also poll
//! (PO-13).

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use sqlx::postgres::{PgArguments, PgListener, PgPoolOptions};
use store_core::{Result, RunId, Scope, TenantId, ThreadId, Timestamp, TopicId};
use tokio::{sync::Notify, task::JoinHandle};

use crate::{
    cache::scope_kind_and_id,
    config::Pooler,
    db::{Db, add},
    live,
    tenant::{SharedState, Tenant},
};

/// How long notifications are collected before they are sent together.
const BATCH_DELAY: Duration = Duration::from_millis(5);
/// How long the listener waits before it connects again, and how often waiting callers poll without a listener.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// The maximum length of a notification. PostgreSQL allows fewer than 8,000 bytes; longer ones are found by polling.
const MAX_PAYLOAD_BYTES: usize = 7_900;

/// The open tenants of a store.
pub(crate) type TenantMap = Mutex<HashMap<TenantId, Arc<Tenant>>>;

/// Notifications that are still to be sent.
#[derive(Debug, Default)]
pub(crate) struct Notifications {
    waiting: Mutex<BTreeSet<String>>,
    text_added: Notify,
}

impl Notifications {
    fn waiting(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Announces that a scope has new events.
    pub(crate) fn announce_events(&self, tenant: &TenantId, scope: &Scope) {
        let (kind, id) = scope_kind_and_id(scope);
        self.add(format!("{}\n{kind}\n{id}", tenant.as_str()));
    }

    /// Announces that a tenant has work.
    pub(crate) fn announce_work(&self, tenant: &TenantId) {
        self.add(format!("{}\nwork\n", tenant.as_str()));
    }

    fn add(&self, text: String) {
        if text.len() < MAX_PAYLOAD_BYTES {
            self.waiting().insert(text);
            self.text_added.notify_one();
        }
    }
}

/// The tasks that send and receive notifications and carry live commands. They are aborted when this value is dropped.
#[derive(Debug)]
pub(crate) struct BackgroundTasks([JoinHandle<()>; 3]);

impl Drop for BackgroundTasks {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Starts the background tasks.
pub(crate) fn start_tasks(shared: &Arc<SharedState>, tenants: &Arc<TenantMap>) -> BackgroundTasks {
    let sending = shared.runtime.spawn(send_loop(Arc::downgrade(shared)));
    let receiving = shared.runtime.spawn(receive_loop(Arc::clone(shared), Arc::downgrade(tenants)));
    let carrying = shared.runtime.spawn(live::carry_commands(Arc::clone(shared), Arc::downgrade(tenants)));
    BackgroundTasks([sending, receiving, carrying])
}

pub(crate) fn channel_name(schema: &str) -> String {
    format!("agentstore_{schema}")
}

async fn send_loop(shared: Weak<SharedState>) {
    while let Some(shared) = shared.upgrade() {
        shared.notifications.text_added.notified().await;
        tokio::time::sleep(BATCH_DELAY).await;
        let texts: Vec<String> = std::mem::take(&mut *shared.notifications.waiting()).into_iter().collect();
        // If this fails, other processes find the events and the work by polling.
        let _lost = notify(&shared.db, &channel_name(&shared.config.schema), texts).await;
    }
}

async fn notify(db: &Db, channel: &str, texts: Vec<String>) -> Result<()> {
    let mut arguments = PgArguments::default();
    add(&mut arguments, channel)?;
    add(&mut arguments, texts)?;
    db.any_connection().read(|sql| &sql.notify, arguments).await.map(drop)
}

/// Listens for notifications. Where that is impossible, wakes all waiting callers from time to time so that they poll.
async fn receive_loop(shared: Arc<SharedState>, tenants: Weak<TenantMap>) {
    loop {
        if shared.config.pooler == Pooler::None {
            let _ended = listen(&shared, &tenants).await;
        }
        tokio::time::sleep(RECONNECT_DELAY).await;
        wake_all(&shared, &tenants);
    }
}

/// Listens. Reconnects when the connection is lost, and returns if that fails. Each time it has connected, it wakes all
/// waiting callers so that they poll, because notifications may have been lost before.
async fn listen(shared: &SharedState, tenants: &Weak<TenantMap>) -> Result<(), sqlx::Error> {
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(shared.config.server.clone());
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen(&channel_name(&shared.config.schema)).await?;
    loop {
        wake_all(shared, tenants);
        while let Some(notification) = listener.try_recv().await? {
            handle_notification(shared, tenants, notification.payload());
        }
    }
}

fn handle_notification(shared: &SharedState, tenants: &Weak<TenantMap>, text: &str) {
    let mut parts = text.splitn(3, '\n');
    let (Some(tenant), Some(kind), Some(id)) = (parts.next(), parts.next(), parts.next()) else { return };
    if matches!(kind, "live" | "answer") {
        return shared.live_state.wake_if(id);
    }
    let Some(tenants) = tenants.upgrade() else { return };
    let tenants = tenants.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(tenant) = tenant.parse::<TenantId>().ok().and_then(|tenant| tenants.get(&tenant)) else { return };
    let scope = match kind {
        "thread" => ThreadId::new(id).ok().map(Scope::Thread),
        "run" => RunId::new(id).ok().map(Scope::Run),
        "topic" => TopicId::new(id).ok().map(Scope::Topic),
        _ => {
            tenant.worker_notifier.notify(Timestamp::MIN);
            None
        }
    };
    tenant.followers.notify(scope.iter());
}

fn wake_all(shared: &SharedState, tenants: &Weak<TenantMap>) {
    shared.live_state.wake();
    let Some(tenants) = tenants.upgrade() else { return };
    for tenant in tenants.lock().unwrap_or_else(PoisonError::into_inner).values() {
        tenant.followers.notify_all();
        tenant.worker_notifier.notify(Timestamp::MIN);
    }
}

//! The live channel between processes. A command is stored in a row until it is answered. The process that has opened
//! the target of the command is notified. It passes the command to the receiver, and writes the answer to the row. A
//! process that receives no notifications polls.

use std::{
    collections::{HashMap, HashSet},
    future::poll_fn,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use async_trait::async_trait;
use futures_util::future::{Either, select};
use sqlx::postgres::{PgArguments, PgRow};
use store_core::{
    ClaimNumber, DeliverLive, IdSource, LiveChannel, LiveDelivery, LiveReceiver, LiveTarget, Result, TenantId,
    UuidSource, codec::Codec, live::LiveAnswer,
};
use tokio::{
    sync::{Mutex as AsyncMutex, Notify, oneshot},
    time::Instant,
};

use crate::{
    columns::{read_i64, read_text},
    config::Pooler,
    db::add,
    notifications::{TenantMap, channel_name},
    sql::Sql,
    store::TenantHandle,
    tenant::{SharedState, Tenant},
};

/// How often a process with receivers renews its heartbeat. A process whose heartbeat is older than 10 seconds counts
/// as closed.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// How often a process polls in case it missed a notification.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How often a process polls behind a transaction pooler, which passes no notifications.
const POLL_INTERVAL_POOLED: Duration = Duration::from_millis(100);
/// The longest deadline of a command, in milliseconds: 1,000 years.
const LONGEST_DEADLINE_MS: i64 = 1_000 * 365 * 24 * 60 * 60 * 1_000;

/// A tenant, and a target of its live channel.
type TenantTarget = (TenantId, LiveTarget);
/// The senders in this process that wait for an answer, by the id of their command, each with its tenant.
type WaitingSenders = HashMap<String, (TenantId, oneshot::Sender<LiveAnswer>)>;

/// The state of the live channel in a process, apart from the receivers themselves.
#[derive(Debug)]
pub(crate) struct LiveState {
    /// The id of this process.
    process: String,
    wake_up: Notify,
    /// Held while a command is sent, so that the commands of one sender keep their order (LV-4).
    send_order: AsyncMutex<()>,
    /// The targets of the receivers in this process that have a row, which announces them to other processes. The
    /// number distinguishes a receiver from an earlier one of the same target.
    receivers: Mutex<HashMap<TenantTarget, u64>>,
    next_number: AtomicU64,
    waiting: Mutex<WaitingSenders>,
}

impl Default for LiveState {
    fn default() -> Self {
        Self {
            process: UuidSource.next_id(),
            wake_up: Notify::new(),
            send_order: AsyncMutex::default(),
            receivers: Mutex::default(),
            next_number: AtomicU64::default(),
            waiting: Mutex::default(),
        }
    }
}

impl LiveState {
    fn receivers(&self) -> MutexGuard<'_, HashMap<TenantTarget, u64>> {
        self.receivers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingSenders> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the task that carries commands and answers, because there may be some for this process.
    pub(crate) fn wake(&self) {
        self.wake_up.notify_one();
    }

    /// Calls `wake` if `process` is this process.
    pub(crate) fn wake_if(&self, process: &str) {
        if process == self.process {
            self.wake();
        }
    }

    /// Ends the deliveries of a tenant that is being closed.
    pub(crate) fn end_deliveries(&self, tenant: &TenantId) {
        self.waiting().retain(|_, (sending_tenant, _)| sending_tenant != tenant);
    }
}

/// Encodes a target. Its parts are separated by a control character, which no id contains.
fn encode_target(target: &LiveTarget) -> String {
    let LiveTarget { thread, run, dispatch, claim, .. } = target;
    format!("{thread}\n{run}\n{dispatch}\n{}\n{}", claim.incarnation, claim.counter)
}

fn decode_target(text: &str) -> Option<LiveTarget> {
    let mut parts = text.split('\n');
    let mut next = || parts.next();
    let (thread, run, dispatch) = (next()?.parse().ok()?, next()?.parse().ok()?, next()?.parse().ok()?);
    let claim = ClaimNumber { incarnation: next()?.parse().ok()?, counter: next()?.parse().ok()? };
    Some(LiveTarget::new(thread, run, dispatch, claim))
}

/// Encodes an answer.
fn encode_answer(answer: &LiveAnswer) -> String {
    match answer {
        LiveAnswer::Accepted => "accepted".to_owned(),
        LiveAnswer::Dropped => "dropped".to_owned(),
        LiveAnswer::Unreadable(reason) => format!("unreadable\n{reason}"),
    }
}

fn decode_answer(text: &str) -> LiveAnswer {
    match text.split_once('\n') {
        Some(("unreadable", reason)) => LiveAnswer::Unreadable(reason.to_owned()),
        _ if text == "accepted" => LiveAnswer::Accepted,
        _ => LiveAnswer::Dropped,
    }
}

/// The live channel of a tenant.
#[derive(Debug, Clone)]
pub(crate) struct PostgresLive {
    tenant: TenantHandle,
}

impl PostgresLive {
    pub(crate) const fn new(tenant: TenantHandle) -> Self {
        Self { tenant }
    }

    fn check_open_and_writable(&self) -> Result<()> {
        self.tenant.check_open()?;
        self.tenant.shared.check_writable()
    }
}

#[async_trait]
impl LiveChannel for PostgresLive {
    async fn open_live(&self, target: LiveTarget) -> Result<LiveReceiver> {
        self.check_open_and_writable()?;
        let tenant_target = (self.tenant.constants.tenant.clone(), target);
        let live_state = &self.tenant.shared.live_state;
        // An earlier receiver of the target is removed first. Otherwise the task that carries commands could end the
        // new receiver, which has no row yet.
        live_state.receivers().remove(&tenant_target);
        let receiver = self.tenant.live_hub.open_live(tenant_target.1.clone()).await?;
        let (announced_tenant, announced_target) = tenant_target.clone();
        let announce = |tenant: Arc<Tenant>| async move {
            let SharedState { live_state, config, .. } = &*tenant.shared;
            let arguments = [
                announced_tenant.as_str(),
                &encode_target(&announced_target),
                &live_state.process,
                &channel_name(&config.schema),
            ];
            run_statement(&tenant.shared, |sql| &sql.live_open, text_arguments(&arguments)?).await.map(drop)
        };
        self.tenant.run_read(None, announce).await?;
        let number = live_state.next_number.fetch_add(1, Ordering::Relaxed);
        live_state.receivers().insert(tenant_target, number);
        live_state.wake();
        Ok(receiver)
    }

    async fn deliver(&self, request: DeliverLive) -> Result<LiveDelivery> {
        self.check_open_and_writable()?;
        let deadline = request.deadline;
        match select(pin!(self.send(request)), pin!(tokio::time::sleep(deadline))).await {
            Either::Left((answered, _)) => answered,
            Either::Right(_) => Ok(LiveDelivery::Unknown),
        }
    }
}

impl PostgresLive {
    async fn send(&self, request: DeliverLive) -> Result<LiveDelivery> {
        let shared = &self.tenant.shared;
        let (sent, answered) = SentCommand::new(&self.tenant);
        let (id, is_withdrawn) = (sent.id.clone(), Arc::clone(&sent.is_withdrawn));
        let call = |tenant: Arc<Tenant>| async move {
            let SharedState { live_state, config, .. } = &*tenant.shared;
            let name = tenant.constants.tenant.as_str();
            let command = request.command.encode();
            let mut arguments =
                text_arguments(&[name, &encode_target(&request.target), &id, &live_state.process, &command])?;
            add(&mut arguments, deadline_ms(request.deadline))?;
            add(&mut arguments, channel_name(&config.schema))?;
            let rows = run_statement(&tenant.shared, |sql| &sql.live_send, arguments).await?;
            if is_withdrawn.load(Ordering::SeqCst) {
                remove_command_row(&tenant.shared, &id).await;
            }
            rows.first().map_or(Ok(false), |row| crate::columns::read_value(row, 0))
        };
        let order_guard = shared.live_state.send_order.lock().await;
        let is_sent = self.tenant.run_read(None, call).await?;
        drop(order_guard);
        if !is_sent {
            return Ok(LiveDelivery::NoReceiver);
        }
        shared.live_state.wake();
        // If the tenant was closed meanwhile, the receiver may still have accepted the command.
        answered.await.map_or(Ok(LiveDelivery::Unknown), LiveAnswer::into_delivery)
    }
}

/// Returns a deadline in milliseconds, as the row of a command stores it. The server adds it to a time. A deadline too
/// long for that is stored as one that no sender reaches.
fn deadline_ms(deadline: Duration) -> i64 {
    i64::try_from(deadline.as_millis()).unwrap_or(i64::MAX).min(LONGEST_DEADLINE_MS)
}

/// A sent command whose sender waits for the answer. Its row is removed when this value is dropped.
struct SentCommand {
    shared: Arc<SharedState>,
    id: String,
    is_withdrawn: Arc<AtomicBool>,
}

impl SentCommand {
    fn new(tenant: &Tenant) -> (Self, oneshot::Receiver<LiveAnswer>) {
        let (id, shared) = (UuidSource.next_id(), Arc::clone(&tenant.shared));
        let (answer, answered) = oneshot::channel();
        shared.live_state.waiting().insert(id.clone(), (tenant.constants.tenant.clone(), answer));
        (Self { shared, id, is_withdrawn: Arc::default() }, answered)
    }
}

impl Drop for SentCommand {
    fn drop(&mut self) {
        // If the row is still being written, the sending call removes it afterwards.
        self.is_withdrawn.store(true, Ordering::SeqCst);
        self.shared.live_state.waiting().remove(&self.id);
        let (shared, id) = (Arc::clone(&self.shared), std::mem::take(&mut self.id));
        self.shared.runtime.spawn(async move { remove_command_row(&shared, &id).await });
    }
}

/// Removes the row of a command. If that fails, the row is removed later, when it is old.
async fn remove_command_row(shared: &SharedState, id: &str) {
    if let Ok(arguments) = text_arguments(&[id]) {
        let _ended = run_statement(shared, |sql| &sql.live_remove_command, arguments).await;
    }
}

fn text_arguments(texts: &[&str]) -> Result<PgArguments> {
    let mut arguments = PgArguments::default();
    texts.iter().try_for_each(|text| add(&mut arguments, *text))?;
    Ok(arguments)
}

async fn run_statement(
    shared: &SharedState,
    sql: impl FnOnce(&Sql) -> &Arc<str>,
    arguments: PgArguments,
) -> Result<Vec<PgRow>> {
    shared.db.any_connection().write(sql, arguments).await.map_err(|failed| failed.error)
}

/// Carries commands and answers between processes until the store is closed.
pub(crate) async fn carry_commands(shared: Arc<SharedState>, tenants: Weak<TenantMap>) {
    let mut last_heartbeat = Instant::now();
    loop {
        let _looked = tokio::time::timeout(poll_delay(&shared, &tenants), shared.live_state.wake_up.notified()).await;
        // A step that fails now is repeated in the next round.
        let _lost = exchange_messages(&shared, &tenants, &mut last_heartbeat).await;
    }
}

/// Returns how long the task may sleep before it has to poll.
fn poll_delay(shared: &SharedState, tenants: &Weak<TenantMap>) -> Duration {
    if shared.live_state.waiting().is_empty() && open_targets(tenants).is_empty() {
        // A new sender or receiver wakes the task.
        return Duration::from_hours(1);
    }
    if shared.config.pooler == Pooler::Transaction { POLL_INTERVAL_POOLED } else { POLL_INTERVAL }
}

/// Returns the targets that have a receiver in this process.
fn open_targets(tenants: &Weak<TenantMap>) -> HashSet<TenantTarget> {
    let Some(tenants) = tenants.upgrade() else { return HashSet::new() };
    let tenants = tenants.lock().unwrap_or_else(PoisonError::into_inner);
    let tenant_targets = |tenant: &Arc<Tenant>| {
        let name = tenant.constants.tenant.clone();
        tenant.live_hub.targets().into_iter().map(move |target| (name.clone(), target))
    };
    tenants.values().flat_map(tenant_targets).collect()
}

async fn exchange_messages(
    shared: &Arc<SharedState>,
    tenants: &Weak<TenantMap>,
    last_heartbeat: &mut Instant,
) -> Result<()> {
    let live_state = &shared.live_state;
    let waiting: Vec<String> = live_state.waiting().keys().cloned().collect();
    if !waiting.is_empty() {
        let mut arguments = PgArguments::default();
        add(&mut arguments, waiting)?;
        for row in run_statement(shared, |sql| &sql.live_read_answers, arguments).await? {
            if let Some((_, sender)) = live_state.waiting().remove(&read_text(&row, 0)?) {
                // A sender that no longer waits needs no answer.
                let _unreceived = sender.send(decode_answer(&read_text(&row, 1)?));
            }
        }
    }
    for row in run_statement(shared, |sql| &sql.live_take_commands, text_arguments(&[&live_state.process])?).await? {
        pass_to_receiver(shared, tenants, &row).await?;
    }
    if live_state.receivers().is_empty() {
        return Ok(());
    }
    reconcile_receivers(shared, tenants).await?;
    if last_heartbeat.elapsed() >= HEARTBEAT {
        *last_heartbeat = Instant::now();
        let _answer = run_statement(shared, |sql| &sql.live_heartbeat, text_arguments(&[&live_state.process])?).await?;
    }
    Ok(())
}

/// Passes a command to its receiver. A task of its own writes the answer later.
async fn pass_to_receiver(shared: &Arc<SharedState>, tenants: &Weak<TenantMap>, row: &PgRow) -> Result<()> {
    let (id, sender, command) = (read_text(row, 0)?, read_text(row, 4)?, read_text(row, 3)?);
    let remaining = Duration::from_millis(u64::try_from(read_i64(row, 5)?).unwrap_or_default());
    let tenant_target = read_text(row, 1)?.parse::<TenantId>().ok().zip(decode_target(&read_text(row, 2)?));
    let hub_and_target = tenant_target.and_then(|(tenant, target)| {
        let tenants = tenants.upgrade()?;
        let tenants = tenants.lock().unwrap_or_else(PoisonError::into_inner);
        Some((Arc::clone(&tenants.get(&tenant)?.live_hub), target))
    });
    let mut delivery = Box::pin(async move {
        match hub_and_target {
            Some((hub, target)) => hub.send_encoded(target, command, remaining).await.ok().flatten(),
            None => Some(LiveAnswer::Dropped),
        }
    });
    // The first poll puts the command into the receiver's queue, so that commands stay in their order.
    let first_poll = poll_fn(|context| Poll::Ready(delivery.as_mut().poll(context))).await;
    let shared_of_task = Arc::clone(shared);
    shared.runtime.spawn(async move {
        let shared = shared_of_task;
        let answered = match first_poll {
            Poll::Ready(answered) => answered,
            Poll::Pending => delivery.await,
        };
        let Some(answered) = answered else { return };
        if let Ok(arguments) =
            text_arguments(&[&id, &encode_answer(&answered), &sender, &channel_name(&shared.config.schema)])
        {
            // If the answer is lost, the sender gets none and the outcome stays unknown.
            let _lost = run_statement(&shared, |sql| &sql.live_answer, arguments).await;
        }
    });
    Ok(())
}

/// Ends the receivers whose targets were opened in other processes, and removes the rows of receivers that have ended.
async fn reconcile_receivers(shared: &SharedState, tenants: &Weak<TenantMap>) -> Result<()> {
    let live_state = &shared.live_state;
    let receivers = live_state.receivers().clone();
    let rows = run_statement(shared, |sql| &sql.live_receivers, text_arguments(&[&live_state.process])?).await?;
    // The open receivers are listed after the rows were read, because a receiver is opened before it gets its row.
    let open = open_targets(tenants);
    let (mut targets_with_row, mut stale_columns) = (HashSet::new(), [Vec::new(), Vec::new(), Vec::new()]);
    for row in &rows {
        let (tenant, target) = (read_text(row, 0)?, read_text(row, 1)?);
        match tenant
            .parse::<TenantId>()
            .ok()
            .zip(decode_target(&target))
            .filter(|tenant_target| open.contains(tenant_target))
        {
            Some(tenant_target) => drop(targets_with_row.insert(tenant_target)),
            None => {
                let columns = stale_columns.iter_mut().zip([tenant, target, read_text(row, 2)?]);
                columns.for_each(|(column, text)| column.push(text));
            }
        }
    }
    for (tenant_target, number) in receivers {
        if targets_with_row.contains(&tenant_target) || live_state.receivers().get(&tenant_target) != Some(&number) {
            continue;
        }
        live_state.receivers().remove(&tenant_target);
        let hub = tenants.upgrade().and_then(|tenants| {
            let tenants = tenants.lock().unwrap_or_else(PoisonError::into_inner);
            tenants.get(&tenant_target.0).map(|tenant| Arc::clone(&tenant.live_hub))
        });
        if let Some(hub) = hub.filter(|_| open.contains(&tenant_target)) {
            hub.end(&tenant_target.1);
        }
    }
    if stale_columns[0].is_empty() {
        return Ok(());
    }
    let mut arguments = text_arguments(&[&live_state.process])?;
    stale_columns.into_iter().try_for_each(|column| add(&mut arguments, column))?;
    run_statement(shared, |sql| &sql.live_remove_receivers, arguments).await.map(drop)
}

//! The live channel between processes. A command is a row until it is answered. The process that has the receiver of
//! its target is notified, passes the command to the receiver, and writes the answer to the row. A process that
//! receives no notifications polls.

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
    ClaimNumber, DeliverLive, Error, IdSource, LiveChannel, LiveDelivery, LiveReceiver, LiveTarget, Result, TenantId,
    Uuids, codec::Codec, live::LiveAnswer,
};
use tokio::{
    sync::{Mutex as AsyncMutex, Notify, oneshot},
    time::Instant,
};

use crate::{
    columns::{read_i64, text},
    config::Pooler,
    db::{add, signed},
    notifications::{Tenants, channel},
    sql::Sql,
    store::OpenTenant,
    tenant::{Common, Tenant},
};

/// How often a process with receivers renews its heartbeat. A process whose heartbeat is older than 10 seconds counts
/// as closed.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// How often a process polls in case it missed a notification.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How often it polls behind a transaction pooler, which passes no notifications.
const POLL_INTERVAL_POOLED: Duration = Duration::from_millis(100);

/// A target of a tenant.
type TenantTarget = (TenantId, LiveTarget);
/// The commands of this process that wait for an answer, by id, each with the tenant that sent it.
type Waiting = HashMap<String, (TenantId, oneshot::Sender<LiveAnswer>)>;

/// The state of the live channel in a process, apart from the receivers themselves.
#[derive(Debug)]
pub(crate) struct LiveState {
    /// The id of this process.
    process: String,
    woken: Notify,
    /// Held while a command is sent, so that the commands of one sender keep their order (LV-4).
    order: AsyncMutex<()>,
    /// The targets of the receivers in this process that have a row for other processes. Each receiver has a number of
    /// its own.
    receivers: Mutex<HashMap<TenantTarget, u64>>,
    next_number: AtomicU64,
    waiting: Mutex<Waiting>,
}

impl Default for LiveState {
    fn default() -> Self {
        Self {
            process: Uuids.next_id(),
            woken: Notify::new(),
            order: AsyncMutex::default(),
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

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the task that carries commands and answers, because there may be some for this process.
    pub(crate) fn wake(&self) {
        self.woken.notify_one();
    }

    /// Does the same as `wake` if `process` is this process.
    pub(crate) fn wake_if(&self, process: &str) {
        if process == self.process {
            self.wake();
        }
    }

    /// Ends the deliveries of a tenant that is being closed.
    pub(crate) fn end(&self, tenant: &TenantId) {
        self.waiting().retain(|_, (of, _)| of != tenant);
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
    tenant: OpenTenant,
}

impl PostgresLive {
    pub(crate) const fn new(tenant: OpenTenant) -> Self {
        Self { tenant }
    }

    fn check(&self) -> Result<()> {
        self.tenant.check_open()?;
        self.tenant.common.check_writable()
    }
}

#[async_trait]
impl LiveChannel for PostgresLive {
    async fn open_live(&self, target: LiveTarget) -> Result<LiveReceiver> {
        self.check()?;
        let place = (self.tenant.constants.tenant.clone(), target);
        let live_state = &self.tenant.common.live_state;
        // An earlier receiver of the target is removed first. Otherwise the task that carries commands could end the
        // new receiver before it has its row.
        live_state.receivers().remove(&place);
        let receiver = self.tenant.live.open_live(place.1.clone()).await?;
        let announced = place.clone();
        let announce = |tenant: Arc<Tenant>| async move {
            let Common { live_state, config, .. } = &*tenant.common;
            let with =
                [announced.0.as_str(), &encode_target(&announced.1), &live_state.process, &channel(&config.schema)];
            run_statement(&tenant.common, |sql| &sql.live_open, text_arguments(&with)?).await.map(drop)
        };
        self.tenant.read(None, announce).await?;
        let number = live_state.next_number.fetch_add(1, Ordering::Relaxed);
        live_state.receivers().insert(place, number);
        live_state.wake();
        Ok(receiver)
    }

    async fn deliver(&self, request: DeliverLive) -> Result<LiveDelivery> {
        self.check()?;
        let deadline = request.deadline;
        match select(pin!(self.send(request)), pin!(tokio::time::sleep(deadline))).await {
            Either::Left((answered, _)) => answered,
            Either::Right(_) => Ok(LiveDelivery::Unknown),
        }
    }
}

impl PostgresLive {
    async fn send(&self, request: DeliverLive) -> Result<LiveDelivery> {
        let common = &self.tenant.common;
        let (sent, answered) = SentCommand::new(&self.tenant);
        let (id, is_withdrawn) = (sent.id.clone(), Arc::clone(&sent.is_withdrawn));
        let call = |tenant: Arc<Tenant>| async move {
            let Common { live_state, config, .. } = &*tenant.common;
            let name = tenant.constants.tenant.as_str();
            let command = request.command.encode();
            let mut with =
                text_arguments(&[name, &encode_target(&request.target), &id, &live_state.process, &command])?;
            add(&mut with, signed(u64::try_from(request.deadline.as_millis()).unwrap_or(u64::MAX) >> 1)?)?;
            add(&mut with, channel(&config.schema))?;
            let rows = run_statement(&tenant.common, |sql| &sql.live_send, with).await?;
            if is_withdrawn.load(Ordering::SeqCst) {
                end(&tenant.common, &id).await;
            }
            rows.first().map_or(Ok(false), |row| crate::columns::value(row, 0))
        };
        let ordered = common.live_state.order.lock().await;
        let is_sent = self.tenant.read(None, call).await?;
        drop(ordered);
        if !is_sent {
            return Ok(LiveDelivery::NoReceiver);
        }
        common.live_state.wake();
        answered.await.map_err(|_| Error::closed())?.into_delivery()
    }
}

/// A sent command whose sender waits for the answer. Its row is removed when this value is dropped.
struct SentCommand {
    common: Arc<Common>,
    id: String,
    is_withdrawn: Arc<AtomicBool>,
}

impl SentCommand {
    fn new(tenant: &Tenant) -> (Self, oneshot::Receiver<LiveAnswer>) {
        let (id, common) = (Uuids.next_id(), Arc::clone(&tenant.common));
        let (answer, answered) = oneshot::channel();
        common.live_state.waiting().insert(id.clone(), (tenant.constants.tenant.clone(), answer));
        (Self { common, id, is_withdrawn: Arc::default() }, answered)
    }
}

impl Drop for SentCommand {
    fn drop(&mut self) {
        // If the row is still being written, the sending call removes it afterwards.
        self.is_withdrawn.store(true, Ordering::SeqCst);
        self.common.live_state.waiting().remove(&self.id);
        let (common, id) = (Arc::clone(&self.common), std::mem::take(&mut self.id));
        self.common.runtime.spawn(async move { end(&common, &id).await });
    }
}

/// Removes the row of a command. If that fails, the row is removed later, when it is old.
async fn end(common: &Common, id: &str) {
    if let Ok(with) = text_arguments(&[id]) {
        let _ended = run_statement(common, |sql| &sql.live_end, with).await;
    }
}

fn text_arguments(of: &[&str]) -> Result<PgArguments> {
    let mut with = PgArguments::default();
    of.iter().try_for_each(|text| add(&mut with, *text))?;
    Ok(with)
}

async fn run_statement(common: &Common, sql: impl FnOnce(&Sql) -> &Arc<str>, with: PgArguments) -> Result<Vec<PgRow>> {
    common.db.any().write(sql, with).await.map_err(|failed| failed.error)
}

/// Carries commands and answers between processes until the store is closed.
pub(crate) async fn carry(common: Arc<Common>, tenants: Weak<Tenants>) {
    let mut last_heartbeat = Instant::now();
    loop {
        let _looked = tokio::time::timeout(poll_delay(&common, &tenants), common.live_state.woken.notified()).await;
        // What fails now is done in a later round.
        let _lost = round(&common, &tenants, &mut last_heartbeat).await;
    }
}

/// Returns how long the task may sleep before it has to poll.
fn poll_delay(common: &Common, tenants: &Weak<Tenants>) -> Duration {
    if common.live_state.waiting().is_empty() && open_targets(tenants).is_empty() {
        // A new sender or receiver wakes the task.
        return Duration::from_hours(1);
    }
    if common.config.pooler == Pooler::Transaction { POLL_INTERVAL_POOLED } else { POLL_INTERVAL }
}

/// Returns the targets that have a receiver in this process.
fn open_targets(tenants: &Weak<Tenants>) -> HashSet<TenantTarget> {
    let Some(tenants) = tenants.upgrade() else { return HashSet::new() };
    let tenants = tenants.lock().unwrap_or_else(PoisonError::into_inner);
    let places = |tenant: &Arc<Tenant>| {
        let name = tenant.constants.tenant.clone();
        tenant.live.targets().into_iter().map(move |target| (name.clone(), target))
    };
    tenants.values().flat_map(places).collect()
}

async fn round(common: &Arc<Common>, tenants: &Weak<Tenants>, last_heartbeat: &mut Instant) -> Result<()> {
    let live_state = &common.live_state;
    let waiting: Vec<String> = live_state.waiting().keys().cloned().collect();
    if !waiting.is_empty() {
        let mut with = PgArguments::default();
        add(&mut with, waiting)?;
        for row in run_statement(common, |sql| &sql.live_answers, with).await? {
            if let Some((_, sender)) = live_state.waiting().remove(&text(&row, 0)?) {
                // A sender that no longer waits needs no answer.
                let _gone = sender.send(decode_answer(&text(&row, 1)?));
            }
        }
    }
    for row in run_statement(common, |sql| &sql.live_take, text_arguments(&[&live_state.process])?).await? {
        hand_over(common, tenants, &row).await?;
    }
    if live_state.receivers().is_empty() {
        return Ok(());
    }
    reconcile_receivers(common, tenants).await?;
    if last_heartbeat.elapsed() >= HEARTBEAT {
        *last_heartbeat = Instant::now();
        let _beaten = run_statement(common, |sql| &sql.live_beat, text_arguments(&[&live_state.process])?).await?;
    }
    Ok(())
}

/// Passes a command to its receiver. A task of its own writes the answer later.
async fn hand_over(common: &Arc<Common>, tenants: &Weak<Tenants>, row: &PgRow) -> Result<()> {
    let (id, sender, command) = (text(row, 0)?, text(row, 4)?, text(row, 3)?);
    let left = Duration::from_millis(u64::try_from(read_i64(row, 5)?).unwrap_or_default());
    let place = text(row, 1)?.parse::<TenantId>().ok().zip(decode_target(&text(row, 2)?));
    let live = place.and_then(|(tenant, target)| {
        let tenants = tenants.upgrade()?;
        let tenants = tenants.lock().unwrap_or_else(PoisonError::into_inner);
        Some((Arc::clone(&tenants.get(&tenant)?.live), target))
    });
    let mut carried = Box::pin(async move {
        match live {
            Some((live, target)) => live.send_encoded(target, command, left).await.ok().flatten(),
            None => Some(LiveAnswer::Dropped),
        }
    });
    // The first poll puts the command into the receiver's queue, so that commands stay in their order.
    let first = poll_fn(|context| Poll::Ready(carried.as_mut().poll(context))).await;
    let common_of_task = Arc::clone(common);
    common.runtime.spawn(async move {
        let common = common_of_task;
        let answered = match first {
            Poll::Ready(answered) => answered,
            Poll::Pending => carried.await,
        };
        let Some(answered) = answered else { return };
        if let Ok(with) = text_arguments(&[&id, &encode_answer(&answered), &sender, &channel(&common.config.schema)]) {
            // If the answer is lost, the sender gets none and the outcome stays unknown.
            let _lost = run_statement(&common, |sql| &sql.live_answer, with).await;
        }
    });
    Ok(())
}

/// Ends the receivers whose targets were opened in other processes, and removes the rows of receivers that have ended.
async fn reconcile_receivers(common: &Common, tenants: &Weak<Tenants>) -> Result<()> {
    let live_state = &common.live_state;
    let receivers = live_state.receivers().clone();
    let rows = run_statement(common, |sql| &sql.live_receivers, text_arguments(&[&live_state.process])?).await?;
    // The open receivers are listed after the rows were read, because a receiver is opened before it gets its row.
    let open = open_targets(tenants);
    let (mut own, mut stale) = (HashSet::new(), [Vec::new(), Vec::new(), Vec::new()]);
    for row in &rows {
        let (tenant, target) = (text(row, 0)?, text(row, 1)?);
        match tenant.parse::<TenantId>().ok().zip(decode_target(&target)).filter(|place| open.contains(place)) {
            Some(place) => drop(own.insert(place)),
            None => stale.iter_mut().zip([tenant, target, text(row, 2)?]).for_each(|(all, one)| all.push(one)),
        }
    }
    for (place, number) in receivers {
        if own.contains(&place) || live_state.receivers().get(&place) != Some(&number) {
            continue;
        }
        live_state.receivers().remove(&place);
        let of = tenants.upgrade().and_then(|tenants| {
            let tenants = tenants.lock().unwrap_or_else(PoisonError::into_inner);
            tenants.get(&place.0).map(|tenant| Arc::clone(&tenant.live))
        });
        if let Some(live) = of.filter(|_| open.contains(&place)) {
            live.end(&place.1);
        }
    }
    if stale[0].is_empty() {
        return Ok(());
    }
    let mut with = text_arguments(&[&live_state.process])?;
    stale.into_iter().try_for_each(|all| add(&mut with, all))?;
    run_statement(common, |sql| &sql.live_forget, with).await.map(drop)
}

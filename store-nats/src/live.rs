//! The live channel between processes. A command is a NATS request. The answer of the receiver is the response to it.
//!
//! A receiver has subscribed to the subject of its target, so the server knows when there is no receiver. A process
//! that opens a target first asks the current receiver to end. If two processes open a target at the same time, the
//! receiver with the lower rank is told the other receiver's rank, and ends.

use std::{
    collections::HashMap,
    fmt,
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::Poll,
    time::Duration,
};

use async_nats::{Client, Message, RequestErrorKind, Subscriber, client::Request};
use async_trait::async_trait;
use futures_util::{
    StreamExt,
    future::{AbortHandle, Abortable},
};
use store_core::{
    DeliverLive, Error, IdSource, LiveChannel, LiveDelivery, LiveReceiver, LiveTarget, Result, TenantId, UuidSource,
    codec::Codec,
    live::{LiveAnswer, LiveHub},
};
use tokio::sync::watch;

use crate::{error, error::RequestKind, store::TenantHandle, tenant::Tenant};

/// How long a process that opens a target waits for the previous receiver to end, and how long it then waits until the
/// server knows its own subscriptions.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(2);
/// The interval at which the task of a receiver checks whether the receiver was dropped.
const RECEIVER_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The state of the live channel in a process, apart from the receivers themselves.
#[derive(Debug, Default)]
pub(crate) struct LiveState {
    /// The number of tenants that were closed.
    closed_tenants: watch::Sender<u64>,
}

impl LiveState {
    /// Makes the deliveries of a closed tenant end. Wakes every delivery, which then checks whether its own tenant is
    /// closed.
    pub(crate) fn end_deliveries(&self, _tenant: &TenantId) {
        self.closed_tenants.send_modify(|count| *count += 1);
    }
}

/// The rank of a receiver: a count and a random name. Of two receivers of the same target, the receiver opened later
/// has the higher rank. If both were opened at the same time, the name decides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    count: u64,
    name: String,
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.count, self.name)
    }
}

fn parse_rank(text: &str) -> Option<Rank> {
    let (count, name) = text.split_once(' ')?;
    Some(Rank { count: count.parse().ok()?, name: name.to_owned() })
}

/// Encodes an answer.
fn encode_answer(answer: &LiveAnswer) -> String {
    match answer {
        LiveAnswer::Accepted => "accepted".to_owned(),
        LiveAnswer::Dropped => "dropped".to_owned(),
        LiveAnswer::Unreadable(reason) => format!("unreadable\n{reason}"),
    }
}

fn parse_answer(text: &str) -> LiveAnswer {
    match text.split_once('\n') {
        Some(("unreadable", reason)) => LiveAnswer::Unreadable(reason.to_owned()),
        _ if text == "accepted" => LiveAnswer::Accepted,
        _ => LiveAnswer::Dropped,
    }
}

/// The live channel of a tenant.
#[derive(Debug, Clone)]
pub(crate) struct NatsLive {
    tenant: TenantHandle,
}

impl NatsLive {
    pub(crate) const fn new(tenant: TenantHandle) -> Self {
        Self { tenant }
    }

    fn subject(&self, kind: &str, target: &LiveTarget) -> String {
        self.tenant.log().connection.names.live_subject(kind, &self.tenant.name, target)
    }

    /// Asks the current receiver of a target to end. Returns the count of its rank. Returns 0 if there is no receiver,
    /// or if the receiver does not answer in time.
    async fn end_current_receiver(&self, target: &LiveTarget) -> Result<u64> {
        let client = &self.tenant.log().connection.client;
        let request = Request::new().payload("end".into()).timeout(Some(HANDOVER_TIMEOUT));
        match client.send_request(self.subject("rank", target), request).await {
            Ok(message) => Ok(parse_rank(&String::from_utf8_lossy(&message.payload)).map_or(0, |rank| rank.count)),
            // The target has no receiver, or its receiver no longer answers.
            Err(e) if matches!(e.kind(), RequestErrorKind::NoResponders | RequestErrorKind::TimedOut) => Ok(0),
            Err(e) => Err(error::request_failed(e, RequestKind::Read)),
        }
    }

    /// Waits until the server knows the subscriptions of this process.
    ///
    /// For that it sends a request to a subject without subscribers. The server handles the messages of a connection in
    /// order, so it has handled the subscriptions when it replies that there are no responders.
    async fn wait_for_subscriptions(&self) -> Result<()> {
        let client = &self.tenant.log().connection.client;
        match client.send_request(client.new_inbox(), Request::new().timeout(Some(HANDOVER_TIMEOUT))).await {
            Err(e) if e.kind() != RequestErrorKind::NoResponders => Err(error::request_failed(e, RequestKind::Read)),
            _ => Ok(()),
        }
    }

    async fn open(&self, target: LiveTarget) -> Result<LiveReceiver> {
        let tenant = &self.tenant;
        let client = tenant.log().connection.client.clone();
        let connection_lost = |e| {
            Error::server_unavailable("the connection to the server was lost")
                .with_source(Box::<dyn std::error::Error + Send + Sync>::from(e))
        };
        let previous_count = self.end_current_receiver(&target).await?;
        let own_rank = Rank { count: previous_count + 1, name: UuidSource.next_id() };
        let commands =
            client.subscribe(self.subject("command", &target)).await.map_err(|e| connection_lost(e.to_string()))?;
        let ranks =
            client.subscribe(self.subject("rank", &target)).await.map_err(|e| connection_lost(e.to_string()))?;
        self.wait_for_subscriptions().await?;
        let receiver = tenant.live.open_live(target.clone()).await?;
        let text = own_rank.to_string();
        let subject = self.subject("rank", &target);
        client.publish(subject.clone(), text.into()).await.map_err(|e| connection_lost(e.to_string()))?;
        let local_receiver =
            LocalReceiver { client, target, own_rank, subject, deliveries: Arc::default(), has_ended: false };
        tenant.shared.runtime.spawn(local_receiver.serve(Arc::downgrade(&tenant.live), commands, ranks));
        Ok(receiver)
    }

    async fn send(&self, request: DeliverLive) -> Result<LiveDelivery> {
        let client = &self.tenant.log().connection.client;
        let (subject, id) = (self.subject("command", &request.target), UuidSource.next_id());
        let text = format!("{id}\n{}\n{}", request.deadline.as_millis(), request.command.encode());
        let max_bytes = client.server_info().max_payload as u64;
        store_core::check_limit("record bytes", text.len() as u64, max_bytes)?;
        let cancel_on_drop = CancelOnDrop { tenant: Arc::clone(&self.tenant), subject: subject.clone(), id: Some(id) };
        let answer = client.send_request(subject, Request::new().payload(text.into()).timeout(Some(request.deadline)));
        match answer.await {
            Ok(message) => {
                cancel_on_drop.disarm();
                parse_answer(&String::from_utf8_lossy(&message.payload)).into_delivery()
            }
            Err(e) if e.kind() == RequestErrorKind::NoResponders => {
                cancel_on_drop.disarm();
                Ok(LiveDelivery::NoReceiver)
            }
            Err(e) if e.kind() == RequestErrorKind::TimedOut => Ok(LiveDelivery::Unknown),
            Err(e) => Err(error::request_failed(e, RequestKind::Read)),
        }
    }
}

/// When this value is dropped, it tells the receiver that the sender no longer waits. `disarm` prevents that.
struct CancelOnDrop {
    tenant: Arc<Tenant>,
    subject: String,
    id: Option<String>,
}

impl CancelOnDrop {
    fn disarm(mut self) {
        self.id = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let (tenant, subject) = (Arc::clone(&self.tenant), std::mem::take(&mut self.subject));
        self.tenant.shared.runtime.spawn(async move {
            // If the receiver misses this message, the delivery still ends at the deadline of the command.
            let _result = tenant.log().connection.client.publish(subject, id.into()).await;
        });
    }
}

#[async_trait]
impl LiveChannel for NatsLive {
    async fn open_live(&self, target: LiveTarget) -> Result<LiveReceiver> {
        self.tenant.check_open()?;
        self.open(target).await
    }

    async fn deliver(&self, request: DeliverLive) -> Result<LiveDelivery> {
        self.tenant.check_open()?;
        let mut closed_tenants = self.tenant.shared.live_state.closed_tenants.subscribe();
        let mut delivery = pin!(self.send(request));
        loop {
            tokio::select! {
                biased;
                result = &mut delivery => return result,
                _ = closed_tenants.changed() => self.tenant.check_open()?,
            }
        }
    }
}

/// The handles that abort the deliveries in progress, by the id of the command.
type Deliveries = Mutex<HashMap<String, AbortHandle>>;

fn lock(deliveries: &Deliveries) -> MutexGuard<'_, HashMap<String, AbortHandle>> {
    deliveries.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A receiver in this process, and the state that is needed to deliver commands to it.
struct LocalReceiver {
    client: Client,
    target: LiveTarget,
    own_rank: Rank,
    /// The subject on which receivers of the target tell each other their ranks.
    subject: String,
    deliveries: Arc<Deliveries>,
    has_ended: bool,
}

impl LocalReceiver {
    /// Delivers commands to the receiver until it ends.
    async fn serve(mut self, weak_hub: Weak<LiveHub>, mut commands: Subscriber, mut ranks: Subscriber) {
        while !self.has_ended {
            let Some(hub) = weak_hub.upgrade() else { break };
            tokio::select! {
                biased;
                Some(message) = ranks.next() => self.handle_rank(&hub, &message).await,
                Some(message) = commands.next() => self.start_delivery(hub, &message).await,
                () = tokio::time::sleep(RECEIVER_CHECK_INTERVAL) => {
                    self.has_ended = !hub.targets().contains(&self.target);
                }
                else => break,
            }
        }
        // Senders of commands that arrived in the meantime are answered at once.
        let _result = commands.unsubscribe().await;
        while let Some(message) = commands.next().await {
            reply(&self.client, &message, &LiveAnswer::Dropped).await;
        }
    }

    /// Handles the rank of another receiver of the target, or a request to end.
    async fn handle_rank(&mut self, hub: &LiveHub, message: &Message) {
        let text = String::from_utf8_lossy(&message.payload);
        let own_rank = self.own_rank.to_string();
        match parse_rank(&text) {
            Some(other) if other == self.own_rank => {}
            Some(other) if other < self.own_rank => {
                // The other receiver has the lower rank. It ends when it is told the rank of this receiver.
                let _result = self.client.publish(self.subject.clone(), own_rank.into()).await;
            }
            _ => {
                self.has_ended = true;
                hub.end(&self.target);
                if let Some(to) = message.reply.clone() {
                    let _result = self.client.publish(to, own_rank.into()).await;
                }
            }
        }
    }

    /// Starts the delivery of a command to the receiver. A message with an id alone aborts the delivery with that id.
    async fn start_delivery(&mut self, hub: Arc<LiveHub>, message: &Message) {
        let text = String::from_utf8_lossy(&message.payload).into_owned();
        let mut parts = text.splitn(3, '\n');
        let (Some(id), Some(time_left), Some(command)) = (parts.next(), parts.next(), parts.next()) else {
            if let Some(delivery) = lock(&self.deliveries).remove(&text) {
                delivery.abort();
            }
            return;
        };
        let time_left = Duration::from_millis(time_left.parse().unwrap_or_default());
        let (target, command, id) = (self.target.clone(), command.to_owned(), id.to_owned());
        let deliver = async move { hub.send_encoded(target, command, time_left).await };
        let (abort_handle, registration) = AbortHandle::new_pair();
        let mut delivery = Box::pin(Abortable::new(deliver, registration));
        // The first poll puts the command into the queue of the receiver. This happens before the next message is
        // handled, so that commands keep their order.
        let first_poll = poll_fn(|context| Poll::Ready(delivery.as_mut().poll(context))).await;
        lock(&self.deliveries).insert(id.clone(), abort_handle);
        let (client, deliveries, message) = (self.client.clone(), Arc::clone(&self.deliveries), message.clone());
        tokio::spawn(async move {
            let result = match first_poll {
                Poll::Ready(result) => result,
                Poll::Pending => delivery.await,
            };
            lock(&deliveries).remove(&id);
            match result {
                Ok(Ok(Some(answer))) => reply(&client, &message, &answer).await,
                Ok(Err(_)) => reply(&client, &message, &LiveAnswer::Dropped).await,
                // The sender no longer waits.
                Ok(Ok(None)) | Err(_) => {}
            }
        });
    }
}

async fn reply(client: &Client, message: &Message, answer: &LiveAnswer) {
    if let Some(to) = message.reply.clone() {
        // If the answer is lost, the sender does not know the result.
        let _result = client.publish(to, encode_answer(answer).into()).await;
    }
}

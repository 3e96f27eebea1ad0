//! The live channel and wake-ups (promises LV of the contract). A receiver polls the list of the commands that were
//! sent. A caller that waits for work polls the mailbox.

use std::{collections::BTreeMap, future::Future, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::stream;
use store_core::{
    Clock, DeliverLive, LiveChannel, LiveDelivery, LiveReceiver, LiveTarget, Result, TenantId, WaitResult, WakeUps,
    codec::Codec,
    live::{LiveAnswer, LiveMessage},
};
use tokio::time::{sleep, timeout};

use super::{bug::Bug, handle::TenantHandle, store::SharedModel};

/// The interval at which callers poll.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A target, with its tenant, and with the number of times that the tenant was deleted before the handle was made.
type TargetOfTenant = (TenantId, u64, LiveTarget);

/// The receivers of a model, and the commands that were sent to them.
#[derive(Debug, Default)]
pub(super) struct LiveState {
    /// The last number that was given to a receiver or to a command.
    last_number: u64,
    /// How often a caller has waited for work. Only the planted bug `ClaimNeedsEarlierWait` reads this.
    pub(super) wait_count: u64,
    /// The number of the receiver of each target.
    receivers: BTreeMap<TargetOfTenant, u64>,
    /// The commands that were sent, the oldest first.
    sent_commands: Vec<SentCommand>,
}

#[derive(Debug)]
struct SentCommand {
    number: u64,
    address: TargetOfTenant,
    /// The receiver that the command was sent to. Only the planted bug `CommandKept` keeps commands without a receiver.
    receiver_number: Option<u64>,
    text: String,
    is_taken: bool,
    answer: Option<LiveAnswer>,
}

impl LiveState {
    const fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn find_command(&mut self, number: u64) -> Option<&mut SentCommand> {
        self.sent_commands.iter_mut().find(|sent| sent.number == number)
    }

    fn is_receiver_open(&self, receiver_number: Option<u64>) -> bool {
        receiver_number.is_some_and(|number| self.receivers.values().any(|open| *open == number))
    }

    /// Takes the oldest command for a receiver. Returns the number of the command, the number of the receiver to which
    /// it was sent, and its text.
    fn take_command(&mut self, receiver: &OpenReceiver) -> Option<(u64, Option<u64>, String)> {
        let bug = receiver.handle.shared.bug;
        let is_for_receiver = |sent: &SentCommand| match bug {
            Some(Bug::EarlierReceiverStays | Bug::CommandKept) => sent.address == receiver.address,
            _ => sent.receiver_number == Some(receiver.number),
        };
        let mut waiting_commands = self.sent_commands.iter_mut().filter(|sent| !sent.is_taken && is_for_receiver(sent));
        let next = if bug == Some(Bug::LastCommandFirst) { waiting_commands.last() } else { waiting_commands.next() }?;
        next.is_taken = true;
        Some((next.number, next.receiver_number, next.text.clone()))
    }
}

/// Calls `poll_once` until it returns a value.
async fn poll_until_some<T>(mut poll_once: impl FnMut() -> Result<Option<T>> + Send) -> Result<T> {
    loop {
        if let Some(found) = poll_once()? {
            return Ok(found);
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Waits for `future`, but no longer than `time`. Returns `None` when the time has passed.
async fn with_timeout<T>(time: Duration, future: impl Future<Output = Result<T>> + Send) -> Result<Option<T>> {
    timeout(time, future).await.ok().transpose()
}

/// The open receiver of a target.
struct OpenReceiver {
    handle: TenantHandle,
    address: TargetOfTenant,
    number: u64,
}

impl OpenReceiver {
    /// Returns the next message, or `None` after another receiver has opened the target.
    async fn next(&self) -> Result<Option<LiveMessage>> {
        let shared = &self.handle.shared;
        poll_until_some(|| {
            if shared.bug != Some(Bug::ReceiverOutlivesClosing) {
                self.handle.check_usable()?;
            }
            let mut live_state = shared.live_state();
            let is_replaced =
                !live_state.is_receiver_open(Some(self.number)) && shared.bug != Some(Bug::EarlierReceiverStays);
            if is_replaced {
                return Ok(Some(None));
            }
            Ok(live_state.take_command(self).map(|taken| Some(live_message(shared, taken))))
        })
        .await
    }
}

impl Drop for OpenReceiver {
    fn drop(&mut self) {
        let mut live_state = self.handle.shared.live_state();
        if live_state.receivers.get(&self.address) == Some(&self.number) {
            live_state.receivers.remove(&self.address);
        }
    }
}

fn live_message(shared: &Arc<SharedModel>, (number, receiver_number, text): (u64, Option<u64>, String)) -> LiveMessage {
    let shared = Arc::clone(shared);
    LiveMessage::new(text, move |answer| {
        let mut live_state = shared.live_state();
        let is_open = live_state.is_receiver_open(receiver_number);
        if let Some(sent) = live_state.find_command(number).filter(|_| is_open) {
            sent.answer = Some(answer);
        }
        // As on a network, the receiver does not know whether the sender is still waiting. It does know whether it is
        // open itself: the answer of a receiver that has ended never reaches the sender.
        is_open
    })
}

impl TenantHandle {
    fn address(&self, mut target: LiveTarget) -> TargetOfTenant {
        if self.shared.bug == Some(Bug::AttemptIgnored) {
            target.claim.counter = 0;
        }
        match self.shared.bug {
            Some(Bug::TargetsOfAllTenants) => (TenantId::default_tenant(), 0, target),
            _ => (self.tenant.clone(), self.deletions, target),
        }
    }

    /// Waits for the answer of the receiver. If the receiver has ended, the command counts as dropped.
    async fn wait_for_answer(&self, number: u64) -> Result<LiveAnswer> {
        poll_until_some(|| {
            self.check_usable()?;
            let mut live_state = self.shared.live_state();
            let Some(sent) = live_state.find_command(number) else { return Ok(Some(LiveAnswer::Dropped)) };
            let (answer, receiver_number) = (sent.answer.take(), sent.receiver_number);
            let is_lost = !live_state.is_receiver_open(receiver_number);
            Ok(answer.or_else(|| is_lost.then_some(LiveAnswer::Dropped)))
        })
        .await
    }
}

#[async_trait]
impl LiveChannel for TenantHandle {
    async fn open_live(&self, target: LiveTarget) -> Result<LiveReceiver> {
        self.check_usable()?;
        let (handle, address) = (self.clone(), self.address(target));
        let number = {
            let mut live_state = self.shared.live_state();
            let number = live_state.next_number();
            live_state.receivers.insert(address.clone(), number);
            number
        };
        let receiver = Some(OpenReceiver { handle, address, number });
        let messages = stream::unfold(receiver, async |receiver| {
            let receiver = receiver?;
            match receiver.next().await {
                Ok(message) => Some((Ok(message?), Some(receiver))),
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(LiveReceiver::new(Box::pin(messages)))
    }

    async fn deliver(&self, request: DeliverLive) -> Result<LiveDelivery> {
        self.check_usable()?;
        let bug = self.shared.bug;
        let address = self.address(request.target);
        let number = {
            let mut live_state = self.shared.live_state();
            let (number, receiver_number) = (live_state.next_number(), live_state.receivers.get(&address).copied());
            if receiver_number.is_some() || bug == Some(Bug::CommandKept) {
                let text = request.command.encode();
                live_state.sent_commands.push(SentCommand {
                    number,
                    address,
                    receiver_number,
                    text,
                    is_taken: false,
                    answer: None,
                });
            }
            if receiver_number.is_none() {
                return Ok(LiveDelivery::NoReceiver);
            }
            number
        };
        if bug == Some(Bug::DeliveredWhenSent) {
            return Ok(LiveDelivery::Delivered);
        }
        let deadline = if bug == Some(Bug::DeadlineHalved) { request.deadline / 2 } else { request.deadline };
        let answer = with_timeout(deadline, self.wait_for_answer(number)).await;
        self.shared.live_state().sent_commands.retain(|sent| sent.number != number);
        match answer? {
            Some(LiveAnswer::Unreadable(_)) if bug == Some(Bug::UnreadableDropped) => Ok(LiveDelivery::NoReceiver),
            Some(answer) => answer.into_delivery(),
            None if bug == Some(Bug::TimeoutIsNoReceiver) => Ok(LiveDelivery::NoReceiver),
            None => Ok(LiveDelivery::Unknown),
        }
    }
}

#[async_trait]
impl WakeUps for TenantHandle {
    async fn wait(&self, time: Duration) -> Result<WaitResult> {
        self.check_usable()?;
        let (bug, wait_start) = (self.shared.bug, self.shared.clock.now());
        self.shared.live_state().wait_count += 1;
        let ready = poll_until_some(|| match bug {
            Some(Bug::WaitOutlivesClosing) => Ok(self.is_ready(wait_start).unwrap_or_default().then_some(())),
            Some(Bug::NewWorkWakesNobody) => self.check_usable().map(|()| None),
            Some(Bug::DueWorkWakesNobody) => Ok(self.is_ready(wait_start)?.then_some(())),
            Some(Bug::WaitEndsAtOnce) => Ok(Some(())),
            _ => Ok(self.is_ready(self.shared.clock.now())?.then_some(())),
        });
        Ok(with_timeout(time, ready).await?.map_or(WaitResult::TimedOut, |()| WaitResult::Woken))
    }
}

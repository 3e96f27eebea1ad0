//! The mailbox: giving work, taking it, ending it, waiting for it. Changes are handed to the writer of its log.

mod read;
mod wake;

use std::time::Duration;

use async_trait::async_trait;
use store_core::{
    ClaimRef, ClaimRequest, Claims, Dispatch, DispatchClaim, DispatchId, Enqueued, Error, InstanceId, Interrupt,
    Interrupted, MailboxConsumer, MailboxMaintenance, MailboxProducer, NewDispatch, Purge, Purged, Reclaimed, Requeue,
    Result, Settled, Settlement, in_flight::CallScope,
};

use crate::{
    names::{Part, mailbox_log_id},
    tenant::Tenant,
    writer::{Answer, Ask, MailboxAnswer, MailboxAsk},
};

impl Tenant {
    async fn ask_mailbox(&self, about: CallScope, ask: MailboxAsk) -> Result<MailboxAnswer> {
        match self.write_to((mailbox_log_id()?, Part::Events), about, Ask::Mailbox(ask)).await? {
            Answer::Mailbox(answer) => Ok(*answer),
            _ => Err(Error::closed()),
        }
    }
}

#[async_trait]
impl MailboxProducer for Tenant {
    async fn enqueue(&self, dispatches: Vec<NewDispatch>) -> Result<Vec<Result<Enqueued>>> {
        match self.ask_mailbox(None, MailboxAsk::Enqueue(dispatches)).await? {
            MailboxAnswer::Enqueued(answers) => Ok(answers),
            _ => Err(Error::closed()),
        }
    }

    async fn cancel(&self, id: &DispatchId) -> Result<Dispatch> {
        match self.ask_mailbox(None, MailboxAsk::Cancel(id.clone())).await? {
            MailboxAnswer::Dispatch(dispatch) => Ok(*dispatch),
            _ => Err(Error::closed()),
        }
    }

    async fn interrupt(&self, request: Interrupt) -> Result<Interrupted> {
        match self.ask_mailbox(None, MailboxAsk::Interrupt(request)).await? {
            MailboxAnswer::Interrupted(interrupted) => Ok(interrupted),
            _ => Err(Error::closed()),
        }
    }
}

#[async_trait]
impl MailboxConsumer for Tenant {
    async fn claim(&self, request: ClaimRequest) -> Result<Claims> {
        match self.ask_mailbox(None, MailboxAsk::Claim(request, self.give_back(mailbox_log_id()?))).await? {
            MailboxAnswer::Claimed(claims) => claims.received().ok_or_else(Error::closed),
            _ => Err(Error::closed()),
        }
    }

    async fn extend(&self, claim: &ClaimRef, by: Duration) -> Result<DispatchClaim> {
        match self.ask_mailbox(None, MailboxAsk::Extend(claim.clone(), by)).await? {
            MailboxAnswer::Held(claim) => Ok(claim),
            _ => Err(Error::closed()),
        }
    }

    async fn start(&self, claim: &ClaimRef, instance: InstanceId) -> Result<DispatchClaim> {
        match self.ask_mailbox(None, MailboxAsk::Start(claim.clone(), instance)).await? {
            MailboxAnswer::Held(claim) => Ok(claim),
            _ => Err(Error::closed()),
        }
    }

    async fn settle(&self, settlements: Vec<(ClaimRef, Settlement)>) -> Result<Vec<Result<Settled>>> {
        match self.ask_mailbox(None, MailboxAsk::Settle(settlements)).await? {
            MailboxAnswer::Settled(answers) => Ok(answers),
            _ => Err(Error::closed()),
        }
    }
}

#[async_trait]
impl MailboxMaintenance for Tenant {
    async fn reclaim(&self, limit: u32) -> Result<Reclaimed> {
        match self.ask_mailbox(None, MailboxAsk::Reclaim(limit)).await? {
            MailboxAnswer::Reclaimed(reclaimed) => Ok(reclaimed),
            _ => Err(Error::closed()),
        }
    }

    async fn purge(&self, request: Purge) -> Result<Purged> {
        match self.ask_mailbox(None, MailboxAsk::Purge(request)).await? {
            MailboxAnswer::Purged(purged) => Ok(purged),
            _ => Err(Error::closed()),
        }
    }

    async fn requeue(&self, request: Requeue) -> Result<Vec<(DispatchId, Result<Dispatch>)>> {
        match self.ask_mailbox(None, MailboxAsk::Requeue(request)).await? {
            MailboxAnswer::Requeued(answers) => Ok(answers),
            _ => Err(Error::closed()),
        }
    }
}

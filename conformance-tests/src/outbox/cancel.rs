//! Dropped claims.

use store_core::{ClaimedOutboxRow, OutboxSettlement};

use super::draft::{claim, mail, outbox, row, send};
use crate::{
    Failure, Given, Verdict,
    check::expect_eq,
    sweep::{LITTLE_LATER, cut},
};

/// How many claims are dropped, each after another number of polls.
const CLAIMS: usize = 30;
/// How often it is looked whether a claim was given back: within 10 s.
const LOOKS: usize = 500;

/// A claim whose future is dropped before its answer was received is given back soon, with its attempts as they were.
pub(super) async fn a_claim_that_nobody_received_is_given_back(given: &Given) -> Verdict {
    send(given, [row("a")]).await?;
    for number in 0..CLAIMS {
        let store = outbox(given)?;
        let answer = cut(Box::pin(store.claim_outbox(mail(1))), 1 + number % 3).await?;
        let held = match answer.map(|claimed| claimed.rows).unwrap_or_default().pop() {
            Some(received) => received,
            None => given_back(given).await?,
        };
        expect_eq(held.row.attempts, 0)?;
        store.settle_outbox(vec![held.settle(OutboxSettlement::Release)]).await?.remove(0)?;
    }
    Ok(())
}

async fn given_back(given: &Given) -> Result<ClaimedOutboxRow, Failure> {
    for _ in 0..LOOKS {
        if let Some(held) = claim(given, 1).await?.pop() {
            return Ok(held);
        }
        tokio::time::sleep(LITTLE_LATER).await;
    }
    Err(Failure::new("nothing was given back within 10 s"))
}

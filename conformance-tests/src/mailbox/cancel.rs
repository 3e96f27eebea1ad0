//! Dropped claims.

use store_core::{ClaimedDispatch, Settlement};

use super::draft::{mailbox, put, request, settle, work};
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
    put(given, [work("t", "a")]).await?;
    for claim in 0..CLAIMS {
        let store = mailbox(given)?;
        let answer = cut(Box::pin(store.claim(request())), 1 + claim % 3).await?;
        let held = match answer.map(|claims| claims.claimed).unwrap_or_default().pop() {
            Some(received) => received,
            None => given_back(given).await?,
        };
        expect_eq((held.dispatch.id.as_str(), held.dispatch.attempts), ("a", 0))?;
        settle(given, &held, Settlement::Release).await?;
    }
    Ok(())
}

async fn given_back(given: &Given) -> Result<ClaimedDispatch, Failure> {
    for _ in 0..LOOKS {
        if let Some(held) = mailbox(given)?.claim(request()).await?.claimed.pop() {
            return Ok(held);
        }
        tokio::time::sleep(LITTLE_LATER).await;
    }
    Err(Failure::new("nothing was given back within 10 s"))
}

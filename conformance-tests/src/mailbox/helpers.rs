//! Helpers that make and check dispatches, claims and settlements.

use std::{sync::Arc, time::Duration};

use store_core::{
    ClaimRequest, ClaimedDispatch, Claims, Detail, Dispatch, DispatchCounts, DispatchFilter, DispatchId, DispatchOrder,
    DispatchQuery, DispatchStatus, Enqueued, Error, ErrorKind, Interrupt, Interrupted, MailboxStore, NewDispatch,
    PageRequest, Settled, Settlement, Subject, ThreadId, When,
};

use crate::{
    check::{Failure, Verdict, expect_eq, expect_kind, expect_some},
    given::{Given, id, read_all_pages},
    log::writer::join,
};

/// The length of the leases in cases.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// One millisecond.
pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);

/// Returns the mailbox of the tenant `default`.
pub(crate) fn mailbox(given: &Given) -> Result<Arc<dyn MailboxStore>, Failure> {
    given.stores()?.mailbox.ok_or_else(|| Failure::new("the store has no mailbox"))
}

/// Returns a dispatch with this id, for a thread and the run `r`.
pub(crate) fn new_dispatch(thread: &str, name: &str) -> NewDispatch {
    NewDispatch::new(id(thread), id("r")).with_id(id(name))
}

/// Returns a dispatch with this id that becomes available after `delay`.
pub(crate) fn delayed_dispatch(thread: &str, name: &str, delay: Duration) -> NewDispatch {
    new_dispatch(thread, name).available(When::In(delay))
}

/// Returns a dispatch with this id and this dedupe key.
pub(super) fn keyed_dispatch(thread: &str, name: &str, key: &str) -> NewDispatch {
    new_dispatch(thread, name).with_dedupe_key(id(key))
}

/// Enqueues dispatches in one call. Fails if one of them is refused.
pub(crate) async fn enqueue_all(
    given: &Given,
    drafts: impl IntoIterator<Item = NewDispatch>,
) -> Result<Vec<Enqueued>, Failure> {
    let answers = mailbox(given)?.enqueue(drafts.into_iter().collect()).await?;
    Ok(answers.into_iter().collect::<Result<_, _>>()?)
}

/// Enqueues one dispatch, and returns the answer for it.
pub(super) async fn try_enqueue(given: &Given, draft: NewDispatch) -> Result<store_core::Result<Enqueued>, Failure> {
    let answers = mailbox(given)?.enqueue(vec![draft]).await?;
    expect_some(answers.into_iter().next(), "answer")
}

/// Checks that an enqueue is refused because the dispatch `other` already has the id or the dedupe key of `draft`. The
/// error must name that dispatch, and the key if the key is the cause.
pub(super) async fn expect_id_or_key_taken_by(given: &Given, draft: NewDispatch, other: &str) -> Verdict {
    let id_differs = draft.id.as_ref().is_none_or(|id| id.as_str() != other);
    let key = draft.dedupe_key.as_ref().filter(|_| id_differs).map(|key| key.as_str().to_owned());
    let error = expect_kind(try_enqueue(given, draft).await?, ErrorKind::AlreadyExists)?;
    expect_eq(error.detail(), &Detail::AlreadyExists { what: Subject::new("dispatch", other), key })
}

/// Returns a claim request of the worker `w`.
pub(crate) fn claim_request() -> ClaimRequest {
    ClaimRequest::new(id("w"), LEASE)
}

/// Returns the ids of the claimed dispatches, separated by spaces.
pub(super) fn claimed_ids(claims: &Claims) -> String {
    join(claims.claimed.iter().map(|claimed| claimed.dispatch.id.as_str()))
}

/// Claims the next dispatch. Returns `None` if nothing can be claimed.
pub(crate) async fn claim_next(given: &Given) -> Result<Option<ClaimedDispatch>, Failure> {
    Ok(mailbox(given)?.claim(claim_request()).await?.claimed.pop())
}

/// Claims the next dispatch, and checks that it has this id.
pub(crate) async fn expect_next_claim(given: &Given, name: &str) -> Result<ClaimedDispatch, Failure> {
    let claimed = expect_some(claim_next(given).await?, "dispatch")?;
    expect_eq(claimed.dispatch.id.as_str(), name)?;
    Ok(claimed)
}

/// Enqueues one dispatch for the thread `t`, and claims it.
pub(crate) async fn enqueue_and_claim(given: &Given, name: &str) -> Result<ClaimedDispatch, Failure> {
    enqueue_all(given, [new_dispatch("t", name)]).await?;
    expect_next_claim(given, name).await
}

/// Checks that nothing can be claimed.
pub(crate) async fn expect_nothing_to_claim(given: &Given) -> Verdict {
    expect_eq(claimed_ids(&mailbox(given)?.claim(claim_request().up_to(100)).await?), "")
}

/// Claims and acknowledges dispatches one by one until nothing can be claimed. Returns their ids in the order of the
/// claims, separated by spaces.
pub(super) async fn claim_and_ack_all(given: &Given) -> Result<String, Failure> {
    let mut order = Vec::new();
    while let Some(claimed) = claim_next(given).await? {
        settle(given, &claimed, ack()).await?;
        order.push(claimed.dispatch.id.to_string());
    }
    Ok(order.join(" "))
}

/// Returns a settlement that acknowledges a dispatch.
pub(crate) const fn ack() -> Settlement {
    Settlement::Ack { result: None }
}

/// Returns a settlement after which the dispatch is tried again.
pub(crate) fn retry(after: Duration) -> Settlement {
    Settlement::Retry { after, error: "failed".to_owned() }
}

/// Settles a claim, and returns the answer for it.
pub(crate) async fn try_settle(
    given: &Given,
    claimed: &ClaimedDispatch,
    settlement: Settlement,
) -> Result<store_core::Result<Settled>, Failure> {
    let answers = mailbox(given)?.settle(vec![(claimed.claim(), settlement)]).await?;
    expect_some(answers.into_iter().next(), "answer")
}

/// Settles a claim. Fails if the settlement is refused.
pub(crate) async fn settle(
    given: &Given,
    claimed: &ClaimedDispatch,
    settlement: Settlement,
) -> Result<Settled, Failure> {
    Ok(try_settle(given, claimed, settlement).await??)
}

/// Checks that every write of a holder is refused. Only the first write may change the dispatch, by superseding it
/// (MB-33). So this function compares the dispatch only after several writes.
pub(super) async fn expect_holder_refused(given: &Given, claimed: &ClaimedDispatch, kind: ErrorKind) -> Verdict {
    let (store, name) = (mailbox(given)?, claimed.dispatch.id.as_str());
    for settlement in [ack(), retry(Duration::ZERO), Settlement::Release, Settlement::Snooze { after: MILLISECOND }] {
        expect_kind(try_settle(given, claimed, settlement).await?, kind)?;
    }
    let before = load_dispatch(given, name).await?;
    expect_kind(store.extend(&claimed.claim(), LEASE).await, kind)?;
    expect_kind(store.start(&claimed.claim(), id("instance")).await, kind)?;
    expect_kind(try_settle(given, claimed, ack()).await?, kind)?;
    expect_eq(load_dispatch(given, name).await?, before)
}

/// Loads a dispatch, which must exist.
pub(crate) async fn load_dispatch(given: &Given, name: &str) -> Result<Dispatch, Failure> {
    expect_some(mailbox(given)?.load_dispatch(&id(name)).await?, "dispatch")
}

/// Checks that a dispatch has this status, and returns the dispatch.
pub(crate) async fn expect_status(given: &Given, name: &str, status: DispatchStatus) -> Result<Dispatch, Failure> {
    let dispatch = load_dispatch(given, name).await?;
    expect_eq(dispatch.status, status).map_err(|failure| failure.about(name))?;
    expect_eq(dispatch.finished_at.is_some(), status.is_final())?;
    expect_eq(dispatch.claim.is_some(), status == DispatchStatus::Claimed)?;
    Ok(dispatch)
}

/// Interrupts the thread `t`.
pub(crate) async fn interrupt_thread_t(given: &Given) -> Result<Interrupted, Failure> {
    Ok(mailbox(given)?.interrupt(Interrupt::new(id("t")).because("stop")).await?)
}

/// Checks how many dispatches of the thread `t` are queued, claimed, acked, cancelled, superseded, and dead letters, in
/// the order of [`DispatchStatus::ALL`].
pub(super) async fn expect_counts_in_status_order(given: &Given, wanted: [u64; 6]) -> Verdict {
    let thread: ThreadId = id("t");
    expect_eq(counts_in_status_order(&mailbox(given)?.count_dispatches(Some(&thread)).await?), wanted)
}

/// Returns the counts in the order of [`DispatchStatus::ALL`].
pub(super) fn counts_in_status_order(counts: &DispatchCounts) -> [u64; 6] {
    let mut numbers = [0; 6];
    for (at, status) in DispatchStatus::ALL.iter().enumerate() {
        numbers[at] = counts.of(*status);
    }
    numbers
}

/// Lists dispatches in small pages, and returns their ids, separated by spaces.
pub(super) async fn list_ids(given: &Given, query: DispatchQuery) -> Result<String, Failure> {
    let store = &mailbox(given)?;
    let list = |page| store.list_dispatches(query.clone().with_page(page));
    let dispatches = read_all_pages(PageRequest::first(2), list).await?;
    Ok(join(dispatches.iter().map(|dispatch| dispatch.id.as_str())))
}

/// Lists the dispatches that match a filter, in this order, and returns their ids, separated by spaces.
pub(super) async fn list_ids_in_order(
    given: &Given,
    filter: DispatchFilter,
    order: DispatchOrder,
) -> Result<String, Failure> {
    list_ids(given, DispatchQuery::new(filter).ordered(order, store_core::Direction::Forward)).await
}

/// Returns a filter for the dispatches of the thread `t`.
pub(super) fn filter_of_thread_t() -> DispatchFilter {
    DispatchFilter::of_thread(id("t"))
}

/// Returns the dispatch ids with these texts.
pub(super) fn dispatch_ids<const N: usize>(names: [&str; N]) -> Vec<DispatchId> {
    names.into_iter().map(id).collect()
}

/// Returns the kind of the error, or `None` if the call succeeded.
pub(super) fn error_kind<T>(result: &store_core::Result<T>) -> Option<ErrorKind> {
    result.as_ref().err().map(Error::kind)
}

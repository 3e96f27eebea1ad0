//! Uses a text as an id wherever a contract takes an id.

mod documents;
mod events;
mod log;
mod mailbox;
mod outbox;
mod pending;

use futures_util::future::try_join_all;
use store_core::TenantStores;

use crate::{Contract, Failure, Verdict};

/// Uses each text wherever the contract takes an id, all texts at the same time. Then checks that each text leads to
/// its own records and to no others.
pub(super) async fn check_as_ids_everywhere(contract: Contract, stores: &TenantStores, texts: &[String]) -> Verdict {
    try_join_all(texts.iter().map(async |text| write_records(contract, stores, text).await.map_err(|f| f.about(text))))
        .await?;
    try_join_all(
        texts.iter().map(async |text| expect_found_by_each_id(contract, stores, text).await.map_err(|f| f.about(text))),
    )
    .await?;
    expect_texts_work_together(contract, stores, texts).await
}

/// Writes records with `text` wherever the contract takes an id. Where two ids belong together, also combines `text`
/// with a fixed id.
pub(super) async fn write_records(contract: Contract, stores: &TenantStores, text: &str) -> Verdict {
    match contract {
        Contract::ThreadRunStore | Contract::CommitCoordinator => {
            log::write_records(require(&stores.commits)?, text).await
        }
        Contract::PendingStore => pending::write_records(require(&stores.pending)?, text).await,
        Contract::EventStore => events::write_records(require(&stores.events)?, text).await,
        Contract::MailboxStore | Contract::LiveChannel => mailbox::write_records(require(&stores.mailbox)?, text).await,
        Contract::OutboxStore => outbox::write_records(require(&stores.commits)?, text).await,
        Contract::DocumentStore | Contract::ObjectStore => documents::write_records(stores, text).await,
    }
}

/// Checks that the records of `text` are found by each of their ids, and then changes them.
pub(super) async fn expect_found_by_each_id(contract: Contract, stores: &TenantStores, text: &str) -> Verdict {
    match contract {
        Contract::ThreadRunStore | Contract::CommitCoordinator => {
            log::expect_found_by_each_id(require(&stores.commits)?, text).await
        }
        Contract::PendingStore => pending::expect_found_by_each_id(require(&stores.pending)?, text).await,
        Contract::EventStore => events::expect_found_by_each_id(require(&stores.events)?, text).await,
        Contract::MailboxStore | Contract::LiveChannel => {
            mailbox::expect_found_by_each_id(require(&stores.mailbox)?, text).await
        }
        Contract::OutboxStore => {
            outbox::expect_found_by_each_id(require(&stores.commits)?, require(&stores.outbox)?, text).await
        }
        Contract::DocumentStore | Contract::ObjectStore => documents::expect_found_by_each_id(stores, text).await,
    }
}

/// Checks that all texts can be used together in one record, for example as the ids of the entries of one thread. Each
/// text must occur exactly once.
async fn expect_texts_work_together(contract: Contract, stores: &TenantStores, texts: &[String]) -> Verdict {
    match contract {
        Contract::ThreadRunStore | Contract::CommitCoordinator => {
            log::expect_texts_work_together(require(&stores.commits)?, texts).await
        }
        Contract::PendingStore => pending::expect_texts_work_together(require(&stores.pending)?, texts).await,
        Contract::EventStore => Ok(()),
        Contract::MailboxStore | Contract::LiveChannel => {
            mailbox::expect_texts_work_together(require(&stores.mailbox)?, texts).await
        }
        Contract::OutboxStore => outbox::expect_texts_work_together(require(&stores.outbox)?, texts).await,
        Contract::DocumentStore | Contract::ObjectStore => {
            documents::expect_texts_work_together(require(&stores.documents)?, texts).await
        }
    }
}

/// Returns the store of a contract, or a failure if there is none.
fn require<T: ?Sized>(store: &Option<std::sync::Arc<T>>) -> Result<&T, Failure> {
    store.as_deref().ok_or_else(|| Failure::new("the store does not have the contract"))
}

/// The texts in the order of their bytes, which is the order of ids in lists.
fn sorted<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut sorted: Vec<_> = texts.into_iter().collect();
    sorted.sort_unstable();
    sorted
}

//! Every id works wherever a store accepts an id, and different ids never share a record.

use store_core::{Commit, ThreadFilter};

use super::{
    corpus::{AMBIGUOUS_PAIRS, unusual_valid_ids},
    id_arguments::{check_as_ids_everywhere, expect_found_by_each_id, write_records},
};
use crate::{
    Contract, Failure, Given, Verdict,
    check::{expect, expect_eq},
    given::{id, message_entry},
    record_list::{first_record_list, record_lists},
};

/// Ids are kept and compared byte by byte. Each of sixty similar ids has a record of its own. The record is found under
/// exactly these bytes, and is listed with them.
pub(super) async fn unusual_ids_are_stored_unchanged(given: &Given) -> Verdict {
    let mut wanted = unusual_valid_ids();
    wanted.sort();
    wanted.dedup();
    expect_eq(wanted.len(), 60)?;
    for records in record_lists(given.contract()) {
        let stores = given.tenant(records.name())?;
        for (at, text) in unusual_valid_ids().iter().enumerate() {
            expect(!records.has(&stores, text).await?, format!("{}: {text:?} exists already", records.name()))?;
            records.write(&stores, text).await.map_err(|e| Failure::from(e).about(format!("{at} {text:?}")))?;
            expect(records.has(&stores, text).await?, format!("{}: {text:?} is not found", records.name()))?;
        }
        expect_eq(&records.ids(&stores).await?, &wanted).map_err(|failure| failure.about(records.name()))?;
    }
    Ok(())
}

/// After the store is closed and reopened, the record of every unusual id is found.
pub(super) async fn unusual_ids_survive_a_reopen(given: &Given) -> Verdict {
    let mut wanted = unusual_valid_ids();
    wanted.sort();
    for records in record_lists(given.contract()) {
        records.write_all(&given.tenant(records.name())?, &unusual_valid_ids()).await?;
    }
    given.reopen().await?;
    for records in record_lists(given.contract()) {
        let stores = given.tenant(records.name())?;
        expect_eq(&records.ids(&stores).await?, &wanted).map_err(|failure| failure.about(records.name()))?;
        for text in &wanted {
            expect(records.has(&stores, text).await?, format!("{}: {text:?} is gone", records.name()))?;
        }
    }
    Ok(())
}

/// Every unusual id can be the name of a tenant. These tenants share no records.
pub(super) async fn unusual_ids_work_as_tenant_names(given: &Given) -> Verdict {
    let records = first_record_list(given.contract());
    for (at, tenant) in unusual_valid_ids().iter().enumerate() {
        records.write_all(&given.tenant(tenant)?, &[format!("own-{at}"), "same".to_owned()]).await?;
    }
    for (at, tenant) in unusual_valid_ids().iter().enumerate() {
        let mut wanted = vec![format!("own-{at}"), "same".to_owned()];
        wanted.sort();
        expect_eq(records.ids(&given.tenant(tenant)?).await?, wanted).map_err(|failure| failure.about(tenant))?;
    }
    Ok(())
}

/// Every unusual id works wherever a contract takes an id, while all of them are in use.
pub(super) async fn unusual_ids_work_everywhere(given: &Given) -> Verdict {
    check_as_ids_everywhere(given.contract(), &given.stores()?, &unusual_valid_ids()).await
}

/// Two different pairs of a tenant and a record id never refer to the same record, whatever separators the ids contain.
pub(super) async fn pairs_of_tenant_and_record_never_collide(given: &Given) -> Verdict {
    for records in record_lists(given.contract()) {
        for (at, [first, second]) in AMBIGUOUS_PAIRS.into_iter().enumerate() {
            let ((first_tenant, first_id), (second_tenant, second_id)) = (first, second);
            let tenant = |name: &str| given.tenant(&format!("{name}{}{at}", records.name()));
            records.write(&tenant(first_tenant)?, first_id).await?;
            let collides = records.has(&tenant(second_tenant)?, second_id).await?;
            expect(!collides, format!("{first:?} and {second:?} are the same record"))?;
            records.write(&tenant(second_tenant)?, second_id).await?;
            expect_eq(records.ids(&tenant(first_tenant)?).await?, [first_id])?;
            expect_eq(records.ids(&tenant(second_tenant)?).await?, [second_id])?;
        }
    }
    Ok(())
}

/// Two different pairs of a thread and an entry id, or of a thread and a commit key, never refer to the same record.
pub(super) async fn pairs_of_thread_and_entry_never_collide(given: &Given) -> Verdict {
    let threads = given.threads()?;
    for (at, [first, second]) in AMBIGUOUS_PAIRS.into_iter().enumerate() {
        let stores = given.tenant(&format!("pairs-{at}"))?;
        let commits = stores.commits.ok_or_else(|| Failure::new("the store has no commits"))?;
        for ((thread, name), text) in [(first, "one"), (second, "two")] {
            let commit = Commit::new(id(thread)).with_key(id(name)).entry(message_entry(text).with_id(id(name)));
            let receipt = commits.commit(commit).await?;
            expect_eq((receipt.deduplicated, receipt.first_seq), (false, Some(1)))?;
        }
        for ((thread, name), text) in [(first, "one"), (second, "two")] {
            let entry = commits.threads().load_entry(&id(thread), &id(name)).await?;
            let entry = entry.ok_or_else(|| Failure::new(format!("entry {name:?} of {thread:?} is not found")))?;
            expect_eq(entry.message(), Some(&store_core::Message::user(text)))?;
        }
    }
    expect_eq(threads.count_threads(&ThreadFilter::default()).await?, 0)
}

/// Ids of different types, and entry ids of different threads, may be equal without affecting each other.
pub(super) async fn equal_ids_of_different_types_do_not_collide(given: &Given) -> Verdict {
    let stores = given.tenant("x")?;
    let commits = stores.commits.clone().ok_or_else(|| Failure::new("the store has no commits"))?;
    let has_contract = |contract: &&Contract| match contract {
        Contract::PendingStore => stores.pending.is_some(),
        Contract::EventStore => stores.events.is_some(),
        Contract::MailboxStore => stores.mailbox.is_some(),
        Contract::OutboxStore => stores.outbox.is_some(),
        Contract::DocumentStore => stores.documents.is_some(),
        Contract::CommitCoordinator => true,
        Contract::ThreadRunStore | Contract::LiveChannel | Contract::ObjectStore => false,
    };
    let contracts: Vec<_> = Contract::ALL.iter().filter(has_contract).collect();
    for contract in &contracts {
        write_records(**contract, &stores, "x").await.map_err(|failure| failure.about(format!("{contract:?}")))?;
    }
    let commit_to_other_thread = Commit::new(id("y")).with_key(id("x")).entry(message_entry("x").with_id(id("x")));
    expect(!commits.commit(commit_to_other_thread).await?.deduplicated, "two threads share a commit key")?;
    commits.threads().delete_thread(&id("y"), store_core::DeleteRequest::default()).await?;
    for contract in &contracts {
        expect_found_by_each_id(**contract, &stores, "x")
            .await
            .map_err(|failure| failure.about(format!("{contract:?}")))?;
    }
    Ok(())
}

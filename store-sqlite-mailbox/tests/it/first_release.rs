//! A mailbox that the first release wrote. It is kept in `tests/fixtures/mailbox-v1`, and every later release opens it
//! (PR-18).

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use store_core::{
    ClaimNumber, ClaimRef, ClaimRequest, ClaimToken, ClaimedDispatch, DispatchQuery, DispatchStatus, ErrorKind,
    IgnoreProgress, Interrupt, Json, MailboxStore, ManualClock, NewDispatch, PageRequest, Settlement, Store, TenantId,
    Timestamp, When, inspect::Inspector,
};
use store_sqlite_mailbox::{SqliteConfig, SqliteMailbox};

const MINUTE: Duration = Duration::from_mins(1);
const OTHER_TENANT: &str = "mandant-ü";
const THREAD: &str = "日本/e\u{301} 🦀";

fn fixture_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/mailbox-v1")
}

/// Opens a mailbox. Its clock starts `seconds` after the time at which the first dispatch of the fixture was enqueued.
async fn open(folder: &Path, seconds: u64) -> (SqliteMailbox, ManualClock) {
    let clock = ManualClock::new(Timestamp::from_millis(1_763_700_000_000 + seconds * 1_000).unwrap());
    let config = SqliteConfig::new(folder.join("mailbox.db")).with_clock(Arc::new(clock.clone()));
    (SqliteMailbox::open(config).await.unwrap(), clock)
}

/// Returns a folder with a copy of the mailbox of the fixture.
fn copy_of_fixture() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(fixture_folder().join("mailbox.db"), folder.path().join("mailbox.db")).unwrap();
    folder
}

fn mailbox_of(store: &SqliteMailbox, tenant: &str) -> Arc<dyn MailboxStore> {
    store.tenant(&tenant.parse::<TenantId>().unwrap()).unwrap().mailbox.unwrap()
}

fn new_dispatch(thread: &str, id: &str) -> NewDispatch {
    NewDispatch::new(thread.parse().unwrap(), "läuf-1".parse().unwrap()).with_id(id.parse().unwrap())
}

/// Returns a dispatch with all optional parts. The fixture contains this dispatch, so it must never change.
fn full_dispatch() -> NewDispatch {
    let payload = Json::parse(r#"{"big":12345678901234567890123,"minus":-0.0,"nul":"\u0000"}"#).unwrap();
    new_dispatch(THREAD, "whole").with_payload(payload).with_priority(7).with_dedupe_key("schlüssel".parse().unwrap())
}

async fn enqueue(mailbox: &dyn MailboxStore, new: NewDispatch) {
    mailbox.enqueue(vec![new]).await.unwrap().remove(0).unwrap();
}

async fn claim(mailbox: &dyn MailboxStore, id: &str) -> ClaimedDispatch {
    let request = ClaimRequest::new("w-1".parse().unwrap(), MINUTE).of_dispatch(id.parse().unwrap());
    mailbox.claim(request).await.unwrap().claimed.remove(0)
}

async fn settle(mailbox: &dyn MailboxStore, claimed: &ClaimedDispatch, settlement: Settlement) {
    mailbox.settle(vec![(claimed.claim(), settlement)]).await.unwrap().remove(0).unwrap();
}

/// Returns every dispatch as JSON, and the counts of each tenant.
async fn records_as_text(store: &SqliteMailbox) -> String {
    let (mut out, page) = (String::new(), PageRequest::first(1_000));
    for tenant in store.list_tenants(page.clone()).await.unwrap().items {
        let mailbox = mailbox_of(store, tenant.as_str());
        let counts = mailbox.count_dispatches(None).await.unwrap();
        writeln!(out, "{tenant}: {}", serde_json::to_string(&counts).unwrap()).unwrap();
        let query = DispatchQuery::default().with_page(page.clone());
        for dispatch in mailbox.list_dispatches(query).await.unwrap().items {
            writeln!(out, "{}", serde_json::to_string(&dispatch).unwrap()).unwrap();
        }
    }
    out
}

/// Writes a dispatch in each status, and one for each way in which an attempt can end. Returns the claim that has not
/// ended.
async fn write_fixture_data(store: &SqliteMailbox, clock: &ManualClock) -> ClaimedDispatch {
    let (mailbox, other_mailbox) = (mailbox_of(store, "default"), mailbox_of(store, OTHER_TENANT));
    enqueue(&*other_mailbox, full_dispatch()).await;
    for id in ["acked", "retried", "dead", "given-up", "expired", "held"] {
        enqueue(&*mailbox, new_dispatch(&format!("thread of {id}"), id)).await;
        clock.advance(Duration::from_secs(1));
    }
    enqueue(&*mailbox, new_dispatch("a", "later").available(When::In(MINUTE * 60))).await;
    enqueue(&*mailbox, new_dispatch("a", "cancelled")).await;
    mailbox.cancel(&"cancelled".parse().unwrap()).await.unwrap();
    enqueue(&*mailbox, new_dispatch("b", "superseded")).await;
    let interrupt = Interrupt::new("b".parse().unwrap()).because("größe").with_key("i-1".parse().unwrap());
    mailbox.interrupt(interrupt).await.unwrap();
    let result = Some(Json::parse(r#"{"größe":1.50e2}"#).unwrap());
    settle(&*mailbox, &claim(&*mailbox, "acked").await, Settlement::Ack { result }).await;
    let (after, error) = (MINUTE, "it failed".to_owned());
    settle(&*mailbox, &claim(&*mailbox, "retried").await, Settlement::Retry { after, error: error.clone() }).await;
    settle(&*mailbox, &claim(&*mailbox, "dead").await, Settlement::DeadLetter { error }).await;
    settle(&*mailbox, &claim(&*mailbox, "given-up").await, Settlement::Cancel { reason: "not wanted".to_owned() })
        .await;
    let _lost = claim(&*mailbox, "expired").await;
    clock.advance(MINUTE);
    mailbox.reclaim(10).await.unwrap();
    claim(&*mailbox, "held").await
}

/// Writes the fixture. A later release adds another fixture and does not change this one.
#[tokio::test]
#[ignore = "writes the fixture: its README says how"]
async fn make_the_mailbox_of_the_first_release() {
    let folder = tempfile::tempdir().unwrap();
    let (store, clock) = open(folder.path(), 0).await;
    let open_claim = write_fixture_data(&store, &clock).await;
    let records = records_as_text(&store).await;
    store.close().await.unwrap();
    fs::create_dir_all(fixture_folder()).unwrap();
    fs::copy(folder.path().join("mailbox.db"), fixture_folder().join("mailbox.db")).unwrap();
    fs::write(fixture_folder().join("expected.jsonl"), records).unwrap();
    fs::write(fixture_folder().join("token"), open_claim.token.as_str()).unwrap();
}

/// Tests PR-18: every record is read as it was written, and `verify` finds nothing wrong.
#[tokio::test]
async fn a_mailbox_of_the_first_release_shows_the_same_data() {
    let expected = fs::read_to_string(fixture_folder().join("expected.jsonl")).unwrap();
    for status in ["queued", "claimed", "acked", "cancelled", "superseded", "dead_letter"] {
        assert!(expected.contains(&format!(r#""status":"{status}""#)), "{status}");
    }
    let folder = copy_of_fixture();
    for _ in 0..2 {
        let (store, _) = open(folder.path(), 70).await;
        assert_eq!(records_as_text(&store).await, expected);
        assert_eq!(store.verify(&IgnoreProgress).await.unwrap().findings, []);
        store.close().await.unwrap();
    }
}

/// Tests PR-18: claims, keys, epochs and claim numbers are still known, and work continues.
#[tokio::test]
async fn a_mailbox_of_the_first_release_can_be_used() {
    let folder = copy_of_fixture();
    let (store, clock) = open(folder.path(), 70).await;
    let (mailbox, other_mailbox) = (mailbox_of(&store, "default"), mailbox_of(&store, OTHER_TENANT));
    let token = fs::read_to_string(fixture_folder().join("token")).unwrap();
    let open_claim = ClaimRef::new("held".parse().unwrap(), ClaimToken::new(token));
    let number: ClaimNumber = mailbox.extend(&open_claim, MINUTE).await.unwrap().number;
    let settled =
        mailbox.settle(vec![(open_claim, Settlement::Ack { result: None })]).await.unwrap().remove(0).unwrap();
    assert_eq!(settled.status, DispatchStatus::Acked);
    enqueue(&*mailbox, new_dispatch("thread of held", "next")).await;
    assert!(claim(&*mailbox, "next").await.number > number);
    assert!(other_mailbox.enqueue(vec![full_dispatch()]).await.unwrap().remove(0).unwrap().deduplicated);
    let second_answer =
        other_mailbox.enqueue(vec![full_dispatch().with_id("second".parse().unwrap())]).await.unwrap().remove(0);
    assert_eq!(second_answer.unwrap_err().kind(), ErrorKind::AlreadyExists);
    let same_interrupt = Interrupt::new("b".parse().unwrap()).because("größe").with_key("i-1".parse().unwrap());
    let interrupted = mailbox.interrupt(same_interrupt).await.unwrap();
    assert!(interrupted.deduplicated && interrupted.epoch == 1, "{interrupted:?}");
    clock.advance(MINUTE * 60);
    let request = ClaimRequest::new("w-2".parse().unwrap(), MINUTE).up_to(10);
    let claimed = mailbox.claim(request).await.unwrap().claimed;
    let mut ids: Vec<_> = claimed.iter().map(|held| held.dispatch.id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["expired", "later", "next", "retried"]);
    assert_eq!(claim(&*other_mailbox, "whole").await.dispatch.payload, full_dispatch().payload);
    assert_eq!(store.verify(&IgnoreProgress).await.unwrap().findings, []);
    store.close().await.unwrap();
}

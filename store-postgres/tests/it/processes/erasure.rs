//! After an erasure the erased text is in no table (PV-3), also if the process that erases is killed (PV-2).

use std::sync::Arc;

use conformance_tests::{ErasureSubject, KillMoments, TestLength, seed_from_env};
use store_core::{
    EraseResource, ErasureLayer, ErasureStore, IgnoreProgress, NewAudit, Store, SystemClock, TenantId, TenantStores,
};
use store_postgres::{PostgresConfig, PostgresStore};
use test_servers::{Postgres, Process, send_line};

const ADA: ErasureSubject = ErasureSubject::new("ada-1", "ada", "Qz7RxV2mKp9LwTtD4sHb");
const ADA_TOO: ErasureSubject = ErasureSubject::new("ada-2", "ada", "Wc8NfY3jGq6ZvBeX1uMa");
const BOB: ErasureSubject = ErasureSubject::new("bob-1", "bob", "Jh5TkS0dRy7PnCiF2oLg");

/// The database of the process of this test, and its tenant.
const DATABASE: &str = "AGENTSTORE_TEST_DATABASE";
const TENANT: &str = "AGENTSTORE_TEST_TENANT";

async fn open(url: &str) -> PostgresStore {
    let mut config = PostgresConfig::new(url).unwrap();
    config.allow_unsafe = true;
    PostgresStore::open(config).await.unwrap()
}

/// Everything that is in the database, as `pg_dump` writes it.
fn dump(server: &Postgres) -> String {
    let dumped = server.program("pg_dump").arg("--dbname").arg(server.url()).output().unwrap();
    assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
    String::from_utf8(dumped.stdout).unwrap()
}

fn count(dump: &str, subject: &ErasureSubject) -> usize {
    subject.forms().iter().map(|form| dump.matches(std::str::from_utf8(form).unwrap()).count()).sum()
}

fn stores(store: &PostgresStore, tenant: &str) -> TenantStores {
    store.tenant(&tenant.parse::<TenantId>().unwrap()).unwrap()
}

async fn plant(store: &PostgresStore, tenant: &str) {
    for subject in [&ADA, &BOB, &ADA_TOO] {
        subject.plant(&stores(store, tenant), &(Arc::new(SystemClock) as _)).await.unwrap();
    }
}

async fn erase(store: &PostgresStore, tenant: &str) {
    let erasure = ErasureLayer::new(stores(store, tenant), None).unwrap();
    let request = EraseResource::new("ada".parse().unwrap(), NewAudit::new("admin".parse().unwrap()));
    assert!(!erasure.erase_resource(request, &IgnoreProgress).await.unwrap().stopped);
}

/// Tests PV-3: a dump of the database has the text before the erasure, in every table that keeps texts of callers, and
/// not after it.
#[tokio::test(flavor = "multi_thread")]
async fn an_erased_text_is_in_no_table() {
    let server = Postgres::start(&[]).unwrap();
    let store = open(&server.url()).await;
    plant(&store, "default").await;
    let before = dump(&server);
    assert!(count(&before, &ADA) > 50 && count(&before, &ADA_TOO) > 50, "{}", count(&before, &ADA));
    let has_text = |table: &&str| {
        let rows = before.split("COPY agentstore.").find(|text| text.starts_with(&format!("{table} (")));
        rows.and_then(|rows| rows.split("\n\\.\n").next()).is_some_and(|rows| rows.contains(ADA.marker))
    };
    for table in ["thread", "entry", "run", "state", "input", "event", "event_key", "outbox", "dispatch", "document"] {
        assert!(has_text(&table), "the control found nothing in {table}");
    }
    erase(&store, "default").await;
    assert!(!store.reclaim_space(&IgnoreProgress).await.unwrap().stopped);
    let after = dump(&server);
    for subject in [&ADA, &ADA_TOO] {
        let line = after.lines().find(|line| line.contains(subject.marker)).unwrap_or_default();
        assert_eq!((count(&after, subject), line), (0, ""));
    }
    assert_eq!(count(&after, &BOB), count(&before, &BOB));
    store.close().await.unwrap();
    server.stop().unwrap();
}

/// The other side of the test below. If it is started by hand, it has nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_erases() {
    let (Ok(url), Ok(tenant)) = (std::env::var(DATABASE), std::env::var(TENANT)) else { return };
    let store = open(&url).await;
    send_line("open");
    erase(&store, &tenant).await;
    send_line("erased");
    store.close().await.unwrap();
}

/// Tests PV-2: whenever the process is killed, the next one ends the erasure. Then the text is in no table, and
/// everything of others is as before.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_erasure_goes_on() {
    let (server, kills) = (Postgres::start(&[]).unwrap(), TestLength::pick_by_env(5, 40, 200));
    let store = open(&server.url()).await;
    let (mut moments, mut killed) = (KillMoments::new(seed_from_env("AGENTSTORE_SEED")), 0);
    while killed < kills {
        // One tenant for each round: what earlier rounds left would be found, too.
        let (round, url) = (moments.rounds(), server.url());
        let tenant = format!("tenant-{round}");
        plant(&store, &tenant).await;
        let bob = count(&dump(&server), &BOB);
        let task = [(DATABASE, url.as_str()), (TENANT, tenant.as_str())];
        let mut process = Process::begin(&[], "processes::erasure::a_process_erases", &task);
        assert_eq!(process.next_line().as_deref(), Some("open"));
        std::thread::sleep(moments.delay());
        let is_killed = !process.kill().contains(&"erased".to_owned());
        moments.report(is_killed);
        killed += usize::from(is_killed);
        erase(&store, &tenant).await;
        assert!(!store.reclaim_space(&IgnoreProgress).await.unwrap().stopped);
        let after = dump(&server);
        assert_eq!((count(&after, &ADA), count(&after, &ADA_TOO), count(&after, &BOB)), (0, 0, bob), "round {round}");
        store.delete_tenant(&tenant.parse().unwrap()).await.unwrap();
    }
    println!("{killed} erasures were killed, {} were not; all ended", moments.rounds() - killed);
    store.close().await.unwrap();
    server.stop().unwrap();
}

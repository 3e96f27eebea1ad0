//! Settings of servers and streams with which accepted data may be lost (NA-5), and stores of newer releases (NA-9).

use store_core::{Detail, ErrorKind, IdSource, Store as _, UuidSource, health::Severity};
use store_nats::{NatsConfig, NatsStore};

use crate::fixture::server_url;

async fn client() -> async_nats::Client {
    async_nats::connect(server_url()).await.unwrap()
}

fn config() -> NatsConfig {
    NatsConfig::new(&server_url()).unwrap().with_prefix(&format!("test-{}", UuidSource.next_id())).unwrap()
}

async fn call_api(operation: &str, parameters: String) {
    let answer = client().await.request(format!("$JS.API.{operation}"), parameters.into()).await.unwrap();
    assert!(!String::from_utf8_lossy(&answer.payload).contains("\"error\""), "{answer:?}");
}

async fn remove_streams(config: &NatsConfig) {
    for suffix in ["", "-data"] {
        call_api(&format!("STREAM.DELETE.{}{suffix}", config.prefix()), String::new()).await;
    }
}

/// Returns the setting because of which a store was refused, and the option that permits it.
async fn refused_setting_and_permitting_option(config: NatsConfig) -> (String, String) {
    let error = NatsStore::open(config).await.unwrap_err();
    match error.detail() {
        Detail::UnsafeDurability { setting, option } => (setting.clone(), option.clone()),
        _ => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_single_server_without_assured_syncs_is_refused() {
    let mut config = config();
    let expected = ("sync_interval".to_owned(), "assume_sync".to_owned());
    assert_eq!(refused_setting_and_permitting_option(config.clone()).await, expected);
    config.assume_sync = true;
    let store = NatsStore::open(config.clone()).await.unwrap();
    assert_eq!(store_core::Store::capabilities(&store).survives, store_core::Survives::Power);
    remove_streams(&config).await;
}

/// Tests NA-5 and CP-6: a store that is opened all the same reports the setting as a problem.
#[tokio::test]
async fn streams_that_may_lose_data_are_refused() {
    for (setting, json) in [
        ("storage", r#""storage":"memory","discard":"new""#),
        ("discard", r#""storage":"file","discard":"old""#),
        ("max_age", r#""storage":"file","discard":"new","max_age":60000000000,"duplicate_window":1000000000"#),
        ("max_msgs_per_subject", r#""storage":"file","discard":"new","max_msgs_per_subject":1"#),
    ] {
        let mut config = config();
        config.assume_sync = true;
        let prefix = config.prefix().to_owned();
        call_api(
            &format!("STREAM.CREATE.{prefix}"),
            format!(r#"{{"name":"{prefix}","subjects":["{prefix}.log.>"],{json}}}"#),
        )
        .await;
        let expected = (setting.to_owned(), "allow_unsafe".to_owned());
        assert_eq!(refused_setting_and_permitting_option(config.clone()).await, expected);
        config.allow_unsafe = true;
        let store = NatsStore::open(config.clone()).await.unwrap();
        let findings = store.health().await.unwrap().findings;
        let found: Vec<_> = findings.iter().filter(|finding| finding.about == setting).collect();
        assert_eq!((found.len(), found[0].severity), (1, Severity::Problem), "{findings:?}");
        assert!(found[0].text.contains(&format!("the stream `{prefix}` has `{setting}`")), "{findings:?}");
        drop(store);
        remove_streams(&config).await;
    }
}

/// Tests CP-6: streams as a store creates them are in order, and the clock is that of this host.
#[tokio::test]
async fn streams_of_a_store_have_no_problem() {
    let mut config = config();
    config.assume_sync = true;
    let store = NatsStore::open(config.clone()).await.unwrap();
    let health = store.health().await.unwrap();
    assert_eq!(health.findings, []);
    let offset = health.clock.unwrap().offset_ms();
    assert!(offset.abs() < 100, "{offset}");
    let value = |name: &str| health.facts.iter().find(|fact| fact.name == name).map(|fact| fact.value.as_str());
    assert_eq!(value(&format!("{}: storage", config.prefix())), Some("file"));
    assert!(value("server").is_some_and(|version| version.starts_with("2.")));
    drop(store);
    (config.assume_sync, config.allow_unsafe) = (false, true);
    let findings = NatsStore::open(config.clone()).await.unwrap().health().await.unwrap().findings;
    assert_eq!((findings.len(), findings[0].about.as_str()), (1, "sync_interval"));
    remove_streams(&config).await;
}

#[tokio::test]
async fn a_store_of_a_newer_release_is_refused() {
    let mut config = config();
    config.assume_sync = true;
    drop(NatsStore::open(config.clone()).await.unwrap());
    let subject = format!("{}.log.meta", config.prefix());
    client().await.request(subject, r#"{"v":2}"#.into()).await.unwrap();
    assert_eq!(NatsStore::open(config.clone()).await.unwrap_err().kind(), ErrorKind::SchemaMismatch);
    remove_streams(&config).await;
}

#[tokio::test]
async fn an_unreachable_server_is_unavailable() {
    let config = NatsConfig::new("nats://127.0.0.1:1/?assume_sync=true").unwrap();
    assert_eq!(NatsStore::open(config).await.unwrap_err().kind(), ErrorKind::Unavailable);
}

//! Test P0 of docs/reliability.md: a server that may lose what it acknowledged is refused (PO-6).

use store_core::{
    Detail, Error, ErrorKind, Store as _,
    health::{Finding, Severity},
};
use store_postgres::{PostgresConfig, PostgresStore};
use test_servers::Postgres;

/// Returns the setting because of which a store refuses the server, and the option that allows the setting.
async fn refused_setting(server: &Postgres) -> (String, String) {
    let config = PostgresConfig::new(&server.url()).unwrap();
    let error: Error = PostgresStore::open(config).await.unwrap_err();
    match error.detail() {
        Detail::UnsafeDurability { setting, option } => (setting.clone(), option.clone()),
        _ => panic!("{error:?}"),
    }
}

/// Returns what the health of a store says about a setting.
async fn findings_about(store: &PostgresStore, about: &str) -> Vec<Finding> {
    let findings = store.health().await.unwrap().findings;
    findings.into_iter().filter(|finding| finding.about == about).collect()
}

/// Tests PO-6 and CP-6: a store that is opened all the same reports the setting as a problem.
#[tokio::test]
async fn unsafe_settings_are_refused_by_name() {
    for setting in ["fsync", "full_page_writes", "synchronous_commit"] {
        let unsafe_setting = format!("{setting}=off");
        let server = Postgres::start(&[&unsafe_setting]).unwrap();
        assert_eq!(refused_setting(&server).await, (unsafe_setting, "allow_unsafe=true".to_owned()));
        let allowed = PostgresConfig::new(&format!("{}&allow_unsafe=true", server.url())).unwrap();
        let store = PostgresStore::open(allowed).await.unwrap();
        let findings = findings_about(&store, setting).await;
        assert_eq!(findings[0].severity, Severity::Problem);
        assert!(findings[0].advice.contains(&format!("set `{setting} = on`")), "{findings:?}");
    }
    let server = Postgres::start(&[]).unwrap();
    let store = PostgresStore::open(PostgresConfig::new(&server.url()).unwrap()).await.unwrap();
    let health = store.health().await.unwrap();
    let problems = health.findings.iter().filter(|finding| finding.severity == Severity::Problem).count();
    assert_eq!((problems, health.clock.unwrap().offset_ms()), (0, 0), "{health:?}");
}

/// Tests CP-6: a pool that is larger than the server allows, and a URL that names a pooler where there is none.
#[tokio::test]
async fn wrong_settings_of_the_url_are_found() {
    let server = Postgres::start(&["max_connections=20", "autovacuum=off"]).unwrap();
    let open = async |parameters: &str| {
        let url = format!("{}&allow_unsafe=true&{parameters}", server.url());
        PostgresStore::open(PostgresConfig::new(&url).unwrap()).await.unwrap()
    };
    let store = open("connections=21").await;
    assert_eq!(findings_about(&store, "max_connections").await[0].severity, Severity::Problem);
    assert_eq!(findings_about(&store, "autovacuum").await[0].severity, Severity::Problem);
    assert!(findings_about(&store, "pooler").await.is_empty());
    let store = open("connections=2&pooler=transaction").await;
    assert!(findings_about(&store, "max_connections").await.is_empty());
    assert_eq!(findings_about(&store, "pooler").await[0].severity, Severity::Note);
}

#[tokio::test]
async fn a_standby_is_refused() {
    let mut server = Postgres::start(&[]).unwrap();
    let _store = PostgresStore::open(PostgresConfig::new(&server.url()).unwrap()).await.unwrap();
    server.shut_down().unwrap();
    std::fs::write(server.data().join("standby.signal"), "").unwrap();
    server.restart().unwrap();
    assert_eq!(refused_setting(&server).await.0, "a standby");
    // If the parameter `target_session_attrs` requires a server that accepts writes, the error names this parameter,
    // even with `allow_unsafe`.
    for requirement in ["primary", "read-write"] {
        let url = format!("{}&allow_unsafe=true&target_session_attrs={requirement}", server.url());
        let refusal = PostgresStore::open(PostgresConfig::new(&url).unwrap()).await.unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::Invalid);
        assert!(refusal.to_string().contains("target_session_attrs"), "{refusal}");
    }
}

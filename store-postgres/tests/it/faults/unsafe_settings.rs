//! Test P0 of docs/reliability.md: a server that may lose what it acknowledged is refused (PO-6).

use store_core::{Detail, Error, ErrorKind};
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

#[tokio::test]
async fn unsafe_settings_are_refused_by_name() {
    for setting in ["fsync", "full_page_writes", "synchronous_commit"] {
        let unsafe_setting = format!("{setting}=off");
        let server = Postgres::start(&[&unsafe_setting]).unwrap();
        assert_eq!(refused_setting(&server).await, (unsafe_setting, "allow_unsafe=true".to_owned()));
        let allowed = PostgresConfig::new(&format!("{}&allow_unsafe=true", server.url())).unwrap();
        let _store = PostgresStore::open(allowed).await.unwrap();
    }
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

//! The effects of URL parameters on a real server.

use std::{net::TcpListener, time::Duration};

use sqlx::{Connection, PgConnection};
use store_core::{ErrorKind, IdSource, UuidSource};
use store_postgres::{PostgresConfig, PostgresStore, TestSchema};
use tokio::time::Instant;

use crate::{faults::unknown_outcome::server_socket, fixture::server_url};

/// A URL with a user, no host, and the folder of the socket as a parameter, as libpq accepts it.
fn url(parameters: &str) -> String {
    let folder = server_socket().parent().unwrap().display().to_string();
    format!("postgres://postgres@/postgres?host={folder}&allow_unsafe=true&{parameters}")
}

fn config(parameters: &str) -> PostgresConfig {
    PostgresConfig::new(&url(parameters)).unwrap()
}

#[tokio::test]
async fn url_parameters_of_hosting_providers_are_applied() {
    let name = format!("ours {}", UuidSource.next_id());
    let parameters = format!(
        "application_name={}&connect_timeout=5&target_session_attrs=read-write&channel_binding=prefer&gssencmode=disable\
        &keepalives=0&options=-c%20lock_timeout%3D7s%20-c%20search_path%3Dpg_catalog%2C%5C%20public",
        name.replace(' ', "%20")
    );
    let test_schema = TestSchema::create(config(&parameters)).await.unwrap();
    let store = test_schema.open().await.unwrap();
    let mut connection = PgConnection::connect(&server_url()).await.unwrap();
    let count_sessions = sqlx::query_scalar("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1");
    let sessions: i64 = count_sessions.bind(&name).fetch_one(&mut connection).await.unwrap();
    assert!(sessions > 0);
    drop(store);
    test_schema.remove().await.unwrap();
}

/// `options` are applied to the sessions before `target_session_attrs` is checked.
#[tokio::test]
async fn read_only_sessions_are_refused_if_the_url_requires_writes() {
    let read_only = "options=-c%20default_transaction_read_only%3Don&target_session_attrs=";
    let refusal = PostgresStore::open(config(&format!("{read_only}read-write"))).await.unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::Invalid);
    let text = refusal.to_string();
    assert!(["target_session_attrs", "default_transaction_read_only"].iter().all(|part| text.contains(part)), "{text}");
    // The server is a primary, so the target is accepted. The schema is missing, and this session cannot create it.
    let refusal = PostgresStore::open(config(&format!("{read_only}primary&schema=nowhere"))).await.unwrap_err();
    assert_ne!(refusal.kind(), ErrorKind::Invalid, "{refusal}");
}

/// The server is a listener that accepts the connection and sends nothing.
#[tokio::test]
async fn connecting_ends_within_its_timeout() {
    let silent_server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://ada@{}/x?connect_timeout=1", silent_server.local_addr().unwrap());
    let began = Instant::now();
    let refusal = PostgresStore::open(PostgresConfig::new(&url).unwrap()).await.unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::Unavailable, "{refusal}");
    let elapsed = began.elapsed();
    assert!((Duration::from_millis(900)..Duration::from_secs(4)).contains(&elapsed), "{elapsed:?}");
}

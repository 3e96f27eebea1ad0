//! Test SEC6 of docs/reliability.md: no error shows the password, whatever goes wrong.

use std::{error::Error as _, time::Duration};

use store_core::{Store, TenantId};
use store_postgres::{PostgresConfig, PostgresStore};
use test_servers::Postgres;
use tokio::net::TcpListener;

const PASSWORD: &str = "canary-7f3a";

fn check_no_password(text: &str) {
    assert!(!text.contains("canary"), "{text}");
}

/// Returns all texts of an error and of its sources.
fn all_texts(error: &store_core::Error) -> String {
    let mut all_texts = format!("{error} {error:?} {error:#?}");
    let mut source = error.source();
    while let Some(cause) = source {
        all_texts += &format!(" {cause} {cause:?}");
        source = cause.source();
    }
    all_texts
}

async fn check_error_hides_password(url: &str) {
    let mut config = match PostgresConfig::new(url) {
        Ok(config) => config,
        Err(error) => return check_no_password(&all_texts(&error)),
    };
    config.acquire_timeout = Duration::from_millis(500);
    check_no_password(&format!("{config:?} {config:#?}"));
    check_no_password(&all_texts(&PostgresStore::open(config).await.unwrap_err()));
}

#[tokio::test]
async fn no_error_shows_the_password() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_address = listener.local_addr().unwrap();
    let server = Postgres::start(&["password_encryption=scram-sha-256"]).unwrap();
    // From now on every user needs a password, and `PASSWORD` is a wrong one.
    std::fs::write(server.data().join("pg_hba.conf"), "local all all scram-sha-256\n").unwrap();
    assert!(server.program("pg_ctl").arg("reload").arg("-D").arg(server.data()).output().unwrap().status.success());
    let (login, socket) = (format!("postgres:{PASSWORD}"), server.folder().display().to_string());
    for url in [
        format!("postgres://{login}@localhost/postgres?host={socket}"),
        format!("postgres://nobody:{PASSWORD}@localhost/postgres?host={socket}"),
        format!("postgres://postgres@localhost/postgres?host={socket}&password={PASSWORD}"),
        format!("postgres://{login}@localhost/nothing?host={socket}"),
        format!("postgres://{login}@localhost/postgres?host=/nowhere"),
        format!("postgres://{login}@127.0.0.1:1/postgres"),
        format!("postgres://{login}@{silent_address}/postgres"),
        format!("postgres://{login}@{silent_address}/postgres?sslmode=require"),
        format!("postgres://{login}@nowhere.invalid/postgres"),
        format!("postgres://{login}@{silent_address}/postgres?sslmode=verify-full&sslrootcert=/nowhere"),
        format!("postgres://{login}@localhost/postgres?host={socket}&schema={PASSWORD}"),
        format!("postgres://{login}@localhost/postgres?host={socket}&port={PASSWORD}"),
        format!("postgres://{login}@localhost/postgres?host={socket}&sslmode={PASSWORD}"),
        format!("postgres://{login}@localhost/postgres?host={socket}&what={PASSWORD}"),
        format!("postgres://{login}@[::1/postgres"),
        format!("postgres:{login}@localhost"),
        format!("mysql://{login}@localhost/postgres"),
    ] {
        check_error_hides_password(&url).await;
    }
}

#[tokio::test]
async fn no_store_shows_the_password() {
    let server = Postgres::start(&[]).unwrap();
    let url = format!("postgres://postgres:{PASSWORD}@localhost/postgres?host={}", server.folder().display());
    let store = PostgresStore::open(PostgresConfig::new(&url).unwrap()).await.unwrap();
    check_no_password(&format!("{store:?} {store:#?}"));
    check_no_password(&format!("{:?}", store.tenant(&TenantId::default_tenant()).unwrap()));
    store.close().await.unwrap();
    check_no_password(&all_texts(&store.tenant(&TenantId::default_tenant()).unwrap_err()));
}

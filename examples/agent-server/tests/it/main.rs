//! Runs two servers on one store.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue panics at that line")]

mod server;

use agentstore::{
    IdSource, UuidSource,
    postgres::{PostgresConfig, TestSchema},
};

use self::server::Server;

/// A setting that one server changes reaches the other. A run keeps what was published when it started. Both servers
/// show the same.
fn check_two_servers(server: &mut Server, other: &mut Server) {
    other.wait_for("settings: temperature=0.7");
    server.ask("set temperature 0.2");
    server.wait_for("settings: temperature=0.2");
    other.wait_for("settings: temperature=0.2");

    assert_eq!(server.ask("publish p-1 Answer briefly."), "snapshot 1 is p-1: agent/assistant@1");
    assert_eq!(server.ask("start r-1 What is a store?"), "r-1 uses agent/assistant@1");
    assert_eq!(server.ask("publish p-2 Answer in rhymes."), "snapshot 2 is p-2: agent/assistant@2");
    assert_eq!(server.ask("start r-2 What is a thread?"), "r-2 uses agent/assistant@2");
    assert_eq!(server.ask("rollback 1 p-3"), "snapshot 3 is p-3: agent/assistant@3");
    assert_eq!(server.ask("start r-3 What is a run?"), "r-3 uses agent/assistant@3");
    for (run, used) in
        [("r-1", r#"1: "Answer briefly.""#), ("r-2", r#"2: "Answer in rhymes.""#), ("r-3", r#"3: "Answer briefly.""#)]
    {
        let expected = format!("{run} uses agent/assistant@{used}, with temperature=0.2");
        for server in [&mut *server, &mut *other] {
            assert_eq!(server.ask(&format!("show {run}")), expected);
        }
    }
    let answer = server.ask("finish r-1");
    assert_eq!(answer, r#"r-1 uses agent/assistant@1: "Answer briefly.", with temperature=0.2"#);
    assert_eq!(server.ask("finish r-1"), "error: run: run `r-1` cannot go from done to done");
    assert_eq!(server.ask("publish p-1 Answer."), "error: publication `p-1` already exists");
    assert_eq!(server.ask("show r-4"), "error: there is no run r-4");
    assert_eq!(server.ask("sing"), "error: there is no such command; `help` lists them");
}

#[test]
fn servers_on_postgresql_share_settings_and_publications() {
    let server_url = std::env::var("AGENTSTORE_TEST_POSTGRES_URL").unwrap();
    let separator = if server_url.contains('?') { '&' } else { '?' };
    let schema = format!("test_{}", UuidSource.next_id().replace('-', ""));
    let url = format!("{server_url}{separator}allow_unsafe=true&schema={schema}");
    let mut server = Server::start(&url, &[]);
    assert_eq!(server.ask("set temperature 0.7"), "temperature has revision 1");
    let mut other = Server::start(&url, &[]);
    check_two_servers(&mut server, &mut other);
    // Each of the servers may change the settings.
    other.ask("set temperature 1");
    server.wait_for("settings: temperature=1");
    drop((server, other));
    let schema = TestSchema::from_config(PostgresConfig::new(&url).unwrap());
    tokio::runtime::Runtime::new().unwrap().block_on(schema.remove()).unwrap();
}

#[test]
fn a_server_that_reads_a_folder_follows_the_one_that_writes() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file:{}", folder.path().join("store").display());
    let mut server = Server::start(&url, &[]);
    assert_eq!(server.ask("set temperature 0.7"), "temperature has revision 1");
    let mut other = Server::start(&url, &["--read-only"]);
    check_two_servers(&mut server, &mut other);
    assert!(other.ask("set temperature 1").starts_with("error: "));
    // The next process finds everything.
    assert!(server.end().success());
    let mut next = Server::start(&url, &[]);
    next.wait_for("settings: temperature=0.2");
    assert_eq!(next.ask("show r-2"), r#"r-2 uses agent/assistant@2: "Answer in rhymes.", with temperature=0.2"#);
}

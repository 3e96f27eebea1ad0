//! Test P3 of docs/reliability.md: the connection is cut at every message of a commit. The outcome that is reported is
//! true. After the commit was repeated with the same key, it has exactly one effect (ER-2, ER-3, ER-4, CM-10).

use conformance_tests::TestLength;
use store_core::{EntryQuery, Limits};
use store_postgres::{PostgresConfig, PostgresStore};

use super::{
    helpers::{commit_with_message, commits, stores, thread, was_not_applied},
    proxy::{Cut, Proxy},
};
use crate::fixture::{SchemaGuard, server_url};

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_connection_is_cut_has_one_effect() {
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let proxy = Proxy::start(server_socket()).await;
    let mut config = PostgresConfig::new(&proxy.url()).unwrap().with_schema(test_schema.config().schema()).unwrap();
    (config.connections, config.uses_test_clock) = (1, true);
    let (direct, proxied) = (test_schema.open().await.unwrap(), PostgresStore::open(config).await.unwrap());
    let (direct, proxied, threads) = (commits(&direct), commits(&proxied), stores(&direct).threads.unwrap());
    let (mut cuts, mut without_effect, mut without_answer) = (0, 0, 0);
    while cuts < TestLength::pick_by_env(30, 100, 1_000) {
        for cut_at in Cut::ALL {
            for at in 0.. {
                let id = thread(format!("t-{cuts}"));
                // The first commit prepares the statement, so the second one usually finds it prepared.
                let _first = proxied.commit(commit_with_message(&id, "first")).await.unwrap();
                proxy.request_cut(cut_at(at));
                let answer = proxied.commit(commit_with_message(&id, "second")).await;
                if !proxy.end_cut() {
                    let _receipt = answer.unwrap();
                    break;
                }
                cuts += 1;
                let repeated = direct.commit(commit_with_message(&id, "second")).await.unwrap();
                assert!(answer.is_err() || repeated.deduplicated, "{:?}: an acknowledged commit is lost", cut_at(at));
                assert!(
                    !was_not_applied(&answer) || !repeated.deduplicated,
                    "{:?}: a commit that was `NotApplied` exists",
                    cut_at(at)
                );
                without_effect += usize::from(!repeated.deduplicated);
                without_answer += usize::from(answer.is_err());
                let page = threads.list_entries(&id, EntryQuery::default()).await.unwrap();
                assert_eq!(page.items.len(), 2, "{:?}", cut_at(at));
            }
        }
    }
    println!("{cuts} cuts: {without_answer} commits without an answer, of which {without_effect} had no effect");
    assert!(
        without_effect > 0 && without_answer > without_effect,
        "all cuts were before the effect, or all were after it"
    );
}

/// Returns the path of the socket of the server that tests use.
pub(crate) fn server_socket() -> std::path::PathBuf {
    let url = url::Url::parse(&server_url()).unwrap();
    let folder = url.query_pairs().find_map(|(key, value)| (key == "host").then(|| value.into_owned()));
    std::path::Path::new(&folder.expect("the server is reached by a socket")).join(".s.PGSQL.5432")
}

//! Test P6 of docs/reliability.md: many writers that expect the same version (CM-5, PO-12).

use std::sync::Arc;

use conformance_tests::TestLength;
use store_core::{ErrorKind, Expect, Limits};

use super::helpers::{commit_with_message, commits, thread};
use crate::fixture::SchemaGuard;

const WRITERS: usize = 64;

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_commits_that_expect_the_same_version_succeeds() {
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let stores = [test_schema.store().await.unwrap(), test_schema.store().await.unwrap()];
    let mut expect = Expect::Absent;
    for round in 0..TestLength::pick_by_env(4, 10, 100) {
        let write = |writer: usize| {
            let commits = commits(&*stores[writer % 2]);
            let commit = commit_with_message(&thread("t"), &format!("{round}-{writer}")).expecting(expect);
            tokio::spawn(async move { Arc::clone(&commits).commit(commit).await })
        };
        let writers: Vec<_> = (0..WRITERS).map(write).collect();
        let (mut new_versions, mut error_kinds) = (Vec::new(), Vec::new());
        for writer in writers {
            match writer.await.unwrap() {
                Ok(receipt) => new_versions.push(receipt.version),
                Err(error) => error_kinds.push(error.kind()),
            }
        }
        assert_eq!(new_versions.len(), 1, "{new_versions:?}");
        assert!(error_kinds.iter().all(|kind| *kind == ErrorKind::Conflict), "{error_kinds:?}");
        expect = Expect::Version(new_versions[0]);
    }
}

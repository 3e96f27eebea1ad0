//! Writes of several keys, and operations on stored values.

use store_core::{DocumentExpect, ErrorKind, ProfileChange, ProfileStore, StateOp, WriteProfile};

use super::helpers::{ada, expect_profile, load, profiles, put, put_value, write};
use crate::{
    Given, Verdict,
    check::{expect_eq, expect_kind, expect_some},
    given::{id, run_concurrently},
    log::entry_drafts::json,
};

/// Several keys are put and deleted in one call, and get one revision.
pub(super) async fn several_keys_change_together(given: &Given) -> Verdict {
    put_value(given, &ada(), "old", "1").await?;
    let revision = write(given, &ada(), [put("a", "1"), ProfileChange::delete(id("old")), put("b", "2")]).await?;
    expect_profile(given, &ada(), "a=1 b=2").await?;
    for key in ["a", "b"] {
        expect_eq(expect_some(load(given, &ada(), key).await?, "value")?.revision, revision)?;
    }
    Ok(())
}

/// If one change of a write is refused, none is made.
pub(super) async fn a_refused_write_changes_no_key(given: &Given) -> Verdict {
    put_value(given, &ada(), "a", "1").await?;
    let refused = put("c", "3").expecting(DocumentExpect::Present);
    let wrong_type = ProfileChange::new(id("a"), StateOp::Append(vec![json("1")]));
    for (changes, kind) in [
        (vec![put("a", "2"), put("b", "2"), refused.clone()], ErrorKind::Conflict),
        (vec![ProfileChange::delete(id("a")), refused], ErrorKind::Conflict),
        (vec![put("b", "2"), wrong_type], ErrorKind::Invalid),
        (vec![], ErrorKind::Invalid),
    ] {
        expect_kind(profiles(given)?.write_profile(WriteProfile::new(ada(), changes)).await, kind)?;
    }
    expect_profile(given, &ada(), "a=1").await
}

/// A write that names a key twice is refused.
pub(super) async fn a_write_names_a_key_once(given: &Given) -> Verdict {
    for second in [put("a", "2"), ProfileChange::delete(id("a")), ProfileChange::new(id("a"), StateOp::Add(1))] {
        let request = WriteProfile::new(ada(), [put("a", "1"), second]);
        expect_kind(profiles(given)?.write_profile(request).await, ErrorKind::Invalid)?;
    }
    expect_profile(given, &ada(), "").await
}

/// Operations change a value as those of the state of a thread do.
pub(super) async fn operations_follow_the_rules_of_the_state(given: &Given) -> Verdict {
    let operations = || {
        [
            ProfileChange::new(id("count"), StateOp::Add(2)),
            ProfileChange::new(id("list"), StateOp::Append(vec![json("1")])),
            ProfileChange::new(id("max"), StateOp::Max(-5)),
            ProfileChange::new(id("object"), StateOp::Merge(json(r#"{"b":2}"#))),
        ]
    };
    write(given, &ada(), operations()).await?;
    expect_profile(given, &ada(), r#"count=2 list=[1] max=-5 object={"b":2}"#).await?;
    write(given, &ada(), [put("max", "3"), put("object", r#"{"a":1,"b":1}"#)]).await?;
    write(given, &ada(), operations()).await?;
    expect_profile(given, &ada(), r#"count=4 list=[1,1] max=3 object={"a":1,"b":2}"#).await
}

/// An operation with an expectation that does not hold is refused.
pub(super) async fn an_operation_checks_its_expectation(given: &Given) -> Verdict {
    let revision = put_value(given, &ada(), "count", "1").await?;
    let add = |expect| ProfileChange::new(id("count"), StateOp::Add(1)).expecting(expect);
    for expect in [DocumentExpect::Absent, DocumentExpect::Revision(revision + 1)] {
        let refused = profiles(given)?.write_profile(WriteProfile::new(ada(), [add(expect)])).await;
        expect_kind(refused, ErrorKind::Conflict)?;
    }
    write(given, &ada(), [add(DocumentExpect::Revision(revision))]).await?;
    expect_profile(given, &ada(), "count=2").await
}

/// Of concurrent additions to one value none is refused, and none is lost.
pub(super) async fn concurrent_additions_all_count(given: &Given) -> Verdict {
    const WRITERS: usize = 6;
    const ADDITIONS: usize = 5;
    let store = profiles(given)?;
    let results = run_concurrently(WRITERS, |_| {
        let store = store.clone();
        async move {
            for _ in 0..ADDITIONS {
                let add = ProfileChange::new(id("count"), StateOp::Add(1));
                store.write_profile(WriteProfile::new(ada(), [add])).await?;
            }
            Ok::<_, store_core::Error>(())
        }
    });
    results.await.into_iter().collect::<store_core::Result<Vec<()>>>()?;
    expect_profile(given, &ada(), &format!("count={}", WRITERS * ADDITIONS)).await
}

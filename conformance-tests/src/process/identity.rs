//! The identity of a store, by which two openings of it are recognised.

use std::collections::BTreeSet;

use crate::{
    Given, Verdict,
    check::{expect, expect_eq},
};

/// Two stores of one backend have two identities, also in one process. That of an open store does not change.
pub(super) async fn another_store_has_another_identity(given: &Given) -> Verdict {
    let (second, third) = (given.open_another_store().await?, given.open_another_store().await?);
    let identities = || [given, &second, &third].map(|given| given.store().identity());
    let (first_read, second_read) = (identities(), identities());
    expect_eq(&first_read, &second_read)?;
    // A store that cannot tell has none.
    let known: Vec<_> = first_read.into_iter().flatten().collect();
    let distinct: BTreeSet<_> = known.iter().map(|identity| identity.as_str().to_owned()).collect();
    expect_eq(distinct.len(), known.len())
}

/// A store that has an identity has the same one in each opening.
pub(super) async fn each_opening_of_a_store_has_its_identity(given: &Given) -> Verdict {
    let Some(identity) = given.store().identity() else { return Ok(()) };
    // A backend may refuse a second opening.
    let Ok(second) = given.open_second_time().await? else { return Ok(()) };
    let second_identity = second.identity();
    expect(second_identity.as_ref() == Some(&identity), format!("{second_identity:?} instead of {identity:?}"))
}

//! Owners of profiles: lists, clearing, and that they are apart from each other.

use store_core::{ProfileOwner, ProfileStore, SharedScope};

use super::helpers::{ada, expect_profile, profiles, put, put_value, write};
use crate::{Given, Verdict, check::expect_eq, given::id};

/// All owners with the same id.
fn owners(name: &str) -> [ProfileOwner; 8] {
    [
        ProfileOwner::Agent(id(name)),
        ProfileOwner::User(id(name)),
        ProfileOwner::System,
        ProfileOwner::Shared(SharedScope::Global),
        ProfileOwner::Shared(SharedScope::ParentThread(id(name))),
        ProfileOwner::Shared(SharedScope::AgentType(id(name))),
        ProfileOwner::Shared(SharedScope::Thread(id(name))),
        ProfileOwner::Shared(SharedScope::Custom(id(name))),
    ]
}

/// A profile is listed in the order of its keys, in pages, each value once.
pub(super) async fn a_profile_is_listed_by_key_in_pages(given: &Given) -> Verdict {
    write(given, &ada(), ["c", "a", "e", "d", "b"].map(|key| put(key, "1"))).await?;
    expect_profile(given, &ada(), "a=1 b=1 c=1 d=1 e=1").await
}

/// A list has the values of one owner, not those of an owner whose id begins with its id.
pub(super) async fn a_list_has_one_owner(given: &Given) -> Verdict {
    for name in ["ada", "adam", "ad", "ada/theme"] {
        put_value(given, &ProfileOwner::User(id(name)), "key", &format!("{name:?}")).await?;
    }
    expect_profile(given, &ada(), r#"key="ada""#).await
}

/// Clearing a profile removes all its values, returns their number, and leaves those of other owners.
pub(super) async fn clearing_removes_the_values_of_one_owner(given: &Given) -> Verdict {
    let adam = ProfileOwner::User(id("adam"));
    write(given, &ada(), ["a", "b", "c"].map(|key| put(key, "1"))).await?;
    put_value(given, &adam, "a", "2").await?;
    put_value(given, &ProfileOwner::Agent(id("ada")), "a", "3").await?;
    expect_eq(profiles(given)?.clear_profile(&ada()).await?, 3)?;
    expect_profile(given, &ada(), "").await?;
    expect_profile(given, &adam, "a=2").await?;
    expect_profile(given, &ProfileOwner::Agent(id("ada")), "a=3").await?;
    expect_eq(profiles(given)?.clear_profile(&ada()).await?, 0)
}

/// Owners of different types have their own values, even if their ids are equal.
pub(super) async fn owners_with_equal_ids_are_apart(given: &Given) -> Verdict {
    for (index, owner) in owners("same").iter().enumerate() {
        put_value(given, owner, "key", &index.to_string()).await?;
    }
    for (index, owner) in owners("same").iter().enumerate() {
        expect_profile(given, owner, &format!("key={index}")).await?;
    }
    Ok(())
}

/// Keys and ids of owners are kept as they are given: no case is folded, and nothing is trimmed or split.
pub(super) async fn keys_are_kept_as_given(given: &Given) -> Verdict {
    let names = ["key", "Key", " key", "key ", "a/b", "a", "b", "../key", "é", "e\u{301}"];
    for name in names {
        write(given, &ada(), [put(name, &format!("\"{name}\""))]).await?;
        put_value(given, &ProfileOwner::Agent(id(name)), "key", "1").await?;
    }
    for name in names {
        let found = super::helpers::load(given, &ada(), name).await?;
        expect_eq(found.map(|value| value.value.to_string()), Some(format!("\"{name}\"")))?;
        expect_profile(given, &ProfileOwner::Agent(id(name)), "key=1").await?;
    }
    Ok(())
}

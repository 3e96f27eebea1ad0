//! Owners of profiles: lists, clearing, and that they are apart from each other.

use store_core::{DocumentExpect, ErrorKind, ProfileOwner, ProfileStore, ProfileStoreExt, SharedScope};

use super::helpers::{ada, expect_profile, profiles, put, put_value, write};
use crate::{
    Failure, Given, Verdict,
    check::{expect_eq, expect_kind},
    given::id,
};

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

/// All owners that have values, separated by spaces, listed `limit` at a time.
async fn owners_in_list(given: &Given, limit: u32) -> Result<String, Failure> {
    let (store, mut found) = (profiles(given)?, Vec::new());
    for _ in 0..30 {
        let more = store.list_owners(found.last(), limit).await?;
        if more.is_empty() {
            break;
        }
        found.extend(more);
    }
    Ok(found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
}

/// The list of owners has each owner with values once, in the order of types and ids, and goes on after any owner. An
/// owner without values is not listed.
pub(super) async fn owners_are_listed_once_in_order(given: &Given) -> Verdict {
    expect_eq(owners_in_list(given, 2).await?.as_str(), "")?;
    for owner in owners("a").iter().chain(&owners("b/c")) {
        write(given, owner, ["x", "y", "z"].map(|key| put(key, "1"))).await?;
    }
    let all = "agent:a agent:b/c user:a user:b/c system global parent_thread:a parent_thread:b/c agent_type:a \
               agent_type:b/c thread:a thread:b/c custom:a custom:b/c";
    for limit in [1, 3, 14, 1_000] {
        expect_eq(owners_in_list(given, limit).await?.as_str(), all)?;
    }
    let store = profiles(given)?;
    let after = ProfileOwner::User(id("ada"));
    expect_eq(store.list_owners(Some(&after), 2).await?, vec![ProfileOwner::User(id("b/c")), ProfileOwner::System])?;
    for key in ["x", "y", "z"] {
        store.delete_profile(&ProfileOwner::System, id(key), DocumentExpect::Present).await?;
    }
    expect_eq(owners_in_list(given, 3).await?, all.replace(" system", ""))?;
    for limit in [0, 1_001] {
        expect_kind(store.list_owners(None, limit).await, ErrorKind::Invalid)?;
    }
    Ok(())
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

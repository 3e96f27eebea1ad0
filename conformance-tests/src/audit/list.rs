//! Lists of audit records and their filters.

use std::time::Duration;

use store_core::{
    ErrorKind, PageRequest,
    layers::{
        audit::{AuditAction, AuditQuery, ResourceFilter, TextFilter},
        config::ConfigChange,
    },
};

use super::helpers::{
    audit, exactly, expect_records, list, newest, next_record, put_as_ada, resource, restart, write_audited,
};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    config::helpers::name,
};

/// Records are listed newest first. A page has a cursor if and only if there are more records.
pub(super) async fn records_are_listed_newest_first_in_pages(given: &Given) -> Verdict {
    for path in ["a", "b", "c", "d"] {
        restart(given, "ada", path).await?;
    }
    let all = AuditQuery::new();
    expect_records(given, &all, "ada restart d, ada restart c, ada restart b, ada restart a").await?;
    let page = |limit| all.clone().with_page(PageRequest::first(limit));
    let first = audit(given)?.list_audit(page(3)).await?;
    expect_eq((first.items.len(), first.next.is_some()), (3, true))?;
    let last = audit(given)?.list_audit(page(3).after(expect_some(first.next, "cursor")?)).await?;
    expect_eq((last.items.len(), last.next.is_some()), (1, false))?;
    expect(audit(given)?.list_audit(page(4)).await?.next.is_none(), "a cursor at the end of the list")?;
    for wrong in [0, 1_001] {
        expect_kind(audit(given)?.list_audit(page(wrong)).await, ErrorKind::Invalid)?;
    }
    Ok(())
}

/// A list of an actor has the records of this actor only.
pub(super) async fn records_of_an_actor_are_listed(given: &Given) -> Verdict {
    for (actor, path) in [("ada", "a"), ("bob", "b"), ("ada", "c"), ("adam", "d")] {
        restart(given, actor, path).await?;
    }
    expect_records(given, &AuditQuery::new().by(exactly("ada")), "ada restart c, ada restart a").await?;
    expect_records(given, &AuditQuery::new().by(exactly("ad")), "").await
}

/// A list of a prefix has the records of all actors whose ids begin with it, however few of all records that are.
pub(super) async fn records_of_actors_with_a_prefix_are_listed(given: &Given) -> Verdict {
    for actor in ["user:ada", "agent:x", "agent:y", "user:bob", "agent:z", "agent:z", "agent:z"] {
        restart(given, actor, "a").await?;
    }
    let users = AuditQuery::new().by(TextFilter::Prefix("user:".to_owned()));
    expect_records(given, &users, "user:bob restart a, user:ada restart a").await?;
    let page = audit(given)?.list_audit(users.with_page(PageRequest::first(1))).await?;
    expect_eq((page.items.len(), page.next.is_some()), (1, true))
}

/// A list of a resource has the records of this resource only.
pub(super) async fn records_of_a_resource_are_listed(given: &Given) -> Verdict {
    for path in ["a/b", "a", "a/b/c", "a/bc", "a/b"] {
        restart(given, "ada", path).await?;
    }
    let query = |path| AuditQuery::new().about(ResourceFilter::Exact(resource(path)));
    expect_records(given, &query("a/b"), "ada restart a/b, ada restart a/b").await?;
    expect_records(given, &query("b"), "").await
}

/// A list of a folder has the records of everything below it, and not those of the folder itself.
pub(super) async fn records_below_a_folder_are_listed(given: &Given) -> Verdict {
    for path in ["a", "a/b", "a/b/c", "ab/c", "b/a/c"] {
        restart(given, "ada", path).await?;
    }
    let below = |path| AuditQuery::new().about(ResourceFilter::Below(resource(path)));
    expect_records(given, &below("a"), "ada restart a/b/c, ada restart a/b").await?;
    expect_records(given, &below("a/b"), "ada restart a/b/c").await?;
    expect_records(given, &below("a/b/c"), "").await
}

/// A folder may be deeper than those that have an order of their own.
pub(super) async fn records_below_a_deep_folder_are_listed(given: &Given) -> Verdict {
    for path in ["1/2/3/4/5/6/7/8", "1/2/3/4/5/6/x", "1/2/3/4/5/6/7", "1/2/3/4/5/y/7/8"] {
        restart(given, "ada", path).await?;
    }
    let below = |path| AuditQuery::new().about(ResourceFilter::Below(resource(path)));
    expect_records(given, &below("1/2/3/4/5/6/7"), "ada restart 1/2/3/4/5/6/7/8").await?;
    expect_eq(list(given, &below("1/2/3/4/5/6")).await?.len(), 3)?;
    expect_eq(list(given, &below("1/2/3/4/5")).await?.len(), 4)
}

/// A list of actions has the records of these actions only. An empty list of actions matches nothing.
pub(super) async fn records_of_actions_are_listed(given: &Given) -> Verdict {
    put_as_ada(given, "a", "1").await?;
    restart(given, "ada", "r").await?;
    put_as_ada(given, "a", "2").await?;
    write_audited(given, ConfigChange::delete(name("a"))).await?;
    let of = |actions: &[AuditAction]| AuditQuery::new().with_actions(actions.iter().cloned());
    expect_records(given, &of(&[AuditAction::Restart]), "ada restart r").await?;
    let both = of(&[AuditAction::Create, AuditAction::Delete]);
    expect_records(given, &both, "ada delete config/ns/a, ada create config/ns/a").await?;
    expect_records(given, &of(&[]), "").await
}

/// The first time of a list is included, and the last one is not.
pub(super) async fn records_of_a_time_are_listed(given: &Given) -> Verdict {
    let mut times = Vec::new();
    for path in ["a", "b", "c"] {
        times.push(restart(given, "ada", path).await?.time);
        given.advance(Duration::from_secs(1)).await;
    }
    let all = AuditQuery::new;
    expect_records(given, &all().from(times[1]), "ada restart c, ada restart b").await?;
    expect_records(given, &all().before(times[1]), "ada restart a").await?;
    expect_records(given, &all().from(times[0]).before(times[2]), "ada restart b, ada restart a").await?;
    expect_records(given, &all().from(times[2]).before(times[2]), "").await
}

/// A record must pass every filter that is set.
pub(super) async fn all_filters_must_hold(given: &Given) -> Verdict {
    for (actor, path) in [("ada", "f/a"), ("bob", "f/a"), ("ada", "g/a"), ("ada", "f/b")] {
        restart(given, actor, path).await?;
    }
    let below_f = || AuditQuery::new().about(ResourceFilter::Below(resource("f")));
    expect_records(given, &below_f().by(exactly("ada")), "ada restart f/b, ada restart f/a").await?;
    let exact = AuditQuery::new().about(ResourceFilter::Exact(resource("f/a")));
    expect_records(given, &exact.by(TextFilter::Prefix("b".to_owned())), "bob restart f/a").await?;
    expect_records(given, &below_f().by(exactly("ada")).with_actions([AuditAction::Create]), "").await
}

/// The cursor of one actor, resource or folder is refused by the list of another one.
pub(super) async fn a_cursor_belongs_to_one_order(given: &Given) -> Verdict {
    for _ in 0..2 {
        restart(given, "ada", "f/a").await?;
    }
    let first = |query: AuditQuery| query.with_page(PageRequest::first(1));
    let of_ada = audit(given)?.list_audit(first(AuditQuery::new().by(exactly("ada")))).await?;
    let cursor = expect_some(of_ada.next, "cursor")?;
    let others = [
        AuditQuery::new(),
        AuditQuery::new().by(exactly("bob")),
        AuditQuery::new().about(ResourceFilter::Exact(resource("f/a"))),
        AuditQuery::new().about(ResourceFilter::Below(resource("f"))),
    ];
    for other in others {
        expect_kind(audit(given)?.list_audit(first(other).after(cursor.clone())).await, ErrorKind::InvalidCursor)?;
    }
    expect_eq(newest(given).await?.resource.as_str(), "f/a")
}

/// A subscription gives the stored records that pass the filters, oldest first, and then each new one.
pub(super) async fn a_subscription_gives_old_and_new_records(given: &Given) -> Verdict {
    for (actor, path) in [("ada", "a/1"), ("bob", "a/2"), ("ada", "b/1"), ("ada", "a/3")] {
        restart(given, actor, path).await?;
    }
    let query = AuditQuery::new().by(exactly("ada")).about(ResourceFilter::Below(resource("a")));
    let mut records = audit(given)?.subscribe_audit(query).await?;
    for path in ["a/1", "a/3"] {
        expect_eq(next_record(&mut records).await?.resource, resource(path))?;
    }
    for (actor, path) in [("bob", "a/4"), ("ada", "b/2"), ("ada", "a/5")] {
        restart(given, actor, path).await?;
    }
    expect_eq(next_record(&mut records).await?, newest(given).await?)
}

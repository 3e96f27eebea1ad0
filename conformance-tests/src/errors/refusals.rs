//! One refused call for each way in which a contract refuses.

use store_core::{
    ChildStrategy, ClaimNumber, Commit, ContextRequest, Cursor, DeleteRequest, EntryQuery, Error, Expect, Fence, Json,
    Label, Message, NewEntry, NewThread, PageRequest, PruneRequest, Result, Role, RunChange, RunOutcome, RunStatus,
    StateChange, StateOp, TenantStores, ThreadFields, ThreadId, ThreadPatch, ThreadQuery, Timestamp, Version,
};

use crate::{
    case::Contract,
    check::Failure,
    given::{id, said, say, say_keyed},
};

/// What was called, and the error that it ended with.
pub(crate) type Refused = (&'static str, Error);

/// A secret that requests carry as content, and that no error may show.
pub(crate) const CANARY: &str = "Kanarienvogel-42";

/// Makes what the refusals are about, then makes every refused call. None of them changes anything.
pub(crate) async fn refusals(contract: Contract, stores: &TenantStores) -> std::result::Result<Vec<Refused>, Failure> {
    prepare(stores).await?;
    refused_calls(contract, stores).await
}

/// Threads `parent` and `child`, a log `t`, a done run `over` and a running one `on`.
pub(crate) async fn prepare(stores: &TenantStores) -> std::result::Result<(), Failure> {
    let (Some(threads), Some(commits)) = (&stores.threads, &stores.commits) else {
        return Err(Failure::new("the store has no threads"));
    };
    threads.create_thread(NewThread::new(id("parent"))).await?;
    threads.create_thread(NewThread::new(id("child")).with_fields(below("parent"))).await?;
    threads.create_thread(NewThread::new(id("gone"))).await?;
    threads.delete_thread(&id("gone"), DeleteRequest::default()).await?;
    let on = RunChange::new(id("on"), RunStatus::Running).with_agent(id("agent"));
    let over = RunChange::new(id("over"), RunStatus::done(RunOutcome::NaturalEnd)).with_agent(id("agent"));
    for commit in [
        say_keyed(&id("t"), "key", CANARY).with_run(on),
        Commit::new(id("t")).with_run(over),
        Commit::new(id("t")).entry(said("x").with_id(id("e"))).with_key(id("key-2")),
        Commit::new(id("t")).with_state(StateChange::new().set("text", Json::of(CANARY)?)).fenced(fence(9)),
    ] {
        let _receipt = commits.commit(commit).await?;
    }
    Ok(())
}

fn below(parent: &str) -> ThreadFields {
    let mut fields = ThreadFields::default();
    fields.parent_thread_id = Some(id(parent));
    fields
}

fn fence(counter: u64) -> Fence {
    Fence::new(id("dispatch"), CANARY, 1, ClaimNumber { incarnation: 0, counter })
}

/// Every refused call of a contract, after [`prepare`].
pub(crate) async fn refused_calls(
    contract: Contract,
    stores: &TenantStores,
) -> std::result::Result<Vec<Refused>, Failure> {
    let ends = match contract {
        Contract::ThreadRunStore => of_threads(stores).await,
        Contract::CommitCoordinator => of_commits(stores).await,
    };
    ends.into_iter()
        .map(|(call, ended)| match ended {
            Ok(()) => Err(Failure::new(format!("`{call}` was not refused"))),
            Err(error) => Ok((call, error)),
        })
        .collect()
}

async fn of_threads(stores: &TenantStores) -> Vec<(&'static str, Result<()>)> {
    let Some(threads) = &stores.threads else { return Vec::new() };
    let mut late = NewThread::new(id("new"));
    late.at = Some(Timestamp::MAX);
    let mut long = NewThread::new(id("new"));
    long.fields.title = Some(CANARY.repeat(100));
    let titled = || ThreadPatch::default().with_title(CANARY);
    let stale = Expect::Version(Version::new(77, 1, 0));
    let delete = |children, expect| DeleteRequest { children, expect };
    let reject = delete(ChildStrategy::Reject, Expect::Any);
    let forged = PageRequest::first(2).after(Cursor::from_text("forged"));
    let own = ThreadPatch::default().with_parent(Some(id("child")));
    let prune = PruneRequest { idle: std::time::Duration::ZERO, limit: 0, dry_run: false };
    let t: ThreadId = id("t");
    vec![
        ("create: taken", threads.create_thread(NewThread::new(t.clone())).await.map(drop)),
        ("create: parent", threads.create_thread(NewThread::new(id("new")).with_fields(below("no"))).await.map(drop)),
        ("create: time", threads.create_thread(late).await.map(drop)),
        ("create: title", threads.create_thread(long).await.map(drop)),
        ("update: unknown", threads.update_thread(&id("unknown"), titled(), Expect::Any).await.map(drop)),
        ("update: stale", threads.update_thread(&t, titled(), stale).await.map(drop)),
        ("update: cycle", threads.update_thread(&id("parent"), own, Expect::Any).await.map(drop)),
        ("delete: unknown", threads.delete_thread(&id("unknown"), DeleteRequest::default()).await.map(drop)),
        ("delete: children", threads.delete_thread(&id("parent"), reject).await.map(drop)),
        ("delete: stale", threads.delete_thread(&t, delete(ChildStrategy::Detach, stale)).await.map(drop)),
        ("prune: limit", threads.prune_threads(prune).await.map(drop)),
        ("validate_parent", threads.validate_parent(&id("parent"), &id("child")).await),
        ("list: cursor", threads.list_threads(ThreadQuery::default().with_page(forged.clone())).await.map(drop)),
        ("list: limit", threads.list_entries(&t, EntryQuery::all().with_page(PageRequest::first(0))).await.map(drop)),
        ("entries: cursor", threads.list_entries(&t, EntryQuery::all().with_page(forged)).await.map(drop)),
        ("context: thread", threads.load_context(&id("unknown"), ContextRequest::head()).await.map(drop)),
        ("context: entry", threads.load_context(&t, ContextRequest::at(id("unknown"))).await.map(drop)),
    ]
}

async fn of_commits(stores: &TenantStores) -> Vec<(&'static str, Result<()>)> {
    let Some(commits) = &stores.commits else { return Vec::new() };
    let mut ends = Vec::new();
    for (call, commit) in refused_commits() {
        ends.push((call, commits.commit(commit).await.map(drop)));
    }
    ends
}

/// A commit for each reason to refuse one.
fn refused_commits() -> Vec<(&'static str, Commit)> {
    let t: ThreadId = id("t");
    let keyed = |entry: NewEntry| Commit::new(id("t")).with_key(id("new-key")).entry(said(CANARY)).entry(entry);
    let state = |op| Commit::new(id("t")).with_state(StateChange::new().set("other", Json::null()).with("text", op));
    let run = |name: &str| RunChange::new(id(name), RunStatus::Running);
    let other = Expect::Version(Version::new(77, 1, 0));
    let twice = StateChange::new().set(CANARY.repeat(20), Json::null()).remove(CANARY.repeat(20));
    let mut outside = run("on");
    outside.input = vec![store_core::EntryRange { from: 1, to: 99 }];
    vec![
        ("nothing", Commit::new(t.clone())),
        ("no guard", say(&t, Expect::Any, CANARY)),
        ("message", keyed(NewEntry::new(Message::new(Role::Tool, vec![])))),
        ("state twice", Commit::new(t.clone()).with_state(twice)),
        ("deleted", say_keyed(&id("gone"), "k", CANARY)),
        ("key", say_keyed(&t, "key", "other content")),
        ("fence", keyed(said("x")).fenced(fence(3))),
        ("version", say(&t, other, CANARY)),
        ("absent", say(&t, Expect::Absent, CANARY)),
        ("state revision", Commit::new(t.clone()).with_state(StateChange::new().set("k", Json::null()).expecting(99))),
        ("run transition", keyed(said("x")).with_run(run("over"))),
        ("run agent", keyed(said("x")).with_run(run("on").with_agent(id("another")))),
        ("run range", keyed(said("x")).with_run(outside)),
        ("new run without agent", keyed(said("x")).with_run(run("new"))),
        ("run elsewhere", Commit::new(id("child")).with_run(run("on"))),
        ("entry taken", keyed(said("x").with_id(id("e")))),
        ("entry parent", keyed(said("x").below(id("unknown")))),
        ("label target", keyed(NewEntry::new(Label::new(id("unknown"), Some(CANARY.to_owned()))))),
        ("time", keyed(said("x")).at(Timestamp::MAX)),
        ("state type", state(StateOp::Add(1))),
        ("parent", Commit::new(id("new")).expecting(Expect::Absent).entry(said("x")).creating(below("unknown"))),
        ("unknown", say(&id("new"), other, CANARY)),
    ]
}

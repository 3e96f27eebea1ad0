//! A script of calls that reaches everything that writes: for stops at every call of the disk.

use std::time::Duration;

use store_core::{
    AppendEvents, AppendPending, ChildStrategy, ClaimNumber, ClaimRequest, ClaimToken, Commit, CommitKey, Compaction,
    Decision, DecisionAction, Expect, Fence, InputRef, Interrupt, Interval, Json, Label, Message, NewBody, NewDispatch,
    NewEntry, NewEvent, NewInput, NewOutboxRow, NewThread, OutboxSettlement, ParentRef, PendingUpdate, Reorder,
    RewindTo, RunChange, RunOutcome, RunStatus, Scope, Settlement, StateChange, StateOp, ThreadFields, ThreadPatch,
    Ticket, TokenCounts, UsageRecord, Version, WaitingReason, WaitingState, When,
};

use crate::{
    documents,
    work::{Under, Work},
    world::{Call, said, saying, thread},
};

/// Calls that are made together, at a time, for a tenant.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) seconds: u64,
    pub(crate) tenant: &'static str,
    pub(crate) calls: Vec<Call>,
}

/// Four weeks, and more than a thread id is remembered for.
pub(crate) const LATER: u64 = 400 * 86_400;

pub(crate) fn script() -> Vec<Step> {
    let parts = [
        opening(),
        runs(),
        inputs(),
        events(),
        outbox(),
        branches(),
        families(),
        fences(),
        work(),
        documents::calls(),
        others(),
        much_later(),
    ];
    let steps = parts.into_iter().flatten().enumerate();
    let step =
        |(number, (tenant, later, calls)): (usize, (_, u64, _))| Step { seconds: later + number as u64, tenant, calls };
    steps.map(step).collect()
}

pub(crate) type Part = Vec<(&'static str, u64, Vec<Call>)>;

fn one(call: Call) -> (&'static str, u64, Vec<Call>) {
    ("default", 0, vec![call])
}

fn commit(commit: Commit) -> Call {
    Call::Commit(Box::new(commit))
}

fn body(key: &str, body: impl Into<NewBody>) -> Commit {
    let entry = NewEntry::new(body).with_id(format!("{key}.0").parse().unwrap());
    Commit::new(thread("a")).with_key(CommitKey::new(key).unwrap()).entry(entry)
}

/// A value with something set.
fn made<T: Default>(set: impl FnOnce(&mut T)) -> T {
    let mut value = T::default();
    set(&mut value);
    value
}

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

fn opening() -> Part {
    let fields = made(|fields: &mut ThreadFields| fields.title = Some("a title".to_owned()));
    let first = saying("a", "a1", &["hello", "there"]).creating(fields).expecting(Expect::Absent);
    let set = StateChange::new().set("plan", json(r#"{"step":1}"#)).set("n", json("1")).set("gone", json("[]"));
    let change = StateChange::new().with("n", StateOp::Add(4)).remove("gone").with("m", StateOp::Max(7));
    vec![
        one(commit(first)),
        one(commit(saying("b", "b1", &["in another thread"]))),
        one(commit(saying("a", "a2", &["a longer text ".repeat(60).as_str()]).with_state(set))),
        one(commit(saying("a", "a2b", &["once more"]).with_state(change))),
        // The same key again: nothing is written.
        one(commit(saying("b", "b1", &["in another thread"]))),
        one(commit(saying("b", "b2", &["at a version"]).expecting(Expect::Version(Version::new(1, 1, 0))))),
        ("default", 0, (0..3).map(|n| commit(saying("b", &format!("b3.{n}"), &["together", "x"]))).collect()),
        // Refused: nothing is written.
        one(commit(saying("b", "b9", &["at an old version"]).expecting(Expect::Version(Version::new(1, 1, 0))))),
        one(Call::Create(Box::new(NewThread::new(thread("c"))))),
        one(Call::Update(thread("c"), Box::new(ThreadPatch::default().with_title("c, a title")))),
    ]
}

fn runs() -> Part {
    let run = |key: &str, status| {
        saying("a", key, &["in a run"])
            .with_run(RunChange::new("r-1".parse().unwrap(), status).with_agent("coder".parse().unwrap()))
    };
    let usage = made(|usage: &mut UsageRecord| {
        (usage.spent, usage.context_size) = (Some(TokenCounts::new(10, 3)), Some(99));
    });
    let child = RunChange::new("r-2".parse().unwrap(), RunStatus::Created).with_agent("helper".parse().unwrap());
    vec![
        one(commit(run("r1", RunStatus::Created))),
        one(commit(run("r2", RunStatus::Running).with_state(StateChange::new().set("in", json("true"))))),
        one(commit(saying("b", "r3", &["a second run"]).with_run(child))),
        one(commit(body("u1", usage))),
        one(commit(run("r4", RunStatus::waiting(WaitingReason::UserInput)))),
        one(commit(run("r5", RunStatus::Running))),
        one(commit(run("r6", RunStatus::done(RunOutcome::NaturalEnd)))),
    ]
}

fn inputs() -> Part {
    let input = |id: &str, text: &str| NewInput::message(Message::user(text)).with_id(id.parse().unwrap());
    let append = |to: &str, inputs: Vec<NewInput>| one(Call::Append(AppendPending::new(thread(to), inputs)));
    let change = PendingUpdate::new(thread("a"), "i-2".parse().unwrap()).with_message(Message::user("changed"));
    let order = ["i-4", "i-1", "i-2"].iter().map(|id| id.parse().unwrap()).collect();
    let consuming = |key: &str, inputs: &[(&str, u64)]| {
        let inputs = inputs.iter().map(|(id, revision)| InputRef::new(id.parse().unwrap(), *revision));
        saying("a", key, &["an answer"]).consuming(inputs)
    };
    let mut state = WaitingState::new(WaitingReason::ToolPermission);
    state.tickets.push(Ticket::new("k"));
    let run = |status| RunChange::new("r-4".parse().unwrap(), status).with_agent("coder".parse().unwrap());
    let decision = Decision::new("r-4".parse().unwrap(), "k", DecisionAction::Resume);
    let decided = || NewInput::decision(decision.clone());
    vec![
        append("a", vec![input("i-1", "one"), input("i-2", "two")]),
        append("d", vec![input("i-1", "of a thread that it makes")]),
        append("a", vec![input("i-3", "three"), input("i-4", "four")]),
        // The same again: nothing is written.
        append("a", vec![input("i-1", "one"), input("i-2", "two")]),
        one(Call::Change(Box::new(change))),
        one(Call::Retract(thread("a"), "i-3".parse().unwrap())),
        one(Call::Reorder(Reorder::new(thread("a"), 4, order))),
        one(commit(consuming("i1", &[("i-2", 3), ("i-4", 2)]))),
        one(commit(consuming("i2", &[("i-2", 3)]))),
        one(commit(Commit::new(thread("a")).with_run(run(RunStatus::Running)))),
        one(commit(Commit::new(thread("a")).with_run(run(RunStatus::Waiting(Box::new(state)))))),
        append("a", vec![decided().with_id("i-5".parse().unwrap())]),
        append("a", vec![decided()]),
        one(commit(consuming("i3", &[("i-5", 6)]).with_run(run(RunStatus::done(RunOutcome::NaturalEnd))))),
        append("a", vec![decided()]),
        one(Call::Delete(thread("d"), ChildStrategy::Detach)),
    ]
}

fn events() -> Part {
    let of_thread = |id: &str| Scope::Thread(thread(id));
    let of_run = |id: &str| Scope::Run(id.parse().unwrap());
    let fact = |kind: &str, scopes: &[Scope]| NewEvent::new(kind.parse().unwrap(), scopes.to_vec());
    let emit = |facts: Vec<NewEvent>| Call::Emit(Box::new(AppendEvents::new(facts)));
    let keyed = |facts: Vec<NewEvent>, key: &str| {
        let request = AppendEvents::new(facts).with_key("w-1".parse().unwrap(), key.parse().unwrap());
        Call::Emit(Box::new(request))
    };
    let run = |id: &str| RunChange::new(id.parse().unwrap(), RunStatus::Running).with_agent("coder".parse().unwrap());
    let with = |commit: Commit, facts: Vec<NewEvent>| self::commit(commit.with_events(AppendEvents::new(facts)));
    let fenced = |facts: Vec<NewEvent>, counter| {
        let mut request = AppendEvents::new(facts);
        let claim = ClaimNumber { incarnation: 0, counter };
        request.fence = Some(Fence::new("d-2".parse().unwrap(), ClaimToken::new("token"), 0, claim));
        Call::Emit(Box::new(request))
    };
    let (a, e, d, r5, r6, r9) =
        (of_thread("a"), of_thread("e"), of_thread("d-2"), of_run("r-5"), of_run("r-6"), of_run("r-9"));
    let both = [a.clone(), r5.clone()];
    let first = saying("a", "ev1", &["with events"]).with_run(run("r-5"));
    let of_d = saying("d-2", "ev2", &["of a thread that goes"]).with_run(run("r-6"));
    let refused = Commit::new(thread("a")).with_key("ev9".parse().unwrap());
    let refused = refused.entry(said("ev9.0", "refused").below("nowhere".parse().unwrap()));
    vec![
        one(with(first, vec![fact("started", &both), fact("noted", std::slice::from_ref(&a))])),
        one(emit(vec![fact("alone", std::slice::from_ref(&a)).with_payload(json(r#"{"n":1.50}"#))])),
        one(keyed(vec![fact("no thread", &[e.clone(), r9.clone()]), fact("no run", std::slice::from_ref(&r9))], "k-1")),
        // The same again: nothing is written.
        one(keyed(vec![fact("no thread", &[e.clone(), r9.clone()]), fact("no run", std::slice::from_ref(&r9))], "k-1")),
        one(emit(vec![fact("of a run", std::slice::from_ref(&r5)), fact("two threads", &[e.clone(), r5.clone()])])),
        (
            "default",
            0,
            vec![
                emit(vec![fact("together 1", &both)]),
                emit(vec![fact("together 2", &both)]),
                emit(vec![fact("together 3", &both)]),
            ],
        ),
        (
            "default",
            0,
            (0..2).map(|n| with(saying("a", &format!("ev3.{n}"), &["x"]), vec![fact("in turn", &both)])).collect(),
        ),
        one(with(refused, vec![fact("refused", &both)])),
        one(with(of_d, vec![fact("started", &[d.clone(), r6.clone()])])),
        one(keyed(vec![fact("under a key", &[d.clone(), r6.clone()])], "k-2")),
        one(fenced(vec![fact("under a claim", std::slice::from_ref(&d))], 3)),
        one(fenced(vec![fact("under an old claim", std::slice::from_ref(&d))], 2)),
        one(Call::Trim(d.clone(), 40)),
        one(Call::Delete(thread("d-2"), ChildStrategy::Detach)),
        one(Call::Purge),
        one(emit(vec![fact("of a deleted thread", std::slice::from_ref(&d))])),
        one(fenced(vec![fact("of a deleted thread, under a claim", std::slice::from_ref(&d))], 4)),
        one(keyed(vec![fact("under a key", &[d, r6])], "k-2")),
        one(Call::Trim(a, 45)),
        one(Call::Trim(r9, 45)),
        one(Call::Trim(of_run("z"), 45)),
        ("gone", 0, vec![emit(vec![fact("of a tenant that goes", &[e])])]),
    ]
}

fn outbox() -> Part {
    let row =
        |text: &str| NewOutboxRow::new("mail".parse().unwrap(), "ada".parse().unwrap(), json(&format!("{text:?}")));
    let behind = |text: &str| row(text).with_order_key("o".parse().unwrap());
    let keyed = |text: &str| row(text).with_dedupe_key("k".parse().unwrap());
    let send = |to: &str, rows: Vec<NewOutboxRow>| commit(Commit::new(thread(to)).with_outbox(rows));
    let refused = Commit::new(thread("a")).with_key("ob9".parse().unwrap()).with_outbox([row("refused")]);
    let refused = refused.entry(said("ob9.0", "refused").below("nowhere".parse().unwrap()));
    let retry = OutboxSettlement::Retry { after: Duration::from_secs(1), error: "no".to_owned() };
    let dead = || OutboxSettlement::DeadLetter { error: "never".to_owned() };
    vec![
        one(commit(saying("a", "ob1", &["with rows"]).with_outbox([
            behind("a1"),
            keyed("x"),
            row("y").with_max_attempts(1),
        ]))),
        one(send("d-3", vec![behind("d1"), row("of a thread that goes")])),
        one(commit(refused)),
        // The same key again: nothing is written but the thread.
        one(send("d-3", vec![keyed("x")])),
        ("default", 0, vec![send("a", vec![behind("together 1")]), send("e-3", vec![behind("together 2")])]),
        one(Call::Claim(2)),
        one(Call::Settle(OutboxSettlement::Delivered)),
        one(Call::Claim(2)),
        one(Call::Settle(retry)),
        one(Call::Claim(9)),
        one(Call::Delete(thread("d-3"), ChildStrategy::Detach)),
        one(Call::Purge),
        one(Call::Settle(OutboxSettlement::Release)),
        one(Call::Claim(1)),
        one(Call::Settle(dead())),
        one(Call::Requeue),
        one(Call::Claim(1)),
        one(send("a", vec![behind("meanwhile")])),
        one(Call::Settle(OutboxSettlement::Delivered)),
        // Leases that nobody settles.
        one(Call::Claim(9)),
        ("default", 25, vec![Call::Claim(9)]),
        ("default", 25, vec![Call::Settle(OutboxSettlement::Delivered)]),
        ("default", 25, vec![Call::PurgeRows(75)]),
        one(send("a", vec![keyed("x")])),
        ("gone", 0, vec![send("g", vec![row("of a tenant that goes")])]),
    ]
}

fn branches() -> Part {
    let checkpoint = |label: Option<&str>| NewBody::Checkpoint { number: None, label: label.map(str::to_owned) };
    let below = |key: &str, id: &str| {
        let id = id.parse().unwrap();
        Commit::new(thread("a")).with_key(key.parse().unwrap()).entry(said(&format!("{key}.0"), "a branch").below(id))
    };
    let covers = Interval::new("a1.0".parse().unwrap(), "a2.0".parse().unwrap());
    let compaction = made(|compaction: &mut Compaction| compaction.covers = Some(covers));
    let root = Commit::new(thread("a"))
        .with_key("root".parse().unwrap())
        .entry(said("root.0", "a second root").with_parent(ParentRef::Root));
    vec![
        one(commit(body("c1", checkpoint(Some("before"))))),
        one(commit(below("f1", "a1.1"))),
        one(commit(below("f2", "a1.1"))),
        one(commit(body("l1", Label::new("c1.0".parse().unwrap(), Some("named anew".to_owned()))))),
        one(commit(body("w1", RewindTo::Snapshot("named anew".to_owned())))),
        one(commit(body("p1", compaction))),
        one(commit(body("w2", RewindTo::Start))),
        one(commit(root)),
        one(commit(body("w3", RewindTo::Entry("a2.0".parse().unwrap())))),
        one(commit(body("c2", checkpoint(None)))),
        one(commit(saying("a", "s1", &["x"]).with_state(made(|state: &mut StateChange| state.clear = true)))),
    ]
}

fn families() -> Part {
    let child = |id: &str, parent: &str| {
        let fields = made(|fields: &mut ThreadFields| fields.parent_thread_id = Some(thread(parent)));
        one(Call::Create(Box::new(NewThread::new(thread(id)).with_fields(fields))))
    };
    let delete = |id: &str, children| one(Call::Delete(thread(id), children));
    vec![
        child("c.1", "c"),
        child("c.2", "c"),
        one(commit(saying("c.1", "c.1", &["of a child"]).with_run(
            RunChange::new("r-3".parse().unwrap(), RunStatus::Created).with_agent("helper".parse().unwrap()),
        ))),
        child("c.1.1", "c.1"),
        delete("c", ChildStrategy::Reject),
        delete("c", ChildStrategy::Detach),
        one(Call::Purge),
        one(commit(saying("c.2", "c.2", &["without a parent"]))),
        one(Call::Update(thread("c.2"), Box::new(ThreadPatch::default().with_parent(Some(thread("c.1")))))),
        delete("c.1", ChildStrategy::Cascade),
        one(Call::Purge),
        // An id that was used before, and a run id of a thread that is gone.
        one(commit(saying("c", "c-2", &["the second of its id"]).expecting(Expect::Absent))),
        one(commit(saying("c", "c-3", &["x"]).with_run(
            RunChange::new("r-3".parse().unwrap(), RunStatus::Created).with_agent("again".parse().unwrap()),
        ))),
        delete("c", ChildStrategy::Detach),
        one(Call::Purge),
        one(Call::Create(Box::new(NewThread::new(thread("c"))))),
    ]
}

fn fences() -> Part {
    let claim = |key: &str, counter, expect| {
        let fence =
            Fence::new("d-1".parse().unwrap(), ClaimToken::new("token"), 0, ClaimNumber { incarnation: 0, counter });
        one(commit(saying("b", key, &["under a claim"]).fenced(fence).expecting(expect)))
    };
    vec![
        claim("x1", 5, Expect::Any),
        claim("x2", 4, Expect::Any),
        claim("x3", 6, Expect::Any),
        one(Call::Delete(thread("b"), ChildStrategy::Detach)),
        one(Call::Purge),
        // The claim number of a thread that is gone is remembered.
        claim("x4", 5, Expect::Absent),
        one(Call::ResetFence(thread("b"))),
        claim("x5", 2, Expect::Absent),
    ]
}

fn dispatch(id: &str, of: &str) -> NewDispatch {
    let new = NewDispatch::new(thread(of), "r-7".parse().unwrap()).with_id(id.parse().unwrap());
    new.with_payload(json(&format!(r#"{{"of":"{id}"}}"#)))
}

fn enqueue(dispatches: Vec<NewDispatch>) -> Call {
    Call::Work(Box::new(Work::Enqueue(dispatches)))
}

fn claim_work(limit: u32) -> Call {
    let request = ClaimRequest::new("w".parse().unwrap(), Duration::from_secs(20));
    Call::Work(Box::new(Work::Claim(request.up_to(limit))))
}

fn under(id: &str, what: Under) -> Call {
    Call::Work(Box::new(Work::Under(id.parse().unwrap(), what)))
}

fn meanwhile() -> NewInput {
    NewInput::message(Message::user("meanwhile")).with_id("w-i".parse().unwrap())
}

/// A commit of everything that one can carry, but for the end of a claim.
fn whole() -> Commit {
    let row = NewOutboxRow::new("post".parse().unwrap(), "ada".parse().unwrap(), json("1"));
    let fact = NewEvent::new("with all the rest".parse().unwrap(), vec![Scope::Thread(thread("w"))]);
    let run = RunChange::new("r-w".parse().unwrap(), RunStatus::done(RunOutcome::NaturalEnd));
    saying("w", "w2", &["the end of it"])
        .consuming([InputRef::new("w-i".parse().unwrap(), 1)])
        .with_run(run.with_agent("coder".parse().unwrap()))
        .with_state(StateChange::new().set("done", json("true")))
        .with_events(AppendEvents::new([fact]))
        .with_outbox([row])
}

fn work() -> Part {
    let call = |work| one(Call::Work(Box::new(work)));
    let settle = |id: &str, settlement| one(under(id, Under::Settle(settlement)));
    let write = |id: &str, commit: Commit| one(under(id, Under::Commit(Box::new(commit))));
    let ack = || Settlement::Ack { result: Some(json(r#"{"n":1}"#)) };
    let dead = || Settlement::DeadLetter { error: "never".to_owned() };
    let alone = |id: &str| Commit::new(thread(id));
    let emit = |of: &str| {
        let fact = NewEvent::new("under a claim".parse().unwrap(), vec![Scope::Thread(thread(of))]);
        Under::Emit(Box::new(AppendEvents::new(vec![fact])))
    };
    let interrupt = |key: &str| Interrupt::new(thread("w")).because("changed").with_key(key.parse().unwrap());
    let keyed = |id: &str| dispatch(id, "w-2").with_dedupe_key("k".parse().unwrap());
    let later = |seconds, call| ("default", seconds, vec![call]);
    vec![
        one(enqueue(vec![
            dispatch("m-1", "w"),
            dispatch("m-2", "w").with_priority(1),
            keyed("m-3"),
            dispatch("m-4", "w-3").available(When::In(Duration::from_secs(12))),
        ])),
        // The same key again: nothing is written.
        one(enqueue(vec![keyed("m-9")])),
        ("default", 0, vec![enqueue(vec![dispatch("m-5", "w")]), enqueue(vec![dispatch("m-6", "w-4")])]),
        one(claim_work(2)),
        one(under("m-2", Under::Start)),
        one(under("m-2", Under::Extend(Duration::from_secs(60)))),
        write("m-2", saying("w", "w1", &["under a claim"])),
        one(under("m-2", emit("w"))),
        one(under("m-2", Under::Update(thread("w"), Box::new(ThreadPatch::default().with_title("w, a title"))))),
        one(Call::Append(AppendPending::new(thread("w"), [meanwhile()]))),
        write("m-2", whole().settling(ack())),
        // Its claim is over.
        write("m-2", saying("w", "w3", &["too late"])),
        // Of a thread that there is not: a claim that ends, one that writes alone, and one that makes the thread.
        write("m-3", alone("w-2").settling(Settlement::Release)),
        one(claim_work(9)),
        write("m-3", alone("w-2")),
        one(under("m-3", emit("w-2"))),
        write("m-3", saying("w-2", "w4", &["made under a claim"]).settling(dead())),
        call(Work::Requeue("m-3".parse().unwrap())),
        one(claim_work(9)),
        settle("m-3", Settlement::Retry { after: Duration::from_secs(2), error: "no".to_owned() }),
        write("m-1", saying("w", "w5", &["of a thread that goes"])),
        call(Work::Interrupt(interrupt("k-1"))),
        // The same again: nothing is written.
        call(Work::Interrupt(interrupt("k-1"))),
        write("m-1", saying("w", "w6", &["from before the interrupt"])),
        one(enqueue(vec![dispatch("m-7", "w"), dispatch("m-10", "w-5")])),
        call(Work::Cancel("m-10".parse().unwrap())),
        call(Work::Interrupt(interrupt("k-2").taking_over())),
        one(enqueue(vec![dispatch("m-8", "w")])),
        one(claim_work(9)),
        write("m-8", saying("w", "w7", &["again"]).settling(Settlement::Release)),
        one(Call::Delete(thread("w"), ChildStrategy::Detach)),
        one(Call::Purge),
        one(claim_work(9)),
        write("m-8", saying("w", "w8", &["the second of its id"]).expecting(Expect::Absent).settling(ack())),
        settle("m-4", Settlement::Snooze { after: Duration::from_secs(1) }),
        // Leases that nobody settles.
        one(claim_work(9)),
        later(30, claim_work(1)),
        later(30, Call::Work(Box::new(Work::Reclaim))),
        later(60, Call::Work(Box::new(Work::Reclaim))),
        later(60, Call::Work(Box::new(Work::Purge(200)))),
        // An id that was used before.
        later(60, enqueue(vec![dispatch("m-2", "w"), keyed("m-3")])),
        later(60, claim_work(9)),
        later(60, Call::Delete(thread("w"), ChildStrategy::Detach)),
        later(60, Call::Delete(thread("w-2"), ChildStrategy::Detach)),
        later(60, Call::Purge),
    ]
}

fn others() -> Part {
    let of = |tenant, call| (tenant, 0, vec![call]);
    vec![
        of("gone", enqueue(vec![dispatch("g-1", "g")])),
        of("gone", claim_work(1)),
        of("other", commit(saying("a", "o1", &["of another tenant"]))),
        of("gone", commit(saying("a", "g1", &["of a tenant that goes"]))),
        of("gone", Call::Create(Box::new(NewThread::new(thread("z"))))),
        of("gone", Call::Delete(thread("z"), ChildStrategy::Detach)),
        of("gone", Call::Purge),
        of("gone", Call::DropTenant),
        of("other", commit(saying("a", "o2", &["still there"]))),
        of("gone", commit(saying("a", "g1", &["of a tenant that came back"]))),
        of("gone", enqueue(vec![dispatch("g-1", "g")])),
        // Above what was claimed before.
        of("gone", claim_work(1)),
    ]
}

fn much_later() -> Part {
    let later = |call| ("default", LATER, vec![call]);
    vec![
        ("other", LATER, vec![Call::Prune(Duration::from_secs(3600))]),
        // What was deleted is forgotten, and nothing is idle that has a run.
        later(commit(saying("a", "y1", &["a year later"]))),
        later(commit(saying("b", "y2", &["a year later"]))),
        later(commit(saying("c", "y3", &["a year later"]))),
        later(Call::Prune(Duration::from_secs(86_400))),
        // Where the first one was cut short behind its last deletion, this one forgets what is due.
        later(Call::Prune(Duration::from_secs(86_400))),
        later(commit(saying("c.1", "y4", &["an id that was forgotten"]))),
        // The clock is set back.
        ("default", 0, vec![Call::Delete(thread("c.1"), ChildStrategy::Detach)]),
        ("default", 0, vec![commit(saying("a", "y5", &["the last"]))]),
    ]
}

//! A caller that waits is woken: a subscriber, a worker, the sender of a command. Real time stands still, so a caller
//! that is not woken waits forever, which the checker reports as a deadlock.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use shuttle::{
    future::spawn,
    sync::mpsc::{Sender, channel},
};
use store_core::{
    AppendEvents, ClaimNumber, Commit, Cursor, DeliverLive, EventQuery, EventStream, Json, LiveCommand, LiveDelivery,
    LiveTarget, NewEvent, Scope, Start, Subscribe, When,
    in_flight::{AbandonedCalls, start},
};

use crate::{
    check::{Tally, check_all_schedules},
    given::{Given, LONG_TIMEOUT, ack, claim_request, id, new_dispatch, poll_at_most, random_below, user_entry},
};

const WRITERS: usize = 2;
const COMMITS: usize = 2;
const EVENTS: usize = WRITERS * COMMITS;
const END: &str = "end";

#[test]
fn a_subscriber_sees_each_event_once() {
    check_all_schedules("a subscriber sees each event once", &["began after some", "gone"], events);
}

async fn events(tally: Tally) {
    let given = Arc::new(Given::new());
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let given = Arc::clone(&given);
            spawn(async move {
                for number in 0..COMMITS {
                    write(&given, &format!("{writer} {number}")).await;
                }
            })
        })
        .collect();
    let [first, gone] = [Arc::clone(&given), Arc::clone(&given)].map(|given| async move {
        let mut begun = given.events.subscribe(Subscribe::new(scope(), Start::First)).await.unwrap().events;
        let mut names = Vec::new();
        while names.len() < EVENTS {
            names.push(next(&mut begun).await);
        }
        names
    });
    let times = random_below(2 * EVENTS);
    let (first, gone) = (spawn(first), spawn(poll_at_most(gone, times)));
    let (subscribed, is_subscribed) = channel();
    let late = spawn(follow_from_now(Arc::clone(&given), subscribed));
    // Until here no event comes after the last one of the writers. So nothing else would wake a subscriber that missed
    // that event.
    let seen = first.await.unwrap();
    is_subscribed.recv().unwrap();
    write(&given, END).await;
    let (after, late) = late.await.unwrap();
    let all = list(&given, None).await;
    assert_eq!(seen, all[..EVENTS]);
    if let Some(gone) = gone.await.unwrap() {
        assert_eq!(gone, seen);
    } else {
        tally.count("gone");
    }
    if after.is_some() {
        tally.count("began after some");
    }
    assert_eq!(late, list(&given, after).await);
    for (writer, task) in writers.into_iter().enumerate() {
        task.await.unwrap();
        let own: Vec<_> = seen.iter().filter(|name| name.starts_with(&writer.to_string())).collect();
        assert!(own.is_sorted() && own.len() == COMMITS, "{seen:?}");
    }
}

fn scope() -> Scope {
    Scope::Thread(id("t"))
}

async fn write(given: &Given, name: &str) {
    let event = NewEvent::new(id("fact"), [scope()]).with_payload(Json::of(name).unwrap());
    let commit =
        Commit::new(id("t")).with_key(id(name)).entry(user_entry(name)).with_events(AppendEvents::new([event]));
    let _ = given.commits.commit(commit).await.unwrap();
}

async fn next(events: &mut EventStream) -> String {
    let event = poll_fn(|context| events.as_mut().poll_next(context)).await.unwrap().unwrap();
    event.payload.unwrap().to().unwrap()
}

/// Subscribes to the events from now on. Returns the cursor after which the subscription began, and the names of the
/// events that it received.
async fn follow_from_now(given: Arc<Given>, subscribed: Sender<()>) -> (Option<Cursor>, Vec<String>) {
    let mut begun = given.events.subscribe(Subscribe::new(scope(), Start::Now)).await.unwrap();
    subscribed.send(()).unwrap();
    let mut names = Vec::new();
    while names.last().is_none_or(|name| name != END) {
        names.push(next(&mut begun.events).await);
    }
    (begun.started_after, names)
}

async fn list(given: &Given, after: Option<Cursor>) -> Vec<String> {
    let mut query = EventQuery::new(scope());
    if let Some(after) = after {
        query.page = query.page.after(after);
    }
    let events = given.events.list_events(query).await.unwrap().items;
    events.iter().map(|event| event.payload.as_ref().unwrap().to().unwrap()).collect()
}

const WORKERS: usize = 2;

#[test]
fn a_worker_misses_no_work() {
    check_all_schedules("a worker misses no work", &["waits", "gone"], workers);
}

/// Each dispatch is enqueued after the previous one has ended, so nothing else would wake a worker that missed it.
async fn workers(tally: Tally) {
    let given = Arc::new(Given::new());
    let (done, is_done) = channel();
    let workers: Vec<_> = (0..WORKERS).map(|_| spawn(serve(Arc::clone(&given), done.clone(), tally.clone()))).collect();
    let times = random_below(4);
    let gone = {
        let given = Arc::clone(&given);
        spawn(async move { poll_at_most(given.wake_ups.wait(LONG_TIMEOUT), times).await.is_none() })
    };
    let later = Duration::from_secs(1);
    for (number, available) in [When::Now, When::In(later), When::Now].into_iter().enumerate() {
        given.enqueue(new_dispatch(&format!("t{number}"), &format!("d{number}")).available(available)).await;
        if available != When::Now {
            given.clock.advance(later);
        }
        is_done.recv().unwrap();
    }
    for number in 0..WORKERS {
        given.enqueue(new_dispatch(&format!("stop{number}"), &format!("stop{number}"))).await;
    }
    for worker in workers {
        worker.await.unwrap();
    }
    if gone.await.unwrap() {
        tally.count("gone");
    }
    assert_eq!(given.mailbox.count_dispatches(None).await.unwrap().acked, 3 + WORKERS as u64);
}

/// Claims and acknowledges dispatches until one tells the worker to stop. Waits while there is nothing to claim.
async fn serve(given: Arc<Given>, done: Sender<()>, tally: Tally) {
    loop {
        let Some(held) = given.mailbox.claim(claim_request()).await.unwrap().claimed.pop() else {
            tally.count("waits");
            given.wake_ups.wait(LONG_TIMEOUT).await.unwrap();
            continue;
        };
        let _ = given.mailbox.settle(vec![(held.claim(), ack())]).await.unwrap().remove(0).unwrap();
        if held.dispatch.id.as_str().starts_with("stop") {
            return;
        }
        done.send(()).unwrap();
    }
}

#[test]
fn a_sender_learns_the_outcome_of_a_command() {
    check_all_schedules("a sender learns what became of a command", &["accepted", "dropped", "gone"], commands);
}

async fn commands(tally: Tally) {
    let given = Arc::new(Given::new());
    let target = LiveTarget::new(id("t"), id("r"), id("d"), ClaimNumber { incarnation: 1, counter: 1 });
    let mut receiver = given.live.open_live(target.clone()).await.unwrap();
    let sender = {
        let given = Arc::clone(&given);
        spawn(async move { given.live.deliver(DeliverLive::new(target, LiveCommand::Cancel)).await.unwrap() })
    };
    let times = random_below(4);
    let received = poll_at_most(receiver.next(), times).await.map(|received| received.unwrap().unwrap());
    let (what, expected) = match received {
        Some(command) if random_below(2) == 0 => {
            assert_eq!(command.accept(), Some(LiveCommand::Cancel));
            ("accepted", LiveDelivery::Delivered)
        }
        Some(command) => {
            drop(command);
            ("dropped", LiveDelivery::NoReceiver)
        }
        None => ("gone", LiveDelivery::NoReceiver),
    };
    drop(receiver);
    tally.count(what);
    assert_eq!(sender.await.unwrap(), expected);
}

#[test]
fn a_call_after_an_abandoned_call_sees_its_effect() {
    check_all_schedules("a call after an abandoned call sees its effect", &["waits", "waits for nothing"], abandoned);
}

async fn abandoned(tally: Tally) {
    let (abandoned, is_done) = (Arc::new(AbandonedCalls::default()), Arc::new(AtomicBool::new(false)));
    let about = Some(id("t"));
    let (work, caller) = start(&abandoned, about.clone());
    let doing = Arc::clone(&is_done);
    let worker = spawn(async move {
        doing.store(true, Ordering::SeqCst);
        drop(work);
    });
    drop(caller);
    tally.count(if is_done.load(Ordering::SeqCst) { "waits for nothing" } else { "waits" });
    abandoned.wait(&about).await;
    assert!(is_done.load(Ordering::SeqCst));
    worker.await.unwrap();
}

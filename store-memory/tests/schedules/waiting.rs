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
    LiveTarget, NewEvent, Scope, Subscribe, SubscriptionStart, When,
    in_flight::{AbandonedCalls, start_call},
};

use crate::{
    check::{Tally, check_all_schedules},
    test_store::{
        LONG_TIMEOUT, TestStore, ack, claim_request, id, new_dispatch, poll_at_most, random_below, user_entry,
    },
};

const WRITERS: usize = 2;
const COMMITS: usize = 2;
const EVENTS: usize = WRITERS * COMMITS;
const LAST_EVENT: &str = "end";

#[test]
fn a_subscriber_sees_each_event_once() {
    check_all_schedules(
        "a subscriber sees each event once",
        &["subscription began late", "subscriber dropped"],
        subscription_scenario,
    );
}

async fn subscription_scenario(tally: Tally) {
    let test_store = Arc::new(TestStore::new());
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let test_store = Arc::clone(&test_store);
            spawn(async move {
                for number in 0..COMMITS {
                    commit_event(&test_store, &format!("{writer} {number}")).await;
                }
            })
        })
        .collect();
    let [first_subscriber, droppable_subscriber] =
        [Arc::clone(&test_store), Arc::clone(&test_store)].map(|test_store| async move {
            let mut events =
                test_store.events.subscribe(Subscribe::new(scope(), SubscriptionStart::First)).await.unwrap().events;
            let mut names = Vec::new();
            while names.len() < EVENTS {
                names.push(next_event_name(&mut events).await);
            }
            names
        });
    let max_polls = random_below(2 * EVENTS);
    let (first_subscriber, droppable_subscriber) =
        (spawn(first_subscriber), spawn(poll_at_most(droppable_subscriber, max_polls)));
    let (subscribed_sender, subscribed_receiver) = channel();
    let late_subscriber = spawn(follow_from_now(Arc::clone(&test_store), subscribed_sender));
    // So far no event follows the last event of the writers, so nothing would wake a subscriber that missed it.
    let received_names = first_subscriber.await.unwrap();
    subscribed_receiver.recv().unwrap();
    commit_event(&test_store, LAST_EVENT).await;
    let (after, late_names) = late_subscriber.await.unwrap();
    let all_names = event_names_after(&test_store, None).await;
    assert_eq!(received_names, all_names[..EVENTS]);
    if let Some(names) = droppable_subscriber.await.unwrap() {
        assert_eq!(names, received_names);
    } else {
        tally.count("subscriber dropped");
    }
    if after.is_some() {
        tally.count("subscription began late");
    }
    assert_eq!(late_names, event_names_after(&test_store, after).await);
    for (writer, task) in writers.into_iter().enumerate() {
        task.await.unwrap();
        let names_of_writer: Vec<_> =
            received_names.iter().filter(|name| name.starts_with(&writer.to_string())).collect();
        assert!(names_of_writer.is_sorted() && names_of_writer.len() == COMMITS, "{received_names:?}");
    }
}

fn scope() -> Scope {
    Scope::Thread(id("t"))
}

async fn commit_event(test_store: &TestStore, name: &str) {
    let event = NewEvent::new(id("fact"), [scope()]).with_payload(Json::of(name).unwrap());
    let commit =
        Commit::new(id("t")).with_key(id(name)).entry(user_entry(name)).with_events(AppendEvents::new([event]));
    let _ = test_store.commits.commit(commit).await.unwrap();
}

async fn next_event_name(events: &mut EventStream) -> String {
    let event = poll_fn(|context| events.as_mut().poll_next(context)).await.unwrap().unwrap();
    event.payload.unwrap().to().unwrap()
}

/// Subscribes to the events from now on. Returns the cursor after which the subscription began, and the names of the
/// events that it received.
async fn follow_from_now(test_store: Arc<TestStore>, subscribed_sender: Sender<()>) -> (Option<Cursor>, Vec<String>) {
    let mut subscription = test_store.events.subscribe(Subscribe::new(scope(), SubscriptionStart::Now)).await.unwrap();
    subscribed_sender.send(()).unwrap();
    let mut names = Vec::new();
    while names.last().is_none_or(|name| name != LAST_EVENT) {
        names.push(next_event_name(&mut subscription.events).await);
    }
    (subscription.started_after, names)
}

async fn event_names_after(test_store: &TestStore, after: Option<Cursor>) -> Vec<String> {
    let mut query = EventQuery::new(scope());
    if let Some(after) = after {
        query.page = query.page.after(after);
    }
    let events = test_store.events.list_events(query).await.unwrap().items;
    events.iter().map(|event| event.payload.as_ref().unwrap().to().unwrap()).collect()
}

const WORKERS: usize = 2;

#[test]
fn a_worker_misses_no_work() {
    check_all_schedules("a worker misses no work", &["waits", "worker dropped"], worker_scenario);
}

/// Each dispatch is enqueued after the previous one has ended, so nothing else would wake a worker that missed it.
async fn worker_scenario(tally: Tally) {
    let test_store = Arc::new(TestStore::new());
    let (done_sender, done_receiver) = channel();
    let workers: Vec<_> =
        (0..WORKERS).map(|_| spawn(serve(Arc::clone(&test_store), done_sender.clone(), tally.clone()))).collect();
    let max_polls = random_below(4);
    let droppable_wait = {
        let test_store = Arc::clone(&test_store);
        spawn(async move { poll_at_most(test_store.wake_ups.wait(LONG_TIMEOUT), max_polls).await.is_none() })
    };
    let delay = Duration::from_secs(1);
    for (number, available) in [When::Now, When::In(delay), When::Now].into_iter().enumerate() {
        test_store.enqueue(new_dispatch(&format!("t{number}"), &format!("d{number}")).available(available)).await;
        if available != When::Now {
            test_store.clock.advance(delay);
        }
        done_receiver.recv().unwrap();
    }
    for number in 0..WORKERS {
        test_store.enqueue(new_dispatch(&format!("stop{number}"), &format!("stop{number}"))).await;
    }
    for worker in workers {
        worker.await.unwrap();
    }
    if droppable_wait.await.unwrap() {
        tally.count("worker dropped");
    }
    assert_eq!(test_store.mailbox.count_dispatches(None).await.unwrap().acked, 3 + WORKERS as u64);
}

/// Claims and acknowledges dispatches until one tells the worker to stop. Waits while there is nothing to claim.
async fn serve(test_store: Arc<TestStore>, done_sender: Sender<()>, tally: Tally) {
    loop {
        let Some(claimed_dispatch) = test_store.mailbox.claim(claim_request()).await.unwrap().claimed.pop() else {
            tally.count("waits");
            test_store.wake_ups.wait(LONG_TIMEOUT).await.unwrap();
            continue;
        };
        let _ = test_store.mailbox.settle(vec![(claimed_dispatch.claim(), ack())]).await.unwrap().remove(0).unwrap();
        if claimed_dispatch.dispatch.id.as_str().starts_with("stop") {
            return;
        }
        done_sender.send(()).unwrap();
    }
}

#[test]
fn a_sender_learns_the_outcome_of_a_command() {
    check_all_schedules(
        "a sender learns the outcome of a command",
        &["accepted", "dropped", "receiver closed"],
        command_scenario,
    );
}

async fn command_scenario(tally: Tally) {
    let test_store = Arc::new(TestStore::new());
    let target = LiveTarget::new(id("t"), id("r"), id("d"), ClaimNumber { incarnation: 1, counter: 1 });
    let mut receiver = test_store.live.open_live(target.clone()).await.unwrap();
    let sender = {
        let test_store = Arc::clone(&test_store);
        spawn(async move { test_store.live.deliver(DeliverLive::new(target, LiveCommand::Cancel)).await.unwrap() })
    };
    let max_polls = random_below(4);
    let received_command = poll_at_most(receiver.next(), max_polls).await.map(|received| received.unwrap().unwrap());
    let (outcome, expected) = match received_command {
        Some(command) if random_below(2) == 0 => {
            assert_eq!(command.accept(), Some(LiveCommand::Cancel));
            ("accepted", LiveDelivery::Delivered)
        }
        Some(command) => {
            drop(command);
            ("dropped", LiveDelivery::NoReceiver)
        }
        None => ("receiver closed", LiveDelivery::NoReceiver),
    };
    drop(receiver);
    tally.count(outcome);
    assert_eq!(sender.await.unwrap(), expected);
}

#[test]
fn a_call_after_an_abandoned_call_sees_its_effect() {
    check_all_schedules(
        "a call after an abandoned call sees its effect",
        &["waits", "waits for nothing"],
        abandoned_call_scenario,
    );
}

async fn abandoned_call_scenario(tally: Tally) {
    let (abandoned_calls, is_done) = (Arc::new(AbandonedCalls::default()), Arc::new(AtomicBool::new(false)));
    let thread_of_call = Some(id("t"));
    let (work_guard, caller_guard) = start_call(&abandoned_calls, thread_of_call.clone());
    let task_is_done = Arc::clone(&is_done);
    let task = spawn(async move {
        task_is_done.store(true, Ordering::SeqCst);
        drop(work_guard);
    });
    drop(caller_guard);
    tally.count(if is_done.load(Ordering::SeqCst) { "waits for nothing" } else { "waits" });
    abandoned_calls.wait(&thread_of_call).await;
    assert!(is_done.load(Ordering::SeqCst));
    task.await.unwrap();
}

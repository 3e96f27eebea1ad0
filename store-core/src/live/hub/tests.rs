//! Tests of the hub, mostly through its senders and receivers.

use std::{future::poll_fn, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::task::{JoinHandle, yield_now};

use super::{Inbox, LiveHub, MAX_QUEUED_BYTES, MAX_QUEUED_MESSAGES};
use crate::{
    ClaimNumber, DeliverLive, DispatchId, EntryId, ErrorKind, Json, LiveChannel, LiveCommand, LiveDelivery, LiveInput,
    LiveReceiver, LiveTarget, Message, Result, RunId, ThreadId,
    codec::Codec,
    live::LiveAnswer,
    log::{Custom, Decision, DecisionAction},
};

const SHORT_DEADLINE: Duration = Duration::from_millis(5);

/// The target for attempt number `counter` of a dispatch on a thread.
fn target(thread: &str, counter: u64) -> LiveTarget {
    let run = RunId::new("r").unwrap();
    let claim = ClaimNumber { incarnation: 1, counter };
    LiveTarget::new(ThreadId::new(thread).unwrap(), run, DispatchId::new("d").unwrap(), claim)
}

fn custom_command(kind: &str) -> LiveCommand {
    LiveCommand::Custom(Custom::new(kind, Json::null()))
}

fn unknown_command() -> LiveCommand {
    LiveCommand::Unknown { kind: "pause".to_owned(), data: Json::null() }
}

async fn open_receiver(hub: &LiveHub, counter: u64) -> LiveReceiver {
    hub.open_live(target("t", counter)).await.unwrap()
}

/// Starts a delivery to the first attempt on `t`.
async fn start_delivery(hub: &Arc<LiveHub>, command: LiveCommand) -> JoinHandle<Result<LiveDelivery>> {
    let hub = Arc::clone(hub);
    let task = tokio::spawn(async move { hub.deliver(DeliverLive::new(target("t", 1), command)).await });
    for _ in 0..10 {
        yield_now().await;
    }
    task
}

async fn result_of(task: JoinHandle<Result<LiveDelivery>>) -> LiveDelivery {
    task.await.unwrap().unwrap()
}

#[tokio::test]
async fn commands_arrive_as_they_were_sent_lv_1() {
    let hub = Arc::new(LiveHub::default());
    let mut receiver = open_receiver(&hub, 1).await;
    let input = LiveInput::new(EntryId::new("e").unwrap(), Message::user("x"));
    let decision = Decision::new(RunId::new("r").unwrap(), "ticket", DecisionAction::Resume);
    for command in [
        LiveCommand::Input(vec![input]),
        LiveCommand::PendingChanged,
        LiveCommand::Cancel,
        LiveCommand::Decision(decision),
        custom_command("w"),
    ] {
        let task = start_delivery(&hub, command.clone()).await;
        let received_command = receiver.next().await.unwrap().unwrap();
        assert_eq!(received_command.command(), &command);
        assert!(!task.is_finished(), "it was answered before it was accepted");
        assert_eq!(received_command.accept(), Some(command));
        assert_eq!(result_of(task).await, LiveDelivery::Delivered);
    }
}

#[tokio::test]
async fn a_command_reported_as_dropped_is_not_accepted_later_lv_2() {
    let hub = LiveHub::default();
    let mut receiver = open_receiver(&hub, 1).await;
    let send = |hub: &LiveHub| {
        hub.shared.update_and_wake(|state, wakers| state.send(target("t", 1), custom_command("w").encode(), wakers))
    };
    let number = send(&hub).unwrap().unwrap();
    let received_command = receiver.next().await.unwrap().unwrap();
    let _another = open_receiver(&hub, 1).await;
    let answer = poll_fn(|context| hub.shared.lock().poll_answer(number, context)).await;
    assert_eq!(answer.unwrap(), LiveAnswer::Dropped);
    assert_eq!(received_command.accept(), None);
}

#[tokio::test]
async fn a_delivery_that_is_not_accepted_ends_with_no_receiver_lv_2() {
    let hub = Arc::new(LiveHub::default());
    assert_eq!(result_of(start_delivery(&hub, custom_command("no receiver")).await).await, LiveDelivery::NoReceiver);
    let mut receiver = open_receiver(&hub, 1).await;
    let task = start_delivery(&hub, custom_command("dropped")).await;
    drop(receiver.next().await.unwrap());
    assert_eq!(result_of(task).await, LiveDelivery::NoReceiver);
    let task = start_delivery(&hub, custom_command("not read")).await;
    drop(receiver);
    assert_eq!(result_of(task).await, LiveDelivery::NoReceiver);
    assert_eq!(result_of(start_delivery(&hub, custom_command("ended receiver")).await).await, LiveDelivery::NoReceiver);
    assert!(hub.shared.lock().messages.is_empty());
}

#[tokio::test]
async fn a_delivery_that_times_out_is_unknown_lv_2() {
    let hub = LiveHub::default();
    let mut receiver = open_receiver(&hub, 1).await;
    let request = DeliverLive::new(target("t", 1), custom_command("late")).within(SHORT_DEADLINE);
    assert_eq!(hub.deliver(request.clone()).await.unwrap(), LiveDelivery::Unknown);
    let (delivery, received_command) = tokio::join!(hub.deliver(request), receiver.next());
    assert_eq!(delivery.unwrap(), LiveDelivery::Unknown);
    // The first command was never received, and no sender waits for the answer to the second.
    assert_eq!(received_command.unwrap().unwrap().accept(), None);
    assert!(hub.shared.lock().messages.is_empty());
}

#[tokio::test]
async fn a_dropped_sender_withdraws_its_command() {
    let hub = Arc::new(LiveHub::default());
    let mut receiver = open_receiver(&hub, 1).await;
    let task = start_delivery(&hub, custom_command("dropped")).await;
    task.abort();
    assert!(task.await.is_err());
    let task = start_delivery(&hub, custom_command("kept")).await;
    let received_command = receiver.next().await.unwrap().unwrap();
    assert_eq!(received_command.accept(), Some(custom_command("kept")));
    assert_eq!(result_of(task).await, LiveDelivery::Delivered);
}

#[tokio::test]
async fn opening_again_ends_the_earlier_receiver_lv_3() {
    let hub = Arc::new(LiveHub::default());
    let mut earlier_receiver = open_receiver(&hub, 1).await;
    let held_task = start_delivery(&hub, custom_command("held")).await;
    let received_command = earlier_receiver.next().await.unwrap().unwrap();
    let unread_task = start_delivery(&hub, custom_command("unread")).await;
    let mut later_receiver = open_receiver(&hub, 1).await;
    assert_eq!(
        (result_of(held_task).await, result_of(unread_task).await),
        (LiveDelivery::NoReceiver, LiveDelivery::NoReceiver)
    );
    assert_eq!(received_command.accept(), None);
    assert!(earlier_receiver.next().await.unwrap().is_none());
    drop(earlier_receiver);
    let task = start_delivery(&hub, custom_command("new")).await;
    assert_eq!(later_receiver.next().await.unwrap().unwrap().accept(), Some(custom_command("new")));
    assert_eq!(result_of(task).await, LiveDelivery::Delivered);
}

#[tokio::test]
async fn commands_of_a_sender_arrive_in_order_lv_4() {
    let hub = Arc::new(LiveHub::default());
    let (mut receiver, mut other_receiver) =
        (open_receiver(&hub, 1).await, hub.open_live(target("u", 1)).await.unwrap());
    let mut tasks = Vec::new();
    for number in 0..50 {
        tasks.push(start_delivery(&hub, custom_command(&number.to_string())).await);
    }
    for (number, task) in tasks.into_iter().enumerate() {
        assert_eq!(receiver.next().await.unwrap().unwrap().accept(), Some(custom_command(&number.to_string())));
        assert_eq!(result_of(task).await, LiveDelivery::Delivered);
    }
    assert!(other_receiver.next().now_or_never().is_none(), "the command is for another thread");
}

#[tokio::test]
async fn attempts_have_separate_targets_lv_5() {
    let hub = Arc::new(LiveHub::default());
    let (mut earlier_receiver, mut current_receiver) = (open_receiver(&hub, 1).await, open_receiver(&hub, 2).await);
    let task = start_delivery(&hub, custom_command("first")).await;
    assert!(current_receiver.next().now_or_never().is_none(), "the command is for another attempt");
    assert_eq!(earlier_receiver.next().await.unwrap().unwrap().accept(), Some(custom_command("first")));
    assert_eq!(result_of(task).await, LiveDelivery::Delivered);
}

#[tokio::test]
async fn an_unreadable_command_is_refused_lv_6() {
    let hub = Arc::new(LiveHub::default());
    let mut receiver = open_receiver(&hub, 1).await;
    let (refused_task, accepted_task) =
        (start_delivery(&hub, unknown_command()).await, start_delivery(&hub, custom_command("good")).await);
    assert_eq!(receiver.next().await.unwrap().unwrap().accept(), Some(custom_command("good")));
    let error = refused_task.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("pause"), "{error}");
    assert_eq!(result_of(accepted_task).await, LiveDelivery::Delivered);
}

#[tokio::test]
async fn an_unread_inbox_holds_a_limited_number_of_commands() {
    let hub = Arc::new(LiveHub::default());
    let mut receiver = open_receiver(&hub, 1).await;
    let mut tasks = Vec::new();
    for _ in 0..MAX_QUEUED_MESSAGES {
        tasks.push(start_delivery(&hub, LiveCommand::Cancel).await);
    }
    assert_eq!(result_of(start_delivery(&hub, LiveCommand::Cancel).await).await, LiveDelivery::NoReceiver);
    assert!(tasks.iter().all(|task| !task.is_finished()));
    let _accepted = receiver.next().await.unwrap().unwrap().accept();
    assert!(!start_delivery(&hub, LiveCommand::Cancel).await.is_finished());
}

#[tokio::test]
async fn an_unread_inbox_holds_a_limited_number_of_bytes() {
    let hub = Arc::new(LiveHub::default());
    let mut receiver = open_receiver(&hub, 1).await;
    let large_command = LiveCommand::Input(vec![LiveInput::new(
        EntryId::new("e").unwrap(),
        Message::user("x".repeat(MAX_QUEUED_BYTES)),
    )]);
    let task = start_delivery(&hub, large_command).await;
    assert_eq!(result_of(start_delivery(&hub, LiveCommand::Cancel).await).await, LiveDelivery::NoReceiver);
    assert!(receiver.next().await.unwrap().unwrap().accept().is_some());
    assert_eq!(result_of(task).await, LiveDelivery::Delivered);
    assert!(!start_delivery(&hub, LiveCommand::Cancel).await.is_finished());
}

#[tokio::test]
async fn closing_the_hub_ends_its_receivers_and_deliveries() {
    let hub = Arc::new(LiveHub::default());
    let mut receiver = open_receiver(&hub, 1).await;
    let held_task = start_delivery(&hub, custom_command("held")).await;
    let received_command = receiver.next().await.unwrap().unwrap();
    let unread_task = start_delivery(&hub, custom_command("unread")).await;
    let waiting_receiver = tokio::spawn(async move { receiver.next().await.map(drop) });
    hub.close();
    for task in [held_task, unread_task, start_delivery(&hub, custom_command("later")).await] {
        assert_eq!(task.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    }
    assert_eq!(received_command.accept(), None);
    // The commands that the receiver had not read are not delivered any more.
    assert_eq!(waiting_receiver.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(hub.open_live(target("t", 1)).await.unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn an_inbox_counts_the_bytes_that_it_holds() {
    let mut inbox = Inbox::new(0);
    for (number, text) in [(1, "a"), (2, "bc"), (3, "def")] {
        assert!(inbox.put(number, text.to_owned()));
    }
    assert_eq!(inbox.pop(), Some((1, "a".to_owned())));
    assert_eq!(inbox.bytes, 5);
    inbox.remove(3);
    inbox.remove(3);
    assert_eq!(inbox.bytes, 2);
    assert!(inbox.put(4, "x".repeat(MAX_QUEUED_BYTES - 2)));
    assert!(!inbox.put(5, String::new()));
}

#[tokio::test]
async fn a_receiver_ends_when_another_process_opens_its_target_lv_3() {
    let hub = LiveHub::default();
    let mut receiver = open_receiver(&hub, 1).await;
    assert_eq!(hub.targets(), [target("t", 1)]);
    hub.end(&target("t", 2));
    assert_eq!(hub.targets(), [target("t", 1)]);
    hub.end(&target("t", 1));
    assert!(hub.targets().is_empty());
    assert!(receiver.next().await.unwrap().is_none());
}

#[tokio::test]
async fn a_hub_that_is_dropped_ends_its_receivers() {
    let hub = LiveHub::default();
    let mut receiver = open_receiver(&hub, 1).await;
    drop(hub);
    assert_eq!(receiver.next().await.map(drop).unwrap_err().kind(), ErrorKind::Closed);
}

//! Input that is delivered to running work, or put into the queue of its thread if this fails.

use std::sync::Arc;

use store_core::{
    Commit, CommitCoordinator, DeliverLive, DeliverOrQueue, DeliveredOrQueued, EntryId, ErrorKind, LiveChannel,
    LiveCommand, LiveDelivery, LiveReceiver, LiveTarget, NewEntry, PendingInput, PendingStoreExt,
};
use tokio::time::sleep;

use super::helpers::{DEADLINE, SHORT_PAUSE, live_channel, live_input, live_target, next_command};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    given::id,
};

/// The ids of the pending input of the thread `t`.
async fn queued_ids(given: &Given) -> Result<Vec<EntryId>, Failure> {
    let queue = given.commits()?.pending().load_queue(&id("t")).await?;
    Ok(queue.inputs.into_iter().map(|input| input.id).collect())
}

/// Messages are delivered to the receiver of the target, if it accepts them. If no receiver accepts them, or if there
/// is no live channel or no target, they are put into the queue with the same ids. Input that the queue would refuse is
/// always refused.
pub(super) async fn input_is_delivered_live_or_queued(given: &Given) -> Verdict {
    let (live, pending, target) = (live_channel(given)?, given.commits()?.pending(), live_target("t"));
    let request_for = |name: &str| DeliverOrQueue::new(id("t"), [live_input(name)]).with_target(target.clone());
    let answer = pending.deliver_or_queue(Some(&*live), request_for("a")).await?;
    let DeliveredOrQueued::Queued(appended) = answer else { return Err(Failure::new("delivered without a receiver")) };
    expect_eq(appended.inputs.iter().map(|input| input.id.as_str()).collect::<Vec<_>>(), vec!["a"])?;
    let mut receiver = live.open_live(target.clone()).await?;
    let (answer, received) = tokio::join!(pending.deliver_or_queue(Some(&*live), request_for("b")), async {
        Ok::<_, Failure>(expect_some(next_command(&mut receiver).await?, "command")?.accept())
    });
    expect_eq((answer?, received?), (DeliveredOrQueued::Delivered, Some(LiveCommand::Input(vec![live_input("b")]))))?;
    for (channel, request) in [(None, request_for("c")), (Some(&*live), request_for("d").with_target(None))] {
        let answer = pending.deliver_or_queue(channel, request).await?;
        expect(matches!(answer, DeliveredOrQueued::Queued(_)), "delivered without a live channel or without a target")?;
    }
    expect_eq(queued_ids(given).await?, vec![id::<EntryId>("a"), id("c"), id("d")])?;
    let to_wrong_thread = DeliverOrQueue::new(id("u"), [live_input("e")]).with_target(target.clone());
    let same_id_twice = DeliverOrQueue::new(id("t"), [live_input("e"), live_input("e")]).with_target(target.clone());
    let no_input = DeliverOrQueue::new(id("t"), []).with_target(target.clone());
    expect_kind(pending.deliver_or_queue(Some(&*live), to_wrong_thread).await, ErrorKind::Invalid)?;
    expect_kind(pending.deliver_or_queue(Some(&*live), same_id_twice).await, ErrorKind::AlreadyExists)?;
    expect_kind(pending.deliver_or_queue(Some(&*live), no_input).await, ErrorKind::Invalid).map(drop)
}

/// A worker that handles its commands in four different ways, in turn: it accepts and commits the command, drops it,
/// accepts it after its sender has given up, or accepts it after it has opened the target again. The worker ends when
/// it gets a command that is not input.
async fn run_worker(
    live: Arc<dyn LiveChannel>,
    commits: Arc<dyn CommitCoordinator>,
    (target, mut receiver): (LiveTarget, LiveReceiver),
) -> Verdict {
    for command_count in 0.. {
        let received = expect_some(receiver.next().await?, "command")?;
        if !matches!(received.command(), LiveCommand::Input(_)) {
            expect(received.accept().is_some(), "the sender of the last command gave up")?;
            break;
        }
        match command_count % 4 {
            0 => commit_input(&*commits, received.accept()).await?,
            1 => drop(received),
            2 => {
                sleep(SHORT_PAUSE * 2).await;
                commit_input(&*commits, received.accept()).await?;
            }
            _ => {
                receiver = live.open_live(target.clone()).await?;
                commit_input(&*commits, received.accept()).await?;
            }
        }
    }
    Ok(())
}

/// Commits the input of an accepted command. The commit may be refused, because the sender has put the input into the
/// queue meanwhile.
async fn commit_input(commits: &dyn CommitCoordinator, command: Option<LiveCommand>) -> Verdict {
    let Some(LiveCommand::Input(inputs)) = command else { return Ok(()) };
    let key = id(&format!("of {}", inputs[0].id));
    let entries = inputs.into_iter().map(|input| NewEntry::new(input.message).with_id(input.id));
    match commits.commit(Commit::new(id("t")).with_key(key).entries(entries)).await {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        result => Ok(result.map(drop)?),
    }
}

/// Stops a worker. Sends a command that is not input, until the worker accepts it.
async fn stop_worker(live: &dyn LiveChannel, target: &LiveTarget) -> Verdict {
    let stop = DeliverLive::new(target.clone(), LiveCommand::Cancel).within(DEADLINE);
    while live.deliver(stop.clone()).await? != LiveDelivery::Delivered {
        sleep(SHORT_PAUSE).await;
    }
    Ok(())
}

/// However a worker handles its commands, each input gets into the log once, by a commit of the worker or from the
/// queue. Input that is already in the log is refused when it is sent again.
pub(super) async fn input_enters_the_log_once(given: &Given) -> Verdict {
    let (live, commits, target) = (live_channel(given)?, given.commits()?, live_target("t"));
    let receiver = live.open_live(target.clone()).await?;
    let worker = tokio::spawn(run_worker(Arc::clone(&live), Arc::clone(&commits), (target.clone(), receiver)));
    let pending = commits.pending();
    let two_inputs = |at: usize| [live_input(&format!("{at}a")), live_input(&format!("{at}b"))];
    for at in 0..24 {
        // The first deadline is long, so that at least one delivery succeeds on a slow store. Some of the other
        // deliveries end at their deadline.
        let time_limit = if at == 0 { DEADLINE } else { SHORT_PAUSE };
        let request = DeliverOrQueue::new(id("t"), two_inputs(at)).with_target(target.clone()).within(time_limit);
        let _delivered_or_queued = pending.deliver_or_queue(Some(&*live), request).await?;
    }
    stop_worker(&*live, &target).await?;
    worker.await.map_err(|panic| Failure::new(panic.to_string()))??;
    let queue = pending.load_queue(&id("t")).await?;
    expect(!queue.inputs.is_empty(), "no input was queued")?;
    let inputs = queue.inputs.iter().map(PendingInput::to_input_ref);
    given.expect_accepted(Commit::new(id("t")).with_key(id("rest")).consuming(inputs)).await?;
    let log = given.read_log(&id("t")).await?;
    expect(queue.inputs.len() < log.len(), "no input was delivered live")?;
    let mut found: Vec<_> = log.iter().map(|entry| entry.id.clone()).collect();
    let mut wanted: Vec<EntryId> = (0..24).flat_map(two_inputs).map(|input| input.id).collect();
    found.sort();
    wanted.sort();
    expect_eq(found, wanted)?;
    let repeated_request = DeliverOrQueue::new(id("t"), two_inputs(3)).with_target(target);
    expect_kind(pending.deliver_or_queue(Some(&*live), repeated_request).await, ErrorKind::AlreadyConsumed).map(drop)
}

//! Tests of `deliver_or_queue`, with a queue and a channel that give fixed answers.

use std::sync::Mutex;

use async_trait::async_trait;

use crate::{
    AppendPending, AppendedInputs, Boundary, ClaimNumber, DeliverLive, DeliverOrQueue, DeliveredOrQueued, Detail,
    DispatchId, EntryId, Error, ErrorKind, InputRef, LiveChannel, LiveCommand, LiveDelivery, LiveInput, LiveReceiver,
    LiveTarget, Message, Page, PageRequest, PendingInput, PendingQueue, PendingStore, PendingStoreExt, PendingUpdate,
    Reorder, Result, RunId, ThreadId,
};

/// A queue or a channel that gives a fixed answer, and the requests that it received.
struct FixedAnswer<Q, A> {
    requests: Mutex<Vec<Q>>,
    answer: fn() -> Result<A>,
}

impl<Q, A> FixedAnswer<Q, A> {
    fn new(answer: fn() -> Result<A>) -> Self {
        Self { requests: Mutex::default(), answer }
    }

    fn answer_request(&self, request: Q) -> Result<A> {
        self.requests.lock().unwrap().push(request);
        (self.answer)()
    }
}

type FixedQueue = FixedAnswer<AppendPending, AppendedInputs>;
type FixedChannel = FixedAnswer<DeliverLive, LiveDelivery>;

#[async_trait]
impl PendingStore for FixedQueue {
    async fn append_pending(&self, request: AppendPending) -> Result<AppendedInputs> {
        self.answer_request(request)
    }

    async fn load_queue(&self, _: &ThreadId) -> Result<PendingQueue> {
        Err(Error::closed())
    }

    async fn update_pending(&self, _: PendingUpdate) -> Result<PendingInput> {
        Err(Error::closed())
    }

    async fn retract_pending(&self, _: &ThreadId, _: &EntryId) -> Result<PendingInput> {
        Err(Error::closed())
    }

    async fn reorder_pending(&self, _: Reorder) -> Result<u64> {
        Err(Error::closed())
    }

    async fn list_threads_with_pending(&self, _: PageRequest) -> Result<Page<ThreadId>> {
        Err(Error::closed())
    }
}

#[async_trait]
impl LiveChannel for FixedChannel {
    async fn open_live(&self, _: LiveTarget) -> Result<LiveReceiver> {
        Err(Error::closed())
    }

    async fn deliver(&self, request: DeliverLive) -> Result<LiveDelivery> {
        self.answer_request(request)
    }
}

fn input(text: &str) -> LiveInput {
    LiveInput::new(EntryId::new(text).unwrap(), Message::user(text))
}

fn request() -> DeliverOrQueue {
    let thread = ThreadId::new("t").unwrap();
    let claim = ClaimNumber { incarnation: 1, counter: 1 };
    let target = LiveTarget::new(thread.clone(), RunId::new("r").unwrap(), DispatchId::new("d").unwrap(), claim);
    DeliverOrQueue::new(thread, [input("a"), input("b")]).with_target(target)
}

fn appended() -> Result<AppendedInputs> {
    Ok(AppendedInputs::new(vec![InputRef::new(EntryId::new("a").unwrap(), 1)], false))
}

fn already_consumed() -> Result<AppendedInputs> {
    Err(Error::new(Detail::AlreadyConsumed { id: "a".to_owned() }))
}

/// Delivers or queues messages with a channel and a queue that give these answers. Returns the result, and the number
/// of requests to each.
async fn deliver_or_queue_with(
    channel_answer: fn() -> Result<LiveDelivery>,
    queue_answer: fn() -> Result<AppendedInputs>,
) -> (std::result::Result<DeliveredOrQueued, ErrorKind>, [usize; 2]) {
    let (channel, queue) = (FixedChannel::new(channel_answer), FixedQueue::new(queue_answer));
    let result = queue.deliver_or_queue(Some(&channel), request()).await;
    let request_counts = [channel.requests.lock().unwrap().len(), queue.requests.lock().unwrap().len()];
    (result.map_err(|error| error.kind()), request_counts)
}

#[tokio::test]
async fn delivered_input_is_not_queued() {
    assert_eq!(
        deliver_or_queue_with(|| Ok(LiveDelivery::Delivered), appended).await,
        (Ok(DeliveredOrQueued::Delivered), [1, 0])
    );
}

#[tokio::test]
async fn undelivered_input_is_queued() {
    for channel_answer in [
        || Ok(LiveDelivery::NoReceiver),
        || Ok(LiveDelivery::Unknown),
        || Err(Error::invalid("live command", "its receiver is old")),
        || Err(Error::unavailable("away")),
    ] {
        assert_eq!(
            deliver_or_queue_with(channel_answer, appended).await,
            (Ok(DeliveredOrQueued::Queued(appended().unwrap())), [1, 1])
        );
    }
}

#[tokio::test]
async fn input_in_the_log_counts_as_delivered_if_it_may_have_arrived() {
    assert_eq!(
        deliver_or_queue_with(|| Ok(LiveDelivery::Unknown), already_consumed).await,
        (Ok(DeliveredOrQueued::Delivered), [1, 1])
    );
    assert_eq!(
        deliver_or_queue_with(|| Err(Error::commit_unknown(None)), already_consumed).await,
        (Ok(DeliveredOrQueued::Delivered), [1, 1])
    );
    assert_eq!(
        deliver_or_queue_with(|| Ok(LiveDelivery::NoReceiver), already_consumed).await,
        (Err(ErrorKind::AlreadyConsumed), [1, 1])
    );
}

#[tokio::test]
async fn live_and_queued_input_have_the_same_ids() {
    let (channel, queue) = (FixedChannel::new(|| Ok(LiveDelivery::NoReceiver)), FixedQueue::new(appended));
    let _queued = queue.deliver_or_queue(Some(&channel), request()).await.unwrap();
    let live_request = channel.requests.lock().unwrap().remove(0);
    assert_eq!(live_request.command, LiveCommand::Input(vec![input("a"), input("b")]));
    let queue_request = queue.requests.lock().unwrap().remove(0);
    let ids: Vec<_> = queue_request.inputs.iter().filter_map(|input| input.id.as_ref()).map(EntryId::as_str).collect();
    assert_eq!(ids, ["a", "b"]);
    assert!(queue_request.inputs.iter().all(|input| input.delivery.boundary == Boundary::NextStep));
}

#[tokio::test]
async fn input_without_a_channel_or_a_target_is_queued() {
    let (channel, queue) = (FixedChannel::new(|| Ok(LiveDelivery::Delivered)), FixedQueue::new(appended));
    for (channel_or_none, request) in
        [(None, request()), (Some(&channel as &dyn LiveChannel), request().with_target(None))]
    {
        assert_eq!(
            queue.deliver_or_queue(channel_or_none, request).await.unwrap(),
            DeliveredOrQueued::Queued(appended().unwrap())
        );
    }
    assert!(channel.requests.lock().unwrap().is_empty());
}

#[tokio::test]
async fn input_that_the_queue_would_refuse_is_not_sent() {
    let (channel, queue) = (FixedChannel::new(|| Ok(LiveDelivery::Delivered)), FixedQueue::new(appended));
    let other_thread = DeliverOrQueue { thread: ThreadId::new("u").unwrap(), ..request() };
    let no_inputs = DeliverOrQueue { inputs: Vec::new(), ..request() };
    let duplicate_ids = DeliverOrQueue { inputs: vec![input("a"), input("a")], ..request() };
    for (request, kind) in
        [(other_thread, ErrorKind::Invalid), (no_inputs, ErrorKind::Invalid), (duplicate_ids, ErrorKind::AlreadyExists)]
    {
        assert_eq!(queue.deliver_or_queue(Some(&channel), request).await.unwrap_err().kind(), kind);
    }
    assert!(channel.requests.lock().unwrap().is_empty() && queue.requests.lock().unwrap().is_empty());
}

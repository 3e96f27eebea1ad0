//! Tests of the pool: order, batches, panics, closing.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use store_core::{Error, ErrorKind};

use super::{Lost, Pool, Queue, Request};

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[test]
fn jobs_run_on_other_threads_and_answer() {
    let pool = Pool::new(4);
    let here = std::thread::current().id();
    let there = block_on(pool.run(|| std::thread::current().id())).unwrap();
    assert_ne!(here, there);
    assert_eq!(block_on(pool.run(|| 6 * 7)), Ok(42));
}

#[test]
fn as_many_jobs_run_at_once_as_there_are_threads() {
    let pool = Pool::new(8);
    let barrier = Arc::new(std::sync::Barrier::new(8));
    let jobs: Vec<_> = (0..8)
        .map(|_| {
            pool.run({
                let barrier = Arc::clone(&barrier);
                move || barrier.wait().is_leader()
            })
        })
        .collect();
    let leaders = jobs.into_iter().map(|job| block_on(job).unwrap()).filter(|leader| *leader);
    assert_eq!(leaders.count(), 1);
}

#[test]
fn a_dropped_future_does_not_stop_the_job() {
    let pool = Pool::new(1);
    let (sender, receiver) = mpsc::channel();
    drop(pool.run(move || sender.send(1)));
    assert_eq!(receiver.recv_timeout(Duration::from_secs(5)), Ok(1));
}

#[test]
fn a_panic_is_reported_and_the_pool_continues() {
    let pool = Pool::new(1);
    assert_eq!(block_on(pool.run(|| panic!("on purpose"))), Err::<(), _>(Lost::Panicked));
    assert_eq!(block_on(pool.run(|| 1)), Ok(1));
    assert_eq!(Error::from(Lost::Panicked).kind(), ErrorKind::CommitUnknown);
    assert_eq!(Error::from(Lost::Closed).kind(), ErrorKind::Closed);
}

#[test]
fn closing_finishes_accepted_jobs_and_refuses_the_rest() {
    let pool = Pool::new(2);
    let done = Arc::new(AtomicUsize::new(0));
    for _ in 0..50 {
        let done = Arc::clone(&done);
        drop(pool.run(move || {
            std::thread::sleep(Duration::from_millis(1));
            done.fetch_add(1, Ordering::SeqCst);
        }));
    }
    block_on(pool.close());
    assert_eq!(done.load(Ordering::SeqCst), 50);
    assert_eq!(block_on(pool.run(|| 1)), Err(Lost::Closed));
    block_on(pool.close());
    block_on(Pool::new(2).close());
}

#[test]
fn a_dropped_pool_finishes_its_jobs_in_the_background() {
    let pool = Pool::new(1);
    let (sender, receiver) = mpsc::channel();
    for number in 0..10 {
        let sender = sender.clone();
        drop(pool.run(move || sender.send(number)));
    }
    drop((pool, sender));
    assert_eq!(receiver.iter().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
}

type Batches = Arc<Mutex<Vec<Vec<u32>>>>;

/// A queue that records what it is given together and answers with the double. Request 0 waits for the gate.
fn recording(pool: &Pool, limit: usize) -> (Queue<u32, u32>, Batches, mpsc::Sender<()>) {
    let (open, gate) = mpsc::channel();
    let (batches, gate): (Batches, _) = (Arc::default(), Mutex::new(gate));
    let seen = Arc::clone(&batches);
    let queue = Queue::new(pool.clone(), limit, move |requests: Vec<Request<u32, u32>>, _| {
        if requests.iter().any(|request| request.body == 0) {
            gate.lock().unwrap().recv().unwrap();
        }
        assert!(requests.iter().all(|request| request.body != 666), "on purpose");
        seen.lock().unwrap().push(requests.iter().map(|request| request.body).collect());
        answer_all(requests);
    });
    (queue, batches, open)
}

fn answer_all(requests: impl IntoIterator<Item = Request<u32, u32>>) {
    for request in requests {
        let (body, answer) = request.split();
        answer(body * 2);
    }
}

#[test]
fn requests_are_taken_together_and_in_order() {
    let pool = Pool::new(4);
    let (queue, batches, open) = recording(&pool, 3);
    let first = queue.push(0);
    let rest: Vec<_> = (1..8).map(|number| queue.push(number)).collect();
    open.send(()).unwrap();
    assert_eq!(block_on(first), Ok(0));
    for (answer, number) in rest.into_iter().zip(1..) {
        assert_eq!(block_on(answer), Ok(number * 2));
    }
    let batches = batches.lock().unwrap().clone();
    assert_eq!(batches.concat(), (0..8).collect::<Vec<_>>());
    assert!(batches.len() <= 5 && batches.iter().all(|batch| batch.len() <= 3), "{batches:?}");
}

#[test]
fn the_next_requests_are_handled_after_a_turn_was_passed_on() {
    let pool = Pool::new(2);
    let (open, gate) = mpsc::channel();
    let (gate, handled) = (Mutex::new(gate), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&handled);
    let queue = Queue::new(pool.clone(), 8, move |requests: Vec<Request<u32, u32>>, turn| {
        let mut left = VecDeque::from(requests);
        let first = left.pop_front().unwrap();
        seen.lock().unwrap().push(first.body);
        turn.put_back(left);
        turn.pass_on();
        if first.body == 0 {
            gate.lock().unwrap().recv().unwrap();
        }
        answer_all([first]);
    });
    let first = queue.push(0);
    let rest: Vec<_> = (1..4).map(|number| queue.push(number)).collect();
    for (answer, number) in rest.into_iter().zip(1..) {
        assert_eq!(block_on(answer), Ok(number * 2), "the first one has not ended");
    }
    assert_eq!(*handled.lock().unwrap(), [0, 1, 2, 3]);
    open.send(()).unwrap();
    assert_eq!(block_on(first), Ok(0));
    assert_eq!(block_on(queue.push(4)), Ok(8));
}

#[test]
fn requests_that_are_put_back_keep_their_order_and_are_taken_one_by_one() {
    let pool = Pool::new(2);
    let (open, gate) = mpsc::channel();
    let (gate, calls, answered) = (Mutex::new(gate), AtomicUsize::new(0), Batches::default());
    let (refused, seen) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&answered));
    let first = Arc::clone(&refused);
    let queue = Queue::new(pool.clone(), 3, move |requests: Vec<Request<u32, u32>>, turn| {
        match calls.fetch_add(1, Ordering::SeqCst) {
            0 => {
                gate.lock().unwrap().recv().unwrap();
                first.store(requests.len(), Ordering::SeqCst);
                // Another thread may take what came later before these are back.
                turn.pass_on();
                turn.put_back_singly(requests);
            }
            1 if requests.len() > 1 => turn.put_back(requests),
            _ => {
                seen.lock().unwrap().push(requests.iter().map(|request| request.body).collect());
                answer_all(requests);
            }
        }
    });
    let answers: Vec<_> = (0..7).map(|number| queue.push(number)).collect();
    open.send(()).unwrap();
    for (answer, number) in answers.into_iter().zip(0..) {
        assert_eq!(block_on(answer), Ok(number * 2));
    }
    let answered = answered.lock().unwrap().clone();
    assert!(answered.concat().iter().copied().eq(0..7), "{answered:?}");
    let single = &answered[..refused.load(Ordering::SeqCst)];
    assert!(single.iter().all(|batch| batch.len() == 1), "{answered:?}");
}

#[test]
fn more_is_taken_while_something_is_not_free() {
    let pool = Pool::new(2);
    let is_free = Arc::new(AtomicBool::new(false));
    let (free, (sender, taken)) = (Arc::clone(&is_free), mpsc::channel());
    let queue = Queue::new(pool.clone(), 8, move |requests: Vec<Request<u32, u32>>, turn| {
        let mut all = requests;
        loop {
            let more = turn.wait_for_more(|| free.load(Ordering::SeqCst));
            if more.is_empty() {
                break;
            }
            all.extend(more);
        }
        let _ = sender.send(all.len());
        answer_all(all);
    });
    let mut answers = Vec::new();
    for number in 0..5 {
        answers.push(queue.push(number));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(taken.try_recv().is_err(), "it still waits for more");
    is_free.store(true, Ordering::SeqCst);
    // A request wakes it as `wake_next` does, and may still go with it.
    answers.push(queue.push(5));
    assert!(taken.recv_timeout(Duration::from_secs(5)).unwrap() >= 5);
    is_free.store(true, Ordering::SeqCst);
    answers.push(queue.push(6));
    for (answer, number) in answers.into_iter().zip(0..) {
        assert_eq!(block_on(answer), Ok(number * 2));
    }
}

#[test]
fn a_panic_loses_only_the_requests_of_its_batch() {
    let pool = Pool::new(2);
    let (queue, _, _open) = recording(&pool, 8);
    assert_eq!(block_on(queue.push(666)), Err(Lost::Panicked));
    assert_eq!(block_on(queue.push(4)), Ok(8));
    while queue.is_busy() {
        std::thread::yield_now();
    }
}

#[test]
fn closing_empties_the_queue() {
    let pool = Pool::new(2);
    let (queue, batches, open) = recording(&pool, 2);
    let mut waiting: Vec<_> = (0..9).map(|number| queue.push(number)).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| block_on(pool.close()));
        while pool.is_open() {
            std::thread::yield_now();
        }
        assert_eq!(block_on(queue.push(1)), Err(Lost::Closed));
        open.send(()).unwrap();
    });
    assert_eq!(block_on(waiting.pop().unwrap()), Ok(16));
    assert_eq!(batches.lock().unwrap().iter().map(Vec::len).sum::<usize>(), 9);
}

#[test]
fn many_callers_are_all_answered() {
    let pool = Pool::new(8);
    let (queue, ..) = recording(&pool, 16);
    std::thread::scope(|scope| {
        for caller in 1..=8_u32 {
            let queue = queue.clone();
            scope.spawn(move || {
                for number in 0..500 {
                    let body = caller * 1_000 + number;
                    assert_eq!(block_on(queue.push(body)), Ok(body * 2));
                }
            });
        }
    });
    block_on(pool.close());
}

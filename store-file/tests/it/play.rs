//! Plays the script, and tells how far it came.

use std::future::Future;

use store_core::{Error, ManualClock, Outcome, Result};
use store_file::FileStore;

use crate::{
    script::{Step, script},
    world::{at, wait},
};

/// How far the script came.
#[derive(Debug, Default)]
pub(crate) struct Played {
    /// How many calls were answered as expected, one after the other.
    pub(crate) acknowledged: usize,
    /// What the calls were answered that were made then, and not answered so.
    pub(crate) open: Vec<Result<String>>,
}

impl Played {
    /// Whether all calls that were not answered as expected said that they had no effect.
    pub(crate) fn is_refused(&self) -> bool {
        let outcome = |answer: &Result<String>| answer.as_ref().err().map(Error::outcome);
        self.open.iter().all(|answer| outcome(answer) == Some(Outcome::NotApplied))
    }
}

/// Plays the script call by call; gives each call's answer to `each`, as text.
pub(crate) fn rehearse(store: &FileStore, clock: &ManualClock, mut each: impl FnMut(String)) {
    for Step { seconds, tenant, calls } in script() {
        clock.set(at(seconds));
        for call in calls {
            each(told(&wait(call.make(store, tenant))));
        }
    }
}

/// Plays the script from call number `from` on, up to the first step with a call that is not answered as expected.
pub(crate) fn play(store: &FileStore, clock: &ManualClock, from: usize, expected: &[String]) -> Played {
    play_steps(script(), (store, clock), from, expected)
}

/// The same with each call for itself.
pub(crate) fn play_singly(store: &FileStore, clock: &ManualClock, from: usize, expected: &[String]) -> Played {
    let single = |Step { seconds, tenant, calls }| {
        calls.into_iter().map(move |call| Step { seconds, tenant, calls: vec![call] })
    };
    play_steps(script().into_iter().flat_map(single).collect(), (store, clock), from, expected)
}

fn play_steps(
    steps: Vec<Step>,
    (store, clock): (&FileStore, &ManualClock),
    from: usize,
    expected: &[String],
) -> Played {
    let mut number = 0;
    for Step { seconds, tenant, mut calls } in steps {
        let done = from.saturating_sub(number).min(calls.len());
        number += done;
        calls.drain(..done);
        if calls.is_empty() {
            continue;
        }
        clock.set(at(seconds));
        let mut answers = wait(all(calls.iter().map(|call| call.make(store, tenant)).collect()));
        let as_expected = |(answer, expected): &(&Result<String>, &String)| told(answer) == **expected;
        let good = answers.iter().zip(&expected[number..]).take_while(as_expected).count();
        number += good;
        if good < answers.len() {
            return Played { acknowledged: number, open: answers.split_off(good) };
        }
    }
    Played { acknowledged: number, open: Vec::new() }
}

fn told(answer: &Result<String>) -> String {
    match answer {
        Ok(text) => text.clone(),
        Err(error) => format!("{:?}: {error}", error.kind()),
    }
}

/// Polls futures together to their ends, the first one first.
pub(crate) async fn all<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut answers: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, answer) in futures.iter_mut().zip(&mut answers) {
            if answer.is_none()
                && let std::task::Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *answer = Some(ready);
            }
        }
        if answers.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    answers.into_iter().flatten().collect()
}

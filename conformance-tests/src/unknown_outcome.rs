//! Checks of calls whose outcome is unknown. A caller resolves the outcome as the documentation of the method says.
//! After that, the call has taken effect exactly once.

use async_trait::async_trait;
use store_core::ThreadId;

use crate::{
    check::{Failure, Verdict, expect, expect_eq},
    drop_points::DropPointTarget,
    given::{Given, id},
};

/// How a caller found out whether a call took effect, after its answer was lost.
pub(crate) enum Resolution {
    /// A read shows whether the call took effect. If it did not, the test makes the call again.
    ByRead(bool),
    /// The call was repeated. Its answer says whether the first call took effect.
    ByRepeat(bool),
    /// The call was repeated. The effect is the same whether or not the first call took effect.
    Idempotent,
}

/// A target whose calls have a documented way to resolve an unknown outcome.
#[async_trait]
pub(crate) trait ResolveOutcome: DropPointTarget {
    /// Resolves the unknown outcome of a call as the documentation of its method says.
    async fn resolve_outcome(
        &self,
        call: &str,
        thread: &ThreadId,
        prepared: &Self::Prepared,
    ) -> Result<Resolution, Failure>;
}

/// The failure for a call that changes something, but is missing in [`ResolveOutcome::resolve_outcome`].
pub(crate) fn missing_resolution(call: &str) -> Failure {
    Failure::new(format!("`resolve_outcome` of the target does not say how to resolve an unknown outcome of `{call}`"))
}

/// Checks, on two threads, each call of the target that changes something. On the first thread the call is made and its
/// answer is ignored. On the second thread the call is not made. In both cases the outcome is then resolved as the
/// documentation says, and the call must have taken effect exactly once. The calls named in `changing_calls`, and no
/// others, must change something.
pub(crate) async fn check_unknown_outcomes(
    given: &Given,
    target: impl ResolveOutcome,
    changing_calls: &[&str],
) -> Verdict {
    let mut calls_that_changed = Vec::new();
    for index in 0.. {
        let thread: ThreadId = id(&format!("t-{index}-once"));
        let prepared = target.prepare(given, &thread).await?;
        let before = target.describe(&thread).await?;
        let mut calls = target.calls(&thread, &prepared);
        if index >= calls.len() {
            break;
        }
        let (name, call) = calls.swap_remove(index);
        let about = |failure: Failure| failure.about(format!("`{name}`"));
        let answer = call.await;
        let after_one_call = target.describe(&thread).await?;
        if before == after_one_call {
            continue;
        }
        answer?;
        calls_that_changed.push(name);
        for applied in [true, false] {
            let thread: ThreadId = id(&format!("t-{index}-{applied}"));
            let after_resolution =
                resolve_and_describe(given, &target, (index, applied), &thread).await.map_err(about)?;
            expect_eq(after_resolution, after_one_call.clone()).map_err(about)?;
        }
    }
    calls_that_changed.sort_unstable();
    calls_that_changed.dedup();
    let mut wanted = changing_calls.to_vec();
    wanted.sort_unstable();
    expect_eq(calls_that_changed, wanted)
}

/// Makes the call at `index` if `applied` is set, and resolves its outcome. Returns the description of the thread after
/// that.
async fn resolve_and_describe(
    given: &Given,
    target: &impl ResolveOutcome,
    (index, applied): (usize, bool),
    thread: &ThreadId,
) -> Result<String, Failure> {
    let prepared = target.prepare(given, thread).await?;
    let make_call = || target.calls(thread, &prepared).swap_remove(index);
    if applied {
        // The answer is ignored, as if it had been lost.
        let (_, call) = make_call();
        call.await?;
    }
    match target.resolve_outcome(make_call().0, thread, &prepared).await? {
        Resolution::ByRead(took_effect) => {
            expect_eq(took_effect, applied).map_err(|failure| failure.about("whether the call took effect"))?;
            if !took_effect {
                let (_, call) = make_call();
                call.await?;
            }
        }
        Resolution::ByRepeat(took_effect) => expect(
            took_effect == applied,
            format!("the repeat says that the call took effect: {took_effect}, not {applied}"),
        )?,
        Resolution::Idempotent => {}
    }
    target.describe(thread).await
}

//! Calls whose outcome is unknown: it is resolved as their documentation says, and there is one effect.

use async_trait::async_trait;
use store_core::ThreadId;

use crate::{
    check::{Failure, Verdict, expect, expect_eq},
    given::{Given, id},
    sweep::Target,
};

/// How the outcome of a call whose answer was lost became known.
pub(crate) enum Resolution {
    /// A read says whether the call had its effect. If it had none, the call is made again.
    ByRead(bool),
    /// The call was repeated, and the answer says whether the first attempt had its effect.
    ByRepeat(bool),
    /// The call was repeated, and has its effect, whether the first attempt had it or not.
    Idempotent,
}

/// A target of calls that change something.
#[async_trait]
pub(crate) trait ResolveOutcome: Target {
    /// Resolves the unknown outcome of a call as the documentation of its method says.
    async fn resolve_outcome(&self, call: &str, t: &ThreadId, prepared: &Self::Prepared)
    -> Result<Resolution, Failure>;
}

/// The failure for a call that changes something without a documented way to resolve its unknown outcome.
pub(crate) fn undocumented(call: &str) -> Failure {
    Failure::new(format!("the test does not say how the unknown outcome of `{call}` is resolved"))
}

/// Makes each call that changes something and ignores its answer, and a second time does not make it. Then resolves
/// the outcome as the documentation says. The calls named in `changing`, and no others, must change something.
pub(crate) async fn unknown_outcomes_can_be_resolved(
    given: &Given,
    target: impl ResolveOutcome,
    changing: &[&str],
) -> Verdict {
    let mut changed = Vec::new();
    for at in 0.. {
        let t: ThreadId = id(&format!("t-{at}-once"));
        let prepared = target.prepare(given, &t).await?;
        let before = target.look(&t).await?;
        let mut calls = target.calls(&t, &prepared);
        if at >= calls.len() {
            break;
        }
        let (name, call) = calls.swap_remove(at);
        let about = |failure: Failure| failure.about(format!("`{name}`"));
        let ended = call.await;
        let once = target.look(&t).await?;
        if before == once {
            continue;
        }
        ended?;
        changed.push(name);
        for applied in [true, false] {
            let t: ThreadId = id(&format!("t-{at}-{applied}"));
            let seen = resolved(given, &target, (at, applied), &t).await.map_err(about)?;
            expect_eq(seen, once.clone()).map_err(about)?;
        }
    }
    changed.sort_unstable();
    changed.dedup();
    let mut wanted = changing.to_vec();
    wanted.sort_unstable();
    expect_eq(changed, wanted)
}

/// Resolves the outcome of one call. Returns what [`Target::look`] returns after that.
async fn resolved(
    given: &Given,
    target: &impl ResolveOutcome,
    (at, applied): (usize, bool),
    t: &ThreadId,
) -> Result<String, Failure> {
    let prepared = target.prepare(given, t).await?;
    let make = || target.calls(t, &prepared).swap_remove(at);
    if applied {
        // The answer is ignored, as if it was lost.
        let (_, call) = make();
        call.await?;
    }
    match target.resolve_outcome(make().0, t, &prepared).await? {
        Resolution::ByRead(had) => {
            expect_eq(had, applied).map_err(|failure| failure.about("whether the call took effect"))?;
            if !had {
                let (_, call) = make();
                call.await?;
            }
        }
        Resolution::ByRepeat(had) => {
            expect(had == applied, format!("the repeat reports an effect: {had}, not {applied}"))?
        }
        Resolution::Idempotent => {}
    }
    target.look(t).await
}

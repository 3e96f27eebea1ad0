//! Calls whose end is unknown: it is found out as their documentation says, and there is one effect.

use async_trait::async_trait;
use store_core::ThreadId;

use crate::{
    check::{Failure, Verdict, expect, expect_eq},
    given::{Given, id},
    sweep::Target,
};

/// What was found out of a call whose answer was lost.
pub(crate) enum Known {
    /// A read says whether it had its effect. If not, it is made again.
    Looked(bool),
    /// It was repeated, and the answer says whether the first one had had its effect.
    Told(bool),
    /// It was repeated, and has its effect, whichever way the first one went.
    Repeated,
}

/// What calls are made on that change something.
#[async_trait]
pub(crate) trait FindOut: Target {
    /// Does what the documentation of the method of a call says for an unknown end.
    async fn find_out(&self, call: &str, t: &ThreadId, prepared: &Self::Prepared) -> Result<Known, Failure>;
}

/// For a call without a documented way: it changes something, so that its method has to name one.
pub(crate) fn undocumented(call: &str) -> Failure {
    Failure::new(format!("nothing says how an unknown end of `{call}` is found out"))
}

/// Makes each call that changes something with its answer lost, and does not make it; then does what its documentation
/// says. The calls of these names, and no others, change something.
pub(crate) async fn unknown_ends_are_found_out(given: &Given, target: impl FindOut, changing: &[&str]) -> Verdict {
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
            let seen = found_out(given, &target, (at, applied), &t).await.map_err(about)?;
            expect_eq(seen, once.clone()).map_err(about)?;
        }
    }
    changed.sort_unstable();
    changed.dedup();
    let mut wanted = changing.to_vec();
    wanted.sort_unstable();
    expect_eq(changed, wanted)
}

/// Finds out how one call ended. Gives what can be seen then.
async fn found_out(
    given: &Given,
    target: &impl FindOut,
    (at, applied): (usize, bool),
    t: &ThreadId,
) -> Result<String, Failure> {
    let prepared = target.prepare(given, t).await?;
    let make = || target.calls(t, &prepared).swap_remove(at);
    if applied {
        // The answer is lost.
        let (_, call) = make();
        call.await?;
    }
    match target.find_out(make().0, t, &prepared).await? {
        Known::Looked(had) => {
            expect_eq(had, applied).map_err(|failure| failure.about("whether it had its effect"))?;
            if !had {
                let (_, call) = make();
                call.await?;
            }
        }
        Known::Told(had) => expect(had == applied, format!("the repeat says {had}, and it was {applied}"))?,
        Known::Repeated => {}
    }
    target.look(t).await
}

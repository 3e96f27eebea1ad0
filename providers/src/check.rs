//! Reports which parts of a context a target would not get, before anything is sent.

use serde::Serialize;
use store_core::{BlockKind, Context, Json, Result};

use crate::{
    compile::{CompileOptions, compile, is_failed_turn},
    loss::Loss,
    provider::Target,
    value::Value,
};

/// How well a target can hold a context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Whether the target gets the history without losses. Parts that no model gets do not count
    /// ([`LossKind::is_for_people_only`]).
    ///
    /// [`LossKind::is_for_people_only`]: crate::LossKind::is_for_people_only
    pub compatible: bool,
    /// Reasons why the API of the target is known to refuse the request.
    pub warnings: Vec<String>,
    /// What the target does not get, or gets in another form (SE-3).
    pub losses: Vec<Loss>,
}

/// Returns the losses of [`compile`] with the same arguments, and warnings.
///
/// # Errors
/// Those of [`compile`].
pub fn check(context: &Context, target: &Target, options: &CompileOptions) -> Result<Report> {
    let compiled = compile(context, target, options)?;
    let mut warnings = warnings(&compiled.body, target)?;
    warnings.extend(
        unanswered_call_ids(context).iter().map(|id| format!("the call `{id}` has no result; every API refuses it")),
    );
    let compatible = compiled.losses.iter().all(|loss| loss.kind.is_for_people_only()) && warnings.is_empty();
    Ok(Report { compatible, warnings, losses: compiled.losses })
}

/// The ids of calls that no later message answers. A context from a store has no such calls, unless the request asked
/// the store to keep them.
fn unanswered_call_ids(context: &Context) -> Vec<&str> {
    let mut ids = Vec::new();
    let sent_messages = context.messages.iter().filter(|message| !is_failed_turn(&message.message));
    for block in sent_messages.flat_map(|message| &message.message.blocks) {
        match &block.kind {
            BlockKind::ToolUse(call) => ids.push(call.id.as_str()),
            BlockKind::ToolResult(result) => ids.retain(|id| *id != result.tool_use_id),
            _ => {}
        }
    }
    ids
}

/// Returns the reasons why the API of the target is known to refuse a body that [`compile`] made.
///
/// # Errors
/// `Invalid` if the body is not JSON that can be read.
pub fn warnings(body: &Json, target: &Target) -> Result<Vec<String>> {
    let body = Value::of(body)?;
    Ok(body.as_object().map(|body| target.provider.api.warnings(body, target)).unwrap_or_default())
}

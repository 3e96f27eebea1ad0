//! Reads bodies that an export of this crate wrote into lines without changing them.

use store_core::{Body, Compaction, Custom, Interval, Json, Label, NewBody, RewindTo, codec::Codec};

use super::{AGENTSTORE, LinePosition};
use crate::blocks::cut_to_1_kib;

/// Turns a body that was read from a line into the body of a draft. The body names lines by the ids that they contain.
/// Each of these ids becomes the id that the entry of the line has in this thread.
pub(crate) fn draft_body<D>(body: Body, position: &LinePosition<'_, D>) -> Result<NewBody, String> {
    let target = |id: &str| position.earlier_entry(id).ok_or_else(|| format!("`{id}` does not come before this line"));
    Ok(match body {
        Body::Message(message) => message.into(),
        Body::Compaction(compaction) => with_ids_of_thread(compaction, position)?.into(),
        Body::Checkpoint(checkpoint) => {
            NewBody::Checkpoint { number: Some(checkpoint.number), label: checkpoint.label }
        }
        Body::Usage(usage) => usage.into(),
        Body::Label(label) => {
            Label::new(target(label.target.as_str())?, label.text.as_deref().map(cut_to_1_kib)).into()
        }
        Body::Rewind(rewind) => match rewind.to {
            Some(to) => RewindTo::Entry(target(to.as_str())?).into(),
            None => RewindTo::Start.into(),
        },
        Body::Custom(custom) => custom.into(),
        // The run that the decision answers is not a part of the source, so the decision becomes a custom body.
        Body::Decision(decision) => {
            let data = Json::parse(&decision.encode()).unwrap_or_else(|_| Json::null());
            Custom::new(format!("{AGENTSTORE}.decision"), data).into()
        }
        Body::Unknown { kind, data } => NewBody::Unknown { kind, data },
        _ => return Err("an unknown body".to_owned()),
    })
}

/// Replaces the ids in the interval of a compaction by the ids that the entries of these lines have in this thread. The
/// entries must be on the path of the compaction.
fn with_ids_of_thread<D>(mut compaction: Compaction, position: &LinePosition<'_, D>) -> Result<Compaction, String> {
    let Some(covers) = compaction.covers.take() else { return Ok(compaction) };
    let covered_node = |id: &str| {
        let at =
            position.earlier_node(id).filter(|at| position.at.is_some_and(|node| position.tree.is_on_path(node, *at)));
        let found = at.and_then(|at| Some((at, position.id_of(at)?)));
        found.ok_or_else(|| format!("`{id}` is not on the path"))
    };
    let ((from, from_id), (to, to_id)) = (covered_node(covers.from.as_str())?, covered_node(covers.to.as_str())?);
    if !position.tree.is_on_path(to, from) {
        return Err("the compaction covers nothing".to_owned());
    }
    compaction.covers = Some(Interval::new(from_id, to_id));
    Ok(compaction)
}

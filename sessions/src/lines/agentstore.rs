//! What the exports of this crate write for an entry for which a format has no line, and how it is read back.

use store_core::{
    Body, Compaction, Custom, Interval, Json, Label, NewBody, RewindTo,
    codec::{Codec, ObjectWriter as Writer},
};

use super::{LineKind, LinePosition};
use crate::{blocks::cut_to_1_kib, json::Object};

/// The name of the field or the beginning of the type under which a format contains it.
pub(crate) const AGENTSTORE: &str = "agentstore";

/// What an export wrote for an entry for which the format has no line.
pub(crate) enum AgentstoreField {
    /// The parent of the line is the head.
    Head,
    /// A body, and whether its entry is a side entry.
    Body(Box<Body>, bool),
}

impl AgentstoreField {
    /// Reads the field.
    pub(crate) fn read(field: &Object<'_>) -> Option<Self> {
        if field.bool("head") == Some(true) {
            return Some(Self::Head);
        }
        let body = Body::read(field.raw("body")?).ok()?;
        Some(Self::Body(Box::new(body), field.bool("side").unwrap_or_default()))
    }

    /// The field of the line that names the head, for a thread whose head is not its last line.
    pub(crate) fn head() -> String {
        "{\"head\":true}".to_owned()
    }

    /// The field for a body.
    pub(crate) fn of_body(body: &Body, side: bool) -> String {
        let mut field = String::new();
        let mut object = Writer::open(&mut field);
        object.maybe("side", side.then_some(&true)).field("body", body);
        object.close();
        field
    }

    /// What kind of line it is. `parent` is the parent that the line names.
    pub(crate) fn kind<D: Default>(&self, parent: Option<String>) -> LineKind<D> {
        match self {
            Self::Head => LineKind::Rewind(parent),
            Self::Body(body, side) => match &**body {
                Body::Rewind(rewind) => LineKind::Rewind(rewind.to.as_ref().map(|to| to.as_str().to_owned())),
                _ if *side => LineKind::Side,
                _ => LineKind::Node(D::default()),
            },
        }
    }

    /// The body of the line. `parent` is the parent that the line names.
    pub(crate) fn body<D>(self, parent: Option<&str>, position: &LinePosition<'_, D>) -> Result<NewBody, String> {
        let target =
            |id: &str| position.earlier_entry(id).ok_or_else(|| format!("`{id}` does not come before this line"));
        let rewind = |to: Option<&str>| -> Result<NewBody, String> {
            Ok(to.map(target).transpose()?.map_or(RewindTo::Start, RewindTo::Entry).into())
        };
        let body = match self {
            Self::Head => return rewind(parent),
            Self::Body(body, _) => *body,
        };
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
            Body::Rewind(to) => return rewind(to.to.as_ref().map(|to| to.as_str())),
            Body::Custom(custom) => custom.into(),
            // The run that it answers is not a part of the source.
            Body::Decision(decision) => {
                let data = Json::parse(&decision.encode()).unwrap_or_else(|_| Json::null());
                Custom::new(format!("{AGENTSTORE}.decision"), data).into()
            }
            Body::Unknown { kind, data } => NewBody::Unknown { kind, data },
            _ => return Err("an unknown body".to_owned()),
        })
    }
}

/// Replaces the ids in the interval of a compaction by the ids that these entries have in this thread. The entries must
/// be on the path of the line.
fn with_ids_of_thread<D>(mut compaction: Compaction, position: &LinePosition<'_, D>) -> Result<Compaction, String> {
    let Some(covers) = compaction.covers.take() else { return Ok(compaction) };
    let on_path = |id: &str| {
        let at =
            position.earlier_node(id).filter(|at| position.at.is_some_and(|own| position.tree.is_on_path(own, *at)));
        let found = at.and_then(|at| Some((at, position.id_of(at)?)));
        found.ok_or_else(|| format!("`{id}` is not on the path"))
    };
    let ((from, from_id), (to, to_id)) = (on_path(covers.from.as_str())?, on_path(covers.to.as_str())?);
    if !position.tree.is_on_path(to, from) {
        return Err("the compaction covers nothing".to_owned());
    }
    compaction.covers = Some(Interval::new(from_id, to_id));
    Ok(compaction)
}

//! The field that an export of this crate writes for an entry if the format has no line for it, and how an import reads
//! the field.

use store_core::{
    Body, EntryId, NewBody, Rewind,
    codec::{Codec, ObjectWriter as Writer},
};

use super::{LineKind, LinePosition, RewindTarget, draft_body};
use crate::json::Object;

/// The name of the field. If lines with the field have a type of their own, the type begins with this name.
pub(crate) const AGENTSTORE: &str = "agentstore";

/// The content of the field.
pub(crate) enum AgentstoreField {
    /// The parent of the line is the head.
    Head,
    /// The body of an entry that the format has no line for.
    Body {
        body: Box<Body>,
        /// Whether the entry is a side entry.
        side: bool,
    },
}

impl AgentstoreField {
    /// Reads the field.
    pub(crate) fn read(field: &Object<'_>) -> Option<Self> {
        if field.bool("head") == Some(true) {
            return Some(Self::Head);
        }
        let body = Body::read(field.raw("body")?).ok()?;
        Some(Self::Body { body: Box::new(body), side: field.bool("side").unwrap_or_default() })
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

    /// The kind of the line with this field. `parent` is the parent that the line names.
    pub(crate) fn kind<D: Default>(&self, parent: Option<String>) -> LineKind<D> {
        match self {
            Self::Head => LineKind::Rewind(rewind_target(parent)),
            Self::Body { body, side } => match &**body {
                Body::Rewind(rewind) => {
                    LineKind::Rewind(rewind_target(rewind.to.as_ref().map(|to| to.as_str().to_owned())))
                }
                _ if *side => LineKind::Side,
                _ => LineKind::Node(D::default()),
            },
        }
    }

    /// The body of the line with this field. `parent` is the parent that the line names.
    pub(crate) fn body<D>(self, parent: Option<&str>, position: &LinePosition<'_, D>) -> Result<NewBody, String> {
        let body = match self {
            Self::Head => {
                let mut rewind = Rewind::default();
                rewind.to = parent.map(EntryId::new).transpose().map_err(|error| error.to_string())?;
                Body::Rewind(rewind)
            }
            Self::Body { body, .. } => *body,
        };
        draft_body(body, position)
    }
}

fn rewind_target(id: Option<String>) -> RewindTarget {
    id.map_or(RewindTarget::Start, RewindTarget::Named)
}

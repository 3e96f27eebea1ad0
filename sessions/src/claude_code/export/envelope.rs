//! The fields that every line has.

use store_core::{Json, Timestamp, codec::ObjectWriter as Writer};

use crate::{json::Object, time};

/// The version of Claude Code that the written lines name. Claude Code reads the lines of all its versions.
const VERSION: &str = "2.1.0";

/// The fields that are equal in all lines of a session.
pub(super) struct Envelope {
    pub(super) session: String,
    pub(super) working_folder: String,
    /// The name of the subagent, if this is the file of one.
    pub(super) agent: Option<String>,
}

/// The fields that differ from line to line.
#[derive(Debug, Clone)]
pub(super) struct LineFields<'a> {
    pub(super) kind: &'static str,
    pub(super) uuid: &'a str,
    pub(super) parent: Option<&'a str>,
    /// For a compaction, whose line has no parent: the uuid of the line that would otherwise be its parent.
    pub(super) logical_parent: Option<&'a str>,
    pub(super) time: Timestamp,
}

impl Envelope {
    /// Writes a line of the tree.
    pub(super) fn line(&self, fields: &LineFields<'_>, write_others: impl FnOnce(&mut Writer<'_>)) -> String {
        let mut out = String::new();
        let mut line = Writer::open(&mut out);
        match fields.parent {
            Some(parent) => line.field("parentUuid", &parent.to_owned()),
            None => line.field("parentUuid", &Json::null()),
        };
        line.maybe("logicalParentUuid", fields.logical_parent.map(str::to_owned).as_ref());
        line.field("isSidechain", &self.agent.is_some()).field("userType", &"external".to_owned());
        line.field("cwd", &self.working_folder).field("sessionId", &self.session);
        line.field("version", &VERSION.to_owned()).maybe("agentId", self.agent.as_ref());
        line.field("type", &fields.kind.to_owned());
        write_others(&mut line);
        line.field("uuid", &fields.uuid.to_owned()).field("timestamp", &time::to_iso(fields.time));
        line.close();
        out
    }

    /// Writes a line beside the tree.
    pub(super) fn side_line(&self, kind: &str, time: Timestamp, fields: impl FnOnce(&mut Writer<'_>)) -> String {
        let mut out = String::new();
        let mut line = Writer::open(&mut out);
        line.field("type", &kind.to_owned());
        fields(&mut line);
        line.field("sessionId", &self.session).field("timestamp", &time::to_iso(time));
        line.close();
        out
    }
}

/// Returns a line with other values for some fields. Fields that the line does not have yet come first.
pub(super) fn with_fields(line: &Object<'_>, fields: &[(&str, String)]) -> String {
    let mut out = String::new();
    let mut object = Writer::open(&mut out);
    for (name, raw) in fields.iter().filter(|(name, _)| line.raw(name).is_none()) {
        object.key(name).push_str(raw);
    }
    for (name, raw) in line.iter() {
        let other = fields.iter().find(|(other, _)| *other == name);
        object.key(name).push_str(other.map_or(raw, |(_, raw)| raw.as_str()));
    }
    object.close();
    out
}

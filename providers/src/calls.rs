//! The calls of a request body: their ids, and arguments that are not JSON.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};
use store_core::{Json, ToolUse};

/// Returns the text of arguments that are not JSON.
pub(crate) fn malformed_arguments(call: &ToolUse) -> Option<&str> {
    let raw = call.raw.as_deref()?;
    (!raw.is_empty() && Json::parse(raw).is_err()).then_some(raw)
}

/// Which ids of calls an API accepts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdRule {
    /// The maximum length, in characters.
    pub(crate) max_length: usize,
    /// Whether only ASCII letters, digits, `_` and `-` may occur.
    pub(crate) plain_only: bool,
}

impl IdRule {
    fn accepts(self, id: &str) -> bool {
        id.chars().count() <= self.max_length && (!self.plain_only || id.bytes().all(is_plain))
    }
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// The parts of a written call that its results need.
#[derive(Debug, Clone)]
pub(crate) struct AnsweredCall {
    /// The id in the request body.
    pub(crate) id: String,
    pub(crate) name: String,
    /// The text of the arguments, if they are not JSON.
    pub(crate) malformed_arguments: Option<String>,
}

/// The calls that have been written so far.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    used_ids: BTreeSet<String>,
    /// The number of ids that were derived from each stored id.
    derived_id_counts: BTreeMap<String, u32>,
    pub(crate) by_stored_id: BTreeMap<String, AnsweredCall>,
}

impl Calls {
    /// Adds a call, and returns an id that the target accepts and that no other call of the request has.
    pub(crate) fn add(&mut self, call: &ToolUse, rule: IdRule) -> String {
        let mut id = call.id.clone();
        let number = self.derived_id_counts.entry(call.id.clone()).or_default();
        while !rule.accepts(&id) || self.used_ids.contains(&id) {
            *number += 1;
            id = derived_id(&call.id, *number, rule.max_length);
        }
        self.used_ids.insert(id.clone());
        let answered = AnsweredCall { id: id.clone(), name: call.name.clone(), malformed_arguments: None };
        self.by_stored_id.insert(call.id.clone(), answered);
        id
    }

    pub(crate) fn set_malformed_arguments(&mut self, call: &ToolUse, raw: &str) {
        if let Some(call) = self.by_stored_id.get_mut(&call.id) {
            call.malformed_arguments = Some(raw.to_owned());
        }
    }
}

/// Returns an id that consists of the beginning of `id` and a digest of `id` and `number`.
fn derived_id(id: &str, number: u32, max_length: usize) -> String {
    const DIGITS: usize = 8;
    let digest = Sha256::digest(format!("{id}\n{number}"));
    let digits: String = digest.iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}")).collect();
    let plain: String = id.chars().filter(|c| u8::try_from(*c).is_ok_and(is_plain)).collect();
    let prefix: String = plain.chars().take(max_length.min(32).saturating_sub(DIGITS + 1)).collect();
    format!("{prefix}_{digits}")
}

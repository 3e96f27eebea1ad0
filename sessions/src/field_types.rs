//! Checks the types of optional fields, so that a field of a wrong type is noted and does not just count as missing.

use crate::{issue::Issues, json::Object, lines::note_bad_field};

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldType {
    Text,
    Bool,
    List,
}

/// Notes each of these fields that is neither of its type nor null. It counts as missing, and the raw line is kept.
pub(crate) fn note_wrong_types(issues: &mut Issues, line: u64, object: &Object<'_>, fields: &[(&str, FieldType)]) {
    for (name, field_type) in fields {
        let (is_right, expected) = match field_type {
            FieldType::Text => (object.text(name).is_some(), "a string"),
            FieldType::Bool => (object.bool(name).is_some(), "a boolean"),
            FieldType::List => (object.list(name).is_some(), "a list"),
        };
        if object.has(name) && !is_right {
            note_bad_field(issues, line, format!("`{name}` is not {expected}"));
        }
    }
}

//! The check of a document.

use super::{Finding, FindingKind};
use crate::document::Document;

/// Checks a document, and returns what is wrong with it.
///
/// `has_scope` says whether the thread exists that the document belongs to; it is true for a document of the tenant.
/// `newest_revision` is the largest revision that the store has given (DO-3).
#[must_use]
pub fn check_document(document: &Document, has_scope: bool, newest_revision: u64) -> Option<Finding> {
    let finding = |kind, detail: String| Some(Finding::new(kind, format!("document {}", document.to_ref()), detail));
    if !has_scope {
        return finding(FindingKind::OrphanDocument, "its thread does not exist".to_owned());
    }
    if document.revision == 0 || document.revision > newest_revision {
        let detail = format!("it has the revision {}, but the newest one is {newest_revision}", document.revision);
        return finding(FindingKind::Damaged, detail);
    }
    if document.updated_at < document.created_at {
        return finding(FindingKind::Damaged, "it was put before it was created".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::check_document;
    use crate::{Document, codec::Codec, inspect::FindingKind};

    #[test]
    fn a_document_must_be_possible_vf_1() {
        let check = |times: &str, revision: u64, has_scope: bool| {
            let text = format!(r#"{{"collection":"c","key":["a"],"value":1,"revision":{revision},{times}}}"#);
            let finding = check_document(&Document::read(&text).unwrap(), has_scope, 7);
            finding.map(|finding| finding.kind)
        };
        let (sound, backward) = (r#""created_at":5,"updated_at":5"#, r#""created_at":5,"updated_at":4"#);
        assert_eq!(check(sound, 7, true), None);
        assert_eq!(check(sound, 7, false), Some(FindingKind::OrphanDocument));
        assert_eq!(check(sound, 8, true), Some(FindingKind::Damaged));
        assert_eq!(check(sound, 0, true), Some(FindingKind::Damaged));
        assert_eq!(check(backward, 7, true), Some(FindingKind::Damaged));
    }
}

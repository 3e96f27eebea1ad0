//! Planted bugs of copies: each must be found by a check.

use std::sync::Arc;

use conformance_tests::copies::{
    BuggyCopies, CopyBug, a_copied_mailbox_has_every_record, a_copy_has_every_record, a_copy_has_what_was_given, run,
};

/// A check fails for each mistake of a backend that restores or dumps records (VF-2, VF-3, VF-6).
#[test]
fn the_checks_of_copies_find_each_planted_bug() {
    for bug in CopyBug::ALL {
        let fixture = || BuggyCopies::new(Arc::new(crate::fixture()), *bug);
        let is_found = run(fixture(), a_copy_has_every_record).is_err()
            || run(fixture(), a_copy_has_what_was_given).is_err()
            || run(fixture(), a_copied_mailbox_has_every_record).is_err();
        assert!(is_found, "{bug:?}");
    }
}

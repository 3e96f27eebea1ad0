//! Each planted mistake is found by a check that passes without it.

use super::{Bug, Found, crashes, faults, flips};
use crate::vfs::sim::Fault;

/// The check that has to find a mistake.
fn check(bug: Bug) -> Found {
    let planted = Some(bug);
    match bug {
        Bug::NoSync | Bug::LogsFirst | Bug::HalfReusedEarly | Bug::NoControlBatch | Bug::NewFileNotSynced => {
            (1..=3).try_for_each(|seed| crashes::at_every_call(seed, planted).map(drop))
        }
        Bug::NumbersGoBack => crashes::during_recovery(planted),
        Bug::JournalNotRewritten => crashes::after_a_killed_process(planted),
        Bug::DroppedWritten => crashes::one_after_the_other(planted),
        Bug::ChecksumIgnored => flips::of_every_bit(planted),
        Bug::NoSpaceCheck => faults::on_a_full_disk(planted),
        Bug::HeadLeft => faults::at_every_call(Fault::EnospcLate, planted),
        Bug::PoisonForgotten => faults::at_every_call(Fault::Eio, planted),
    }
}

#[test]
fn every_planted_mistake_is_found() {
    for bug in [
        Bug::NoSync,
        Bug::LogsFirst,
        Bug::HalfReusedEarly,
        Bug::NoControlBatch,
        Bug::NumbersGoBack,
        Bug::DroppedWritten,
        Bug::NoSpaceCheck,
        Bug::HeadLeft,
        Bug::JournalNotRewritten,
        Bug::ChecksumIgnored,
        Bug::NewFileNotSynced,
        Bug::PoisonForgotten,
    ] {
        let found = check(bug);
        println!("{bug:?}: {found:?}");
        assert!(found.is_err(), "{bug:?} was not found");
    }
}

//! The state of a root: its format, its durability, what its opening found, and the space on its disk.

use store_core::{
    Clock as _, CursorKey, Result, StoreIdentity, SystemClock,
    health::{ClockReading, Finding, StoreHealth},
};

use crate::{config::Durability, error, meta::FORMAT, report::Opening, shared::Shared};

/// Which root this is: the one with this key, in this folder. A copy of a root is in another folder.
pub(crate) fn identity(shared: &Shared) -> Option<StoreIdentity> {
    let place = shared.vfs.identity().ok()?;
    Some(CursorKey::new(*shared.meta.key()).identity(&format!("file {} {}", place.device, place.inode)))
}

/// What the root reports about its state.
///
/// # Errors
/// `Closed`; an error of the operating system.
pub(crate) fn health(shared: &Shared) -> Result<StoreHealth> {
    shared.check_open()?;
    let asked_at = SystemClock.now();
    let clock = ClockReading::new(asked_at, shared.time.now(), SystemClock.now());
    let free = shared.vfs.free_space().map_err(|source| error::io("the disk", source))?;
    let format = if shared.meta.has_journal() { FORMAT } else { FORMAT - 1 };
    let health = StoreHealth::new()
        .with("library", env!("CARGO_PKG_VERSION"))
        .with("format", format.to_string())
        .with("opened for", if shared.config.read_only { "reading" } else { "writing" })
        .with("durability", durability(shared.config.durability))
        .with_clock(clock)
        .with_free_bytes(Some(free))
        .finding(relaxed(shared.config.durability));
    Ok(found_by_opening(&shared.opening).into_iter().fold(health, StoreHealth::finding))
}

fn durability(durability: Durability) -> String {
    match durability {
        Durability::Sync => "each write is synced before it is acknowledged".to_owned(),
        Durability::Interval(every) => format!("synced every {} ms", every.as_millis()),
        Durability::None => "synced when the operating system does it".to_owned(),
    }
}

fn relaxed(durability: Durability) -> Option<Finding> {
    let text = "a power cut loses the last acknowledged writes";
    let note = || Finding::note("durability", text, "open the store with `Durability::Sync`, which is the default");
    (durability != Durability::Sync).then(note)
}

fn found_by_opening(opening: &Opening) -> Vec<Finding> {
    let verify = "close the store, run `agentstore verify`, then `agentstore repair` or restore a backup";
    let damage = |text: String| Finding::problem("damage", text, verify);
    let mut findings: Vec<_> = opening.damaged.iter().map(|what| damage(format!("damaged: {what}"))).collect();
    let acknowledged = opening.set_aside.iter().filter(|aside| aside.acknowledged);
    findings.extend(acknowledged.map(|aside| {
        damage(format!("{} acknowledged bytes of `{}` could not be read and were set aside", aside.bytes, aside.log))
    }));
    findings.extend(opening.lost_journal.as_ref().map(|why| damage(format!("the journal was lost: {why}"))));
    findings.extend(opening.unclean.then(|| {
        let text = "the last process did not close the store; the opening has recovered what it left";
        Finding::note("last close", text, "nothing to do; if it happens often, let processes end with `close`")
    }));
    findings
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use store_core::health::{Finding, Severity};

    use super::{found_by_opening, health, identity};
    use crate::{FileConfig, FileStore, SetAside, report::Opening, vfs::sim::SimDisk};

    fn severities(findings: &[Finding]) -> Vec<(&str, Severity)> {
        findings.iter().map(|finding| (finding.about.as_str(), finding.severity)).collect()
    }

    #[test]
    fn the_space_of_the_disk_is_reported() {
        let disk = SimDisk::new();
        let store = FileStore::open_on(Arc::new(disk.clone()), FileConfig::default()).unwrap();
        assert_eq!(health(store.shared()).unwrap().free_bytes, Some(u64::MAX));
        disk.set_full(true);
        assert_eq!(health(store.shared()).unwrap().free_bytes, Some(0));
        let other = FileStore::open_on(Arc::new(SimDisk::new()), FileConfig::default()).unwrap();
        assert_ne!(identity(store.shared()), identity(other.shared()));
    }

    #[test]
    fn damage_that_an_opening_found_is_a_problem() {
        assert_eq!(found_by_opening(&Opening::default()), []);
        let aside =
            |acknowledged| SetAside { log: "t.1.jsonl".to_owned(), offset: 1, bytes: 2, path: None, acknowledged };
        let mut opening = Opening { unclean: true, set_aside: vec![aside(false)], ..Opening::default() };
        assert_eq!(severities(&found_by_opening(&opening)), [("last close", Severity::Note)]);
        opening.set_aside.push(aside(true));
        opening.damaged.push("t.2.jsonl".to_owned());
        opening.lost_journal = Some("it is missing".to_owned());
        let found = found_by_opening(&opening);
        let problem = ("damage", Severity::Problem);
        assert_eq!(severities(&found), [problem, problem, problem, ("last close", Severity::Note)]);
    }
}

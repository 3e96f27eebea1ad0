//! Arguments above the limits, and how much memory it takes to refuse them.

use std::{fmt, fs, sync::Arc};

use store_core::{Commit, ErrorKind, Expect, Json, JsonMap, Limits, NewThread, Result, StateChange, TenantStores};

use crate::{
    case::Contract,
    check::{Failure, Verdict, expect, expect_kind},
    errors::{Draft, Kind},
    fixture::Fixture,
    given::{Given, id, said},
    length::Length,
};

/// How much a refusal may take, beside its argument.
const MOST: u64 = 64 << 20;

/// Arguments of a million keys, and texts of this many bytes.
///
/// It measures the memory of its process: nothing else may run in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedBounds {
    /// Bytes of each text.
    pub bytes: u64,
}

/// What was refused, and what each refusal took.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BoundFigures {
    /// The test.
    pub test: RefusedBounds,
    /// What was refused, and by how many bytes the resident memory had grown at most.
    pub growths: Vec<(String, u64)>,
}

impl fmt::Display for BoundFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refusing texts of {} bytes and a million keys takes", self.test.bytes)?;
        for (what, bytes) in &self.growths {
            write!(f, " {} KiB ({what})", bytes >> 10)?;
        }
        Ok(())
    }
}

impl Default for RefusedBounds {
    /// One byte above the default limit of a record, at length 1 GiB.
    fn default() -> Self {
        let above = Limits::default().record_bytes + 1;
        Self { bytes: Length::choose(above, above, 1 << 30) }
    }
}

/// Resident memory: now, and at most since it was asked for last.
fn resident(line: &str) -> std::result::Result<u64, Failure> {
    let status = fs::read_to_string("/proc/self/status").map_err(|error| Failure::new(error.to_string()))?;
    let value = status.lines().find_map(|own| own.strip_prefix(line)?.strip_prefix(':'));
    let kibibytes = value.and_then(|value| value.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes.map(|kibibytes| kibibytes << 10).ok_or_else(|| Failure::new(format!("no {line}")))
}

/// Forgets the most that was resident.
fn forget_most() -> std::result::Result<(), Failure> {
    fs::write("/proc/self/clear_refs", "5").map_err(|error| Failure::new(error.to_string()))
}

fn a_million_keys() -> JsonMap {
    (0..1_000_000).map(|at| (at.to_string(), Json::null())).collect()
}

impl RefusedBounds {
    /// Runs it on a new store of `fixture`.
    ///
    /// # Errors
    /// If something is accepted or refused otherwise, or a refusal takes more than 64 MiB.
    pub async fn run(self, fixture: impl Fixture) -> std::result::Result<BoundFigures, Failure> {
        let given = Given::open(Contract::CommitCoordinator, Arc::new(fixture)).await?;
        let (stores, mut growths) = (given.stores()?, Vec::new());
        let text = "x".repeat(usize::try_from(self.bytes).unwrap_or(usize::MAX));
        for kind in Contract::ALL.iter().filter(|it| **it != Contract::LiveChannel).flat_map(|it| Kind::of(*it)) {
            let draft = kind.draft("refused", &text)?;
            growths.push(refuse(&stores, &format!("{kind:?}"), draft).await?);
        }
        drop(text);
        let mut new = NewThread::new(id("refused"));
        new.fields.metadata = a_million_keys();
        growths.push(refuse(&stores, "keys of metadata", Draft::Thread(new)).await?);
        let keys = (0..1_000_000).fold(StateChange::new(), |change, at| change.set(at.to_string(), Json::null()));
        let commit = Commit::new(id("refused")).expecting(Expect::Absent).with_state(keys);
        growths.push(refuse(&stores, "keys of state", Draft::Commit(Box::new(commit))).await?);
        let many = Commit::new(id("refused")).expecting(Expect::Absent).entries((0..100_000).map(|_| said("x")));
        growths.push(refuse(&stores, "entries", Draft::Commit(Box::new(many))).await?);
        expect(given.threads()?.load_thread(&id("refused")).await?.is_none(), "a refused call made the thread")?;
        given.store().close().await?;
        Ok(BoundFigures { test: self, growths })
    }
}

/// Wants a call to be refused, and gives how much more memory was resident meanwhile.
async fn refuse(stores: &TenantStores, what: &str, draft: Draft) -> std::result::Result<(String, u64), Failure> {
    forget_most()?;
    let before = resident("VmRSS")?;
    let refused: Result<()> = draft.send(stores).await?;
    let growth = resident("VmHWM")?.saturating_sub(before);
    expect_kind(refused, ErrorKind::LimitExceeded).map_err(|failure| failure.about(what))?;
    expect(growth <= MOST, format!("{what}: it took {} KiB to refuse it", growth >> 10))?;
    Ok((what.to_owned(), growth))
}

/// Writes texts of every size up to the default limits, and one byte above. Of records that may have 64 MiB that are
/// messages, at length those of all kinds: they take half a minute.
///
/// # Errors
/// If one does not come back as it was given, or is not refused with `LimitExceeded`, or leaves something.
pub async fn default_sizes(fixture: impl Fixture) -> Verdict {
    let given = Given::open(Contract::CommitCoordinator, Arc::new(fixture)).await?;
    let of_all_kinds = Length::from_env() == Length::Long;
    for kind in Contract::ALL.iter().filter(|it| **it != Contract::LiveChannel).flat_map(|it| Kind::of(*it)) {
        if of_all_kinds || matches!(kind, Kind::Metadata | Kind::State | Kind::Message) {
            let kept = kind.any_size(&given.stores()?, given.limits()).await;
            kept.map_err(|failure| failure.about(format!("{kind:?}")))?;
        }
    }
    Ok(given.store().close().await?)
}

//! Tests arguments at the limits and above them, and measures how much memory it takes to refuse them.

use std::{fmt, fs, sync::Arc};

use store_core::{Commit, ErrorKind, Expect, Json, JsonMap, Limits, NewThread, Result, StateChange, TenantStores};

use crate::{
    case::Contract,
    check::{Failure, Verdict, expect, expect_kind},
    errors::{RecordKind, WriteCall},
    fixture::Fixture,
    given::{Given, id, message_entry},
    test_length::TestLength,
};

/// The maximum number of bytes by which the memory of the process may grow during a call that is refused.
const MAX_MEMORY_GROWTH: u64 = 64 << 20;

/// A test of calls with texts above the limits, with a million keys and with 100,000 entries. Each call must be
/// refused without taking much memory.
///
/// The test measures the memory of its process. Nothing else may run in that process at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OversizedArguments {
    /// The number of bytes of each text.
    pub bytes: u64,
}

/// The figures of a test that passed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusalFigures {
    /// The test.
    pub test: OversizedArguments,
    /// For each call, what was refused, and the maximum growth of the resident memory during the call, in bytes.
    pub growths: Vec<(String, u64)>,
}

impl fmt::Display for RefusalFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory to refuse texts of {} bytes and a million keys:", self.test.bytes)?;
        for (description, bytes) in &self.growths {
            write!(f, " {} KiB ({description})", bytes >> 10)?;
        }
        Ok(())
    }
}

impl Default for OversizedArguments {
    /// Returns a test with texts of one byte more than the default limit of a record, or of 1 GiB at length `long`.
    fn default() -> Self {
        let above = Limits::default().record_bytes + 1;
        Self { bytes: TestLength::pick_by_env(above, above, 1 << 30) }
    }
}

/// Returns the value of a line of `/proc/self/status`, in bytes. The line `VmRSS` is the memory that is resident now.
/// The line `VmHWM` is the maximum since the last call of `reset_peak`.
fn memory_figure(line_name: &str) -> std::result::Result<u64, Failure> {
    let status = fs::read_to_string("/proc/self/status").map_err(|error| Failure::new(error.to_string()))?;
    let value = status.lines().find_map(|line| line.strip_prefix(line_name)?.strip_prefix(':'));
    let kibibytes = value.and_then(|value| value.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes
        .map(|kibibytes| kibibytes << 10)
        .ok_or_else(|| Failure::new(format!("/proc/self/status has no {line_name}")))
}

/// Resets `VmHWM` to the memory that is resident now.
fn reset_peak() -> std::result::Result<(), Failure> {
    fs::write("/proc/self/clear_refs", "5").map_err(|error| Failure::new(error.to_string()))
}

fn a_million_keys() -> JsonMap {
    (0..1_000_000).map(|at| (at.to_string(), Json::null())).collect()
}

/// The kinds of records that hold a text and that the store has.
fn record_kinds(stores: &TenantStores) -> impl Iterator<Item = &'static RecordKind> + use<> {
    let has_documents = stores.documents.is_some();
    let is_tested = move |contract: &&Contract| match contract {
        Contract::LiveChannel | Contract::ObjectStore => false,
        Contract::DocumentStore => has_documents,
        _ => true,
    };
    Contract::ALL.iter().filter(is_tested).flat_map(|contract| RecordKind::of_contract(*contract))
}

impl OversizedArguments {
    /// Runs the test on a new store of `fixture`.
    ///
    /// # Errors
    /// If a call is accepted or is refused with another error, or if a refusal takes more than 64 MiB.
    pub async fn run(self, fixture: impl Fixture) -> std::result::Result<RefusalFigures, Failure> {
        let given = Given::open(Contract::CommitCoordinator, Arc::new(fixture)).await?;
        let (stores, mut growths) = (given.stores()?, Vec::new());
        let text = "x".repeat(usize::try_from(self.bytes).unwrap_or(usize::MAX));
        for kind in record_kinds(&stores) {
            let call = kind.write_call("refused", &text)?;
            growths.push(expect_refused(&stores, &format!("{kind:?}"), call).await?);
        }
        drop(text);
        let mut new_thread = NewThread::new(id("refused"));
        new_thread.fields.metadata = a_million_keys();
        growths.push(expect_refused(&stores, "keys of metadata", WriteCall::Thread(new_thread)).await?);
        let keys = (0..1_000_000).fold(StateChange::new(), |change, at| change.set(at.to_string(), Json::null()));
        let commit = Commit::new(id("refused")).expecting(Expect::Absent).with_state(keys);
        growths.push(expect_refused(&stores, "keys of state", WriteCall::Commit(Box::new(commit))).await?);
        let many_entries =
            Commit::new(id("refused")).expecting(Expect::Absent).entries((0..100_000).map(|_| message_entry("x")));
        growths.push(expect_refused(&stores, "entries", WriteCall::Commit(Box::new(many_entries))).await?);
        expect(given.threads()?.load_thread(&id("refused")).await?.is_none(), "a refused call created the thread")?;
        given.store().close().await?;
        Ok(RefusalFigures { test: self, growths })
    }
}

/// Checks that a call is refused. Returns its description, and the maximum growth of the resident memory during the
/// call, in bytes.
async fn expect_refused(
    stores: &TenantStores,
    description: &str,
    call: WriteCall,
) -> std::result::Result<(String, u64), Failure> {
    reset_peak()?;
    let before = memory_figure("VmRSS")?;
    let refused: Result<()> = call.send(stores).await?;
    let growth = memory_figure("VmHWM")?.saturating_sub(before);
    expect_kind(refused, ErrorKind::LimitExceeded).map_err(|failure| failure.about(description))?;
    expect(growth <= MAX_MEMORY_GROWTH, format!("{description}: the refusal took {} KiB of memory", growth >> 10))?;
    Ok((description.to_owned(), growth))
}

/// Checks texts of several sizes up to the default limits, and texts of one byte more, in metadata, state and
/// messages. At length `long` it checks every kind of record that holds a text, which takes half a minute.
///
/// # Errors
/// If a text is not returned unchanged by a read, if a text above the limit is not refused with `LimitExceeded`, or if
/// the refused call has an effect.
pub async fn check_text_sizes(fixture: impl Fixture) -> Verdict {
    let given = Given::open(Contract::CommitCoordinator, Arc::new(fixture)).await?;
    let checks_all_kinds = TestLength::from_env() == TestLength::Long;
    for kind in record_kinds(&given.stores()?) {
        if checks_all_kinds || matches!(kind, RecordKind::Metadata | RecordKind::State | RecordKind::Message) {
            let returned = kind.expect_all_sizes(&given.stores()?, given.limits()).await;
            returned.map_err(|failure| failure.about(format!("{kind:?}")))?;
        }
    }
    Ok(given.store().close().await?)
}

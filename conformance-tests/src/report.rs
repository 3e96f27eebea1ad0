//! Runs the whole suite, and reports the results.

use std::{fmt, sync::Arc};

use futures_util::{StreamExt, stream};
use serde::Serialize;
use store_core::{Error, Limits, PageRequest};

use crate::{
    case::{Contract, Status, run_case},
    fixture::Fixture,
    matrix::StoreSupport,
};

/// How many cases run concurrently.
const CONCURRENT_CASES: usize = 4;

/// The results of every case of the suite.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The name that the fixture gives to the tested store.
    pub store: String,
    /// The capabilities and contracts of the store.
    #[serde(flatten)]
    pub support: StoreSupport,
    /// One row for each case of each contract.
    pub rows: Vec<CaseResult>,
}

/// The result of one case.
#[derive(Debug, Clone, Serialize)]
pub struct CaseResult {
    /// The contract for which the case ran.
    pub contract: Contract,
    /// The name of the case.
    pub case: &'static str,
    /// The ids of the lines of the contract that the case tests.
    pub ids: &'static [&'static str],
    /// How the case ended.
    #[serde(flatten)]
    pub status: Status,
}

/// Why the suite did not run at all.
#[derive(Debug)]
pub enum SuiteRefusal {
    /// The store holds data, which the suite would destroy.
    HoldsData,
    /// The store cannot be opened or read.
    Failed(Error),
}

impl fmt::Display for SuiteRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HoldsData => f.write_str("the store holds data, but the suite needs an empty one"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SuiteRefusal {}

impl From<Error> for SuiteRefusal {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Runs every case of every contract, each against a new store. Some cases run concurrently, because most of them wait
/// for a disk or a server.
///
/// The caller needs a tokio runtime of several threads.
///
/// # Errors
/// If the store holds data, or cannot be opened.
pub async fn run(fixture: impl Fixture) -> Result<Report, SuiteRefusal> {
    let fixture: Arc<dyn Fixture> = Arc::new(fixture);
    let support = support_of_empty_store(&fixture).await?;
    let cases = Contract::ALL.iter().flat_map(|&contract| contract.cases().map(move |case| (contract, case)));
    let rows = stream::iter(cases).map(|(contract, case)| {
        let (fixture, support) = (&fixture, &support);
        async move {
            let status = if support.contracts.contains(&contract) {
                run_case(contract, case, fixture).await
            } else {
                Status::Unsupported("the store does not have this contract".to_owned())
            };
            CaseResult { contract, case: case.name, ids: case.ids, status }
        }
    });
    let rows = rows.buffered(CONCURRENT_CASES).collect().await;
    Ok(Report { store: fixture.name(), support, rows })
}

/// Opens a store, checks that it is empty, and returns its capabilities and contracts.
async fn support_of_empty_store(fixture: &Arc<dyn Fixture>) -> Result<StoreSupport, SuiteRefusal> {
    let opened = fixture.open(Limits::default()).await?;
    if !opened.store.list_tenants(PageRequest::default()).await?.items.is_empty() {
        return Err(SuiteRefusal::HoldsData);
    }
    let support = StoreSupport::of(&*opened.store)?;
    opened.store.close().await?;
    Ok(support)
}

impl Report {
    /// How many cases passed, failed, were unsupported, were gaps, and did not run. These are the five columns of the
    /// report.
    #[must_use]
    pub fn counts(&self) -> [usize; 5] {
        let mut counts = [0; 5];
        for row in &self.rows {
            counts[status_column(&row.status)] += 1;
        }
        counts
    }

    /// Whether no case failed.
    #[must_use]
    pub fn is_success(&self) -> bool {
        !self.rows.iter().any(|row| matches!(row.status, Status::Failed(_)))
    }
}

/// The index of the column of the report in which a case with this status is counted.
const fn status_column(status: &Status) -> usize {
    match status {
        Status::Passed => 0,
        Status::Failed(_) => 1,
        Status::Unsupported(_) => 2,
        Status::Gap(_) => 3,
        Status::NotRun(_) => 4,
    }
}

/// The headings of the columns of the report.
const COLUMN_NAMES: [&str; 5] = ["passed", "failed", "unsupported", "gap", "not run"];

/// Writes the capabilities and contracts, a table with the counts of each area, and every case that did not pass, with
/// the reason.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n\n{}", self.store, self.support)?;
        write!(f, "{:<32}", "contract, area")?;
        COLUMN_NAMES.iter().try_for_each(|name| write!(f, "{name:>12}"))?;
        for (area, counts) in self.counts_by_area() {
            write!(f, "\n{area:<32}")?;
            counts.iter().try_for_each(|count| write!(f, "{count:>12}"))?;
        }
        write!(f, "\n{:<32}", "all")?;
        self.counts().iter().try_for_each(|count| write!(f, "{count:>12}"))?;
        for row in &self.rows {
            if let Status::Failed(why) | Status::Unsupported(why) | Status::Gap(why) | Status::NotRun(why) = &row.status
            {
                let name = COLUMN_NAMES[status_column(&row.status)];
                write!(f, "\n{name}: {} ({}): {why}", row.case, row.ids.join(", "))?;
            }
        }
        writeln!(f)
    }
}

impl Report {
    /// The counts for each area of each contract, in the order in which the case lists of the contracts name the areas.
    fn counts_by_area(&self) -> Vec<(String, [usize; 5])> {
        let mut areas: Vec<(String, [usize; 5])> = Vec::new();
        for row in &self.rows {
            let area = row.case.split("::").next().unwrap_or_default();
            let name = format!("{:?}, {area}", row.contract);
            if areas.last().is_none_or(|(last, _)| *last != name) {
                areas.push((name, [0; 5]));
            }
            if let Some((_, counts)) = areas.last_mut() {
                counts[status_column(&row.status)] += 1;
            }
        }
        areas
    }
}

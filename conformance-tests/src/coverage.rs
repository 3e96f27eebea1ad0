//! Promises of the contract that no case shows, and where they are shown.

/// A line of the contract that no case of this suite shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherCoverage {
    /// The id of the line.
    pub id: &'static str,
    /// Where the line is shown.
    pub covered_by: CoveredBy,
    /// What exactly the test or benchmark looks at.
    pub what: &'static str,
}

/// Where a line that has no case is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CoveredBy {
    /// In the fault tests of the backends, because the line needs an injected fault.
    Faults,
    /// In the backends' own tests, because these can look at what is stored.
    Backends,
    /// In a benchmark, as a ratio. No test judges it by the clock.
    Benchmarks,
    /// By the types of `store-core`: a store that breaks the line does not compile.
    Types,
}

const fn line(id: &'static str, covered_by: CoveredBy, what: &'static str) -> OtherCoverage {
    OtherCoverage { id, covered_by, what }
}

/// Every line of the areas of this suite that no case shows.
pub static OTHER_COVERAGE: &[OtherCoverage] = &[
    line("ER-4", CoveredBy::Faults, "a connection that breaks while a call is being sent, or afterwards"),
    line("PR-2", CoveredBy::Types, "everything that a store may lack is an `Option`"),
    line("PR-15", CoveredBy::Benchmarks, "cost over the length of the history, the number of threads and the backlog"),
    line(
        "PR-18",
        CoveredBy::Backends,
        "files of stores that every release wrote, and of one that a newer release wrote",
    ),
    line("PR-21", CoveredBy::Faults, "when the effect of a call with an unknown outcome appears"),
    line("TN-6", CoveredBy::Benchmarks, "pages of one tenant beside other tenants of any size"),
    line("ID-5", CoveredBy::Backends, "the files, the tables and the subjects after hostile ids were written"),
    line("EN-10", CoveredBy::Benchmarks, "cost of a rewind and a fork over the length of the log"),
    line("EN-14", CoveredBy::Benchmarks, "the first and the last page of a long log"),
    line("CX-12", CoveredBy::Benchmarks, "cost of a context over the length of the log and of the path"),
    line("EV-18", CoveredBy::Faults, "a server that is killed during a subscription"),
    line("EV-21", CoveredBy::Backends, "a subscriber and a writer in different processes"),
    line("LV-9", CoveredBy::Benchmarks, "the time from an enqueue to the claim in another process that waits"),
    line("MB-7", CoveredBy::Faults, "a process that is killed while it enqueues with keys"),
    line(
        "MB-28",
        CoveredBy::Benchmarks,
        "claims beside a backlog: of other threads, of the same, finished, and not due",
    ),
    line("MB-48", CoveredBy::Types, "no read of the mailbox is answered from an index that may lag behind"),
    line("MB-55", CoveredBy::Backends, "a thread whose log is damaged"),
];

//! Promises of the contract that no case tests, and what covers them instead.

/// A promise of the contract that no case of this suite tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromiseWithoutCase {
    /// The id of the promise.
    pub id: &'static str,
    /// What covers the promise instead of a case.
    pub covered_by: CoveredBy,
    /// What the tests or benchmarks examine, or what the types guarantee.
    pub what: &'static str,
}

/// What covers a promise that has no case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CoveredBy {
    /// The fault tests of the backends, because a test of the promise needs an injected fault.
    Faults,
    /// The backends' own tests, because these can examine the stored data.
    Backends,
    /// The tests of the facade or the command, because the promise is about these.
    Facade,
    /// A benchmark, which measures a ratio of costs. No test depends on measured times.
    Benchmarks,
    /// The types of `store-core`: a store that does not keep the promise does not compile.
    Types,
}

const fn promise(id: &'static str, covered_by: CoveredBy, what: &'static str) -> PromiseWithoutCase {
    PromiseWithoutCase { id, covered_by, what }
}

/// Every promise that belongs to an area of this suite and that no case tests.
pub static PROMISES_WITHOUT_CASE: &[PromiseWithoutCase] = &[
    promise("ER-4", CoveredBy::Faults, "a connection that breaks while a call is being sent, or afterwards"),
    promise("PR-2", CoveredBy::Types, "each contract that a store may lack is an `Option`"),
    promise(
        "PR-15",
        CoveredBy::Benchmarks,
        "costs for different lengths of the history, numbers of threads and backlogs",
    ),
    promise(
        "PR-18",
        CoveredBy::Backends,
        "stores written by each earlier release, and a store written by a newer release",
    ),
    promise(
        "PR-21",
        CoveredBy::Faults,
        "the time at which the effect of a call with an unknown outcome becomes visible",
    ),
    promise("TN-6", CoveredBy::Benchmarks, "the cost of a page of one tenant while other tenants grow"),
    promise("ID-5", CoveredBy::Backends, "the files, the tables and the subjects after unusual ids were written"),
    promise("EN-10", CoveredBy::Benchmarks, "the cost of a rewind and of a fork for different lengths of the log"),
    promise("EN-14", CoveredBy::Benchmarks, "the costs of the first and of the last page of a long log"),
    promise("CX-12", CoveredBy::Benchmarks, "the cost of a context for different lengths of the log and of the path"),
    promise("CX-20", CoveredBy::Facade, "which messages a compactor summarises, and when"),
    promise("CX-21", CoveredBy::Facade, "compactions beside other writers, and compactions that fail"),
    promise("CX-22", CoveredBy::Facade, "repeated compactions of a thread"),
    promise("CX-23", CoveredBy::Facade, "copies of threads, also of interrupted ones"),
    promise("DO-10", CoveredBy::Backends, "the space of documents that are overwritten and deleted again and again"),
    promise("EF-7", CoveredBy::Facade, "workers whose attempts end before, during and after an effect"),
    promise("EF-8", CoveredBy::Faults, "a process that is killed while it performs effects"),
    promise("ER-11", CoveredBy::Facade, "the advice of the command for errors with equal fields and other texts"),
    promise("EV-18", CoveredBy::Faults, "a server that is killed during a subscription"),
    promise("EV-21", CoveredBy::Backends, "a subscriber and a writer in different processes"),
    promise("LV-9", CoveredBy::Benchmarks, "the time from an enqueue to the claim in another process that waits"),
    promise("MB-7", CoveredBy::Faults, "a process that is killed while it enqueues with keys"),
    promise(
        "MB-28",
        CoveredBy::Benchmarks,
        "claims beside many other dispatches: of other threads, of the same thread, finished, or not due",
    ),
    promise("MB-48", CoveredBy::Types, "no read of the mailbox is answered from an index that may lag behind"),
    promise("MB-55", CoveredBy::Backends, "a thread whose log is damaged"),
];

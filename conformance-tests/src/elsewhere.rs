//! Promises of the contract that no case shows, and where they are shown.

/// A line of the contract that no case of this suite shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elsewhere {
    /// The id of the line.
    pub id: &'static str,
    /// Where the line is shown.
    pub place: Place,
    /// What exactly the test or benchmark looks at.
    pub what: &'static str,
}

/// Where a line that has no case is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// In the fault tests of the backends, because the line needs an injected fault.
    Faults,
    /// In the backends' own tests, because these can look at what is stored.
    Backends,
    /// In a benchmark, as a ratio. No test judges it by the clock.
    Benchmarks,
    /// By the types of `store-core`: a store that breaks the line does not compile.
    Types,
}

const fn line(id: &'static str, place: Place, what: &'static str) -> Elsewhere {
    Elsewhere { id, place, what }
}

/// Every line of the areas of this suite that no case shows.
pub static ELSEWHERE: &[Elsewhere] = &[
    line("ER-4", Place::Faults, "a connection that breaks while a call is sent, and after"),
    line("PR-2", Place::Types, "what a store may lack stands behind an `Option`"),
    line("PR-15", Place::Benchmarks, "cost over the length of the history, the threads and the backlog"),
    line("PR-18", Place::Backends, "stores written by every release, kept as files, and one of a newer release"),
    line("PR-21", Place::Faults, "when an effect that was unknown comes"),
    line("TN-6", Place::Benchmarks, "pages of one tenant beside others of any size"),
    line("ID-5", Place::Backends, "the tree of files, the tables and the subjects after hostile ids"),
    line("EN-10", Place::Benchmarks, "rewind and fork over the length of the log"),
    line("EN-14", Place::Benchmarks, "the first and the last page of a long log"),
    line("CX-12", Place::Benchmarks, "a context over the length of the log and of the path"),
    line("EV-18", Place::Faults, "a server that is killed under a subscription"),
    line("EV-21", Place::Backends, "a subscriber in another process than the writer"),
    line("LV-9", Place::Benchmarks, "from an enqueue to the claim in another process that waits"),
    line("MB-7", Place::Faults, "a process that is killed while it enqueues under keys"),
    line("MB-28", Place::Benchmarks, "claims beside a backlog: on other threads, on the same one, ended, and not due"),
    line("MB-48", Place::Types, "no read of the mailbox is answered by an index that may be late"),
    line("MB-55", Place::Backends, "a thread whose log is damaged"),
];

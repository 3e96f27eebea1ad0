//! Evaluation runs: the results of an agent for the cases of a dataset, each written once (TR-4 to TR-6).

mod comparison;
mod keys;
mod record;
mod request;
mod retention;
mod rules;
mod store;
mod summary;

pub(super) use self::keys::record_in;
pub use self::{
    comparison::{CellComparison, CellResults, CellVerdict, EvaluationReaderExt, compare_cells},
    record::{
        Cell, Evaluation, EvaluationResult, EvaluationStatus, MAX_CELL_BYTES, MAX_RESULTS_OF_CASE, ResultContent,
        ResultKey, Score,
    },
    request::{
        EvaluationEnd, MissingResult, NewEvaluation, NewResult, PurgeEvaluations, PurgedEvaluations, ResultQuery,
    },
    store::{EvaluationLayer, EvaluationReader, EvaluationStore, EvaluationWriter},
    summary::{CellSummary, EvaluationSummary},
};

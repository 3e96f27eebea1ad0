//! Removing evaluation runs that have ended.

use std::collections::BTreeMap;

use super::{
    keys::{self, OUTPUTS, RESULTS, decode},
    record::{EvaluationStatus, StoredEvaluation},
    request::{PurgeEvaluations, PurgedEvaluations},
    store::EvaluationLayer,
};
use crate::{
    document::{DeleteDocuments, Document, DocumentChange, DocumentExpect, WriteDocuments},
    error::{ErrorKind, Result},
    ext::DocumentStoreExt,
    id::{DatasetId, EvaluationId},
    layers::encoded,
    limits::length,
    progress::Progress,
    time::Timestamp,
};

/// What a purge has to know of an evaluation run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Candidate {
    id: EvaluationId,
    dataset: DatasetId,
    status: EvaluationStatus,
    pinned: bool,
    removing: bool,
    revision: u64,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl Candidate {
    fn from_document(document: &Document) -> Result<Self> {
        let StoredEvaluation { dataset, status, pinned, removing, .. } = decode(document)?;
        let (revision, created_at, updated_at) = (document.revision, document.created_at, document.updated_at);
        let id = keys::evaluation_of(document)?;
        Ok(Self { id, dataset, status, pinned, removing, revision, created_at, updated_at })
    }
}

/// Returns the runs that a request removes, and those whose removal was interrupted (TR-6). They are in the order in
/// which they were created.
fn to_be_removed(mut candidates: Vec<Candidate>, request: &PurgeEvaluations) -> Vec<Candidate> {
    candidates.sort_by(|left, right| (left.created_at, &left.id).cmp(&(right.created_at, &right.id)));
    let mut newer = BTreeMap::new();
    for candidate in candidates.iter().filter(|candidate| !candidate.removing) {
        *newer.entry(candidate.dataset.clone()).or_insert(0_u64) += 1;
    }
    candidates.retain(|candidate| {
        if candidate.removing {
            return true;
        }
        // From here on, the number of runs of the dataset that are newer than this one.
        let newer = newer.entry(candidate.dataset.clone()).or_default();
        *newer = newer.saturating_sub(1);
        candidate.status != EvaluationStatus::Running
            && !candidate.pinned
            && *newer >= request.keep_newest
            && request.before.is_none_or(|before| candidate.updated_at < before)
            && request.dataset.as_ref().is_none_or(|dataset| *dataset == candidate.dataset)
    });
    candidates
}

/// Reports the number of removed runs, whatever is being removed.
#[derive(Debug)]
struct Removed<'a> {
    progress: &'a dyn Progress,
    runs: usize,
}

impl Progress for Removed<'_> {
    fn advance(&self, _: u64, _: Option<u64>) -> bool {
        self.progress.advance(length(self.runs), None)
    }
}

impl EvaluationLayer {
    pub(super) async fn purge(&self, request: &PurgeEvaluations, progress: &dyn Progress) -> Result<PurgedEvaluations> {
        let candidates = self.store.list_all(keys::all()?, Candidate::from_document).await?;
        let mut purged = PurgedEvaluations::default();
        for candidate in to_be_removed(candidates, request) {
            let removed = Removed { progress, runs: purged.evaluations.len() };
            if request.dry_run {
                purged.evaluations.push(candidate.id);
                continue;
            }
            match self.remove(&candidate, &removed).await? {
                Removal::Done => purged.evaluations.push(candidate.id),
                Removal::Changed => {}
                Removal::Stopped => purged.stopped = true,
            }
            if purged.stopped || !progress.advance(length(purged.evaluations.len()), None) {
                purged.stopped = true;
                break;
            }
        }
        Ok(purged)
    }

    /// Removes a run. First it is hidden, so that no caller sees a part of it, and no result can be added; then its
    /// results and outputs are removed, and itself at last. An interrupted removal goes on with the hidden run.
    async fn remove(&self, candidate: &Candidate, progress: &Removed<'_>) -> Result<Removal> {
        let name = keys::evaluation(&candidate.id)?;
        let mut expect = DocumentExpect::Revision(candidate.revision);
        if !candidate.removing {
            let Some(document) = self.store.documents.load_document(&name).await? else { return Ok(Removal::Changed) };
            let stored = decode::<StoredEvaluation>(&document)?.hidden();
            let hidden = DocumentChange::put(name.clone(), encoded(&stored)?).expecting(expect);
            match self.store.documents.write_documents(WriteDocuments::new([hidden])).await {
                Err(error) if error.kind() == ErrorKind::Conflict => return Ok(Removal::Changed),
                written => expect = DocumentExpect::Revision(written?.revision.unwrap_or_default()),
            }
        }
        for collection in [OUTPUTS, RESULTS] {
            let all = DeleteDocuments::new(keys::of_evaluation(collection, &candidate.id)?);
            if self.store.documents.delete_documents(all, progress).await?.stopped {
                return Ok(Removal::Stopped);
            }
        }
        match self
            .store
            .documents
            .write_documents(WriteDocuments::new([DocumentChange::delete(name).expecting(expect)]))
            .await
        {
            // Another purge was faster.
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(Removal::Changed),
            written => written.map(|_| Removal::Done),
        }
    }
}

/// How the removal of a run went.
enum Removal {
    Done,
    /// The run has changed since it was listed: it was pinned, or another purge removes it.
    Changed,
    Stopped,
}

#[cfg(test)]
mod tests {
    use super::{Candidate, to_be_removed};
    use crate::{PurgeEvaluations, Timestamp};

    /// Runs of the dataset `d`, in the order in which they were created and changed, one a millisecond: their ids, each
    /// after a mark: `+` completed, `-` abandoned, `?` running, `!` pinned, `~` being removed.
    fn candidates(marked: &str) -> Vec<Candidate> {
        let candidate = |(text, time): (&str, u64)| Candidate {
            id: text[1..].parse().unwrap(),
            dataset: "d".parse().unwrap(),
            status: match &text[..1] {
                "?" => super::EvaluationStatus::Running,
                "-" => super::EvaluationStatus::Abandoned,
                _ => super::EvaluationStatus::Completed,
            },
            pinned: text.starts_with('!'),
            removing: text.starts_with('~'),
            revision: 1,
            created_at: Timestamp::from_millis(time).unwrap(),
            updated_at: Timestamp::from_millis(time).unwrap(),
        };
        marked.split_whitespace().zip(1..).map(candidate).collect()
    }

    fn check(marked: &str, request: &PurgeEvaluations, expected: &str) {
        let removed = to_be_removed(candidates(marked), request);
        let ids: Vec<_> = removed.iter().map(|removed| removed.id.as_str()).collect();
        assert_eq!(ids.join(" "), expected, "{marked} {request:?}");
    }

    #[test]
    fn runs_that_ended_are_removed_by_age_and_number() {
        let before = |time| PurgeEvaluations::before(Timestamp::from_millis(time).unwrap());
        let keep = PurgeEvaluations::keeping_newest;
        check("+a -b ?c !d ~e", &keep(0), "a b e");
        check("+z +b +c", &keep(1), "z b");
        check("+a +b +c", &keep(3), "");
        check("+a +b +c", &keep(9), "");
        // Those that stay anyway count.
        check("+a +b ?c !d", &keep(2), "a b");
        check("+a +b ?c !d", &keep(3), "a");
        // What is being removed does not count, and goes.
        check("+a ~b +c", &keep(2), "b");
        check("+a +b +c", &before(3), "a b");
        check("+a ~b +c", &before(1), "b");
        let mut both = before(3);
        both.keep_newest = 2;
        check("+a +b +c", &both, "a");
    }

    #[test]
    fn datasets_are_counted_apart() {
        let mut all = candidates("+a +b +c +d");
        all[1].dataset = "other".parse().unwrap();
        all[2].dataset = "other".parse().unwrap();
        let ids = |request: &PurgeEvaluations| {
            let removed = to_be_removed(all.clone(), request);
            removed.iter().map(|removed| removed.id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(ids(&PurgeEvaluations::keeping_newest(1)), ["a", "b"]);
        assert_eq!(ids(&PurgeEvaluations::keeping_newest(1).of("d".parse().unwrap())), ["a"]);
    }
}

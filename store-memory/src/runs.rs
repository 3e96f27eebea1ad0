//! Reading runs.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    CursorScope, Error, Page, PageBuilder, Position, Result, Run, RunFilter, RunId, RunQuery, RunReader, TimeWalk,
    Timestamp, length,
};

use crate::threads::MemoryThreads;

#[async_trait]
impl RunReader for MemoryThreads {
    async fn load_run(&self, id: &RunId) -> Result<Option<Run>> {
        let run = self.tenant()?.index.read().run(id).map(Arc::clone);
        Ok(run.map(|run| Run::clone(&run)))
    }

    async fn list_runs(&self, query: RunQuery) -> Result<Page<Run>> {
        let tenant = self.tenant()?;
        let mut page = PageBuilder::new(query.page.checked_limit()?);
        let index = tenant.index.read();
        let generation = query.filter.thread.as_ref().map(|thread| index.generation(thread));
        let scope = CursorScope::new(&tenant.name, "list_runs", &format!("{:?}", (generation, query.cursor_binding())));
        let after = Position::from_cursor(&tenant.shared.cursor_key, &scope, query.page.cursor.as_ref())?;
        let walk = TimeWalk {
            direction: query.direction,
            after: after.map(|position| decode_position(&position)).transpose()?,
            from: query.filter.created_after,
            before: query.filter.created_before,
        };
        for (time, run) in index.walk_runs(&query.filter, &walk) {
            let item = query.filter.admits(run).then(|| Arc::clone(run));
            if !page.offer(Position::new(time.as_millis(), run.id.as_str()), approximate_bytes(run), item) {
                break;
            }
        }
        drop(index);
        Ok(page.finish(|position| position.to_cursor(&tenant.shared.cursor_key, &scope)).map(|run| Run::clone(&run)))
    }

    async fn count_runs(&self, filter: &RunFilter) -> Result<u64> {
        let index = self.tenant()?.index.read();
        if *filter == RunFilter::default() {
            return Ok(length(index.count_runs()));
        }
        let walk = TimeWalk::between(filter.created_after, filter.created_before);
        Ok(length(index.walk_runs(filter, &walk).filter(|(_, run)| filter.admits(run)).count()))
    }
}

fn decode_position(position: &Position) -> Result<(Timestamp, RunId)> {
    let malformed = |e: Error| Error::invalid_cursor("it is malformed").with_source(e);
    Ok((Timestamp::from_millis(position.rank).map_err(malformed)?, RunId::new(&position.id).map_err(malformed)?))
}

/// Returns the size in bytes of the parts of a run that may be large.
fn approximate_bytes(run: &Run) -> u64 {
    let request = run.request.as_ref().map_or(0, |request| request.as_str().len());
    length(request + run.state.values().map(|value| value.as_str().len()).sum::<usize>())
}

#[cfg(test)]
mod tests {
    use store_core::{AgentId, Commit, Json, RunChange, RunId, RunStatus, Store, TenantId, ThreadId};

    use crate::{MemoryConfig, MemoryStore};

    #[tokio::test]
    async fn the_size_of_a_run_counts_its_request_and_state() {
        let store = MemoryStore::open(MemoryConfig::default()).unwrap();
        let tenant = store.tenant(&TenantId::default_tenant()).unwrap();
        let id = RunId::new("r").unwrap();
        let mut run = RunChange::new(id.clone(), RunStatus::Running).with_agent(AgentId::new("a").unwrap());
        run.request = Some(Json::parse("12345").unwrap());
        run.state.insert("key".to_owned(), Some(Json::parse("123").unwrap()));
        let commit = Commit::new(ThreadId::new("t").unwrap()).with_run(run);
        let _ = tenant.commits.unwrap().commit(commit).await.unwrap();
        let run = tenant.threads.unwrap().load_run(&id).await.unwrap().unwrap();
        assert_eq!(super::approximate_bytes(&run), 8);
    }
}

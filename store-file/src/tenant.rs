//! The handle of a tenant: hands work to the threads of the store, and refuses it once either is closed.

use std::{sync::Arc, time::Duration};

use store_core::{
    Error, Result, TenantId, ThreadId,
    in_flight::{self, CallScope},
};

use crate::{
    names::Part,
    pool::Lost,
    refresh,
    shared::{Shared, TenantState},
    writer::{Answer, Ask, GiveBack, Wanted, Writers},
};

/// The contracts of a store for one tenant.
#[derive(Debug, Clone)]
pub(crate) struct Tenant {
    pub(crate) shared: Arc<Shared>,
    pub(crate) writers: Writers,
    pub(crate) id: TenantId,
    pub(crate) state: Arc<TenantState>,
}

impl Tenant {
    /// Where claims whose answer no caller receives are given back.
    pub(crate) fn give_back(&self, log: ThreadId) -> GiveBack {
        let log = (self.id.clone(), log, Part::Events);
        GiveBack { writers: self.writers.clone(), log, tenant: Arc::clone(&self.state) }
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.state.is_closed() {
            return Err(Error::closed());
        }
        self.shared.check_open()
    }

    /// Runs a job that only reads, about one thread or several.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        about: CallScope,
        job: impl FnOnce(&Arc<Shared>, &TenantId) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let reading = move |shared: &Arc<Shared>, tenant: &TenantId| {
            let _reading = shared.readers.begin();
            job(shared, tenant)
        };
        match self.run(&about, reading).await? {
            Err(Lost::Panicked) => Err(Error::unavailable("reading failed").with_source(Lost::Panicked)),
            answer => answer?,
        }
    }

    /// Runs a job that changes several threads.
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Arc<Shared>, &TenantId) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.check_open()?;
        let ticket = self.state.write_gate.enter()?;
        let (work_guard, caller_guard) = in_flight::start_call(&self.state.abandoned, None);
        let changing = move |shared: &Arc<Shared>, tenant: &TenantId| {
            let (_work_guard, _ticket) = (work_guard, ticket);
            job(shared, tenant)
        };
        let answer = self.run(&None, changing).await?;
        caller_guard.answered();
        answer?
    }

    /// Waits until the holder of a store that is open for reading has written, or for so long, and reads what it wrote.
    /// `seen` is how many of its changes were seen before.
    pub(crate) async fn look_again(&self, seen: u64, at_most: Duration) -> Result<u64> {
        self.check_open()?;
        let shared = Arc::clone(&self.shared);
        let looking = move || {
            let seen = shared.watch.wait(seen, at_most);
            shared.check_open()?;
            refresh::refresh(&shared)?;
            Ok(seen)
        };
        self.shared.pool.run(looking).await?
    }

    async fn run<T: Send + 'static>(
        &self,
        about: &CallScope,
        job: impl FnOnce(&Arc<Shared>, &TenantId) -> Result<T> + Send + 'static,
    ) -> Result<std::result::Result<Result<T>, Lost>> {
        self.check_open()?;
        self.state.abandoned.wait(about).await;
        let (shared, tenant) = (Arc::clone(&self.shared), self.id.clone());
        Ok(self.shared.pool.run(move || job(&shared, &tenant)).await)
    }

    /// Hands a change of one thread to its writer. It has its place in the thread's order when this is first polled.
    pub(crate) async fn write(&self, thread: ThreadId, ask: Ask) -> Result<Answer> {
        let about = Some(thread.clone());
        self.write_to((thread, Part::Thread), about, ask).await
    }

    /// Hands a change of a log to the writer. `about` is the thread that the call is about; none if it is about
    /// several.
    pub(crate) async fn write_to(&self, log: (ThreadId, Part), about: CallScope, ask: Ask) -> Result<Answer> {
        self.check_open()?;
        let (thread, part) = log;
        self.state.abandoned.wait(&about).await;
        let commit_key = match &ask {
            Ask::Commit(commit) => commit.key.clone(),
            _ => None,
        };
        let ticket = self.state.write_gate.enter()?;
        let (work_guard, caller_guard) = in_flight::start_call(&self.state.abandoned, about);
        let key = (self.id.clone(), thread, part);
        let wanted = Wanted { ask, key, tenant: Arc::clone(&self.state), work: work_guard, ticket };
        let answer = self.writers.push(wanted).await;
        caller_guard.answered();
        match answer {
            Err(Lost::Panicked) => Err(Error::commit_unknown(commit_key).with_source(Lost::Panicked)),
            answer => answer?,
        }
    }
}

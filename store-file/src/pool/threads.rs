//! The threads: started when they are needed, up to a limit.

use std::{
    collections::VecDeque,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use tokio::sync::watch;

use super::{Lost, Pending};

/// How many threads there are at most if nothing else is said: with 32 of them commits to many logs come close to what
/// the disk can do, with 8 to half of it.
pub(crate) const DEFAULT_THREADS: usize = 32;

/// How many times a thread that has worked looks for more before it sleeps: a caller that goes on as soon as it has its
/// answer need not wait until a thread is awake again. With 150 looks a commit of a single caller took an eighth less.
const LOOKS: u32 = 150;

pub(super) type Job = Box<dyn FnOnce() + Send>;

/// Threads that run jobs. Clones are the same pool; after the last one is dropped the threads finish what was accepted
/// and end.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Handle>);

/// Held by the users of the pool, not by its threads.
struct Handle(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    /// Whether there are jobs, for the thread that looks for some.
    has_jobs: AtomicBool,
    limit: usize,
    ended: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// Whether a thread looks for jobs: it takes the next one without being woken.
    looking: bool,
    closing: bool,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.0.state();
        let (threads, waiting) = (state.threads, state.jobs.len());
        f.debug_struct("Pool").field("threads", &threads).field("waiting", &waiting).finish_non_exhaustive()
    }
}

impl Pool {
    /// A pool of at most `limit` threads; none is started yet.
    pub(crate) fn new(limit: usize) -> Self {
        let (ended, _) = watch::channel(false);
        let (state, wake, has_jobs) = (Mutex::default(), Condvar::new(), AtomicBool::new(false));
        Self(Arc::new(Handle(Arc::new(Shared { state, wake, has_jobs, limit: limit.max(1), ended }))))
    }

    /// Runs a job on a thread of the pool.
    pub(crate) fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Pending<T> {
        let (sender, pending) = Pending::accepted();
        let job = Box::new(move || drop(sender.send(job())));
        match self.submit(job, false) {
            Ok(()) => pending,
            Err(lost) => Pending::refused(lost),
        }
    }

    /// Lets a thread run a job. One that belongs to work that was accepted before is accepted while the pool closes.
    pub(super) fn submit(&self, job: Job, accepted_before: bool) -> Result<(), Lost> {
        self.0.0.submit(job, accepted_before)
    }

    /// Whether the pool still takes work.
    pub(crate) fn is_open(&self) -> bool {
        !self.0.0.state().closing
    }

    /// Takes no more work, and returns when all that was accepted is done and the threads have ended. A job of the pool
    /// must not wait for it.
    pub(crate) async fn close(&self) {
        let mut ended = self.0.0.ended.subscribe();
        self.0.0.begin_close();
        // The sender lives as long as this pool, so waiting ends with the value only.
        let _ = ended.wait_for(|ended| *ended).await;
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.begin_close();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn submit(self: &Arc<Self>, job: Job, accepted_before: bool) -> Result<(), Lost> {
        let mut state = self.state();
        if state.closing && !accepted_before {
            return Err(Lost::Closed);
        }
        // Each idle thread takes one of the waiting jobs; for what is more than that there should be another thread.
        if state.jobs.len() >= state.idle + usize::from(state.looking) && state.threads < self.limit {
            let shared = Arc::clone(self);
            let started = thread::Builder::new().name("store-file".to_owned()).spawn(move || shared.work());
            match started {
                Ok(_) => state.threads += 1,
                Err(_) if state.threads == 0 => return Err(Lost::NoThread),
                // The threads that are running will take the job.
                Err(_) => {}
            }
        }
        state.jobs.push_back(job);
        self.has_jobs.store(true, Ordering::Relaxed);
        if state.jobs.len() > usize::from(state.looking) {
            self.wake.notify_one();
        }
        Ok(())
    }

    fn begin_close(&self) {
        let mut state = self.state();
        state.closing = true;
        if state.threads == 0 {
            self.ended.send_replace(true);
        }
        self.wake.notify_all();
    }

    fn work(&self) {
        let mut state = self.state();
        let mut has_worked = false;
        loop {
            if let Some(job) = state.jobs.pop_front() {
                self.has_jobs.store(!state.jobs.is_empty(), Ordering::Relaxed);
                has_worked = true;
                drop(state);
                // A job guards its own data against a panic; its caller gets `Lost::Panicked`.
                let _ = catch_unwind(AssertUnwindSafe(job));
                state = self.state();
            } else if state.closing {
                break;
            } else if has_worked && !state.looking {
                has_worked = false;
                state = self.look(state);
            } else {
                state.idle += 1;
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
        state.threads -= 1;
        if state.threads == 0 {
            self.ended.send_replace(true);
        }
    }

    /// Returns when there are jobs, or after some looks; other threads run in between.
    fn look<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.looking = true;
        drop(state);
        for _ in 0..LOOKS {
            if self.has_jobs.load(Ordering::Relaxed) {
                break;
            }
            thread::yield_now();
        }
        let mut state = self.state();
        state.looking = false;
        state
    }
}

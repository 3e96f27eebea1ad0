//! The handle of a tenant: calls on their way to the threads that work, and what becomes of those that are dropped.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rusqlite::{Connection, Row};
use store_core::{
    Clock, CursorKey, Error, IdSource, Limits, Result, TenantId, Timestamp,
    commit::Setting,
    flight::{self, About, Orphans},
    live::Bell,
};
use tokio::sync::oneshot;

use crate::{
    news::News,
    readers::{Gate, Readers},
    rows::{Known, Recent, Rows, get, one, unsigned},
    sql,
    writer::{Call, Decided, Writer},
};

/// What an opening fixed.
#[derive(Debug)]
pub(crate) struct Fixed {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn IdSource>,
    pub(crate) limits: Limits,
    pub(crate) cursors: CursorKey,
    /// Whether other processes may write.
    pub(crate) is_shared: bool,
    pub(crate) gate: Gate,
    pub(crate) bell: std::path::PathBuf,
}

impl Fixed {
    /// Tells other processes that there is something new.
    pub(crate) fn ring(&self) {
        crate::news::ring(&self.bell);
    }
}

/// What all tenants of a store share.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) fixed: Arc<Fixed>,
    pub(crate) writer: Writer,
    pub(crate) readers: Readers,
    pub(crate) news: News,
    pub(crate) is_closed: AtomicBool,
}

impl Common {
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::SeqCst) { Err(Error::closed()) } else { Ok(()) }
    }
}

/// A tenant of a store.
pub(crate) struct Tenant {
    pub(crate) name: TenantId,
    pub(crate) common: Arc<Common>,
    pub(crate) bell: Bell,
    orphans: Arc<Orphans>,
    is_closed: AtomicBool,
    /// Its rows, once there are some: a tenant that was removed since, and made anew, is another.
    bound: Mutex<Option<Known>>,
}

impl Tenant {
    pub(crate) fn new(name: TenantId, common: Arc<Common>) -> Self {
        Self {
            name,
            common,
            bell: Bell::default(),
            orphans: Arc::default(),
            is_closed: AtomicBool::new(false),
            bound: Mutex::default(),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    pub(crate) fn fixed(&self) -> &Fixed {
        &self.common.fixed
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed() { Err(Error::closed()) } else { self.common.check_open() }
    }

    /// Takes no more calls.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.bell.ring(Timestamp::MIN);
    }

    fn bound(&self) -> Option<Known> {
        *self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what was committed.
    pub(crate) fn bind(&self, known: Option<Known>) {
        if let Some(known) = known {
            self.bound.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(known);
        }
    }

    /// Whether it is the tenant of this name that another handle found.
    pub(crate) fn is_still(&self, known: Option<Known>) -> bool {
        self.bound().is_none_or(|bound| known == Some(bound))
    }

    /// Its rows as a transaction sees them; none if there are none yet. `Closed` if somebody removed it.
    pub(crate) fn known_in(&self, conn: &Connection) -> Result<Option<Known>> {
        let read = |row: &Row<'_>| Ok(Known { no: get(row, 0)?, incarnation: unsigned(get(row, 1)?)? });
        match self.bound() {
            Some(bound) => match one(conn, sql::TENANT_BY_NO, [bound.no], read)? {
                Some(known) => Ok(Some(known)),
                // Another process removed it.
                None => {
                    self.close();
                    Err(Error::closed())
                }
            },
            None => one(conn, sql::TENANT_BY_NAME, [self.name.as_str()], read),
        }
    }

    /// Runs a call that only reads, of one moment.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        about: About,
        call: impl FnOnce(&Rows<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.check_open()?;
        self.orphans.wait(&about).await;
        let tenant = Arc::clone(self);
        let reading = self.common.readers.read(move |conn| {
            let known = tenant.known_in(conn)?;
            tenant.bind(known);
            call(&Rows::new(conn, &tenant.name, known, &Recent::default()))
        });
        reading.await
    }

    /// Runs a call that writes. Dropped, it takes effect before any later call about the same, or never.
    pub(crate) async fn write<T: Send + 'static>(
        self: &Arc<Self>,
        about: About,
        call: impl FnMut(&Rows<'_>, Setting<'_>) -> Decided<T> + Send + 'static,
    ) -> Result<T> {
        self.check_open()?;
        let room = Some(self.common.writer.room().await?);
        self.check_open()?;
        let (work, caller) = flight::start(&self.orphans, about);
        let (reply, answer) = oneshot::channel();
        let job = Call { tenant: Arc::clone(self), call, reply: Some(reply), _work: work, _room: room, done: None };
        self.common.writer.put(Box::new(job));
        // Without an answer the thread ended in the middle.
        let answer = answer.await.map_err(|lost| Error::commit_unknown(None).with_source(lost));
        caller.answered();
        answer?
    }

    /// Runs a call that nobody waits for, before all others that wait.
    pub(crate) fn write_first(
        self: &Arc<Self>,
        mut call: impl FnMut(&Rows<'_>, Setting<'_>) -> Decided<()> + Send + 'static,
    ) {
        // Whoever lost the answer comes after it.
        let (work, _orphan) = flight::start(&self.orphans, None);
        let (reply, answer) = oneshot::channel();
        // Kept by the call itself: one that nobody wants any more would not begin.
        let call = move |rows: &Rows<'_>, setting: Setting<'_>| {
            let _kept = &answer;
            call(rows, setting)
        };
        let job = Call { tenant: Arc::clone(self), call, reply: Some(reply), _work: work, _room: None, done: None };
        self.common.writer.put_first(Box::new(job));
    }
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant").field("name", &self.name).finish_non_exhaustive()
    }
}

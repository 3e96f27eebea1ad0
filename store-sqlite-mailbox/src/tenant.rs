//! The handle of a tenant: passes calls to the threads that read and write, and handles calls that are dropped.

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
    commit::DecisionContext,
    in_flight::{self, AbandonedCalls, CallScope},
    live::Notifier,
};
use tokio::sync::oneshot;

use crate::{
    notifications::Notifications,
    readers::{ReadGate, Readers},
    rows::{RowCache, Rows, TenantRow, get, query_one, unsigned},
    sql,
    writer::{NestedResult, TenantCall, Writer},
};

/// What the reading threads, the writer and the tenants of a store use together: the values that are fixed when the
/// store is opened, and the gate for reads.
#[derive(Debug)]
pub(crate) struct StoreContext {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn IdSource>,
    pub(crate) limits: Limits,
    pub(crate) cursor_key: CursorKey,
    /// Whether other processes may write.
    pub(crate) has_other_writers: bool,
    pub(crate) read_gate: ReadGate,
    pub(crate) notify_file: std::path::PathBuf,
}

impl StoreContext {
    /// Notifies other processes of changes.
    pub(crate) fn notify_processes(&self) {
        crate::notifications::notify_other_processes(&self.notify_file);
    }
}

/// What all tenants of a store share.
#[derive(Debug)]
pub(crate) struct SharedState {
    pub(crate) store_context: Arc<StoreContext>,
    pub(crate) writer: Writer,
    pub(crate) readers: Readers,
    pub(crate) notifications: Notifications,
    pub(crate) is_closed: AtomicBool,
}

impl SharedState {
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::SeqCst) { Err(Error::closed()) } else { Ok(()) }
    }
}

/// A tenant of a store.
pub(crate) struct Tenant {
    pub(crate) name: TenantId,
    pub(crate) shared: Arc<SharedState>,
    pub(crate) notifier: Notifier,
    abandoned_calls: Arc<AbandonedCalls>,
    is_closed: AtomicBool,
    /// The row of the tenant, once it is known. A tenant that is later removed and created again has another row, and
    /// does not belong to this handle.
    tenant_row: Mutex<Option<TenantRow>>,
}

impl Tenant {
    pub(crate) fn new(name: TenantId, shared: Arc<SharedState>) -> Self {
        Self {
            name,
            shared,
            notifier: Notifier::default(),
            abandoned_calls: Arc::default(),
            is_closed: AtomicBool::new(false),
            tenant_row: Mutex::default(),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    pub(crate) fn store_context(&self) -> &StoreContext {
        &self.shared.store_context
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed() { Err(Error::closed()) } else { self.shared.check_open() }
    }

    /// Closes the tenant for further calls.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.notifier.notify(Timestamp::MIN);
    }

    fn tenant_row(&self) -> Option<TenantRow> {
        *self.tenant_row.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the row of the tenant that a transaction found or created. A row that is already known is kept.
    pub(crate) fn remember_row(&self, found_row: Option<TenantRow>) {
        if let Some(found_row) = found_row {
            self.tenant_row.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(found_row);
        }
    }

    /// Whether this handle belongs to the tenant with this row. If the tenant was removed and created again, an earlier
    /// handle does not. A restore may have raised the incarnation of the row.
    pub(crate) fn matches_row(&self, found_row: Option<TenantRow>) -> bool {
        let number = |row: TenantRow| row.row_number;
        self.tenant_row().is_none_or(|tenant_row| found_row.map(number) == Some(number(tenant_row)))
    }

    /// Returns the row of the tenant as a transaction sees it, `None` if there is none yet, or `Closed` if the tenant
    /// was removed.
    pub(crate) fn find_row(&self, conn: &Connection) -> Result<Option<TenantRow>> {
        let read = |row: &Row<'_>| Ok(TenantRow { row_number: get(row, 0)?, incarnation: unsigned(get(row, 1)?)? });
        match self.tenant_row() {
            Some(tenant_row) => match query_one(conn, sql::TENANT_BY_NUMBER, [tenant_row.row_number], read)? {
                Some(found_row) => Ok(Some(found_row)),
                // Another process removed the tenant.
                None => {
                    self.close();
                    Err(Error::closed())
                }
            },
            None => query_one(conn, sql::TENANT_BY_NAME, [self.name.as_str()], read),
        }
    }

    /// Runs a call that only reads, on one snapshot.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        thread_of_call: CallScope,
        call: impl FnOnce(&Rows<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.check_open()?;
        self.abandoned_calls.wait(&thread_of_call).await;
        let tenant = Arc::clone(self);
        let answer = self.shared.readers.read(move |conn| {
            let found_row = tenant.find_row(conn)?;
            tenant.remember_row(found_row);
            call(&Rows::new(conn, &tenant.name, found_row, &RowCache::default()))
        });
        answer.await
    }

    /// Runs a call that writes. If it is dropped, it takes effect before any later call about the same thread, or
    /// never.
    pub(crate) async fn write<T: Send + 'static>(
        self: &Arc<Self>,
        thread_of_call: CallScope,
        call: impl FnMut(&Rows<'_>, DecisionContext<'_>) -> NestedResult<T> + Send + 'static,
    ) -> Result<T> {
        self.check_open()?;
        let permit = Some(self.shared.writer.acquire_permit().await?);
        self.check_open()?;
        let (work_guard, caller_guard) = in_flight::start_call(&self.abandoned_calls, thread_of_call);
        let (reply, answer) = oneshot::channel();
        let job = TenantCall {
            tenant: Arc::clone(self),
            call,
            reply: Some(reply),
            _work_guard: work_guard,
            _permit: permit,
            result: None,
        };
        self.shared.writer.put(Box::new(job));
        // A missing answer means that the thread ended while it worked on the call.
        let answer = answer.await.map_err(|error| Error::commit_unknown(None).with_source(error));
        caller_guard.answered();
        answer?
    }

    /// Runs a call before all waiting calls. No caller waits for its end.
    pub(crate) fn write_first(
        self: &Arc<Self>,
        mut call: impl FnMut(&Rows<'_>, DecisionContext<'_>) -> NestedResult<()> + Send + 'static,
    ) {
        // Later calls of a caller that did not receive the answer wait for this call.
        let (work_guard, _caller_guard) = in_flight::start_call(&self.abandoned_calls, None);
        let (reply, answer) = oneshot::channel();
        // The call itself keeps the receiver, because a call whose receiver is dropped would not begin.
        let call = move |rows: &Rows<'_>, decision_context: DecisionContext<'_>| {
            let _kept = &answer;
            call(rows, decision_context)
        };
        let job = TenantCall {
            tenant: Arc::clone(self),
            call,
            reply: Some(reply),
            _work_guard: work_guard,
            _permit: None,
            result: None,
        };
        self.shared.writer.put_first(Box::new(job));
    }
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant").field("name", &self.name).finish_non_exhaustive()
    }
}

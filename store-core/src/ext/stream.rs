//! A stream of entries that reads the pages of a list (EN-32).

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    vec,
};

use futures_core::Stream;

use crate::{
    error::Result,
    id::ThreadId,
    log::{Entry, EntryQuery, LogReader},
    page::Page,
};

/// All entries of a query in order. At most one page of them is in memory. The stream ends after an error.
///
/// Made by [`LogReaderExt::stream_entries`](super::LogReaderExt::stream_entries).
#[must_use = "a stream reads nothing until it is polled"]
pub struct EntryStream<'a, R: ?Sized> {
    reader: &'a R,
    thread: ThreadId,
    query: EntryQuery,
    items: vec::IntoIter<Arc<Entry>>,
    page_state: PageState<'a>,
}

type PageFuture<'a> = Pin<Box<dyn Future<Output = Result<Page<Arc<Entry>>>> + Send + 'a>>;

/// The state of reading the next page.
enum PageState<'a> {
    /// The query has the cursor of the next page.
    Next,
    /// The page is being read.
    Loading(PageFuture<'a>),
    /// There is no further page.
    End,
}

impl<'a, R: LogReader + ?Sized> EntryStream<'a, R> {
    pub(super) fn new(reader: &'a R, thread: ThreadId, query: EntryQuery) -> Self {
        Self { reader, thread, query, items: Vec::new().into_iter(), page_state: PageState::Next }
    }

    fn start_loading(&self) -> PageState<'a> {
        let (reader, thread, query) = (self.reader, self.thread.clone(), self.query.clone());
        PageState::Loading(Box::pin(async move { reader.list_entries(&thread, query).await }))
    }

    /// Takes the items and the cursor of a page that was read.
    fn take_page(&mut self, page: Page<Arc<Entry>>) {
        self.items = page.items.into_iter();
        self.page_state = match page.next {
            Some(cursor) => {
                self.query.page = self.query.page.after(cursor);
                PageState::Next
            }
            None => PageState::End,
        };
    }
}

impl<R: LogReader + ?Sized> Stream for EntryStream<'_, R> {
    type Item = Result<Arc<Entry>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(entry) = this.items.next() {
                return Poll::Ready(Some(Ok(entry)));
            }
            match &mut this.page_state {
                PageState::Next => this.page_state = this.start_loading(),
                PageState::Loading(page) => match ready!(page.as_mut().poll(cx)) {
                    Ok(page) => this.take_page(page),
                    Err(error) => {
                        this.page_state = PageState::End;
                        return Poll::Ready(Some(Err(error)));
                    }
                },
                PageState::End => return Poll::Ready(None),
            }
        }
    }
}

impl<R: ?Sized> fmt::Debug for EntryStream<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryStream").field("thread", &self.thread).field("query", &self.query).finish_non_exhaustive()
    }
}

//! The copy of a tenant from one store to another (VF-2, VF-3, VF-4, VF-6).

use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::try_join;
use serde::Serialize;

use super::{
    Difference, DifferenceCounts, RecordKey, RecordList, RecordPort, StoredRecord, TenantDigest,
    compare::{Comparison, Sides, any_record, compare_objects, compare_records, count, first_collision},
    digest::{ListDigest, RunningDigest, digest_of_lists, port_of},
    mark::CopyMark,
    objects::{self, OBJECTS, ObjectWalk},
    store::no_list,
    walk::RecordWalk,
};
use crate::{
    error::{Detail, Error, Result},
    limits::length,
    mailbox::DispatchStatus,
    object::ObjectStore,
    progress::Progress,
    store::TenantStores,
};

/// The noun of the error that the target is that of an unfinished copy of another source.
pub const UNFINISHED_COPY: &str = "unfinished copy of";

/// What a copy does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyOptions {
    /// What names the source. A copy that was interrupted continues if a copy of the same source is begun.
    pub source: String,
    /// Whether the target may have other records. It must not have another record under a key of the source.
    pub merge: bool,
    /// Whether records that the target has no place for are left out. Otherwise the copy is refused if there are any.
    pub partial: bool,
    /// Whether nothing is written, and the report says what would be.
    pub dry_run: bool,
}

impl CopyOptions {
    /// Makes the options of a copy of everything into an empty tenant. `source` names the source.
    #[must_use]
    pub fn new(source: impl Into<String>) -> Self {
        Self { source: source.into(), merge: false, partial: false, dry_run: false }
    }

    /// Sets whether the target may have other records.
    #[must_use]
    pub const fn merging(mut self, merge: bool) -> Self {
        self.merge = merge;
        self
    }

    /// Sets whether records that the target has no place for are left out.
    #[must_use]
    pub const fn leaving_out(mut self, partial: bool) -> Self {
        self.partial = partial;
        self
    }

    /// Sets whether nothing is written.
    #[must_use]
    pub const fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }
}

/// How many records of a list were copied, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ListCount {
    /// The name of the list.
    pub list: &'static str,
    /// The number of records.
    pub records: u64,
}

/// Records that the target has no place for, or that the source cannot dump.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MissingPlace {
    /// The name of their list.
    pub list: &'static str,
    /// The number of records.
    pub records: u64,
}

/// What a copy did, and whether the two stores have the same records.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct CopyReport {
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Whether the copy continued one that was interrupted.
    pub continued: bool,
    /// What was copied by this call, or would be, by list.
    pub copied: Vec<ListCount>,
    /// What the target has no place for. It was left out.
    pub left_out: Vec<MissingPlace>,
    /// The digest of the source; absent if the copy was stopped, and after a dry run.
    pub source: Option<TenantDigest>,
    /// The digest of the target.
    pub target: Option<TenantDigest>,
    /// Records that are not the same, at most 100.
    pub differences: Vec<Difference>,
    /// The number of all records that are not the same.
    pub difference_count: u64,
    /// The same number, divided by how the records differ.
    pub difference_counts: DifferenceCounts,
    /// Whether `progress` stopped the copy before its end. The next call continues it.
    pub stopped: bool,
}

impl CopyReport {
    /// Returns the number of records that were copied by this call, or would be.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.copied.iter().map(|list| list.records).sum()
    }
}

/// Copies everything that a store keeps for a tenant to a tenant of another store, and compares both.
///
/// # Guarantees
/// - The target has the ids, sequence numbers, versions, times, keys and counters of the source (VF-4, VF-6). Cursors
///   of the source do not work on it.
/// - If the call ends before its end, for whatever reason, the same call continues it (VF-2). The memory that it needs
///   does not depend on how much is copied.
/// - No caller writes to the source meanwhile, in any process, if the source can lock ([`RecordPort::hold_writes`]). At
///   the end both sides are compared, record by record (VF-3). If callers could write to the source, it is read again
///   for that. The target counts as complete only if there is no difference.
///
/// While it runs, no caller should read or write the tenant in the target.
///
/// # Errors
/// - `Unsupported` if a store has no records to dump or restore, or if the target has no place for records of the
///   source and the options do not leave them out.
/// - `AlreadyExists` if the target has data: any, or with [`CopyOptions::merge`] another record under a key of the
///   source; or if it is the target of an unfinished copy of another source.
/// - `Invalid` if the source itself is the target of an unfinished copy.
/// - `Unavailable` if others do not stop writing to the source; any error of reading and writing.
pub async fn copy_tenant(
    from: &TenantStores,
    to: &TenantStores,
    options: &CopyOptions,
    progress: &dyn Progress,
) -> Result<CopyReport> {
    let copy = Copy { from, to, source: port_of(from)?, target: port_of(to)?, options };
    copy.check_source().await?;
    let found = copy.load_mark().await?;
    let left_out = copy.places_missing().await?;
    let mut report = CopyReport { continued: found.is_some(), left_out, dry_run: options.dry_run, ..<_>::default() };
    if found.is_none() {
        copy.check_target().await?;
    }
    if options.dry_run {
        report.copied = copy.counts().await?;
        return Ok(report);
    }
    if let Some(missing) = report.left_out.first().filter(|_| !options.partial) {
        let list = missing.list.parse::<RecordList>();
        return Err(list.map_or_else(|_| Error::new(Detail::Unsupported { operation: "keeping blobs" }), no_list));
    }
    let hold = copy.source.hold_writes().await?;
    let mark = found.unwrap_or_else(|| CopyMark::new(&options.source, options.merge));
    let Some(source) = copy.copy_records(mark, &mut report, progress).await? else { return Ok(report) };
    copy.copy_objects(&mut report).await?;
    // What was read is what the source has only if nothing could be written to it.
    let known = if hold.is_exclusive() { source } else { Vec::new() };
    copy.compare(known, &mut report, progress).await?;
    drop(hold);
    if report.difference_count == 0
        && !report.stopped
        && let Some(documents) = &to.documents
    {
        CopyMark::remove(&**documents).await?;
    }
    Ok(report)
}

/// Compares everything that two stores keep for a tenant, record by record, as a copy does at its end. Changes nothing.
///
/// With [`CopyOptions::merge`] the target may have records that the source does not have.
///
/// # Errors
/// `Unsupported` if a store has no records to dump; any error of reading.
pub async fn compare_tenants(
    from: &TenantStores,
    to: &TenantStores,
    options: &CopyOptions,
    progress: &dyn Progress,
) -> Result<CopyReport> {
    let copy = Copy { from, to, source: port_of(from)?, target: port_of(to)?, options };
    let mut report = CopyReport { left_out: copy.places_missing().await?, ..CopyReport::default() };
    copy.compare(Vec::new(), &mut report, progress).await?;
    Ok(report)
}

/// Reads the next records of a list, and adds them to its digest.
async fn next_page(walk: &mut RecordWalk<'_>, digest: &mut RunningDigest) -> Result<Vec<StoredRecord>> {
    let page = walk.next_page().await?;
    for record in page.iter().filter(|record| record.list() != RecordList::Numbers) {
        digest.add_record(record, &record.canonical());
    }
    Ok(page)
}

struct Copy<'a> {
    from: &'a TenantStores,
    to: &'a TenantStores,
    source: &'a dyn RecordPort,
    target: &'a dyn RecordPort,
    options: &'a CopyOptions,
}

impl Copy<'_> {
    /// The lists that are copied.
    fn lists(&self) -> impl Iterator<Item = RecordList> {
        let is_copied = |list: &RecordList| self.source.holds(*list) && self.target.holds(*list);
        RecordList::ALL.iter().copied().filter(is_copied)
    }

    /// Refuses a source that is not complete itself.
    async fn check_source(&self) -> Result<()> {
        let Some(documents) = &self.from.documents else { return Ok(()) };
        match CopyMark::load(&**documents).await? {
            Some(_) => Err(Error::invalid("source", "it is the target of a copy that has not ended")),
            None => Ok(()),
        }
    }

    /// Returns the mark of an interrupted copy of this source.
    async fn load_mark(&self) -> Result<Option<CopyMark>> {
        let Some(documents) = &self.to.documents else { return Ok(None) };
        let found = CopyMark::load(&**documents).await?;
        match found {
            Some(mark) if mark.source != self.options.source => {
                Err(Error::already_exists(UNFINISHED_COPY, mark.source).in_part("target"))
            }
            found => Ok(found),
        }
    }

    /// Refuses a target with other data.
    async fn check_target(&self) -> Result<()> {
        let found = match self.options.merge {
            true => first_collision(self.source, self.target).await?,
            false => any_record(self.target).await?,
        };
        if let Some((list, key)) = found {
            return Err(Error::already_exists(list.noun(), key).in_part("target"));
        }
        let has_object = match &self.to.objects {
            Some(objects) if !self.options.merge => ObjectWalk::new(&**objects).next().await?,
            _ => None,
        };
        match has_object {
            Some(object) => Err(Error::already_exists("object", object.key.as_str()).in_part("target")),
            None => Ok(()),
        }
    }

    /// Counts the records that the target has no place for.
    async fn places_missing(&self) -> Result<Vec<MissingPlace>> {
        let mut missing = Vec::new();
        for list in RecordList::ALL.iter().filter(|list| self.source.holds(**list) && !self.target.holds(**list)) {
            let records = count(self.source, *list).await?;
            if records > 0 {
                missing.push(MissingPlace { list: list.name(), records });
            }
        }
        // A mailbox that cannot be dumped is not left out silently.
        if let (Some(mailbox), false) = (&self.from.mailbox, self.source.holds(RecordList::Dispatches)) {
            let counts = mailbox.count_dispatches(None).await?;
            let records = DispatchStatus::ALL.iter().map(|status| counts.of(*status)).sum();
            if records > 0 {
                missing.push(MissingPlace { list: RecordList::Dispatches.name(), records });
            }
        }
        if let (Some(objects), None) = (&self.from.objects, &self.to.objects) {
            let mut walk = ObjectWalk::new(&**objects);
            let mut records = 0;
            while walk.next().await?.is_some() {
                records += 1;
            }
            if records > 0 {
                missing.push(MissingPlace { list: OBJECTS, records });
            }
        }
        Ok(missing)
    }

    /// Counts what would be copied.
    async fn counts(&self) -> Result<Vec<ListCount>> {
        let mut counts = Vec::new();
        for list in self.lists().filter(|list| *list != RecordList::Numbers) {
            let records = count(self.source, list).await?;
            if records > 0 {
                counts.push(ListCount { list: list.name(), records });
            }
        }
        if let (Some(objects), Some(_)) = (&self.from.objects, &self.to.objects) {
            let (mut walk, mut records) = (ObjectWalk::new(&**objects), 0);
            while walk.next().await?.is_some() {
                records += 1;
            }
            if records > 0 {
                counts.push(ListCount { list: OBJECTS, records });
            }
        }
        Ok(counts)
    }

    /// Returns how many records there are at least: the threads say how many entries, values and inputs they have.
    async fn known_total(&self) -> Result<u64> {
        let (mut walk, mut total) = (RecordWalk::new(self.source, RecordList::Threads, None), 0);
        loop {
            let records = walk.next_page().await?;
            if records.is_empty() {
                return Ok(total);
            }
            for record in &records {
                let StoredRecord::Thread(record) = record else { continue };
                let of_thread = record
                    .thread
                    .as_ref()
                    .map_or(0, |stored| stored.thread.version.number() + stored.state_keys + stored.queue.count);
                total += 1 + of_thread;
            }
        }
    }

    /// Copies all records from where the mark says. Returns the digests of the lists if all of them were copied by this
    /// call, an empty list if not; none if `progress` stopped it.
    async fn copy_records(
        &self,
        mut mark: CopyMark,
        report: &mut CopyReport,
        progress: &dyn Progress,
    ) -> Result<Option<Vec<ListDigest>>> {
        let Some((first, mut after)) = mark.position()? else { return Ok(Some(Vec::new())) };
        let is_whole = first == RecordList::Numbers && after.is_none();
        let total = Total { known: self.known_total().await?, others: AtomicU64::new(0) };
        let mut digests = Vec::new();
        let lists: Vec<_> = self.lists().filter(|list| *list >= first).collect();
        for (place, list) in lists.iter().enumerate() {
            let after_list = lists.get(place + 1).copied();
            let begun = mark.records;
            let from = (*list, after.take(), after_list);
            let Some(digest) = self.copy_list(from, &mut mark, (&total, progress)).await? else {
                report.stopped = true;
                return Ok(None);
            };
            if *list != RecordList::Numbers {
                digests.extend(digest.finish(list.name()));
                let records = mark.records - begun;
                if records > 0 {
                    report.copied.push(ListCount { list: list.name(), records });
                }
            }
        }
        mark.move_to(None, None);
        self.write(Vec::new(), &mark).await?;
        Ok(Some(if is_whole { digests } else { Vec::new() }))
    }

    /// Copies a list from after a key. The next page is read and added to the digest while the last one is written.
    async fn copy_list(
        &self,
        (list, after, after_list): (RecordList, Option<RecordKey>, Option<RecordList>),
        mark: &mut CopyMark,
        (total, progress): (&Total, &dyn Progress),
    ) -> Result<Option<RunningDigest>> {
        let mut digest = RunningDigest::default();
        let mut walk = RecordWalk::new(self.source, list, after);
        let mut page = next_page(&mut walk, &mut digest).await?;
        while let Some(last) = page.last().map(StoredRecord::key) {
            mark.records += length(page.len());
            mark.move_to(Some(list), Some(&last));
            total.note(list, length(page.len()));
            let ((), next) = try_join(self.write(page, mark), next_page(&mut walk, &mut digest)).await?;
            page = next;
            if !progress.advance(mark.records, Some(total.at_least(mark.records))) {
                return Ok(None);
            }
        }
        mark.move_to(after_list, None);
        Ok(Some(digest))
    }

    /// Writes records with the mark, all or nothing.
    async fn write(&self, mut records: Vec<StoredRecord>, mark: &CopyMark) -> Result<()> {
        if self.to.documents.is_some() {
            records.push(mark.to_record()?);
        }
        match records.is_empty() {
            true => Ok(()),
            false => self.target.restore_records(records).await,
        }
    }

    async fn copy_objects(&self, report: &mut CopyReport) -> Result<()> {
        let (Some(from), Some(to)) = (&self.from.objects, &self.to.objects) else { return Ok(()) };
        let (mut walk, mut records) = (ObjectWalk::new(&**from), 0);
        while let Some(object) = walk.next().await? {
            objects::copy(&**from, &**to, &object.key).await?;
            records += 1;
        }
        if records > 0 {
            report.copied.push(ListCount { list: OBJECTS, records });
        }
        Ok(())
    }

    /// Compares both stores. `known` are the digests of the source if this call has read all of its records.
    async fn compare(&self, known: Vec<ListDigest>, report: &mut CopyReport, progress: &dyn Progress) -> Result<()> {
        let mut comparison = match known.is_empty() || self.options.merge {
            true => self.compare_all(progress).await?,
            false => {
                let target = self.digest_target().await?;
                match target == known {
                    true => Comparison { source: known, target, ..Comparison::default() },
                    false => self.compare_all(progress).await?,
                }
            }
        };
        if let (Some(source), Some(target)) = (&self.from.objects, &self.to.objects) {
            let (source, target): (&dyn ObjectStore, &dyn ObjectStore) = (&**source, &**target);
            compare_objects(Sides { source, target, merge: self.options.merge }, &mut comparison).await?;
        }
        report.source = Some(digest_of_lists(comparison.source));
        report.target = Some(digest_of_lists(comparison.target));
        report.differences = comparison.differences;
        report.difference_count = comparison.counts.total();
        report.difference_counts = comparison.counts;
        report.stopped |= comparison.stopped;
        Ok(())
    }

    async fn compare_all(&self, progress: &dyn Progress) -> Result<Comparison> {
        let sides = Sides { source: self.source, target: self.target, merge: self.options.merge };
        compare_records(sides, progress).await
    }

    async fn digest_target(&self) -> Result<Vec<ListDigest>> {
        let mut digests = Vec::new();
        for list in self.lists().filter(|list| *list != RecordList::Numbers) {
            let (mut digest, mut walk) = (RunningDigest::default(), RecordWalk::new(self.target, list, None));
            loop {
                let records = walk.next_page().await?;
                if records.is_empty() {
                    break;
                }
                records.iter().for_each(|record| digest.add_record(record, &record.canonical()));
            }
            digests.extend(digest.finish(list.name()));
        }
        Ok(digests)
    }
}

/// How many records a copy has to do with.
struct Total {
    /// The threads, and the records of which they say how many they are.
    known: u64,
    /// The other records that were copied so far.
    others: AtomicU64,
}

impl Total {
    fn note(&self, list: RecordList, records: u64) {
        let is_known =
            matches!(list, RecordList::Threads | RecordList::Entries | RecordList::State | RecordList::Inputs);
        if !is_known {
            self.others.fetch_add(records, Ordering::Relaxed);
        }
    }

    fn at_least(&self, done: u64) -> u64 {
        (self.known + self.others.load(Ordering::Relaxed)).max(done)
    }
}

//! Walks over lists of dispatches. A walk reads only positions and ids, because the indexes contain these. The caller
//! then reads the dispatches that it needs.

use std::{cmp::Ordering, collections::VecDeque};

use rusqlite::{Row, types::Value};
use store_core::{
    Direction, DispatchFilter, DispatchId, DispatchOrder, DispatchStatus, Error, Position, Result, ThreadId,
    mailbox::DispatchListKey,
};

use super::{Rows, get, signed, unsigned, write::status_number};
use crate::{
    error::corrupt,
    sql::{self, ListStatement},
};

/// The number of positions read at once.
const CHUNK: i64 = 256;

/// A position in a list, and the dispatch at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedDispatch {
    pub(crate) position: Position,
    id: String,
}

impl ListedDispatch {
    pub(crate) fn id(&self) -> Result<DispatchId> {
        DispatchId::new(&self.id).map_err(|e| corrupt("the id of a dispatch").with_source(e))
    }
}

/// Compares two positions. Only lists in claim order use `extra_number`.
fn compare(one: &Position, other: &Position) -> Ordering {
    (one.extra_number, one.rank, &one.id).cmp(&(other.extra_number, other.rank, &other.id))
}

/// A part of a list, which is read with statements of its own.
#[derive(Debug)]
enum Part {
    /// The part that these statements select. The numbers are their parameters after the limit and the position.
    Index(&'static ListStatement, Vec<i64>),
    /// Dispatches in claim order. The numbers are the row of the mailbox, the epoch, and 1 for available dispatches
    /// or 0 for others.
    ClaimOrder(Vec<i64>),
    /// Dispatches that interrupts superseded.
    SupersededBatches,
}

/// A part of a list, and the positions that were read from it but not yet returned.
#[derive(Debug)]
struct PartReader {
    part: Part,
    after: Option<Position>,
    read_ahead: VecDeque<ListedDispatch>,
    is_exhausted: bool,
}

/// A walk over one list, on one snapshot.
pub(crate) struct DispatchWalk<'r> {
    rows: &'r Rows<'r>,
    direction: Direction,
    part_readers: Vec<PartReader>,
    chunk: i64,
}

impl<'r> DispatchWalk<'r> {
    /// Begins a walk over a list, after a position. `first_chunk` is the number of positions that the first read
    /// of the first part covers. It should be the number that the caller probably needs.
    pub(crate) fn new(
        rows: &'r Rows<'r>,
        (filter, order, direction): (&DispatchFilter, DispatchOrder, Direction),
        after: Option<&Position>,
        first_chunk: usize,
    ) -> Result<Self> {
        let parts = match order {
            DispatchOrder::Creation => parts_by_creation(rows, filter)?,
            DispatchOrder::End => {
                vec![Part::Index(&sql::BY_END, vec![rows.tenant_row_number()]), Part::SupersededBatches]
            }
            DispatchOrder::Claim => parts_in_claim_order(rows, filter.thread.as_ref())?,
        };
        let part_reader =
            |part| PartReader { part, after: after.cloned(), read_ahead: VecDeque::new(), is_exhausted: false };
        let chunk = i64::try_from(first_chunk).unwrap_or(CHUNK).min(CHUNK);
        Ok(Self { rows, direction, part_readers: parts.into_iter().map(part_reader).collect(), chunk })
    }

    /// Returns the next dispatch of the list, with its position.
    pub(crate) fn next(&mut self) -> Result<Option<ListedDispatch>> {
        for part_reader in &mut self.part_readers {
            if part_reader.read_ahead.is_empty() && !part_reader.is_exhausted {
                part_reader.read(self.rows, self.direction, self.chunk)?;
                self.chunk = CHUNK;
            }
        }
        let in_direction = |ordering: Ordering| match self.direction {
            Direction::Forward => ordering,
            Direction::Backward => ordering.reverse(),
        };
        let readers_with_positions =
            self.part_readers.iter_mut().filter(|part_reader| !part_reader.read_ahead.is_empty());
        let first =
            readers_with_positions.min_by(|one, other| match (one.read_ahead.front(), other.read_ahead.front()) {
                (Some(one), Some(other)) => in_direction(compare(&one.position, &other.position)),
                _ => Ordering::Equal,
            });
        Ok(first.and_then(|part_reader| part_reader.read_ahead.pop_front()))
    }
}

fn parts_by_creation(rows: &Rows<'_>, filter: &DispatchFilter) -> Result<Vec<Part>> {
    let of_status =
        |status: DispatchStatus| Part::Index(&sql::BY_STATUS, vec![rows.tenant_row_number(), status_number(status)]);
    let mut parts = Vec::new();
    for key in filter.list_keys() {
        match key {
            DispatchListKey::All => parts.extend(DispatchStatus::ALL.iter().copied().map(of_status)),
            DispatchListKey::Status(status) => parts.push(of_status(status)),
            DispatchListKey::Thread(thread) => {
                parts.extend(
                    rows.mailbox_row(thread)?.map(|found| Part::Index(&sql::BY_THREAD, vec![found.row_number])),
                );
            }
        }
    }
    Ok(parts)
}

/// Returns the parts of a list in claim order. Dispatches that are due and those that are not are separate parts.
fn parts_in_claim_order(rows: &Rows<'_>, thread: Option<&ThreadId>) -> Result<Vec<Part>> {
    let Some(thread) = thread else { return Ok(Vec::new()) };
    let Some(found) = rows.mailbox_row(thread)? else { return Ok(Vec::new()) };
    let epoch = signed(found.record.epoch)?;
    Ok([0, 1].map(|available| Part::ClaimOrder(vec![found.row_number, epoch, available])).into())
}

impl PartReader {
    /// Reads the next positions.
    fn read(&mut self, rows: &Rows<'_>, direction: Direction, chunk: i64) -> Result<()> {
        let found = match &self.part {
            Part::Index(list_statement, list_parameters) => {
                read_index(rows, (list_statement, direction), self.after.as_ref(), (chunk, list_parameters))?
            }
            Part::ClaimOrder(list_parameters) => {
                read_in_claim_order(rows, direction, self.after.as_ref(), (chunk, list_parameters))?
            }
            Part::SupersededBatches => read_superseded(rows, direction, self.after.as_ref(), chunk)?,
        };
        self.is_exhausted = found.len() < usize::try_from(chunk).unwrap_or_default();
        self.after = found.last().map(|last| last.position.clone()).or_else(|| self.after.take());
        self.read_ahead.extend(found);
        Ok(())
    }
}

/// Returns the number and the value after which a walk without a cursor begins. They come before all other numbers and
/// texts, or after all others if the walk goes backward. SQLite orders every blob after every text.
fn beginning(is_forward: bool) -> (i64, Value) {
    if is_forward { (-1, Value::Text(String::new())) } else { (i64::MAX, Value::Blob(Vec::new())) }
}

fn read_index(
    rows: &Rows<'_>,
    (list_statement, direction): (&ListStatement, Direction),
    after: Option<&Position>,
    (chunk, list_parameters): (i64, &[i64]),
) -> Result<Vec<ListedDispatch>> {
    let start = beginning(direction == Direction::Forward);
    let (rank, id) = match after {
        Some(at) => (decode_position(at.rank)?, Value::Text(at.id.clone())),
        None => start,
    };
    let mut parameters = vec![Value::Integer(chunk), Value::Integer(rank), id];
    parameters.extend(list_parameters.iter().copied().map(Value::Integer));
    rows.query_all(list_statement.in_direction(direction), rusqlite::params_from_iter(parameters), |row| {
        let id: String = get(row, 1)?;
        Ok(ListedDispatch { position: Position::new(unsigned(get(row, 0)?)?, &id), id })
    })
}

fn read_in_claim_order(
    rows: &Rows<'_>,
    direction: Direction,
    after: Option<&Position>,
    (chunk, list_parameters): (i64, &[i64]),
) -> Result<Vec<ListedDispatch>> {
    let start = beginning(direction == Direction::Forward).0;
    let (priority, number) = match after {
        Some(at) => (decode_position(at.extra_number)?, decode_position(at.rank)?),
        None => (start, start),
    };
    let parameters = [chunk, priority, number].into_iter().chain(list_parameters.iter().copied());
    rows.query_all(sql::BY_CLAIM.in_direction(direction), rusqlite::params_from_iter(parameters), |row| {
        let mut position = Position::new(unsigned(get(row, 1)?)?, "");
        position.extra_number = unsigned(get(row, 0)?)?;
        Ok(ListedDispatch { position, id: get(row, 2)? })
    })
}

/// Reads the next dispatches that interrupts superseded, in the order of the times of the interrupts. Dispatches that
/// were superseded at the same time are ordered by id.
fn read_superseded(
    rows: &Rows<'_>,
    direction: Direction,
    after: Option<&Position>,
    chunk: i64,
) -> Result<Vec<ListedDispatch>> {
    let max_count = usize::try_from(chunk).unwrap_or_default();
    let is_forward = direction == Direction::Forward;
    let mut from = match after {
        Some(at) => decode_position(at.rank)?,
        None => beginning(is_forward).0,
    };
    let mut found = Vec::new();
    while found.len() < max_count {
        let read = |row: &Row<'_>| Ok((get(row, 0)?, get(row, 1)?, get(row, 2)?));
        let batches: Vec<(i64, i64, i64)> =
            rows.query_all(sql::SUPERSEDED_BATCHES.in_direction(direction), (rows.tenant_row_number(), from), read)?;
        let Some(at) = batches.first().map(|(at, ..)| *at) else { break };
        let same_time = after.filter(|after| signed(after.rank).is_ok_and(|rank| rank == at));
        let start = same_time.map_or_else(|| beginning(is_forward).1, |same_time| Value::Text(same_time.id.clone()));
        let mut ids_of_time = Vec::new();
        for (_, row_number, epoch) in batches {
            let parameters = rusqlite::params![chunk, start, row_number, epoch];
            ids_of_time.extend(
                rows.query_all(sql::SUPERSEDED_BATCH.in_direction(direction), parameters, |row| get::<String>(row, 0))?,
            );
        }
        ids_of_time.sort_unstable();
        if !is_forward {
            ids_of_time.reverse();
        }
        let rank = unsigned(at)?;
        found.extend(ids_of_time.into_iter().map(|id| ListedDispatch { position: Position::new(rank, &id), id }));
        from = if is_forward { at + 1 } else { at - 1 };
    }
    found.truncate(max_count);
    Ok(found)
}

/// Converts a number from a cursor. Returns an error if no position can have the number.
fn decode_position(number: u64) -> Result<i64> {
    i64::try_from(number).map_err(|e| Error::invalid_cursor("it is malformed").with_source(e))
}

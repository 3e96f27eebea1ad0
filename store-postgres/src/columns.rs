//! Reads columns of the rows that the server returns.

use sqlx::{Decode, Postgres, Row as _, Type, postgres::PgRow};
use store_core::Result;

use crate::{db::unsigned, error::corrupt};

pub(crate) fn read_value<'r, T: Decode<'r, Postgres> + Type<Postgres>>(row: &'r PgRow, at: usize) -> Result<T> {
    row.try_get(at).map_err(|e| corrupt("an answer of the server").with_source(e))
}

pub(crate) fn read_text(row: &PgRow, at: usize) -> Result<String> {
    read_value(row, at)
}

/// Reads a name, which may be any text and is therefore stored as bytes.
pub(crate) fn read_name(row: &PgRow, at: usize) -> Result<String> {
    let bytes: Vec<u8> = read_value(row, at)?;
    String::from_utf8(bytes).map_err(|e| corrupt("a name").with_source(e))
}

pub(crate) fn read_bytes(row: &PgRow, at: usize) -> Result<Vec<u8>> {
    read_value(row, at)
}

pub(crate) fn read_i64(row: &PgRow, at: usize) -> Result<i64> {
    read_value(row, at)
}

/// Reads a number that a contract defines, such as a version or an epoch. Such numbers are stored as `bigint`, but are
/// never negative.
pub(crate) fn read_u64(row: &PgRow, at: usize) -> Result<u64> {
    unsigned(read_value(row, at)?)
}

pub(crate) fn read_optional<'r, T: Decode<'r, Postgres> + Type<Postgres>>(
    row: &'r PgRow,
    at: usize,
) -> Result<Option<T>> {
    read_value(row, at)
}

//! Composes a statement from the rows that are to be written.

use std::fmt::Write as _;

use sqlx::{
    Encode, Postgres, Type, TypeInfo as _,
    postgres::{PgArguments, PgHasArrayType},
};
use store_core::Result;

use crate::db::add;

/// A statement that consists of named parts (the queries of a `WITH` clause) and of queries that return the answers.
#[derive(Debug, Default)]
pub(super) struct Statement {
    text: String,
    arguments: PgArguments,
    argument_count: usize,
    checks: Vec<String>,
    answers: Vec<String>,
}

impl Statement {
    /// Adds an argument. Returns the placeholder for it in the statement.
    pub(super) fn add_argument<'q, T: Encode<'q, Postgres> + Type<Postgres>>(&mut self, value: T) -> Result<String> {
        let kind = T::type_info();
        add(&mut self.arguments, value)?;
        self.argument_count += 1;
        Ok(format!("${}::{}", self.argument_count, kind.name()))
    }

    /// Adds several arguments. Returns the placeholders for them in the statement, separated by commas.
    pub(super) fn add_arguments(
        &mut self,
        count: usize,
        add_all: impl FnOnce(&mut PgArguments) -> Result<()>,
    ) -> Result<String> {
        add_all(&mut self.arguments)?;
        let first = self.argument_count + 1;
        self.argument_count += count;
        Ok((first..=self.argument_count).map(|at| format!("${at}")).collect::<Vec<_>>().join(", "))
    }

    /// Adds a named part.
    pub(super) fn part(&mut self, name: &str, sql: &str) {
        let separator = if self.text.is_empty() { "WITH" } else { "," };
        _ = write!(self.text, "{separator} {name} AS ({sql})");
    }

    /// Adds a query whose rows are returned after those of the first query.
    pub(super) fn add_answer(&mut self, select: String) {
        self.answers.push(select);
    }

    /// Returns the text of the statement and its arguments. `$sent$` stands for one more argument, which the caller
    /// must add. If a part with a count check did not change the expected number of rows, the statement fails and
    /// has no effect.
    pub(super) fn end(mut self, first_answer: &str) -> (String, PgArguments) {
        _ = write!(self.text, " {first_answer}");
        if !self.checks.is_empty() {
            let condition = self.checks.join(" AND ");
            _ = write!(self.text, " WHERE CASE WHEN {condition} THEN true ELSE $schema$.clash() END");
        }
        for other in &self.answers {
            _ = write!(self.text, " UNION ALL {other}");
        }
        let sent = format!("${}::bigint", self.argument_count + 1);
        (self.text.replace("$sent$", &sent), self.arguments)
    }
}

/// Rows for one table, each with the number of its batch, counted from 0. Each batch writes to one thread. Several rows
/// are passed as arrays. A single row is passed as plain values, because each array takes the server some time.
pub(super) struct StatementRows<'s, 'q, R> {
    to: &'s mut Statement,
    rows: Vec<&'q R>,
    /// The placeholder of the array with the log of each batch's thread, if there are several batches.
    logs: Option<&'s str>,
    /// The placeholders of the arrays: first the numbers of the batches, then the columns. Empty for a single row.
    arrays: Vec<String>,
    names: Vec<&'static str>,
    values: Vec<String>,
}

impl<'s, 'q, R> StatementRows<'s, 'q, R> {
    pub(super) fn new(to: &'s mut Statement, rows: Vec<(i32, &'q R)>, logs: Option<&'s str>) -> Result<Self> {
        let (batch_numbers, rows): (Vec<i32>, Vec<&R>) = rows.into_iter().unzip();
        let is_single_row = logs.is_none() && rows.len() == 1;
        let arrays = if is_single_row { Vec::new() } else { vec![to.add_argument(batch_numbers)?] };
        Ok(Self { to, rows, logs, arrays, names: Vec::new(), values: Vec::new() })
    }

    /// Adds a column.
    pub(super) fn column<T>(mut self, name: &'static str, value_of: impl Fn(&'q R) -> T) -> Result<Self>
    where
        T: Encode<'q, Postgres> + Type<Postgres> + PgHasArrayType + 'q,
    {
        self.names.push(name);
        if let (true, [row]) = (self.is_single_row(), &*self.rows) {
            let value = self.to.add_argument(value_of(row))?;
            self.values.push(value);
        } else {
            let array = self.to.add_argument(self.rows.iter().map(|row| value_of(row)).collect::<Vec<T>>())?;
            self.arrays.push(array);
            self.values.push(format!("written.{name}"));
        }
        Ok(self)
    }

    const fn is_single_row(&self) -> bool {
        self.arrays.is_empty()
    }

    /// Returns the expression for the value of a column.
    pub(super) fn value_expression(&self, column: &str) -> &str {
        let at = self.names.iter().position(|name| *name == column);
        at.and_then(|at| self.values.get(at)).map_or("NULL", String::as_str)
    }

    /// Returns the SQL of a table `written` with the rows, or `None` for a single row, which needs no table.
    pub(super) fn table_of_arrays(&self) -> Option<String> {
        let table = || format!("unnest({}) written (n, {})", self.arrays.join(", "), self.names.join(", "));
        (!self.is_single_row()).then(table)
    }

    /// Returns the expression for the number of a row's batch.
    pub(super) const fn batch_number_expression(&self) -> &'static str {
        if self.is_single_row() { "0" } else { "written.n" }
    }

    /// Returns the SQL of a table `written` with the rows whose threads are written, and with their logs.
    pub(super) fn written_rows(&self) -> String {
        match (self.table_of_arrays(), self.logs) {
            (None, _) => "updated written".to_owned(),
            (Some(table), None) => format!("(SELECT written.*, updated.log FROM {table}, updated) written"),
            (Some(table), Some(logs)) => format!(
                "(SELECT written.*, ({logs})[written.n + 1] AS log FROM {table}, updated_numbers \
                 WHERE written.n = ANY (updated_numbers.n)) written"
            ),
        }
    }

    /// Returns the expression for the number of these rows.
    fn count_expression(&self) -> String {
        match (self.arrays.first(), self.logs) {
            (None, _) => "1".to_owned(),
            (Some(numbers), None) => format!("(SELECT count(*) FROM unnest({numbers}), updated)"),
            (Some(numbers), Some(_)) => format!(
                "(SELECT count(*) FROM unnest({numbers}) written (n), updated_numbers \
                 WHERE written.n = ANY (updated_numbers.n))"
            ),
        }
    }

    /// Returns a statement that finds, for each row of `from`, the row of a table with the same key, and updates or
    /// deletes it if it is unchanged. Each row is looked up by its key, whatever statistics the planner has of the
    /// table. The condition that a row is unchanged is part of the update or the deletion itself: if another
    /// transaction changes the row in the meantime, the server checks this condition again on the new version of the
    /// row.
    pub(super) fn update_or_delete_each(
        &self,
        (verb, table, clause): (&str, &str, &str),
        from: &str,
        key: &str,
        unchanged_columns: &[(&str, &str)],
    ) -> String {
        let condition = unchanged_columns
            .iter()
            .map(|(column, before)| format!(" AND x.{column} = {}", self.value_expression(before)));
        let condition: String = condition.collect();
        if self.is_single_row() {
            return format!("{verb} $schema$.{table} x {clause} {from} WHERE {key}{condition}");
        }
        format!(
            "{verb} $schema$.{table} x {clause} (SELECT written.*, x.place FROM {from} CROSS JOIN LATERAL \
             (SELECT x.ctid AS place FROM $schema$.{table} x WHERE {key} LIMIT 1) x) written \
             WHERE x.ctid = written.place{condition}"
        )
    }

    /// Returns assignments that set the named columns to the values of the rows.
    pub(super) fn assignments(&self, columns: &[&str]) -> String {
        columns.iter().map(|name| format!("{name} = {}", self.value_expression(name))).collect::<Vec<_>>().join(", ")
    }

    /// Returns conditions that compare the named columns with the values of the rows.
    pub(super) fn conditions(&self, columns: &[&str]) -> String {
        columns
            .iter()
            .map(|name| format!("x.{name} = {}", self.value_expression(name)))
            .collect::<Vec<_>>()
            .join(" AND ")
    }

    /// Adds a part that inserts the rows into a table. `leading_column` has the name and the value of a column that
    /// comes before those of the rows, or of several such columns.
    pub(super) fn insert(self, part: &str, table: &str, leading_column: (&str, &str), end: &str) {
        let insert = self.insert_sql(table, leading_column, end);
        self.part(part, &insert);
    }

    /// Does the same as `insert`. If a row is not inserted, the whole statement fails.
    pub(super) fn insert_with_count_check(self, part: &str, table: &str, leading_column: (&str, &str), end: &str) {
        let insert = self.insert_sql(table, leading_column, end);
        self.part_with_count_check(part, &insert);
    }

    fn insert_sql(&self, table: &str, leading_column: (&str, &str), end: &str) -> String {
        let (names, values, from) = (self.names.join(", "), self.values.join(", "), self.written_rows());
        format!(
            "INSERT INTO $schema$.{table} AS x ({}, {names}) SELECT {}, {values} FROM {from} {end}",
            leading_column.0, leading_column.1
        )
    }

    /// Adds a named part whose SQL uses the rows.
    pub(super) fn part(self, part: &str, sql: &str) {
        self.to.part(part, sql);
    }

    /// Does the same as `part`. If the part does not change one row of the table for each of the rows, the whole
    /// statement fails.
    pub(super) fn part_with_count_check(self, part: &str, sql: &str) {
        let expected_count = self.count_expression();
        self.to.checks.push(format!("(SELECT count(*) FROM {part}) = {expected_count}"));
        self.to.part(part, &format!("{sql} RETURNING 1"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CM-5: a condition checked when a row is looked up may no longer hold when the row is changed.
    #[test]
    fn the_condition_on_a_row_is_checked_in_its_update() {
        for count in [1, 2] {
            let mut statement = Statement::default();
            let rows = StatementRows::new(&mut statement, vec![(0, &7_i64); count], None).unwrap();
            let rows = rows.column("id", |row| *row).unwrap().column("stamp", |row| *row).unwrap();
            let key = rows.conditions(&["id"]);
            let unchanged_columns = [("stamp", "stamp")];
            let update =
                rows.update_or_delete_each(("UPDATE", "thread", "SET head = 1"), "written", &key, &unchanged_columns);
            let (_, outer) = update.rsplit_once(" WHERE ").unwrap();
            assert!(outer.ends_with(&format!(" AND x.stamp = {}", rows.value_expression("stamp"))), "{update}");
            assert_eq!(update.matches("x.stamp").count(), 1, "{update}");
        }
    }
}

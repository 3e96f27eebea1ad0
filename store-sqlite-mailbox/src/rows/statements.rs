//! Prepared statements.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use rusqlite::{CachedStatement, Connection, Error as SqlError, Statement};

/// Provides prepared statements.
pub(crate) trait Statements {
    /// Calls a function once with a prepared statement.
    fn with_statement(
        &self,
        text: &'static str,
        work: &mut dyn FnMut(&mut Statement<'_>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError>;
}

/// Looks a statement up by its whole text.
impl Statements for Connection {
    fn with_statement(
        &self,
        text: &'static str,
        work: &mut dyn FnMut(&mut Statement<'_>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        work(&mut *self.prepare_cached(text)?)
    }
}

/// Prepared statements, found by the address of their text. Hashing whole texts takes a considerable part of the time
/// of a short statement.
pub(crate) struct StatementCache<'c> {
    conn: &'c Connection,
    statements: RefCell<HashMap<usize, Rc<RefCell<CachedStatement<'c>>>>>,
}

impl<'c> StatementCache<'c> {
    pub(crate) fn new(conn: &'c Connection) -> Self {
        Self { conn, statements: RefCell::default() }
    }

    fn statement(&self, text: &'static str) -> Result<Rc<RefCell<CachedStatement<'c>>>, SqlError> {
        let address = text.as_ptr().addr();
        if let Some(prepared) = self.statements.borrow().get(&address) {
            return Ok(Rc::clone(prepared));
        }
        let prepared = Rc::new(RefCell::new(self.conn.prepare_cached(text)?));
        self.statements.borrow_mut().insert(address, Rc::clone(&prepared));
        Ok(prepared)
    }
}

impl Statements for StatementCache<'_> {
    fn with_statement(
        &self,
        text: &'static str,
        work: &mut dyn FnMut(&mut Statement<'_>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        match self.statement(text)?.try_borrow_mut() {
            Ok(mut statement) => work(&mut statement),
            // The caller is still reading the rows of this statement, so this call prepares another one.
            Err(_) => self.conn.with_statement(text, work),
        }
    }
}

//! Statements that are ready to run.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use rusqlite::{CachedStatement, Connection, Error as SqlError, Statement};

/// What runs the statements of rows.
pub(crate) trait Statements {
    /// Has something done with a statement, once.
    fn with(
        &self,
        text: &'static str,
        work: &mut dyn FnMut(&mut Statement<'_>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError>;
}

/// Looks a statement up by all of its text.
impl Statements for Connection {
    fn with(
        &self,
        text: &'static str,
        work: &mut dyn FnMut(&mut Statement<'_>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        work(&mut *self.prepare_cached(text)?)
    }
}

/// Statements that were used before, by where their texts lie: hashing whole texts takes a good part of a short
/// statement's time.
pub(crate) struct Kept<'c> {
    conn: &'c Connection,
    statements: RefCell<HashMap<usize, Rc<RefCell<CachedStatement<'c>>>>>,
}

impl<'c> Kept<'c> {
    pub(crate) fn new(conn: &'c Connection) -> Self {
        Self { conn, statements: RefCell::default() }
    }

    fn of(&self, text: &'static str) -> Result<Rc<RefCell<CachedStatement<'c>>>, SqlError> {
        let at = text.as_ptr().addr();
        if let Some(known) = self.statements.borrow().get(&at) {
            return Ok(Rc::clone(known));
        }
        let new = Rc::new(RefCell::new(self.conn.prepare_cached(text)?));
        self.statements.borrow_mut().insert(at, Rc::clone(&new));
        Ok(new)
    }
}

impl Statements for Kept<'_> {
    fn with(
        &self,
        text: &'static str,
        work: &mut dyn FnMut(&mut Statement<'_>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        match self.of(text)?.try_borrow_mut() {
            Ok(mut statement) => work(&mut statement),
            // It runs already, and something of its rows is looked up by the same statement.
            Err(_) => self.conn.with(text, work),
        }
    }
}

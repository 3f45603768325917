//! A figure as columns of numbers and texts.

use super::MakeError;
use evendb_report::{Document, Figure};
use serde_json::Value;

/// The rows of a figure, or some of them.
pub(super) struct Table<'a> {
    figure: &'a Figure,
    rows: Vec<&'a Vec<Value>>,
}

impl<'a> Table<'a> {
    /// The figure of this name.
    pub(super) fn of(document: &'a Document, id: &str) -> Result<Table<'a>, MakeError> {
        let figure = document.figure(id);
        let figure = figure.ok_or_else(|| MakeError::Missing(format!("figure \"{id}\"")))?;
        let rows = figure.rows.iter().collect();
        Ok(Table { figure, rows })
    }

    /// The rows in which a column is this text.
    pub(super) fn only(mut self, column: &str, is: &str) -> Result<Table<'a>, MakeError> {
        let at = self.column(column)?;
        self.rows.retain(|row| row[at].as_str() == Some(is));
        Ok(self)
    }

    /// The numbers of a column; what is none is 0.
    pub(super) fn numbers(&self, column: &str) -> Result<Vec<f64>, MakeError> {
        let at = self.column(column)?;
        let number = |row: &&Vec<Value>| row[at].as_f64().unwrap_or_default();
        Ok(self.rows.iter().map(number).collect())
    }

    /// The texts of a column; what is none is empty.
    pub(super) fn texts(&self, column: &str) -> Result<Vec<String>, MakeError> {
        let at = self.column(column)?;
        let text = |row: &&Vec<Value>| row[at].as_str().unwrap_or_default().to_owned();
        Ok(self.rows.iter().map(text).collect())
    }

    fn column(&self, name: &str) -> Result<usize, MakeError> {
        let missing = || {
            MakeError::Missing(format!(
                "column \"{name}\" in figure \"{}\"",
                self.figure.id
            ))
        };
        self.figure.column(name).ok_or_else(missing)
    }
}

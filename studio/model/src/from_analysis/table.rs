//! A figure as columns of numbers and texts.

use super::MakeError;
use evendb_report::{Document, Figure};
use serde_json::Value;

/// The rows of a figure, or some of them. Empty if the analysis does not have the figure: it leaves
/// out what a load does not have.
pub(crate) struct Table<'a> {
    figure: Option<&'a Figure>,
    rows: Vec<&'a Vec<Value>>,
}

impl<'a> Table<'a> {
    /// The figure of this name.
    pub(crate) fn of(document: &'a Document, id: &str) -> Table<'a> {
        let figure = document.figure(id);
        let rows = figure.into_iter().flat_map(|figure| &figure.rows).collect();
        Table { figure, rows }
    }

    /// Whether it has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows in which a column is this text.
    pub(crate) fn only(mut self, column: &str, is: &str) -> Result<Table<'a>, MakeError> {
        if let Some(at) = self.column(column)? {
            self.rows.retain(|row| row[at].as_str() == Some(is));
        }
        Ok(self)
    }

    /// The numbers of a column. A cell that is no number is 0.
    pub(crate) fn numbers(&self, column: &str) -> Result<Vec<f64>, MakeError> {
        self.cells(column, |cell| cell.as_f64().unwrap_or_default())
    }

    /// The texts of a column. A cell that is no text is empty.
    pub(crate) fn texts(&self, column: &str) -> Result<Vec<String>, MakeError> {
        self.cells(column, |cell| cell.as_str().unwrap_or_default().to_owned())
    }

    /// As [`texts`](Self::texts), lent by the document.
    pub(crate) fn texts_lent(&self, column: &str) -> Result<Vec<&'a str>, MakeError> {
        let at = self.column(column)?;
        let cells = at.map(|at| self.rows.iter().map(move |row| &row[at]));
        let texts = cells.into_iter().flatten();
        Ok(texts
            .map(|cell| cell.as_str().unwrap_or_default())
            .collect())
    }

    fn cells<T>(&self, column: &str, of: impl Fn(&Value) -> T) -> Result<Vec<T>, MakeError> {
        let at = self.column(column)?;
        let cells = at.map(|at| self.rows.iter().map(move |row| &row[at]));
        Ok(cells.into_iter().flatten().map(of).collect())
    }

    /// The place of a column. None if there is no figure.
    fn column(&self, name: &str) -> Result<Option<usize>, MakeError> {
        let Some(figure) = self.figure else {
            return Ok(None);
        };
        let missing =
            || MakeError::Missing(format!("column \"{name}\" in figure \"{}\"", figure.id));
        figure.column(name).map(Some).ok_or_else(missing)
    }
}

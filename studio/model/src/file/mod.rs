//! The model file: a [`Model`] as TOML, for people to read and edit.
//!
//! ```text
//!   text --(toml, serde)--> tables (`tables.rs`) --(checks, `read.rs`)--> Model
//!               |                                     |
//!               |                                     +--- field of an error, and its line
//!               +--- line and column of an error
//!   Model --(`write.rs`)--> tables --> text
//! ```
//! Every table refuses unknown fields, so a slip in the name of a field is told and not ignored.
//! The first field is the version of the format, [`FORMAT`]; a file of another version is refused.
//! docs/models.md explains the fields.

mod read;
mod tables;
mod write;

use std::fmt;

use crate::model::Model;

/// The version of the format that is written, and the only one that is read.
pub const FORMAT: u32 = 1;

/// What is wrong with a model file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelError {
    /// It is no TOML, or a field is unknown, missing or of the wrong type. The text names line and
    /// column.
    Text(String),
    /// A field has a value that it cannot have.
    Field {
        /// The field with its table, as `mix.get`.
        field: String,
        /// The line of the field, if the text has it.
        line: Option<usize>,
        /// What is wrong.
        why: String,
    },
    /// The file has another version.
    Format {
        /// The version that it has.
        found: u32,
    },
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text.trim_end()),
            Self::Field { field, line, why } => {
                if let Some(line) = line {
                    write!(f, "line {line}: ")?;
                }
                write!(f, "{field}: {why}")
            }
            Self::Format { found } => {
                write!(
                    f,
                    "the file has format {found}, and {FORMAT} is the one that is known"
                )
            }
        }
    }
}

impl std::error::Error for ModelError {}

impl Model {
    /// Reads a model file's text.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn from_toml(text: &str) -> Result<Self, ModelError> {
        let tables: tables::File =
            toml::from_str(text).map_err(|error| ModelError::Text(error.to_string()))?;
        read::model(&tables, text)
    }

    /// The text of its model file.
    ///
    /// # Errors
    /// A field has a value that a file cannot have, so that the text would not be read back.
    pub fn to_toml(&self) -> Result<String, ModelError> {
        let tables = write::tables(self);
        let text = toml::to_string(&tables).map_err(|error| ModelError::Text(error.to_string()))?;
        read::model(&tables, &text)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests;

//! The model file: a [`Model`] of one keyspace, or a [`Workload`] of several, as TOML, for people
//! to read and edit.
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
//! A file with tables `[[keyspace]]` is a workload of these keyspaces; one without them is a model
//! of one keyspace. docs/models.md explains the fields.

pub(crate) mod read;
mod tables;
mod write;

use std::fmt;

use crate::model::Model;
use crate::workload::Workload;

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
        if has_keyspaces(text)? {
            let workload = Self::several(text)?;
            return Err(ModelError::Field {
                field: "keyspace".to_owned(),
                line: None,
                why: format!(
                    "there are {} keyspaces, and this is for a model of one",
                    workload.keyspaces.len()
                ),
            });
        }
        read::model(&parsed::<tables::File>(text)?, text)
    }

    fn several(text: &str) -> Result<Workload, ModelError> {
        read::several(&parsed::<tables::SeveralFile>(text)?, text)
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

impl Workload {
    /// Reads a model file's text, of one keyspace or of several.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn from_toml(text: &str) -> Result<Self, ModelError> {
        match has_keyspaces(text)? {
            true => Model::several(text),
            false => Model::from_toml(text).map(Self::from),
        }
    }

    /// The text of its model file. It has no tables of keyspaces if there is only one, with the
    /// name that such files stand for.
    ///
    /// # Errors
    /// A field has a value that a file cannot have, so that the text would not be read back.
    pub fn to_toml(&self) -> Result<String, ModelError> {
        if let Some(model) = self.only() {
            return model.to_toml();
        }
        let tables = write::several(self);
        let text = toml::to_string(&tables).map_err(|error| ModelError::Text(error.to_string()))?;
        read::several(&tables, &text)?;
        Ok(text)
    }
}

fn parsed<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, ModelError> {
    toml::from_str(text).map_err(|error| ModelError::Text(error.to_string()))
}

/// Whether the text has tables of keyspaces.
fn has_keyspaces(text: &str) -> Result<bool, ModelError> {
    Ok(parsed::<tables::Form>(text)?.keyspace.is_some())
}

#[cfg(test)]
mod several_tests;
#[cfg(test)]
mod tests;

//! Options by name and text: one table that the documentation, the command and other languages
//! read.
//!
//! ```text
//! "memory_budget" "1GiB" --> row of the table --> Access: reads the text, checks its limits
//!                                                    |
//!                             Options, Advanced, GuardOptions or KeyspaceOptions
//! ```
//! A row's name is that of the setter; setters of guards have `guards.` before it. Each setter has
//! a row, except those that take an object: `tests/option_texts.rs` lists them. The text of a row's
//! default sets what is there by default. What [`Options::text_of`] gives is set again as the same.
//! docs/options.md has the rows, which the same test compares.
//!
//! Plain data without state. Not here: what the options mean (their setters), limits that depend on
//! the system (`Options::check`).

mod access;
mod database;
pub mod forms;
mod keyspaces;
mod nearest;

use self::access::Access;
use super::{KeyspaceOptions, Options};
use crate::error::{Error, ErrorKind, Result};
use std::fmt;

/// An option as text: its name, what texts it takes, its default, and what it is for. See
/// [`Options::table`] and [`KeyspaceOptions::table`].
pub struct OptionInfo {
    name: &'static str,
    group: &'static str,
    default: &'static str,
    about: &'static str,
    of: Of,
}

/// Whose option it is.
enum Of {
    Database(&'static dyn Access<Options>),
    Keyspace(&'static dyn Access<KeyspaceOptions>),
}

impl OptionInfo {
    /// The option's name: that of its setter. A setter of
    /// [`GuardOptions`](crate::GuardOptions) has `guards.` before it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Where the setter is: `database` ([`Options`]), `advanced`
    /// ([`Advanced`](crate::Advanced)), `guards` ([`GuardOptions`](crate::GuardOptions)) or
    /// `keyspace` ([`KeyspaceOptions`]).
    pub fn group(&self) -> &'static str {
        self.group
    }

    /// What texts it takes, in a word: `size` (bytes), `number`, `fraction`, `time`, `switch`,
    /// `choice`, `two sizes` or `two numbers`.
    pub fn takes(&self) -> &'static str {
        match self.of {
            Of::Database(access) => access.takes(),
            Of::Keyspace(access) => access.takes(),
        }
    }

    /// The text that sets its default. `auto` stands for a value that follows from other options,
    /// the machine, or, for an option of a keyspace, from the database.
    pub fn default_text(&self) -> &'static str {
        self.default
    }

    /// Its least and its greatest value and its words, or the texts of a choice.
    pub fn limits(&self) -> String {
        match self.of {
            Of::Database(access) => access.limits(),
            Of::Keyspace(access) => access.limits(),
        }
    }

    /// What it is for, in one sentence.
    pub fn about(&self) -> &'static str {
        self.about
    }
}

impl fmt::Debug for OptionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OptionInfo")
            .field("name", &self.name)
            .field("takes", &self.takes())
            .field("default", &self.default)
            .field("limits", &self.limits())
            .finish_non_exhaustive()
    }
}

impl Options {
    /// All options that can be set by name and text, as [`set`](Self::set) does: those of
    /// [`Options`], [`Advanced`](crate::Advanced) and [`GuardOptions`](crate::GuardOptions), except
    /// `vfs`, `wall_clock` and `encryption`, which take objects.
    ///
    /// ```
    /// let budget = &evendb::Options::table()[0];
    /// assert_eq!((budget.name(), budget.takes()), ("memory_budget", "size"));
    /// assert_eq!(budget.limits(), "1MiB to 16TiB, auto");
    /// ```
    pub fn table() -> &'static [OptionInfo] {
        &database::TABLE
    }

    /// Sets the option `name` from a text. [`table`](Self::table) and docs/options.md have all
    /// names, and what their texts are:
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// let options = evendb::Options::new()
    ///     .set("memory_budget", "64MiB")?
    ///     .set("durability", "sync")?
    ///     .set("guards.max_files_per_guard", "4")?;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # options.open(dir.path())?;
    /// let refused = evendb::Options::new().set("memory_bugdet", "64MiB").unwrap_err();
    /// assert!(refused.to_string().contains("memory_budget"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name, with the nearest names; and for a text that the
    /// option does not take, with what it takes and its limits. Limits that depend on the system,
    /// and features that a build lacks, are checked by [`open`](Self::open).
    pub fn set(mut self, name: &str, text: &str) -> Result<Options> {
        let row = row_of(Options::table(), name).ok_or_else(|| unknown(name, Options::table()))?;
        match row.of {
            Of::Database(access) => {
                let outcome = access.set(&mut self, text);
                row.taken(outcome, text).map(|()| self)
            }
            Of::Keyspace(_) => Err(unknown(name, Options::table())),
        }
    }

    /// The text of the option `name`, from which [`set`](Self::set) sets it again; `None` if the
    /// table has no option of this name.
    ///
    /// ```
    /// let options = evendb::Options::new().memory_budget(64 << 20);
    /// assert_eq!(options.text_of("memory_budget").as_deref(), Some("64MiB"));
    /// assert_eq!(options.text_of("memory"), None);
    /// ```
    pub fn text_of(&self, name: &str) -> Option<String> {
        match row_of(Options::table(), name)?.of {
            Of::Database(access) => Some(access.text(self)),
            Of::Keyspace(_) => None,
        }
    }
}

impl KeyspaceOptions {
    /// All options of a keyspace: each can be set by name and text, as [`set`](Self::set) does.
    pub fn table() -> &'static [OptionInfo] {
        &keyspaces::TABLE
    }

    /// Sets the option `name` from a text; `auto` takes back a choice, so that the option follows
    /// the database. A merge operator is one of [`Merges`](crate::Merges) by its name; one of your
    /// own is given by [`merge_operator`](Self::merge_operator).
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// use evendb::{Compression, KeyspaceOptions};
    /// use std::time::Duration;
    /// let by_text = KeyspaceOptions::new().set("compression", "lz4")?.set("ttl", "1h")?;
    /// let options = KeyspaceOptions::new().compression(Compression::Lz4);
    /// assert_eq!(by_text, options.ttl(Duration::from_secs(3600)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Options::set`].
    pub fn set(mut self, name: &str, text: &str) -> Result<KeyspaceOptions> {
        let table = KeyspaceOptions::table();
        let row = row_of(table, name).ok_or_else(|| unknown(name, table))?;
        match row.of {
            Of::Keyspace(access) => {
                let outcome = access.set(&mut self, text);
                row.taken(outcome, text).map(|()| self)
            }
            Of::Database(_) => Err(unknown(name, table)),
        }
    }

    /// The text of the option `name`, from which [`set`](Self::set) sets it again; `None` if the
    /// table has no option of this name.
    pub fn text_of(&self, name: &str) -> Option<String> {
        match row_of(KeyspaceOptions::table(), name)?.of {
            Of::Keyspace(access) => Some(access.text(self)),
            Of::Database(_) => None,
        }
    }
}

fn row_of(table: &'static [OptionInfo], name: &str) -> Option<&'static OptionInfo> {
    table.iter().find(|row| row.name == name)
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

impl OptionInfo {
    /// The outcome of setting the option; the error names the option, and what it takes.
    fn taken(&self, outcome: Result<bool>, text: &str) -> Result<()> {
        let why = match outcome {
            Ok(true) => return Ok(()),
            Ok(false) => String::new(),
            Err(error) => format!(" ({error})"),
        };
        let (name, limits) = (self.name, self.limits());
        let takes = match self.takes() {
            "choice" => format!("one of: {limits}"),
            "switch" => limits.replacen("on, off", "on or off", 1),
            kind => format!("{}: {limits}", described(kind)),
        };
        Err(invalid(format!(
            "the option {name} takes {takes}; {text:?} was given{why}"
        )))
    }
}

/// A kind of texts with an example.
fn described(kind: &str) -> &'static str {
    let quantities = [
        (access::SIZE.name, access::SIZE.example),
        (access::NUMBER.name, access::NUMBER.example),
        (access::FRACTION.name, access::FRACTION.example),
        (access::TIME.name, access::TIME.example),
        (access::SIZES.name, access::SIZES.example),
    ];
    let found = quantities.iter().find(|(name, _)| *name == kind);
    found.map_or(access::NUMBERS.example, |(_, example)| example)
}

/// The error of a name that the table does not have: it names the nearest ones.
fn unknown(name: &str, table: &'static [OptionInfo]) -> Error {
    let is_of_keyspaces = std::ptr::eq(table, KeyspaceOptions::table());
    let (owner, other, elsewhere) = match is_of_keyspaces {
        true => ("a keyspace", Options::table(), "the database"),
        false => ("the database", KeyspaceOptions::table(), "a keyspace"),
    };
    let near = nearest::names(name, table.iter().map(|row| row.name));
    let hint = match (near.as_slice(), row_of(other, name)) {
        (_, Some(_)) => format!("it is an option of {elsewhere}"),
        _ if ["vfs", "wall_clock", "encryption"].contains(&name) => {
            "it takes an object, which only a program can give".to_owned()
        }
        ([], None) => "Options::table, docs/options.md and `evendb options` list all".to_owned(),
        (near, None) => format!("near it are: {}", near.join(", ")),
    };
    invalid(format!(
        "there is no option {name:?} of {owner} with a text; {hint}"
    ))
}

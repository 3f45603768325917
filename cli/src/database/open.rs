//! Opens the database and the keyspace in a command's arguments.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use evendb::vfs::OsVfs;
use evendb::{Db, Durability, ErrorKind, Keyspace, Layout, Options, maker};

use crate::failure::Failure;
use crate::key_file::KeyFile;
use crate::output::{complain, escaped};
use crate::store::Store;
use evendb::forms::parse_size;

/// The memory budget of a database if no other budget is given.
pub const DEFAULT_MEMORY_BYTES: u64 = 512 << 20;

/// The database, and how to open it.
#[derive(Args)]
pub struct DatabaseArguments {
    /// The database's directory
    pub db: PathBuf,
    /// The keyspace; the default one if not given
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub keyspace: Option<String>,
    /// Memory for caches, as 256MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
    /// Set an option of the database by its name and text, as durability=sync; `evendb options`
    /// lists all. It may be given several times
    #[arg(long = "set", value_name = "NAME=TEXT", value_parser = Setting::parse)]
    settings: Vec<Setting>,
    #[command(flatten)]
    pub key_file: KeyFile,
    #[arg(skip)]
    made: Cell<Made>,
}

/// An option of the database by name and text, which the table of options has accepted.
#[derive(Clone, Debug)]
pub struct Setting {
    name: String,
    text: String,
}

impl Setting {
    /// Reads `NAME=TEXT`.
    pub fn parse(argument: &str) -> Result<Setting, String> {
        let why = "an option's name, `=` and its text are wanted, as durability=sync";
        let (name, text) = argument.split_once('=').ok_or(why)?;
        let setting = Setting {
            name: name.to_owned(),
            text: text.to_owned(),
        };
        let set = setting.given_to(Options::new());
        set.map(|_| setting).map_err(|error| error.to_string())
    }

    /// The same options with this setting.
    pub fn given_to(&self, options: Options) -> evendb::Result<Options> {
        options.set(&self.name, &self.text)
    }
}

/// The layout of a keyspace that a command makes.
#[derive(Args)]
pub struct LayoutArgument {
    /// How the records of a new keyspace lie on disk: chunks (of neighbouring keys), which is the
    /// default, or guards (a fragmented merge tree). An existing keyspace keeps its layout
    #[arg(long, value_name = "LAYOUT")]
    pub layout: Option<Layout>,
}

/// What an opening made that was not there before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Made {
    #[default]
    Nothing,
    Keyspace,
    Database,
}

/// What a write survives.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DurabilityArgument {
    /// Survives only from the next checkpoint on
    Relaxed,
    /// Survives the end of the process
    Process,
    /// Survives power loss
    Sync,
}

impl From<DurabilityArgument> for Durability {
    fn from(argument: DurabilityArgument) -> Self {
        match argument {
            DurabilityArgument::Relaxed => Self::Relaxed,
            DurabilityArgument::Process => Self::Process,
            DurabilityArgument::Sync => Self::Sync,
        }
    }
}

/// What a command that writes will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It needs a database and a keyspace that exist.
    Existing,
    /// It creates database and keyspace if they are missing, with this layout.
    Create(Option<Layout>),
}

impl DatabaseArguments {
    /// Opens the database and the keyspace for writing.
    pub fn open(&self, access: Access, durability: DurabilityArgument) -> Result<Store, Failure> {
        let was_there = maker::is_database(&OsVfs, &self.db);
        let store = Store::of(self.open_database(access, durability)?);
        if !was_there {
            self.made.set(Made::Database);
        }
        let Access::Create(layout) = access else {
            return self.at_existing_keyspace(store);
        };
        let store = match &self.keyspace {
            Some(name) => self.at_made_keyspace(&store, name, was_there)?,
            None => store,
        };
        if let Some(asked) = layout {
            check_layout(&store, asked)?;
        }
        Ok(store)
    }

    /// The same database with the keyspace, which is made if it is not there.
    fn at_made_keyspace(
        &self,
        store: &Store,
        name: &str,
        was_there: bool,
    ) -> Result<Store, Failure> {
        let is_new = !store.db.keyspace_exists(name);
        let store = store.at_keyspace(name)?;
        if is_new {
            complain(&format!("made keyspace `{}`", escaped(name.as_bytes())));
            if was_there {
                self.made.set(Made::Keyspace);
            }
        }
        Ok(store)
    }

    /// Does work that opens by [`Access::Create`]. If the work fails and wrote no record, a
    /// database or a keyspace that it made is removed again, and so are the directories around it.
    pub fn undoing<T>(&self, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        let place = std::path::absolute(&self.db).unwrap_or_else(|_| self.db.clone());
        let missing = place.ancestors().take_while(|dir| !dir.exists());
        let missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        let outcome = work();
        // If something cannot be removed it stays: the command's own failure is told.
        if outcome.is_err() && self.undo().is_ok_and(|is_gone| is_gone) {
            for dir in missing {
                let _ = fs::remove_dir(dir);
            }
        }
        outcome
    }

    /// Removes what the opening made, if it is empty. Returns whether the database is gone.
    fn undo(&self) -> Result<bool, Failure> {
        let made = self.made.get();
        if made == Made::Nothing {
            return Ok(false);
        }
        let (access, durability) = (Access::Existing, DurabilityArgument::Process);
        let store = Store::of(self.open_database(access, durability)?);
        match (made, &self.keyspace) {
            (Made::Keyspace, Some(name)) if store.at_keyspace(name)?.is_empty()? => {
                store.db.drop_keyspace(name)?;
                let name = escaped(name.as_bytes());
                complain(&format!("removed keyspace `{name}` again, which is empty"));
            }
            (Made::Database, _) => {
                for name in store.db.keyspace_names() {
                    if !store.at_keyspace(&name)?.is_empty()? {
                        return Ok(false);
                    }
                }
                store.db.close()?;
                evendb::destroy(&self.db)?;
                return Ok(true);
            }
            _ => {}
        }
        store.db.close()?;
        Ok(false)
    }

    /// Opens both for reading only: beside other readers, on media that cannot be written, and for
    /// users that may not write. Nothing on the disk changes.
    pub fn open_for_reading(&self) -> Result<Store, Failure> {
        let opened = self.try_reading();
        let opened = opened.map_err(|error| self.not_opened(Purpose::Reading, &error));
        self.at_existing_keyspace(Store::of(opened?))
    }

    /// Opens the database alone for writing.
    pub fn open_database(
        &self,
        access: Access,
        durability: DurabilityArgument,
    ) -> Result<Db, Failure> {
        let mut options = Options::new()
            .create_if_missing(access != Access::Existing)
            .durability(durability.into());
        if let Access::Create(Some(layout)) = access {
            options = options.layout(layout);
        }
        let opened = self
            .briefly(options)
            .and_then(|options| options.open(&self.db));
        opened.map_err(|error| self.not_opened(Purpose::Writing, &error))
    }

    /// The database for reading only, or the store's own error.
    pub fn try_reading(&self) -> evendb::Result<Db> {
        let options = Options::new().read_only(true);
        self.briefly(options)?.open(&self.db)
    }

    /// Options for a short opening: one command has no use for what was hot in the life before, and
    /// the notes of it stay for a longer life. What --set says counts in the end.
    fn briefly(&self, options: Options) -> evendb::Result<Options> {
        let options = options.advanced(|advanced| advanced.warm_reopening(false));
        let options = self.key_file.given_to(options);
        let options = match self.memory {
            Some(bytes) => options.memory_budget(bytes),
            None => options,
        };
        let mut settings = self.settings.iter();
        settings.try_fold(options, |options, setting| setting.given_to(options))
    }

    /// Why the database was not opened. The store's own text for a missing database names an option
    /// of the library, which does not help on the command line.
    pub fn not_opened(&self, purpose: Purpose, error: &evendb::Error) -> Failure {
        if error.kind() == ErrorKind::NotFound && !self.db.join("UNFINISHED-COPY").exists() {
            let place = self.db.display();
            return Failure::Message(format!("there is no database in {place}"));
        }
        refused(&self.db, purpose, error)
    }

    /// The same database with the keyspace, which must be there.
    fn at_existing_keyspace(&self, store: Store) -> Result<Store, Failure> {
        let Some(name) = &self.keyspace else {
            return Ok(store);
        };
        match store.db.keyspace_exists(name) {
            true => Ok(store.at_keyspace(name)?),
            false => Err(no_keyspace(name)),
        }
    }

    /// The keyspace, which must be there.
    pub fn existing_keyspace(&self, database: &Db) -> Result<Keyspace, Failure> {
        let Some(name) = &self.keyspace else {
            return Ok(database.default_keyspace().clone());
        };
        match database.keyspace_exists(name) {
            true => Ok(database.keyspace(name)?),
            false => Err(no_keyspace(name)),
        }
    }
}

/// Refuses a keyspace of another layout than the one that was asked for.
fn check_layout(store: &Store, asked: Layout) -> Result<(), Failure> {
    let there = store.layout()?;
    if there == asked.to_string() {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "keyspace `{}` has the layout {there}, and --layout says {asked}; leave --layout out, or take another --keyspace",
        store.keyspace.name()
    )))
}

fn no_keyspace(name: &str) -> Failure {
    Failure::Message(format!("there is no keyspace `{name}`"))
}

/// The purpose for which a database is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// For reading only.
    Reading,
    /// For reading and writing.
    Writing,
}

/// Why the database in `db` was not opened, and what works instead.
pub fn refused(db: &Path, purpose: Purpose, error: &evendb::Error) -> Failure {
    let place = db.display();
    let text = match (error.kind(), purpose) {
        // An error of repair's target, or of the directory itself: the text says which.
        (ErrorKind::NotFound | ErrorKind::AlreadyExists, _) => error.to_string(),
        (ErrorKind::Io, _) if db.is_file() => {
            format!("{place} is a file, and a database is a directory")
        }
        // Readers keep out only writers.
        (ErrorKind::Locked, Purpose::Reading) => format!(
            "{error}. Meanwhile `evendb stats {place} --watch` shows its figures, and the process \
             that has it open can make a copy of it that opens beside it, by Db::copy_to"
        ),
        (ErrorKind::Locked, Purpose::Writing) => {
            format!("{error}. One process at a time writes, and only while none reads")
        }
        _ => format!("cannot open {place}: {error}"),
    };
    Failure::caused(text, error)
}

//! Opening the database and the keyspace that a command's arguments name.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use evendb::{Db, Durability, ErrorKind, Keyspace, Options};

use crate::failure::Failure;
use crate::size::parse_size;

/// Which database, and how to open it.
#[derive(Args)]
pub struct DatabaseArguments {
    /// The database's directory
    pub db: PathBuf,
    /// The keyspace; the default one if not given
    #[arg(long, value_name = "NAME")]
    pub keyspace: Option<String>,
    /// Memory for caches, as 256MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
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

/// What the command is going to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The database and the keyspace must be there.
    Existing,
    /// They are created where they are missing.
    Create,
}

impl DatabaseArguments {
    /// Opens the database and the keyspace.
    pub fn open(
        &self,
        access: Access,
        durability: DurabilityArgument,
    ) -> Result<(Db, Keyspace), Failure> {
        let mut options = Options::new()
            .create_if_missing(access == Access::Create)
            .durability(durability.into());
        if let Some(bytes) = self.memory {
            options = options.memory_budget(bytes);
        }
        let database = options.open(&self.db).map_err(|error| {
            let place = self.db.display();
            match error.kind() {
                ErrorKind::NotFound => Failure::Message(format!("no database in {place}")),
                ErrorKind::Locked => {
                    Failure::new(format!("{place} is in use by another process"), error)
                }
                _ => Failure::new(format!("cannot open {place}"), error),
            }
        })?;
        let keyspace = match &self.keyspace {
            None => database.default_keyspace().clone(),
            Some(name) => {
                if access == Access::Existing && !database.keyspace_names().contains(name) {
                    return Err(Failure::Message(format!("there is no keyspace `{name}`")));
                }
                database.keyspace(name)?
            }
        };
        Ok((database, keyspace))
    }
}

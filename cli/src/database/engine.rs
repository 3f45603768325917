//! The engine with which a command opens a database: the one that made it. For a new database, the
//! one that was asked for.
//!
//! A command that only the first engine has is refused here, before anything is opened, made or
//! changed.

use std::path::Path;

use clap::Args;
use evendb::EngineKind;

use crate::failure::Failure;

/// The engine, as an argument.
#[derive(Args)]
pub struct EngineArgument {
    /// The engine of a new database: evendb (chunks of neighbouring keys), which is the default, or
    /// flsm (a fragmented merge tree). An existing database is opened by the engine that made it
    #[arg(long, value_name = "ENGINE", value_parser = named)]
    engine: Option<EngineKind>,
}

fn named(name: &str) -> Result<EngineKind, String> {
    let names = EngineKind::ALL.map(EngineKind::name).join(" and ");
    EngineKind::named(name).ok_or_else(|| format!("there are the engines {names}"))
}

impl EngineArgument {
    /// The engine of the database in `db`.
    pub fn of(&self, db: &Path) -> Result<EngineKind, Failure> {
        match (EngineKind::of_database(db), self.engine) {
            (Some(made_by), Some(asked)) if made_by != asked => Err(Failure::Usage(format!(
                "the database in {} was made by the engine {}, and --engine says {}; leave --engine out, or give another \
                 directory",
                db.display(),
                made_by.name(),
                asked.name()
            ))),
            (Some(made_by), _) => Ok(made_by),
            (None, asked) => Ok(asked.unwrap_or(EngineKind::EvenDb)),
        }
    }

    /// Refuses a command that only the first engine has, if the database in `db` is of another one.
    pub fn need_evendb(&self, db: &Path, what: &str) -> Result<(), Failure> {
        match self.of(db)? {
            EngineKind::EvenDb => Ok(()),
            engine => Err(lacks(engine, db, what)),
        }
    }

    /// The engine that was asked for, if there is no database yet.
    pub fn of_a_new_one(&self) -> EngineKind {
        self.engine.unwrap_or(EngineKind::EvenDb)
    }
}

/// The engine of the database in `db`. If there is none, the engine of new databases.
pub fn engine_of(db: &Path) -> EngineKind {
    EngineKind::of_database(db).unwrap_or(EngineKind::EvenDb)
}

/// Refuses a command that only the first engine has, if the database in `db` was made by another
/// one.
pub fn need_evendb(db: &Path, what: &str) -> Result<(), Failure> {
    EngineArgument { engine: None }.need_evendb(db, what)
}

/// Why something cannot be done with a database of this engine.
pub fn lacks(engine: EngineKind, db: &Path, what: &str) -> Failure {
    Failure::Message(format!(
        "{}: the engine {} has no {what}; nothing was changed",
        db.display(),
        engine.name()
    ))
}

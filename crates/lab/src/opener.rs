//! What an experiment opens: a store by name, with the memory and the durability it is given.

use std::path::Path;

use crate::store::{Store, StoreResult};

/// What an acknowledged put survives, in words that every store can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// Nothing for certain: no log, or one that is written when the store pleases.
    Relaxed,
    /// The death of the process, where the store has such a level; its default otherwise.
    #[default]
    Process,
    /// Power loss.
    Sync,
}

impl Durability {
    /// The word in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Durability::Relaxed => "relaxed",
            Durability::Process => "process",
            Durability::Sync => "sync",
        }
    }
}

/// How a store is to be opened.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Memory that the store may plan with, in bytes. A store with one budget takes it as that;
    /// others divide it among caches and buffers as their documents advise.
    pub memory_bytes: u64,
    /// What a put survives.
    pub durability: Durability,
}

/// One way to open a store.
pub trait Opener: Sync {
    /// The name by which a user chooses it.
    fn name(&self) -> &'static str;

    /// Why it cannot be opened on this machine, and what helps; `None` if it can. A run leaves such
    /// a store out and says so.
    fn unavailable(&self) -> Option<String> {
        None
    }

    /// Opens, or creates, the store in `directory`, which exists.
    ///
    /// # Errors
    /// The store's own, or that it does not offer what `settings` ask for.
    fn open(&self, directory: &Path, settings: &Settings) -> StoreResult<Box<dyn Store>>;
}

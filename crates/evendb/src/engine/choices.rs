//! What keyspaces have of their own among the options, for those that write tables and fill rows.
//!
//! The truth is the keyspaces' properties, which the manifest keeps; this is a copy by their ids, changed with them.
//!
//! Thread safety: any. The mutex is a leaf. Where no keyspace has options, nothing but a flag is read.

use crate::manifest::KeyspaceId;
use crate::options::KeyspaceOptions;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use std::collections::HashMap;

/// See the module.
#[derive(Default)]
pub(crate) struct KeyspaceChoices {
    /// Relaxed: what is written a moment later may follow the options of before.
    any: AtomicBool,
    options: Mutex<HashMap<KeyspaceId, KeyspaceOptions>>,
}

impl KeyspaceChoices {
    pub(crate) fn of(&self, keyspace: KeyspaceId) -> KeyspaceOptions {
        match self.any.load(Ordering::Relaxed) {
            true => self
                .options
                .lock()
                .get(&keyspace)
                .copied()
                .unwrap_or_default(),
            false => KeyspaceOptions::new(),
        }
    }

    pub(crate) fn set(&self, keyspace: KeyspaceId, options: KeyspaceOptions) {
        let mut all = self.options.lock();
        match options == KeyspaceOptions::new() {
            true => all.remove(&keyspace),
            false => all.insert(keyspace, options),
        };
        self.any.store(!all.is_empty(), Ordering::Relaxed);
    }
}

//! What keyspaces have of their own among the options, for those that write tables and fill rows.
//!
//! The truth is the keyspaces' properties, which the manifest keeps; this is a copy by their ids, changed with them.
//!
//! Thread safety: any. The mutex is a leaf. Where no keyspace has options, nothing but a flag is read.

use crate::manifest::KeyspaceId;
use crate::merge_operator::Operator;
use crate::options::{KeyspaceOptions, NamedOperator};
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
                .cloned()
                .unwrap_or_default(),
            false => KeyspaceOptions::new(),
        }
    }

    /// The merge operator of a keyspace, by its name, if it has one.
    pub(crate) fn merge_operator(&self, keyspace: KeyspaceId) -> Option<NamedOperator> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let all = self.options.lock();
        all.get(&keyspace)?.merge_operator.clone()
    }

    /// What folds operands of a keyspace, if that is known.
    pub(crate) fn operator(&self, keyspace: KeyspaceId) -> Option<Operator> {
        self.merge_operator(keyspace)?.operator
    }

    /// An operator that was given stays with its name.
    pub(crate) fn set(&self, keyspace: KeyspaceId, mut options: KeyspaceOptions) {
        let mut all = self.options.lock();
        if let Some(named) = &mut options.merge_operator
            && named.operator.is_none()
            && let Some(before) = all
                .get(&keyspace)
                .and_then(|old| old.merge_operator.as_ref())
            && before.name == named.name
        {
            named.operator.clone_from(&before.operator);
        }
        match options == KeyspaceOptions::new() {
            true => all.remove(&keyspace),
            false => all.insert(keyspace, options),
        };
        self.any.store(!all.is_empty(), Ordering::Relaxed);
    }
}

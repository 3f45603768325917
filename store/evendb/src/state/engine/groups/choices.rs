//! A copy of the keyspaces' own options, for code that writes tables and fills rows.
//!
//! The properties of the keyspaces, which the manifest keeps, decide; this copy, by keyspace ids,
//! changes together with them.
//!
//! Thread safety: any thread. The mutex is a leaf. If no keyspace has options, only a flag is read.

use crate::manifest::KeyspaceId;
use crate::merge_operator::Operator;
use crate::options::{KeyspaceOptions, NamedOperator};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use std::collections::HashMap;

/// See the module.
#[derive(Default)]
pub(crate) struct KeyspaceChoices {
    /// Relaxed: tables that are written a moment later may still follow the earlier options.
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

    /// The operator that folds operands of a keyspace, if it is known.
    pub(crate) fn operator(&self, keyspace: KeyspaceId) -> Option<Operator> {
        self.merge_operator(keyspace)?.operator
    }

    /// Sets a keyspace's options. An operator that was given stays, if its name stays.
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

//! Keyspaces get other names: one keyspace, or two that exchange theirs.
//!
//! ```text
//! persist        what was put earlier survives power loss before the new names do
//! catalog mutex  one edit of the manifest, durable; then the names of the states;
//!                then the catalog: a call that looks a name up sees all of it or nothing
//! ```
//! Only names change: ids, records, options, properties, snapshots, transactions and positions of
//! feeds know keyspaces by their ids, or by their states. So nothing has to stop for a renaming. A
//! failed edit changes no name.
//!
//! Thread safety: any thread; the catalog's mutex orders renamings, creations and drops. Not here:
//! names that handles have lent ([`crate::catalog`]).

use super::lifecycle::flush;
use crate::api::db::Db;
use crate::catalog::{DEFAULT_KEYSPACE, KeyspaceState};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::edit::Change;
use crate::sync::Arc;
use crate::worker;
use std::collections::BTreeMap;

impl Db {
    /// Gives a keyspace another name, durably and at one moment. It is one edit of the manifest,
    /// whatever the keyspace holds. Everything put earlier, into any keyspace, becomes durable
    /// before the new name does.
    ///
    /// Only the name changes. Handles go on, and name the same records as before:
    /// [`Keyspace::name`](crate::Keyspace::name) gives the new name from then on. So do snapshots,
    /// iterators, batches and transactions, also those that are under way. The
    /// [id](crate::Keyspace::id) stays. A feed of [changes](Self::changes_since) goes on without a
    /// gap; it tells the name that a keyspace has when the change is read, of earlier changes too.
    /// So a consumer that keeps copies of keyspaces knows them best by their ids. A backup or a
    /// copy has the old name or the new one.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// let events = db.keyspace("events")?;
    /// events.put("1", "began")?;
    /// db.rename_keyspace("events", "events of 2026")?;
    /// assert_eq!(events.name(), "events of 2026");
    /// assert_eq!(events.get("1")?.unwrap(), "began");
    /// assert!(!db.keyspace_exists("events"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for the default keyspace, which keeps its name, for a keyspace that is not
    /// there, and for a name of 0 or more than 255 bytes; `AlreadyExists` if another keyspace has
    /// the name; and the errors of writes. After an error both names are as before, unless it is
    /// `Io` or `Latched`: then the next opening tells.
    pub fn rename_keyspace(&self, from: &str, to: &str) -> Result<()> {
        let rename = || self.change_names(from, to, Exchange::No);
        let recording = &self.engine().core.recording;
        recording.other("rename_keyspace", rename)
    }

    /// Exchanges the names of two keyspaces, durably and at one moment: a keyspace that was built
    /// beside another one takes its place. No opening, and no call that looks a name up, finds one
    /// of them changed and the other one not. See [`rename_keyspace`](Self::rename_keyspace) for
    /// what else holds: in particular, open handles keep naming the same records. So readers that
    /// should see what took the place ask for the name again.
    ///
    /// ```
    /// # fn main() -> evendb::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = evendb::Db::open(dir.path())?;
    /// db.keyspace("index")?.put("k", "old")?;
    /// let rebuilt = db.keyspace("rebuilt")?;
    /// rebuilt.put("k", "new")?;
    /// db.swap_keyspaces("index", "rebuilt")?;
    /// assert_eq!(db.keyspace("index")?.get("k")?.unwrap(), "new");
    /// assert_eq!(rebuilt.name(), "index");
    /// db.drop_keyspace("rebuilt")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`rename_keyspace`](Self::rename_keyspace), except `AlreadyExists`; both must be there.
    pub fn swap_keyspaces(&self, one: &str, other: &str) -> Result<()> {
        let swap = || self.change_names(one, other, Exchange::Yes);
        let recording = &self.engine().core.recording;
        recording.other("swap_keyspaces", swap)
    }

    fn change_names(&self, from: &str, to: &str, exchange: Exchange) -> Result<()> {
        for name in [from, to] {
            if name == DEFAULT_KEYSPACE {
                return refuse("the default keyspace keeps its name");
            }
            if name.is_empty() || name.len() > 255 {
                return refuse("a keyspace's name has 1 to 255 bytes");
            }
        }
        let engine = self.engine();
        let _inside = engine.core.health.enter_writable()?;
        engine.disk.full_disk.check(&engine.catalog)?;
        // First: what was put earlier is durable before the names are.
        worker::persist(engine)?;
        rename(engine, from, to, exchange)
    }
}

/// Whether the second keyspace takes the name of the first one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exchange {
    No,
    Yes,
}

fn refuse(message: &str) -> Result<()> {
    Err(Error::new(ErrorKind::InvalidArgument, message))
}

fn rename(engine: &Engine, from: &str, to: &str, exchange: Exchange) -> Result<()> {
    let mut catalog = engine.catalog.lock();
    let first = named(&catalog, from)?;
    let second = match exchange {
        Exchange::Yes => Some(named(&catalog, to)?),
        Exchange::No => catalog.get(to).cloned(),
    };
    if from == to {
        return Ok(());
    }
    if exchange == Exchange::No && second.is_some() {
        let message = format!("there is already a keyspace {to:?}; swap_keyspaces exchanges names");
        return Err(Error::new(ErrorKind::AlreadyExists, message));
    }
    let mut renamed = vec![(first, to)];
    renamed.extend(second.map(|second| (second, from)));
    let changes = renamed.iter().map(|(state, name)| Change::RenameKeyspace {
        id: state.id,
        name: (*name).to_owned(),
    });
    flush(engine, changes.collect())?;
    catalog.remove(from);
    engine.catalog.note_renaming();
    for (state, name) in renamed {
        state.rename(name);
        let recording = &engine.core.recording;
        recording.slot.name_keyspace(state.id.0, name);
        catalog.insert(name.to_owned(), state);
    }
    Ok(())
}

fn named(catalog: &BTreeMap<String, Arc<KeyspaceState>>, name: &str) -> Result<Arc<KeyspaceState>> {
    catalog.get(name).cloned().ok_or_else(|| {
        let message = format!("there is no keyspace {name:?}");
        Error::new(ErrorKind::InvalidArgument, message)
    })
}

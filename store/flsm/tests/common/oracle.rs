//! Every state that a database may be in after a crash.
//!
//! Writes are entries in the order in which they were made; an entry is a whole batch. The
//! surviving state is the state after one prefix of the entries. The prefix has at least the
//! promised entries, and at most all entries that were begun. Keyspaces are made and dropped
//! durably, whatever happens to the entries around that.

use super::Map;
use evendb_flsm::{Db, Durability};
use std::collections::BTreeMap;

/// Keyspace, key, value.
pub type Change = (u32, Vec<u8>, Option<Vec<u8>>);
pub type Names = BTreeMap<String, u32>;

/// What ended the last life of a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// No write was lost.
    Process,
    /// Power failed at least once since the last look at the database.
    Power,
}

#[derive(Clone)]
pub struct Oracle {
    pub level: Durability,
    /// The state before the first entry.
    base: BTreeMap<u32, Map>,
    entries: Vec<Vec<Change>>,
    acknowledged: usize,
    durable: usize,
    /// The last entry was refused. At most the disk has a part of it, until the next entry
    /// overwrites that.
    failed: bool,
    names: Names,
    /// The keyspace that is being made or dropped, and whether it is made.
    pending_name: Option<(String, bool)>,
}

fn apply(state: &mut BTreeMap<u32, Map>, entry: &[Change]) {
    for (keyspace, key, value) in entry {
        let map = state.entry(*keyspace).or_default();
        match value {
            Some(value) => map.insert(key.clone(), value.clone()),
            None => map.remove(key),
        };
    }
}

fn contents(db: &Db) -> Result<BTreeMap<String, (u32, Map)>, String> {
    let mut all = BTreeMap::new();
    for name in db.keyspace_names() {
        let keyspace = db.keyspace(&name).map_err(|error| error.to_string())?;
        let mut map = Map::new();
        for item in keyspace.iter() {
            let (key, value) = item.map_err(|error| error.to_string())?;
            let found = keyspace.get(&key).map_err(|error| error.to_string())?;
            if found.as_deref() != Some(&*value) {
                return Err(format!("a get of {key:?} does not give what the scan does"));
            }
            map.insert(key.to_vec(), value.to_vec());
        }
        all.insert(name, (keyspace.id(), map));
    }
    Ok(all)
}

impl Oracle {
    pub fn new(level: Durability) -> Oracle {
        Oracle {
            level,
            base: BTreeMap::new(),
            entries: Vec::new(),
            acknowledged: 0,
            durable: 0,
            failed: false,
            // The keyspace that always exists.
            names: Names::from([("default".to_owned(), 0)]),
            pending_name: None,
        }
    }

    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Notes that a write begins.
    pub fn begin(&mut self, entry: Vec<Change>) {
        if std::mem::take(&mut self.failed) {
            self.entries.truncate(self.acknowledged);
        }
        assert_eq!(self.entries.len(), self.acknowledged);
        self.entries.push(entry);
    }

    /// Notes that the write that began is acknowledged, at a level of its own if that is above the
    /// database's.
    pub fn acknowledge(&mut self, level: Durability) {
        self.acknowledged = self.entries.len();
        let (own, level) = (self.level, level.max(self.level));
        // At the relaxed level, a write with a higher level is flushed.
        if level == Durability::Sync || own == Durability::Relaxed && level > own {
            self.durable = self.acknowledged;
        }
    }

    /// Notes that the write that began, if one did, was refused.
    pub fn fail(&mut self) {
        self.failed = self.entries.len() > self.acknowledged;
    }

    /// Checks that reads show the acknowledged writes. If the last write `may_show`, they may show
    /// it or not; if they do, it counts as acknowledged.
    pub fn check_live(&mut self, db: &Db, may_show: bool) -> Result<(), String> {
        let found = contents(db)?;
        let nothing = Map::new();
        let shows = |state: &BTreeMap<u32, Map>| {
            let mut all = found.values();
            all.all(|(id, map)| state.get(id).unwrap_or(&nothing) == map)
        };
        let mut state = self.base.clone();
        for entry in &self.entries[..self.acknowledged] {
            apply(&mut state, entry);
        }
        if shows(&state) {
            return Ok(());
        }
        for entry in &self.entries[self.acknowledged..] {
            apply(&mut state, entry);
        }
        if may_show && shows(&state) {
            self.failed = false;
            self.acknowledge(Durability::Relaxed);
            return Ok(());
        }
        Err("reads show something else than was acknowledged".to_owned())
    }

    /// Notes that all acknowledged writes are durable.
    pub fn persisted(&mut self) {
        self.durable = self.acknowledged;
    }

    pub fn begin_name(&mut self, name: &str, is_made: bool) {
        self.pending_name = Some((name.to_owned(), is_made));
    }

    pub fn made(&mut self, name: &str, id: u32) {
        self.pending_name = None;
        self.names.insert(name.to_owned(), id);
    }

    pub fn dropped(&mut self, name: &str) {
        self.pending_name = None;
        self.names.remove(name);
        self.persisted();
    }

    fn floor(&self, end: End) -> usize {
        match (self.level, end) {
            (Durability::Process | Durability::Sync, End::Process) => self.acknowledged,
            _ => self.durable,
        }
    }

    /// Finds the prefix that the database holds, and goes on from there.
    pub fn recover(&mut self, db: &Db, end: End) -> Result<(), String> {
        let found = contents(db)?;
        let mut floor = self.floor(end);
        let names: Names = found
            .iter()
            .map(|(name, (id, _))| (name.clone(), *id))
            .collect();
        if names != self.names {
            let Some((pending, is_made)) = self.pending_name.take() else {
                return Err(format!("keyspaces {names:?}, not {:?}", self.names));
            };
            let mut expected = self.names.clone();
            match names.get(&pending) {
                Some(id) if is_made => {
                    expected.insert(pending, *id);
                }
                None if !is_made => {
                    // All earlier puts are made durable first.
                    floor = self.acknowledged;
                    expected.remove(&pending);
                }
                _ => {}
            }
            if names != expected {
                return Err(format!("keyspaces {names:?}, not {expected:?}"));
            }
        }
        self.pending_name = None;
        self.names = names;
        let mut state = self.base.clone();
        for length in 0..=self.entries.len() {
            if length > 0 {
                apply(&mut state, &self.entries[length - 1]);
            }
            let nothing = Map::new();
            let mut all = found.values();
            let equals = all.all(|(id, map)| state.get(id).unwrap_or(&nothing) == map);
            if length >= floor && equals {
                self.base = state;
                self.entries.clear();
                self.acknowledged = 0;
                self.durable = 0;
                self.failed = false;
                return Ok(());
            }
        }
        Err(format!(
            "no prefix of {floor} to {} entries is what there is: {}",
            self.entries.len(),
            self.nearest(&found, floor)
        ))
    }

    /// The difference between the database and the state after the acknowledged entries.
    fn nearest(&self, found: &BTreeMap<String, (u32, Map)>, floor: usize) -> String {
        let mut state = self.base.clone();
        for entry in &self.entries[..floor] {
            apply(&mut state, entry);
        }
        let nothing = Map::new();
        let mut said = Vec::new();
        for (name, (id, map)) in found {
            let expected = state.get(id).unwrap_or(&nothing);
            for key in expected.keys().chain(map.keys()) {
                if expected.get(key) != map.get(key) && said.len() < 3 {
                    said.push(format!(
                        "{name} {:?}: {:?}, not {:?}",
                        String::from_utf8_lossy(key),
                        map.get(key).map(|value| value.len()),
                        expected.get(key).map(|value| value.len())
                    ));
                }
            }
        }
        said.join("; ")
    }
}

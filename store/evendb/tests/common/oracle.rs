//! The oracle: every state the database may be in after a crash.
//!
//! Writes are entries in the order in which they were put; an entry is a whole batch. The surviving
//! state must equal the state after one prefix of the entries. The prefix has at least the entries
//! that were promised (the floor) and at most all that were begun. Keyspaces are told apart by
//! generation, because a dropped name can be created again; their creation and removal is durable
//! on return, whatever happens to the entries around it.

use evendb::{Db, Durability};
use std::collections::{BTreeMap, BTreeSet};

pub type Map = BTreeMap<Vec<u8>, Vec<u8>>;
pub type Names = BTreeMap<String, u32>;

#[derive(Clone, Debug)]
pub struct Change {
    pub generation: u32,
    pub key: Vec<u8>,
    pub value: Option<Vec<u8>>,
}

/// What ended the last life of the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Nothing unsynced was lost.
    Process,
    /// Power failed at least once since the database was last seen.
    Power,
}

/// Creation or removal of a keyspace under way.
#[derive(Clone, Debug)]
struct PendingNames {
    names: Names,
    /// If it took effect, at least this number of entries did too.
    floor: usize,
}

#[derive(Clone)]
pub struct Oracle {
    level: Durability,
    /// The state before the first entry.
    base: BTreeMap<u32, Map>,
    entries: Vec<Vec<Change>>,
    /// The state after all acknowledged entries.
    current: BTreeMap<u32, Map>,
    acknowledged: usize,
    durable: usize,
    names: Names,
    pending_names: Option<PendingNames>,
    next_generation: u32,
}

fn apply(state: &mut BTreeMap<u32, Map>, change: &Change) {
    let map = state.entry(change.generation).or_default();
    match &change.value {
        Some(value) => drop(map.insert(change.key.clone(), value.clone())),
        None => drop(map.remove(&change.key)),
    }
}

/// Everything in one keyspace, read forwards.
pub fn contents(db: &Db, name: &str) -> evendb::Result<Map> {
    let keyspace = db.keyspace(name)?;
    let mut map = Map::new();
    let mut last: Option<Vec<u8>> = None;
    for item in keyspace.iter() {
        let (key, value) = item?;
        assert!(
            last.as_ref().is_none_or(|last| **last < *key),
            "keys out of order"
        );
        last = Some(key.to_vec());
        map.insert(key.to_vec(), value.to_vec());
    }
    Ok(map)
}

fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(24)]).into_owned();
    format!("{text:?} ({} bytes)", bytes.len())
}

impl Oracle {
    pub fn new(level: Durability) -> Oracle {
        Oracle {
            level,
            base: BTreeMap::new(),
            entries: Vec::new(),
            current: BTreeMap::new(),
            acknowledged: 0,
            durable: 0,
            names: Names::from([("default".to_owned(), 0)]),
            pending_names: None,
            next_generation: 1,
        }
    }

    /// Sets the level of the database's next life.
    pub fn set_level(&mut self, level: Durability) {
        self.level = level;
    }

    pub fn generation(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied()
    }

    /// The generation that the next keyspace will have.
    pub fn next_generation(&self) -> u32 {
        self.next_generation
    }

    pub fn names(&self) -> Vec<String> {
        self.names.keys().cloned().collect()
    }

    /// The content of an acknowledged keyspace now.
    pub fn map(&self, name: &str) -> Map {
        let generation = self.names[name];
        self.current.get(&generation).cloned().unwrap_or_default()
    }

    /// The content of an acknowledged keyspace of this generation now.
    pub fn holds(&self, generation: u32) -> &Map {
        static NOTHING: Map = Map::new();
        self.current.get(&generation).unwrap_or(&NOTHING)
    }

    /// The contents of all acknowledged keyspaces now, also of dropped ones.
    pub fn state(&self) -> &BTreeMap<u32, Map> {
        &self.current
    }

    /// The number of writes that were acknowledged and not forgotten since.
    pub fn writes(&self) -> usize {
        self.acknowledged
    }

    /// Notes that a write begins.
    pub fn begin(&mut self, changes: Vec<Change>) {
        assert_eq!(self.entries.len(), self.acknowledged, "one write at a time");
        self.entries.push(changes);
    }

    /// Notes that the write has succeeded, at the given level if that is above the usual.
    pub fn acknowledge(&mut self, level: Option<Durability>) {
        // If a call wrote nothing, such as a pop of an empty range, nothing is durable either:
        // writes that a process left when it died may still go.
        if self.entries[self.acknowledged].is_empty() {
            return self.retract();
        }
        for change in &self.entries[self.acknowledged] {
            apply(&mut self.current, change);
        }
        self.acknowledged = self.entries.len();
        let raised = level.unwrap_or(Durability::Relaxed);
        let waits_for_checkpoint = self.level == Durability::Relaxed && raised > self.level;
        if self.level.max(raised) == Durability::Sync || waits_for_checkpoint {
            self.everything_is_durable();
        }
    }

    /// Notes that the write that began did not take effect and never will.
    pub fn retract(&mut self) {
        self.entries.truncate(self.acknowledged);
    }

    /// Notes that a call that makes everything durable has succeeded.
    pub fn everything_is_durable(&mut self) {
        for changes in self.entries.drain(..self.acknowledged) {
            for change in &changes {
                apply(&mut self.base, change);
            }
        }
        self.acknowledged = 0;
        self.durable = 0;
    }

    pub fn begin_create(&mut self, name: &str) {
        let mut names = self.names.clone();
        names.insert(name.to_owned(), self.next_generation);
        self.next_generation += 1;
        self.pending_names = Some(PendingNames { names, floor: 0 });
    }

    pub fn begin_drop(&mut self, name: &str) {
        let mut names = self.names.clone();
        names.remove(name);
        // Earlier puts are durable before the removal is.
        self.pending_names = Some(PendingNames {
            names,
            floor: self.acknowledged,
        });
    }

    pub fn names_done(&mut self) {
        let pending = self.pending_names.take().expect("a change was begun");
        self.names = pending.names;
        if pending.floor > 0 {
            self.everything_is_durable();
        }
    }

    pub fn retract_names(&mut self) {
        self.pending_names = None;
    }

    /// Compares with the content of the database; returns the length of the prefix that it equals.
    pub fn check(&self, db: &Db, end: End) -> Result<usize, String> {
        let (names, mut floor) = self.check_names(db)?;
        floor = floor.max(match (end, self.level) {
            (End::Process, Durability::Process | Durability::Sync) => self.acknowledged,
            _ => self.durable,
        });
        let mut actual: BTreeMap<u32, Map> = BTreeMap::new();
        for (name, generation) in &names {
            let map = contents(db, name).map_err(|error| format!("{name}: {error}"))?;
            actual.insert(*generation, map);
        }
        self.find_prefix(&actual, floor)
    }

    /// Checks reads of the running database: they must equal all acknowledged writes, with or
    /// without the write that failed.
    pub fn check_live(&self, db: &Db) -> Result<usize, String> {
        let (names, _) = self.check_names(db)?;
        let mut actual: BTreeMap<u32, Map> = BTreeMap::new();
        for (name, generation) in &names {
            let map = contents(db, name).map_err(|error| format!("{name}: {error}"))?;
            actual.insert(*generation, map);
        }
        self.find_prefix(&actual, self.acknowledged)
    }

    /// Judges a failed write, after which the database continues: it has been seen (or not) in the
    /// prefix of this length. Returns whether it took effect.
    pub fn judge_pending(&mut self, visible: usize, names: &[String]) -> bool {
        let before = self.current.clone();
        self.entries.truncate(visible);
        for change in self.entries[self.acknowledged..].iter().flatten() {
            apply(&mut self.current, change);
        }
        // A deletion of an absent key has no visible effect, also in a keyspace that was never
        // written.
        let shown = |state: &BTreeMap<u32, Map>| {
            let mut state = state.clone();
            state.retain(|_, map| !map.is_empty());
            state
        };
        let took_effect = shown(&self.current) != shown(&before);
        self.acknowledged = self.entries.len();
        if let Some(pending) = self.pending_names.take()
            && pending.names.keys().eq(names.iter())
        {
            self.names = pending.names;
        }
        took_effect
    }

    /// Whether no write is under way.
    pub fn nothing_begun(&self) -> bool {
        self.entries.len() == self.acknowledged
    }

    fn check_names(&self, db: &Db) -> Result<(Names, usize), String> {
        let actual = db.keyspace_names();
        let fits = |names: &Names| names.keys().eq(actual.iter());
        if fits(&self.names) {
            return Ok((self.names.clone(), 0));
        }
        match &self.pending_names {
            Some(pending) if fits(&pending.names) => Ok((pending.names.clone(), pending.floor)),
            _ => Err(format!(
                "keyspaces {actual:?} instead of {:?} (under way: {:?})",
                self.names, self.pending_names
            )),
        }
    }

    fn find_prefix(&self, actual: &BTreeMap<u32, Map>, floor: usize) -> Result<usize, String> {
        let empty = Map::new();
        let mut state = self.base.clone();
        let mut wrong: BTreeSet<(u32, Vec<u8>)> = BTreeSet::new();
        for (generation, map) in actual {
            let expected = state.get(generation).unwrap_or(&empty);
            for key in map.keys().chain(expected.keys()) {
                if map.get(key) != expected.get(key) {
                    wrong.insert((*generation, key.clone()));
                }
            }
        }
        let mut found = None;
        let mut below = None;
        let mut nearest = (usize::MAX, 0, BTreeSet::new());
        for length in 0..=self.entries.len() {
            if wrong.is_empty() {
                below = Some(length);
                found = (length >= floor).then_some(length).or(found);
            }
            if length >= floor && wrong.len() < nearest.0 {
                nearest = (wrong.len(), length, wrong.clone());
            }
            for change in self.entries.get(length).into_iter().flatten() {
                apply(&mut state, change);
                let Some(map) = actual.get(&change.generation) else {
                    continue;
                };
                let place = (change.generation, change.key.clone());
                if map.get(&change.key) == change.value.as_ref() {
                    wrong.remove(&place);
                } else {
                    wrong.insert(place);
                }
            }
        }
        found.ok_or_else(|| self.complaint(actual, floor, below, &nearest))
    }

    fn complaint(
        &self,
        actual: &BTreeMap<u32, Map>,
        floor: usize,
        below: Option<usize>,
        (_, length, wrong): &(usize, usize, BTreeSet<(u32, Vec<u8>)>),
    ) -> String {
        let counts = format!(
            "{} entries, {} acknowledged, {} durable, at least {floor} promised",
            self.entries.len(),
            self.acknowledged,
            self.durable
        );
        if let Some(below) = below {
            return format!("only the first {below} of {counts}");
        }
        let mut state = self.base.clone();
        for change in self.entries[..*length].iter().flatten() {
            apply(&mut state, change);
        }
        let mut text = format!("no prefix of {counts}; the nearest is {length}, where");
        for (generation, key) in wrong.iter().take(4) {
            let of = |maps: &BTreeMap<u32, Map>| {
                let value = maps.get(generation).and_then(|map| map.get(key));
                value.map_or("nothing".to_owned(), |value| shown(value))
            };
            text += &format!(
                " {generation}/{} is {} instead of {};",
                shown(key),
                of(actual),
                of(&state)
            );
        }
        text + &format!(" {} keys differ", wrong.len())
    }

    /// Notes that the database was opened again and equals the prefix of this length.
    pub fn recovered(&mut self, length: usize, db: &Db, end: End) {
        let actual = db.keyspace_names();
        if let Some(pending) = self.pending_names.take()
            && pending.names.keys().eq(actual.iter())
        {
            self.names = pending.names;
        }
        self.entries.truncate(length);
        self.acknowledged = length;
        self.durable = self.durable.min(length);
        self.current = self.base.clone();
        for change in self.entries.iter().flatten() {
            apply(&mut self.current, change);
        }
        if end == End::Power {
            // State that was read after a power loss is on the disk.
            self.everything_is_durable();
        }
    }
}

//! The world of a program: the machine, the database, its expected content, and the handles that
//! are held over steps.

use super::Counts;
use super::calls::feed::Consumer;
use super::calls::transactions::OpenTransaction;
use super::dice::Dice;
use super::model::{Span, State};
use crate::common::layout::recorded;
use crate::common::oracle::{Change, End, Map, Oracle};
use crate::common::{DIR, LEVELS, inspecting, varied};
use evendb::vfs::{CrashMode, SimVfs};
use evendb::{
    Db, Durability, Keyspace, KeyspaceOptions, Layout, Merges, Options, Position, Snapshot, inspect,
};
use std::collections::BTreeMap;
use std::rc::Rc;

/// An error of the database ends the step. It is a fault unless the machine has stopped.
pub type Outcome = evendb::Result<()>;

pub const NAMES: [&str; 4] = ["default", "second", "third", "fourth"];
/// The most crashes of recoveries that follow each other.
const RECOVERIES: u32 = 3;

/// The options and properties of a keyspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    pub options: KeyspaceOptions,
    pub properties: BTreeMap<String, Vec<u8>>,
}

impl Meta {
    /// Those of a keyspace that is made with these options.
    pub fn made(options: KeyspaceOptions) -> Meta {
        let options = match layout_of(&options) {
            Some(_) => options,
            None => recorded(options),
        };
        Meta {
            options,
            ..Meta::default()
        }
    }

    /// The options become these, except the layout, which stays.
    pub fn set(&mut self, options: KeyspaceOptions) {
        let own = layout_of(&self.options);
        self.options = with_layout(options, own);
    }

    /// Whether the keyspace has a merge operator; the only one appends.
    pub fn merges(&self) -> bool {
        self.options == self.options.clone().merge_operator(Merges::Append)
    }
}

fn layout_of(options: &KeyspaceOptions) -> Option<Layout> {
    let text = options.chosen().find(|(name, _)| *name == "layout")?.1;
    Some(text.parse().expect("a layout"))
}

fn with_layout(options: KeyspaceOptions, layout: Option<Layout>) -> KeyspaceOptions {
    match layout {
        Some(layout) => options.layout(layout),
        None => options,
    }
}

/// A snapshot, its expected content, and handles of the keyspaces of its time.
pub struct HeldSnapshot {
    pub snapshot: Snapshot,
    pub state: Rc<State>,
    pub keyspaces: Vec<(Keyspace, u32)>,
    pub position: Option<Position>,
}

pub struct World {
    pub dice: Dice,
    pub vfs: SimVfs,
    pub level: Durability,
    pub db: Option<Db>,
    pub oracle: Oracle,
    /// The options and properties of each keyspace, by generation.
    pub metas: BTreeMap<u32, Meta>,
    /// A keyspace's options and properties after the call under way.
    pub pending_meta: Option<(u32, Meta)>,
    pub snapshots: Vec<HeldSnapshot>,
    pub transactions: Vec<OpenTransaction>,
    /// The spans that were written while transactions were open.
    pub touched: Vec<Span>,
    /// Handles of keyspaces that were dropped.
    pub stale: Vec<Keyspace>,
    pub consumers: Vec<Consumer>,
    pub counts: Counts,
    /// Whether each call is printed.
    pub tells: bool,
    threads: usize,
    variant: u64,
    pub copies: u64,
}

fn end_of(mode: CrashMode) -> End {
    match mode {
        CrashMode::Process => End::Process,
        _ => End::Power,
    }
}

impl World {
    /// A new database. In one program of five the database has threads.
    pub fn new(seed: u64, tells: bool) -> World {
        let vfs = SimVfs::new(seed);
        let mut dice = Dice::of_step(seed, u64::MAX);
        let level = *dice.pick(&LEVELS);
        let mut world = World {
            vfs,
            level,
            db: None,
            oracle: Oracle::new(level),
            metas: BTreeMap::from([(0, Meta::made(KeyspaceOptions::new()))]),
            pending_meta: None,
            snapshots: Vec::new(),
            transactions: Vec::new(),
            touched: Vec::new(),
            stale: Vec::new(),
            consumers: Vec::new(),
            counts: Counts::new(),
            tells,
            threads: match seed % 5 {
                0 => 1 + (seed / 5 % 2) as usize,
                _ => 0,
            },
            variant: 0,
            copies: 0,
            dice,
        };
        world.choose_options();
        world.db = Some(world.options().open(DIR).expect("opens"));
        world
    }

    /// Whether a crash may come in the middle of a call: with threads it would not belong to a
    /// call.
    pub fn is_without_threads(&self) -> bool {
        self.threads == 0
    }

    /// Chooses the options of the next life.
    fn choose_options(&mut self) {
        self.variant = self.dice.below(1 << 32);
    }

    pub fn options(&self) -> Options {
        let keep = [0, 64 << 10, 256 << 10, 1 << 20][(self.variant / 64 % 4) as usize];
        varied(&self.vfs, self.level, self.variant)
            .workers(self.threads)
            .advanced(|advanced| advanced.keep_changes_bytes(keep))
    }

    pub fn db(&self) -> &Db {
        self.db.as_ref().expect("it is open")
    }

    /// Notes that a public call is made.
    pub fn did(&mut self, call: &'static str) {
        *self.counts.entry(call).or_default() += 1;
    }

    pub fn tell(&self, what: impl FnOnce() -> String) {
        if self.tells {
            println!("  {}", what());
        }
    }

    /// One of the keyspaces, and its generation.
    pub fn keyspace(&mut self) -> evendb::Result<(Keyspace, u32)> {
        let names = self.oracle.names();
        let name = self.dice.pick(&names).clone();
        let generation = self.oracle.generation(&name).expect("a name of its own");
        self.tell(|| format!("of {name}"));
        if generation == 0 {
            self.did("Db::default_keyspace");
            return Ok((self.db().default_keyspace().clone(), 0));
        }
        self.did("Db::keyspace");
        Ok((self.db().keyspace(&name)?, generation))
    }

    /// All keyspaces, and their generations.
    pub fn keyspaces(&self) -> evendb::Result<Vec<(Keyspace, u32)>> {
        let names = self.oracle.names().into_iter();
        names
            .map(|name| {
                let generation = self.oracle.generation(&name).expect("a name of its own");
                Ok((self.db().keyspace(&name)?, generation))
            })
            .collect()
    }

    pub fn map(&self, generation: u32) -> &Map {
        self.oracle.holds(generation)
    }

    /// Does a write with these effects; if it fails they stay pending.
    pub fn write<T>(
        &mut self,
        effects: Effects,
        level: Option<Durability>,
        act: impl FnOnce() -> evendb::Result<T>,
    ) -> evendb::Result<T> {
        self.tell(|| effects.shown());
        self.oracle.begin(effects.changes);
        let value = act()?;
        self.written(effects.spans, level);
        Ok(value)
    }

    /// Notes that the write has returned. If the machine has stopped meanwhile, nothing is
    /// acknowledged: a copy into a mapping cannot notice that it failed.
    pub fn written(&mut self, spans: Vec<Span>, level: Option<Durability>) {
        if self.vfs.crashed() {
            return;
        }
        self.oracle.acknowledge(level);
        if !self.transactions.is_empty() {
            self.touched.extend(spans);
        }
    }

    /// Notes that a call that makes everything durable has returned.
    pub fn all_is_durable(&mut self) {
        if !self.vfs.crashed() {
            self.oracle.everything_is_durable();
        }
    }

    /// Drops all handles of the running database.
    pub fn let_go(&mut self) {
        self.transactions.clear();
        self.touched.clear();
        self.snapshots.clear();
        self.stale.clear();
        for consumer in &mut self.consumers {
            consumer.close();
        }
    }

    /// Closes and opens again, with other options and possibly at another level.
    pub fn reopen(&mut self) -> Outcome {
        let held = self.snapshots.pop().filter(|_| self.dice.one_in(3));
        self.let_go();
        self.did("Db::close");
        self.db.take().expect("it is open").close()?;
        self.all_is_durable();
        if let Some(held) = held {
            let closed = held.snapshot.get(&held.keyspaces[0].0, "k");
            let kind = closed.map(drop).expect_err("it is closed").kind();
            assert_eq!(kind, evendb::ErrorKind::Closed);
        }
        if self.vfs.crashed() {
            return Ok(());
        }
        self.inspect();
        self.choose_options();
        if self.dice.one_in(2) {
            self.level = *self.dice.pick(&LEVELS);
            self.oracle.set_level(self.level);
        }
        self.tell(|| format!("opens at {:?}", self.level));
        self.db = Some(self.options().open(DIR)?);
        self.compare_all("reopened")
    }

    /// Checks what an inspection says of the closed files.
    fn inspect(&mut self) {
        let vfs = self.vfs.fork_state();
        let files = || inspecting(&vfs);
        if self.dice.one_in(3) {
            self.did("inspect::verify");
            let report = inspect::verify(DIR, files()).expect("verifies");
            assert!(report.is_sound(), "{report:?}");
        }
        if self.dice.one_in(6) {
            self.did("inspect::repair");
            let repaired = inspect::repair(DIR, "/repaired", Default::default(), files());
            let repaired = repaired.expect("repairs");
            assert!(repaired.is_complete(), "{repaired:?}");
            let other = varied(&vfs, self.level, 4).open("/repaired");
            let compared = self.compare(&other.expect("opens"), "repaired");
            compared.expect("reads");
        }
        if self.dice.one_in(6) {
            self.did("Options::read_only");
            let options = varied(&vfs, self.level, self.variant).read_only(true);
            let reader = options.open(DIR).expect("opens for reading");
            self.compare(&reader, "read only").expect("reads");
            let refused = reader.put("k", "v").expect_err("it is read only");
            assert_eq!(refused.kind(), evendb::ErrorKind::ReadOnly);
        }
    }

    /// The machine has stopped, or stops here: the files are opened, possibly after further
    /// crashes, and compared.
    pub fn crash(&mut self) {
        let mut end = End::Process;
        self.choose_options();
        let level = match self.dice.one_in(3) {
            true => *self.dice.pick(&LEVELS),
            false => self.level,
        };
        for round in 0..=RECOVERIES {
            let mode = match self.dice.below(6) {
                0 | 1 => CrashMode::Process,
                2 => CrashMode::PowerLossNothing,
                3 => CrashMode::PowerLossAll,
                _ => CrashMode::PowerLossRandom(self.dice.below(1 << 40)),
            };
            self.tell(|| format!("crashes, {mode:?}, then opens at {level:?}"));
            self.did("crash");
            if end_of(mode) == End::Power {
                end = End::Power;
            }
            // Threads of the database would meet a machine that stops under them, which
            // `crash_threads` tests: here they continue with their disk, and the crash is of a copy
            // of it.
            let machine = match self.threads {
                0 => self.vfs.crash(mode),
                _ => self.vfs.fork_state().crash(mode),
            };
            self.let_go();
            self.db = None;
            self.vfs = machine;
            self.level = level;
            if round < RECOVERIES && self.dice.one_in(4) {
                let operations = 1 << self.dice.below(7);
                let at = self.vfs.op_count() + self.dice.below(operations);
                self.vfs.set_crash_at(at);
            }
            let opened = self.options().open(DIR);
            if !self.vfs.crashed() {
                self.vfs.set_crash_at(u64::MAX);
                self.db = Some(opened.unwrap_or_else(|error| panic!("after {mode:?}: {error}")));
                break;
            }
        }
        let length = self.oracle.check(self.db(), end);
        let length = length.unwrap_or_else(|what| panic!("after a crash ({end:?}): {what}"));
        let db = self.db.as_ref().expect("just opened");
        self.oracle.recovered(length, db, end);
        self.oracle.set_level(level);
        for consumer in &mut self.consumers {
            consumer.crashed(end == End::Power);
        }
        self.find_metas();
        self.compare_all("recovered").expect("reads");
    }

    /// Finds the options and properties of keyspaces after a crash: the old ones, or those of the
    /// call under way.
    fn find_metas(&mut self) {
        let pending = self.pending_meta.take();
        for (keyspace, generation) in self.keyspaces().expect("opens") {
            let before = self.metas.get(&generation);
            let wanted = pending.as_ref().filter(|(of, _)| *of == generation);
            let found = meta_of(&keyspace, before.or(wanted.map(|(_, meta)| meta)));
            let found = found.expect("reads");
            let is_either =
                before == Some(&found) || wanted.is_some_and(|(_, meta)| *meta == found);
            assert!(is_either, "{found:?} instead of {before:?} or {wanted:?}");
            self.metas.insert(generation, found);
        }
    }

    /// Compares everything, both ways.
    pub fn compare_all(&self, what: &str) -> Outcome {
        self.compare(self.db(), what)?;
        for (keyspace, generation) in self.keyspaces()? {
            let meta = &self.metas[&generation];
            let found = meta_of(&keyspace, Some(meta))?;
            assert!(found == *meta, "{what}: {found:?} instead of {meta:?}");
        }
        Ok(())
    }

    /// Compares the content of a database with the expected content of this one.
    pub fn compare(&self, db: &Db, what: &str) -> Outcome {
        assert_eq!(db.keyspace_names(), self.oracle.names(), "{what}");
        for name in self.oracle.names() {
            let keyspace = db.keyspace(&name)?;
            let map = self.map(self.oracle.generation(&name).expect("its own"));
            compare_iter(keyspace.iter(), map, &format!("{what}: {name}"))?;
            let mut back = map.iter().rev();
            for item in keyspace.iter().rev() {
                let (key, value) = item?;
                let is_same = back
                    .next()
                    .is_some_and(|(k, v)| **k == *key && **v == *value);
                assert!(
                    is_same,
                    "{what}: {name} backwards at {}",
                    key.escape_ascii()
                );
            }
            assert!(back.next().is_none(), "{what}: {name} backwards ends early");
        }
        Ok(())
    }
}

/// Options and properties of a keyspace; only the properties that may be there.
fn meta_of(keyspace: &Keyspace, names: Option<&Meta>) -> evendb::Result<Meta> {
    let mut properties = BTreeMap::new();
    let known = names.map_or(Vec::new(), |meta| meta.properties.keys().cloned().collect());
    for name in PROPERTIES.into_iter().map(str::to_owned).chain(known) {
        if let Some(value) = keyspace.property(&name)? {
            properties.insert(name, value);
        }
    }
    Ok(Meta {
        options: keyspace.options()?,
        properties,
    })
}

pub const PROPERTIES: [&str; 2] = ["schema", "note"];

/// The items of an iterator equal the records of a map.
pub fn compare_iter(iter: evendb::Iter, map: &Map, what: &str) -> Outcome {
    let mut records = map.iter();
    for item in iter {
        let (key, value) = item?;
        let expected = records.next();
        let is_same = expected.is_some_and(|(k, v)| **k == *key && **v == *value);
        assert!(
            is_same,
            "{what}: {} ({} bytes) instead of {}",
            key.escape_ascii(),
            value.len(),
            expected.map_or("the end".to_owned(), |(k, v)| format!(
                "{} ({} bytes)",
                k.escape_ascii(),
                v.len()
            ))
        );
    }
    let next = records.next();
    assert!(
        next.is_none(),
        "{what}: ends before {:?}",
        next.map(|(k, _)| k.escape_ascii().to_string())
    );
    Ok(())
}

/// The effects of a write: on keys, for the oracle; and the spans, for transactions that have read
/// there.
#[derive(Default)]
pub struct Effects {
    pub changes: Vec<Change>,
    pub spans: Vec<Span>,
}

impl Effects {
    pub fn put(key: (u32, &[u8]), value: Option<&[u8]>) -> Effects {
        let mut effects = Effects::default();
        effects.set(key, value);
        effects
    }

    pub fn set(&mut self, (generation, key): (u32, &[u8]), value: Option<&[u8]>) {
        self.spans.push(Span::of_key(generation, key));
        self.changes.push(Change {
            generation,
            key: key.to_vec(),
            value: value.map(<[u8]>::to_vec),
        });
    }

    /// Appends to the value in a map, or to an earlier put of this write.
    pub fn merge(&mut self, (generation, key): (u32, &[u8]), operand: &[u8], map: &Map) {
        let own = |own: &&Change| own.generation == generation && own.key == key;
        let before = match self.changes.iter().rev().find(own) {
            Some(change) => change.value.clone(),
            None => map.get(key).cloned(),
        };
        let value = [&before.unwrap_or_default(), operand].concat();
        self.set((generation, key), Some(&value));
    }

    /// Deletes the records of a span from a map, and earlier puts of this write into it.
    pub fn delete_span(&mut self, span: &Span, map: &Map) {
        let own = self
            .changes
            .iter()
            .filter(|own| own.generation == span.generation);
        let own = own
            .filter(|own| span.has(&own.key))
            .map(|own| own.key.clone());
        let mut keys: Vec<Vec<u8>> = span.of_map(map).map(|(key, _)| key.clone()).collect();
        keys.extend(own);
        self.changes.extend(keys.into_iter().map(|key| Change {
            generation: span.generation,
            key,
            value: None,
        }));
        self.spans.push(span.clone());
    }

    fn shown(&self) -> String {
        let mut text = String::new();
        for change in self.changes.iter().take(12) {
            let value = change.value.as_ref();
            let value = value.map_or("-".to_owned(), |value| {
                let head = &value[..value.len().min(12)];
                format!("{} ({} bytes)", head.escape_ascii(), value.len())
            });
            text += &format!(
                "{}/{} = {value}; ",
                change.generation,
                change.key.escape_ascii()
            );
        }
        text
    }
}

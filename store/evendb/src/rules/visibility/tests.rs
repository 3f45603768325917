//! The rule against the plainest definition, and its users against each other: a reader sees the
//! same, wherever the components keep a set of records.

use super::*;
use crate::admission::Admission;
use crate::checkpoint::delta_sources;
use crate::chunk::row_tag::RowTag;
use crate::chunk::{ChargedDelta, Chunk, Frozen, KeyRange, View};
use crate::expiry::{ReadPoint, ReadTime};
use crate::folding::Folding;
use crate::funk::{Funk, Run, SearchSettings, value_of};
use crate::manifest::edit::{Part, Place, Role};
use crate::manifest::{ChunkId, KeyspaceId};
use crate::memory::Ledger;
use crate::merge::{Merge, MunkSource, RamMerge, Source};
use crate::munk::{Munk, MunkBuilder, Sizes};
use crate::options::LogSearch;
use crate::read::buffer::Buffer;
use crate::read::get::{Answer, Lookup, value_in_ram};
use crate::read::sources::{FillSpan, FunkScan, fill_from_funk, fill_from_munk, gather};
use crate::read::tables::Direction;
use crate::rebalance::rewrite::funk_sources;
use crate::record::RecordRef;
use crate::sync::yielding::Yielder;
use crate::sync::{Arc, reclaim};
use crate::tables::container::Container;
use crate::tables::extents::Extents;
use crate::tables::{Tables, table_path};
use crate::value_files::ValueFiles;
use evendb_storage::key_hash::RamHash;
use evendb_storage::table::{Codec, TableOptions, TableWriter};
use evendb_storage::vfs::{SimVfs, Vfs};
use evendb_storage::{TableId, Time, Version};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Layers of a chunk, oldest first: the base, two runs, a frozen delta, the active one.
const LAYERS: usize = 5;
const FROZEN: usize = 3;
const ACTIVE: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Write {
    key: Vec<u8>,
    version: Version,
    layer: usize,
    kind: Kind,
    value: Vec<u8>,
}

impl Write {
    fn entry(&self) -> EntryRef<'_> {
        EntryRef {
            key: &self.key,
            version: self.version,
            kind: self.kind,
            value: &self.value,
        }
    }
}

impl Candidate for &Write {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn version(&self) -> Version {
        self.version
    }

    fn stored_value(&self) -> &[u8] {
        &self.value
    }
}

impl Write {
    /// The put value, if it has not expired.
    fn live_value(&self, time: Time) -> Option<Vec<u8>> {
        match self.kind {
            Kind::Put => Some(self.value.clone()),
            Kind::PutUntil => {
                let (expires, value) = evendb_storage::expiry(&self.value).expect("a time");
                (time.0 < expires).then(|| value.to_vec())
            }
            _ => None,
        }
    }
}

/// Possible histories: for each key, layers and versions never fall, and within a layer versions
/// rise.
fn writes() -> impl Strategy<Value = Vec<Write>> {
    let step = (0u8..8, 0usize..3, 0u64..4, 0u64..24);
    prop::collection::vec(step, 0..60).prop_map(|steps| {
        let mut last: BTreeMap<u8, (usize, u64)> = BTreeMap::new();
        let mut writes = Vec::new();
        for (key, layers, versions, what) in steps {
            let (layer, version) = last.entry(key).or_insert((0, 0));
            let up = (*layer + layers / 2).min(LAYERS - 1);
            // In one layer no two records of a key have the same version.
            let least = u64::from(up == *layer || *version == 0);
            *version += versions.max(least);
            *layer = up;
            let value = format!("value {}", writes.len()).into_bytes();
            let (kind, value) = match what {
                0..8 => (Kind::Delete, Vec::new()),
                8..16 => (Kind::Put, value),
                expires => (
                    Kind::PutUntil,
                    [&expires.to_le_bytes()[..], &value].concat(),
                ),
            };
            writes.push(Write {
                key: format!("key{key}").into_bytes(),
                version: Version(*version),
                layer: up,
                kind,
                value,
            });
        }
        writes
    })
}

fn horizons() -> impl Strategy<Value = Horizon> {
    // Later snapshots judge by later times, and later readers by the latest.
    let snapshots = prop::collection::btree_map(0u64..30, 0u64..4, 0..4);
    (0u64..40, snapshots, 12u64..26).prop_map(|(floor, snapshots, from)| {
        let mut time = Time(from);
        let mut step = |steps| {
            time.0 += steps;
            time
        };
        Horizon {
            floor: Version(floor),
            snapshots: snapshots.keys().copied().map(Version).collect(),
            times: snapshots.values().map(|&steps| step(steps)).collect(),
            now: time,
        }
    })
}

/// Versions at which there are or may be readers, and the times by which they judge.
fn readers(horizon: &Horizon) -> Vec<(Version, Time)> {
    let snapshots = horizon.snapshots.iter().copied();
    let mut all: Vec<_> = snapshots.zip(horizon.times.iter().copied()).collect();
    let later = (horizon.floor.0..horizon.floor.0 + 40).map(Version);
    let later = later.chain([Version::MAX]);
    all.extend(later.flat_map(|at| [0, 3].map(|steps| (at, Time(horizon.now.0 + steps)))));
    all
}

type Answers = BTreeMap<Vec<u8>, Vec<u8>>;

/// The plainest definition: of all records of a key that are not too new, the one with the greatest
/// version decides; of two equal versions, the one in the newer layer. A tombstone is no value, and
/// neither is an expired record.
fn expected<'w>(
    writes: impl Iterator<Item = &'w Write> + Clone,
    (at, time): (Version, Time),
) -> Answers {
    let keys: BTreeSet<_> = writes.clone().map(|write| &write.key).collect();
    let newest = |key: &Vec<u8>| {
        let of_key = writes.clone().filter(|write| write.key == *key);
        let seen = of_key.filter(|write| write.version.0 <= at.0);
        seen.max_by_key(|write| (write.version, write.layer))
    };
    let live = |key: &Vec<u8>| newest(key)?.live_value(time);
    let values = keys
        .into_iter()
        .filter_map(|key| Some((key.clone(), live(key)?)));
    values.collect()
}

/// The records of a layer in order; the records of one key come newest first.
fn of_layer(writes: &[Write], layer: usize) -> Vec<&Write> {
    let mut own: Vec<_> = writes.iter().filter(|write| write.layer == layer).collect();
    own.sort_by_key(|write| (&write.key, Reverse(write.version)));
    own
}

proptest! {
    #[test]
    fn the_first_source_that_has_a_seen_record_decides(
        writes in writes(),
        at in 0u64..40,
        time in 12u64..26,
    ) {
        let (at, time) = (Version(at), Time(time));
        let keys: BTreeSet<_> = writes.iter().map(|write| write.key.clone()).collect();
        let mut answers = Answers::new();
        for key in keys {
            let asked = std::cell::Cell::new(0);
            let answers_of = (0..LAYERS).rev().map(|layer| {
                asked.set(asked.get() + 1);
                let mut own = of_layer(&writes, layer).into_iter();
                own.find(|write| write.key == key && write.version.is_seen_at(at))
            });
            let decides = decide(answers_of);
            // No source behind the one that decides is asked.
            let layers = decides.map_or(LAYERS, |write| LAYERS - write.layer);
            prop_assert_eq!(asked.get(), layers);
            let live = decides.and_then(|write| live(write, ReadTime::At(time)));
            let shown = |write: &Write| write.value[write.kind.prefix_bytes()..].to_vec();
            answers.extend(live.map(|write| (key, shown(write))));
        }
        prop_assert_eq!(answers, expected(writes.iter(), (at, time)));
    }

    #[test]
    fn what_a_rewrite_keeps_reads_as_before(
        writes in writes(),
        horizon in horizons(),
        bottom in any::<bool>(),
    ) {
        let mut all: Vec<&Write> = writes.iter().collect();
        let order = |write: &&Write| (write.key.clone(), Reverse(write.version), LAYERS - write.layer);
        all.sort_by_key(order);
        for pair in all.windows(2) {
            let number = |write: &Write| LAYERS - write.layer;
            let (a, b) = (pair[0], pair[1]);
            prop_assert!(comes_before((&a.entry(), number(a)), (&b.entry(), number(b))));
            prop_assert!(!comes_before((&b.entry(), number(b)), (&a.entry(), number(a))));
        }
        let dropping = Dropping { horizon: &horizon, bottom, zero_below: Version::MAX };
        let mut kept = Vec::new();
        for versions in all.chunk_by(|a, b| a.key == b.key) {
            let mut of_key = KeyVersions::default();
            for write in versions {
                let entry = dropping.as_all_read(write.entry());
                let fate = of_key.fate(write.version, entry.kind, dropping);
                if fate == Fate::Kept {
                    let version = dropping.written_version(write.version);
                    let (kind, value) = (entry.kind, entry.value.to_vec());
                    kept.push(Write { version, kind, value, ..(*write).clone() });
                }
                prop_assert!(bottom || fate != Fate::SpentTombstone);
            }
        }
        for at in readers(&horizon) {
            prop_assert_eq!(expected(kept.iter(), at), expected(writes.iter(), at), "at {:?}", at);
        }
    }
}

#[test]
fn each_fate_has_its_reason() {
    let horizon = Horizon {
        floor: Version(40),
        snapshots: vec![Version(15)],
        ..Horizon::default()
    };
    let dropping = Dropping {
        horizon: &horizon,
        bottom: true,
        zero_below: Version::MAX,
    };
    let mut versions = KeyVersions::default();
    let mut fate = |version, kind| versions.fate(Version(version), kind, dropping);
    assert_eq!(fate(50, Kind::Put), Fate::Kept, "newer than the floor");
    assert_eq!(
        fate(30, Kind::Delete),
        Fate::Kept,
        "a future snapshot at 40"
    );
    assert_eq!(fate(30, Kind::Put), Fate::Twin);
    assert_eq!(fate(20, Kind::Put), Fate::Hidden);
    assert_eq!(fate(12, Kind::Delete), Fate::Kept, "15 reads it");
    assert_eq!(fate(11, Kind::Put), Fate::Hidden);
    let mut spent = KeyVersions::default();
    assert_eq!(
        spent.fate(Version(14), Kind::Delete, dropping),
        Fate::SpentTombstone
    );
    assert_eq!(spent.fate(Version(14), Kind::Put, dropping), Fate::Twin);
    assert_eq!(spent.fate(Version(3), Kind::Put, dropping), Fate::Hidden);
    let above = Dropping {
        bottom: false,
        ..dropping
    };
    let mut kept = KeyVersions::default();
    assert_eq!(kept.fate(Version(14), Kind::Delete, above), Fate::Kept);
}

/// A chunk that holds given records in its layers, the older ones in a funk and in a munk.
struct World {
    chunk: Chunk,
    munk: Arc<Munk>,
    settings: SearchSettings,
}

fn delta_of(writes: &[Write], layer: usize, admission: &Arc<Admission>) -> Arc<ChargedDelta> {
    let delta = ChargedDelta::new(layer as u64, admission);
    let mut bytes = 0;
    for write in writes.iter().filter(|write| write.layer == layer) {
        let hash = RamHash::of(&write.key);
        let mut record = RecordRef::new(&write.key, &write.value, write.kind, hash);
        record.set_version(write.version);
        let before = delta.bytes();
        delta.insert(record);
        bytes += delta.bytes() - before;
    }
    admission.adopt(0, bytes as u64);
    delta
}

fn table_of(writes: &[Write], layer: usize, vfs: &dyn Vfs, role: Role) -> Option<Part> {
    let own = of_layer(writes, layer);
    own.first()?;
    let id = TableId(layer as u64 + 1);
    let file = vfs
        .create(&table_path(Path::new("/db"), id))
        .expect("a new file");
    let options = TableOptions {
        block_bytes: 64,
        restart_interval: 4,
        codec: Codec::None,
        zstd_level: 3,
        filter_bits_per_key: 10,
    };
    let mut writer = TableWriter::new(Vec::new(), id, options);
    for write in own {
        writer.add(write.entry()).expect("in order");
    }
    let (bytes, meta) = writer.finish().expect("a table in RAM");
    let written = file.write_at(&bytes, 0);
    written.expect("the simulated disk has room");
    Some(Part {
        table: id,
        place: Place::File,
        role,
        epoch: 1,
        checkpoint: layer as u64,
        meta: Arc::new(meta),
    })
}

impl World {
    fn new(writes: &[Write], search: LogSearch) -> World {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
        let dir = Path::new("/db");
        vfs.create_dir_all(dir).expect("a directory");
        let file = vfs.create(&dir.join("CHUNK-LOGS")).expect("a new file");
        let container = Arc::new(Container::new(file, Extents::new(0), 0));
        let values = ValueFiles::new(vfs.clone(), dir, 64 << 20, 0);
        let values = Arc::new(values);
        let tables = Tables::new(vfs.clone(), dir, container, values, Ledger::SHARED, 100);
        let base = table_of(writes, 0, &*vfs, Role::Base);
        let base = base.iter().map(|part| tables.acquire(part)).collect();
        let runs = [1, 2].into_iter().filter_map(|layer| {
            let ordinal = layer as u32;
            let part = table_of(writes, layer, &*vfs, Role::Run { ordinal })?;
            let table = tables.acquire(&part);
            Some(Run { ordinal, table })
        });
        let admission = Arc::new(Admission::new(0, 1 << 20));
        let view = View {
            active: delta_of(writes, ACTIVE, &admission),
            frozen: vec![Frozen {
                delta: delta_of(writes, FROZEN, &admission),
                limits: None,
                durable: false,
            }],
            munk: None,
            funk: Arc::new(Funk::new(base, runs.collect(), 3)),
            covers: None,
            row_tag: RowTag::NONE,
        };
        let range = KeyRange {
            low: Box::default(),
            high: None,
        };
        let chunk = Chunk::new(
            ChunkId(1),
            KeyspaceId(0),
            range,
            view,
            Version::ZERO,
            Ledger::SHARED,
        );
        // Several spans, so that records at their borders are compared, too.
        let sizes = Sizes {
            page_bytes: 100,
            span_bytes: 300,
        };
        let mut builder = MunkBuilder::new(sizes, Ledger::SHARED);
        let nothing = Horizon::default();
        for write in rewritten(&chunk, Sources::Funk, &nothing, false) {
            builder.add(write.entry());
        }
        World {
            munk: Arc::new(builder.finish()),
            chunk,
            settings: SearchSettings {
                search,
                reads_sections: false,
                log_bytes_max: 1 << 20,
                ledger: Ledger::SHARED,
            },
        }
    }

    fn view(&self, with_munk: bool) -> View {
        let mut view = (*self.chunk.view.load_full()).clone();
        view.munk = with_munk.then(|| self.munk.clone());
        view
    }

    fn get(&self, view: &View, key: &[u8], (at, time): (Version, Time)) -> Option<Vec<u8>> {
        let pin = reclaim::pin();
        let time = ReadTime::At(time);
        let lookup = Lookup::new(key, ReadPoint { at, time });
        let value = match value_in_ram(view, &lookup, &pin) {
            Answer::Value(_, value) => value,
            Answer::Operands => unreachable!("there are no operands"),
            Answer::Unknown(_) => {
                let found = view.funk.get(key, lookup.hash, at, &self.settings, None);
                let (_, found) = found.expect("the tables are whole")?;
                value_of(found, time)
            }
        };
        value.map(|value| value.to_vec())
    }

    fn scan(&self, view: &View, direction: Direction, (at, time): (Version, Time)) -> Answers {
        let span = FillSpan {
            asks_ahead: true,
            direction,
            from: None,
            to: None,
            at,
            time,
            records_max: 1000,
            block_bytes_max: 1 << 20,
            fold: &|_, _| unreachable!("there are no operands"),
        };
        let pin = reclaim::pin();
        let mut buffer = Buffer::default();
        match &view.munk {
            Some(munk) => {
                drop(fill_from_munk(&mut buffer, view, munk, &span, &pin).expect("no operands"))
            }
            None => {
                let gathered = gather(view, &span, &pin);
                let funk = FunkScan::seek(&view.funk, &span);
                let mut funk = funk.expect("the tables are whole");
                let filled = fill_from_funk(&mut buffer, &mut funk, &gathered, &span, view);
                filled.expect("the tables are whole");
            }
        }
        let mut answers = Answers::new();
        while buffer.take() {
            let (key, value) = buffer.current();
            answers.insert(key.to_vec(), value.to_vec());
        }
        answers
    }
}

/// The sources of a merge.
#[derive(Clone, Copy)]
enum Sources<'m> {
    Funk,
    Everything,
    DeltasAnd(&'m Munk),
}

/// The records that a merge writes of a chunk.
fn rewritten(chunk: &Chunk, of: Sources<'_>, horizon: &Horizon, bottom: bool) -> Vec<Write> {
    let view = chunk.view.load_full();
    let pin = reclaim::pin();
    let deltas = deltas_of(&view);
    let mut sources: Vec<Box<dyn Source + '_>> = match of {
        Sources::Funk => Vec::new(),
        _ => delta_sources(&deltas, None, &pin, &mut Yielder::new(false)),
    };
    match of {
        Sources::DeltasAnd(munk) => sources.push(Box::new(MunkSource::new(munk))),
        _ => sources.extend(funk_sources(chunk, &view).expect("the tables are whole")),
    }
    let merge = Merge::new(
        sources,
        Dropping {
            horizon,
            bottom,
            zero_below: Version::MAX,
        },
    );
    let mut merge = merge.expect("the tables are whole");
    let mut writes = Vec::new();
    while let Some(entry) = merge.current() {
        writes.push(Write {
            key: entry.key.to_vec(),
            version: entry.version,
            layer: 0,
            kind: entry.kind,
            value: entry.value.to_vec(),
        });
        merge.advance().expect("the tables are whole");
    }
    writes
}

fn deltas_of(view: &View) -> Vec<Frozen> {
    let active = Frozen {
        delta: view.active.clone(),
        limits: None,
        durable: false,
    };
    std::iter::once(active)
        .chain(view.frozen.iter().cloned())
        .collect()
}

proptest! {
    /// Gets, scans both ways, the funk, merges and absorbs, over one set of records.
    #[test]
    fn all_users_of_the_rule_agree(
        writes in writes(),
        horizon in horizons(),
        bottom in any::<bool>(),
        bloom in any::<bool>(),
    ) {
        let search = if bloom { LogSearch::bloom() } else { LogSearch::Index };
        let world = World::new(&writes, search);
        let keys: BTreeSet<_> = writes.iter().map(|write| write.key.clone()).collect();
        let versions = (0..40).map(Version).chain([Version::MAX]);
        for at in versions.flat_map(|at| [13, 17, 21, 30].map(|time| (at, Time(time)))) {
            let expected = expected(writes.iter(), at);
            for with_munk in [false, true] {
                let view = world.view(with_munk);
                let got = |key: &Vec<u8>| Some((key.clone(), world.get(&view, key, at)?));
                let gets: Answers = keys.iter().filter_map(got).collect();
                prop_assert_eq!(&gets, &expected, "gets at {:?}, munk {}", at, with_munk);
                for direction in [Direction::Forward, Direction::Backward] {
                    let scan = world.scan(&view, direction, at);
                    prop_assert_eq!(&scan, &expected, "{:?} at {:?}", direction, at);
                }
            }
        }
        let dropping = Dropping { horizon: &horizon, bottom: false, zero_below: Version::MAX };
        let absorbed = {
            let pin = reclaim::pin();
            let deltas = deltas_of(&world.chunk.view.load_full());
            let sources =
                delta_sources(&deltas, None, &pin, &mut Yielder::new(false));
            let merge = Merge::new(sources, dropping).expect("no I/O");
            world.munk.absorb(&mut RamMerge(merge), &horizon, bottom, Folding::NONE)
        };
        let merged = rewritten(&world.chunk, Sources::Everything, &horizon, bottom);
        let over_munk = rewritten(&world.chunk, Sources::DeltasAnd(&world.munk), &horizon, bottom);
        for at in readers(&horizon) {
            let expected = expected(writes.iter(), at);
            prop_assert_eq!(&super::tests::expected(merged.iter(), at), &expected, "merge at {:?}", at);
            prop_assert_eq!(&super::tests::expected(over_munk.iter(), at), &expected, "munk, {:?}", at);
            let got = |key: &Vec<u8>| {
                let hit = absorbed.get(key, RamHash::of(key), at.0).found();
                let hit = live(hit?, ReadTime::At(at.1))?;
                Some((key.clone(), hit.page.bytes()[hit.shown()].to_vec()))
            };
            let absorbs: Answers = keys.iter().filter_map(got).collect();
            prop_assert_eq!(&absorbs, &expected, "absorb at {:?}", at);
        }
    }
}

//! The content of the manifest: the container with its extents, keyspaces, chunks and their tables;
//! and the files that the manifest does not name (step 5).

use super::replay::Replay;
use super::{Opening, io};
use crate::admission::Admission;
use crate::catalog::KeyspaceState;
use crate::chunk::covers::Covers;
use crate::chunk::index::Index;
use crate::chunk::row_tag::RowTags;
use crate::chunk::{ChargedDelta, Chunk, KeyRange, View};
use crate::error::{Error, ErrorKind, Result};
use crate::files::{CONTAINER, CURRENT, STATS, in_container, is_own_name};
use crate::funk::Funk;
use crate::manifest::KeyspaceId;
use crate::manifest::edit::{ChunkRecord, CoverRecord, Part, Place, Role};
use crate::manifest::writer;
use crate::memory::Ledger;
use crate::options::KeyspaceOptions;
use crate::sync::Arc;
use crate::tables::container::{Container, extent_of};
use crate::tables::extents::Extents;
use crate::tables::segments::Segments;
use crate::tables::{Tables, container_path, part_path};
use crate::value_extents;
use crate::value_files::{self, ValueFiles};
use crate::version::clock::checkpoint_of;
use evendb_storage::vfs::File;
use evendb_storage::{Error as StorageError, Version};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

impl Opening {
    /// Bytes in tables; a table that chunks share counts once for each.
    pub(super) fn table_bytes(&self) -> u64 {
        let chunks = self.state.chunks.values();
        let parts = chunks.flat_map(|chunk| &chunk.parts);
        parts.map(|part| part.meta.len).fold(0, u64::saturating_add)
    }

    /// The options that keyspaces have of their own.
    pub(super) fn keyspace_options(&self) -> Result<Vec<(KeyspaceId, KeyspaceOptions)>> {
        let each = self.state.properties.iter();
        each.map(|(id, properties)| {
            let name = self.state.keyspaces.get(id).map_or("", String::as_str);
            let refused = |(option, value)| {
                let message = format!(
                    "the keyspace {name:?} has {option} \"{value}\", which this version of EvenDB does not \
                     know; open it with the version that set it, or a newer one"
                );
                Error::new(ErrorKind::Unsupported, message)
            };
            let options = KeyspaceOptions::of_properties(properties).map_err(refused)?;
            options.check().map_err(|error| {
                let message = format!("the keyspace {name:?} cannot be opened: {error}");
                Error::new(error.kind(), message)
            })?;
            Ok((*id, options))
        })
        .collect()
    }

    /// The container that is written to, with its extents, and the sealed ones that have runs.
    pub(super) fn open_container(&self) -> Result<Arc<Container>> {
        let written = self.state.container;
        let mut extents: BTreeMap<u64, Extents> = BTreeMap::new();
        extents.insert(written, Extents::new(0));
        let mut lens: BTreeMap<u64, (Arc<dyn File>, u64)> = BTreeMap::new();
        lens.insert(written, self.open_segment(written)?);
        let mut seen = HashSet::new();
        let parts = self.state.chunks.values().flat_map(|chunk| &chunk.parts);
        for part in parts {
            let Place::Extent { offset } = part.place else {
                continue;
            };
            if !seen.insert(part.table) {
                continue;
            }
            let (number, offset) = in_container(offset);
            let damage = |what: &str| {
                let path = container_path(&self.dir, number);
                Err(StorageError::corruption(&path, offset, what).into())
            };
            if number > written {
                return damage("a run lies in chunks' logs that were never begun");
            }
            let len = match lens.entry(number) {
                Entry::Occupied(known) => known.get().1,
                Entry::Vacant(new) => new.insert(self.open_segment(number)?).1,
            };
            let end = offset.checked_add(part.meta.len);
            if end.is_none_or(|end| end > len) {
                return damage("a run lies beyond the end of the chunks' logs");
            }
            let used = extents.entry(number).or_insert_with(|| Extents::new(0));
            if used.mark_used(extent_of(offset, part.meta.len)).is_err() {
                return damage("two runs overlap in the chunks' logs");
            }
        }
        let segments = Segments::default();
        for (&number, (file, _)) in lens.range(..written) {
            let bytes = extents.get(&number).map_or(0, Extents::used);
            file.expect_random_reads();
            segments.add_sealed(number, file.clone(), bytes);
        }
        let (file, len) = lens.remove(&written).expect("opened first");
        let extents = extents.remove(&written).expect("made first");
        segments.add(written, file.clone());
        Ok(Arc::new(Container::with(
            (written, file),
            segments,
            extents,
            len,
        )))
    }

    /// The file of a container, and its length.
    fn open_segment(&self, number: u64) -> Result<(Arc<dyn File>, u64)> {
        let path = container_path(&self.dir, number);
        // Nothing is written to the sealed ones, which other databases may share.
        let write = !self.options.read_only && number == self.state.container;
        let opened = self.vfs.open(&path, write);
        let file =
            opened.map_err(|source| StorageError::open(&path, "open the chunks' logs", source))?;
        let len = file.len().map_err(io(&path, "look at the chunks' logs"))?;
        Ok((file, len))
    }

    pub(super) fn build_catalog(
        &self,
        tables: &Tables,
        admission: &Arc<Admission>,
        ledger: Ledger,
        checkpoint: u64,
        row_tags: &RowTags,
    ) -> Result<BTreeMap<KeyspaceId, Arc<KeyspaceState>>> {
        let mut by_keyspace: BTreeMap<KeyspaceId, Vec<&ChunkRecord>> = BTreeMap::new();
        for chunk in self.state.chunks.values() {
            by_keyspace.entry(chunk.keyspace).or_default().push(chunk);
        }
        let mut catalog = BTreeMap::new();
        for (id, mut chunks) in by_keyspace {
            let Some(name) = self.state.keyspaces.get(&id) else {
                continue;
            };
            chunks.sort_by(|a, b| a.low.cmp(&b.low));
            let mut entries = Vec::with_capacity(chunks.len());
            let row_tag = row_tags.fresh();
            for (index, record) in chunks.iter().enumerate() {
                let high = chunks.get(index + 1).map(|next| Box::from(&next.low[..]));
                let range = KeyRange {
                    low: Box::from(&record.low[..]),
                    high,
                };
                let view = View {
                    active: ChargedDelta::new(checkpoint, admission),
                    frozen: Vec::new(),
                    munk: None,
                    funk: Arc::new(self.build_funk(record, &range, tables)?),
                    covers: self.build_covers(record, &range, ledger)?,
                    row_tag,
                };
                let chunk = Chunk::new(record.id, id, range, view, Version::ZERO, ledger);
                entries.push((Box::from(&record.low[..]), Arc::new(chunk)));
            }
            let properties = self.state.properties.get(&id).cloned().unwrap_or_default();
            let state = KeyspaceState::new(id, name.clone(), properties, Index::new(entries));
            catalog.insert(id, Arc::new(state));
        }
        Ok(catalog)
    }

    fn build_funk(&self, record: &ChunkRecord, range: &KeyRange, tables: &Tables) -> Result<Funk> {
        for part in &record.parts {
            // The recovery table, as a check (I7 makes it unreachable): nothing of a checkpoint
            // that was not completed is ever named.
            if part.checkpoint > self.state.completed {
                let path = self.dir.join(CURRENT);
                let detail = format!("table {:?} is of a checkpoint never completed", part.table);
                return Err(StorageError::corruption(&path, 0, detail).into());
            }
        }
        let ordinals = record.parts.iter().filter_map(|part| match part.role {
            Role::Run { ordinal } => Some(ordinal.saturating_add(1)),
            Role::Base | Role::Fragment { .. } => None,
        });
        let run_end = ordinals.max().unwrap_or(0);
        let acquire = |part: &Part| tables.acquire(part);
        let funk = Funk::of_parts(&record.parts, record.guards.as_ref(), run_end, &acquire);
        let checked = funk
            .map_err(String::from)
            .and_then(|funk| match range.fault_of(&funk) {
                Some(fault) => Err(fault),
                None => Ok(funk),
            });
        checked.map_err(|fault| {
            let path = self.dir.join(CURRENT);
            let detail = format!("chunk {}: {fault}", record.id.0);
            StorageError::corruption(&path, 0, detail).into()
        })
    }

    fn build_covers(
        &self,
        record: &ChunkRecord,
        range: &KeyRange,
        ledger: Ledger,
    ) -> Result<Option<Arc<Covers>>> {
        let completed = self.state.completed;
        let too_new = |cover: &CoverRecord| checkpoint_of(cover.version) > completed;
        if record.covers.iter().any(too_new) {
            let path = self.dir.join(CURRENT);
            let id = record.id.0;
            let detail = format!("chunk {id}: a range deletion of a checkpoint never completed");
            return Err(StorageError::corruption(&path, 0, detail).into());
        }
        let covers = Covers::from_records(&record.covers, range, completed, ledger);
        Ok(covers.map(Arc::new))
    }

    /// The value files that tables or replayed records name. Some come more than once.
    fn value_files_named<'a>(&'a self, replay: &'a Replay) -> impl Iterator<Item = u64> + 'a {
        let parts = self.state.chunks.values().flat_map(|chunk| &chunk.parts);
        let in_tables = parts.flat_map(|part| part.meta.value_files.iter().map(|file| file.0));
        in_tables.chain(replay.value_files.iter().copied())
    }

    /// The value files that exist and are needed. Replayed records belong to `checkpoint`: until
    /// that is completed, the files that they name stay, and its edit waits for a sync of these
    /// files.
    pub(super) fn open_value_files(
        &self,
        replay: &Replay,
        checkpoint: u64,
    ) -> Result<Arc<ValueFiles>> {
        let file_bytes = self.options.advanced.value_file_bytes;
        let completed = self.state.completed;
        let files = ValueFiles::new(self.vfs.clone(), &self.dir, file_bytes, completed);
        #[cfg(test)]
        if crate::plant::planted!(self.options, ValueFileNotNeeded) {
            use crate::sync::atomic::Ordering;
            files.planted_unneeded.store(true, Ordering::Relaxed);
        }
        let named: BTreeSet<u64> = self.value_files_named(replay).collect();
        for id in named {
            let path = value_files::file_path(&self.dir, id);
            let len = match self.vfs.open(&path, false) {
                Ok(file) => file.len().map_err(io(&path, "look at a value file"))?,
                // A missing file is reported when a value in it is read.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(source) => {
                    return Err(StorageError::open(&path, "open a value file", source).into());
                }
            };
            let is_replayed = replay.value_files.contains(&id);
            files.adopt(id, len, is_replayed.then_some(checkpoint));
        }
        Ok(Arc::new(files))
    }

    /// Step 5.
    pub(super) fn remove_orphans(&self, replay: &Replay) -> Result<()> {
        let mut named: BTreeSet<PathBuf> = BTreeSet::new();
        for chunk in self.state.chunks.values() {
            named.extend(chunk.parts.iter().map(|part| part_path(&self.dir, part)));
        }
        named.insert(container_path(&self.dir, self.state.container));
        named.extend(
            replay
                .extents
                .iter()
                .map(|(_, id)| value_extents::file_path(&self.dir, *id)),
        );
        named.extend(
            self.value_files_named(replay)
                .map(|id| value_files::file_path(&self.dir, id)),
        );
        let manifest_id = writer::read_current(&*self.vfs, &self.dir)?.id;
        named.insert(writer::manifest_path(&self.dir, manifest_id));
        let names = self
            .vfs
            .list(&self.dir)
            .map_err(io(&self.dir, "list the directory"))?;
        for name in names.iter().filter_map(|name| name.to_str()) {
            let path = self.dir.join(name);
            if name == STATS {
                // It is no part of the database: whether it can be removed does not matter.
                let _ = self.vfs.remove(&path);
            }
            if (is_own_name(name) || name == CONTAINER) && !named.contains(&path) {
                self.vfs
                    .remove(&path)
                    .map_err(io(&path, "remove an orphan"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use crate::files::COMMIT_LOG;
    use crate::manifest::edit::Part;
    use crate::manifest::state::ManifestState;
    use crate::manifest::writer::Manifest;
    use crate::options::Options;
    use crate::{Db, ErrorKind};
    use evendb_storage::vfs::{CrashMode, SimVfs, Vfs};
    use std::path::Path;

    const DIR: &str = "/forged";

    fn open(vfs: &Arc<dyn Vfs>) -> Result<Db> {
        Options::new().vfs(vfs.clone()).workers(0).open(DIR)
    }

    /// A closed database of one chunk with a base and a run, whose manifest is written again by
    /// `forge`.
    fn forged(forge: impl FnOnce(&mut Vec<Part>)) -> Result<Db> {
        forged_state(|state| {
            let chunk = state.chunks.values_mut().next().unwrap();
            assert_eq!(chunk.parts.len(), 2, "a base and a run");
            forge(&mut chunk.parts);
        })
    }

    /// The same for the whole content of the manifest.
    fn forged_state(forge: impl FnOnce(&mut ManifestState)) -> Result<Db> {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
        let db = open(&vfs).unwrap();
        db.put("base", "1").unwrap();
        db.compact().unwrap();
        db.put("a run", "2").unwrap();
        db.put("base", "2").unwrap();
        db.close().unwrap();
        let found = writer::load(&*vfs, Path::new(DIR)).unwrap();
        let mut state = found.state;
        forge(&mut state);
        Manifest::create(vfs.clone(), Path::new(DIR), found.id + 1, state).unwrap();
        open(&vfs)
    }

    #[test]
    fn an_option_that_a_later_version_knows_is_passed_over_and_a_value_refused() {
        let with = |name: &str, value: &str| {
            let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
            open(&vfs).unwrap().close().unwrap();
            let found = writer::load(&*vfs, Path::new(DIR)).unwrap();
            let mut state = found.state;
            let id = *state.keyspaces.keys().next().unwrap();
            let name = format!("evendb.option.{name}");
            let properties = [(name, value.as_bytes().to_vec())].into();
            state.properties.insert(id, properties);
            Manifest::create(vfs.clone(), Path::new(DIR), found.id + 1, state).unwrap();
            open(&vfs)
        };
        let db = with("of the future", "yes").unwrap();
        let kept = db
            .default_keyspace()
            .property("evendb.option.of the future");
        assert_eq!(kept.unwrap().unwrap(), b"yes");
        assert!(with("compression", "lz4").is_ok());
        let error = with("compression", "zip").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let text = error.to_string();
        assert!(
            text.contains("\"default\" has compression \"zip\""),
            "{text}"
        );
        match cfg!(feature = "zstd") {
            true => assert!(with("compression", "zstd:3").is_ok()),
            false => {
                let error = with("compression", "zstd:3").unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                let text = error.to_string();
                assert!(
                    text.contains("\"default\"") && text.contains("feature `zstd`"),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn a_manifest_whose_tables_contradict_each_other_is_damage() {
        assert!(forged(|_| {}).is_ok());
        let is_refused = |forge: fn(&mut Vec<Part>)| {
            let error = forged(forge).map(drop).expect_err("opens");
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        };
        is_refused(|parts| parts.push(parts[0].clone()));
        is_refused(|parts| parts.iter_mut().for_each(|part| part.role = Role::Base));
        is_refused(|parts| {
            let ordinal = u32::MAX;
            parts
                .iter_mut()
                .for_each(|part| part.role = Role::Run { ordinal });
        });
        is_refused(|parts| {
            let last = parts.last_mut().unwrap();
            last.role = Role::Run { ordinal: u32::MAX };
        });
    }

    #[test]
    fn a_manifest_whose_runs_lie_upon_each_other_or_nowhere_is_damage() {
        let is_refused = |forge: fn(&mut Vec<Part>), what: &str| {
            let error = forged(forge).map(drop).expect_err("opens");
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert!(error.to_string().contains(what), "{error}");
        };
        is_refused(
            |parts| {
                let run = parts
                    .iter_mut()
                    .find(|part| part.role != Role::Base)
                    .unwrap();
                run.place = Place::Extent { offset: 1 << 40 };
            },
            "beyond the end",
        );
        is_refused(
            |parts| {
                let place = parts
                    .iter()
                    .find(|part| part.role != Role::Base)
                    .unwrap()
                    .place;
                parts.iter_mut().for_each(|part| part.place = place);
            },
            "overlap",
        );
    }

    #[test]
    fn a_commit_log_that_is_shorter_than_the_manifest_says_is_damage() {
        for is_closed in [true, false] {
            let sim = SimVfs::new(1);
            let db = open(&(Arc::new(sim.clone()) as Arc<dyn Vfs>)).unwrap();
            db.put("key", "value").unwrap();
            match is_closed {
                true => db.close().unwrap(),
                false => drop(db),
            }
            let path = Path::new(DIR).join(COMMIT_LOG);
            let log = sim.open(&path, true).unwrap();
            log.set_len(log.len().unwrap() / 2).unwrap();
            let error = open(&(Arc::new(sim) as Arc<dyn Vfs>))
                .map(drop)
                .expect_err("opens");
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert!(error.to_string().contains("instead of"), "{error}");
        }
    }

    #[test]
    fn a_record_of_a_keyspace_that_was_never_made_is_damage() {
        let sim = SimVfs::new(1);
        let db = open(&(Arc::new(sim.clone()) as Arc<dyn Vfs>)).unwrap();
        let other = db.keyspace("other").unwrap();
        other.put("key", "value").unwrap();
        let vfs: Arc<dyn Vfs> = Arc::new(sim.crash(CrashMode::Process));
        let found = writer::load(&*vfs, Path::new(DIR)).unwrap();
        let (mut state, id) = (found.state, other.state.id);
        state.keyspaces.remove(&id);
        state.chunks.retain(|_, chunk| chunk.keyspace != id);
        let opened = |state: ManifestState| {
            let vfs: Arc<dyn Vfs> = Arc::new(sim.crash(CrashMode::Process));
            Manifest::create(vfs.clone(), Path::new(DIR), found.id + 1, state).unwrap();
            open(&vfs).map(drop)
        };
        // The keyspace was dropped, as far as the manifest says; then the manifest says that it
        // never existed.
        opened(state.clone()).unwrap();
        state.next_keyspace = id.0;
        let error = opened(state).expect_err("opens");
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    }

    /// As after a backup that copied the files of an open database one after the other.
    #[test]
    fn a_manifest_that_is_older_than_the_commit_log_is_damage() {
        let sim = SimVfs::new(1);
        let db = open(&(Arc::new(sim.clone()) as Arc<dyn Vfs>)).unwrap();
        db.put("first", "value").unwrap();
        db.flush().unwrap();
        let older = sim.fork_state();
        for key in ["second", "third"] {
            db.put(key, "value").unwrap();
            db.flush().unwrap();
        }
        // This says that the log is not needed up to here.
        db.put("fourth", "value").unwrap();
        drop(db);
        let dir = Path::new(DIR);
        let names = older.file_names(dir).into_iter();
        for name in names.filter(|name| name.starts_with("MANIFEST-") || name == CURRENT) {
            let path = dir.join(name);
            sim.write_file(&path, older.read_file(&path));
        }
        let opened = open(&(Arc::new(sim) as Arc<dyn Vfs>)).map(drop);
        let error = opened.expect_err("opens");
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains("recycled further"), "{error}");
    }

    #[test]
    fn a_manifest_that_names_what_no_checkpoint_completed_is_damage() {
        let is_refused = |forge: fn(&mut ChunkRecord)| {
            let forged = forged_state(|state| forge(state.chunks.values_mut().next().unwrap()));
            let error = forged.map(drop).expect_err("opens");
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert!(error.to_string().contains("never completed"), "{error}");
        };
        is_refused(|chunk| chunk.parts.last_mut().unwrap().checkpoint = 1 << 30);
        is_refused(|chunk| {
            chunk.covers.push(CoverRecord {
                low: b"a".to_vec(),
                high: None,
                version: Version(1 << 60),
            });
        });
    }

    /// Jobs assert it of every view, but did not expect it in a database that had just been opened.
    #[test]
    fn a_manifest_whose_table_has_no_key_of_its_chunk_is_damage() {
        let with_second = |low: &[u8]| {
            forged_state(|state| {
                let first = state.chunks.values_mut().next().unwrap();
                let mut second = first.clone();
                // The base has only one key.
                first.parts.retain(|part| part.role != Role::Base);
                second.id.0 += 1;
                second.low = low.to_vec();
                state.chunks.insert(second.id, second);
            })
        };
        assert!(
            with_second(b"b").is_ok(),
            "each table has a key of each chunk"
        );
        let error = with_second(b"c").map(drop).expect_err("opens");
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    }
}

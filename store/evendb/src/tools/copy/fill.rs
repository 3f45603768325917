//! Steps 3 and 4 of a copy: its files, each verified as soon as it is there, and then the files
//! that make it a database.

use super::check::{CopyCheck, CopyOptions, Lying, ReadPace, whose};
use super::fork::cannot_link;
use super::{CopyMoment, CopySummary, Links, PIECE_BYTES, Sources, Target, Wanted, failed};
use crate::encryption;
use crate::engine::Engine;
use crate::error::Result;
use crate::files::{KEYS, container_base, container_name, in_container};
use crate::manifest::edit::{Part, Place};
use crate::manifest::writer::Manifest;
use crate::sync::Arc;
use crate::tables::{TableHandle, container_path, table_path};
use crate::value_files;
use evendb_storage::vfs::{File, WriteBehind, read_exact_at};
use evendb_storage::{Error as StorageError, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

/// A copy that is being made.
struct Filling<'f> {
    engine: &'f Engine,
    target: &'f Target<'f>,
    sources: &'f Sources<'f>,
    check: CopyCheck,
    pace: ReadPace,
    links: Links,
    /// Value files that were not taken over from verified ones.
    new_values: BTreeSet<u64>,
    summary: CopySummary,
}

pub(super) fn fill(
    engine: &Engine,
    target: &Target<'_>,
    moment: CopyMoment,
    how: &CopyOptions,
    sources: &Sources<'_>,
) -> Result<CopySummary> {
    let CopyMoment {
        mut state,
        tables,
        value_files,
        containers,
    } = moment;
    let mut filling = Filling {
        engine,
        target,
        sources,
        check: how.check,
        pace: how.pace(),
        links: Links::new(),
        new_values: BTreeSet::new(),
        summary: CopySummary::default(),
    };
    filling.keys()?;
    for id in value_files {
        filling.values(id)?;
    }
    // Where no container is shared, all runs are copied into the first one.
    if containers.is_empty() {
        state.container = 0;
    }
    let own = state.container;
    let container = target.create(&container_name(own))?;
    for table in &tables {
        if table.part.place == Place::File {
            filling.table(&table.part, &container)?;
        }
    }
    let shared = filling.containers(&containers)?;
    let is_shared = |table: &Arc<TableHandle>| match table.part.place {
        Place::Extent { offset } => shared.contains(&in_container(offset).0),
        Place::File => true,
    };
    let copied: Vec<_> = tables.iter().filter(|table| !is_shared(table)).collect();
    let places = filling.runs((own, &container), &copied)?;
    for chunk in state.chunks.values_mut() {
        for part in &mut chunk.parts {
            if let Some(&offset) = places.get(&part.table) {
                part.place = Place::Extent { offset };
            }
        }
    }
    state.ring_bytes = 0;
    let vfs = engine.disk.vfs.clone();
    // It syncs the directory before `CURRENT` comes.
    drop(Manifest::create(vfs, &target.dir, 1, state)?);
    filling.summary.bytes_verified = filling.pace.total;
    Ok(filling.summary)
}

impl Filling<'_> {
    fn keys(&mut self) -> Result<()> {
        let Engine { core, disk, .. } = self.engine;
        if disk.vfs.secrets().is_none() {
            return Ok(());
        }
        // The file is replaced as a whole when the key changes: each of the two versions opens the
        // copy.
        let (from, to) = (disk.dir.join(KEYS), self.target.dir.join(KEYS));
        let len = disk.vfs.open(&from, false).and_then(|file| file.len());
        let len = len.map_err(failed(&from, "look at the keys"))?;
        self.target.copy_file(&from, &to, len, &mut |_| {})?;
        if self.check == CopyCheck::Nothing {
            return Ok(());
        }
        let opens = |dir: &Path| {
            let (files, provider) = (&core.options.vfs, &core.options.advanced.encryption);
            encryption::find(files, dir, provider.as_ref()).map(drop)
        };
        whose(opens(&self.target.dir), || opens(&disk.dir))
    }

    /// Links or copies a file of this length. Returns whether it is taken over from verified files.
    fn take(&mut self, wanted: Wanted<'_>, from: &Path, to: &Path, bytes: u64) -> Result<Taken> {
        self.engine.core.health.check_readable()?;
        let shared = match self.links.are_possible {
            true => (self.sources.files)(self.engine, wanted),
            false => None,
        };
        if let Some(shared) = shared {
            match self.target.link(&shared.path, to, &mut self.links)? {
                Ok(()) => {
                    self.summary.bytes_linked += bytes;
                    return Ok(Taken {
                        is_linked: true,
                        is_verified: shared.is_verified,
                    });
                }
                Err(reason) if self.sources.links_only => return Err(cannot_link(to, reason)),
                Err(_) => {}
            }
        }
        self.target.copy_file(from, to, bytes, &mut |_| {})?;
        self.summary.bytes_copied += bytes;
        Ok(Taken {
            is_linked: false,
            is_verified: false,
        })
    }

    fn values(&mut self, id: u64) -> Result<()> {
        let disk = &self.engine.disk;
        let from = value_files::file_path(&disk.dir, id);
        let to = value_files::file_path(&self.target.dir, id);
        // The length as the file has it: room that was taken for a value that was not written is
        // not in the file.
        let len = disk.vfs.open(&from, false).and_then(|file| file.len());
        let len = len.map_err(failed(&from, "look at a value file"))?;
        let taken = self.take(Wanted::Values { id, len }, &from, &to, len)?;
        self.summary.values_linked += u64::from(taken.is_linked);
        if !taken.is_verified {
            self.new_values.insert(id);
        }
        Ok(())
    }

    fn table(&mut self, part: &Part, container: &Arc<dyn File>) -> Result<()> {
        let id = part.table;
        let from = table_path(&self.engine.disk.dir, id);
        let to = table_path(&self.target.dir, id);
        let taken = self.take(Wanted::Table(part), &from, &to, part.meta.len)?;
        match taken.is_linked {
            true => self.summary.tables_linked += 1,
            false => self.summary.tables_copied += 1,
        }
        let mut values = part.meta.value_files.iter();
        match taken.is_verified && !values.any(|(id, _)| self.new_values.contains(id)) {
            true => Ok(()),
            false => self.verify(part, Place::File, container),
        }
    }

    /// Verifies the copy of a table, at `place` in the copy.
    fn verify(&mut self, part: &Part, place: Place, container: &Arc<dyn File>) -> Result<()> {
        if self.check == CopyCheck::Nothing {
            return Ok(());
        }
        let (disk, vfs) = (&self.engine.disk, &*self.engine.disk.vfs);
        let copied = Lying {
            vfs,
            dir: &self.target.dir,
            container,
        };
        let copied = copied.verify(part, place, &mut self.pace);
        whose(copied, || {
            let source = Lying {
                vfs,
                dir: &disk.dir,
                container: &self.source_of(part.place)?,
            };
            source.verify(part, part.place, &mut self.pace)
        })
    }

    /// The source's file of the container in which a table lies. Of one that has a file of its own,
    /// it is not asked.
    fn source_of(&self, place: Place) -> Result<Arc<dyn File>> {
        let container = &self.engine.disk.container;
        let Place::Extent { offset } = place else {
            return Ok(container.file());
        };
        let (number, offset) = in_container(offset);
        container.segments().file(number).ok_or_else(|| {
            let path = container_path(&self.engine.disk.dir, number);
            StorageError::corruption(&path, offset, "the file with a run is not there").into()
        })
    }

    /// Links sealed containers; returns those that could be linked.
    fn containers(&mut self, numbers: &BTreeSet<u64>) -> Result<BTreeSet<u64>> {
        let mut linked = BTreeSet::new();
        for &number in numbers.iter() {
            self.engine.core.health.check_readable()?;
            if !self.links.are_possible {
                break;
            }
            let from = container_path(&self.engine.disk.dir, number);
            let to = container_path(&self.target.dir, number);
            match self.target.link(&from, &to, &mut self.links)? {
                Ok(()) => {
                    let len = self.engine.disk.vfs.open(&to, false);
                    let len = len.and_then(|file| file.len());
                    let len = len.map_err(failed(&to, "look at the chunks' logs"))?;
                    self.summary.bytes_linked += len;
                    self.summary.containers_linked += 1;
                    linked.insert(number);
                }
                Err(reason) if self.sources.links_only => {
                    return Err(cannot_link(&to, reason));
                }
                Err(_) => {}
            }
        }
        Ok(linked)
    }

    /// Copies the extents of `tables`, in the order in which they lie, into the container of number
    /// `own`, which is new; returns the new place of each table.
    fn runs(
        &mut self,
        (own, container): (u64, &Arc<dyn File>),
        tables: &[&Arc<TableHandle>],
    ) -> Result<BTreeMap<TableId, u64>> {
        let mut extents: Vec<(u64, u64, TableId)> = tables
            .iter()
            .filter_map(|table| match table.part.place {
                Place::Extent { offset } => Some((offset, table.part_len(), table.part.table)),
                Place::File => None,
            })
            .collect();
        extents.sort_unstable();
        let path = container.path().to_owned();
        let total: u64 = extents.iter().map(|extent| sectors(extent.1)).sum();
        if total > 0 {
            container
                .preallocate(0, total)
                .map_err(failed(&path, "reserve room for the copy's logs"))?;
        }
        let mut behind = WriteBehind::default();
        let mut places = BTreeMap::new();
        let mut at = 0;
        let mut rest = &extents[..];
        while let Some(&(start, len, _)) = rest.first() {
            self.engine.core.health.check_readable()?;
            // Neighbours are copied together, up to the size of a piece.
            let mut end = start + len;
            let mut count = 0;
            for &(offset, len, id) in rest {
                let near = count == 0 || offset == start + sectors(end - start);
                if !near || (count > 0 && offset + len - start > PIECE_BYTES) {
                    break;
                }
                places.insert(id, container_base(own) + at + offset - start);
                end = offset + len;
                count += 1;
            }
            let source = self.source_of(Place::Extent { offset: start })?;
            let (from, to) = (in_container(start).1, (&**container, &mut behind));
            let stretch = from..from + (end - start);
            copy_bytes(&*source, stretch, to, at, &mut |_| {})?;
            self.summary.runs_copied += count as u64;
            self.summary.bytes_copied += end - start;
            at += sectors(end - start);
            rest = &rest[count..];
        }
        container
            .sync_data()
            .map_err(failed(&path, "sync the copy's logs"))?;
        for table in tables {
            if let Some(&offset) = places.get(&table.part.table) {
                self.engine.core.health.check_readable()?;
                self.verify(&table.part, Place::Extent { offset }, container)?;
            }
        }
        Ok(places)
    }
}

/// The way in which a copy got a file.
struct Taken {
    is_linked: bool,
    is_verified: bool,
}

fn sectors(len: u64) -> u64 {
    len.next_multiple_of(512)
}

/// Copies a stretch of a file to the place `at` of another. `behind` belongs to the target's
/// writes; `note` gets the bytes, in pieces of [`PIECE_BYTES`].
pub(super) fn copy_bytes(
    from: &dyn File,
    stretch: Range<u64>,
    (to, behind): (&dyn File, &mut WriteBehind),
    at: u64,
    note: &mut dyn FnMut(&[u8]),
) -> Result<()> {
    let Range { start, end } = stretch;
    let len = end - start;
    let mut buffer = vec![0; PIECE_BYTES.min(len) as usize];
    let mut done = 0;
    while done < len {
        let piece = &mut buffer[..PIECE_BYTES.min(len - done) as usize];
        read_exact_at(from, piece, start + done).map_err(failed(from.path(), "read to copy"))?;
        behind
            .write_at(to, piece, at + done)
            .map_err(failed(to.path(), "write a copy"))?;
        note(piece);
        done += piece.len() as u64;
    }
    Ok(())
}

//! The tables of a funk as one source: for each key the record that a version sees, from the newest
//! table that has one.
//!
//! ```text
//!   a seek up to `to`    from |------------------------| to
//!     base                [====================================]   sought; goes on behind `to`
//!     run 2                       [=======]                        sought, in a chunk
//!     run 1                                               [====]   waits: it lies behind `to`
//!                                                         ^ ahead
//! ```
//! Invariant: a scan has sought all tables of its funk that have keys between its position and the
//! nearest key of the run that is ahead; no other run that it has not sought begins before that
//! key. So a run is sought when the scan comes to its first key, even if an earlier fill of the
//! scan wanted less. A seek in guards also has those runs wait that begin behind `from`: a
//! checkpoint cuts its run to many tables, and a scan of some keys comes to one of them.
//!
//! Thread safety: reads from the disk, so no pin is held. It keeps the funk alive.

use super::FillSpan;
use crate::error::Result;
use crate::funk::Funk;
use crate::read::tables::{
    ChainKeys, ChainSeek, Direction, TableHit, TableKeys, chain_index, is_ahead, read_until,
};
use crate::tables::TableHandle;
use evendb_storage::Version;
use evendb_storage::table::{PAGE_BYTES, ReadAhead, Table, TableMeta};
use smallvec::SmallVec;
use std::sync::Arc;

/// Log and chains of a funk, key by key, newest source first. It stays where a fill left it, so
/// that the next fill of the same funk goes on without a seek. It keeps the funk alive, but not its
/// view.
pub(crate) struct FunkScan {
    funk: Arc<Funk>,
    /// The runs that were sought, newest first, each with its place in the funk.
    runs: Vec<(usize, TableKeys)>,
    /// The run that the scan comes to next, by its place in the funk.
    ahead: Option<usize>,
    /// Runs whose records are all older are left out.
    least: Version,
    spread: Spread,
    /// Newest first.
    chains: SmallVec<[ChainKeys; 1]>,
    /// Approximate bytes of the blocks that it holds.
    block_bytes: usize,
    /// The number of runs in which the seek read a block, and of single records read in keyed runs.
    run_reads: usize,
}

/// Pages that are read at once when a scan moves on; the number doubles each time, up to the
/// maximum.
const READAHEAD_PAGES: usize = 8;
const READAHEAD_PAGES_MAX: usize = 32;

/// The number of pages that a seek reads in a table. `wanted_bytes` are the bytes of wanted records
/// that the table is expected to have. The pages suffice wherever the first record lies in its
/// page; backward they include the record behind the last one, which shows that the last one was
/// the newest version of its key. A page too many costs little; a page too few costs a second read
/// that waits for the first.
fn pages_wanted(direction: Direction, wanted_bytes: u64, record_bytes: u64) -> usize {
    if wanted_bytes < record_bytes {
        // The table probably has no wanted record: one page, with the record that the seek finds.
        return 1;
    }
    let page_bytes = PAGE_BYTES as u64;
    let passed_bytes = match direction {
        Direction::Forward => page_bytes.saturating_sub(record_bytes),
        Direction::Backward => page_bytes,
    };
    (passed_bytes + wanted_bytes).div_ceil(page_bytes) as usize
}

/// What a seek expects to read: the wanted records are spread over the tables as all records are.
struct Spread {
    direction: Direction,
    records_wanted: u64,
    /// Records of all tables, at least 1.
    records_all: u64,
    /// Average bytes of a record.
    record_bytes: u64,
    /// The largest number of pages that are read at once.
    pages_max: usize,
}

impl Spread {
    fn of(funk: &Funk, span: &FillSpan<'_>) -> Spread {
        let records_all = u64::max(funk.sums.records, 1);
        Spread {
            direction: span.direction,
            records_wanted: span.records_max as u64,
            records_all,
            record_bytes: funk.sums.data_bytes / records_all,
            pages_max: (span.block_bytes_max / PAGE_BYTES).clamp(1, READAHEAD_PAGES_MAX),
        }
    }

    /// The reads in tables that have `bytes` bytes together.
    fn reads(&self, bytes: u64) -> ReadAhead {
        let wanted_bytes = self.records_wanted * bytes / self.records_all;
        let seek = pages_wanted(self.direction, wanted_bytes, self.record_bytes);
        let seek = seek.min(self.pages_max);
        ReadAhead {
            seek,
            next: (seek / 2).clamp(1, self.pages_max),
            max: self.pages_max,
        }
    }
}

/// Whether all tables of a chain are older than `least`: then a scan leaves it out.
fn is_older(chain: &[Arc<TableHandle>], least: Version) -> bool {
    let mut tables = chain.iter();
    least > Version::ZERO && tables.all(|table| table.part.meta.max_version < least)
}

/// The table of a chain that a seek reads: the first one, if the seek begins within it.
fn first_of<'c>(
    chain: &'c [Arc<TableHandle>],
    span: &FillSpan<'_>,
) -> Option<&'c Arc<TableHandle>> {
    let first = chain_index(chain, span.from, span.direction)?;
    let table = chain.get(first)?;
    let ahead = is_ahead(&table.part.meta, span.from, span.to, span.direction);
    (!ahead).then_some(table)
}

/// Whether a scan that begins with the span has a run wait until it comes to its first key.
fn waits(funk: &Funk, span: &FillSpan<'_>, meta: &TableMeta) -> bool {
    let nearest = span.nearest_of(meta);
    match funk.is_guarded() {
        true => span
            .from
            .is_none_or(|from| span.before(from, nearest).is_lt()),
        false => !span.wants(nearest),
    }
}

/// Among the runs that are newer than `least` and that `is_left` takes, the one whose first key in
/// the direction of the span is the nearest.
fn nearest_run(
    funk: &Funk,
    span: &FillSpan<'_>,
    least: Version,
    is_left: impl Fn(&TableMeta) -> bool,
) -> Option<usize> {
    let meta = |run: &usize| &*funk.runs[*run].table.part.meta;
    let runs = (0..funk.runs.len()).filter(|run| meta(run).max_version >= least);
    let left = runs.filter(|run| is_left(meta(run)));
    left.min_by(|a, b| span.before(span.nearest_of(meta(a)), span.nearest_of(meta(b))))
}

/// Seeks the chains that are not older than `least`; `reads` has how to read each chain.
fn seek_chains(
    funk: &Arc<Funk>,
    span: &FillSpan<'_>,
    least: Version,
    reads: impl Iterator<Item = ReadAhead>,
    pages_max: usize,
) -> Result<SmallVec<[ChainKeys; 1]>> {
    let sought = reads.enumerate();
    let sought = sought.filter(|(chain, _)| !is_older(funk.chain(*chain), least));
    let seek = |(chain, reads): (usize, ReadAhead)| {
        let readahead = ReadAhead {
            next: reads.next.max(READAHEAD_PAGES).min(pages_max),
            ..reads
        };
        let seek = ChainSeek {
            from: span.from,
            until: span.to,
            direction: span.direction,
            at: span.at,
            readahead,
        };
        ChainKeys::seek(funk.clone(), chain, &seek)
    };
    sought.map(seek).collect()
}

impl FunkScan {
    /// A scan at the start of a span. The wanted records are assumed to be spread over the tables
    /// as all records are. If that is right, each table is read by one read, and no further than
    /// the span reaches. If there are several tables, all these reads are under way at once.
    pub(crate) fn seek(funk: &Arc<Funk>, span: &FillSpan<'_>) -> Result<FunkScan> {
        FunkScan::seek_from(funk, span, Version::ZERO)
    }

    /// Like [`seek`](Self::seek), without tables whose records are all older than `least`.
    pub(crate) fn seek_from(
        funk: &Arc<Funk>,
        span: &FillSpan<'_>,
        least: Version,
    ) -> Result<FunkScan> {
        let spread = Spread::of(funk, span);
        let runs = funk.runs.iter().enumerate().rev();
        let begun: SmallVec<[_; 8]> = runs
            .filter(|(_, run)| !span.has_passed(&run.table.part.meta))
            .filter(|(_, run)| !waits(funk, span, &run.table.part.meta))
            .filter(|(_, run)| run.table.part.meta.max_version >= least)
            .collect();
        let ahead = nearest_run(funk, span, least, |meta| {
            !span.has_passed(meta) && waits(funk, span, meta)
        });
        let tables = begun.iter().map(|(_, run)| &run.table);
        let tables = tables.map(|table| (table, spread.reads(table.part.meta.data_bytes)));
        let tables: SmallVec<[_; 8]> = tables.collect();
        let chains: SmallVec<[_; 1]> = funk
            .chains()
            .zip(&funk.sums.of_chains)
            .map(|(chain, &bytes)| (first_of(chain, span), spread.reads(bytes)))
            .collect();
        let below = chains.iter();
        let below: SmallVec<[_; 1]> = below
            .filter_map(|&(table, reads)| Some((table?, reads)))
            .collect();
        let asks = span.asks_ahead || !funk.is_guarded();
        if tables.len() + below.len() > 1 && least == Version::ZERO && asks {
            ask_for_blocks(&tables, &below, span)?;
        }
        let &FillSpan {
            direction,
            from,
            to,
            at,
            ..
        } = span;
        let seeks = chains.iter().map(|(_, reads)| reads.seek).sum::<usize>();
        let mut block_bytes = (seeks + spread.pages_max) * PAGE_BYTES;
        let mut runs = Vec::with_capacity(tables.len());
        for ((run, _), (table, reads)) in begun.iter().zip(&tables) {
            block_bytes += reads.seek * PAGE_BYTES;
            let keys = TableKeys::seek(table.open()?, from, to, direction, at, *reads);
            runs.push((*run, keys?));
        }
        let reads = chains.iter().map(|&(_, reads)| reads);
        let chains = seek_chains(funk, span, least, reads, spread.pages_max)?;
        Ok(FunkScan {
            funk: funk.clone(),
            run_reads: runs.iter().filter(|(_, run)| run.has_read()).count(),
            runs,
            ahead,
            least,
            spread,
            chains,
            block_bytes,
        })
    }

    /// Seeks the runs that begin with the first key of the run that is ahead.
    fn begin_ahead(&mut self, span: &FillSpan<'_>) -> Result<()> {
        let Some(ahead) = self.ahead else {
            return Ok(());
        };
        let funk = self.funk.clone();
        let first_key = span.nearest_of(&funk.runs[ahead].table.part.meta);
        for (run, log) in funk.runs.iter().enumerate() {
            let meta = &log.table.part.meta;
            if meta.max_version < self.least || *span.nearest_of(meta) != *first_key {
                continue;
            }
            let reads = self.spread.reads(meta.data_bytes);
            let FillSpan {
                direction, to, at, ..
            } = *span;
            let keys = TableKeys::seek(log.table.open()?, None, to, direction, at, reads)?;
            self.run_reads += usize::from(keys.has_read());
            self.block_bytes += reads.seek * PAGE_BYTES;
            let newer = self.runs.partition_point(|(own, _)| *own > run);
            self.runs.insert(newer, (run, keys));
        }
        self.ahead = nearest_run(&funk, span, self.least, |meta| {
            span.before(first_key, span.nearest_of(meta)).is_lt()
        });
        Ok(())
    }

    /// Copies the next key of all sources that were sought into `out`, and returns whether there is
    /// one.
    fn next_sought(&self, span: &FillSpan<'_>, out: &mut Vec<u8>) -> bool {
        let mut least = None;
        let of_runs = self.runs.iter().filter_map(|(_, run)| run.key());
        for key in of_runs.chain(self.chains.iter().filter_map(ChainKeys::key)) {
            if least.is_none_or(|least| span.before(key, least).is_lt()) {
                least = Some(key);
            }
        }
        out.clear();
        out.extend_from_slice(least.unwrap_or_default());
        least.is_some()
    }

    /// Whether the run that is ahead has a wanted key that is not behind `least`.
    fn comes_to_ahead(&self, span: &FillSpan<'_>, least: Option<&[u8]>) -> bool {
        self.ahead.is_some_and(|ahead| {
            let first_key = span.nearest_of(&self.funk.runs[ahead].table.part.meta);
            let is_near = least.is_none_or(|least| span.before(first_key, least).is_le());
            is_near && span.wants(first_key)
        })
    }

    /// The number of blocks of runs that were read. A block directly behind a read block does not
    /// count.
    pub(crate) fn run_reads(&self) -> usize {
        self.run_reads
    }

    /// Memory of the blocks it holds.
    pub(crate) fn bytes(&self) -> usize {
        let sources = self.runs.len() + self.chains.len();
        size_of::<FunkScan>() + sources * size_of::<TableKeys>() + self.block_bytes
    }

    /// Whether a fill that begins where the scan is can go on with it: it is a scan of this very
    /// funk.
    pub(crate) fn serves(&self, funk: &Arc<Funk>) -> bool {
        Arc::ptr_eq(&self.funk, funk)
    }

    /// Copies the next key of all sources into `out`, and returns whether there is one. Sources
    /// whose key was left move on first, which may read.
    pub(super) fn next_key(&mut self, span: &FillSpan<'_>, out: &mut Vec<u8>) -> Result<bool> {
        for (_, run) in &mut self.runs {
            run.settle()?;
        }
        for chain in &mut self.chains {
            chain.settle()?;
        }
        let mut is_one = self.next_sought(span, out);
        while self.comes_to_ahead(span, is_one.then_some(out)) {
            self.begin_ahead(span)?;
            is_one = self.next_sought(span, out);
        }
        Ok(is_one && span.wants(out))
    }

    /// The visible record of `key`; all sources then leave the key behind. If it is not `wanted`,
    /// nothing is read for it.
    pub(super) fn take(&mut self, key: &[u8], wanted: bool) -> Result<Option<TableHit>> {
        let mut newest = None;
        for (_, run) in &mut self.runs {
            if run.key().is_some_and(|own| *own == *key) {
                if wanted && newest.is_none() {
                    self.run_reads += usize::from(!run.has_read());
                    newest = run.take_hit()?;
                }
                run.leave();
            }
        }
        for chain in &mut self.chains {
            if chain.key().is_some_and(|own| *own == *key) {
                if wanted && newest.is_none() {
                    newest = chain.take_hit()?;
                }
                chain.leave()?;
            }
        }
        Ok(newest)
    }
}

/// Has the disk read what a seek in each of the tables will read, before the first read is waited
/// for. Of a keyed run it asks for the keys in the stretch that will be read from the last chain.
fn ask_for_blocks(
    runs: &[(&Arc<TableHandle>, ReadAhead)],
    below: &[(&Arc<TableHandle>, ReadAhead)],
    span: &FillSpan<'_>,
) -> Result<()> {
    for (table, _) in runs.iter().chain(below) {
        table.will_open();
    }
    let ask = |table: &Table, readahead: ReadAhead| {
        let blocks = read_until(table, span.from, span.to, span.direction, readahead).seek;
        match span.direction {
            Direction::Forward => table.will_need_from(span.from, blocks),
            Direction::Backward => table.will_need_before(span.from, blocks),
        }
    };
    let mut end = None;
    for &(table, readahead) in below {
        let (table, bytes) = (table.open()?, (readahead.seek * PAGE_BYTES) as u64);
        ask(&table, readahead);
        end = match span.direction {
            Direction::Forward => table.stretch_end(span.from, bytes),
            Direction::Backward => table.stretch_begin(span.from, bytes),
        };
    }
    for &(table, readahead) in runs {
        let table = table.open()?;
        match (&end, span.direction) {
            _ if !table.is_keyed() => ask(&table, readahead),
            (None, _) => {}
            (Some(end), Direction::Forward) => table.will_need_keys(span.from, Some(end)),
            (Some(end), Direction::Backward) => table.will_need_keys(Some(end), span.from),
        }
    }
    Ok(())
}

//! The munk: records of a chunk in RAM, up to a completed checkpoint, span by span.
//!
//! ```text
//!   Munk   separators of spans   low 0 (none) | low 1 | low 2 | ...
//!          spans                 Image        | -     | Image | ...
//!                                              absent: only the funk has it
//! ```
//!
//! A span is a contiguous part of the chunk's key range, of about [`span_bytes`] bytes of records.
//! The munk has either all records of a span, as an [`Image`], or none. A munk with all its spans
//! is whole: then the munk alone is the truth below the deltas, and jobs read it instead of the
//! funk.
//!
//! Immutable: puts go to deltas. [`Munk::absorb`], and the methods that add and take spans, make a
//! new munk, which shares all images except the changed ones. A get costs a search of the spans and
//! one of the image.
//!
//! Invariants:
//! * The spans lie side by side and cover the chunk's range: each key is in one.
//! * Absorbing takes newer records only into present spans. Newer records of absent spans are in
//!   the funk already.
//! * Spans are cut at twice their size. Small neighbours are joined when one of them is rebuilt.
//!
//! Thread safety: immutable, so `Send + Sync`.
//!
//! Not here: when to load, absorb or evict; deltas; the memory budget (it is told
//! [`Munk::bytes`]). Memory shared by two munks is counted in both.

mod cursor;
pub(crate) mod heat;
mod image;
mod presence;
mod separators;
mod spans;

#[cfg(test)]
mod tests;

pub(crate) use cursor::{MunkCursor, MunkEntries};
pub(crate) use image::{MunkHit, MunkInput, PageArc};
#[cfg(test)]
pub(crate) use spans::MunkBuilder;
pub(crate) use spans::{Loaded, SpanImages};

use crate::memory::{Charge, Ledger};
use crate::sync::Arc;
use evendb_storage::Version;
use evendb_storage::key_hash::RamHash;
use heat::{SpanHeat, Worth};
use image::{Image, PAGE_BYTES};
use presence::Presence;
use separators::Separators;
use std::fmt;

/// The approximate bytes of records of a span in a chunk of up to `chunk_bytes` bytes.
pub(crate) fn span_bytes(chunk_bytes: u64) -> usize {
    (chunk_bytes / 128).clamp(PAGE_BYTES as u64, 64 << 10) as usize
}

/// The munk's answer for a key.
pub(crate) enum Sought<'a> {
    /// Its newest record; a tombstone is a record of kind `Delete`.
    Found(MunkHit<'a>),
    /// The key has no record.
    Nothing,
    /// The key's span is absent.
    Absent,
}

#[cfg(test)]
impl<'a> Sought<'a> {
    /// The record; fails if the span is absent.
    pub(crate) fn found(self) -> Option<MunkHit<'a>> {
        match self {
            Sought::Found(hit) => Some(hit),
            Sought::Nothing => None,
            Sought::Absent => panic!("the span is absent"),
        }
    }
}

/// Neighbouring spans that are all present, or all absent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment<'m> {
    pub(crate) present: bool,
    /// Its least key, if it does not begin with the chunk.
    pub(crate) low: Option<&'m [u8]>,
    /// Its end, if it does not end with the chunk.
    pub(crate) high: Option<&'m [u8]>,
}

/// See the module. A clone shares all images.
#[derive(Clone)]
pub(crate) struct Munk {
    separators: Separators,
    /// At least one span.
    spans: Box<[Span]>,
    presence: Presence,
    sizes: Sizes,
    totals: Totals,
    /// Range deletions of the chunk up to this version hide nothing in the munk. Taking spans,
    /// cutting and absorbing keep it: deltas that become durable later have only newer records.
    mended_to: Version,
    /// The memory of this list; images are charged by themselves.
    charge: Charge,
}

/// A span: its heat, and its records if it is present. An absent span takes nothing beside its
/// place in the list, because nearly all spans are absent where data is much larger than memory.
enum Span {
    Absent(SpanHeat),
    Present(Arc<PresentSpan>),
}

struct PresentSpan {
    heat: SpanHeat,
    image: Image,
}

impl Span {
    fn new(heat: SpanHeat, image: Option<Image>) -> Span {
        match image {
            Some(image) => Span::Present(Arc::new(PresentSpan { heat, image })),
            None => Span::Absent(heat),
        }
    }

    #[inline]
    fn heat(&self) -> &SpanHeat {
        match self {
            Span::Absent(heat) => heat,
            Span::Present(span) => &span.heat,
        }
    }

    #[inline]
    fn image(&self) -> Option<&Image> {
        match self {
            Span::Absent(_) => None,
            Span::Present(span) => Some(&span.image),
        }
    }
}

impl Clone for Span {
    /// The clone shares the image. Reads of an absent span that are counted in the old list, while
    /// the new munk is made, may be lost.
    fn clone(&self) -> Span {
        match self {
            Span::Absent(heat) => Span::Absent(heat.share(1.0)),
            Span::Present(span) => Span::Present(span.clone()),
        }
    }
}

/// The sizes of pages and spans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sizes {
    pub(crate) page_bytes: usize,
    pub(crate) span_bytes: usize,
}

impl Sizes {
    /// For chunks of up to `chunk_bytes`.
    pub(crate) fn of_chunk(chunk_bytes: u64) -> Sizes {
        Sizes {
            page_bytes: PAGE_BYTES,
            span_bytes: span_bytes(chunk_bytes),
        }
    }
}

/// Sums over the present spans.
#[derive(Clone, Copy, Default)]
struct Totals {
    entries: usize,
    deletes: usize,
    /// Some record lists operands.
    others: bool,
    data_bytes: usize,
    memory_bytes: usize,
    absent: usize,
}

impl Munk {
    /// The newest record of `key` (whose hash is `hash`) with a version `<= at`.
    #[inline]
    pub(crate) fn get(&self, key: &[u8], hash: RamHash, at: Version) -> Sought<'_> {
        match self.spans[self.separators.find(key)].image() {
            Some(image) => image
                .get(key, hash, at)
                .map_or(Sought::Nothing, Sought::Found),
            None => Sought::Absent,
        }
    }

    /// Whether no span is absent.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        self.totals.absent == 0
    }

    /// Whether any span is present.
    pub(crate) fn holds_any(&self) -> bool {
        self.totals.absent < self.spans.len()
    }

    /// The version up to which range deletions hide nothing in the munk.
    pub(crate) fn mended_to(&self) -> Version {
        self.mended_to
    }

    /// The heat of the span of `key`.
    #[inline]
    pub(crate) fn heat_of(&self, key: &[u8]) -> &SpanHeat {
        self.spans[self.separators.find(key)].heat()
    }

    /// Counts a scan of the keys from `first` to `last`, which spares `reads` reads in each present
    /// span.
    pub(crate) fn count_scan(&self, first: &[u8], last: &[u8], reads: f32, tick: u16) {
        let (first, last) = (self.separators.find(first), self.separators.find(last));
        for span in &self.spans[first.min(last)..=last.max(first)] {
            span.heat().touch(reads, None, tick);
        }
    }

    /// Counts a scan of span `index`, which would spare `reads` reads if the span is present.
    /// Returns the span's heat.
    pub(crate) fn count_span(&self, index: usize, reads: f32, tick: u16) -> f32 {
        let heat = self.spans[index].heat();
        heat.touch(reads, None, tick);
        heat.worth(tick).heat
    }

    /// The indexes of the absent spans that `wants` accepts by their worth.
    pub(crate) fn wanted(&self, tick: u16, wants: impl Fn(Worth) -> bool) -> Vec<usize> {
        let spans = self.spans.iter().enumerate();
        let wanted = spans.filter(|(_, span)| match span {
            Span::Absent(heat) => wants(heat.worth(tick)),
            Span::Present(_) => false,
        });
        wanted.map(|(span, _)| span).collect()
    }

    /// The present spans: the beginning and the worth of each.
    pub(crate) fn present(&self, tick: u16) -> impl Iterator<Item = (&[u8], Worth)> {
        let spans = self.spans.iter().enumerate();
        let present = spans.filter(|(_, span)| span.image().is_some());
        present.map(move |(index, span)| (self.separators.get(index), span.heat().worth(tick)))
    }

    /// A present span, chosen by a random number: its index, its worth, and its bytes.
    pub(crate) fn any_span(&self, random: u64, tick: u16) -> Option<(usize, Worth, usize)> {
        let first = (random % self.spans.len() as u64) as usize;
        let mut indexes = (first..self.spans.len()).chain(0..first);
        let index = indexes.find(|&index| self.spans[index].image().is_some())?;
        let span = &self.spans[index];
        let bytes = span.image().map_or(0, Image::bytes);
        Some((index, span.heat().worth(tick), bytes))
    }

    /// The beginning of span `index`, and its end if it does not end with the chunk.
    pub(crate) fn limits(&self, index: usize) -> (&[u8], Option<&[u8]>) {
        (self.separators.get(index), self.separators.upper(index))
    }

    /// The span whose range holds `key`.
    #[cfg(all(test, evendb_shuttle))]
    pub(crate) fn span_of(&self, key: &[u8]) -> usize {
        self.separators.find(key)
    }

    /// Whether span `index` exists and is present.
    pub(crate) fn has_span(&self, index: usize) -> bool {
        let span = self.spans.get(index);
        span.is_some_and(|span| span.image().is_some())
    }

    /// The approximate bytes of records of a span.
    pub(crate) fn span_bytes(&self) -> usize {
        self.sizes.span_bytes
    }

    /// The number of spans, absent spans included.
    pub(crate) fn span_count(&self) -> usize {
        self.spans.len()
    }

    /// The share of the spans that is absent.
    pub(crate) fn absent_share(&self) -> f64 {
        self.totals.absent as f64 / self.spans.len() as f64
    }

    /// Memory held, directories and allocation headers included.
    pub(crate) fn bytes(&self) -> usize {
        self.totals.memory_bytes + self.charge.bytes()
    }

    /// Whether some record lists operands: the page alone does not have the value of such a key.
    #[inline]
    pub(crate) fn has_others(&self) -> bool {
        self.totals.others
    }

    /// Bytes of keys and values in present spans; a key counts once however many versions it has.
    pub(crate) fn data_bytes(&self) -> usize {
        self.totals.data_bytes
    }

    /// Records in present spans, all versions and tombstones counted.
    pub(crate) fn entries(&self) -> usize {
        self.totals.entries
    }

    /// Tombstones among the records.
    #[cfg(test)]
    pub(crate) fn deletes(&self) -> usize {
        self.totals.deletes
    }

    /// An unpositioned cursor over distinct keys. It ends where a span is absent.
    pub(crate) fn cursor(&self) -> MunkCursor<'_> {
        MunkCursor::new(self)
    }

    /// All records, all versions, of the present spans.
    pub(crate) fn all_entries(&self) -> MunkEntries<'_> {
        MunkEntries::new(self)
    }

    /// The first and the last key in present spans.
    pub(crate) fn ends(&self) -> Option<(&[u8], &[u8])> {
        let first = self.images().find_map(|image| {
            let mut cursor = image.cursor();
            cursor.seek_first();
            cursor.valid().then(|| cursor.key())
        });
        let last = self.images().rev().find_map(|image| {
            let mut cursor = image.cursor();
            cursor.seek_last();
            cursor.valid().then(|| cursor.key())
        });
        first.zip(last)
    }

    /// The segment in which a forward scan from `key` on begins; the first one for `None`.
    pub(crate) fn segment_from(&self, key: Option<&[u8]>) -> Segment<'_> {
        self.segment(self.span_from(key))
    }

    /// The segment in which a backward scan below `key` begins; the last one for `None`.
    pub(crate) fn segment_below(&self, key: Option<&[u8]>) -> Segment<'_> {
        self.segment(self.span_below(key))
    }

    /// The span in which a forward scan from `key` on begins; the first one for `None`.
    pub(crate) fn span_from(&self, key: Option<&[u8]>) -> usize {
        key.map_or(0, |key| self.separators.find(key))
    }

    /// The span in which a backward scan below `key` begins; the last one for `None`.
    pub(crate) fn span_below(&self, key: Option<&[u8]>) -> usize {
        let Some(key) = key else {
            return self.spans.len() - 1;
        };
        let span = self.separators.find(key);
        span - usize::from(span > 0 && *self.separators.get(span) == *key)
    }

    /// The absent segments, each with its share of all spans.
    pub(crate) fn absent_segments(&self) -> Vec<(Segment<'_>, f64)> {
        let mut segments: Vec<(Segment<'_>, f64)> = Vec::new();
        let share = 1.0 / self.spans.len() as f64;
        let mut after_absent = false;
        for (index, span) in self.spans.iter().enumerate() {
            let absent = span.image().is_none();
            if absent && after_absent {
                let (segment, sum) = segments.last_mut().expect("the one before is absent");
                segment.high = self.separators.upper(index);
                *sum += share;
            } else if absent {
                let segment = Segment {
                    present: false,
                    low: (index > 0).then(|| self.separators.get(index)),
                    high: self.separators.upper(index),
                };
                segments.push((segment, share));
            }
            after_absent = absent;
        }
        segments
    }

    fn segment(&self, span: usize) -> Segment<'_> {
        let before = self.presence.other_before(span);
        let after = self.presence.other_after(span);
        Segment {
            present: self.presence.get(span),
            low: before.map(|before| self.separators.get(before + 1)),
            high: after.map(|after| self.separators.get(after)),
        }
    }

    /// The images of the present spans, in order.
    fn images(&self) -> impl DoubleEndedIterator<Item = &Image> {
        self.spans.iter().filter_map(Span::image)
    }

    fn ledger(&self) -> Ledger {
        self.charge.ledger()
    }
}

impl fmt::Debug for Munk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Munk")
            .field("spans", &self.spans.len())
            .field("absent", &self.totals.absent)
            .field("entries", &self.entries())
            .field("bytes", &self.bytes())
            .finish()
    }
}

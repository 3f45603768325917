//! Making munks of spans: by building, absorbing, loading and evicting spans, cutting and joining.

use super::heat::SpanHeat;
use super::image::{Image, ImageBuilder, Mended};
use super::presence::Presence;
use super::separators::SeparatorsBuilder;
use super::{Munk, MunkInput, PresentSpan, Sizes, Span, Totals};
use crate::folding::Folding;
use crate::memory::{Charge, Ledger, Use, allocated_bytes};
use crate::version::horizon::Horizon;
use evendb_storage::{EntryRef, Version};
use std::ops::Range;

/// Collects spans in order.
struct SpansBuilder {
    separators: SeparatorsBuilder,
    spans: Vec<Span>,
    sizes: Sizes,
    ledger: Ledger,
}

impl SpansBuilder {
    fn new(spans: usize, sizes: Sizes, ledger: Ledger) -> SpansBuilder {
        SpansBuilder {
            separators: SeparatorsBuilder::with_capacity(spans),
            spans: Vec::with_capacity(spans),
            sizes,
            ledger,
        }
    }

    /// Appends a span that begins at `low`.
    fn push(&mut self, low: &[u8], heat: SpanHeat, image: Option<Image>) {
        self.separators.push(low);
        self.spans.push(Span::new(heat, image));
    }

    /// Appends a span whose image is new. A large image becomes several spans; if the span before
    /// is small, too, both become one.
    fn push_new(&mut self, low: &[u8], heat: SpanHeat, image: Image) {
        let span_bytes = self.sizes.span_bytes;
        if image.bytes() > 2 * span_bytes
            && let Some(middle) = image.middle_key()
            && *middle > *low
        {
            let (left, right) = image.split_at(&middle);
            let part = left.bytes() as f32 / (left.bytes() + right.bytes()) as f32;
            self.push_new(low, heat.share(part), left);
            return self.push_new(&middle, heat.share(1.0 - part), right);
        }
        if let Some(last) = self.spans.last_mut()
            && let Some(before) = last.image()
            && before.bytes() + image.bytes() < span_bytes
        {
            let both = Image::concat(before, &image);
            *last = Span::new(last.heat().joined(&heat), Some(both));
            return;
        }
        self.push(low, heat, Some(image));
    }

    /// Appends spans `range` of `other` without changes.
    fn share(&mut self, other: &Munk, range: Range<usize>) {
        for span in range {
            self.separators.push(other.separators.get(span));
            self.spans.push(other.spans[span].clone());
        }
    }

    fn finish(mut self) -> Munk {
        if self.spans.is_empty() {
            let nothing = ImageBuilder::new(self.sizes.page_bytes, self.ledger).finish();
            self.push(&[], SpanHeat::default(), Some(nothing));
        }
        let mut totals = Totals::default();
        for span in &self.spans {
            match span.image() {
                None => totals.absent += 1,
                Some(image) => {
                    totals.entries += image.entries();
                    totals.deletes += image.deletes();
                    totals.others |= image.has_others();
                    totals.data_bytes += image.data_bytes();
                    totals.memory_bytes += image.bytes();
                }
            }
        }
        let separators = self.separators.finish();
        let spans = self.spans.into_boxed_slice();
        let presence = Presence::new(spans.iter().map(|span| span.image().is_some()));
        let present = spans.len() - totals.absent;
        let own = allocated_bytes(size_of_val(&*spans))
            + allocated_bytes(presence.word_bytes())
            + present * allocated_bytes(size_of::<PresentSpan>() + 16)
            + separators.memory_bytes()
            + allocated_bytes(size_of::<Munk>() + 16);
        Munk {
            separators,
            spans,
            presence,
            sizes: self.sizes,
            totals,
            mended_to: Version::ZERO,
            charge: Charge::new(self.ledger, Use::Munks, own),
        }
    }
}

#[cfg(test)]
/// Makes a whole munk of records in order (key ascending, version descending).
pub(crate) struct MunkBuilder {
    images: ImageBuilder,
    /// Lower bound of the image that is being built.
    low: Vec<u8>,
    spans: SpansBuilder,
}

#[cfg(test)]
impl MunkBuilder {
    pub(crate) fn new(sizes: Sizes, ledger: Ledger) -> MunkBuilder {
        MunkBuilder {
            images: ImageBuilder::new(sizes.page_bytes, ledger),
            low: Vec::new(),
            spans: SpansBuilder::new(1, sizes, ledger),
        }
    }

    /// Appends a record; it must follow the last one in order.
    pub(crate) fn add(&mut self, entry: EntryRef<'_>) {
        self.images.add(entry);
        if let Some((image, low)) = self.images.take_complete(self.spans.sizes.span_bytes) {
            self.spans.push(&self.low, SpanHeat::default(), Some(image));
            self.low.clear();
            self.low.extend_from_slice(low);
        }
    }

    /// A whole munk.
    pub(crate) fn finish(mut self) -> Munk {
        let last = self.images.finish();
        if last.entries() > 0 || self.spans.spans.is_empty() {
            self.spans.push(&self.low, SpanHeat::default(), Some(last));
        }
        self.spans.finish()
    }
}

/// Makes the images of neighbouring spans from records in order, which lie within the spans.
pub(crate) struct SpanImages<'m> {
    munk: &'m Munk,
    spans: Range<usize>,
    done: Vec<Image>,
    image: ImageBuilder,
    high: Option<&'m [u8]>,
}

impl<'m> SpanImages<'m> {
    /// For `spans` of `munk`, which are at least one.
    pub(crate) fn new(munk: &'m Munk, spans: Range<usize>) -> SpanImages<'m> {
        SpanImages {
            munk,
            done: Vec::with_capacity(spans.len()),
            image: ImageBuilder::new(munk.sizes.page_bytes, munk.ledger()),
            high: munk.separators.upper(spans.start),
            spans,
        }
    }

    /// Appends a record; it must follow the last one in order.
    pub(crate) fn add(&mut self, entry: EntryRef<'_>) {
        while self.high.is_some_and(|high| *entry.key >= *high) {
            self.next_span();
        }
        self.image.add(entry);
    }

    fn next_span(&mut self) {
        let next = ImageBuilder::new(self.munk.sizes.page_bytes, self.munk.ledger());
        let image = std::mem::replace(&mut self.image, next);
        self.done.push(image.finish());
        self.high = self
            .munk
            .separators
            .upper(self.spans.start + self.done.len());
    }

    /// The images, one for each span.
    pub(crate) fn finish(mut self) -> Loaded {
        while self.done.len() < self.spans.len() {
            self.next_span();
        }
        Loaded {
            first: self.spans.start,
            images: self.done,
        }
    }
}

/// Images of neighbouring spans.
pub(crate) struct Loaded {
    first: usize,
    images: Vec<Image>,
}

impl Loaded {
    /// The number of records, and of tombstones among them.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let entries = self.images.iter().map(Image::entries).sum();
        (entries, self.images.iter().map(Image::deletes).sum())
    }
}

impl Munk {
    /// This munk overlaid by `newer`, whose records are newer than the munk's records of their keys
    /// (of two equal versions the one in `newer` wins). Newer records of absent spans are passed
    /// over.
    ///
    /// A version is dropped if `horizon` allows that beneath the next newer version that is kept.
    /// With `drop_tombstones` a tombstone is dropped, too, if no older record of its key is kept
    /// and every reader reads at or above it: the image is the whole truth of its span below the
    /// deltas.
    pub(crate) fn absorb(
        &self,
        newer: &mut dyn MunkInput,
        horizon: &Horizon,
        drop_tombstones: bool,
        folding: Folding<'_>,
    ) -> Munk {
        let mut out = SpansBuilder::new(self.spans.len() + 1, self.sizes, self.ledger());
        let mut next = 0;
        while let Some(entry) = newer.current() {
            let span = self.separators.find(entry.key);
            debug_assert!(span >= next, "records out of order");
            out.share(self, next..span);
            next = span + 1;
            let low = self.separators.get(span);
            let mut within = Below {
                newer,
                high: self.separators.upper(span),
            };
            let own = &self.spans[span];
            match own.image() {
                Some(image) => {
                    let image = image.absorb(&mut within, horizon, drop_tombstones, folding);
                    out.push_new(low, own.heat().share(1.0), image);
                }
                None => {
                    while within.current().is_some() {
                        within.advance();
                    }
                    out.share(self, span..span + 1);
                }
            }
        }
        out.share(self, next..self.spans.len());
        Munk {
            mended_to: self.mended_to,
            ..out.finish()
        }
    }

    /// A munk of a chunk that is cut into spans at `lows`, with all spans absent.
    pub(crate) fn absent(lows: &[Vec<u8>], sizes: Sizes, ledger: Ledger) -> Munk {
        let mut out = SpansBuilder::new(lows.len() + 1, sizes, ledger);
        out.push(&[], SpanHeat::default(), None);
        for low in lows {
            out.push(low, SpanHeat::default(), None);
        }
        out.finish()
    }

    /// This munk with the images of spans that were absent.
    pub(crate) fn with(&self, loaded: Vec<Loaded>) -> Munk {
        let mut out = SpansBuilder::new(self.spans.len() + 1, self.sizes, self.ledger());
        let mut next = 0;
        for Loaded { first, images } in loaded {
            out.share(self, next..first);
            next = first + images.len();
            for (span, image) in (first..).zip(images) {
                let own = &self.spans[span];
                debug_assert!(own.image().is_none(), "loaded twice");
                out.push_new(self.separators.get(span), own.heat().share(1.0), image);
            }
        }
        out.share(self, next..self.spans.len());
        out.finish()
    }

    /// This munk without the spans that `which` selects.
    pub(crate) fn without(&self, which: impl Fn(usize) -> bool) -> Munk {
        let mut out = SpansBuilder::new(self.spans.len(), self.sizes, self.ledger());
        for (span, own) in self.spans.iter().enumerate() {
            match own.image().is_some() && which(span) {
                true => out.push(self.separators.get(span), own.heat().share(1.0), None),
                false => out.share(self, span..span + 1),
            }
        }
        Munk {
            mended_to: self.mended_to,
            ..out.finish()
        }
    }

    /// This munk without the records that range deletions up to version `to` hide: in the touched
    /// spans, records whose version is smaller than `hidden_below` gives for their key. Every
    /// reader of `horizon` reads at `to` or above.
    pub(crate) fn mended(
        &self,
        to: Version,
        mut is_touched: impl FnMut(usize) -> bool,
        hidden_below: &mut dyn FnMut(&[u8]) -> Version,
        horizon: &Horizon,
        folding: Folding<'_>,
    ) -> Munk {
        let mut out = SpansBuilder::new(self.spans.len(), self.sizes, self.ledger());
        for (span, own) in self.spans.iter().enumerate() {
            let low = self.separators.get(span);
            let mended = match own.image() {
                Some(image) if is_touched(span) => image.mended(hidden_below, horizon, folding),
                _ => Mended::Same,
            };
            match mended {
                Mended::Same => out.share(self, span..span + 1),
                Mended::Without(image) => out.push_new(low, own.heat().share(1.0), image),
                Mended::Mixed => out.push(low, own.heat().share(1.0), None),
            }
        }
        Munk {
            mended_to: to,
            ..out.finish()
        }
    }

    /// Two munks: of the keys below `key`, and of the keys from `key` on.
    pub(crate) fn split_at(&self, key: &[u8]) -> (Munk, Munk) {
        let cut = self.separators.find(key);
        let mut left = SpansBuilder::new(cut + 1, self.sizes, self.ledger());
        let mut right = SpansBuilder::new(self.spans.len() - cut, self.sizes, self.ledger());
        left.share(self, 0..cut);
        let low = self.separators.get(cut);
        let own = &self.spans[cut];
        match own.image() {
            // A span that begins at the key goes to the right as a whole.
            _ if cut > 0 && *low == *key => right.share(self, cut..cut + 1),
            None => {
                left.push(low, own.heat().share(0.5), None);
                right.push(key, own.heat().share(0.5), None);
            }
            Some(image) => {
                let (below, above) = image.split_at(key);
                let part = below.bytes() as f32 / (below.bytes() + above.bytes()) as f32;
                left.push_new(low, own.heat().share(part), below);
                right.push(key, own.heat().share(1.0 - part), Some(above));
            }
        }
        right.share(self, cut + 1..self.spans.len());
        let part = |out: SpansBuilder| Munk {
            mended_to: self.mended_to,
            ..out.finish()
        };
        (part(left), part(right))
    }

    /// One munk made of the munks of two neighbouring chunks; the upper chunk begins at `border`.
    pub(crate) fn concat(lower: &Munk, border: &[u8], upper: &Munk) -> Munk {
        let spans = lower.spans.len() + upper.spans.len();
        let mut out = SpansBuilder::new(spans, lower.sizes, lower.ledger());
        out.share(lower, 0..lower.spans.len());
        out.separators.push(border);
        out.spans.push(upper.spans[0].clone());
        out.share(upper, 1..upper.spans.len());
        Munk {
            mended_to: lower.mended_to.min(upper.mended_to),
            ..out.finish()
        }
    }

    /// A key near the middle of the data: some keys are below it, some at or above. `None` if
    /// there are fewer than two keys, or spans are absent. It need not be a key of the munk.
    pub(crate) fn middle_key(&self) -> Option<Vec<u8>> {
        if !self.is_whole() {
            return None;
        }
        let bytes = Image::page_bytes_sum;
        let half = self.images().map(bytes).sum::<usize>() / 2;
        let mut before = 0;
        for (span, image) in self.images().enumerate() {
            let after = before + bytes(image);
            if after <= half {
                before = after;
                continue;
            }
            // The image may have only one key. Then the cut is at one of its ends.
            let within = image.key_near(half - before);
            let below = || (before > 0).then(|| self.separators.get(span).to_vec());
            let above = || {
                let more = self.images().skip(span + 1).map(bytes).sum::<usize>();
                (more > 0).then(|| self.separators.get(span + 1).to_vec())
            };
            return within.or_else(below).or_else(above);
        }
        None
    }
}

/// The newer records below a key.
struct Below<'n> {
    newer: &'n mut dyn MunkInput,
    high: Option<&'n [u8]>,
}

impl MunkInput for Below<'_> {
    fn current(&self) -> Option<EntryRef<'_>> {
        let entry = self.newer.current()?;
        self.high
            .is_none_or(|high| *entry.key < *high)
            .then_some(entry)
    }

    fn advance(&mut self) {
        self.newer.advance();
    }
}

//! Making munks of spans: by building, absorbing, loading and evicting spans, cutting and joining.

use super::image::{Image, ImageBuilder};
use super::separators::SeparatorsBuilder;
use super::{Munk, MunkInput, Sizes, Totals};
use crate::memory::{Charge, Ledger, Use, allocated_bytes};
use crate::sync::Arc;
use crate::version::horizon::Horizon;
use evendb_storage::EntryRef;
use std::ops::Range;

/// Collects spans in order.
struct SpansBuilder {
    separators: SeparatorsBuilder,
    spans: Vec<Option<Arc<Image>>>,
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

    /// Appends a span from `low` on.
    fn push(&mut self, low: &[u8], span: Option<Arc<Image>>) {
        self.separators.push(low);
        self.spans.push(span);
    }

    /// Appends a span whose image is new: in parts if it is large, with the span before if both are small.
    fn push_new(&mut self, low: &[u8], image: Image) {
        let span_bytes = self.sizes.span_bytes;
        if image.bytes() > 2 * span_bytes
            && let Some(middle) = image.middle_key()
            && *middle > *low
        {
            let (left, right) = image.split_at(&middle);
            self.push_new(low, left);
            return self.push_new(&middle, right);
        }
        if let Some(Some(before)) = self.spans.last()
            && before.bytes() + image.bytes() < span_bytes
        {
            let joined = Image::concat(before, &image);
            *self.spans.last_mut().expect("one is there") = Some(Arc::new(joined));
            return;
        }
        self.push(low, Some(Arc::new(image)));
    }

    /// Appends spans `range` of `other` as they are.
    fn share(&mut self, other: &Munk, range: Range<usize>) {
        for span in range {
            self.push(other.separators.get(span), other.spans[span].clone());
        }
    }

    fn finish(mut self) -> Munk {
        if self.spans.is_empty() {
            let nothing = ImageBuilder::new(self.sizes.page_bytes, self.ledger).finish();
            self.push(&[], Some(Arc::new(nothing)));
        }
        let mut totals = Totals::default();
        for span in &self.spans {
            match span {
                None => totals.absent += 1,
                Some(image) => {
                    totals.entries += image.entries();
                    totals.deletes += image.deletes();
                    totals.data_bytes += image.data_bytes();
                    totals.memory_bytes += image.bytes();
                }
            }
        }
        let separators = self.separators.finish();
        let spans = self.spans.into_boxed_slice();
        let own = allocated_bytes(size_of_val(&*spans))
            + separators.memory_bytes()
            + allocated_bytes(size_of::<Munk>() + 16);
        Munk {
            separators,
            spans,
            sizes: self.sizes,
            totals,
            charge: Charge::new(self.ledger, Use::Munks, own),
        }
    }
}

/// Makes a munk, or some of one's spans, of records in order (key ascending, version descending).
pub(crate) struct MunkBuilder {
    images: ImageBuilder,
    /// Lower bound of the image that is being built.
    low: Vec<u8>,
    spans: SpansBuilder,
}

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
            self.spans.push(&self.low, Some(Arc::new(image)));
            self.low.clear();
            self.low.extend_from_slice(low);
        }
    }

    /// A whole munk.
    pub(crate) fn finish(mut self) -> Munk {
        let last = self.images.finish();
        if last.entries() > 0 || self.spans.spans.is_empty() {
            self.spans.push(&self.low, Some(Arc::new(last)));
        }
        self.spans.finish()
    }
}

impl Munk {
    /// This munk overlaid by `newer`, whose records are newer than what the munk has of their
    /// keys (of equal versions `newer` wins). Of spans that are absent, newer records are passed over.
    ///
    /// A version goes when `horizon` lets it go beneath the next newer one kept. With
    /// `drop_tombstones` a tombstone goes too if nothing older of its key is kept and every
    /// reader reads at or above it: the image is the whole truth of its span below the deltas.
    pub(crate) fn absorb(
        &self,
        newer: &mut dyn MunkInput,
        horizon: &Horizon,
        drop_tombstones: bool,
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
            match &self.spans[span] {
                Some(image) => {
                    out.push_new(low, image.absorb(&mut within, horizon, drop_tombstones));
                }
                None => {
                    while within.current().is_some() {
                        within.advance();
                    }
                    out.push(low, None);
                }
            }
        }
        out.share(self, next..self.spans.len());
        out.finish()
    }

    /// A munk of a chunk that is cut at `lows`, of which no span is there.
    #[cfg(test)]
    pub(crate) fn absent(lows: &[&[u8]], sizes: Sizes, ledger: Ledger) -> Munk {
        let mut out = SpansBuilder::new(lows.len() + 1, sizes, ledger);
        out.push(&[], None);
        for low in lows {
            out.push(low, None);
        }
        out.finish()
    }

    /// This munk with `loaded`, a munk of what the funk has of `spans`, in their place.
    #[cfg(test)]
    pub(crate) fn with(&self, spans: Range<usize>, loaded: &Munk) -> Munk {
        let mut out = SpansBuilder::new(
            self.spans.len() + loaded.spans.len(),
            self.sizes,
            self.ledger(),
        );
        out.share(self, 0..spans.start);
        for (index, image) in loaded.spans.iter().enumerate() {
            let low = match index {
                0 => self.separators.get(spans.start),
                _ => loaded.separators.get(index),
            };
            out.push(low, image.clone());
        }
        out.share(self, spans.end..self.spans.len());
        out.finish()
    }

    /// This munk without the spans of which `which` says so.
    #[cfg(test)]
    pub(crate) fn without(&self, which: impl Fn(usize) -> bool) -> Munk {
        let mut out = SpansBuilder::new(self.spans.len(), self.sizes, self.ledger());
        for (span, image) in self.spans.iter().enumerate() {
            let image = image.clone().filter(|_| !which(span));
            out.push(self.separators.get(span), image);
        }
        out.finish()
    }

    /// The parts below and from `key` on.
    pub(crate) fn split_at(&self, key: &[u8]) -> (Munk, Munk) {
        let cut = self.separators.find(key);
        let mut left = SpansBuilder::new(cut + 1, self.sizes, self.ledger());
        let mut right = SpansBuilder::new(self.spans.len() - cut, self.sizes, self.ledger());
        left.share(self, 0..cut);
        let low = self.separators.get(cut);
        match &self.spans[cut] {
            // A span that begins at the key goes to the right as a whole.
            span if cut > 0 && *low == *key => right.push(key, span.clone()),
            None => {
                left.push(low, None);
                right.push(key, None);
            }
            Some(image) => {
                let (below, above) = image.split_at(key);
                left.push_new(low, below);
                right.push(key, Some(Arc::new(above)));
            }
        }
        right.share(self, cut + 1..self.spans.len());
        (left.finish(), right.finish())
    }

    /// One munk of two of neighbouring chunks, of which the upper one begins at `border`.
    pub(crate) fn concat(lower: &Munk, border: &[u8], upper: &Munk) -> Munk {
        let spans = lower.spans.len() + upper.spans.len();
        let mut out = SpansBuilder::new(spans, lower.sizes, lower.ledger());
        out.share(lower, 0..lower.spans.len());
        out.push(border, upper.spans[0].clone());
        out.share(upper, 1..upper.spans.len());
        out.finish()
    }

    /// A key near the middle of the data: some keys are below it, some at or above. `None` if
    /// there are fewer than two keys, or spans are absent. It need not be a key of the munk.
    pub(crate) fn middle_key(&self) -> Option<Vec<u8>> {
        if !self.is_whole() {
            return None;
        }
        let bytes = |image: &Arc<Image>| image.page_bytes_sum();
        let half = self.spans.iter().flatten().map(bytes).sum::<usize>() / 2;
        let mut before = 0;
        for (span, image) in self.spans.iter().enumerate() {
            let image = image.as_ref()?;
            let after = before + bytes(image);
            if after <= half {
                before = after;
                continue;
            }
            // It may have one key only. Then the cut is at one of its ends.
            let within = image.key_near(half - before);
            let below = || (before > 0).then(|| self.separators.get(span).to_vec());
            let above = || {
                let more = self.spans[span + 1..].iter().flatten();
                let more = more.map(bytes).sum::<usize>() > 0;
                more.then(|| self.separators.get(span + 1).to_vec())
            };
            return within.or_else(below).or_else(above);
        }
        None
    }
}

/// Newer records as far as they lie below a key.
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

//! The conditions on a view and on an index. Debug builds assert them twice: where one is
//! published, and where jobs and the close of the database read it back.
//!
//! A view is looked at alone ([`View::fault`]), and beside the view that it replaces
//! ([`successor_fault`]): nothing that a reader may need leaves before something else holds it
//! (I2).
//!
//! Cost: linear in the deltas, tables and runs of one chunk; for an index, linear in the chunks.
//! Not here: whether the records are the right ones, which tests compare with a model.

use super::index::Index;
use super::{Chunk, ChunkWriter, Frozen, KeyRange, View};
use crate::funk::Funk;
use crate::munk::Munk;
use crate::sync::Arc;

impl Chunk {
    /// Panics in debug builds if the view contradicts the invariants. `place` says where it was
    /// read.
    pub(crate) fn assert_view(&self, view: &View, place: &str) {
        if cfg!(debug_assertions)
            && let Some(fault) = view.fault(&self.range)
        {
            panic!("chunk {}, {place}: {fault}", self.id.0);
        }
    }

    /// Panics in debug builds if `new` must not replace the view. The caller holds the latch.
    pub(super) fn assert_publishable(&self, new: &View) {
        if cfg!(debug_assertions) {
            self.assert_view(new, "published");
            if let Some(fault) = successor_fault(&self.view.load_full(), new) {
                panic!("chunk {}, published: {fault}", self.id.0);
            }
        }
    }

    /// Panics in debug builds if the latch's holder would write into another delta than the view's.
    /// It also panics if durable deltas are kept although the active delta will not be kept once it
    /// is durable.
    pub(crate) fn assert_writer(&self, writer: &ChunkWriter) {
        if !cfg!(debug_assertions) || writer.retired {
            return;
        }
        let (id, view) = (self.id.0, self.view.load_full());
        assert!(
            Arc::ptr_eq(&writer.active, &view.active),
            "chunk {id}: puts go to a delta that no reader sees"
        );
        let is_kept = view.frozen.iter().any(|frozen| frozen.durable);
        assert!(
            !is_kept || view.munk_holds_any() || writer.loading,
            "chunk {id}: a durable delta is kept for no span"
        );
    }
}

impl KeyRange {
    /// The contradiction between the invariants and the funk of a chunk with these keys, if there
    /// is one. At opening, a contradiction is damage; elsewhere it is a bug.
    pub(crate) fn fault_of(&self, funk: &Funk) -> Option<String> {
        let outside = funk.tables().find(|table| !self.overlaps(&table.part.meta));
        match outside {
            Some(table) => Some(format!("{:?} has no key of the chunk", table.part.table)),
            None => funk.fault(),
        }
    }
}

impl View {
    /// The contradiction between the invariants and one view, if there is one.
    fn fault(&self, range: &KeyRange) -> Option<String> {
        let checkpoints = self.deltas().map(|layer| layer.delta.checkpoint());
        if !checkpoints.is_sorted_by(|newer, older| newer >= older) {
            return Some("the deltas are not newest first".into());
        }
        let mut limits = self.deltas().filter_map(|layer| layer.limits);
        if let Some(limits) = limits.find(|limits| !is_within(limits, range)) {
            return Some(format!("a delta reaches beyond the chunk: {limits:?}"));
        }
        if let Some(fault) = range.fault_of(&self.funk) {
            return Some(fault);
        }
        let munk = self.munk.as_deref()?;
        (!munk_is_within(munk, range)).then(|| "the munk reaches beyond the chunk".into())
    }
}

/// The records that would be lost, or be there twice, if `new` replaced `old`.
fn successor_fault(old: &View, new: &View) -> Option<String> {
    if new.funk.run_end < old.funk.run_end {
        return Some("the number of a run would be given out again".into());
    }
    let same_funk = Arc::ptr_eq(&old.funk, &new.funk);
    // A munk without spans needs no delta.
    let same_munk = match (&old.munk, &new.munk) {
        (Some(old), Some(new)) => Arc::ptr_eq(old, new) && new.holds_any(),
        _ => false,
    };
    for delta in &old.frozen {
        let kept = new.frozen.iter().find(|kept| is_same(kept, delta));
        let fault = match (kept, delta.durable) {
            (Some(kept), true) if !kept.durable => "a durable delta became undurable",
            (Some(kept), false) if kept.durable && same_funk => "durable without a run",
            (None, true) if same_munk => "a durable delta left, and the munk has not taken it",
            (None, false) if same_funk => "an undurable delta left, and the funk has not taken it",
            (None, false) if new.munk_holds_any() => "a delta left that the munk had to take first",
            _ => continue,
        };
        return Some(fault.into());
    }
    let begun = |frozen: &&Frozen| !old.frozen.iter().any(|known| is_same(known, frozen));
    if new
        .frozen
        .iter()
        .filter(begun)
        .any(|frozen| !Arc::ptr_eq(&frozen.delta, &old.active))
    {
        return Some("a frozen delta came from elsewhere".into());
    }
    let frozen = |frozen: &Frozen| Arc::ptr_eq(&frozen.delta, &old.active);
    let active_stays = Arc::ptr_eq(&old.active, &new.active);
    (!active_stays && !old.active.is_empty() && !new.frozen.iter().any(frozen))
        .then(|| "the active delta left".into())
}

fn is_same(a: &Frozen, b: &Frozen) -> bool {
    Arc::ptr_eq(&a.delta, &b.delta)
}

fn is_within(inner: &KeyRange, outer: &KeyRange) -> bool {
    let ends_before = match (&inner.high, &outer.high) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(inner), Some(outer)) => inner <= outer,
    };
    inner.low >= outer.low && ends_before
}

fn munk_is_within(munk: &Munk, range: &KeyRange) -> bool {
    munk.ends()
        .is_none_or(|(first, last)| range.contains(first) && range.contains(last))
}

/// Panics in debug builds unless the chunks cover all keys, each once (I3). `place` says where the
/// index was read.
pub(crate) fn assert_covers(index: &Index<Chunk>, place: &str) {
    if !cfg!(debug_assertions) {
        return;
    }
    let mut next: Option<&[u8]> = Some(&[]);
    for (low, chunk) in index.iter() {
        let begins = next == Some(low) && *low == *chunk.range.low;
        assert!(
            begins,
            "index, {place}: chunk {} begins at {low:?} and should at {next:?}",
            chunk.id.0
        );
        next = chunk.range.high.as_deref();
    }
    assert!(
        next.is_none(),
        "index, {place}: no chunk has the keys from {next:?} on"
    );
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use crate::admission::Admission;
    use crate::chunk::ChargedDelta;
    use crate::chunk::row_tag::RowTag;
    use crate::funk::Funk;
    use crate::manifest::{ChunkId, KeyspaceId};
    use crate::memory::Ledger;
    use crate::munk::{MunkBuilder, Sizes};
    use crate::record::RecordRef;
    use evendb_storage::key_hash::RamHash;
    use evendb_storage::{EntryRef, Kind, Version};

    fn range(low: &str, high: Option<&str>) -> KeyRange {
        KeyRange {
            low: low.as_bytes().into(),
            high: high.map(|high| high.as_bytes().into()),
        }
    }

    fn admission() -> Arc<Admission> {
        Arc::new(Admission::new(0, 1 << 20))
    }

    fn delta(checkpoint: u64) -> Arc<ChargedDelta> {
        let admission = admission();
        let delta = ChargedDelta::new(checkpoint, &admission);
        let mut record = RecordRef::new(b"key", b"value", Kind::Put, RamHash::of(b"key"));
        record.set_version(Version(1));
        delta.insert(record);
        admission.adopt(0, delta.charged());
        delta
    }

    fn frozen(checkpoint: u64, durable: bool) -> Frozen {
        Frozen {
            delta: delta(checkpoint),
            limits: None,
            durable,
        }
    }

    fn munk(key: &[u8]) -> Arc<Munk> {
        let mut builder = MunkBuilder::new(Sizes::of_chunk(1 << 20), Ledger::SHARED);
        builder.add(EntryRef {
            key,
            version: Version(1),
            kind: Kind::Put,
            value: b"value",
        });
        Arc::new(builder.finish())
    }

    fn funk(run_end: u32) -> Arc<Funk> {
        Arc::new(Funk::new(Vec::new(), Vec::new(), run_end))
    }

    /// A change of a view, and the fault that it must cause.
    type Fault = (fn(&mut View), &'static str);

    /// Two frozen deltas, the older one durable, and a munk.
    fn sound() -> View {
        View {
            active: delta(3),
            frozen: vec![frozen(2, false), frozen(1, true)],
            munk: Some(munk(b"key")),
            funk: funk(4),
            covers: None,
            row_tag: RowTag::NONE,
        }
    }

    #[test]
    fn a_view_that_contradicts_itself_is_found() {
        let all = range("", None);
        assert_eq!(sound().fault(&all), None);
        let mut view = sound();
        view.frozen.reverse();
        assert!(view.fault(&all).unwrap().contains("newest first"));
        let mut view = sound();
        view.active = delta(1);
        assert!(view.fault(&all).unwrap().contains("newest first"));
        let mut view = sound();
        view.frozen[0].limits = Some(Arc::new(range("a", None)));
        assert_eq!(view.fault(&all), None);
        let own = range("a", Some("z"));
        assert!(view.fault(&own).unwrap().contains("a delta reaches"));
        assert!(
            sound()
                .fault(&range("", Some("a")))
                .unwrap()
                .contains("the munk")
        );
        assert!(
            sound()
                .fault(&range("l", None))
                .unwrap()
                .contains("the munk")
        );
    }

    #[test]
    fn what_a_reader_may_need_does_not_leave_before_something_else_holds_it() {
        let check = |change: fn(&mut View)| {
            let old = sound();
            let mut new = old.clone();
            change(&mut new);
            successor_fault(&old, &new)
        };
        let flushed = |view: &mut View| {
            view.funk = funk(5);
            view.frozen[0].durable = true;
        };
        let absorbed = |view: &mut View| {
            view.munk = Some(munk(b"key"));
            view.frozen.pop();
        };
        let evicted = |view: &mut View| {
            view.munk = None;
            view.frozen.pop();
        };
        let frozen = |view: &mut View| {
            let durable = false;
            let old = std::mem::replace(&mut view.active, delta(4));
            let limits = None;
            view.frozen.insert(
                0,
                Frozen {
                    delta: old,
                    limits,
                    durable,
                },
            );
        };
        for sound in [flushed, absorbed, evicted, frozen] {
            assert_eq!(check(sound), None);
        }
        let faults: [Fault; 9] = [
            (|view| view.funk = funk(3), "given out again"),
            (|view| view.frozen[1].durable = false, "became undurable"),
            (|view| view.frozen[0].durable = true, "without a run"),
            (|view| drop(view.frozen.pop()), "the munk has not taken it"),
            (
                |view| drop(view.frozen.remove(0)),
                "the funk has not taken it",
            ),
            (
                |view| {
                    view.funk = funk(5);
                    view.frozen.remove(0);
                },
                "the munk had to take first",
            ),
            (
                |view| view.frozen.push(self::frozen(0, true)),
                "from elsewhere",
            ),
            (|view| view.active = delta(4), "the active delta left"),
            (
                |view| {
                    view.munk = None;
                    view.frozen.clear();
                },
                "the funk has not taken it",
            ),
        ];
        for (fault, expected) in faults {
            let found = check(fault).expect(expected);
            assert!(found.contains(expected), "{found}: {expected}");
        }
    }

    fn chunk(id: u64, range: KeyRange) -> (Box<[u8]>, Arc<Chunk>) {
        let view = View {
            active: ChargedDelta::new(1, &admission()),
            frozen: Vec::new(),
            munk: None,
            funk: funk(0),
            covers: None,
            row_tag: RowTag::NONE,
        };
        let low = range.low.clone();
        let chunk = Chunk::new(
            ChunkId(id),
            KeyspaceId(0),
            range,
            view,
            Version::ZERO,
            Ledger::SHARED,
        );
        (low, Arc::new(chunk))
    }

    #[test]
    #[cfg(debug_assertions)]
    fn an_index_covers_every_key_once() {
        let index = |ends: [Option<&str>; 2]| {
            let [first, second] = ends;
            let chunks = vec![chunk(1, range("", first)), chunk(2, range("m", second))];
            Index::new(chunks)
        };
        assert_covers(&index([Some("m"), None]), "here");
        for ends in [
            [Some("l"), None],
            [Some("n"), None],
            [None, None],
            [Some("m"), Some("z")],
        ] {
            let index = index(ends);
            let panics = std::panic::AssertUnwindSafe(|| assert_covers(&index, "here"));
            assert!(std::panic::catch_unwind(panics).is_err(), "{ends:?}");
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "the active delta left")]
    fn publishing_asserts_it() {
        let (_, chunk) = chunk(1, range("", None));
        chunk.publish(View {
            funk: funk(9),
            ..sound_without_deltas()
        });
        let mut view = (*chunk.view.load_full()).clone();
        view.active = delta(2);
        chunk.view.replace(Arc::new(view.clone()));
        view.active = delta(2);
        chunk.publish(view);
    }

    fn sound_without_deltas() -> View {
        View {
            active: delta(1),
            frozen: Vec::new(),
            munk: None,
            funk: funk(0),
            covers: None,
            row_tag: RowTag::NONE,
        }
    }
}

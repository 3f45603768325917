//! A share that rewrites or scans have measured. There are three: the share of a log's bytes that
//! are new, and do not overwrite records of the base; the share of looks at a chunk's place of
//! growth that found a stream; and the share of scans of one record that found the key with which
//! they began. A chunk has a share of its own of the first kind; a keyspace has means over all
//! chunks, for chunks without a measured share.
//!
//! Thread safety: a hint in an atomic. Nothing depends on it: it is not remembered from one opening
//! to the next.

use crate::sync::atomic::{AtomicU32, Ordering};

/// One rewrite or scan counts for one part in this many of a keyspace's share.
const ONE_PART: f32 = 8.0;

/// See the module.
pub(crate) struct Share(AtomicU32);

impl Share {
    pub(crate) fn unknown() -> Share {
        Share(AtomicU32::new(f32::NAN.to_bits()))
    }

    pub(crate) fn get(&self) -> Option<f32> {
        let share = f32::from_bits(self.0.load(Ordering::Relaxed));
        (!share.is_nan()).then_some(share)
    }

    pub(crate) fn set(&self, share: f32) {
        self.0.store(share.to_bits(), Ordering::Relaxed);
    }

    /// Moves a mean towards one new value. A lost move does no harm.
    pub(crate) fn move_towards(&self, share: f32) {
        let mean = self.get().unwrap_or(1.0);
        self.set(mean + (share - mean) / ONE_PART);
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_mean_of_shares_follows_slowly() {
        let mean = Share::unknown();
        assert_eq!(mean.get(), None);
        mean.move_towards(0.0);
        assert_eq!(mean.get(), Some(0.875), "what is not known is new");
        for _ in 0..100 {
            mean.move_towards(0.25);
        }
        assert!((mean.get().unwrap() - 0.25).abs() < 0.001);
    }
}

//! What share of a log's bytes is new, and does not overwrite what the base has, as far as rewrites have told.
//! A chunk has its own; a keyspace has a mean of all, for chunks of which nothing is known yet.
//!
//! Thread safety: a hint in an atomic. Nothing rests on it: it is not remembered from one opening to the next.

use crate::sync::atomic::{AtomicU32, Ordering};

/// Of a keyspace's share, what one rewrite counts for.
const ONE_PART: f32 = 8.0;

/// See the module.
pub(crate) struct NewShare(AtomicU32);

impl NewShare {
    pub(crate) fn unknown() -> NewShare {
        NewShare(AtomicU32::new(f32::NAN.to_bits()))
    }

    pub(crate) fn get(&self) -> Option<f32> {
        let share = f32::from_bits(self.0.load(Ordering::Relaxed));
        (!share.is_nan()).then_some(share)
    }

    pub(crate) fn set(&self, share: f32) {
        self.0.store(share.to_bits(), Ordering::Relaxed);
    }

    /// Moves a mean of many towards one of them. A lost one does no harm.
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
        let mean = NewShare::unknown();
        assert_eq!(mean.get(), None);
        mean.move_towards(0.0);
        assert_eq!(mean.get(), Some(0.875), "what is not known is new");
        for _ in 0..100 {
            mean.move_towards(0.25);
        }
        assert!((mean.get().unwrap() - 0.25).abs() < 0.001);
    }
}

//! Where a rewrite ends its tables, each of which becomes a chunk.
//!
//! ```text
//!   base and log together fit one chunk                       one table
//!   they would, if the log overwrites as much as the last     one table; at 7/10 of a chunk it is looked once
//!   time, as known of the chunk or of its keyspace            more whether the rest fits, by what was dropped so far
//!   else all is read first, to find out                       one table, or pieces of 7/10, cut around streams
//! ```
//! To read first is to read and merge everything twice, so it is left to chunks that have probably outgrown
//! their limit. A wrong guess costs little: a chunk too many, or a rewrite more.
//!
//! Thread safety: none; one rewrite's own. Not here: what is known of a chunk ([`crate::chunk::share`]).

/// How one rewrite cuts its tables.
pub(super) struct Pieces {
    /// A table ends above so many bytes.
    piece_bytes: u64,
    /// What all of it may have to be one table after all, if that is still to be found out.
    whole_bytes_max: Option<u64>,
}

impl Pieces {
    /// One table, whatever its size.
    pub(super) fn one() -> Pieces {
        Pieces {
            piece_bytes: u64::MAX / 2,
            whole_bytes_max: None,
        }
    }

    /// Several, for chunks of up to `chunk_bytes_max`, none of them full.
    pub(super) fn several(chunk_bytes_max: u64) -> Pieces {
        Pieces {
            piece_bytes: chunk_bytes_max * 7 / 10,
            whole_bytes_max: None,
        }
    }

    /// One, if it turns out that all of it fits a chunk.
    pub(super) fn one_if_it_fits(chunk_bytes_max: u64) -> Pieces {
        Pieces {
            whole_bytes_max: Some(chunk_bytes_max),
            ..Pieces::several(chunk_bytes_max)
        }
    }

    /// Whether a table may not have so many bytes.
    pub(super) fn is_full(&self, bytes: u64) -> bool {
        bytes > self.piece_bytes
    }

    /// The first table is full, with `live_bytes` of keys and values of `taken` records of `held`: whether it
    /// ends here. The rest is taken to be like it.
    pub(super) fn ends(&mut self, live_bytes: u64, taken: u64, held: u64) -> bool {
        let Some(most) = self.whole_bytes_max.take() else {
            return true;
        };
        let left = u128::from(held.saturating_sub(taken)) * u128::from(live_bytes)
            / u128::from(taken.max(1));
        let fits = u128::from(live_bytes) + left <= u128::from(most);
        if fits {
            *self = Pieces::one();
        }
        !fits
    }
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_table_goes_on_if_the_rest_fits() {
        let mut pieces = Pieces::one_if_it_fits(1000);
        assert!(!pieces.is_full(700) && pieces.is_full(701));
        // 700 bytes are left of 1,400 records, and 600 more would leave 300.
        assert!(!pieces.ends(700, 1_400, 2_000));
        assert!(!pieces.is_full(u64::MAX / 4));
        // With one more it would be too much.
        let mut pieces = Pieces::one_if_it_fits(1000);
        assert!(pieces.ends(700, 1_400, 2_002));
        assert!(pieces.is_full(701), "and so for those behind it");
        assert!(pieces.ends(700, 1, 1), "which are not looked at");
        assert!(Pieces::several(1000).ends(700, 1_400, 1_400));
        assert!(!Pieces::one().is_full(u64::MAX / 4));
        assert!(!Pieces::one_if_it_fits(u64::MAX / 8).ends(u64::MAX / 9, 1, 1));
    }
}

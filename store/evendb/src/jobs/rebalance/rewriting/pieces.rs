//! Where a rewrite ends its tables. Each table becomes a chunk.
//!
//! ```text
//!   base and log together fit one chunk             one table
//!   they would, if the log overwrites like the      one table; at 7/10 of a chunk, the dropped
//!   last time (of the chunk or its keyspace)        records tell whether the rest fits too
//!   else all is read first, to find out             one table, or pieces of 7/10, around streams
//! ```
//! To read first is to read and merge everything twice, so only chunks that have probably outgrown
//! their limit are read first. A wrong guess costs little: one chunk more, or one rewrite more.
//!
//! Thread safety: none; one rewrite's own. Not here: what is known of a chunk
//! ([`crate::chunk::share`]).

/// How one rewrite cuts its tables.
pub(crate) struct Pieces {
    /// A table ends once it is larger than this number of bytes.
    piece_bytes: u64,
    /// The most bytes that all records may have to be one table, if that is still to be found out.
    whole_bytes_max: Option<u64>,
}

impl Pieces {
    /// One table, whatever its size.
    pub(crate) fn one() -> Pieces {
        Pieces {
            piece_bytes: u64::MAX / 2,
            whole_bytes_max: None,
        }
    }

    /// Tables of up to `bytes`.
    pub(crate) fn of(bytes: u64) -> Pieces {
        Pieces {
            piece_bytes: bytes,
            whole_bytes_max: None,
        }
    }

    /// Several tables, for chunks of up to `chunk_bytes_max`, each of them with some room left.
    pub(crate) fn several(chunk_bytes_max: u64) -> Pieces {
        Pieces {
            piece_bytes: chunk_bytes_max * 7 / 10,
            whole_bytes_max: None,
        }
    }

    /// One table, if it turns out that everything fits a chunk.
    pub(crate) fn one_if_it_fits(chunk_bytes_max: u64) -> Pieces {
        Pieces {
            whole_bytes_max: Some(chunk_bytes_max),
            ..Pieces::several(chunk_bytes_max)
        }
    }

    /// Whether `bytes` are too many for a table.
    pub(crate) fn is_full(&self, bytes: u64) -> bool {
        bytes > self.piece_bytes
    }

    /// Whether the first table, which is full, ends here. It has `live_bytes` of keys and values,
    /// from `taken` of `held` records. The other records are assumed to be like them.
    pub(crate) fn ends(&mut self, live_bytes: u64, taken: u64, held: u64) -> bool {
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
        // 1,400 records left 700 bytes, so 600 more would leave 300.
        assert!(!pieces.ends(700, 1_400, 2_000));
        assert!(!pieces.is_full(u64::MAX / 4));
        // With one more record it would be too much.
        let mut pieces = Pieces::one_if_it_fits(1000);
        assert!(pieces.ends(700, 1_400, 2_002));
        assert!(pieces.is_full(701), "and so for those behind it");
        assert!(pieces.ends(700, 1, 1), "which are not looked at");
        assert!(Pieces::several(1000).ends(700, 1_400, 1_400));
        assert!(!Pieces::one().is_full(u64::MAX / 4));
        assert!(!Pieces::one_if_it_fits(u64::MAX / 8).ends(u64::MAX / 9, 1, 1));
    }
}

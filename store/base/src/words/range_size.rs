//! [`RangeSize`]: an engine's answer to the question how much a key range holds.

/// About how much a key range holds. The engine documents how exact its answer is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RangeSize {
    /// The number of records.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Bytes of tables and logs on disk. Records that are only in memory and in the log of writes
    /// count none.
    pub disk_bytes: u64,
}

impl RangeSize {
    /// Estimates, rounded; negative numbers become 0.
    #[doc(hidden)]
    pub fn rounded(records: f64, bytes: f64, disk_bytes: f64) -> RangeSize {
        RangeSize {
            records: records.round() as u64,
            bytes: bytes.round() as u64,
            disk_bytes: disk_bytes.round() as u64,
        }
    }
}

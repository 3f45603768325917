//! [`RangeSize`]: what an engine answers that is asked how much a key range holds.

/// About how much a key range holds. How near that is to the truth, the engine says that was asked.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RangeSize {
    /// Records.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Bytes of tables and logs on disk. What is only in memory and in the log of writes has none.
    pub disk_bytes: u64,
}

impl RangeSize {
    /// Of estimates, which are rounded; what is below 0 is 0.
    #[doc(hidden)]
    pub fn rounded(records: f64, bytes: f64, disk_bytes: f64) -> RangeSize {
        RangeSize {
            records: records.round() as u64,
            bytes: bytes.round() as u64,
            disk_bytes: disk_bytes.round() as u64,
        }
    }
}

//! Faults that named tests must notice, one at a time. They exist only in tests: elsewhere
//! [`planted!`] is `false`.
//!
//! Encoders take no options, so a fault is planted in all that one thread does for a while
//! ([`with`]).

/// One deliberate fault. The numbers are from docs/concurrency.md.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Plant {
    #[default]
    Nothing,
    /// P97: the separator behind a block is a byte too short, and so below the block's last key.
    SeparatorTooShort,
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Plant> = const { std::cell::Cell::new(Plant::Nothing) };
}

/// Runs `work` with a fault planted.
#[cfg(test)]
pub(crate) fn with<R>(plant: Plant, work: impl FnOnce() -> R) -> R {
    PLANTED.set(plant);
    let result = work();
    PLANTED.set(Plant::Nothing);
    result
}

/// Whether a fault is planted in this thread now.
#[cfg(test)]
pub(crate) fn is_planted(plant: Plant) -> bool {
    PLANTED.get() == plant
}

/// Whether a fault is planted in this thread now.
macro_rules! planted {
    ($plant:ident) => {{
        #[cfg(test)]
        let planted = crate::plant::is_planted(crate::plant::Plant::$plant);
        #[cfg(not(test))]
        let planted = false;
        planted
    }};
}
pub(crate) use planted;

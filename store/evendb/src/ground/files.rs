//! The names of a database's files, except tables ([`crate::tables`]) and manifests
//! ([`crate::manifest::writer`]).

/// Names the manifest in force.
pub(crate) const CURRENT: &str = "CURRENT";
/// A `CURRENT` that is still being written.
pub(crate) const CURRENT_UNFINISHED: &str = "CURRENT.tmp";
pub(crate) const COMMIT_LOG: &str = "COMMIT-LOG";
/// The first container of the chunks' logs; later ones have a number behind it
/// ([`container_name`]).
pub(crate) const CONTAINER: &str = "CHUNK-LOGS";
/// The data key of an encrypted database, itself encrypted.
pub(crate) const KEYS: &str = "KEYS";
/// A `KEYS` that is still being written.
pub(crate) const KEYS_UNFINISHED: &str = "KEYS.tmp";
/// Room kept for a full disk.
pub(crate) const BALLAST: &str = evendb_base::ballast::BALLAST;
pub(crate) const LOCK: &str = "LOCK";
/// In a directory without `CURRENT`: a copy is being made there, or was given up.
pub(crate) const UNFINISHED_COPY: &str = "UNFINISHED-COPY";
/// The name of a commit log that was given up, followed by the number of the epoch that gave it up.
pub(crate) const DAMAGED_LOG: &str = "COMMIT-LOG.damaged-";
/// The figures of a running database.
pub(crate) const STATS: &str = "STATS";

/// The spans that were in RAM, for the next opening. A hint.
pub(crate) const HEAT: &str = "HEAT";
/// A `HEAT` that is still being written.
pub(crate) const HEAT_UNFINISHED: &str = "HEAT.tmp";

/// An extent's offset in the manifest has the number of its container in the bits from this one on,
/// and the place in that file below.
const CONTAINER_SHIFT: u32 = 44;
/// The last number of a container.
pub(crate) const CONTAINER_MAX: u64 = (1 << 20) - 1;

/// The offset of the first byte of container `number`.
pub(crate) fn container_base(number: u64) -> u64 {
    number << CONTAINER_SHIFT
}

/// The number of the container in which an offset lies, and the place in its file.
pub(crate) fn in_container(offset: u64) -> (u64, u64) {
    let base = offset >> CONTAINER_SHIFT << CONTAINER_SHIFT;
    (offset >> CONTAINER_SHIFT, offset - base)
}

/// The name of the file of container `number`.
pub(crate) fn container_name(number: u64) -> String {
    match number {
        0 => CONTAINER.to_owned(),
        _ => format!("{CONTAINER}-{number:06}"),
    }
}

/// The number of the container whose file has this name.
pub(crate) fn container_number(name: &str) -> Option<u64> {
    let number = match name.strip_prefix(CONTAINER)? {
        "" => 0,
        tail => tail.strip_prefix('-')?.parse().ok()?,
    };
    (number <= CONTAINER_MAX && container_name(number) == name).then_some(number)
}

/// Whether only an engine that no longer needs the file could have made a file of this name.
pub(crate) fn is_own_name(name: &str) -> bool {
    let hex = |stem: &str| {
        let id = u64::from_str_radix(stem, 16);
        id.is_ok_and(|id| stem == format!("{id:016x}"))
    };
    let digits = |tail: &str| {
        tail.parse::<u64>()
            .is_ok_and(|id| tail == format!("{id:06}"))
    };
    name == CURRENT_UNFINISHED
        || name == HEAT_UNFINISHED
        || name == KEYS_UNFINISHED
        || name == UNFINISHED_COPY
        || name.strip_suffix(".sst").is_some_and(hex)
        || name.strip_suffix(".val").is_some_and(hex)
        || name.strip_suffix(".values").is_some_and(hex)
        || name.strip_prefix("MANIFEST-").is_some_and(digits)
        || container_number(name).is_some_and(|number| number > 0)
}

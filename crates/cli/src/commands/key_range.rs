//! Ranges of keys as they are written on the command line: a prefix, a first key, and a key behind the last.

use std::ops::Bound;

use crate::commands::key_arguments::Keys;
use crate::failure::Failure;
use crate::keys::prefix_end;
use crate::store::Range;

/// Which keys.
#[derive(clap::Args)]
pub struct RangeArguments {
    /// Only keys that start with this
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    prefix: Option<String>,
    /// Only keys at or after this
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from: Option<String>,
    /// Only keys before this
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to: Option<String>,
}

impl RangeArguments {
    /// The intersection of the prefix's range and that from `--from` to `--to`.
    pub fn range(&self, keys: &Keys<'_>) -> Result<Range, Failure> {
        let bound = |text: &Option<String>| text.as_ref().map(|text| keys.bound(text)).transpose();
        let (prefix, from, to) = (bound(&self.prefix)?, bound(&self.from)?, bound(&self.to)?);
        let end = prefix.as_deref().and_then(prefix_end);
        // None sorts before every key, which is right for the lower bound.
        let low = from.max(prefix);
        let high = match (to, end) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Ok((
            low.map_or(Bound::Unbounded, Bound::Included),
            high.map_or(Bound::Unbounded, Bound::Excluded),
        ))
    }
}

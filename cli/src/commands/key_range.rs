//! Ranges of keys on the command line: a prefix, a first key, and a key after the last.

use std::ops::Bound;

use crate::commands::key_arguments::Keys;
use crate::failure::Failure;
use crate::keys::prefix_end;
use crate::store::{Range, Store};

/// The keys of a command.
#[derive(clap::Args)]
pub struct RangeArguments {
    /// Only keys that start with this; of a key of several columns, keys that have just these first
    /// columns
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub prefix: Option<String>,
    /// As --prefix, but the last of these columns, a text, need only start with the given text:
    /// --starts-with Par selects Paris
    #[arg(
        long,
        value_name = "KEY",
        conflicts_with = "prefix",
        allow_hyphen_values = true
    )]
    pub starts_with: Option<String>,
    /// Only keys at or after this
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// Only keys before this
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub to: Option<String>,
}

impl RangeArguments {
    /// The intersection of the prefix's range and that from `--from` to `--to`.
    pub fn range(&self, keys: &Keys<'_>) -> Result<Range, Failure> {
        let bound = |text: &Option<String>| text.as_ref().map(|text| keys.bound(text)).transpose();
        let start = self.starts_with.as_ref();
        let start = start.map(|text| keys.start(text)).transpose()?;
        let (prefix, from, to) = (bound(&self.prefix)?, bound(&self.from)?, bound(&self.to)?);
        let prefix = prefix.or(start);
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

    /// Each limit that is given, with the name of its option.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("--prefix", &self.prefix),
            ("--starts-with", &self.starts_with),
            ("--from", &self.from),
            ("--to", &self.to),
        ];
        let all = all.map(|(name, text)| text.as_deref().map(|text| (name, text)));
        all.into_iter().flatten()
    }

    /// The hint, if the range has no records.
    pub fn hint_if_empty(
        &self,
        keys: &Keys<'_>,
        store: &Store,
        range: Range,
    ) -> Result<Option<String>, Failure> {
        let Some(hint) = self.hint(keys) else {
            return Ok(None);
        };
        let is_empty = store.cursor(range, Some(1), true).next()?.is_none();
        Ok(is_empty.then_some(hint))
    }

    /// A hint for a user whose range has no records.
    pub fn hint(&self, keys: &Keys<'_>) -> Option<String> {
        let text = self.prefix.as_deref()?;
        keys.may_be_a_start(text).then(|| {
            format!(
                "no key has the whole columns `{text}` in front; --starts-with {text} selects keys \
                 whose text there begins so"
            )
        })
    }
}

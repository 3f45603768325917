//! Which keys: all keys with a prefix of columns, or all keys whose last given column lies in a
//! range.
//!
//! ```text
//!   p = bytes of the leading columns, x = bytes of the bound,
//!   end(b) = the least bytes above all bytes that begin with b
//!
//!                      first byte string        first byte string beyond
//!   prefix(&columns)   p                        end(p)
//!   x..                p x
//!   after x            end(p x)
//!   ..                 p 0x00                   end(p)
//!   ..x                                         p x
//!   ..=x                                        end(p x)
//! ```
//! A bound stands for all keys that have it in its column, whatever columns follow: `..=t` takes
//! every key with the column t, and `t..` begins with the first of them. This holds because no
//! value's bytes begin with another's (`column.rs`).
//!
//! A prefix takes the key that is made of just its columns, too. A range does not, because that key
//! has no column that could lie in the range. (`p 0x00` is the least key that a further column can
//! make from p.)
//!
//! Not here: ranges of keys that are one text alone, in no tuple. These keys are their own bytes,
//! so the database takes the texts themselves: `db.range("a".."b")`, `db.prefix("usr/")`.

use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

use crate::column::KeyColumn;
use crate::key::Columns;
use crate::text::push_escaped;

/// A range of keys, as bytes: from the first byte string to before the second.
///
/// Every call that takes a range of keys takes it as it is: `Db::range`, `cursor`, `delete_range`,
/// and `BTreeMap::range` over `Vec<u8>`. [`range`](crate::range) makes it.
///
/// ```
/// use std::collections::BTreeMap;
/// use evendb_keys as keys;
///
/// let mut map = BTreeMap::new();
/// for time in [5u64, 7, 9] {
///     map.insert(keys::key(&("app7", time)), time);
/// }
/// let found: Vec<u64> = map.range(keys::range(("app7", 5u64..9))).map(|(_, time)| *time).collect();
/// assert_eq!(found, [5, 7]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    low: Vec<u8>,
    high: Option<Vec<u8>>,
}

impl KeyRange {
    fn new(low: Option<Vec<u8>>, high: Option<Vec<u8>>) -> Self {
        match (low, high) {
            (Some(low), None) => Self { low, high: None },
            (Some(low), Some(high)) if low < high => Self {
                low,
                high: Some(high),
            },
            // An inverted range is empty; a map must not panic when it is asked for it.
            (low, _) => {
                let low = low.unwrap_or_default();
                let high = Some(low.clone());
                Self { low, high }
            }
        }
    }

    /// The first byte string of the range.
    ///
    /// ```
    /// use evendb_keys as keys;
    ///
    /// assert_eq!(keys::range((5u8..7,)).low(), [5]);
    /// ```
    pub fn low(&self) -> &[u8] {
        &self.low
    }

    /// The first byte string beyond the range; `None` if there is none.
    ///
    /// ```
    /// use evendb_keys as keys;
    ///
    /// assert_eq!(keys::range((5u8..7,)).high(), Some(&[7][..]));
    /// assert_eq!(keys::range((5u8..,)).high(), None);
    /// ```
    pub fn high(&self) -> Option<&[u8]> {
        self.high.as_deref()
    }

    /// Whether a key of these bytes lies in the range.
    ///
    /// ```
    /// use evendb_keys as keys;
    ///
    /// let range = keys::range(("app7", ..=7u64));
    /// assert!(range.contains(&keys::key(&("app7", 7u64, "and more"))));
    /// assert!(!range.contains(&keys::key(&("app70", 7u64))));
    /// ```
    pub fn contains(&self, key: impl AsRef<[u8]>) -> bool {
        let key = key.as_ref();
        *key >= *self.low && self.high().is_none_or(|high| key < high)
    }
}

impl RangeBounds<Vec<u8>> for KeyRange {
    fn start_bound(&self) -> Bound<&Vec<u8>> {
        Bound::Included(&self.low)
    }

    fn end_bound(&self) -> Bound<&Vec<u8>> {
        match &self.high {
            Some(high) => Bound::Excluded(high),
            None => Bound::Unbounded,
        }
    }
}

impl RangeBounds<Vec<u8>> for &KeyRange {
    fn start_bound(&self) -> Bound<&Vec<u8>> {
        (**self).start_bound()
    }

    fn end_bound(&self) -> Bound<&Vec<u8>> {
        (**self).end_bound()
    }
}

/// The common first bytes of all keys that begin with some columns.
///
/// Use it as a prefix, as in `Db::prefix` and `Db::delete_prefix`, and also as a range:
/// `Db::range`, `Db::cursor`. [`prefix`](crate::prefix) makes it.
///
/// ```
/// use evendb_keys as keys;
///
/// let prefix = keys::prefix(&("app7",));
/// assert!(keys::key(&("app7", 7u64)).starts_with(prefix.as_ref()));
/// assert!(!keys::key(&("app70", 7u64)).starts_with(prefix.as_ref()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Prefix(KeyRange);

impl Prefix {
    pub(crate) fn of(columns: &(impl Columns + ?Sized)) -> Self {
        let mut low = Vec::new();
        columns.encode_key(&mut low);
        let high = prefix_end(&low);
        Self(KeyRange { low, high })
    }
}

impl AsRef<[u8]> for Prefix {
    fn as_ref(&self) -> &[u8] {
        &self.0.low
    }
}

impl RangeBounds<Vec<u8>> for Prefix {
    fn start_bound(&self) -> Bound<&Vec<u8>> {
        self.0.start_bound()
    }

    fn end_bound(&self) -> Bound<&Vec<u8>> {
        self.0.end_bound()
    }
}

impl RangeBounds<Vec<u8>> for &Prefix {
    fn start_bound(&self) -> Bound<&Vec<u8>> {
        self.0.start_bound()
    }

    fn end_bound(&self) -> Bound<&Vec<u8>> {
        self.0.end_bound()
    }
}

/// The least byte string above all byte strings that begin with `prefix`; `None` if there is none.
///
/// ```
/// use evendb_keys::prefix_end;
///
/// assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
/// assert_eq!(prefix_end(b"a\xff"), Some(b"b".to_vec()));
/// assert_eq!(prefix_end(b"\xff\xff"), None);
/// ```
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = prefix.get(..=kept)?.to_vec();
    *end.last_mut()? += 1;
    Some(end)
}

/// A range of one column: any of Rust's ranges, a pair of bounds, or [`StartsWith`].
///
/// ```
/// use std::ops::Bound;
/// use evendb_keys as keys;
///
/// let after_five = keys::range(("app7", (Bound::Excluded(5u64), Bound::Unbounded)));
/// assert!(!after_five.contains(&keys::key(&("app7", 5u64, "and more"))));
/// assert!(after_five.contains(&keys::key(&("app7", 6u64))));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a range of a column",
    note = "the last element of a range of keys is itself a range, as in `(\"app7\", 5u64..)`; \
            all keys that begin with some columns are a `prefix`"
)]
pub trait ColumnRange {
    /// The keys that begin with the columns of these bytes, and have their next column in the
    /// range.
    ///
    /// ```
    /// use evendb_keys::{self as keys, ColumnRange};
    ///
    /// let columns = keys::key(&("app7",));
    /// assert_eq!((5u64..).behind(columns), keys::range(("app7", 5u64..)));
    /// ```
    fn behind(&self, columns: Vec<u8>) -> KeyRange;
}

fn between<T: KeyColumn>(columns: &[u8], range: &impl RangeBounds<T>) -> KeyRange {
    let with = |bound: &T| {
        let mut key = columns.to_vec();
        bound.encode(&mut key);
        key
    };
    let low = match range.start_bound() {
        Bound::Included(bound) => Some(with(bound)),
        Bound::Excluded(bound) => prefix_end(&with(bound)),
        Bound::Unbounded => Some([columns, &[0]].concat()),
    };
    let high = match range.end_bound() {
        Bound::Included(bound) => prefix_end(&with(bound)),
        Bound::Excluded(bound) => Some(with(bound)),
        Bound::Unbounded => prefix_end(columns),
    };
    KeyRange::new(low, high)
}

macro_rules! column_ranges {
    ($($range:ty),+ $(,)?) => {$(
        impl<T: KeyColumn> ColumnRange for $range {
            fn behind(&self, columns: Vec<u8>) -> KeyRange {
                between::<T>(&columns, self)
            }
        }
    )+};
}
column_ranges!(
    Range<T>,
    RangeInclusive<T>,
    RangeFrom<T>,
    RangeTo<T>,
    RangeToInclusive<T>,
    (Bound<T>, Bound<T>),
);

impl ColumnRange for RangeFull {
    fn behind(&self, columns: Vec<u8>) -> KeyRange {
        between::<u8>(&columns, self)
    }
}

/// The texts, or the bytes, that begin with this one: a range of a column, in place of `a..b`.
///
/// ```
/// use evendb_keys::{self as keys, StartsWith};
///
/// let range = keys::range(("en", StartsWith("wor")));
/// assert!(range.contains(&keys::key(&("en", "world", 7u64))));
/// assert!(range.contains(&keys::key(&("en", "wor"))));
/// assert!(!range.contains(&keys::key(&("en", "wo"))));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StartsWith<T>(
    /// The beginning of the column.
    pub T,
);

impl<T: AsRef<[u8]>> ColumnRange for StartsWith<T> {
    fn behind(&self, columns: Vec<u8>) -> KeyRange {
        let beginning = self.0.as_ref();
        if beginning.is_empty() {
            return (..).behind(columns);
        }
        let mut low = columns;
        push_escaped(&mut low, beginning);
        let high = prefix_end(&low);
        KeyRange::new(Some(low), high)
    }
}

/// A tuple whose last element is a range of a column, and whose other elements are columns.
///
/// ```
/// use evendb_keys::{self as keys, RangeColumns};
///
/// fn newest(of: impl RangeColumns) -> Option<Vec<u8>> {
///     keys::range(of).high().map(<[u8]>::to_vec)
/// }
/// assert_eq!(newest((1u8, ..5u8)), Some(vec![1, 5]));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a range of keys",
    note = "a range of keys is a tuple of columns with a range at its end, as in \
            `(\"app7\", 5u64..)`; without leading columns it is `(5u64..,)`, with a comma"
)]
pub trait RangeColumns {
    /// The range.
    ///
    /// ```
    /// use evendb_keys::{self as keys, RangeColumns};
    ///
    /// assert_eq!((1u8, ..5u8).key_range(), keys::range((1u8, ..5u8)));
    /// ```
    fn key_range(&self) -> KeyRange;
}

macro_rules! ranges {
    ($($column:ident $index:tt)* => $last:tt) => {
        impl<$($column: KeyColumn,)* R: ColumnRange> RangeColumns for ($($column,)* R,) {
            fn key_range(&self) -> KeyRange {
                #[allow(unused_mut, reason = "unless no columns lead")]
                let mut columns = Vec::new();
                $(self.$index.encode(&mut columns);)*
                self.$last.behind(columns)
            }
        }
    };
}
ranges!(=> 0);
ranges!(A 0 => 1);
ranges!(A 0 B 1 => 2);
ranges!(A 0 B 1 C 2 => 3);
ranges!(A 0 B 1 C 2 D 3 => 4);
ranges!(A 0 B 1 C 2 D 3 E 4 => 5);
ranges!(A 0 B 1 C 2 D 3 E 4 F 5 => 6);
ranges!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 => 7);
ranges!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 => 8);
ranges!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 => 9);
ranges!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 => 10);
ranges!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 => 11);

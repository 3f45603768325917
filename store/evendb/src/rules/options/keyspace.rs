//! Options of a single keyspace, which override the options of the database.
//!
//! Each option that is chosen is a property of the keyspace, which the manifest keeps:
//! ```text
//! evendb.option.compression           none | lz4 | zstd:level
//! evendb.option.layout                guards | chunks; chunks where nothing is recorded
//! evendb.option.filter_bits_per_key   decimal
//! evendb.option.block_bytes           decimal
//! evendb.option.row_cache             on | off
//! evendb.option.merge_operator        the operator's name
//! evendb.option.ttl_millis            decimal
//! evendb.option.values_apart_from     decimal
//! ```
//! A value of another form is refused when the database is opened. An option of another name
//! belongs to a later version, and is passed over: it stays as it is.
//!
//! Thread safety: plain data. Not here: when properties are written and read.

use super::{Compression, Layout, Options, within};
use crate::error::{Error, ErrorKind, Result};
use crate::merge_operator::ready::Merges;
use crate::merge_operator::{MergeOperator, Operator};
use evendb_base::setters;
use evendb_storage::table::TableOptions;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The beginning of these properties' names.
pub(crate) const OPTION_PREFIX: &str = "evendb.option.";

/// Options of one keyspace: [`Db::keyspace_with`](crate::Db::keyspace_with) makes a keyspace with
/// them, and [`Keyspace::set_options`](crate::Keyspace::set_options) changes them. An option that
/// is not chosen here follows the options with which the database is opened, each time.
///
/// The keyspace remembers them: they are recorded in the manifest, are part of copies, and hold
/// from one opening to the next. Options of tables hold for tables written from then on;
/// [`Keyspace::compact`](crate::Keyspace::compact) does not rewrite tables only to apply them.
///
/// ```
/// # fn main() -> evendb::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use evendb::{Compression, ErrorKind, KeyspaceOptions};
/// let db = evendb::Db::open(dir.path())?;
/// let texts = KeyspaceOptions::new().compression(Compression::Lz4).block_bytes(16 << 10);
/// db.keyspace_with("texts", &texts)?;
/// // Later, or in another process: these agree.
/// db.keyspace("texts")?;
/// db.keyspace_with("texts", &KeyspaceOptions::new().compression(Compression::Lz4))?;
/// // These do not.
/// let other = KeyspaceOptions::new().compression(Compression::None);
/// let refused = db.keyspace_with("texts", &other).unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
/// assert!(refused.to_string().contains("has compression lz4, and none was asked for"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct KeyspaceOptions {
    pub(crate) layout: Option<Layout>,
    pub(crate) compression: Option<Compression>,
    pub(crate) filter_bits_per_key: Option<u32>,
    pub(crate) block_bytes: Option<usize>,
    pub(crate) row_cache: Option<bool>,
    pub(crate) merge_operator: Option<NamedOperator>,
    pub(crate) ttl_millis: Option<u64>,
    pub(crate) values_apart_from: Option<u32>,
}

/// A merge operator by its name, which the keyspace remembers, and the operator itself, if it was
/// given or its name is enough.
#[derive(Clone)]
pub(crate) struct NamedOperator {
    pub(crate) name: Arc<str>,
    pub(crate) operator: Option<Operator>,
}

impl PartialEq for NamedOperator {
    fn eq(&self, other: &NamedOperator) -> bool {
        self.name == other.name
    }
}

impl Eq for NamedOperator {}

impl fmt::Debug for NamedOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

impl NamedOperator {
    /// The operator of this name; the operator itself is known if the name is one of [`Merges`].
    pub(super) fn named(name: &str) -> NamedOperator {
        NamedOperator {
            name: name.into(),
            operator: Merges::named(name).map(Merges::operator),
        }
    }
}

impl KeyspaceOptions {
    /// No options of its own: everything follows the database.
    pub fn new() -> KeyspaceOptions {
        KeyspaceOptions::default()
    }
}

setters! {
impl KeyspaceOptions {
    /// How its records lie on the disk. Chosen when the keyspace is made; it cannot be changed. See
    /// [`Options::layout`].
    pub fn layout(mut self, layout: Layout) => Some(layout);

    /// Compression of its tables and logs. See [`Options::compression`].
    pub fn compression(mut self, compression: Compression) => Some(compression);

    /// Bits per key of its tables' filters for absent keys, 0 to 64. See
    /// [`Advanced::filter_bits_per_key`](crate::Advanced::filter_bits_per_key).
    pub fn filter_bits_per_key(mut self, bits: u32) => Some(bits);

    /// Target size of its tables' blocks in bytes, 64 to 1 MiB. See
    /// [`Advanced::block_bytes`](crate::Advanced::block_bytes).
    pub fn block_bytes(mut self, bytes: usize) => Some(bytes);

    /// Whether its rows may take room in the row cache, if the database has one. Rows that are
    /// there when this is turned off leave like others, when they are not read.
    pub fn row_cache(mut self, yes: bool) => Some(yes);

    /// Values of at least this number of bytes are written apart, into value files: from 1 on,
    /// `u32::MAX` for never. It holds for later puts; earlier values are read where they lie. See
    /// [`Advanced::values_apart_from`](crate::Advanced::values_apart_from).
    #[doc(alias = "blob")]
    pub fn values_apart_from(mut self, bytes: u32) => Some(bytes);
}
}

impl KeyspaceOptions {
    /// The operator of [`Keyspace::merge`](crate::Keyspace::merge): one of your own, or one of
    /// [`Merges`]. The keyspace remembers its name. An operator that is not one of [`Merges`] must
    /// be given at every opening of the database, before the keyspace is used; another one, or
    /// none, is refused with both names.
    pub fn merge_operator(mut self, operator: impl MergeOperator) -> Self {
        self.merge_operator = Some(NamedOperator {
            name: operator.name().into(),
            operator: Some(Arc::new(operator)),
        });
        self
    }

    /// How long a value stays that is put without an expiry of its own: at least a millisecond,
    /// rounded up to whole milliseconds. The time counts from the put: a change holds for later
    /// puts. Merged or ingested values do not count as put. See
    /// [`Keyspace::put_with_ttl`](crate::Keyspace::put_with_ttl).
    #[doc(alias = "time_to_live")]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        let up = match ttl.as_millis() {
            0 => 0,
            _ => ttl.as_nanos().div_ceil(1_000_000),
        };
        self.ttl_millis = Some(u64::try_from(up).unwrap_or(u64::MAX));
        self
    }

    /// The options of a keyspace that is made with these, in a database with `options`.
    pub(crate) fn of_new(&self, options: &Options) -> KeyspaceOptions {
        let guards = (options.layout == Layout::Guards).then_some(Layout::Guards);
        KeyspaceOptions {
            layout: self.layout.or(guards),
            ..self.clone()
        }
    }

    /// The chosen options by name, with their values in the form that is recorded.
    pub fn chosen(&self) -> impl Iterator<Item = (&'static str, String)> {
        let each = self.values().into_iter();
        each.filter_map(|(name, value)| Some((name, value?)))
    }

    /// Refuses values that no table can have, and a compression that this build cannot make or
    /// read.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_limits()?;
        self.compression.map_or(Ok(()), Compression::check)
    }

    /// Refuses values that no table can have.
    fn check_limits(&self) -> Result<()> {
        if let Some(compression) = self.compression {
            compression.check_level()?;
        }
        if let Some(bytes) = self.block_bytes {
            within("block_bytes", bytes as u64, BLOCK_BYTES_LIMITS)?;
        }
        if let Some(bits) = self.filter_bits_per_key {
            within("filter_bits_per_key", u64::from(bits), FILTER_BITS_LIMITS)?;
        }
        if let Some(NamedOperator { name, operator }) = &self.merge_operator {
            within(
                "length of a merge operator's name",
                name.len() as u64,
                (1, 255),
            )?;
            if operator.is_some() && name.starts_with("evendb.") && Merges::named(name).is_none() {
                let message =
                    format!("a merge operator of one's own cannot have the name {name:?}");
                return Err(Error::new(ErrorKind::InvalidArgument, message));
            }
        }
        if let Some(millis) = self.ttl_millis {
            within("ttl_millis", millis, TTL_LIMITS)?;
        }
        if let Some(bytes) = self.values_apart_from {
            within("values_apart_from", u64::from(bytes), APART_LIMITS)?;
        }
        Ok(())
    }

    /// Every option by its name, with its value if it is chosen.
    fn values(&self) -> [(&'static str, Option<String>); 8] {
        let on_or_off = |yes: bool| if yes { "on" } else { "off" }.to_owned();
        [
            (LAYOUT, self.layout.map(|layout| layout.to_string())),
            (
                "compression",
                self.compression.map(|compression| compression.to_string()),
            ),
            (
                "filter_bits_per_key",
                self.filter_bits_per_key.map(|bits| bits.to_string()),
            ),
            (
                "block_bytes",
                self.block_bytes.map(|bytes| bytes.to_string()),
            ),
            ("row_cache", self.row_cache.map(on_or_off)),
            (
                MERGE_OPERATOR,
                self.merge_operator
                    .as_ref()
                    .map(|named| named.name.to_string()),
            ),
            (
                "ttl_millis",
                self.ttl_millis.map(|millis| millis.to_string()),
            ),
            (
                "values_apart_from",
                self.values_apart_from.map(|bytes| bytes.to_string()),
            ),
        ]
    }

    /// The properties for these options: name and value, no value where the option is not chosen.
    pub(crate) fn to_properties(&self) -> impl Iterator<Item = (String, Option<Vec<u8>>)> {
        let each = self.values().into_iter();
        each.map(|(name, value)| {
            let name = format!("{OPTION_PREFIX}{name}");
            (name, value.map(String::into_bytes))
        })
    }

    /// The options in a keyspace's properties. The error has the name and the value of a property
    /// that makes no sense.
    pub(crate) fn of_properties(
        properties: &BTreeMap<String, Vec<u8>>,
    ) -> std::result::Result<KeyspaceOptions, (String, String)> {
        let mut options = KeyspaceOptions::new();
        for (name, value) in properties {
            let Some(option) = name.strip_prefix(OPTION_PREFIX) else {
                continue;
            };
            let text = std::str::from_utf8(value).ok();
            let known = text.and_then(|text| options.set_recorded(option, text));
            if known.is_none() || options.check_limits().is_err() {
                return Err((option.to_owned(), value.escape_ascii().to_string()));
            }
        }
        Ok(options)
    }

    /// Sets an option from its recorded text. Returns `None` if the text makes no sense; an unknown
    /// option makes sense.
    fn set_recorded(&mut self, option: &str, text: &str) -> Option<()> {
        match option {
            LAYOUT => self.layout = Some(text.parse().ok()?),
            "compression" => self.compression = Some(text.parse().ok()?),
            "filter_bits_per_key" => self.filter_bits_per_key = Some(text.parse().ok()?),
            "block_bytes" => self.block_bytes = Some(text.parse().ok()?),
            "ttl_millis" => self.ttl_millis = Some(text.parse().ok()?),
            "values_apart_from" => self.values_apart_from = Some(text.parse().ok()?),
            "row_cache" => {
                self.row_cache = Some(match text {
                    "on" => true,
                    "off" => false,
                    _ => return None,
                });
            }
            MERGE_OPERATOR => self.merge_operator = Some(NamedOperator::named(text)),
            _ => {}
        }
        Some(())
    }

    /// The first option that is chosen here and is different in a keyspace with the options
    /// `recorded`: its name, the value there, if it was chosen there, and the value here.
    pub(crate) fn contradiction(
        &self,
        recorded: &KeyspaceOptions,
    ) -> Option<(&'static str, Option<String>, String)> {
        // A keyspace for which no layout is recorded has chunks.
        let recorded = KeyspaceOptions {
            layout: Some(recorded.layout.unwrap_or_default()),
            ..recorded.clone()
        };
        let pairs = self.values().into_iter().zip(recorded.values());
        pairs
            .filter(|((_, asked), (_, there))| asked.is_some() && asked != there)
            .find_map(|((name, asked), (_, there))| Some((name, there, asked?)))
    }

    /// The options of tables of this keyspace in a database with these options.
    pub(crate) fn table_options(&self, options: &Options) -> TableOptions {
        let default = options.table_options();
        let compression = self.compression.unwrap_or(options.compression);
        TableOptions {
            codec: compression.codec(),
            zstd_level: compression.zstd_level(),
            filter_bits_per_key: self
                .filter_bits_per_key
                .unwrap_or_else(|| options.filter_bits_per_key(self.layout)),
            block_bytes: self
                .block_bytes
                .unwrap_or_else(|| options.block_bytes(compression)),
            ..default
        }
    }
}

/// Limits of these options; both ends are allowed.
pub(super) const BLOCK_BYTES_LIMITS: (u64, u64) = (64, 1 << 20);
pub(super) const FILTER_BITS_LIMITS: (u64, u64) = (0, 64);
const TTL_LIMITS: (u64, u64) = (1, u64::MAX);
/// In bytes. A value may be shorter than the place that replaces it: that costs only space and
/// time.
pub(super) const APART_LIMITS: (u64, u64) = (1, u32::MAX as u64);

const LAYOUT: &str = "layout";
const MERGE_OPERATOR: &str = "merge_operator";

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;

    fn properties(options: &KeyspaceOptions) -> BTreeMap<String, Vec<u8>> {
        let each = options.to_properties();
        each.filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }

    #[test]
    fn options_are_what_their_properties_say() {
        let all = KeyspaceOptions::new()
            .layout(Layout::Guards)
            .compression(Compression::Lz4)
            .filter_bits_per_key(10)
            .block_bytes(8192)
            .row_cache(false)
            .merge_operator(Merges::Max)
            .ttl(Duration::from_secs(3600))
            .values_apart_from(4096);
        for options in [
            all.clone(),
            KeyspaceOptions::new(),
            all.clone().row_cache(true),
            all.clone().compression(Compression::Zstd { level: 19 }),
        ] {
            let back = KeyspaceOptions::of_properties(&properties(&options));
            assert_eq!(back, Ok(options));
        }
        assert_eq!(properties(&all).len(), 8);
        let text = &properties(&all)["evendb.option.compression"];
        assert_eq!(text, b"lz4");
    }

    #[test]
    fn values_that_make_no_sense_are_named_and_unknown_options_passed_over() {
        let of = |name: &str, value: &[u8]| {
            let name = format!("{OPTION_PREFIX}{name}");
            KeyspaceOptions::of_properties(&BTreeMap::from([(name, value.to_vec())]))
        };
        let refused = |name: &str, value: &str| Err((name.to_owned(), value.to_owned()));
        for nonsense in ["zip", "zstd:0", "zstd:23", "zstd:", "zstd:3:3"] {
            let found = of("compression", nonsense.as_bytes());
            assert_eq!(found, refused("compression", nonsense));
        }
        assert_eq!(of("row_cache", b"\xff"), refused("row_cache", "\\xff"));
        assert_eq!(of("block_bytes", b"1"), refused("block_bytes", "1"));
        assert_eq!(of("of the future", b"yes"), Ok(KeyspaceOptions::new()));
    }

    #[test]
    fn only_what_is_chosen_and_differs_contradicts() {
        let lz4 = KeyspaceOptions::new().compression(Compression::Lz4);
        let none = KeyspaceOptions::new().compression(Compression::None);
        let nothing = KeyspaceOptions::new();
        assert_eq!(nothing.contradiction(&lz4), None);
        assert_eq!(lz4.contradiction(&lz4.clone().row_cache(false)), None);
        let there = Some("lz4".to_owned());
        let asked = "none".to_owned();
        assert_eq!(
            none.contradiction(&lz4),
            Some(("compression", there, asked))
        );
        let asked = "lz4".to_owned();
        assert_eq!(
            lz4.contradiction(&nothing),
            Some(("compression", None, asked))
        );
    }
}

//! [`TABLE`]: each setting, the values that it takes, and how EvenDB is told.

use std::fmt;

use evendb::{Compression, Layout, Options};

/// One setting that can be chosen.
#[derive(Debug)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// What it does, in few words.
    pub about: &'static str,
    pub(super) takes: Takes,
    /// The layout that has it, unless both have it.
    pub(super) of: Option<Layout>,
    pub(super) set: fn(Options, Value) -> Options,
    /// The call that sets it, with `{}` for the value.
    pub(super) code: &'static str,
    pub(super) is_advanced: bool,
}

impl PartialEq for Setting {
    fn eq(&self, other: &Setting) -> bool {
        self.name == other.name
    }
}

/// The values that a setting takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Takes {
    Whole,
    Fraction,
    Switch,
    Compression,
    Layout,
}

/// The value of a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Whole(u64),
    Fraction(f64),
    Switch(bool),
    Compression(Compression),
    Layout(Layout),
}

impl Value {
    fn whole(self) -> u64 {
        match self {
            Value::Whole(number) => number,
            _ => 0,
        }
    }

    fn small(self) -> u32 {
        u32::try_from(self.whole()).unwrap_or(u32::MAX)
    }

    pub(super) fn fraction(self) -> f64 {
        match self {
            Value::Fraction(number) => number,
            _ => 0.0,
        }
    }

    fn is_on(self) -> bool {
        self == Value::Switch(true)
    }
}

/// The name of the setting for the store's share of the memory. The rest is left to the system's
/// cache.
pub const MEMORY_SHARE: &str = "memory-share";

/// All settings.
pub static TABLE: [Setting; 12] = [
    Setting {
        name: "layout",
        about: "chunks, or guards, a fragmented log-structured merge tree",
        takes: Takes::Layout,
        of: None,
        set: |options, value| match value {
            Value::Layout(layout) => options.layout(layout),
            _ => options,
        },
        code: "layout({})",
        is_advanced: false,
    },
    Setting {
        name: MEMORY_SHARE,
        about: "share of the given memory that is the budget; the rest is the system's cache of files",
        takes: Takes::Fraction,
        of: None,
        set: |options, _| options,
        code: "",
        is_advanced: false,
    },
    Setting {
        name: "compression",
        about: "of tables and logs: none, lz4, zstd",
        takes: Takes::Compression,
        of: None,
        set: |options, value| match value {
            Value::Compression(compression) => options.compression(compression),
            _ => options,
        },
        code: "compression({})",
        is_advanced: false,
    },
    Setting {
        name: "space-amplification",
        about: "how much larger than its data the database may be",
        takes: Takes::Fraction,
        of: Some(Layout::Chunks),
        set: |options, value| options.space_amplification(value.fraction()),
        code: "space_amplification({})",
        is_advanced: false,
    },
    Setting {
        name: "chunk-bytes",
        about: "greatest size of a chunk",
        takes: Takes::Whole,
        of: Some(Layout::Chunks),
        set: |options, value| options.advanced(|all| all.chunk_bytes(value.whole())),
        code: "chunk_bytes({})",
        is_advanced: true,
    },
    Setting {
        name: "block-bytes",
        about: "size of a table's block, which a get from disk reads",
        takes: Takes::Whole,
        of: None,
        set: |options, value| options.advanced(|all| all.block_bytes(value.whole() as usize)),
        code: "block_bytes({})",
        is_advanced: true,
    },
    Setting {
        name: "filter-bits-per-key",
        about: "filters for keys that are not there",
        takes: Takes::Whole,
        of: None,
        set: |options, value| options.advanced(|all| all.filter_bits_per_key(value.small())),
        code: "filter_bits_per_key({})",
        is_advanced: true,
    },
    Setting {
        name: "munks",
        about: "whether hot spans are kept in RAM as a whole: on, off",
        takes: Takes::Switch,
        of: Some(Layout::Chunks),
        set: |options, value| options.advanced(|all| all.munks(value.is_on())),
        code: "munks({})",
        is_advanced: true,
    },
    Setting {
        name: "row-cache",
        about: "whether single hot rows are kept in RAM: on, off",
        takes: Takes::Switch,
        of: Some(Layout::Chunks),
        set: |options, value| options.advanced(|all| all.row_cache(value.is_on())),
        code: "row_cache({})",
        is_advanced: true,
    },
    Setting {
        name: "row-cache-share",
        about: "fixed share of rows in the memory for rows and spans",
        takes: Takes::Fraction,
        of: Some(Layout::Chunks),
        set: |options, value| options.advanced(|all| all.row_cache_share(Some(value.fraction()))),
        code: "row_cache_share(Some({}))",
        is_advanced: true,
    },
    Setting {
        name: "values-apart-from",
        about: "bytes from which on a value lies apart from its key",
        takes: Takes::Whole,
        of: None,
        set: |options, value| options.advanced(|all| all.values_apart_from(Some(value.small()))),
        code: "values_apart_from(Some({}))",
        is_advanced: true,
    },
    Setting {
        name: "max-files-per-guard",
        about: "sorted runs of a guard: more of them, less is written and more is read; 1 is a leveled tree",
        takes: Takes::Whole,
        of: Some(Layout::Guards),
        set: |options, value| {
            let runs = value.whole() as usize;
            options.advanced(|all| all.guards(|guards| guards.max_files_per_guard(runs)))
        },
        code: "guards(|guards| guards.max_files_per_guard({}))",
        is_advanced: true,
    },
];

impl Takes {
    pub(super) fn name(self) -> &'static str {
        match self {
            Takes::Whole => "a whole number",
            Takes::Fraction => "a number above 0",
            Takes::Switch => "on or off",
            Takes::Compression => "none, lz4, zstd or zstd:LEVEL",
            Takes::Layout => "chunks or guards",
        }
    }

    pub(super) fn parse(self, text: &str) -> Option<Value> {
        match self {
            Takes::Whole => text.parse().ok().map(Value::Whole),
            Takes::Fraction => {
                let number = text.parse::<f64>().ok();
                let number = number.filter(|number| *number > 0.0 && number.is_finite());
                number.map(Value::Fraction)
            }
            Takes::Switch => match text {
                "on" => Some(Value::Switch(true)),
                "off" => Some(Value::Switch(false)),
                _ => None,
            },
            Takes::Compression => text.parse().ok().map(Value::Compression),
            Takes::Layout => text.parse().ok().map(Value::Layout),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Whole(number) => number.fmt(f),
            Value::Fraction(number) => number.fmt(f),
            Value::Switch(true) => f.write_str("on"),
            Value::Switch(false) => f.write_str("off"),
            Value::Compression(compression) => compression.fmt(f),
            Value::Layout(layout) => layout.fmt(f),
        }
    }
}

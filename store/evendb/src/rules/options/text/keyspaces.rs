//! The rows of the options of a keyspace.

use super::access::{Access, Choice, NUMBER, Quantity, SIZE, SWITCH, TIME};
use super::{Of, OptionInfo};
use crate::merge_operator::ready::Merges;
use crate::options::keyspace::{
    APART_LIMITS, BLOCK_BYTES_LIMITS, FILTER_BITS_LIMITS, KeyspaceOptions, NamedOperator,
};
use std::time::Duration;

const fn row(
    name: &'static str,
    default: &'static str,
    access: &'static dyn Access<KeyspaceOptions>,
    about: &'static str,
) -> OptionInfo {
    OptionInfo {
        name,
        group: "keyspace",
        default,
        about,
        of: Of::Keyspace(access),
    }
}

/// A choice whose type reads and writes texts; `auto` is none of its own.
macro_rules! choice {
    ($texts:expr, $place:ident) => {
        &Choice {
            texts: $texts,
            set: |options: &mut KeyspaceOptions, text| {
                options.$place = match text {
                    "auto" => None,
                    text => Some(text.parse()?),
                };
                Ok(true)
            },
            get: |options| match options.$place {
                Some(chosen) => chosen.to_string(),
                None => "auto".to_owned(),
            },
        }
    };
}

/// A size or a number.
macro_rules! number {
    ($kind:expr, $limits:expr, $words:expr, $Type:ty, $place:ident) => {
        &Quantity {
            kind: $kind,
            limits: $limits,
            words: $words,
            // The limits are those of the type, or smaller.
            set: |options: &mut KeyspaceOptions, value| {
                options.$place = value.map(|value| value as $Type);
            },
            get: |options| options.$place.map(|value| value as u64),
        }
    };
}

const ROW_CACHE: Quantity<KeyspaceOptions, bool> = Quantity {
    kind: SWITCH,
    limits: (false, true),
    words: &[("auto", None)],
    set: |options, yes| options.row_cache = yes,
    get: |options| options.row_cache,
};

const TTL: Quantity<KeyspaceOptions, Duration> = Quantity {
    kind: TIME,
    limits: (Duration::from_millis(1), Duration::MAX),
    words: &[("none", None)],
    set: |options, ttl| {
        let none = KeyspaceOptions {
            ttl_millis: None,
            ..std::mem::take(options)
        };
        *options = match ttl {
            Some(ttl) => none.ttl(ttl),
            None => none,
        };
    },
    get: |options| options.ttl_millis.map(Duration::from_millis),
};

/// The name of an operator that comes with the crate may be given without its beginning.
const MERGE_OPERATOR: Choice<KeyspaceOptions> = Choice {
    texts: "none, add-u64, add-i64, max, min, append, union",
    set: |options, text| {
        let full = match text.starts_with(READY) {
            true => text.to_owned(),
            false => format!("{READY}{text}"),
        };
        options.merge_operator = match (text, Merges::named(&full)) {
            ("none", _) => None,
            (_, Some(_)) => Some(NamedOperator::named(&full)),
            (_, None) => return Ok(false),
        };
        Ok(true)
    },
    get: |options| match &options.merge_operator {
        Some(named) => named
            .name
            .strip_prefix(READY)
            .unwrap_or(&named.name)
            .to_owned(),
        None => "none".to_owned(),
    },
};

const READY: &str = "evendb.";

/// All options of a keyspace.
pub(super) static TABLE: [OptionInfo; 8] = [
    row(
        "layout",
        "auto",
        choice!("chunks, guards, auto", layout),
        "How its records lie on the disk; chosen when it is made; auto: as the database says",
    ),
    row(
        "compression",
        "auto",
        choice!("none, lz4, zstd, zstd:1 to zstd:22, auto", compression),
        "Compression of its tables and logs; auto: as the database says",
    ),
    row(
        "filter_bits_per_key",
        "auto",
        number!(
            NUMBER,
            FILTER_BITS_LIMITS,
            &[("auto", None)],
            u32,
            filter_bits_per_key
        ),
        "Bits per key of its tables' filters for absent keys; auto: as the database says",
    ),
    row(
        "block_bytes",
        "auto",
        number!(
            SIZE,
            BLOCK_BYTES_LIMITS,
            &[("auto", None)],
            usize,
            block_bytes
        ),
        "Target size of its tables' blocks before compression; auto: as the database says",
    ),
    row(
        "row_cache",
        "auto",
        &ROW_CACHE,
        "Whether its rows may take room in the row cache; auto: they may",
    ),
    row(
        "merge_operator",
        "none",
        &MERGE_OPERATOR,
        "The operator of merges: one that comes with the library, by its name",
    ),
    row(
        "ttl",
        "none",
        &TTL,
        "How long a value stays that is put without an expiry of its own, in whole milliseconds",
    ),
    row(
        "values_apart_from",
        "auto",
        number!(
            SIZE,
            APART_LIMITS,
            &[("auto", None), ("none", Some(u32::MAX as u64))],
            u32,
            values_apart_from
        ),
        "Values of at least this number of bytes are written into files of their own; auto: as the database says",
    ),
];

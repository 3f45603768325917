//! Options by name and text, until the engine itself has the table of them.

use crate::border::{Failure, Result};
use evendb::{Durability, KeyspaceOptions, Options};
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

const OF_DATABASE: &str = "memory_budget, durability, create_if_missing, error_if_exists, read_only, \
                           accept_log_loss, compression, layout, workers";
const OF_KEYSPACE: &str =
    "layout, compression, filter_bits_per_key, block_bytes, row_cache, values_apart_from, ttl";

fn refused(name: &str, text: &str, wanted: impl Display) -> Box<Failure> {
    Failure::argument(format!("the option {name} is {wanted}, and not {text:?}"))
}

fn unknown(name: &str, known: &str) -> Box<Failure> {
    Failure::argument(format!("there is no option {name:?}; there are {known}"))
}

fn yes(name: &str, text: &str) -> Result<bool> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(refused(name, text, "true or false")),
    }
}

fn number<T: FromStr>(name: &str, text: &str) -> Result<T> {
    let parsed = text.parse();
    parsed.map_err(|_| refused(name, text, "a number"))
}

/// A number of bytes, with or without a binary unit.
fn bytes(name: &str, text: &str) -> Result<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, unit) = text.split_at(digits);
    let shift = match unit.trim_start() {
        "" | "B" => Some(0),
        "KiB" => Some(10),
        "MiB" => Some(20),
        "GiB" => Some(30),
        "TiB" => Some(40),
        _ => None,
    };
    let number = digits.parse::<u64>().ok();
    let bytes = number
        .zip(shift)
        .and_then(|(number, shift)| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| refused(name, text, "a number of bytes, as 64MiB"))
}

fn span(name: &str, text: &str) -> Result<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, unit) = text.split_at(digits);
    let millis = match unit.trim_start() {
        "ms" => Some(1),
        "" | "s" => Some(1000),
        "min" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let number = digits.parse::<u64>().ok();
    let span = number
        .zip(millis)
        .and_then(|(number, millis)| number.checked_mul(millis));
    let span =
        span.ok_or_else(|| refused(name, text, "a time, as 500ms, 30s, 15min, 12h or 7d"))?;
    Ok(Duration::from_millis(span))
}

/// `options` with one option set.
pub(super) fn set(options: Options, name: &str, text: &str) -> Result<Options> {
    Ok(match name {
        "memory_budget" => options.memory_budget(bytes(name, text)?),
        "durability" => options.durability(match text {
            "relaxed" => Durability::Relaxed,
            "process" => Durability::Process,
            "sync" => Durability::Sync,
            _ => return Err(refused(name, text, "relaxed, process or sync")),
        }),
        "create_if_missing" => options.create_if_missing(yes(name, text)?),
        "error_if_exists" => options.error_if_exists(yes(name, text)?),
        "read_only" => options.read_only(yes(name, text)?),
        "accept_log_loss" => options.accept_log_loss(yes(name, text)?),
        "compression" => options.compression(text.parse()?),
        "layout" => options.layout(text.parse()?),
        "workers" => options.workers(number(name, text)?),
        _ => return Err(unknown(name, OF_DATABASE)),
    })
}

/// `options` with one option of a keyspace set.
pub(super) fn set_of_keyspace(
    options: KeyspaceOptions,
    name: &str,
    text: &str,
) -> Result<KeyspaceOptions> {
    Ok(match name {
        "layout" => options.layout(text.parse()?),
        "compression" => options.compression(text.parse()?),
        "filter_bits_per_key" => options.filter_bits_per_key(number(name, text)?),
        "block_bytes" => {
            let bytes = bytes(name, text)?;
            options.block_bytes(usize::try_from(bytes).unwrap_or(usize::MAX))
        }
        "row_cache" => options.row_cache(yes(name, text)?),
        "values_apart_from" => {
            let bytes = bytes(name, text)?;
            let bytes = u32::try_from(bytes);
            options.values_apart_from(bytes.map_err(|_| refused(name, text, "at most 4 GiB"))?)
        }
        "ttl" => options.ttl(span(name, text)?),
        _ => return Err(unknown(name, OF_KEYSPACE)),
    })
}

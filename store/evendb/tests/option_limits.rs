//! Every setter of every option, tried with 0, 1, the greatest value, and values beyond: the
//! database works, or says which option is wrong.

mod common;

use common::public::{functions, tried, words};
use evendb::vfs::SimVfs;
use evendb::{
    Compression, Db, Error, ErrorKind, GuardOptions, KeyspaceOptions, Layout, LogSearch, Options,
    Result,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const U32: u64 = u32::MAX as u64;

/// They choose one of a few values, or an object, or take nothing.
const CHOICES: &str = "Options::set Options::table Options::text_of KeyspaceOptions::set \
    KeyspaceOptions::table KeyspaceOptions::text_of Options::new Options::open Options::durability Options::create_if_missing \
    Options::error_if_exists Options::read_only Options::accept_log_loss Options::advanced Options::vfs \
    Options::open_beside_writer Advanced::shared Advanced::wall_clock Advanced::encryption Advanced::munks Advanced::warm_reopening Advanced::row_cache \
    Advanced::commit_log_mapped Advanced::undo KeyspaceOptions::new KeyspaceOptions::row_cache \
    KeyspaceOptions::merge_operator KeyspaceOptions::chosen Options::layout KeyspaceOptions::layout \
    Advanced::guards GuardOptions::compaction_by_seeks GuardOptions::parallel_seeks";

/// A number with its limits and the greatest value of its type.
struct Number<T> {
    name: &'static str,
    limits: (u64, u64),
    type_max: u64,
    set: fn(T, u64) -> T,
}

fn number<T>(
    name: &'static str,
    limits: (u64, u64),
    type_max: u64,
    set: fn(T, u64) -> T,
) -> Number<T> {
    Number {
        name,
        limits,
        type_max,
        set,
    }
}

macro_rules! advanced {
    ($name:ident, $limits:expr, $type:ident) => {
        number(
            concat!("Advanced::", stringify!($name)),
            $limits,
            $type::MAX as u64,
            |options: Options, value| options.advanced(|all| all.$name(value as $type)),
        )
    };
}

macro_rules! guards {
    ($name:ident, $limits:expr, $set:expr) => {
        number(
            concat!("GuardOptions::", stringify!($name)),
            $limits,
            u64::MAX,
            |options: Options, value| {
                let set: fn(GuardOptions, u64) -> GuardOptions = $set;
                let options = options.layout(Layout::Guards);
                options.advanced(|all| all.guards(|guards| set(guards, value)))
            },
        )
    };
}

fn numbers() -> Vec<Number<Options>> {
    let any = (1, u64::MAX);
    let any_or_none = (0, u64::MAX);
    vec![
        number(
            "Options::memory_budget",
            (1 << 20, 16 << 40),
            u64::MAX,
            Options::memory_budget,
        ),
        number("Options::workers", (0, 256), u64::MAX, |options, value| {
            options.workers(value as usize)
        }),
        number(
            "Options::stats_interval",
            (0, 86_400_000),
            u64::MAX,
            |options, value| options.stats_interval(Duration::from_millis(value)),
        ),
        number(
            "Advanced::wait_for_lock",
            any_or_none,
            u64::MAX,
            |options, value| options.advanced(|all| all.wait_for_lock(Duration::from_secs(value))),
        ),
        number("Options::compression", (1, 22), 255, |options, value| {
            let level = value as u8;
            options.compression(Compression::Zstd { level })
        }),
        guards!(max_files_per_guard, (1, 1024), |all, value| {
            all.max_files_per_guard(value as usize)
        }),
        guards!(level0_runs, (1, 1 << 16), |all, value| {
            all.level0_runs(value as usize, value as usize)
        }),
        guards!(last_guard_bytes, (1, 1 << 40), |all, value| all
            .last_guard_bytes(value)),
        guards!(table_bytes_max, (1, 1 << 40), |all, value| all
            .table_bytes_max(value)),
        advanced!(chunk_bytes, (256, 1 << 30), u64),
        advanced!(filter_bits_per_key, (0, 64), u32),
        number(
            "Advanced::log_search",
            (1, 1024),
            u64::MAX,
            |options, value| {
                let split_factor = value as usize;
                options.advanced(|all| all.log_search(LogSearch::Bloom { split_factor }))
            },
        ),
        number(
            "Advanced::log_bytes_limits",
            (256, 1 << 40),
            u64::MAX,
            |options, value| options.advanced(|all| all.log_bytes_limits(value, value)),
        ),
        advanced!(block_bytes, (64, 1 << 20), usize),
        advanced!(commit_log_bytes, (64 << 10, 1 << 40), u64),
        // A simulated disk has no limit of its own.
        advanced!(open_files_max, any, u64),
        advanced!(value_file_bytes, (4 << 10, 1 << 40), u64),
        advanced!(value_file_live_percent, (0, 90), u32),
        number(
            "Advanced::values_apart_from",
            (1, U32),
            U32,
            |options, value| options.advanced(|all| all.values_apart_from(Some(value as u32))),
        ),
    ]
}

/// 0 is allowed and means none; values between it and the least are not allowed.
fn keep_changes() -> Number<Options> {
    advanced!(keep_changes_bytes, (64 << 10, 1 << 40), u64)
}

fn of_keyspaces() -> Vec<Number<KeyspaceOptions>> {
    vec![
        number(
            "KeyspaceOptions::compression",
            (1, 22),
            255,
            |options, value| {
                let level = value as u8;
                options.compression(Compression::Zstd { level })
            },
        ),
        number(
            "KeyspaceOptions::filter_bits_per_key",
            (0, 64),
            U32,
            |options, value| options.filter_bits_per_key(value as u32),
        ),
        number(
            "KeyspaceOptions::block_bytes",
            (64, 1 << 20),
            u64::MAX,
            |options, value| options.block_bytes(value as usize),
        ),
        number(
            "KeyspaceOptions::ttl",
            (1, u64::MAX),
            u64::MAX,
            |options, value| options.ttl(Duration::from_millis(value)),
        ),
        number(
            "KeyspaceOptions::values_apart_from",
            (1, U32),
            U32,
            |options, value| options.values_apart_from(value as u32),
        ),
    ]
}

/// Options of a small database on a disk of 256 MiB.
fn small() -> Options {
    let vfs = SimVfs::new(1);
    vfs.set_capacity(256 << 20);
    Options::new()
        .memory_budget(4 << 20)
        .workers(1)
        .vfs(Arc::new(vfs))
}

/// Puts and reads, before and after closing.
fn use_it(options: &Options, of_keyspace: &KeyspaceOptions) -> Result<()> {
    for life in 0..2u8 {
        let db = options.clone().open("/db")?;
        let keyspace = db.keyspace_with("own", of_keyspace)?;
        for number in 0..200 {
            keyspace.put(format!("{number:03}"), [life; 100])?;
        }
        db.flush()?;
        look(&db, &keyspace)?;
        db.settle_debt()?;
        look(&db, &keyspace)?;
        db.close()?;
    }
    Ok(())
}

fn look(db: &Db, keyspace: &evendb::Keyspace) -> Result<()> {
    let is_short = keyspace.options()?.chosen().any(|(name, value)| {
        // Such values may be gone before they are read.
        name == "ttl_millis" && value == "1"
    });
    let found = keyspace
        .iter()
        .try_fold(0, |count, item| item.map(|_| count + 1))?;
    assert!(found == 200 || is_short, "{found} records");
    assert!(keyspace.get("007")?.is_some() || is_short);
    assert!(db.stats().puts > 0);
    Ok(())
}

/// Returns what is wrong with the outcome, if anything is.
fn judge(name: &str, value: u64, is_allowed: bool, outcome: Result<()>) -> Option<String> {
    let kind = outcome.as_ref().err().map(Error::kind);
    let is_right = match (is_allowed, kind) {
        // A disk of that size is not large enough for the room that may be reserved; this build has
        // no Zstandard.
        (true, kind) => matches!(
            kind,
            None | Some(ErrorKind::NoSpace | ErrorKind::Unsupported)
        ),
        (false, kind) => kind == Some(ErrorKind::InvalidArgument),
    } || {
        // A simulated disk has no files of a terabyte.
        is_allowed && name == "Advanced::commit_log_bytes" && kind == Some(ErrorKind::Io)
    };
    (!is_right).then(|| format!("{name}({value}): {outcome:?}"))
}

#[test]
fn every_number_of_the_options_is_refused_outside_of_its_limits_and_works_within() {
    let mut wrong = Vec::new();
    let none = KeyspaceOptions::new();
    for Number {
        name,
        limits,
        type_max,
        set,
    } in numbers()
    {
        for (value, is_allowed) in tried(limits, type_max) {
            let outcome = use_it(&set(small(), value), &none);
            wrong.extend(judge(name, value, is_allowed, outcome));
        }
    }
    let keep = keep_changes();
    for (value, is_allowed) in tried(keep.limits, keep.type_max) {
        let outcome = use_it(&(keep.set)(small(), value), &none);
        wrong.extend(judge(keep.name, value, is_allowed || value == 0, outcome));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_number_of_a_keyspace_is_refused_outside_of_its_limits_and_works_within() {
    let mut wrong = Vec::new();
    for own in of_keyspaces() {
        for (value, is_allowed) in tried(own.limits, own.type_max) {
            let options = (own.set)(KeyspaceOptions::new(), value);
            wrong.extend(judge(
                own.name,
                value,
                is_allowed,
                use_it(&small(), &options),
            ));
        }
    }
    let longest = KeyspaceOptions::new().ttl(Duration::MAX);
    wrong.extend(judge(
        "ttl of the longest time",
        0,
        true,
        use_it(&small(), &longest),
    ));
    let shortest = KeyspaceOptions::new().ttl(Duration::from_nanos(1));
    wrong.extend(judge(
        "ttl of a nanosecond",
        0,
        false,
        use_it(&small(), &shortest),
    ));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn fractions_and_times_outside_of_their_limits_are_refused() {
    let mut wrong = Vec::new();
    let mut try_one = |name: &str, is_allowed: bool, options: Options| {
        let outcome = use_it(&options, &KeyspaceOptions::new());
        wrong.extend(judge(name, 0, is_allowed, outcome));
    };
    for (value, is_allowed) in [
        (1.01, true),
        (10.0, true),
        (0.0, false),
        (1.0, false),
        (10.01, false),
        (f64::MAX, false),
        (f64::NAN, false),
    ] {
        let name = format!("space_amplification {value}");
        try_one(&name, is_allowed, small().space_amplification(value));
    }
    for (value, is_allowed) in [
        (0.0, true),
        (1.0, true),
        (-0.1, false),
        (1.1, false),
        (f64::MAX, false),
        (f64::NAN, false),
    ] {
        let options = small().advanced(|all| all.row_cache_share(Some(value)));
        try_one(&format!("row_cache_share {value}"), is_allowed, options);
    }
    for (value, is_allowed) in [
        (Duration::ZERO, true),
        (Duration::from_millis(1), true),
        (Duration::from_nanos(1), false),
        (Duration::MAX, false),
    ] {
        let name = format!("stats_interval {value:?}");
        try_one(&name, is_allowed, small().stats_interval(value));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_setter_is_tried_or_chooses_one_of_a_few() {
    let mut known: BTreeSet<String> = words(CHOICES);
    known.extend(words(
        "Options::space_amplification Advanced::row_cache_share Advanced::keep_changes_bytes",
    ));
    known.extend(numbers().iter().map(|number| number.name.to_owned()));
    known.extend(of_keyspaces().iter().map(|number| number.name.to_owned()));
    let types = ["Options", "Advanced", "GuardOptions", "KeyspaceOptions"];
    assert_eq!(functions(&types, &[]), known);
}

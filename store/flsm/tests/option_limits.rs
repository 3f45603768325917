//! Every setter of every option, tried with 0, 1, the greatest value and values beyond: the
//! database works, or says which option is wrong.

#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers fail where they fail"
)]

mod common;

use common::public::{functions, tried, words};
use evendb_flsm::vfs::SimVfs;
use evendb_flsm::{Error, ErrorKind, Options, Result};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// These options choose one of a few values, or take an object, or take nothing.
const CHOICES: &str = "Options::new Options::open Options::durability Options::create_if_missing \
    Options::error_if_exists Options::read_only Options::advanced Options::vfs Advanced::compression \
    Advanced::parallel_seeks Advanced::compaction_by_seeks";

/// A number with its limits and the greatest number of its type.
struct Number {
    name: &'static str,
    limits: (u64, u64),
    type_max: u64,
    set: fn(Options, u64) -> Options,
}

macro_rules! advanced {
    ($name:ident, $limits:expr, $type:ident) => {
        Number {
            name: concat!("Advanced::", stringify!($name)),
            limits: $limits,
            type_max: $type::MAX as u64,
            set: |options, value| options.advanced(|all| all.$name(value as $type)),
        }
    };
}

fn numbers() -> Vec<Number> {
    vec![
        Number {
            name: "Options::memory_budget",
            limits: (64 << 10, 16 << 40),
            type_max: u64::MAX,
            set: Options::memory_budget,
        },
        Number {
            name: "Advanced::wait_for_lock",
            limits: (0, u64::MAX),
            type_max: u64::MAX,
            set: |options, value| {
                options.advanced(|all| all.wait_for_lock(Duration::from_secs(value)))
            },
        },
        advanced!(write_buffer_bytes, (4 << 10, 1 << 30), u64),
        advanced!(table_bytes_max, (1, 1 << 40), u64),
        advanced!(last_guard_bytes, (1, 1 << 40), u64),
        advanced!(max_files_per_guard, (1, 1024), usize),
        Number {
            name: "Advanced::level0_tables",
            limits: (1, 64 << 10),
            type_max: u64::MAX,
            set: |options, value| {
                let tables = value as usize;
                options.advanced(|all| all.level0_tables(tables, tables, tables))
            },
        },
        advanced!(block_bytes, (64, 1 << 20), usize),
        advanced!(filter_bits_per_key, (0, 40), u32),
        advanced!(compaction_threads, (1, 256), usize),
        advanced!(cache_bytes, (0, 16 << 40), u64),
        // A simulated disk has no limit of its own.
        advanced!(open_files_max, (1, u64::MAX), u64),
    ]
}

/// Options of a small database on a disk of 256 MiB.
fn small() -> Options {
    let vfs = SimVfs::new(1);
    vfs.set_capacity(256 << 20);
    let options = Options::new().memory_budget(1 << 20);
    options.vfs(Arc::new(vfs))
}

/// Puts and reads, before and after it is closed, and does everything that compactions can do.
fn use_it(options: &Options) -> Result<()> {
    for life in 0..2u8 {
        let db = options.clone().open("/db")?;
        for round in 0..3 {
            for number in 0..100 {
                db.put(format!("{:03}", number * 2 + round % 2), [life; 100])?;
            }
            db.flush()?;
        }
        db.settle_debt()?;
        db.compact()?;
        let found = db
            .iter()
            .try_fold(0, |count, item| item.map(|_| count + 1))?;
        assert_eq!(found, 200, "records");
        assert_eq!(db.get("007")?.unwrap()[..], [life; 100]);
        db.close()?;
    }
    Ok(())
}

#[test]
fn every_number_of_the_options_is_refused_outside_of_its_limits_and_works_within() {
    let mut wrong = Vec::new();
    for number in numbers() {
        for (value, is_allowed) in tried(number.limits, number.type_max) {
            let outcome = use_it(&(number.set)(small(), value));
            let kind = outcome.as_ref().err().map(Error::kind);
            let right = (!is_allowed).then_some(ErrorKind::InvalidArgument);
            let option = number.name.split("::").nth(1).unwrap();
            let is_named = |error: &Error| error.to_string().contains(option);
            if kind != right || !outcome.as_ref().err().is_none_or(is_named) {
                wrong.push(format!("{}({value}): {outcome:?}", number.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn thresholds_of_level_0_that_do_not_ascend_are_refused() {
    for (compact, slow, stop) in [(4, 3, 12), (4, 8, 7), (2, 1, 1)] {
        let options = small().advanced(|all| all.level0_tables(compact, slow, stop));
        let refused = use_it(&options).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn every_setter_is_tried_or_chooses_one_of_a_few() {
    let mut known: BTreeSet<String> = words(CHOICES);
    known.extend(numbers().iter().map(|number| number.name.to_owned()));
    assert_eq!(functions(&["Options", "Advanced"], &[]), known);
}

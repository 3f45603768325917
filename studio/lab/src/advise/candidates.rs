//! Settings that are worth trying, each with the reason and the loads for which it is tried.
//!
//! They stand in one table. `advise` tries the rows that suit the load. Its exhaustive check tries
//! all rows, which shows a condition that leaves the best settings out. The first candidate is the
//! default, and all others are compared with it.

use super::load::Load;
use crate::stores::evendb::tuning::Tuning;

/// Settings that are tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The settings that differ from the default, without the settings that the user fixed.
    pub tuning: Tuning,
    /// Why it may serve this load.
    pub reason: String,
}

impl Candidate {
    /// A name for tables: its settings.
    #[must_use]
    pub fn name(&self) -> String {
        match self.tuning.is_empty() {
            true => DEFAULT.to_owned(),
            false => self.tuning.to_string(),
        }
    }
}

/// The name of the candidate that changes no setting.
pub const DEFAULT: &str = "default";

struct Row {
    settings: &'static str,
    reason: &'static str,
    /// Whether it is tried for a load. The number is the size of the data divided by the memory.
    suits: fn(&Load, f64) -> bool,
}

/// The order in which they are tried if there is no time for all.
const ROWS: [Row; 15] = [
    Row {
        settings: "chunk-bytes=1048576",
        reason: "smaller chunks keep less cold data in RAM beside scattered hot keys",
        suits: |load, ratio| ratio > 0.8 && load.share(load.scans) < 0.5,
    },
    Row {
        settings: "layout=guards",
        reason: "guards append what is written anywhere to sorted fragments, and single blocks are read of what is not in RAM",
        suits: suits_fragments,
    },
    Row {
        settings: "row-cache-share=0.8",
        reason: "single rows take less memory than whole spans where hot keys are scattered",
        suits: |load, ratio| ratio > 1.0 && is_looked_up(load) && !load.is_local(),
    },
    Row {
        settings: "row-cache=off",
        reason: "whole spans serve scans, writes, hot ranges and large values; rows take memory from them",
        suits: |load, ratio| {
            let is_large = load.value_bytes_p90 >= 1024;
            ratio > 0.5 && (scans(load) || load.is_local() || writes(load) || is_large)
        },
    },
    Row {
        settings: "memory-share=0.5",
        reason: "the system's cache of files holds blocks and not whole spans, which suits what is asked for evenly",
        suits: |_, ratio| ratio > 1.0,
    },
    Row {
        settings: "block-bytes=1024",
        reason: "a lookup from disk reads one block, and records are small",
        suits: |load, ratio| ratio > 1.0 && is_looked_up(load) && load.record_bytes() < 400.0,
    },
    Row {
        settings: "space-amplification=2",
        reason: "more space for logs means less rewriting of what is overwritten",
        suits: |load, _| writes(load),
    },
    Row {
        settings: "layout=guards max-files-per-guard=1",
        reason: "one fragment in a guard makes a leveled tree: reads and scans look at fewer, and more is written",
        suits: |load, ratio| suits_fragments(load, ratio) && (is_looked_up(load) || scans(load)),
    },
    Row {
        settings: "layout=guards max-files-per-guard=4",
        reason: "with more fragments in a guard less is written, and reads look at more",
        suits: |load, ratio| suits_fragments(load, ratio) && load.share(load.writes) >= 0.5,
    },
    Row {
        settings: "filter-bits-per-key=10",
        reason: "lookups of keys that are not there are answered without reading",
        suits: |load, _| load.absent_share() >= 0.03,
    },
    Row {
        settings: "values-apart-from=1024",
        reason: "large values are written once, and do not move when chunks are rewritten",
        suits: |load, _| load.value_bytes_p90 >= 1024 && writes(load),
    },
    Row {
        settings: "compression=lz4",
        reason: "the trace has values, so it shows how well they compress: less is read and written",
        suits: |load, _| load.has_values,
    },
    Row {
        settings: "chunk-bytes=10485760",
        reason: "larger chunks take less memory for their structure, and are rewritten less often",
        suits: |load, ratio| ratio > 0.8 || scans(load) || load.appended > 0.5,
    },
    Row {
        settings: "block-bytes=16384",
        reason: "scans read many records of a block, and fewer blocks",
        suits: |load, _| scans(load) && !are_short(load),
    },
    Row {
        settings: "munks=off",
        reason: "without spans in RAM all memory goes to single rows",
        suits: |load, ratio| {
            ratio > 2.0 && is_looked_up(load) && load.is_skewed() && !load.is_local()
        },
    },
];

fn is_looked_up(load: &Load) -> bool {
    load.share(load.point_reads) >= 0.3
}

fn writes(load: &Load) -> bool {
    load.share(load.writes) >= 0.1
}

/// A scan of at least this number of records finds them beside each other in a chunk.
const LONG_SCAN: f64 = 20.0;

fn are_short(load: &Load) -> bool {
    load.records_per_scan()
        .is_none_or(|records| records < LONG_SCAN)
}

/// Follows the figures of docs/guards.md ("When to choose it"): what is written, and what is looked
/// up or sought one by one beyond memory.
fn suits_fragments(load: &Load, ratio: f64) -> bool {
    let is_read_singly = ratio > 1.0 && (is_looked_up(load) || scans(load) && are_short(load));
    writes(load) || is_read_singly
}

fn scans(load: &Load) -> bool {
    load.scanned > load.point_reads + load.writes
}

/// The candidates that suit a load, the default first. No candidate sets what the user fixed.
///
/// # Panics
/// If the table holds something that is no setting. A test looks for that.
#[must_use]
pub fn suitable(load: &Load, memory_bytes: u64, fixed: &Tuning) -> Vec<Candidate> {
    let ratio = load.data_bytes as f64 / memory_bytes.max(1) as f64;
    of_rows(fixed, |row| (row.suits)(load, ratio))
}

/// All candidates for every load, the default first.
#[must_use]
pub fn all(fixed: &Tuning) -> Vec<Candidate> {
    of_rows(fixed, |_| true)
}

fn of_rows(fixed: &Tuning, suits: impl Fn(&Row) -> bool) -> Vec<Candidate> {
    let default = Candidate {
        tuning: Tuning::new(),
        reason: "what the benchmarks run with".to_owned(),
    };
    let candidate = |row: &Row| {
        let tuning: Tuning = row.settings.parse().expect("the table has settings");
        fixed.and(&tuning).is_some().then(|| Candidate {
            tuning,
            reason: row.reason.to_owned(),
        })
    };
    let rows = ROWS.iter().filter(|row| suits(row));
    std::iter::once(default)
        .chain(rows.filter_map(candidate))
        .collect()
}

/// Both candidates together. None if they set the same thing, or contradict each other.
#[must_use]
pub fn together(one: &Candidate, other: &Candidate) -> Option<Candidate> {
    let tuning = one.tuning.and(&other.tuning)?;
    let contradict = |a: &str, b: &str| tuning.sets(a) && tuning.sets(b);
    if contradict("munks", "row-cache-share") || contradict("munks", "row-cache") {
        return None;
    }
    if contradict("row-cache", "row-cache-share") {
        return None;
    }
    Some(Candidate {
        reason: format!("both were better alone: {}; {}", one.reason, other.reason),
        tuning,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn names(load: &Load, memory_bytes: u64) -> Vec<String> {
        let candidates = suitable(load, memory_bytes, &Tuning::new());
        candidates.iter().map(Candidate::name).collect()
    }

    fn lookups() -> Load {
        Load {
            operations: 1000,
            point_reads: 1000,
            answered: 1000,
            key_bytes: 20.0,
            value_bytes: 100.0,
            data_bytes: 400 * MIB,
            hottest_10: 0.8,
            hottest_ranges_10: 0.15,
            ..Load::default()
        }
    }

    #[test]
    fn scattered_lookups_beyond_memory_try_rows_and_small_blocks() {
        let names = names(&lookups(), 100 * MIB);
        for wanted in [
            "default",
            "row-cache-share=0.8",
            "block-bytes=1024",
            "munks=off",
            "chunk-bytes=1048576",
        ] {
            assert!(
                names.iter().any(|name| name == wanted),
                "{wanted}: {names:?}"
            );
        }
        for unwanted in ["row-cache=off", "filter-bits-per-key=10", "compression=lz4"] {
            assert!(names.iter().all(|name| name != unwanted), "{unwanted}");
        }
        assert_eq!(names[0], DEFAULT);
    }

    #[test]
    fn what_fits_into_memory_is_left_as_it_is() {
        assert_eq!(names(&lookups(), 4000 * MIB), [DEFAULT]);
    }

    #[test]
    fn scans_try_spans_and_large_blocks() {
        let load = Load {
            operations: 1000,
            scans: 950,
            writes: 50,
            scanned: 95_000,
            data_bytes: 400 * MIB,
            ..Load::default()
        };
        let names = names(&load, 100 * MIB);
        for wanted in ["row-cache=off", "block-bytes=16384", "chunk-bytes=10485760"] {
            assert!(
                names.iter().any(|name| name == wanted),
                "{wanted}: {names:?}"
            );
        }
        assert!(!names.iter().any(|name| name == "block-bytes=1024"));
    }

    #[test]
    fn absent_keys_large_values_and_known_values_have_their_candidates() {
        let load = Load {
            absent: 100,
            writes: 200,
            value_bytes_p90: 5000,
            has_values: true,
            ..lookups()
        };
        let names = names(&load, 100 * MIB);
        for wanted in [
            "filter-bits-per-key=10",
            "values-apart-from=1024",
            "compression=lz4",
            "space-amplification=2",
        ] {
            assert!(
                names.iter().any(|name| name == wanted),
                "{wanted}: {names:?}"
            );
        }
    }

    #[test]
    fn guards_are_tried_for_what_writes_or_is_read_singly_beyond_memory() {
        let within = |load: &Load, memory_bytes: u64| -> Vec<String> {
            let names = names(load, memory_bytes).into_iter();
            names
                .filter(|name| name.contains("layout=guards"))
                .collect()
        };
        let guards = |load: &Load| within(load, 100 * MIB);
        assert!(within(&lookups(), 500 * MIB).is_empty());
        let half = Load {
            point_reads: 500,
            writes: 500,
            ..lookups()
        };
        let [fragments, leveled, more] = [
            "layout=guards",
            "layout=guards max-files-per-guard=1",
            "layout=guards max-files-per-guard=4",
        ];
        assert_eq!(guards(&lookups()), [fragments, leveled]);
        assert_eq!(guards(&half), [fragments, leveled, more]);
        assert_eq!(within(&half, 500 * MIB), [fragments, leveled, more]);
        let seeks = |scanned: u64| Load {
            point_reads: 0,
            scans: 1000,
            scanned,
            ..lookups()
        };
        assert_eq!(guards(&seeks(1000)), [fragments, leveled]);
        assert!(guards(&seeks(100_000)).is_empty());
        let mostly_reads = Load {
            point_reads: 800,
            writes: 200,
            ..lookups()
        };
        assert_eq!(guards(&mostly_reads), [fragments, leveled]);
    }

    #[test]
    fn what_is_fixed_is_not_tried() {
        let fixed: Tuning = "chunk-bytes=65536 munks=on".parse().unwrap();
        let candidates = all(&fixed);
        // Not tried: two sizes of chunks, munks, and three rows of guards, which have
        // neither.
        assert_eq!(candidates.len(), ROWS.len() + 1 - 3 - 3);
        assert!(
            candidates
                .iter()
                .all(|one| fixed.and(&one.tuning).is_some())
        );
    }

    #[test]
    fn two_go_together_unless_they_contradict() {
        let of = |text: &str| Candidate {
            tuning: text.parse().unwrap(),
            reason: String::new(),
        };
        let both = together(&of("chunk-bytes=65536"), &of("row-cache=off")).unwrap();
        assert_eq!(both.name(), "chunk-bytes=65536 row-cache=off");
        assert_eq!(together(&of("munks=off"), &of("row-cache-share=0.8")), None);
        assert_eq!(together(&of("munks=off"), &of("munks=on")), None);
        assert_eq!(together(&of("munks=off"), &of("layout=guards")), None);
        let of_both = together(&of("layout=guards"), &of("block-bytes=1024"));
        assert!(of_both.is_some_and(|both| both.name() == "layout=guards block-bytes=1024"));
    }
}

//! The claims of the slides on PebblesDB (SOSP'17) as data, each with its conditions: what is put,
//! in which order, and what is asked then.
//!
//! Numbers of pairs are the slides', in millions. [`Claim::pairs`] scales them together with the
//! memory, so that the ratio of data to memory is that of the slides. A pair has as many bytes as
//! theirs: keys have two bytes less than their 16, and values two more.

use crate::dataset::KEY_BYTES;
use crate::mix::Mix;

/// The memory of the slides' machine.
pub const SLIDES_MEMORY_BYTES: u64 = 16 << 30;
/// The slides' keys.
const SLIDES_KEY_BYTES: usize = 16;

/// One claim: a store that is filled, and what is asked of it then.
#[derive(Debug)]
pub struct Claim {
    /// The experiment's name in results.
    pub name: &'static str,
    /// What the slides say, or the conditions under which they say it.
    pub says: &'static str,
    /// Pairs of one generation.
    millions: u64,
    /// Bytes of a value in the slides, without the key.
    value_bytes: usize,
    /// The memory divided by that of the slides' machine.
    memory: f64,
    /// The phases, in this order.
    pub phases: &'static [Phase],
}

/// One measured phase.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// The cell's name in results, unique within its claim.
    pub name: &'static str,
    pub work: Work,
    pub threads: usize,
    /// Whether its debt is paid at its end and charged to it.
    pub pays: bool,
    /// Whether it is warmed by reads of its kind.
    pub warmed: bool,
}

/// The work of a phase. Shares are relative to the number of pairs of one generation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// Puts each pair of a generation once, in random order. Keys of a generation lie after the
    /// keys of the one before.
    Fill { generation: u64 },
    /// Deletes pairs of the generation that was put last, drawn at random.
    Delete(f64),
    /// Puts existing pairs again, drawn at random.
    Overwrite(f64),
    /// Gets existing pairs.
    Get(f64),
    /// Seeks an existing pair, and reads this number of pairs from it on.
    Scan(f64, usize),
    /// Half of the threads put pairs again, the others get.
    PutAndGet(f64),
    /// A mix of YCSB over the first generation, Zipf-distributed.
    Ycsb(Mix, f64),
}

impl Work {
    /// Whether the phase must finish, however long that takes, since later phases build on it.
    pub fn must_finish(self) -> bool {
        matches!(
            self,
            Work::Fill { .. } | Work::Delete(_) | Work::Overwrite(_)
        )
    }

    /// The number of operations, for this number of pairs of a generation.
    pub fn operations(self, pairs: u64) -> u64 {
        let share = match self {
            Work::Fill { .. } => 1.0,
            Work::Delete(share)
            | Work::Overwrite(share)
            | Work::Get(share)
            | Work::Scan(share, _)
            | Work::PutAndGet(share)
            | Work::Ycsb(_, share) => share,
        };
        ((pairs as f64 * share) as u64).max(1)
    }
}

const fn write(name: &'static str, work: Work) -> Phase {
    Phase {
        name,
        work,
        threads: 1,
        pays: true,
        warmed: false,
    }
}

const fn read(name: &'static str, work: Work) -> Phase {
    Phase {
        name,
        work,
        threads: 1,
        pays: false,
        warmed: true,
    }
}

impl Phase {
    const fn by_threads(self, threads: usize) -> Phase {
        Phase { threads, ..self }
    }

    const fn owing(self) -> Phase {
        Phase {
            pays: false,
            ..self
        }
    }

    const fn paying(self) -> Phase {
        Phase { pays: true, ..self }
    }

    const fn cold(self) -> Phase {
        Phase {
            warmed: false,
            ..self
        }
    }

    const fn ycsb(name: &'static str, mix: Mix) -> Phase {
        let phase = read(name, Work::Ycsb(mix, 0.2)).by_threads(4);
        match mix {
            Mix::C => phase,
            _ => phase.paying(),
        }
    }
}

const FIRST: Work = Work::Fill { generation: 0 };
/// Records of a short scan.
const SHORT: usize = 50;

/// All claims.
pub const CLAIMS: [Claim; 11] = [
    Claim {
        name: "write-amplification",
        says: "500 M pairs of 16 + 128 bytes (\"45 GB\" in the slides; the product is 72 GB): write amplification 2.4 to 3 times \
               lower than RocksDB's",
        millions: 500,
        value_bytes: 128,
        memory: 1.0,
        phases: &[write("random fill", FIRST)],
    },
    Claim {
        name: "db-bench",
        says: "50 M pairs of 16 + 1,024 bytes, 3 times the memory; 10 M reads, 10 M seeks: writes 3 to 6.7 times RocksDB's; \
               171 % of a processor against 98 to 110 %; 300 MB of memory for 106 GB",
        millions: 50,
        value_bytes: 1024,
        memory: 1.0,
        phases: &[
            write("random fill", FIRST),
            read("reads", Work::Get(0.2)),
            read("seeks", Work::Scan(0.2, 1)),
            read("short scans", Work::Scan(0.02, SHORT)),
        ],
    },
    Claim {
        name: "unsettled",
        says: "Seeks and short scans of the same pairs while compaction is owed: begun right behind the fill; what is still owed \
               behind the scans is charged to them",
        millions: 50,
        value_bytes: 1024,
        memory: 1.0,
        phases: &[
            write("random fill, debt unpaid", FIRST).owing(),
            read("seeks", Work::Scan(0.1, 1)).cold(),
            read("short scans", Work::Scan(0.01, SHORT)).cold().paying(),
        ],
    },
    Claim {
        name: "threads",
        says: "4 x 10 M writes, 4 x 10 M reads, 2 + 2 threads mixed",
        millions: 40,
        value_bytes: 1024,
        memory: 1.0,
        phases: &[
            write("4 writers", FIRST).by_threads(4),
            read("4 readers", Work::Get(1.0)).by_threads(4),
            read("2 writers, 2 readers", Work::PutAndGet(1.0))
                .by_threads(4)
                .paying(),
        ],
    },
    Claim {
        // With the slides' ratio of pairs to memory, all pairs would stay in memory tables at the
        // scales that fit here. So pairs and memory are both multiplied by 16 before they are
        // scaled: at 1/16 the number of pairs suffices, and so does the room for caches.
        name: "cached",
        says: "1 M pairs of 16 + 1,024 bytes, which all fit the caches; also with one file per guard (guards-1); here 16 M by \
               the scale, in 4 times as much memory",
        millions: 16,
        value_bytes: 1024,
        memory: 4.0,
        phases: &[
            write("random fill", FIRST),
            read("reads", Work::Get(1.0)),
            read("seeks", Work::Scan(1.0, 1)),
        ],
    },
    Claim {
        name: "small-pairs",
        says: "300 M pairs of 16 + 128 bytes",
        millions: 300,
        value_bytes: 128,
        memory: 1.0,
        phases: &[
            write("random fill", FIRST),
            read("reads", Work::Get(0.2)),
            read("seeks", Work::Scan(0.2, 1)),
        ],
    },
    Claim {
        name: "aged",
        says: "An aged store: 50 M inserted, 20 M deleted, 20 M updated, in random order. (The slides' file system was aged too, \
               89 % full; here it is not.)",
        millions: 50,
        value_bytes: 1024,
        memory: 1.0,
        phases: &[
            write("random fill", FIRST),
            write("deletes", Work::Delete(0.4)),
            write("updates", Work::Overwrite(0.4)),
            read("reads", Work::Get(0.2)),
            read("seeks", Work::Scan(0.2, 1)),
            read("short scans", Work::Scan(0.02, SHORT)),
        ],
    },
    Claim {
        name: "low-memory",
        says: "100 M pairs of 16 + 1,024 bytes with 4 GB of memory, a 26th of the data",
        millions: 100,
        value_bytes: 1024,
        memory: 0.25,
        phases: &[
            write("random fill", FIRST),
            read("reads", Work::Get(0.1)),
            read("seeks", Work::Scan(0.1, 1)),
        ],
    },
    Claim {
        name: "empty-guards",
        says: "20 M pairs of 16 + 512 bytes, then as many new ones after the old are deleted, again and again: about 9,000 empty \
               guards, and reads as fast as before",
        millions: 20,
        value_bytes: 512,
        memory: 1.0,
        phases: &[
            write("random fill", FIRST),
            read("reads without empty guards", Work::Get(0.5)),
            write("deletes of all", Work::Delete(1.0)).owing(),
            write("new keys", Work::Fill { generation: 1 }),
            read("reads after one exchange", Work::Get(0.5)),
            write("deletes of all, again", Work::Delete(1.0)).owing(),
            write("new keys, again", Work::Fill { generation: 2 }),
            write("deletes of all, third", Work::Delete(1.0)).owing(),
            write("new keys, third", Work::Fill { generation: 3 }),
            read("reads after three exchanges", Work::Get(0.5)),
        ],
    },
    Claim {
        name: "ycsb-a",
        says: "YCSB: 50 M inserts, 10 M operations, 16 + 1,024 bytes: Load A, then A, B, C, D",
        millions: 50,
        value_bytes: 1024,
        memory: 1.0,
        phases: &[
            write("Load A", FIRST).by_threads(4),
            Phase::ycsb("A", Mix::A),
            Phase::ycsb("B", Mix::B),
            Phase::ycsb("C", Mix::C),
            Phase::ycsb("D", Mix::D),
        ],
    },
    Claim {
        name: "ycsb-e",
        says: "YCSB: Load E, then E (scans of 1 to 100 pairs; its 5 % of writes are puts of pairs that are there), F",
        millions: 50,
        value_bytes: 1024,
        memory: 1.0,
        phases: &[
            write("Load E", FIRST).by_threads(4),
            Phase::ycsb("E", Mix::E(100)),
            Phase::ycsb("F", Mix::F),
        ],
    },
];

impl Claim {
    /// Pairs of one generation at a scale.
    pub fn pairs(&self, scale: f64) -> u64 {
        ((self.millions * 1_000_000) as f64 * scale).max(1.0) as u64
    }

    /// The memory at a scale, page cache included.
    pub fn memory_bytes(&self, scale: f64) -> u64 {
        (SLIDES_MEMORY_BYTES as f64 * self.memory * scale) as u64
    }

    /// Bytes of a value: a pair has as many bytes as in the slides.
    pub fn value_bytes(&self) -> usize {
        SLIDES_KEY_BYTES + self.value_bytes - KEY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn sizes_are_the_slides_and_scale_together() {
        let named = |name| CLAIMS.iter().find(|claim| claim.name == name).unwrap();
        for (name, by_memory) in [
            ("write-amplification", 4.2),
            ("db-bench", 3.0),
            ("small-pairs", 2.5),
            ("low-memory", 24.2),
            ("cached", 0.24),
        ] {
            let claim = named(name);
            for scale in [1.0 / 16.0, 1.0 / 64.0] {
                let data = claim.pairs(scale) as f64 * (KEY_BYTES + claim.value_bytes()) as f64;
                let found = data / claim.memory_bytes(scale) as f64;
                assert!((found / by_memory - 1.0).abs() < 0.02, "{name}: {found}");
            }
        }
        assert_eq!(named("db-bench").value_bytes() + KEY_BYTES, 16 + 1024);
        assert_eq!(named("cached").pairs(1.0 / 16.0), 1_000_000);
    }

    #[test]
    fn names_identify_and_each_claim_begins_with_a_fill() {
        let names: HashSet<_> = CLAIMS.iter().map(|claim| claim.name).collect();
        assert_eq!(names.len(), CLAIMS.len());
        for claim in &CLAIMS {
            let names: HashSet<_> = claim.phases.iter().map(|phase| phase.name).collect();
            assert_eq!(names.len(), claim.phases.len(), "{}", claim.name);
            assert_eq!(claim.phases[0].work, FIRST, "{}", claim.name);
        }
    }
}

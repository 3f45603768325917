//! What the best cache could do: the hit rate of the ideal static cache, and the rate that the disk
//! then allows.
//!
//! Its memory is what the store was told to use ([`crate::opener::Settings::memory_bytes`]). A
//! store with a budget is judged by its budget. A store whose reads the page cache serves is judged
//! by all that process and page cache may take.
//!
//! The **ideal static cache** of some bytes knows how often everything will be read, and always
//! keeps what is read at the highest rate per byte. No cache that learns does better under a load
//! whose frequencies stay. Beside it stands the **disk's limit**: the number of operations a second
//! if the ideal cache's misses cost one read each, and nothing else took time.
//!
//! ```text
//!   gets    grain: a record           share of gets that fall on the hottest records
//!   scans   grain: GRAIN neighbours   share of scanned records that lie in the hottest groups
//! ```
//! **The grain of scans** favours the ideal cache: the engine's spans are five times as long. A
//! shorter grain would hardly change it: scans of 1 to 100 records touch neighbours alike, wherever
//! they begin (a test below).
//!
//! Not here: the engine's own hit rate, which its figures tell; mixes whose hot set moves
//! (`latest`), or that read nothing.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::calibrate::{BLOCK_BYTES, CalibrateError, random_reads_per_second};
use crate::dataset::Dataset;
use crate::distribution::Distribution;
use crate::mix::Mix;

/// Records of a group: about a page of what scans read, and the table of groups stays small in
/// relation to the data.
const GRAIN: u64 = 16;

/// What the best cache of this size could do for a mix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IdealCache {
    /// The bytes of keys and values that it keeps.
    pub cache_bytes: u64,
    /// The share of gets, or of scanned records, that it answers.
    pub hit_rate: f64,
    /// Bytes that a miss reads at once.
    pub read_bytes: usize,
    /// Reads of that size that the disk does in a second, with the number of threads of the mix.
    /// `None` without misses.
    pub reads_per_second: Option<f64>,
}

impl IdealCache {
    /// The ideal cache of `cache_bytes` for this mix, without the disk. `None` for a mix without
    /// reads, and for a mix whose hot records change.
    #[must_use]
    pub fn of(
        mix: Mix,
        distribution: &Distribution,
        dataset: &Dataset,
        cache_bytes: u64,
    ) -> Option<Self> {
        let record_bytes = dataset.record_bytes();
        let kept = (cache_bytes / record_bytes).min(dataset.records);
        let (hit_rate, read_bytes) = match mix {
            Mix::P | Mix::D => return None,
            Mix::E(longest) => {
                let mean_bytes = (u64::from(longest) + 1) * record_bytes / 2;
                let blocks = (mean_bytes as usize).div_ceil(BLOCK_BYTES);
                (
                    scan_share(distribution, longest, kept, GRAIN)?,
                    blocks * BLOCK_BYTES,
                )
            }
            Mix::A | Mix::B | Mix::C | Mix::F => {
                let blocks = (record_bytes as usize).div_ceil(BLOCK_BYTES);
                (distribution.hottest_share(kept)?, blocks * BLOCK_BYTES)
            }
        };
        Some(Self {
            cache_bytes,
            hit_rate,
            read_bytes,
            reads_per_second: None,
        })
    }

    /// Adds the disk's limit.
    #[must_use]
    pub fn with_disk(self, disk: &mut DiskReads<'_>) -> Self {
        let misses = self.hit_rate < 1.0;
        Self {
            reads_per_second: misses.then(|| disk.per_second(self.read_bytes)).flatten(),
            ..self
        }
    }

    /// Operations a second that the disk allows. `None` if the disk is not the limit or was not
    /// measured.
    #[must_use]
    pub fn disk_limit(&self) -> Option<f64> {
        Some(self.reads_per_second? / (1.0 - self.hit_rate))
    }
}

/// Asks the disk below a directory what it can read, once for each size.
pub struct DiskReads<'a> {
    directory: &'a Path,
    threads: usize,
    interrupted: &'a AtomicBool,
    known: Vec<(usize, Option<f64>)>,
}

impl<'a> DiskReads<'a> {
    /// Nothing is measured yet. `directory` must exist; files are made in it for a moment.
    #[must_use]
    pub fn new(directory: &'a Path, threads: usize, interrupted: &'a AtomicBool) -> Self {
        Self {
            directory,
            threads,
            interrupted,
            known: Vec::new(),
        }
    }

    /// Reads of this number of bytes at random places in a second. `None` if the disk has no room
    /// for the measurement.
    fn per_second(&mut self, bytes: usize) -> Option<f64> {
        if let Some((_, known)) = self.known.iter().find(|(size, _)| *size == bytes) {
            return *known;
        }
        let measured: Result<f64, CalibrateError> =
            random_reads_per_second(self.directory, bytes, self.threads, self.interrupted);
        // A benchmark goes on without this figure.
        self.known.push((bytes, measured.ok()));
        self.known.last()?.1
    }
}

/// The share of scanned records that lie in the hottest groups of `grain` records, when `kept`
/// records are kept. Scans read 1 to `longest` records, uniformly.
fn scan_share(distribution: &Distribution, longest: u32, kept: u64, grain: u64) -> Option<f64> {
    let records = distribution.records();
    if kept >= records {
        return Some(1.0);
    }
    let longest = u64::from(longest);
    let mut groups = vec![0f32; records.div_ceil(grain) as usize];
    distribution.for_each(|first, share| {
        // Scans longer than d read the record at distance d: (longest - d) of longest.
        let end = (first + longest).min(records);
        let mut record = first;
        while record < end {
            let group = record / grain;
            let next = ((group + 1) * grain).min(end);
            let (from, to) = (record - first, next - first);
            let reading = (2 * longest - from - to + 1) * (to - from);
            groups[group as usize] += (share * reading as f64 / (2 * longest) as f64) as f32;
            record = next;
        }
    })?;
    let all: f64 = groups.iter().copied().map(f64::from).sum();
    let kept = (kept / grain) as usize;
    let hottest = match kept {
        0 => return Some(0.0),
        kept => {
            groups.select_nth_unstable_by(kept - 1, |a, b| b.total_cmp(a));
            groups[..kept].iter().copied().map(f64::from).sum::<f64>()
        }
    };
    Some((hottest / all).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::{DistributionKind, THETA_DEFAULT};
    use crate::random::Random;
    use std::collections::HashMap;

    const RECORDS: u64 = 1 << 17;
    const KEPT: u64 = RECORDS / 8;

    fn distribution(kind: DistributionKind) -> Distribution {
        Distribution::new(kind, RECORDS, THETA_DEFAULT, 3)
    }

    /// Draws, and returns the share of draws that fall on the `kept` hottest groups of `grain`.
    /// Half of the draws choose the groups and the others are counted, so that chance is not taken
    /// for heat.
    fn sampled(grain: u64, kept: u64, mut draw: impl FnMut(&mut HashMap<u64, u64>)) -> f64 {
        let (mut known, mut counted) = (HashMap::new(), HashMap::new());
        for turn in 0..2_000_000 {
            draw(if turn % 2 == 0 {
                &mut known
            } else {
                &mut counted
            });
        }
        let in_groups = |counts: &HashMap<u64, u64>| {
            let mut groups: HashMap<u64, u64> = HashMap::new();
            for (record, count) in counts {
                *groups.entry(record / grain).or_default() += count;
            }
            groups
        };
        let mut hottest: Vec<(u64, u64)> = in_groups(&known).into_iter().collect();
        hottest.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        hottest.truncate((kept / grain) as usize);
        let counted = in_groups(&counted);
        let hits: u64 = hottest
            .iter()
            .filter_map(|(group, _)| counted.get(group))
            .sum();
        hits as f64 / counted.values().sum::<u64>() as f64
    }

    #[test]
    fn gets_hit_as_often_as_samples_say() {
        for kind in [
            DistributionKind::ZipfSimple,
            DistributionKind::ZipfComposite,
            DistributionKind::ZipfCompositeContiguous,
            DistributionKind::Uniform,
        ] {
            let distribution = distribution(kind);
            let mut chooser = distribution.chooser(Random::new(4, 0));
            let share = distribution.hottest_share(KEPT).unwrap();
            let sampled = sampled(1, KEPT, |counts| {
                *counts.entry(chooser.next(RECORDS)).or_default() += 1;
            });
            // The sample misses some hot records, and never gains.
            assert!(sampled < share + 0.005, "{kind}: {sampled} {share}");
            assert!(sampled > share - 0.04, "{kind}: {sampled} {share}");
        }
    }

    #[test]
    fn scans_hit_as_often_as_samples_say() {
        for kind in [
            DistributionKind::ZipfSimple,
            DistributionKind::ZipfComposite,
            DistributionKind::ZipfCompositeSuffix,
        ] {
            let distribution = distribution(kind);
            let mut chooser = distribution.chooser(Random::new(4, 0));
            let share = scan_share(&distribution, 20, KEPT, GRAIN).unwrap();
            let sampled = sampled(GRAIN, KEPT, |counts| {
                let first = chooser.next(RECORDS);
                let length = 1 + chooser.random().below(20);
                for record in first..(first + length).min(RECORDS) {
                    *counts.entry(record).or_default() += 1;
                }
            });
            assert!(sampled < share + 0.005, "{kind}: {sampled} {share}");
            assert!(sampled > share - 0.04, "{kind}: {sampled} {share}");
        }
    }

    /// A cache of single records would miss hardly less than one of groups, and a cache of spans of
    /// 64 KiB little more.
    #[test]
    fn the_grain_of_scans_is_fair() {
        for (kind, record, span) in [
            (DistributionKind::ZipfSimple, 0.97, 1.10),
            (DistributionKind::ZipfComposite, 0.97, 1.10),
        ] {
            let distribution = distribution(kind);
            let misses = |grain| 1.0 - scan_share(&distribution, 100, KEPT, grain).unwrap();
            let by_groups = |grain| misses(grain) / misses(GRAIN);
            let (one, many) = (by_groups(1), by_groups(80));
            println!(
                "{kind}: {:.4}; of records {one:.3}, of spans {many:.3}",
                misses(GRAIN)
            );
            assert!((record..=1.0).contains(&one), "{kind}: {one}");
            assert!((1.0..span).contains(&many), "{kind}: {many}");
        }
    }

    #[test]
    fn a_cache_for_all_hits_always_and_none_never() {
        let dataset = Dataset::new(RECORDS, 800, 1);
        let distribution = distribution(DistributionKind::ZipfComposite);
        for mix in [Mix::C, Mix::A, Mix::E(100)] {
            let of = |bytes| IdealCache::of(mix, &distribution, &dataset, bytes).unwrap();
            assert_eq!(of(dataset.data_bytes()).hit_rate, 1.0, "{mix}");
            assert_eq!(of(0).hit_rate, 0.0, "{mix}");
            let (half, most) = (
                of(dataset.data_bytes() / 2),
                of(dataset.data_bytes() / 4 * 3),
            );
            assert!(0.5 < half.hit_rate && half.hit_rate < most.hit_rate && most.hit_rate < 1.0);
            assert_eq!(
                half.read_bytes,
                if mix == Mix::E(100) { 45_056 } else { 4096 }
            );
        }
        for mix in [Mix::P, Mix::D] {
            assert_eq!(IdealCache::of(mix, &distribution, &dataset, 1 << 20), None);
        }
    }

    #[test]
    fn the_disk_limits_what_misses() {
        let directory = tempfile::tempdir().unwrap();
        let never = AtomicBool::new(false);
        let mut disk = DiskReads::new(directory.path(), 2, &never);
        let ideal = |hit_rate| IdealCache {
            cache_bytes: 1,
            hit_rate,
            read_bytes: 8192,
            reads_per_second: None,
        };
        assert_eq!(ideal(1.0).with_disk(&mut disk).disk_limit(), None);
        let limit = |hit_rate, disk: &mut DiskReads<'_>| {
            ideal(hit_rate).with_disk(disk).disk_limit().unwrap()
        };
        let (none, half) = (limit(0.0, &mut disk), limit(0.5, &mut disk));
        assert!(
            none > 0.0 && (half / none - 2.0).abs() < 1e-9,
            "measured once"
        );
        assert!(
            std::fs::read_dir(directory.path())
                .unwrap()
                .next()
                .is_none()
        );
    }
}

//! The meaning of "flat": [`judge`] compares the samples of a campaign.
//!
//! The last quarter of the samples is compared with the second one: in the first quarter caches of
//! the process, of its allocator and of the standard database itself fill. A program knows its
//! numbers of threads and descriptors, so they must be equal. Memory and disk depend on accidental
//! places, so their medians are compared, with a bound. If a quarter has too few samples for a
//! useful median, growth shows in another way: even the least of the last quarter is above the
//! greatest of the second one. Allocated bytes with nothing open are the most exact measure: holes
//! of the allocator are resident, and belong to nobody.
//!
//! Pure.

use crate::process::{Disk, Usage};
use crate::standard::{Rest, Sample};

/// Resident memory in the last quarter may be higher by this number of bytes.
pub const MEMORY_MORE: u64 = 4 << 20;
/// Allocated bytes with nothing open may be higher by this number: the campaign itself counts and
/// remembers.
pub const ALLOCATED_MORE: u64 = 512 << 10;
/// The directory may be larger by this percentage plus this number of bytes.
pub const DISK_MORE: (u64, u64) = (5, 128 << 10);
/// The ballast may grow by this number of bytes: by two steps of each of its two parts.
pub const BALLAST_MORE: u64 = 4 * (256 << 10);
/// This number of further files may be in it, and be open.
pub const FILES_MORE: u64 = 3;
/// This number of further threads may run under load, and soon after it: threads of the
/// engine begin when they are needed, and end when they have rested.
pub const THREADS_MORE: u64 = 8;
/// The highest number of bytes of a manifest: for little data, the engine writes it anew from
/// 4 MiB on.
pub const MANIFEST_MOST: u64 = 5 << 20;
/// The share of a processor that an idle database may take, in thousandths.
pub const IDLE_PROCESSOR: u64 = 20;
/// Fewer samples than this say nothing.
pub const SAMPLES_MIN: usize = 8;
/// A quarter with fewer samples has no useful median.
const QUARTER_MIN: usize = 5;

fn median(mut numbers: Vec<u64>) -> u64 {
    numbers.sort_unstable();
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}

/// The values of the second and of the last quarter: their medians, if they have enough samples.
/// Otherwise the greatest of the second and the least of the last one.
fn quarters(samples: &[Sample], of: impl Fn(&Sample) -> u64) -> (u64, u64) {
    let quarter = samples.len() / 4;
    let numbers = |part: &[Sample]| part.iter().map(&of).collect::<Vec<u64>>();
    let second = numbers(&samples[quarter..2 * quarter]);
    let last = numbers(&samples[samples.len() - quarter..]);
    match quarter < QUARTER_MIN {
        true => (
            second.into_iter().max().unwrap_or_default(),
            last.into_iter().min().unwrap_or_default(),
        ),
        false => (median(second), median(last)),
    }
}

/// A part of a sample, with its name.
type Part<T> = (&'static str, fn(&Sample) -> T);

/// The moments at which the process was sampled, by their names, and what it took.
const MOMENTS: [Part<Usage>; 3] = [
    ("with nothing open", |sample| sample.closed),
    ("under load", |sample| sample.busy),
    ("open and idle", |sample| sample.idle),
];

/// The moments at which the directory was looked at, by their names, and what it took.
const DIRECTORIES: [Part<Disk>; 2] = [
    ("the directory", |sample| sample.disk),
    ("the directory with a tenth", |sample| sample.small),
];

/// Everything that is not flat.
pub fn judge(samples: &[Sample], rests: &[Rest]) -> Vec<String> {
    let mut findings = Vec::new();
    if samples.len() < SAMPLES_MIN {
        return vec![format!("{} samples are too few", samples.len())];
    }
    let mut exceeds = |what: String, (second, last): (u64, u64), most: u64| {
        if last > most {
            findings.push(format!(
                "{what}: {second} in the second quarter, {last} in the last"
            ));
        }
    };
    for (moment, of) in MOMENTS {
        let resident = quarters(samples, |sample| of(sample).resident);
        let most = resident.0 + MEMORY_MORE;
        exceeds(format!("resident bytes {moment}"), resident, most);
        let threads = quarters(samples, |sample| of(sample).threads);
        exceeds(
            format!("threads {moment}"),
            threads,
            threads.0 + THREADS_MORE,
        );
        let descriptors = quarters(samples, |sample| of(sample).descriptors);
        let most = descriptors.0 + FILES_MORE;
        exceeds(format!("descriptors {moment}"), descriptors, most);
    }
    let allocated = quarters(samples, |sample| sample.closed.allocated);
    let most = allocated.0 + ALLOCATED_MORE;
    exceeds("allocated bytes with nothing open".into(), allocated, most);
    for (what, of) in DIRECTORIES {
        let files = quarters(samples, |sample| of(sample).files);
        exceeds(format!("files of {what}"), files, files.0 + FILES_MORE);
        let bytes = quarters(samples, |sample| of(sample).bytes);
        let most = bytes.0 + bytes.0 * DISK_MORE.0 / 100 + DISK_MORE.1;
        exceeds(format!("bytes of {what}"), bytes, most);
        let manifest = quarters(samples, |sample| of(sample).manifest);
        exceeds(format!("manifest of {what}"), manifest, MANIFEST_MOST);
        let ballast = quarters(samples, |sample| of(sample).ballast);
        let most = ballast.0 + BALLAST_MORE;
        exceeds(format!("ballast of {what}"), ballast, most);
    }
    // With nothing open no thread and no descriptor may be left, at any time.
    let first = samples[0].closed;
    let differs = samples
        .iter()
        .map(|sample| sample.closed)
        .find(|closed| (closed.threads, closed.descriptors) != (first.threads, first.descriptors));
    if let Some(differs) = differs {
        findings.push(format!(
            "with nothing open: {first:?} at first, and {differs:?} later"
        ));
    }
    for rest in rests {
        // The descriptors of tables depend on the order of jobs, and are compared above.
        let first = &rests[0];
        if rest.threads != first.threads {
            findings.push(format!("at rest: {first:?} at first, and {rest:?} later"));
        }
        let most = rest.millis * IDLE_PROCESSOR / 1000;
        let rests = rest.written == 0 && rest.files == 0 && rest.others == 0;
        if !rests || rest.processor_millis > most {
            findings.push(format!("an idle database does not rest: {rest:?}"));
        }
    }
    findings
}

/// The values of both quarters, for people.
pub fn table(samples: &[Sample]) -> String {
    if samples.len() < SAMPLES_MIN {
        return format!("{} samples", samples.len());
    }
    let mut text =
        "| of the standard database | first | second quarter | last quarter |\n|---|---|---|---|\n"
            .to_owned();
    let mut row = |what: String, of: &dyn Fn(&Sample) -> u64, unit: u64| {
        let (second, last) = quarters(samples, of);
        let first = of(&samples[0]) / unit;
        text += &format!(
            "| {what} | {first} | {} | {} |\n",
            second / unit,
            last / unit
        );
    };
    for (moment, of) in MOMENTS {
        row(
            format!("resident KiB {moment}"),
            &|sample| of(sample).resident,
            1024,
        );
        row(
            format!("allocated KiB {moment}"),
            &|sample| of(sample).allocated,
            1024,
        );
        row(format!("threads {moment}"), &|sample| of(sample).threads, 1);
        row(
            format!("descriptors {moment}"),
            &|sample| of(sample).descriptors,
            1,
        );
    }
    for (what, of) in DIRECTORIES {
        row(format!("files of {what}"), &|sample| of(sample).files, 1);
        row(format!("KiB of {what}"), &|sample| of(sample).bytes, 1024);
        row(
            format!("KiB of the manifest of {what}"),
            &|sample| of(sample).manifest,
            1024,
        );
        row(
            format!("KiB of the ballast of {what}"),
            &|sample| of(sample).ballast,
            1024,
        );
    }
    let course = |of: fn(&Sample) -> u64| {
        let some = samples.iter().step_by(samples.len().div_ceil(16));
        let some: Vec<String> = some.map(|sample| (of(sample) >> 10).to_string()).collect();
        some.join(", ")
    };
    text += &format!(
        "\n{} samples; with nothing open, resident KiB: {}; allocated KiB: {}",
        samples.len(),
        course(|sample| sample.closed.resident),
        course(|sample| sample.closed.allocated)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn flat(number: u64) -> Sample {
        // Noise that repeats.
        let noise = number * 7919 % 5;
        let usage = |threads| Usage {
            resident: 20 * MIB + noise * MIB / 2,
            allocated: MIB / 2 + noise * MIB / 100,
            threads,
            descriptors: 3,
        };
        Sample {
            closed: usage(1),
            busy: usage(6),
            idle: usage(4),
            disk: Disk {
                files: 12,
                bytes: 3 * MIB + noise * 1000,
                manifest: MIB + noise * 100_000,
                ballast: MIB + noise / 4 * (600 << 10),
            },
            small: Disk {
                files: 6,
                bytes: MIB,
                manifest: MIB,
                ballast: MIB,
            },
        }
    }

    fn samples(change: impl Fn(u64, &mut Sample)) -> Vec<Sample> {
        let each = (0..40).map(|number| {
            let mut sample = flat(number);
            change(number, &mut sample);
            sample
        });
        each.collect()
    }

    #[test]
    fn what_is_flat_is_let_pass() {
        let rest = Rest {
            millis: 3000,
            processor_millis: 10,
            ..Rest::default()
        };
        assert_eq!(judge(&samples(|_, _| {}), &[rest]), Vec::<String>::new());
    }

    #[test]
    fn each_kind_of_growth_is_found() {
        type Change = fn(u64, &mut Sample);
        let grown: [(&str, Change); 11] = [
            ("allocated bytes with nothing open", |n, s| {
                s.closed.allocated += n * 40_000
            }),
            ("resident bytes with nothing open", |n, s| {
                s.closed.resident += n * 400_000
            }),
            ("resident bytes under load", |n, s| {
                s.busy.resident += n * 400_000
            }),
            ("resident bytes open and idle", |n, s| {
                s.idle.resident += n * 400_000
            }),
            ("with nothing open", |n, s| s.closed.threads += n / 39),
            ("threads open and idle", |n, s| s.idle.threads += n / 2),
            ("descriptors under load", |n, s| s.busy.descriptors += n / 4),
            ("bytes of the directory:", |n, s| s.disk.bytes += n * 20_000),
            ("manifest of the directory:", |n, s| {
                s.disk.manifest += n * 200_000
            }),
            ("ballast of the directory:", |n, s| {
                s.disk.ballast += n * 100_000
            }),
            ("files of the directory with a tenth", |n, s| {
                s.small.files += n / 4
            }),
        ];
        for (wanted, change) in grown {
            let found = judge(&samples(change), &[]);
            assert!(
                found.iter().any(|what| what.starts_with(wanted)),
                "{wanted}: {found:?}"
            );
        }
    }

    /// Ten lives once reported six additional descriptors: the median of two samples is the greater
    /// one.
    #[test]
    fn of_few_samples_one_that_differs_is_let_pass_and_growth_is_found() {
        let few = |change: fn(u64, &mut Sample)| judge(&samples(change)[..10], &[]);
        for odd in [8, 9] {
            let mut few = samples(|_, _| {});
            few.truncate(10);
            few[odd].idle.descriptors += 6;
            few[odd].idle.resident += 8 * MIB;
            assert_eq!(judge(&few, &[]), Vec::<String>::new(), "sample {odd}");
        }
        let found = few(|n, s| s.idle.descriptors += n);
        assert!(found[0].starts_with("descriptors open and idle"));
        let found = few(|n, s| s.closed.resident += n * 2 * MIB);
        assert!(found[0].starts_with("resident bytes with nothing open"));
    }

    #[test]
    fn an_idle_database_that_works_is_found() {
        let rest = Rest {
            millis: 3000,
            ..Rest::default()
        };
        for working in [
            Rest { written: 1, ..rest },
            Rest { files: 1, ..rest },
            Rest { others: -1, ..rest },
            Rest { threads: 1, ..rest },
            Rest {
                processor_millis: 61,
                ..rest
            },
        ] {
            assert_eq!(judge(&samples(|_, _| {}), &[rest, working]).len(), 1);
        }
        assert_eq!(judge(&samples(|_, _| {})[..7], &[]).len(), 1);
    }
}

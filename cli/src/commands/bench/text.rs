//! The texts of `evendb bench` around its figures: what is measured, what the figures mean, and the
//! outcome in one sentence.

use evendb_lab::phase_result::PhaseResult;
use evendb_lab::readable::{bytes, counted, grouped};
use evendb_lab::recorder::OperationKind;

/// The meaning of each line in a phase's block. A test compares it with the blocks.
pub const LEGEND: &str = "\
What the figures mean:
  settling         reorganisation that a phase with puts left owed; it is done and charged: the first rate
                   is operations by both times, the one \"without\" by the time of the phase alone
  latency          from the call of an operation to its return; p99: 99 % took no longer
  course           the rate in each fifth of the phase (of 20 steps or more), and whether it still fell at
                   the end by more than the noise
  waited           how long operations were held up, of all threads together: pace (little room for new
                   records), debt (reorganisation is behind), room (none at all), chunk (its latch),
                   freeze (a checkpoint began), read (gets that searched files)
  write amplif.    bytes written to the disk for each byte put: as the kernel counts them for this process
                   (pages not written back yet are missing), and by the store's count (which has the
                   commit log whole)
  read amplif.     bytes asked for by read calls for each byte that gets and scans returned; 0: all from RAM;
                   fetched from storage: what the page cache did not have
  gets served by   in RAM: delta (newest puts), munk (a chunk that is kept in RAM), row_cache (single rows);
                   in files: log (what a chunk's checkpoints wrote), sstable (a chunk's sorted part);
                   absent: the key is not there. RAM hit rate: the share of those in RAM
  cache            how much the store answered from RAM, and what a cache of its whole budget would that knew
                   all frequencies before (the ideal static cache), gets by single records, scans by
                   groups of 16
  disk's limit     the rate if each miss of the ideal cache were one read and nothing else took time
  process          CPU time of all threads for one operation, workload included; memory of the process;
                   the longest time in which no operation ended
  machine          how much of all cores and of the disk the process used in the phase, settling apart
";

/// The memory in relation to the data.
pub fn memory(budget_bytes: u64, given: bool, data_bytes: Option<u64>) -> String {
    let default = if given { "" } else { ", the default" };
    let budget = bytes(budget_bytes);
    let Some(data_bytes) = data_bytes else {
        return format!("memory budget {budget}{default}");
    };
    let percent = data_bytes as f64 / budget_bytes as f64 * 100.0;
    // About half of a budget is for chunks and rows.
    let fits = match data_bytes <= budget_bytes / 2 {
        true => "fits: once read, gets and scans need no file",
        false => {
            "does not all fit, for about half of the budget is for data in RAM: the rest is read \
             from files (which the system may have in its own cache)"
        }
    };
    format!("memory budget {budget}{default}; the data is {percent:.0} % of it and {fits}")
}

/// The last sentence. None if no phase was finished.
pub fn shown(results: &[PhaseResult]) -> Option<String> {
    let by_speed = |a: &&PhaseResult, b: &&PhaseResult| {
        a.throughput_with_debt()
            .total_cmp(&b.throughput_with_debt())
    };
    let slowest = results.iter().min_by(by_speed)?;
    let fastest = results.iter().max_by(by_speed)?;
    let speed = |result: &PhaseResult| {
        let rate = grouped(result.throughput_with_debt().round() as u64);
        let title = format!("{} {}", result.name, result.distribution);
        format!("{rate} op/s ({})", title.trim_end())
    };
    let speeds = match results {
        [only] => format!("at {}", speed(only)),
        _ => format!("from {} to {}", speed(slowest), speed(fastest)),
    };
    let operations: u64 = results.iter().map(|result| result.operations).sum();
    let mut text = format!("Shown: {} {speeds}", counted(operations, "operation"));
    text += match results.iter().any(has_answers) {
        true => ", every answer checked and right",
        false => "; nothing was read, so no answer was checked",
    };
    if let Some(rate) = gets_from_ram(results) {
        text += &format!("; {:.1} % of the gets were answered from RAM", rate * 100.0);
    }
    if let Some(times) = written_per_byte(results) {
        text += &format!("; for each byte put, {times:.2} bytes were written to the disk");
    }
    Some(text + ".")
}

/// Whether a phase had operations that answer with records.
fn has_answers(result: &PhaseResult) -> bool {
    let blind = [
        OperationKind::Put,
        OperationKind::Merge,
        OperationKind::Delete,
    ];
    let mut latencies = result.latencies.iter();
    latencies.any(|latency| !blind.contains(&latency.kind))
}

/// Over all phases: gets of keys that are there, and the share that RAM answered.
fn gets_from_ram(results: &[PhaseResult]) -> Option<f64> {
    let (mut found, mut in_ram) = (0.0, 0.0);
    for result in results {
        let named = |figure: &&evendb_lab::store::Figure| {
            figure.name.starts_with("gets.") && figure.name != "gets.absent"
        };
        let here: u64 = result.figures.iter().filter(named).map(|f| f.value).sum();
        found += here as f64;
        in_ram += here as f64 * result.ram_hit_rate().unwrap_or(0.0);
    }
    (found > 0.0).then(|| in_ram / found)
}

/// Over all phases: bytes that the kernel counted as written, divided by bytes put.
fn written_per_byte(results: &[PhaseResult]) -> Option<f64> {
    let put: u64 = results.iter().map(|result| result.user_bytes_written).sum();
    let written = results.iter().map(|result| {
        let times = result.write_amplification_process()?;
        Some(times * result.user_bytes_written as f64)
    });
    let written: f64 = written.flatten().sum();
    (put > 0).then(|| written / put as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_says_whether_the_data_fits() {
        let text = memory(512 << 20, false, Some(256 << 20));
        assert_eq!(
            text,
            "memory budget 512.00 MiB, the default; the data is 50 % of it and fits: once read, \
             gets and scans need no file"
        );
        let text = memory(64 << 20, true, Some(256 << 20));
        assert!(text.contains("the data is 400 % of it"), "{text}");
        assert!(text.contains("does not all fit"), "{text}");
        assert_eq!(memory(1 << 30, true, None), "memory budget 1.00 GiB");
    }

    #[test]
    fn nothing_is_shown_by_no_phase() {
        assert_eq!(shown(&[]), None);
    }
}

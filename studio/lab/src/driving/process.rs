//! What the kernel says about this process: CPU time, bytes read and written, resident memory.
//!
//! Read from `/proc/self`. If that is missing (another system, a restricted container) the figures
//! are absent, not zero. They count the whole process: the store, its threads and the workload's
//! own cost.

use std::fs;

/// Processor time of all threads of the process so far, in seconds: finer than the ticks of
/// `/proc`.
#[must_use]
pub fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// One reading of the kernel's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessUsage {
    /// CPU seconds in user mode, all threads.
    pub user_seconds: f64,
    /// CPU seconds in the kernel on behalf of the process, all threads.
    pub system_seconds: f64,
    /// Bytes fetched from storage.
    pub read_bytes: u64,
    /// Bytes sent to storage; counted when a page becomes dirty.
    pub write_bytes: u64,
    /// Bytes of `write_bytes` that never reached storage, since their file was removed first.
    pub cancelled_write_bytes: u64,
    /// Bytes asked for by read calls, whether or not the page cache had them.
    pub read_call_bytes: u64,
    /// Bytes given to write calls.
    pub write_call_bytes: u64,
    /// Read calls.
    pub read_calls: u64,
    /// Write calls.
    pub write_calls: u64,
    /// Resident memory now.
    pub resident_bytes: u64,
    /// The largest resident memory since the process began.
    pub resident_bytes_max: u64,
}

impl ProcessUsage {
    /// Reads the counters. `None` if the system does not offer them.
    #[must_use]
    pub fn now() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let io = fs::read_to_string("/proc/self/io").ok()?;
        let status = fs::read_to_string("/proc/self/status").ok()?;
        Self::parse(
            &stat,
            &io,
            &status,
            rustix::param::clock_ticks_per_second() as f64,
        )
    }

    fn parse(stat: &str, io: &str, status: &str, ticks_per_second: f64) -> Option<Self> {
        // The second field is the command in parentheses and may hold blanks, so fields are counted
        // from its end: state is field 3, utime 14, stime 15.
        let fields: Vec<&str> = stat
            .get(stat.rfind(')')? + 1..)?
            .split_whitespace()
            .collect();
        let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<f64>().ok());
        let line = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        Some(Self {
            user_seconds: ticks(11)? / ticks_per_second,
            system_seconds: ticks(12)? / ticks_per_second,
            read_bytes: line(io, "read_bytes:")?,
            write_bytes: line(io, "write_bytes:")?,
            cancelled_write_bytes: line(io, "cancelled_write_bytes:")?,
            read_call_bytes: line(io, "rchar:")?,
            write_call_bytes: line(io, "wchar:")?,
            read_calls: line(io, "syscr:")?,
            write_calls: line(io, "syscw:")?,
            resident_bytes: line(status, "VmRSS:")? * 1024,
            resident_bytes_max: line(status, "VmHWM:")? * 1024,
        })
    }

    /// What was used since `earlier`. Memory is the present one.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user_seconds: (self.user_seconds - earlier.user_seconds).max(0.0),
            system_seconds: (self.system_seconds - earlier.system_seconds).max(0.0),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            write_bytes: self.write_bytes.saturating_sub(earlier.write_bytes),
            cancelled_write_bytes: self
                .cancelled_write_bytes
                .saturating_sub(earlier.cancelled_write_bytes),
            read_call_bytes: self.read_call_bytes.saturating_sub(earlier.read_call_bytes),
            write_call_bytes: self
                .write_call_bytes
                .saturating_sub(earlier.write_call_bytes),
            read_calls: self.read_calls.saturating_sub(earlier.read_calls),
            write_calls: self.write_calls.saturating_sub(earlier.write_calls),
            resident_bytes: self.resident_bytes,
            resident_bytes_max: self.resident_bytes_max,
        }
    }

    /// Bytes that were sent to storage and not cancelled.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.write_bytes.saturating_sub(self.cancelled_write_bytes)
    }

    /// CPU seconds in both modes.
    #[must_use]
    pub fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IO: &str = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\n\
                      cancelled_write_bytes: 7\n";
    const STATUS: &str = "Name:\tx\nVmHWM:\t    20 kB\nVmRSS:\t    10 kB\n";

    #[test]
    fn reads_a_command_with_blanks_and_parentheses() {
        let stat = "12 (a ) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20";
        let usage = ProcessUsage::parse(stat, IO, STATUS, 100.0).unwrap();
        assert_eq!((usage.user_seconds, usage.system_seconds), (2.5, 0.5));
        assert_eq!((usage.read_bytes, usage.write_bytes), (5, 6));
        assert_eq!((usage.read_call_bytes, usage.write_calls), (1, 4));
        assert_eq!(
            (usage.resident_bytes, usage.resident_bytes_max),
            (10_240, 20_480)
        );
    }

    #[test]
    fn damaged_text_gives_nothing() {
        assert_eq!(ProcessUsage::parse("", IO, STATUS, 100.0), None);
        assert_eq!(ProcessUsage::parse("1 (x) S 1", IO, STATUS, 100.0), None);
        assert_eq!(ProcessUsage::parse("1 (x) S", "", STATUS, 100.0), None);
    }

    #[test]
    fn the_difference_counts_only_what_came_later() {
        let first = ProcessUsage {
            write_bytes: 10,
            resident_bytes: 9,
            ..Default::default()
        };
        let second = ProcessUsage {
            write_bytes: 25,
            resident_bytes: 4,
            ..Default::default()
        };
        let used = second.since(&first);
        assert_eq!((used.write_bytes, used.resident_bytes), (15, 4));
    }
}

//! What a phase measured, as a block of text for a terminal.
//!
//! The first line has the rate with debt, then the rate without it if they differ. The other lines
//! have a name of at most 18 letters each. A figure that a store or a system does not tell has no
//! line.

use std::fmt::Write as _;

use crate::course::Fifths;
use crate::phase_result::PhaseResult;
use crate::readable::{bytes, duration, grouped};

impl PhaseResult {
    /// A block of aligned text, some lines long, that ends with a line break.
    #[must_use]
    pub fn to_table(&self) -> String {
        let mut text = String::new();
        let title = format!("{} {}", self.name, self.distribution);
        let stopped = if self.interrupted {
            "  (interrupted)"
        } else {
            ""
        };
        let mut line = |arguments: std::fmt::Arguments<'_>| {
            // Writing to a string cannot fail.
            let _ = text.write_fmt(arguments);
        };
        line(format_args!(
            "{:<32} {:>12} op/s  {:>11} operations in {:.2} s{}{}\n",
            title.trim_end(),
            rate(self.throughput_with_debt()),
            grouped(self.operations),
            self.seconds,
            if self.settle_seconds > 0.0 {
                let without = rate(self.throughput());
                let settling = self.settle_seconds;
                format!(" + {settling:.2} s settling ({without} op/s without)")
            } else {
                String::new()
            },
            stopped
        ));
        if !self.latencies.is_empty() {
            line(format_args!(
                "  {:<18} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
                "latency", "mean", "p50", "p95", "p99", "p99.9", "max"
            ));
        }
        for latency in &self.latencies {
            line(format_args!(
                "  {:<18} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
                latency.kind.name(),
                duration(latency.mean),
                duration(latency.p50 as f64),
                duration(latency.p95 as f64),
                duration(latency.p99 as f64),
                duration(latency.p999 as f64),
                duration(latency.max as f64)
            ));
        }
        for (name, figure) in self.summary() {
            line(format_args!("  {name:<18} {figure}\n"));
        }
        text
    }

    fn summary(&self) -> Vec<(&'static str, String)> {
        let lines = [
            ("open loop", self.open_loop()),
            ("course", self.fifths().map(|fifths| course(&fifths))),
            ("waited", self.waited()),
            ("write amplif.", self.writes()),
            ("read amplif.", self.reads()),
            ("gets served by", self.served_by()),
            ("cache", self.cache()),
            ("disk's limit", self.disk_limit()),
            ("process", Some(self.process())),
            ("machine", self.machine()),
        ];
        let told = lines.into_iter();
        told.filter_map(|(name, figure)| Some((name, figure?)))
            .collect()
    }

    /// How well an open loop kept its rate.
    fn open_loop(&self) -> Option<String> {
        let open = self.open_loop.as_ref()?;
        Some(format!(
            "{} op/s intended ({}), ended {} behind with {} not started; latency from the \
             intended start",
            grouped(open.intended_rate.round() as u64),
            open.spacing.name(),
            duration(open.behind_seconds * 1e9),
            grouped(open.not_started)
        ))
    }

    fn writes(&self) -> Option<String> {
        (self.user_bytes_written > 0).then(|| {
            format!(
                "{} (process), {} (store's count), debt included; {} handed in",
                number(self.write_amplification_process()),
                number(self.write_amplification_store()),
                bytes(self.user_bytes_written)
            )
        })
    }

    fn reads(&self) -> Option<String> {
        let fetched = self.usage.map_or(0, |usage| usage.read_bytes);
        let each = self.fetched_bytes_per_read().unwrap_or_default();
        (self.user_bytes_read > 0).then(|| {
            format!(
                "{} (read calls by bytes returned); {} returned, {} fetched from storage, {} a read",
                number(self.read_amplification()),
                bytes(self.user_bytes_read),
                bytes(fetched),
                bytes(each.round() as u64)
            )
        })
    }

    /// The components that answered gets.
    fn served_by(&self) -> Option<String> {
        let shares = self.get_shares();
        let list = shares
            .iter()
            .map(|(name, share)| format!("{name} {:.2} %", share * 100.0));
        let list = list.collect::<Vec<_>>().join(", ");
        let rate = self.ram_hit_rate().unwrap_or(0.0) * 100.0;
        (!shares.is_empty()).then(|| format!("{list}; RAM hit rate {rate:.2} %"))
    }

    /// What the process used, and the longest stall.
    fn process(&self) -> String {
        let resident = self.usage_settled.map_or("-".to_owned(), |usage| {
            format!(
                "{} (peak {})",
                bytes(usage.resident_bytes),
                bytes(usage.resident_bytes_max)
            )
        });
        let stall = match self.longest_stall_seconds {
            0.0 => "none of 10 ms".to_owned(),
            seconds => duration(seconds * 1e9),
        };
        format!(
            "{} us CPU/op, {resident} resident, longest stall {stall}",
            number(self.cpu_micros_per_operation())
        )
    }

    /// The causes for which operations waited, the longest first. None if the store does not tell.
    fn waited(&self) -> Option<String> {
        let mut causes = self.waited_seconds();
        if causes.is_empty() {
            return None;
        }
        causes.retain(|(_, seconds)| *seconds >= 0.005);
        causes.sort_by(|a, b| b.1.total_cmp(&a.1));
        let causes = causes
            .iter()
            .map(|(cause, seconds)| format!("{cause} {seconds:.2} s"));
        let causes = causes.collect::<Vec<_>>().join(", ");
        let of = format!(
            "{:.2} s of {} threads",
            self.seconds * self.threads as f64,
            self.threads
        );
        Some(match causes.is_empty() {
            true => format!("less than 10 ms of {of}"),
            false => format!("{causes}; of {of}"),
        })
    }

    /// How near the store's cache came to the ideal one.
    fn cache(&self) -> Option<String> {
        let ideal = self.ideal?;
        let what = match self.records_scanned {
            0 => "gets",
            _ => "scanned records",
        };
        let own = match self.read_hit_rate() {
            Some(rate) => format!("{:.2} % of {what} from RAM; ", rate * 100.0),
            None => String::new(),
        };
        let by_ideal = match self.misses_by_ideal() {
            Some(ratio) => format!(", so {ratio:.2} times its misses"),
            None => String::new(),
        };
        Some(format!(
            "{own}the ideal static cache of {}: {:.2} %{by_ideal}",
            bytes(ideal.cache_bytes),
            ideal.hit_rate * 100.0
        ))
    }

    fn disk_limit(&self) -> Option<String> {
        let ideal = self.ideal?;
        Some(format!(
            "{} op/s with the ideal cache's misses, by {} reads of {} a second for {} threads",
            rate(ideal.disk_limit()?),
            rate(ideal.reads_per_second?),
            bytes(ideal.read_bytes as u64),
            self.threads
        ))
    }

    /// The share of the machine that the process used while the workers ran.
    fn machine(&self) -> Option<String> {
        let megabytes = |rate: Option<f64>| Some(rate? / 1e6);
        let (read, written) = (self.disk_read_rate(), self.disk_write_rate());
        Some(format!(
            "CPU {:.0} % of {} cores; disk {:.1} MB/s read, {:.1} MB/s written",
            self.cpu_share()? * 100.0,
            self.cores?,
            megabytes(read)?,
            megabytes(written)?
        ))
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.2}"))
}

fn rate(operations_per_second: f64) -> String {
    grouped(operations_per_second.round() as u64)
}

fn course(fifths: &Fifths) -> String {
    let rates = fifths.rates.map(rate).join("; ");
    let end = match fifths.falls {
        true => "falls at the end, so a longer phase would show less",
        false => "does not fall at the end",
    };
    format!("{rates} op/s in each fifth; {end}")
}

#[cfg(test)]
mod tests {
    use crate::ideal_cache::IdealCache;
    use crate::phase_result::PhaseResult;
    use crate::phase_result::tests::{figure, open, result};

    #[test]
    fn the_rate_with_debt_comes_first() {
        let table = result().to_table();
        let first = table.lines().next().unwrap();
        let rates = [
            "1,333 op/s",
            "0.50 s + 0.25 s settling (2,000 op/s without)",
        ];
        let places = rates.map(|words| first.find(words).unwrap_or_else(|| panic!("{first}")));
        assert!(places[0] < places[1], "{first}");
        for words in [
            "1.5 us",
            "4.0 ms",
            "5.00 s",
            "3.00 (process)",
            "75.00 %",
            "  waited             pace 0.25 s; of 1.00 s of 2 threads\n",
            "CPU 0 % of 2 cores; disk 0.0 MB/s read, 5.0 MB/s written",
            "4 B a read",
        ] {
            assert!(table.contains(words), "{words} in\n{table}");
        }
        assert!(
            !table.contains("  course "),
            "too short for a course:\n{table}"
        );
        let paid = PhaseResult {
            settle_seconds: 0.0,
            ..result()
        };
        assert!(paid.to_table().starts_with("A uniform "));
        assert!(!paid.to_table().contains("settling"));
    }

    #[test]
    fn a_rate_that_falls_is_told() {
        let course = |falling: u64| {
            let steps = (1..=40).map(|i| (i as f64 / 2.0, 1000 - falling * i));
            let long = PhaseResult {
                course: steps.collect(),
                ..result()
            };
            long.to_table()
        };
        let falls = "1,910; 1,750; 1,590; 1,430; 1,270 op/s in each fifth; falls at the end";
        assert!(course(10).contains(falls), "{}", course(10));
        assert!(course(0).contains("does not fall at the end"));
    }

    #[test]
    fn the_ideal_cache_stands_beside_the_stores() {
        let ideal = IdealCache {
            cache_bytes: 1 << 20,
            hit_rate: 0.8,
            read_bytes: 4096,
            reads_per_second: Some(1000.0),
        };
        let told = PhaseResult {
            ideal: Some(ideal),
            ..result()
        };
        let table = told.to_table();
        for words in [
            "75.00 % of gets from RAM; the ideal static cache of 1.00 MiB: 80.00 %, so 1.25 times its misses",
            "5,000 op/s with the ideal cache's misses, by 1,000 reads of 4.00 KiB a second for 2 threads",
        ] {
            assert!(table.contains(words), "{words} in\n{table}");
        }
        let json = told.to_json();
        assert_eq!(json["cache"]["ideal"]["hit_rate"], 0.8);
        let scans = PhaseResult {
            records_scanned: 10,
            figures: vec![figure("scanned_records", 10), figure("scanned_from_ram", 6)],
            ..told
        };
        let table = scans.to_table();
        let words = "60.00 % of scanned records from RAM; the ideal static cache of 1.00 MiB: 80.00 %, so 2.00 times";
        assert!(table.contains(words), "{table}");
        let silent = PhaseResult {
            figures: Vec::new(),
            ideal: Some(IdealCache {
                hit_rate: 1.0,
                reads_per_second: None,
                ..ideal
            }),
            ..result()
        };
        let table = silent.to_table();
        assert!(
            table.contains("cache              the ideal static cache of 1.00 MiB: 100.00 %\n")
        );
        assert!(!table.contains("limit"), "{table}");
    }

    #[test]
    fn what_is_not_told_has_no_line() {
        let silent = PhaseResult {
            figures: Vec::new(),
            usage: None,
            ..result()
        };
        let table = silent.to_table();
        assert!(
            !table.contains("waited") && !table.contains("cores"),
            "{table}"
        );
        let table = open().to_table();
        let words = "2,500 op/s intended (poisson), ended 100.0 ms behind with 250 not started";
        assert!(table.contains(words), "{table}");
    }
}

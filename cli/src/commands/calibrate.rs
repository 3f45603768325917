//! `evendb calibrate`: what this machine's memory and disk can do, and the limits that follow.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use evendb_lab::calibrate::{self, CalibrateError, Calibration, CalibrationSettings, limits};
use serde_json::{Value, json};

use super::bench::limits::parse_seconds;
use crate::failure::{Failure, Success};
use crate::interrupt::Interrupt;
use crate::output;

/// Measure what this machine's memory and disk can do at best
///
/// Memory latency and copy speed, reads of 4 KiB at random places, sequential reads and writes,
/// fdatasync; and the limits that these set on a store. Takes some ten seconds, and 1 GiB of the
/// disk (or what is free), which is given back. Nothing else should run meanwhile.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb calibrate --dir /mnt/ssd
  evendb calibrate --dir /mnt/ssd --json calibration.json
  evendb calibrate --json | jq .calibration.sync")]
pub struct Arguments {
    /// A directory on the disk to measure; that of temporary files if not given
    #[arg(long, value_name = "DIRECTORY")]
    dir: Option<PathBuf>,
    /// Seconds of each of the eight measurements
    #[arg(long, value_parser = parse_seconds, default_value_t = 1.0)]
    seconds: f64,
    /// Write the figures to this file; without one, to standard output instead of the table
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    json: Option<Option<PathBuf>>,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    if let Some(Some(path)) = &arguments.json {
        output::refuse_output(path, "a report")?;
    }
    let interrupt = Interrupt::install()?;
    let directory = arguments.dir.clone().unwrap_or_else(std::env::temp_dir);
    let mut settings = CalibrationSettings::new(directory);
    settings.time = Duration::from_secs_f64(arguments.seconds);
    let told = io::stderr().is_terminal();
    let step = |name: &str| {
        if told {
            output::complain(&format!("measuring: {name}"));
        }
    };
    let outcome = calibrate::run(&settings, interrupt.flag(), &step);
    let calibration = outcome.map_err(|error| match error {
        CalibrateError::Interrupted => {
            output::complain("interrupted; the files were removed");
            Failure::Interrupted
        }
        other => Failure::Message(other.to_string()),
    })?;
    let mut target = output::out();
    match &arguments.json {
        Some(None) => writeln!(target, "{:#}", report(&calibration))?,
        Some(Some(path)) => {
            let text = format!("{:#}\n", report(&calibration));
            evendb::placement::write_output(path, "a report", &text)?;
            write!(target, "{}", calibration.to_table())?;
        }
        None => write!(target, "{}", calibration.to_table())?,
    }
    target.flush()?;
    Ok(Success::Done)
}

fn report(calibration: &Calibration) -> Value {
    let limits: Vec<Value> = limits(calibration)
        .iter()
        .map(|one| one.to_json())
        .collect();
    json!({ "calibration": calibration.to_json(), "limits": limits })
}

//! The command line that the benchmarks of parts share: arguments in, lines out.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{PartsError, PartsSettings, Yardsticks, run as run_parts};

const USAGE: &str = "usage: parts [--size-mib N] [--rounds N] [--ops N] [--dir DIRECTORY] [WORDS]

Measures the parts whose names contain WORDS (all without them), one thread.
  --size-mib N   MiB of keys and values (512)
  --rounds N     number of rounds; the median is taken (3)
  --ops N        gets and puts of a round (1,000,000)
  --dir DIR      where databases are made (the system's temporary directory)";

/// Runs the benchmarks with the yardsticks that `yardsticks` makes in the given directory.
pub fn run(yardsticks: &mut dyn FnMut(&Path) -> Result<Yardsticks, PartsError>) -> ExitCode {
    let Some(mut settings) = parse(env::args().skip(1)) else {
        tell!("{USAGE}");
        return ExitCode::from(2);
    };
    settings.directory = settings
        .directory
        .join(format!("evendb-parts-{}", std::process::id()));
    let outcome = measure(&settings, yardsticks);
    // A directory that could not be removed is harmless, and the figures are out.
    let _ = fs::remove_dir_all(&settings.directory);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(
    settings: &PartsSettings,
    yardsticks: &mut dyn FnMut(&Path) -> Result<Yardsticks, PartsError>,
) -> Result<(), PartsError> {
    fs::create_dir_all(&settings.directory)?;
    let mut yardsticks = yardsticks(&settings.directory)?;
    say!(
        "{} MiB of data, medians of {} rounds of {} operations, one thread\n",
        settings.data_bytes >> 20,
        settings.rounds,
        settings.operations
    )?;
    // If nobody reads any more, rows are not printed.
    run_parts(settings, &mut yardsticks, &mut |row| drop(say!("{row}\n")))
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Option<PartsSettings> {
    let mut settings = PartsSettings {
        data_bytes: 512 << 20,
        rounds: 3,
        operations: 1_000_000,
        directory: env::temp_dir(),
        only: String::new(),
    };
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let number = arguments.next()?.parse::<u64>().ok()?;
            (1..=1 << 40).contains(&number).then_some(number)
        };
        match argument.as_str() {
            "--size-mib" => settings.data_bytes = number()? << 20,
            "--rounds" => settings.rounds = number()? as usize,
            "--ops" => settings.operations = number()?,
            "--dir" => settings.directory = PathBuf::from(arguments.next()?),
            words if !words.starts_with('-') => settings.only = words.to_owned(),
            _ => return None,
        }
    }
    Some(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Option<PartsSettings> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn arguments_are_read() {
        let settings = parsed("--size-mib 2 --rounds 5 --ops 7 munk").unwrap();
        assert_eq!((settings.data_bytes, settings.rounds), (2 << 20, 5));
        assert_eq!((settings.operations, settings.only.as_str()), (7, "munk"));
        for wrong in ["--rounds", "--rounds 0", "--ops x", "--what"] {
            assert!(parsed(wrong).is_none(), "{wrong}");
        }
    }
}

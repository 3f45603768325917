//! `long-life`: the campaign of long lives.
//!
//! ```console
//! $ long-life --hours 2 --seed 7      # two hours of processor time
//! $ long-life --seconds 600           # ten minutes
//! $ long-life --seed 7 --first-life 42 --lives 1
//! ```
//! Ends with 0 if nothing went wrong and everything is flat, with 1 if not, with 2 if the rig
//! failed.

use clap::Parser;
use evendb_longlife::campaign::{Budget, Campaign, Plant};
use evendb_longlife::life::{Site, Size};
use evendb_longlife::room::Room;
use evendb_powercut::system::{enter_namespace, try_namespace};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

#[derive(Parser)]
#[command(about = "Lets databases live long in one process, and looks whether it stays as it was")]
struct Cli {
    /// The number of lives.
    #[arg(long, group = "budget")]
    lives: Option<u64>,
    /// The number of seconds.
    #[arg(long, group = "budget")]
    seconds: Option<u64>,
    /// The number of hours of processor time.
    #[arg(long, group = "budget")]
    hours: Option<f64>,
    /// The seed of all choices; how threads interleave depends on the machine, too.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of the first life.
    #[arg(long, default_value_t = 0)]
    first_life: u64,
    /// The directory of databases. Without it they lie in a small file system in memory, which is
    /// full now and then; with it no disk gets full.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The directory for a copy of each database that showed a fault.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Calls of a thread in a phase.
    #[arg(long, default_value_t = 1200)]
    calls: u64,
    /// Kilobytes of data in a life, about.
    #[arg(long, default_value_t = 6000)]
    kilobytes: u64,
    /// The longest time of a life, in seconds: after that the process is aborted, so that a
    /// debugger shows where it waits.
    #[arg(long, default_value_t = 1800)]
    patience: u64,
    /// Leaks something, which must be found.
    #[arg(long, hide = true)]
    plant: Option<Plant>,
    /// The process is in the mount namespace already.
    #[arg(long, hide = true)]
    inside: bool,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(what) => {
            eprintln!("long-life: {what}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli) -> Result<bool, String> {
    let failed = |error: std::io::Error| error.to_string();
    if cli.dir.is_none() && !cli.inside {
        match try_namespace() {
            Ok(()) => return enter_namespace("--inside").map(|()| false),
            Err(why) => println!("SKIPPED full disks: {why}"),
        }
    }
    let beside = cli.dir.clone().unwrap_or_else(std::env::temp_dir);
    let scratch = tempfile::Builder::new()
        .prefix("evendb-long-life-")
        .tempdir_in(beside);
    let scratch = scratch.map_err(failed)?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, interrupted.clone()).map_err(failed)?;
    }
    let room = cli
        .inside
        .then(|| Room::mount(scratch.path()))
        .transpose()?;
    let campaign = Campaign {
        site: Site {
            dir: scratch.path().to_owned(),
            room,
        },
        seed: cli.seed,
        first: cli.first_life,
        budget: match (cli.lives, cli.seconds, cli.hours) {
            (_, Some(seconds), _) => Budget::Time(Duration::from_secs(seconds)),
            (_, _, Some(hours)) => Budget::Processor((hours * 3.6e6) as u64),
            (lives, ..) => Budget::Lives(lives.unwrap_or(20)),
        },
        size: Size {
            calls: cli.calls,
            bytes: cli.kilobytes * 1000,
        },
        patience: Duration::from_secs(cli.patience),
        plant: cli.plant,
        keep: cli.keep.clone(),
        interrupted,
    };
    campaign.run()
}

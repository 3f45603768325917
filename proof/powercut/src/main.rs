//! `power-cut`: the campaign of power cuts, and its processes.
//!
//! ```console
//! $ power-cut --cuts 2000 --seed 1
//! $ power-cut --cuts 20 --levels lie       # must find faults
//! $ power-cut --probe
//! ```
//! Ends with 0 if there was no fault, with 1 if there was one, with 2 if the rig failed.

use clap::{Args, Parser, Subcommand};
use evendb_powercut::campaign::{Campaign, Cell, Tally, cells, table};
use evendb_powercut::device::Way;
use evendb_powercut::draw::Draw;
use evendb_powercut::filesystem::FileSystem;
use evendb_powercut::probe::{Found, probe};
use evendb_powercut::store::Level;
use evendb_powercut::system::{BootId, Scratch, enter_namespace};
use evendb_powercut::workload::FaultKind;
use evendb_powercut::writer::{Order, carry_out};
use evendb_powercut::{Result, missing, server};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

#[derive(Parser)]
#[command(
    about = "Cuts the power of real file systems while the engine writes, and looks at what is left"
)]
struct Cli {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    campaign: CampaignArgs,
}

#[derive(Subcommand)]
enum Part {
    /// The process that writes.
    #[command(hide = true)]
    Write(Order),
    /// The process that is the disk.
    #[command(hide = true)]
    Serve { image: PathBuf, mountpoint: PathBuf },
}

#[derive(Args)]
struct CampaignArgs {
    /// Cuts in all, shared among the cells.
    #[arg(long, default_value_t = 2000)]
    cuts: u64,
    /// The seed of all choices; the moments of cuts depend on the machine, too.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only these file systems.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "ext4,ext4-no-journal,xfs,btrfs"
    )]
    file_systems: Vec<FileSystem>,
    /// Only these ways of cutting.
    #[arg(long, value_delimiter = ',', default_value = "shutdown,disk")]
    ways: Vec<Way>,
    /// Only these levels; `lie` is a store that does not sync, and must be found out.
    #[arg(long, value_delimiter = ',', default_value = "relaxed,process,sync")]
    levels: Vec<Level>,
    /// Only checks that the rig loses what was not synced.
    #[arg(long)]
    probe: bool,
    /// Keeps the image of each cut that shows a fault in this directory.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// The process is in the mount namespace already.
    #[arg(long, hide = true)]
    inside: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.part {
        Some(Part::Write(order)) => carry_out(order).map(|()| true),
        Some(Part::Serve { image, mountpoint }) => server::serve(image, mountpoint).map(|()| true),
        None => campaign(&cli.campaign),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(what) => {
            eprintln!("power-cut: {what}");
            ExitCode::from(2)
        }
    }
}

/// The choices that this machine has. Prints which it does not have.
fn there_are<T: Copy>(
    all: &[T],
    name: impl Fn(T) -> &'static str,
    lacks: impl Fn(T) -> Option<String>,
) -> Vec<T> {
    let there_is = |one: &T| match lacks(*one) {
        None => true,
        Some(why) => {
            println!("SKIPPED {}: {why}", name(*one));
            false
        }
    };
    all.iter().copied().filter(there_is).collect()
}

/// Whether there was no fault.
fn campaign(args: &CampaignArgs) -> Result<bool> {
    if !args.inside {
        let ways = there_are(&args.ways, Way::name, missing);
        if ways.is_empty() {
            return Ok(true);
        }
        return enter_namespace("--inside").map(|()| false);
    }
    let ways: Vec<Way> = args
        .ways
        .iter()
        .copied()
        .filter(|way| missing(*way).is_none())
        .collect();
    let file_systems = there_are(&args.file_systems, FileSystem::name, FileSystem::missing);
    let all = cells(&file_systems, &ways, &args.levels);
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let flag = signal_hook::flag::register(signal, interrupted.clone());
        flag.map_err(|error| error.to_string())?;
    }
    let dir = Scratch::new()?;
    let campaign = Campaign {
        program: std::env::current_exe().map_err(|error| error.to_string())?,
        boot: BootId::cover(dir.path(), 0)?,
        dir: dir.path().to_owned(),
        interrupted,
        keep: args.keep.clone(),
    };
    match args.probe {
        true => probe_all(&campaign, &file_systems, &ways),
        false => run(args, &campaign, all),
    }
}

/// Whether each of them keeps what was synced, and nothing else.
fn probe_all(campaign: &Campaign, file_systems: &[FileSystem], ways: &[Way]) -> Result<bool> {
    let mut all_well = true;
    for &way in ways {
        for &file_system in file_systems.iter().filter(|one| way.suits(**one)) {
            let dir = campaign.fresh_dir("probe")?;
            let found = probe(file_system, way, &dir, &campaign.program)?;
            let wanted = Found {
                synced_is_there: true,
                later_is_there: false,
                unsynced_is_there: false,
            };
            all_well &= found == wanted;
            println!("{} {}: {found:?}", file_system.name(), way.name());
        }
    }
    Ok(all_well)
}

fn run(args: &CampaignArgs, campaign: &Campaign, all: Vec<Cell>) -> Result<bool> {
    let started = Instant::now();
    let mut draw = Draw::new(args.seed);
    let (mut rows, mut left) = (Vec::new(), all.len() as u64);
    // A few cuts are spread over the cells, so that each file system, way and level has some.
    let mut order: Vec<(u64, _)> = all.into_iter().map(|cell| (draw.number(), cell)).collect();
    order.sort_by_key(|(number, _)| *number);
    let mut cuts = args.cuts;
    for (seed, cell) in order {
        let own = cuts.div_ceil(left);
        (cuts, left) = (cuts - own, left - 1);
        if own > 0 && !campaign.interrupted.load(Ordering::Relaxed) {
            match campaign.run(cell, own, seed) {
                Ok(tally) => {
                    eprintln!("{cell}: {} cuts; {left} cells are left", tally.cuts);
                    rows.push((cell, tally));
                }
                // An interrupt ends the other processes, too.
                Err(_) if campaign.interrupted.load(Ordering::Relaxed) => {}
                Err(what) => return Err(what),
            }
        }
    }
    rows.sort_by_key(|(cell, _)| (cell.file_system as u8, cell.way as u8, cell.level as u8));
    println!("{}", table(&rows));
    let sum = |of: &dyn Fn(&Tally) -> u64| rows.iter().map(|(_, tally)| of(tally)).sum::<u64>();
    println!(
        "seed {}: {} cuts, {} acknowledged writes, {} lost, {} wrong, {} torn, {} refused, {} not mounted, {:.0} s",
        args.seed,
        sum(&|tally| tally.cuts),
        sum(&|tally| tally.acknowledged),
        sum(&|tally| tally.of(FaultKind::Lost)),
        sum(&|tally| tally.of(FaultKind::Wrong)),
        sum(&|tally| tally.of(FaultKind::Torn)),
        sum(&|tally| tally.of(FaultKind::Refused)),
        sum(&|tally| tally.unmountable),
        started.elapsed().as_secs_f64(),
    );
    Ok(sum(&|tally| tally.faults.len() as u64) == 0)
}

//! Three processes on loopback (`processes`), each on a real file system of its own, on a disk that
//! this program serves (`proof/powercut`): the power of one node, or of all, is cut; a disk becomes
//! full, or slow; connections are dropped meanwhile. The history of the clients must be
//! linearizable, with reads of everything at the end: so nothing that was acknowledged is lost.
//!
//! ```text
//!   this program, in a mount namespace of its own
//!     clients -----> node 1      node 2      node 3        (processes; their messages go by links)
//!                      |           |           |
//!                    ext4         XFS        Btrfs         those that this machine has
//!                      |           |           |
//!                    disk        disk        disk          (processes): what is flushed, what not
//! ```
//! A cut node has what its disk had flushed, and a random part of the rest. After its return
//! another node is often cut off, so that what it kept decides.
//!
//! One more campaign is of disks that lie about flushes, whose power is cut at once: the checker
//! must refuse its history.
//!
//! `EVENDB_RAFT_CUTS` (default 6; the campaign has 200), `EVENDB_RAFT_FULL_DISKS` (2; 50) and
//! `EVENDB_RAFT_SLOW_DISKS` (2; 50) set the numbers, `EVENDB_RAFT_SEED` the seed, and
//! `EVENDB_HISTORY_OUT` a folder for the histories. Needs root, loop devices and FUSE; without
//! them it says `SKIPPED`. A program of its own, without the test harness: it is the campaign, the
//! nodes and the disks.

#![allow(
    clippy::disallowed_types,
    reason = "no model runs a test or an example"
)]
#![allow(clippy::result_large_err, reason = "openraft has errors of that size")]

mod common;
mod processes;
#[path = "../../../store/evendb/tests/common/skipped.rs"]
mod skipped;

use common::linearizable::Op;
use common::{Rng, number_from_env};
use evendb_powercut::device::{Cut, Device, Way};
use evendb_powercut::disk::Keep;
use evendb_powercut::draw::Draw;
use evendb_powercut::filesystem::FileSystem;
use evendb_powercut::server::Flushes;
use evendb_powercut::system::{BootId, Scratch, enter_namespace};
use processes::links::{self, around};
use processes::{Cluster, NODE, NODES, World, be_a_node, judge};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;
type Outcome<T> = Result<T, Failure>;

/// The faults of one cluster; then another one begins, so that histories stay short.
const FAULTS_OF_A_ROUND: usize = 40;
/// A disk that is full for this long has stopped its node, or does not need room.
const FULL_FOR: Duration = Duration::from_secs(4);

/// The answers that disks that lie lose.
const LOST_ANSWERS: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The power of a node.
    Cut,
    /// A disk without room.
    Full,
    /// A disk whose flushes take long.
    Slow,
}

/// What was seen, for the line at the end.
#[derive(Debug, Default)]
struct Tally {
    cuts: u64,
    cuts_of_all: u64,
    /// Writes of file systems that no flush had covered when a disk was cut.
    unflushed: u64,
    full: u64,
    /// Full disks that stopped their node.
    stopped: u64,
    slow: u64,
    /// File systems that could not be mounted after a cut, which is no fault of ours.
    unmountable: u64,
    answered: u64,
}

/// The disks and the processes on them.
struct Rig {
    // Dropped in this order: processes have files open on the devices.
    cluster: Cluster,
    devices: Vec<Device>,
    boot: Arc<BootId>,
    boots: u64,
    draw: Draw,
    rng: Rng,
}

/// The file system of each node: of several kinds, where the machine has them.
fn file_systems() -> Vec<FileSystem> {
    let all = [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];
    let here: Vec<_> = all
        .into_iter()
        .filter(|one| one.missing().is_none())
        .collect();
    (0..NODES)
        .filter_map(|node| here.get(node % here.len().max(1)))
        .copied()
        .collect()
}

async fn pause(from: u64, below: u64, rng: &mut Rng) {
    tokio::time::sleep(Duration::from_millis(from + rng.below(below - from))).await;
}

impl Rig {
    /// Devices and processes in this directory, which no other cluster has had.
    async fn start(dir: &Path, boot: Arc<BootId>, seed: u64) -> Outcome<Rig> {
        let program = std::env::current_exe()?;
        let mut draw = Draw::new(seed);
        let mut devices = Vec::new();
        for (node, file_system) in file_systems().into_iter().enumerate() {
            let place = dir.join(node.to_string());
            let mut device = Device::create(file_system, Way::Disk, &place, &program)?;
            device.power_on(&mut draw)?;
            devices.push(device);
        }
        let dirs = devices.iter().map(|device| device.point().join("node"));
        let environment = vec![("SERVE_SNAPSHOT_EVERY", "200"), ("SERVE_MEMORY_MIB", "4")];
        Ok(Rig {
            cluster: Cluster::start(dirs.collect(), environment).await,
            devices,
            boot,
            boots: seed << 20,
            draw,
            rng: Rng(seed),
        })
    }

    async fn pause(&mut self, from: u64, below: u64) {
        pause(from, below, &mut self.rng).await;
    }

    /// The leader half of the time, else any node.
    async fn node(&mut self, world: &World) -> usize {
        let leader = world.find_leader().await;
        match self.rng.below(2) {
            0 => leader,
            _ => self.rng.below(NODES as u64) as usize,
        }
    }

    /// Cuts the power of these nodes. Returns the writes that were not flushed.
    ///
    /// A node goes on for a moment after its disk has stopped. What it says then does not count: it
    /// is silenced before the disk is cut.
    fn cut(&mut self, world: &World, nodes: &[usize], keep: Option<Keep>) -> Outcome<u64> {
        let mut unflushed = 0;
        for node in nodes {
            world.darken(*node);
            let silent = links::Cut::Silent;
            self.cluster.links.cut(around(*node, NODES), silent);
        }
        for node in nodes {
            let cut = match keep {
                Some(keep) => self.devices[*node].cut_keeping(keep, 1, 0)?,
                None => self.devices[*node].cut(&mut self.draw)?,
            };
            if let Cut::Disk(_, counts) = cut {
                unflushed += counts.unflushed as u64;
            }
        }
        for node in nodes {
            self.cluster.kill(*node);
            self.devices[*node].power_off()?;
        }
        Ok(unflushed)
    }

    /// Starts these nodes again. Returns whether their file systems could be mounted.
    fn power_on(&mut self, world: &World, nodes: &[usize]) -> Outcome<bool> {
        self.cluster.links.heal();
        self.boots += 1;
        self.boot.change(self.boots)?;
        let mut all_are_mounted = true;
        for node in nodes {
            match self.devices[*node].power_on(&mut self.draw) {
                Ok(()) => {
                    self.cluster.spawn(*node);
                    world.lighten(*node);
                }
                Err(what) => {
                    eprintln!("node {node}: not mounted after a cut: {what}");
                    all_are_mounted = false;
                }
            }
        }
        Ok(all_are_mounted)
    }

    async fn cut_power(&mut self, world: &World, tally: &mut Tally) -> Outcome<bool> {
        let node = self.node(world).await;
        self.pause(50, 400).await;
        let nodes = match self.rng.below(4) {
            0 => (0..NODES).collect(),
            _ => vec![node],
        };
        tally.unflushed += self.cut(world, &nodes, None)?;
        tally.cuts += 1;
        tally.cuts_of_all += u64::from(nodes.len() == NODES);
        self.pause(0, 1500).await;
        if !self.power_on(world, &nodes)? {
            tally.unmountable += 1;
            return Ok(false);
        }
        if nodes.len() == 1 && self.rng.below(2) == 0 {
            // Without one of the others, the log of the node that was cut decides.
            let other = (node + 1 + self.rng.below(NODES as u64 - 1) as usize) % NODES;
            let cut = links::Cut::Closed;
            self.cluster.links.cut(around(other, NODES), cut);
            self.pause(500, 2500).await;
            self.cluster.links.heal();
        }
        Ok(true)
    }

    /// Fills a disk, waits for what comes, and makes room again.
    async fn fill(&mut self, world: &World, tally: &mut Tally) -> Outcome<()> {
        let node = self.node(world).await;
        let ballast = self.devices[node].point().join("ballast");
        fill(&ballast);
        let began = Instant::now();
        while began.elapsed() < FULL_FOR && !self.cluster.has_ended(node) {
            // What a node frees meanwhile is taken, too.
            self.pause(50, 100).await;
            fill(&ballast);
        }
        tally.full += 1;
        self.pause(0, 500).await;
        std::fs::remove_file(&ballast)?;
        if !self.goes_on(world, node).await? {
            tally.stopped += 1;
            self.cluster.kill(node);
            self.cluster.spawn(node);
        }
        Ok(())
    }

    /// Whether a node applies entries again, now that its disk has room. One that had a write fail
    /// ends instead, which may be later: when it writes next.
    async fn goes_on(&mut self, world: &World, node: usize) -> Outcome<bool> {
        let (began, mut before) = (Instant::now(), None);
        while began.elapsed() < processes::PATIENCE {
            if self.cluster.has_ended(node) {
                return Ok(false);
            }
            let applied = world.applied_by(node).await;
            if before.is_some() && applied > before {
                return Ok(true);
            }
            before = before.or(applied);
            self.pause(50, 100).await;
        }
        Err(format!("node {node} neither ends nor goes on after its disk was full").into())
    }

    async fn slow_down(&mut self, world: &World, tally: &mut Tally) -> Outcome<()> {
        let node = self.node(world).await;
        let takes = Duration::from_millis(50 + self.rng.below(700));
        let are_honest = true;
        self.devices[node].set_flushes(Flushes { takes, are_honest })?;
        self.pause(500, 3000).await;
        self.devices[node].set_flushes(Flushes::default())?;
        tally.slow += 1;
        Ok(())
    }
}

/// Makes a file longer until there is no room for more.
fn fill(path: &Path) {
    let file = File::options().append(true).create(true).open(path);
    let Ok(mut file) = file else { return };
    for len in [1 << 20, 1 << 12] {
        while file.write_all(&vec![0x5a; len]).is_ok() {}
    }
    // So that blocks are taken, and not only promised.
    let _ = file.sync_all();
}

async fn suffer(
    rig: &mut Rig,
    world: &World,
    faults: &[Fault],
    tally: &mut Tally,
) -> Outcome<bool> {
    for fault in faults {
        match fault {
            Fault::Cut => {
                if !rig.cut_power(world, tally).await? {
                    return Ok(false);
                }
            }
            Fault::Full => rig.fill(world, tally).await?,
            Fault::Slow => rig.slow_down(world, tally).await?,
        }
        rig.cluster.all_run(&format!("after {fault:?}"));
    }
    Ok(true)
}

/// One cluster, from its beginning to the judgement.
async fn round(dir: &Path, boot: Arc<BootId>, seed: u64, faults: &[Fault]) -> Outcome<Tally> {
    let mut tally = Tally::default();
    let mut rig = Rig::start(dir, boot, seed).await?;
    let world = World::begin(&rig.cluster).await;
    let clients = world.start_clients(seed);
    // With a file system that is lost, the other two nodes go on to the end.
    suffer(&mut rig, &world, faults, &mut tally).await?;
    world.stop(clients).await;
    let history = world.end().await;
    tally.answered = judge(&format!("raft-disks-{seed}"), &history)?;
    Ok(tally)
}

/// Disks that lie about flushes, all of whose power is cut at once: what was acknowledged is gone.
async fn lie(dir: &Path, boot: Arc<BootId>, seed: u64) -> Outcome<Vec<Op>> {
    let mut rig = Rig::start(dir, boot, seed).await?;
    let world = World::begin(&rig.cluster).await;
    let clients = world.start_clients(seed);
    rig.pause(300, 301).await;
    let flushes = Flushes {
        are_honest: false,
        ..Flushes::default()
    };
    for device in &mut rig.devices {
        device.set_flushes(flushes)?;
    }
    let before = world.answers();
    while world.answers() < before + LOST_ANSWERS {
        rig.pause(50, 51).await;
    }
    // Without clients from here on, nothing is written over what is lost.
    world.stop(clients).await;
    let nodes: Vec<usize> = (0..NODES).collect();
    rig.cut(&world, &nodes, Some(Keep::Nothing))?;
    for device in &mut rig.devices {
        device.set_flushes(Flushes::default())?;
    }
    if !rig.power_on(&world, &nodes)? {
        return Err("a file system was lost".into());
    }
    Ok(world.end().await)
}

/// The faults of all rounds, in an order that follows from the seed.
fn faults(seed: u64) -> Vec<Fault> {
    let number = |name, usual| number_from_env(name, usual) as usize;
    let mut faults = vec![Fault::Cut; number("EVENDB_RAFT_CUTS", 6)];
    faults.resize(
        faults.len() + number("EVENDB_RAFT_FULL_DISKS", 2),
        Fault::Full,
    );
    faults.resize(
        faults.len() + number("EVENDB_RAFT_SLOW_DISKS", 2),
        Fault::Slow,
    );
    let mut rng = Rng(seed);
    for place in (1..faults.len()).rev() {
        faults.swap(place, rng.below(place as u64 + 1) as usize);
    }
    faults
}

async fn campaign(dir: &Path, boot: Arc<BootId>) -> Outcome<()> {
    let seed = number_from_env("EVENDB_RAFT_SEED", 1);
    let history = lie(&dir.join("lies"), boot.clone(), seed).await?;
    match judge("raft-disks-that-lie", &history) {
        Err(what) => println!("disks that lie are found out: {:.80}...", what),
        Ok(_) => return Err("disks that lie are not found out".into()),
    }
    for (number, faults) in faults(seed).chunks(FAULTS_OF_A_ROUND).enumerate() {
        let seed = seed + number as u64;
        let tally = round(&dir.join(seed.to_string()), boot.clone(), seed, faults).await;
        let tally = tally.map_err(|what| format!("seed {seed}: {what}"))?;
        println!("seed {seed}: linearizable: {tally:?}");
        // A round ends with a file system that cannot be mounted any more.
        let done = match tally.unmountable {
            0 => faults.len() as u64,
            _ => tally.cuts + tally.full + tally.slow,
        };
        if tally.answered < 20 * done {
            return Err(format!("seed {seed}: too few answers").into());
        }
    }
    Ok(())
}

fn inside() -> Outcome<()> {
    let scratch = Scratch::new()?;
    let boot = Arc::new(BootId::cover(scratch.path(), 0)?);
    processes::run(campaign(scratch.path(), boot))
}

/// Why this machine cannot run it.
fn missing() -> Option<String> {
    evendb_powercut::missing(Way::Disk).or_else(|| FileSystem::Ext4.missing())
}

fn start() -> Outcome<()> {
    if let Ok(arguments) = std::env::var(NODE) {
        return be_a_node(&arguments);
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", image, mountpoint] => {
            let (image, mountpoint) = (PathBuf::from(image), PathBuf::from(mountpoint));
            Ok(evendb_powercut::server::serve(&image, &mountpoint)?)
        }
        [.., "--inside"] => inside(),
        // What looks at the names of tests finds none.
        [.., "--list"] => Ok(()),
        _ => match missing() {
            Some(why) => {
                skipped::skipped("power cuts, full and slow disks of Raft nodes", why);
                Ok(())
            }
            None => Ok(enter_namespace("--inside")?),
        },
    }
}

fn main() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("disks: {what}");
            ExitCode::FAILURE
        }
    }
}

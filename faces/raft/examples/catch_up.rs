//! A node that is too far behind catches up by a snapshot: how long it takes, how many bytes are
//! written, how much memory both processes take, and what reads of the receiver see meanwhile.
//!
//! ```console
//! $ cargo run --release --example catch_up -- 4 .     GiB of records (0.1 is a tenth), a directory
//! $ df -h .                                           which needs room for eight times that
//! ```
//! ```text
//! this process: node 1       fills the state by entries, writes a snapshot, purges its log
//! a second one: node 2       1. comes empty, and gets everything
//!                            2. is stopped, misses as many entries, comes back with its old state,
//!                               and is read all the time while the new one is installed
//! ```
//! A record is a key and 1,000 bytes that tell the key and the round; each read is compared with
//! the round before or the new one. Needs six times the GiB of room on the disk. The second
//! process ends with the first one.

#![allow(clippy::result_large_err, reason = "openraft has errors of that size")]

#[allow(dead_code, reason = "its main function is another example's")]
#[path = "serve/main.rs"]
mod serve;

use evendb_raft::machine::Command;
use evendb_raft::state::State;
use evendb_raft::state::effects::Write;
use openraft::{BasicNode, SnapshotPolicy};
use serve::Server;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

const VALUE_BYTES: u64 = 1000;
const RECORDS_OF_A_BATCH: u64 = 256;
/// Batches that are asked for at the same time.
const AT_ONCE: u64 = 8;
const GIB: f64 = (1u64 << 30) as f64;

fn key(number: u64) -> Vec<u8> {
    // Scattered over the key space, and a number has one key.
    number
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .to_be_bytes()
        .to_vec()
}

fn value(number: u64, round: u64) -> Vec<u8> {
    let mut seed = number ^ (round << 48);
    let mut bytes = [number.to_le_bytes(), round.to_le_bytes()].concat();
    // Bytes that do not compress.
    while bytes.len() < VALUE_BYTES as usize {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963);
        bytes.extend_from_slice(&seed.to_be_bytes());
    }
    bytes.truncate(VALUE_BYTES as usize);
    bytes
}

/// A number of `/proc/self/{file}`, in the units that it has there.
fn own(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.trim_matches([':', ' ', '\t']).split(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// What a process needed from here on.
struct Needs {
    written: u64,
    began: Instant,
}

impl Needs {
    fn begin() -> Needs {
        // Forgets the peak so far.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        Needs {
            written: own("io", "write_bytes"),
            began: Instant::now(),
        }
    }

    fn tell(&self) -> String {
        let mebibytes = (own("io", "write_bytes") - self.written) >> 20;
        let (seconds, peak) = (self.began.elapsed().as_secs_f64(), own("status", "VmHWM"));
        format!(
            "{seconds:.1} s, {mebibytes} MiB written, at most {} MiB of memory",
            peak >> 10
        )
    }
}

fn consensus() -> openraft::Config {
    openraft::Config {
        heartbeat_interval: 250,
        election_timeout_min: 1000,
        election_timeout_max: 2000,
        // The answer to the last piece comes when the snapshot is installed.
        install_snapshot_timeout: 3_600_000,
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: 0,
        ..openraft::Config::default()
    }
}

async fn fill(server: &Arc<Server>, records: u64, round: u64) -> Result<(), Failure> {
    let batches = records.div_ceil(RECORDS_OF_A_BATCH);
    let writer = |first: u64, server: Arc<Server>| async move {
        for batch in (first..batches).step_by(AT_ONCE as usize) {
            let numbers = batch * RECORDS_OF_A_BATCH..(batch + 1) * RECORDS_OF_A_BATCH;
            let put = |number| Write::Put {
                keyspace: "main".to_owned(),
                key: key(number),
                value: value(number, round),
            };
            let command = Command::Batch(numbers.map(put).collect());
            let written = server.proposer.write(command).await;
            written.map_err(|error| error.to_string())?;
        }
        Ok::<_, String>(())
    };
    let writers = (0..AT_ONCE).map(|first| tokio::spawn(writer(first, server.clone())));
    for writer in writers.collect::<Vec<_>>() {
        writer.await??;
    }
    Ok(())
}

/// Fills the state, and leaves nothing of it in the log: only a snapshot tells it.
async fn prepare(server: &Arc<Server>, records: u64, round: u64) -> Result<(), Failure> {
    let needs = Needs::begin();
    fill(server, records, round).await?;
    println!("round {round}: filled: {}", needs.tell());
    let store = server.log.store();
    for (name, db) in [("log", store.log.db()), ("state", store.state.db())] {
        let written = db.stats().bytes_written;
        let [user, commit_log, runs, tables, manifest] = [
            written.user,
            written.commit_log,
            written.log,
            written.sstable,
            written.manifest,
        ]
        .map(|bytes| bytes >> 20);
        println!(
            "  {name}: {user} MiB put; written: commit log {commit_log}, checkpoints' runs {runs}, \
             tables {tables}, manifest {manifest}"
        );
    }
    let needs = Needs::begin();
    server.raft.trigger().snapshot().await?;
    let mut metrics = server.raft.metrics();
    let is_taken = |metrics: &openraft::RaftMetrics<u64, BasicNode>| {
        metrics.snapshot == metrics.last_applied && metrics.snapshot.is_some()
    };
    let last = metrics.wait_for(is_taken).await?.last_applied;
    println!("round {round}: snapshot: {}", needs.tell());
    let last = last.ok_or("nothing is applied")?.index;
    server.raft.trigger().purge_log(last).await?;
    let is_purged = |metrics: &openraft::RaftMetrics<u64, BasicNode>| {
        metrics.purged.is_some_and(|purged| purged.index >= last)
    };
    drop(metrics.wait_for(is_purged).await?);
    Ok(())
}

/// The second process, and what it says.
struct Receiver {
    child: Child,
    orders: Option<ChildStdin>,
}

impl Receiver {
    fn start(dir: &str, addresses: &[String], records: u64, round: u64) -> Result<Self, Failure> {
        let mut child = std::process::Command::new(std::env::current_exe()?)
            .args(["receive", dir, &records.to_string(), &round.to_string()])
            .args(addresses)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let orders = child.stdin.take();
        Ok(Receiver { child, orders })
    }

    /// Has it end, and prints what it tells.
    fn end(mut self) -> Result<(), Failure> {
        self.orders = None;
        let said = BufReader::new(self.child.stdout.take().ok_or("no output")?);
        for line in said.lines() {
            println!("  receiver: {}", line?);
        }
        match self.child.wait()?.success() {
            true => Ok(()),
            false => Err("the receiver failed".into()),
        }
    }
}

/// Waits until node 2 has everything that this one has applied.
async fn caught_up(server: &Arc<Server>) -> Result<(), Failure> {
    let mut metrics = server.raft.metrics();
    let is_even = |metrics: &openraft::RaftMetrics<u64, BasicNode>| {
        let matched = metrics.replication.as_ref();
        let matched = matched.and_then(|matched| matched.get(&2)).copied();
        matched.flatten() >= metrics.last_applied
    };
    drop(metrics.wait_for(is_even).await?);
    Ok(())
}

async fn send(gibibytes: f64, dir: &Path) -> Result<(), Failure> {
    let place = tempfile::Builder::new()
        .prefix("catch-up-")
        .tempdir_in(dir)?;
    let dirs = [1, 2].map(|node| place.path().join(node.to_string()));
    let dirs = dirs.map(|dir| dir.to_string_lossy().into_owned());
    let ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0"));
    let mut addresses = Vec::new();
    for port in ports {
        addresses.push(port?.local_addr()?.to_string());
    }
    let server = serve::start(&dirs[0], 1, &addresses, consensus()).await?;
    let alone = BTreeMap::from([(1, BasicNode::new(&addresses[0]))]);
    server.raft.initialize(alone).await?;
    let wait = server.raft.wait(Some(Duration::from_secs(60)));
    wait.current_leader(1, "one node is a majority of one")
        .await?;
    let records = (gibibytes * GIB) as u64 / (VALUE_BYTES + 8);
    for round in 1..=2 {
        if let Err(error) = prepare(&server, records, round).await {
            // What ended the consensus says more than what waited for it.
            server.raft.metrics().borrow().running_state.clone()?;
            return Err(error);
        }
        let receiver = Receiver::start(&dirs[1], &addresses, records, round)?;
        let needs = Needs::begin();
        if round == 1 {
            let node = BasicNode::new(&addresses[1]);
            server.raft.add_learner(2, node, false).await?;
        }
        caught_up(&server).await?;
        println!(
            "round {round}: node 2 has caught up; sender: {}",
            needs.tell()
        );
        receiver.end()?;
    }
    server.raft.shutdown().await?;
    Ok(())
}

/// Reads until it is told to end. Returns the number of reads, the longest one, and the rounds that
/// were seen, with 0 for nothing.
async fn read(
    state: Arc<State>,
    records: u64,
    round: u64,
    is_over: Arc<AtomicBool>,
) -> Result<(u64, Duration, [u64; 3]), String> {
    let (mut reads, mut longest, mut seen) = (0u64, Duration::ZERO, [0; 3]);
    while !is_over.load(Ordering::Relaxed) {
        let number = reads.wrapping_mul(0x2545_f491_4f6c_dd1d) % records;
        let began = Instant::now();
        let found = state.get("main", &key(number)).await;
        longest = longest.max(began.elapsed());
        let found = found.map_err(|error| error.to_string())?;
        let of = (round - 1..=round).find(|round| match (&found, round) {
            (None, round) => *round == 0,
            (Some(found), round) => found[..] == value(number, *round),
        });
        let of = of.ok_or_else(|| format!("a wrong value of record {number}"))?;
        seen[of as usize] += 1;
        reads += 1;
        if reads.is_multiple_of(64) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    Ok((reads, longest, seen))
}

async fn receive(args: &[String]) -> Result<(), Failure> {
    let [dir, records, round, addresses @ ..] = args else {
        return Err("receive DIRECTORY RECORDS ROUND ADDRESS...".into());
    };
    let needs = Needs::begin();
    let server = serve::start(dir, 2, addresses, consensus()).await?;
    let is_over = Arc::new(AtomicBool::new(false));
    let (records, round) = (records.parse()?, round.parse()?);
    let state = server.log.store().state.clone();
    let reader = tokio::spawn(read(state, records, round, is_over.clone()));
    let end = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    tokio::select! {
        ended = server.clone().listen() => ended?,
        end = end => {
            end??;
        }
    }
    is_over.store(true, Ordering::Relaxed);
    let (reads, longest, seen) = reader.await??;
    println!("{}", needs.tell());
    let milliseconds = longest.as_secs_f64() * 1e3;
    println!("{reads} reads meanwhile, the longest took {milliseconds:.1} ms");
    println!("they found nothing, round 1, round 2: {seen:?}");
    // The snapshot has everything of this round.
    for number in (0..records).step_by(997) {
        let found = server.log.store().state.get("main", &key(number)).await?;
        if found.is_none_or(|found| found[..] != value(number, round)) {
            return Err(format!("record {number} is not of round {round}").into());
        }
    }
    server.raft.shutdown().await?;
    Ok(())
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    if args.first().is_some_and(|word| word == "receive") {
        return runtime.block_on(receive(&args[1..]));
    }
    let gibibytes = args.first().map_or(Ok(1.0), |text| text.parse())?;
    let dir = args.get(1).map_or(".", String::as_str);
    runtime.block_on(send(gibibytes, Path::new(dir)))
}

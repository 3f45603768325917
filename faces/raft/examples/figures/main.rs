//! Committed commands a second, latencies and bytes written a command: three nodes in one process,
//! with an in-memory network, at 1, 16 and 256 clients; on EvenDB, RocksDB and redb.
//!
//! ```console
//! $ cargo run --release --example figures -- 15 .                  seconds a figure, a directory
//! $ cargo run --release --example figures -- 15 . evendb rocksdb   only these stores
//! $ cargo run --release --example figures -- 15 . grouped          commands that come together
//!                                                                  are one entry, in all stores
//! ```
//! A command puts a value of 100 bytes under a random key, and is an entry of its own if the groups
//! of [`Proposer`] are not asked for. The directory should be on a disk, not in memory. [`written`]
//! says which bytes are counted, of all three nodes.
//! Before that, all stores get some 70 MiB, so that files have the size that they keep.
//! The line "in all" has the bytes of the whole run, with what each store still had to write into
//! its tables at the end: the stores put that off for different times.
//!
//! RocksDB's library is loaded at run time ([`on_rocksdb`]); without it, RocksDB is left out.

#![allow(
    clippy::disallowed_types,
    reason = "no model runs a test or an example"
)]
#![allow(clippy::result_large_err, reason = "openraft has errors of that size")]

mod baseline;
mod on_redb;
mod on_rocksdb;
mod written;

use baseline::Store;
use evendb_raft::machine::{Answer, Command, KeyValue};
use evendb_raft::openraft09::{Group, Grouped, Proposer, SnapshotFile, open};
use evendb_raft::state::effects::Write;
use evendb_raft::store::Config;
use on_redb::Redb;
use on_rocksdb::{Rocks, RocksDb};
use openraft::error::{InstallSnapshotError, RPCError, RaftError, RemoteError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::storage::{RaftLogStorage, RaftStateMachine};
use openraft::{BasicNode, Raft, SnapshotPolicy};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use written::Written;

openraft::declare_raft_types!(
    /// The ready state machine's types, in groups.
    pub Types: D = Group<Command>, R = Group<Answer>, SnapshotData = SnapshotFile
);

/// Commands before anything is measured: they fill EvenDB's ring once, whose room is made by
/// zeros, and RocksDB's memory table of 64 MiB, before which it writes no table.
const WARM_UP: u64 = 400_000;

type Failure = Box<dyn std::error::Error>;
type Told<T, E> = Result<T, RPCError<u64, BasicNode, E>>;

/// The nodes by their numbers: the network.
#[derive(Clone, Default)]
struct Nodes(Arc<Mutex<BTreeMap<u64, Raft<Types>>>>);

struct Link {
    nodes: Nodes,
    to: u64,
}

impl Link {
    fn raft(&self) -> Result<Raft<Types>, Unreachable> {
        let nodes = self.nodes.0.lock().expect("no panic");
        nodes
            .get(&self.to)
            .cloned()
            .ok_or_else(|| Unreachable::new(&io::Error::other("no node")))
    }

    fn told<T, E: std::error::Error>(&self, answer: Result<T, E>) -> Told<T, E> {
        answer.map_err(|error| RPCError::RemoteError(RemoteError::new(self.to, error)))
    }
}

impl RaftNetwork<Types> for Link {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        _: RPCOption,
    ) -> Told<AppendEntriesResponse<u64>, RaftError<u64>> {
        self.told(self.raft()?.append_entries(rpc).await)
    }

    async fn install_snapshot(
        &mut self,
        rpc: InstallSnapshotRequest<Types>,
        _: RPCOption,
    ) -> Told<InstallSnapshotResponse<u64>, RaftError<u64, InstallSnapshotError>> {
        self.told(self.raft()?.install_snapshot(rpc).await)
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<u64>,
        _: RPCOption,
    ) -> Told<VoteResponse<u64>, RaftError<u64>> {
        self.told(self.raft()?.vote(rpc).await)
    }
}

impl RaftNetworkFactory<Types> for Nodes {
    type Network = Link;

    async fn new_client(&mut self, target: u64, _: &BasicNode) -> Link {
        Link {
            nodes: self.clone(),
            to: target,
        }
    }
}

async fn start<L, S>(nodes: &Nodes, id: u64, log: L, state: S) -> Result<(), Failure>
where
    L: RaftLogStorage<Types>,
    S: RaftStateMachine<Types>,
{
    let config = openraft::Config {
        heartbeat_interval: 500,
        election_timeout_min: 2000,
        election_timeout_max: 4000,
        snapshot_policy: SnapshotPolicy::Never,
        ..openraft::Config::default()
    };
    let config = Arc::new(config.validate()?);
    let raft = Raft::new(id, config, nodes.clone(), log, state).await?;
    nodes.0.lock().expect("no panic").insert(id, raft);
    Ok(())
}

/// How and for how long commands come.
#[derive(Clone, Copy)]
struct Load {
    time: Duration,
    is_grouped: bool,
}

/// The leader, to which clients send.
#[derive(Clone)]
enum Way {
    /// Each command is an entry.
    Alone(Raft<Types>),
    /// Commands that come together are one.
    Grouped(Proposer<Types, Command, Answer>),
}

impl Way {
    async fn write(&self, command: Command) {
        match self {
            Way::Alone(raft) => {
                let written = raft.client_write(Group(vec![command])).await;
                written.expect("is committed");
            }
            Way::Grouped(proposer) => {
                proposer.write(command).await.expect("is committed");
            }
        }
    }
}

/// The next number of a sequence whose numbers are scattered.
fn scatter(number: u64) -> u64 {
    number
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963)
}

fn put(number: u64, fill: u8) -> Command {
    let key = format!("user/{:016x}", number >> 20).into_bytes();
    let (keyspace, value) = ("users".to_owned(), vec![fill; 100]);
    Command::Batch(vec![Write::Put {
        keyspace,
        key,
        value,
    }])
}

async fn client(way: Way, seed: u64, end: Instant) -> Vec<Duration> {
    let mut latencies = Vec::new();
    let mut number = seed;
    while Instant::now() < end {
        number = scatter(number);
        let command = put(number, seed as u8);
        let began = Instant::now();
        way.write(command).await;
        latencies.push(began.elapsed());
    }
    latencies
}

/// What was measured with one number of clients, or in all.
struct Figure {
    entries: u64,
    seconds: f64,
    written: Written,
    latencies: Vec<Duration>,
}

impl Figure {
    fn rate(&self) -> f64 {
        self.entries as f64 / self.seconds
    }

    /// Bytes of the processes, or of the device, for each entry.
    fn an_entry(&self, bytes: u64) -> f64 {
        bytes as f64 / self.entries as f64
    }

    /// Milliseconds that this share of the entries did not exceed.
    fn latency(&self, share: f64) -> f64 {
        let last = self.latencies.len() - 1;
        self.latencies[(last as f64 * share) as usize].as_secs_f64() * 1e3
    }

    fn print(&self, name: &str, clients: u64) {
        println!(
            "{name:7} {clients:4} clients  {:8.0} entries/s  p50 {:7.2} ms  p99 {:7.2} ms  \
             {:6.0} bytes/entry  {:6.0} of the device",
            self.rate(),
            self.latency(0.5),
            self.latency(0.99),
            self.an_entry(self.written.process),
            self.an_entry(self.written.device)
        );
    }
}

async fn load(way: &Way, clients: u64, time: Duration, dir: &Path) -> Result<Figure, Failure> {
    let (before, began) = (Written::so_far(dir), Instant::now());
    let tasks = (0..clients).map(|id| tokio::spawn(client(way.clone(), id, began + time)));
    let mut latencies = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        latencies.extend(task.await?);
    }
    let (seconds, written) = (began.elapsed().as_secs_f64(), Written::so_far(dir) - before);
    latencies.sort();
    Ok(Figure {
        entries: latencies.len() as u64,
        seconds,
        written,
        latencies,
    })
}

/// Writes [`WARM_UP`] commands in groups.
async fn warm_up(way: &Way) -> Result<(), Failure> {
    let left = Arc::new(AtomicU64::new(WARM_UP));
    let writer = |way: Way, left: Arc<AtomicU64>| async move {
        while left.fetch_sub(1, Ordering::Relaxed) as i64 > 0 {
            let number = left.load(Ordering::Relaxed);
            way.write(put(scatter(number), 0)).await;
        }
    };
    let writers = (0..256).map(|_| tokio::spawn(writer(way.clone(), left.clone())));
    for writer in writers.collect::<Vec<_>>() {
        writer.await?;
    }
    Ok(())
}

/// The figure with the most clients, and that of the whole run.
async fn measure(
    name: &str,
    nodes: &Nodes,
    (how, dir): (Load, &Path),
    settle: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Result<(Figure, Figure), Failure> {
    let leader = nodes.0.lock().expect("no panic")[&1].clone();
    let members: BTreeMap<u64, BasicNode> = (1..=3).map(|id| (id, BasicNode::default())).collect();
    leader.initialize(members).await?;
    let wait = leader.wait(Some(Duration::from_secs(60)));
    wait.current_leader(1, "the first node leads").await?;
    warm_up(&Way::Grouped(Proposer::new(leader.clone()))).await?;
    let (before, began) = (Written::so_far(dir), Instant::now());
    let way = match how.is_grouped {
        true => Way::Grouped(Proposer::new(leader)),
        false => Way::Alone(leader),
    };
    let (mut entries, mut last) = (0, None);
    for clients in [1, 16, 256] {
        let figure = load(&way, clients, how.time, dir).await?;
        figure.print(name, clients);
        entries += figure.entries;
        last = Some(figure);
    }
    drop(way);
    let all = std::mem::take(&mut *nodes.0.lock().expect("no panic"));
    for raft in all.into_values() {
        raft.shutdown().await?;
    }
    tokio::task::spawn_blocking(settle).await??;
    let whole = Figure {
        entries,
        seconds: began.elapsed().as_secs_f64(),
        written: Written::so_far(dir) - before,
        latencies: Vec::new(),
    };
    println!(
        "{name:7} in all        {entries:8} entries, {:6.0} bytes/entry  {:6.0} of the device",
        whole.an_entry(whole.written.process),
        whole.an_entry(whole.written.device)
    );
    Ok((last.ok_or("no figure")?, whole))
}

/// What the bytes of an entry were written for, on all nodes.
fn tell_causes(stores: &[Arc<evendb_raft::store::Store>], entries: u64) {
    for name in ["log", "state"] {
        let sum = |cause: fn(&evendb::WrittenStats) -> u64| {
            let of = |store: &Arc<evendb_raft::store::Store>| match name {
                "log" => store.log.db().stats(),
                _ => store.state.db().stats(),
            };
            let all: u64 = stores
                .iter()
                .map(|store| cause(&of(store).bytes_written))
                .sum();
            all / entries
        };
        println!(
            "EvenDB  {name:5} {} bytes/entry put; written for it: {} commit log without the rest of \
             its blocks, {} checkpoints, {} tables, {} manifest",
            sum(|written| written.user),
            sum(|written| written.commit_log),
            sum(|written| written.log),
            sum(|written| written.sstable),
            sum(|written| written.manifest)
        );
    }
}

async fn evendb(how: Load, place: &Path) -> Result<(Figure, Figure), Failure> {
    let nodes = Nodes::default();
    let mut stores = Vec::new();
    for id in 1..=3 {
        let config = Config::new().keyspace("users");
        let (log, state) = open::<Types, _>(place.join(id.to_string()), config, Grouped(KeyValue))?;
        stores.push(log.store().clone());
        start(&nodes, id, log, state).await?;
    }
    let told = stores.clone();
    let settle = move || {
        let settled = stores.iter().try_for_each(|store| {
            store.log.db().persist()?;
            store.state.db().persist()
        });
        settled.map_err(io::Error::other)
    };
    let figures = measure("EvenDB", &nodes, (how, place), settle).await?;
    tell_causes(&told, figures.1.entries);
    Ok(figures)
}

/// Measures a baseline; `open` opens a log's store and a state's.
async fn other<S: Store>(
    name: &str,
    how: Load,
    place: &Path,
    open: impl Fn(&Path) -> io::Result<(Arc<S>, Arc<S>)>,
) -> Result<(Figure, Figure), Failure> {
    let nodes = Nodes::default();
    let mut stores = Vec::new();
    for id in 1..=3 {
        let (log, state) = open(&place.join(id.to_string()))?;
        stores.extend([log.clone(), state.clone()]);
        start(&nodes, id, baseline::Log(log), baseline::State::new(state)).await?;
    }
    let settle = move || stores.iter().try_for_each(|store| store.settle());
    measure(name, &nodes, (how, place), settle).await
}

async fn run(how: Load, dir: &Path, names: &[String]) -> Result<(), Failure> {
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|one| one == name);
    let place = |name: &str| tempfile::Builder::new().prefix(name).tempdir_in(dir);
    let mut ours = None;
    if is_wanted("evendb") {
        ours = Some(evendb(how, place("evendb")?.path()).await?);
    }
    let beside = |name: &str, (most, whole): &(Figure, Figure)| {
        let Some((our_most, our_whole)) = &ours else {
            return;
        };
        let times = |ours: &Figure, theirs: &Figure, of: fn(&Written) -> u64| {
            ours.an_entry(of(&ours.written)) / theirs.an_entry(of(&theirs.written))
        };
        println!(
            "EvenDB beside {name} with 256 clients: {:.2} times the entries, {:.2} of the bytes \
             ({:.2} in all), {:.2} of those of the device ({:.2} in all)",
            our_most.rate() / most.rate(),
            times(our_most, most, |written| written.process),
            times(our_whole, whole, |written| written.process),
            times(our_most, most, |written| written.device),
            times(our_whole, whole, |written| written.device),
        );
    };
    if is_wanted("rocksdb") {
        match RocksDb::load() {
            Ok(library) => {
                let open = |dir: &Path| {
                    let log = Rocks::open(&library, &dir.join("log"), true)?;
                    Ok((log, Rocks::open(&library, &dir.join("state"), false)?))
                };
                let figures = other("RocksDB", how, place("rocksdb")?.path(), open).await?;
                beside("RocksDB", &figures);
            }
            Err(why) => println!("RocksDB is left out: {why} (apt-get install librocksdb7.8)"),
        }
    }
    if is_wanted("redb") {
        let open = |dir: &Path| {
            Ok((
                Redb::open(&dir.join("log"))?,
                Redb::open(&dir.join("state"))?,
            ))
        };
        let figures = other("redb", how, place("redb")?.path(), open).await?;
        beside("redb", &figures);
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args.next().map_or(Ok(5), |text| text.parse())?;
    let dir = args.next().unwrap_or_else(|| ".".to_owned());
    let (grouped, names): (Vec<String>, Vec<String>) = args.partition(|arg| arg == "grouped");
    let how = Load {
        time: Duration::from_secs(seconds),
        is_grouped: !grouped.is_empty(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run(how, Path::new(&dir), &names))
}

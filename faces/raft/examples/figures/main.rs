//! Committed entries a second, latencies and bytes written an entry: three nodes in one process,
//! with an in-memory network, at 1, 16 and 256 clients; on EvenDB, RocksDB and redb.
//!
//! ```console
//! $ cargo run --release --example figures -- 15 .                     seconds a figure, a directory
//! $ cargo run --release --example figures -- 15 . evendb rocksdb      only these stores
//! ```
//! An entry puts a value of 100 bytes under a random key. The directory should be on a disk, not in
//! memory. Bytes are those that the kernel counts for the process (`write_bytes` of
//! `/proc/self/io`), of all three nodes; where it does not count, 0.
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

use baseline::Store;
use evendb_raft::machine::{Answer, Command, KeyValue};
use evendb_raft::openraft09::{SnapshotFile, open};
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
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

openraft::declare_raft_types!(
    /// The ready state machine's types.
    pub Types: D = Command, R = Answer, SnapshotData = SnapshotFile
);

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

fn written() -> u64 {
    let counts = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = counts
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|number| number.parse().ok()).unwrap_or(0)
}

async fn client(raft: Raft<Types>, seed: u64, end: Instant) -> Vec<Duration> {
    let mut latencies = Vec::new();
    let mut number = seed;
    while Instant::now() < end {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963);
        let key = format!("user/{:016x}", number >> 20).into_bytes();
        let (keyspace, value) = ("users".to_owned(), vec![seed as u8; 100]);
        let began = Instant::now();
        let put = Write::Put {
            keyspace,
            key,
            value,
        };
        raft.client_write(Command::Batch(vec![put]))
            .await
            .expect("is committed");
        latencies.push(began.elapsed());
    }
    latencies
}

/// What was measured with one number of clients, or in all.
struct Figure {
    entries: u64,
    seconds: f64,
    bytes: u64,
    latencies: Vec<Duration>,
}

impl Figure {
    fn rate(&self) -> f64 {
        self.entries as f64 / self.seconds
    }

    fn bytes_an_entry(&self) -> f64 {
        self.bytes as f64 / self.entries as f64
    }

    /// Milliseconds that this share of the entries did not exceed.
    fn latency(&self, share: f64) -> f64 {
        let last = self.latencies.len() - 1;
        self.latencies[(last as f64 * share) as usize].as_secs_f64() * 1e3
    }

    fn print(&self, name: &str, clients: u64) {
        println!(
            "{name:7} {clients:4} clients  {:8.0} entries/s  p50 {:7.2} ms  p99 {:7.2} ms  \
             {:6.0} bytes/entry",
            self.rate(),
            self.latency(0.5),
            self.latency(0.99),
            self.bytes_an_entry()
        );
    }
}

async fn load(leader: &Raft<Types>, clients: u64, time: Duration) -> Result<Figure, Failure> {
    let (before, began) = (written(), Instant::now());
    let tasks = (0..clients).map(|id| tokio::spawn(client(leader.clone(), id, began + time)));
    let mut latencies = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        latencies.extend(task.await?);
    }
    let (seconds, bytes) = (began.elapsed().as_secs_f64(), written() - before);
    latencies.sort();
    Ok(Figure {
        entries: latencies.len() as u64,
        seconds,
        bytes,
        latencies,
    })
}

/// The figure with the most clients, and that of the whole run.
async fn measure(
    name: &str,
    nodes: &Nodes,
    time: Duration,
    settle: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Result<(Figure, Figure), Failure> {
    let leader = nodes.0.lock().expect("no panic")[&1].clone();
    let members: BTreeMap<u64, BasicNode> = (1..=3).map(|id| (id, BasicNode::default())).collect();
    leader.initialize(members).await?;
    let wait = leader.wait(Some(Duration::from_secs(60)));
    wait.current_leader(1, "the first node leads").await?;
    let (before, began) = (written(), Instant::now());
    let (mut entries, mut last) = (0, None);
    for clients in [1, 16, 256] {
        let figure = load(&leader, clients, time).await?;
        figure.print(name, clients);
        entries += figure.entries;
        last = Some(figure);
    }
    let all = std::mem::take(&mut *nodes.0.lock().expect("no panic"));
    for raft in all.into_values() {
        raft.shutdown().await?;
    }
    tokio::task::spawn_blocking(settle).await??;
    let whole = Figure {
        entries,
        seconds: began.elapsed().as_secs_f64(),
        bytes: written() - before,
        latencies: Vec::new(),
    };
    let bytes = whole.bytes_an_entry();
    println!("{name:7} in all        {entries:8} entries, {bytes:6.0} bytes/entry");
    Ok((last.ok_or("no figure")?, whole))
}

async fn evendb(time: Duration, place: &Path) -> Result<(Figure, Figure), Failure> {
    let nodes = Nodes::default();
    let mut stores = Vec::new();
    for id in 1..=3 {
        let config = Config::new().keyspace("users");
        let (log, state) = open::<Types, _>(place.join(id.to_string()), config, KeyValue)?;
        stores.push(log.store().clone());
        start(&nodes, id, log, state).await?;
    }
    let settle = move || {
        let settled = stores.iter().try_for_each(|store| {
            store.log.db().persist()?;
            store.state.db().persist()
        });
        settled.map_err(io::Error::other)
    };
    measure("EvenDB", &nodes, time, settle).await
}

/// Measures a baseline; `open` opens a log's store and a state's.
async fn other<S: Store>(
    name: &str,
    time: Duration,
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
    measure(name, &nodes, time, settle).await
}

async fn run(time: Duration, dir: &Path, names: &[String]) -> Result<(), Failure> {
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|one| one == name);
    let place = |name: &str| tempfile::Builder::new().prefix(name).tempdir_in(dir);
    let mut ours = None;
    if is_wanted("evendb") {
        ours = Some(evendb(time, place("evendb")?.path()).await?);
    }
    let beside = |name: &str, (most, whole): &(Figure, Figure)| {
        let Some((our_most, our_whole)) = &ours else {
            return;
        };
        println!(
            "EvenDB beside {name} with 256 clients: {:.2} times the entries, {:.2} of the bytes \
             ({:.2} in all)",
            our_most.rate() / most.rate(),
            our_most.bytes_an_entry() / most.bytes_an_entry(),
            our_whole.bytes_an_entry() / whole.bytes_an_entry()
        );
    };
    if is_wanted("rocksdb") {
        match RocksDb::load() {
            Ok(library) => {
                let open = |dir: &Path| {
                    let log = Rocks::open(&library, &dir.join("log"), true)?;
                    Ok((log, Rocks::open(&library, &dir.join("state"), false)?))
                };
                let figures = other("RocksDB", time, place("rocksdb")?.path(), open).await?;
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
        let figures = other("redb", time, place("redb")?.path(), open).await?;
        beside("redb", &figures);
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args.next().map_or(Ok(5), |text| text.parse())?;
    let dir = args.next().unwrap_or_else(|| ".".to_owned());
    let names: Vec<String> = args.collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run(Duration::from_secs(seconds), Path::new(&dir), &names))
}

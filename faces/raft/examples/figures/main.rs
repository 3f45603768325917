//! Committed entries a second, latencies and bytes written an entry: three nodes in one process,
//! with an in-memory network, at 1, 16 and 256 clients; on EvenDB, and on redb as a baseline.
//!
//! ```console
//! $ cargo run --release --example figures -- 5 .     seconds for each figure, a directory on a disk
//! ```
//! An entry puts a value of 100 bytes under a random key. Bytes are those that the kernel counts for
//! the process (`write_bytes` of `/proc/self/io`), of all three nodes; where it does not count, 0.

#![allow(
    clippy::disallowed_types,
    reason = "no model runs a test or an example"
)]
#![allow(clippy::result_large_err, reason = "openraft has errors of that size")]

#[path = "redb.rs"]
mod baseline;

use evendb_raft::machine::{Answer, Command, KeyValue};
use evendb_raft::openraft09::{SnapshotFile, open};
use evendb_raft::state::effects::Write;
use evendb_raft::store::Config;
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

async fn measure(name: &str, nodes: &Nodes, time: Duration) -> Result<(), Failure> {
    let leader = nodes.0.lock().expect("no panic")[&1].clone();
    let members: BTreeMap<u64, BasicNode> = (1..=3).map(|id| (id, BasicNode::default())).collect();
    leader.initialize(members).await?;
    let wait = leader.wait(Some(Duration::from_secs(60)));
    wait.current_leader(1, "the first node leads").await?;
    for clients in [1, 16, 256] {
        let (before, began) = (written(), Instant::now());
        let tasks = (0..clients).map(|id| tokio::spawn(client(leader.clone(), id, began + time)));
        let mut latencies = Vec::new();
        for task in tasks.collect::<Vec<_>>() {
            latencies.extend(task.await?);
        }
        let took = began.elapsed().as_secs_f64();
        let bytes = written() - before;
        latencies.sort();
        let count = latencies.len();
        let at = |share: f64| latencies[((count - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
        println!(
            "{name:7} {clients:4} clients  {:8.0} entries/s  p50 {:7.2} ms  p99 {:7.2} ms  {:6.0} bytes/entry",
            count as f64 / took,
            at(0.5),
            at(0.99),
            bytes as f64 / count as f64
        );
    }
    let all: Vec<_> = nodes
        .0
        .lock()
        .expect("no panic")
        .values()
        .cloned()
        .collect();
    for raft in all {
        raft.shutdown().await?;
    }
    Ok(())
}

async fn run(time: Duration, dir: &Path) -> Result<(), Failure> {
    let place = tempfile::tempdir_in(dir)?;
    let nodes = Nodes::default();
    for id in 1..=3 {
        let config = Config::new().keyspace("users");
        let (log, state) = open::<Types, _>(place.path().join(id.to_string()), config, KeyValue)?;
        start(&nodes, id, log, state).await?;
    }
    measure("EvenDB", &nodes, time).await?;
    let place = tempfile::tempdir_in(dir)?;
    let nodes = Nodes::default();
    for id in 1..=3 {
        let dir = place.path().join(id.to_string());
        std::fs::create_dir(&dir)?;
        let (log, state) = baseline::open(&dir)?;
        start(&nodes, id, log, state).await?;
    }
    measure("redb", &nodes, time).await
}

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args.next().map_or(Ok(5), |text| text.parse())?;
    let dir = args.next().unwrap_or_else(|| ".".to_owned());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run(Duration::from_secs(seconds), Path::new(&dir)))
}

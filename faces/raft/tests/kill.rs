//! Three processes with the server of the example `serve` on loopback; clients write, swap and
//! read, and the leader is killed by signal 9 again and again, and started again. The history must
//! be linearizable with reads of everything at the end: so nothing that was acknowledged is lost.
//!
//! `EVENDB_RAFT_KILLS` sets the number of kills (default 3; the campaign has 200), and
//! `EVENDB_HISTORY_OUT` a folder for the history.

#![allow(
    clippy::disallowed_types,
    reason = "no model runs a test or an example"
)]
#![allow(clippy::result_large_err, reason = "openraft has errors of that size")]

mod common;
#[allow(dead_code, reason = "its main function is the example's")]
#[path = "../examples/serve/main.rs"]
mod serve;

use common::linearizable::{Kind, NEVER, Op, check, keep};
use common::{Rng, number_from_env, put};
use evendb_raft::machine::{Answer, Command, Compare, Condition};
use serve::http::Client;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const KEYS: u64 = 6;
const CLIENTS: u64 = 4;
/// After this time without a leader the cluster counts as dead.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process of this program has its node's arguments here, and is a server then.
const NODE: &str = "EVENDB_RAFT_NODE";

/// No test by itself: the server of the processes that the other test starts.
#[test]
fn a_node_of_the_cluster() {
    let Ok(arguments) = std::env::var(NODE) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let arguments = arguments.split('\n').map(str::to_owned).collect();
    let served = runtime.expect("is built").block_on(serve::serve(arguments));
    served.expect("serves");
}

struct Cluster {
    dir: tempfile::TempDir,
    addresses: Vec<String>,
    children: Vec<Option<Child>>,
}

/// Processes end with the test, whatever its end is.
impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.children.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Cluster {
    fn start() -> Cluster {
        // Ports that are free now; all are held until the last one is known.
        let held: Vec<_> = (0..3)
            .map(|_| TcpListener::bind("127.0.0.1:0").expect("is bound"))
            .collect();
        let addresses = held
            .iter()
            .map(|port| port.local_addr().expect("has one").to_string());
        let mut cluster = Cluster {
            dir: tempfile::tempdir().expect("is made"),
            addresses: addresses.collect(),
            children: vec![None, None, None],
        };
        drop(held);
        (0..3).for_each(|node| cluster.spawn(node));
        cluster
    }

    fn spawn(&mut self, node: usize) {
        let dir = self.dir.path().join(node.to_string());
        let mut arguments = vec![dir.to_str().expect("is text").to_owned()];
        arguments.push((node + 1).to_string());
        arguments.extend(self.addresses.iter().cloned());
        let test = std::env::current_exe().expect("is known");
        let mut command = std::process::Command::new(test);
        command.args(["--exact", "a_node_of_the_cluster", "--nocapture"]);
        command
            .env(NODE, arguments.join("\n"))
            .env("SERVE_SNAPSHOT_EVERY", "200");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        self.children[node] = Some(command.spawn().expect("starts"));
    }

    fn kill(&mut self, node: usize) {
        let mut child = self.children[node].take().expect("runs");
        child.kill().expect("is killed");
        child.wait().expect("has ended");
    }

    fn has_ended(&mut self) -> Option<usize> {
        let ended = |child: &mut Child| child.try_wait().expect("is known").is_some();
        self.children
            .iter_mut()
            .position(|child| child.as_mut().is_some_and(ended))
    }
}

struct World {
    addresses: Vec<String>,
    leader: AtomicU64,
    moments: AtomicU64,
    versions: AtomicU64,
    is_over: AtomicBool,
    history: Mutex<Vec<Op>>,
}

fn name(key: u64) -> Vec<u8> {
    format!("key {key}").into_bytes()
}

fn version_of(value: Option<&[u8]>) -> u32 {
    value.map_or(0, |bytes| {
        u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"))
    })
}

fn value_of(version: u32) -> Vec<u8> {
    let mut value = version.to_le_bytes().to_vec();
    value.resize(200, version as u8);
    value
}

fn swap(key: u64, seen: u32, version: u32) -> Command {
    let compare = match seen {
        0 => Compare::Absent,
        seen => Compare::Equals(value_of(seen)),
    };
    let condition = Condition {
        keyspace: "main".to_owned(),
        key: name(key),
        compare,
    };
    Command::Transaction {
        conditions: vec![condition],
        then: vec![put("main", &name(key), &value_of(version))],
        otherwise: Vec::new(),
        reads: vec![("main".to_owned(), name(key))],
    }
}

/// What came of an operation.
enum Came {
    Answer(Kind),
    Refused,
    Unknown,
}

impl World {
    fn moment(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::SeqCst)
    }

    fn record(&self, key: u64, begin: u64, end: u64, kind: Kind) {
        let op = Op {
            key: key as u32,
            begin,
            end,
            kind,
        };
        self.history.lock().expect("no panic").push(op);
    }

    async fn ask(&self, client: &Client, command: Command) -> std::io::Result<Option<Answer>> {
        let body = postcard::to_stdvec(&command).map_err(std::io::Error::other)?;
        let answer = tokio::time::timeout(Duration::from_secs(5), client.post("/do", body)).await;
        let (status, body) = answer.map_err(std::io::Error::other)??;
        match status.as_u16() {
            200 => postcard::from_bytes(&body)
                .map(Some)
                .map_err(std::io::Error::other),
            421 => Ok(None),
            _ => Err(std::io::Error::other("it may happen")),
        }
    }

    async fn write(&self, client: &Client, command: Command, kind: Kind) -> Came {
        match self.ask(client, command).await {
            Ok(Some(Answer::Done { held: true, .. })) => Came::Answer(kind),
            Ok(Some(Answer::Done { values, .. })) => {
                Came::Answer(Kind::Read(version_of(values[0].as_deref())))
            }
            Ok(Some(other)) => panic!("{other:?}"),
            Ok(None) => Came::Refused,
            // Nothing listens: nothing was asked.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Came::Refused,
            Err(_) => Came::Unknown,
        }
    }

    async fn operate(&self, client: &Client, key: u64, drawn: u64, seen: &mut u32) -> bool {
        let version = self.versions.fetch_add(1, Ordering::Relaxed) as u32 + 1;
        let begin = self.moment();
        let (came, kind) = match drawn {
            0..=3 => {
                let name = name(key);
                let read = client.get("main", &name);
                let read = tokio::time::timeout(Duration::from_secs(5), read).await;
                let Ok(Ok(Some(value))) = read else {
                    return false;
                };
                *seen = version_of(value.as_deref());
                (Came::Answer(Kind::Read(*seen)), Kind::Read(*seen))
            }
            4..=7 => {
                let command = Command::Batch(vec![put("main", &name(key), &value_of(version))]);
                let kind = Kind::Write(version);
                (self.write(client, command, kind).await, kind)
            }
            _ => {
                let kind = Kind::Swap(*seen, version);
                (
                    self.write(client, swap(key, *seen, version), kind).await,
                    kind,
                )
            }
        };
        match came {
            Came::Answer(kind) => self.record(key, begin, self.moment(), kind),
            Came::Unknown => self.record(key, begin, NEVER, kind),
            Came::Refused => {}
        }
        matches!(came, Came::Answer(_))
    }

    async fn client(self: Arc<World>, seed: u64) {
        let clients: Vec<_> = self
            .addresses
            .iter()
            .map(|address| Client::new(address))
            .collect();
        let mut rng = Rng(seed);
        let mut seen = [0; KEYS as usize];
        while !self.is_over.load(Ordering::Relaxed) {
            let leader = self.leader.load(Ordering::Relaxed);
            let (key, drawn) = (rng.below(KEYS), rng.below(10));
            let client = &clients[leader as usize % 3];
            let is_done = self
                .operate(client, key, drawn, &mut seen[key as usize])
                .await;
            let pause = if is_done { rng.below(6) } else { 20 };
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    /// Waits until some node answers a read as the leader, and returns it.
    async fn find_leader(&self) -> usize {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            for (node, address) in self.addresses.iter().enumerate() {
                let client = Client::new(address);
                let read = client.get("main", b"anything");
                let read = tokio::time::timeout(Duration::from_secs(2), read).await;
                if let Ok(Ok(Some(_))) = read {
                    self.leader.store(node as u64, Ordering::Relaxed);
                    return node;
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("no leader for {PATIENCE:?}");
    }

    async fn begin(&self) {
        let began = Instant::now();
        let client = Client::new(&self.addresses[0]);
        while client.post("/begin", Vec::new()).await.is_err() {
            assert!(began.elapsed() < PATIENCE, "the first node does not answer");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn read_everything(&self, leader: usize) {
        let client = Client::new(&self.addresses[leader]);
        for key in 0..KEYS {
            let begin = self.moment();
            let value = client.get("main", &name(key)).await.expect("answers");
            let found = version_of(value.expect("is the leader").as_deref());
            self.record(key, begin, self.moment(), Kind::Read(found));
        }
    }
}

async fn campaign(kills: u64, seed: u64) -> Arc<World> {
    let mut cluster = Cluster::start();
    let world = Arc::new(World {
        addresses: cluster.addresses.clone(),
        leader: AtomicU64::new(0),
        moments: AtomicU64::new(0),
        versions: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        history: Mutex::new(Vec::new()),
    });
    world.begin().await;
    world.find_leader().await;
    let clients = (0..CLIENTS).map(|client| tokio::spawn(world.clone().client(seed ^ client)));
    let clients: Vec<_> = clients.collect();
    let mut rng = Rng(seed);
    for kill in 1..=kills {
        let leader = world.find_leader().await;
        tokio::time::sleep(Duration::from_millis(50 + rng.below(400))).await;
        cluster.kill(leader);
        // Sometimes it comes back before the others have a new leader, sometimes after that.
        tokio::time::sleep(Duration::from_millis(rng.below(1500))).await;
        cluster.spawn(leader);
        let ended = cluster.has_ended();
        assert_eq!(
            ended, None,
            "a node has ended by itself, before kill {kill}"
        );
    }
    let leader = world.find_leader().await;
    world.is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("no panic");
    }
    world.read_everything(leader).await;
    assert_eq!(cluster.has_ended(), None, "a node has ended by itself");
    world
}

#[test]
fn killed_leaders_lose_nothing() {
    let kills = number_from_env("EVENDB_RAFT_KILLS", 3);
    let seed = number_from_env("EVENDB_RAFT_SEED", 1);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let world = runtime.expect("is built").block_on(campaign(kills, seed));
    let history = world.history.lock().expect("no panic").clone();
    let answered = history.iter().filter(|op| op.end != NEVER).count();
    println!(
        "{kills} kills, {} operations, {answered} answered",
        history.len()
    );
    keep("raft-kill", KEYS as u32, &history);
    assert!(answered as u64 > 20 * kills, "{answered} answers");
    check(&history).unwrap_or_else(|what| panic!("{what}"));
}

//! Three processes with the server of the example `serve` on loopback, and clients that write, swap
//! and read single keys and record what came of it.
//!
//! ```text
//! Cluster   the processes, each started as this program with its arguments in the environment
//! Links     what the processes send each other, through this process
//! World     the clients and their history, which must be linearizable, with reads of everything at
//!           the end: so nothing that was acknowledged is lost
//! ```
//! A program that uses this calls [`be_a_node`] where [`NODE`] is set. Processes end with the
//! program that started them, whatever its end is.

#![allow(dead_code, reason = "every test binary uses its own part")]

pub mod links;
#[allow(dead_code, reason = "its main function is the example's")]
#[path = "../../examples/serve/main.rs"]
pub mod serve;

use crate::common::Rng;
use crate::common::linearizable::{Kind, NEVER, Op, check, keep};
use crate::common::operations::{Keys, Recorder};
use evendb_raft::machine::{Answer, Command};
use links::Links;
use serve::http::Client;
use std::io::{ErrorKind, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub const NODES: usize = 3;
pub const KEYS: u64 = 6;
pub const RECORDS: Keys = Keys {
    keyspace: "main",
    value_bytes: 200,
};
const CLIENTS: u64 = 4;
/// After this time without a leader the cluster counts as dead.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// After this time without an answer a client goes on, and does not know what came of it.
const ANSWER_COMES: Duration = Duration::from_secs(3);

/// A process has the arguments of its node here.
pub const NODE: &str = "EVENDB_RAFT_NODE";

/// Runs this future in threads of its own, to its end.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_all().build();
    runtime.expect("is built").block_on(future)
}

/// Serves the node of these arguments, until an error or the end of the process that started it.
pub fn be_a_node(arguments: &str) -> Result<(), Box<dyn std::error::Error>> {
    std::thread::spawn(|| {
        // The other end is held by the program that started this one.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
    run(serve::serve(
        arguments.split('\n').map(str::to_owned).collect(),
    ))
}

/// The processes.
pub struct Cluster {
    /// Where the nodes' directories are.
    pub dirs: Vec<PathBuf>,
    /// Where the nodes listen.
    pub addresses: Vec<String>,
    pub links: Links,
    children: Vec<Option<Child>>,
    environment: Vec<(&'static str, &'static str)>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.children.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Cluster {
    /// Three nodes with these directories, which all run.
    pub async fn start(
        dirs: Vec<PathBuf>,
        environment: Vec<(&'static str, &'static str)>,
    ) -> Cluster {
        // Ports that are free now; all are held until the last one is known.
        let held: Vec<_> = (0..NODES)
            .map(|_| TcpListener::bind("127.0.0.1:0").expect("is bound"))
            .collect();
        let addresses = held
            .iter()
            .map(|port| port.local_addr().expect("has one").to_string());
        let addresses: Vec<String> = addresses.collect();
        let links = Links::start(&addresses).await;
        drop(held);
        let mut cluster = Cluster {
            dirs,
            addresses,
            links,
            children: (0..NODES).map(|_| None).collect(),
            environment,
        };
        (0..NODES).for_each(|node| cluster.spawn(node));
        cluster
    }

    /// Three nodes in one directory.
    pub async fn start_in(dir: &Path) -> Cluster {
        let dirs = (0..NODES).map(|node| dir.join(node.to_string())).collect();
        Cluster::start(dirs, vec![("SERVE_SNAPSHOT_EVERY", "200")]).await
    }

    /// Starts a node that does not run.
    pub fn spawn(&mut self, node: usize) {
        let dir = self.dirs[node].to_str().expect("is text").to_owned();
        let mut arguments = vec![dir, (node + 1).to_string()];
        arguments.extend(self.links.addresses_for(node).iter().cloned());
        let program = std::env::current_exe().expect("is known");
        let mut command = std::process::Command::new(program);
        // For a program that is a collection of tests: this one is the server.
        command.args(["--exact", "a_node_of_the_cluster", "--nocapture"]);
        command.env(NODE, arguments.join("\n"));
        command.envs(self.environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        self.children[node] = Some(command.spawn().expect("starts"));
    }

    /// Kills a node by signal 9, or removes one that has ended.
    pub fn kill(&mut self, node: usize) {
        let mut child = self.children[node].take().expect("was started");
        child.kill().expect("is killed");
        child.wait().expect("has ended");
    }

    /// Whether a node has ended by itself.
    pub fn has_ended(&mut self, node: usize) -> bool {
        let child = self.children[node].as_mut();
        child.is_some_and(|child| child.try_wait().expect("is known").is_some())
    }

    /// Fails if a node has ended by itself.
    pub fn all_run(&mut self, when: &str) {
        let ended = (0..NODES).find(|node| self.has_ended(*node));
        assert_eq!(ended, None, "a node has ended by itself, {when}");
    }
}

/// The clients, and what they did.
pub struct World {
    addresses: Vec<String>,
    leader: AtomicUsize,
    is_over: AtomicBool,
    recorder: Recorder,
    /// For each node, how often it was darkened and lightened.
    darkened: [AtomicU64; NODES],
}

/// What came of an operation.
enum Came {
    Answer(Kind),
    Refused,
    Unknown,
}

async fn ask(client: &Client, command: Command) -> std::io::Result<Option<Answer>> {
    let body = postcard::to_stdvec(&command).map_err(std::io::Error::other)?;
    let answer = tokio::time::timeout(ANSWER_COMES, client.post("/do", body)).await;
    let (status, body) = answer.map_err(std::io::Error::other)??;
    match status.as_u16() {
        200 => postcard::from_bytes(&body)
            .map(Some)
            .map_err(std::io::Error::other),
        421 => Ok(None),
        _ => Err(std::io::Error::other("it may happen")),
    }
}

async fn write(client: &Client, command: Command, asked: Kind) -> Came {
    match ask(client, command).await {
        Ok(Some(answer)) => Came::Answer(RECORDS.outcome(&answer, asked)),
        Ok(None) => Came::Refused,
        // Nothing listens: nothing was asked.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Came::Refused,
        Err(_) => Came::Unknown,
    }
}

async fn read(client: &Client, key: u64) -> Option<u32> {
    let name = RECORDS.name(key);
    let read = client.get(RECORDS.keyspace, &name);
    let read = tokio::time::timeout(ANSWER_COMES, read).await;
    let value = read.ok()?.ok()??;
    Some(RECORDS.version(value.as_deref()))
}

impl World {
    /// Makes the cluster, and waits for a leader.
    pub async fn begin(cluster: &Cluster) -> Arc<World> {
        let world = World {
            addresses: cluster.addresses.clone(),
            leader: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            recorder: Recorder::default(),
            darkened: Default::default(),
        };
        let began = Instant::now();
        let client = Client::new(&world.addresses[0]);
        while client.post("/begin", Vec::new()).await.is_err() {
            assert!(began.elapsed() < PATIENCE, "the first node does not answer");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        world.find_leader().await;
        Arc::new(world)
    }

    /// From now on no answer of this node counts: its power is being cut, and it may go on for a
    /// moment without a disk.
    pub fn darken(&self, node: usize) {
        let before = self.darkened[node].fetch_add(1, Ordering::SeqCst);
        assert!(before.is_multiple_of(2), "is dark");
    }

    /// Answers of this node count again, to what is asked from now on.
    pub fn lighten(&self, node: usize) {
        let before = self.darkened[node].fetch_add(1, Ordering::SeqCst);
        assert!(!before.is_multiple_of(2), "is not dark");
    }

    /// Whether an answer of this node counts, if the node was in this state when it was asked.
    fn counts(&self, node: usize, asked: u64) -> bool {
        asked.is_multiple_of(2) && self.darkened[node].load(Ordering::SeqCst) == asked
    }

    async fn operate(
        &self,
        (client, node): (&Client, usize),
        key: u64,
        drawn: u64,
        seen: &mut u32,
    ) -> bool {
        let version = self.recorder.version();
        let state = self.darkened[node].load(Ordering::SeqCst);
        let begin = self.recorder.moment();
        if drawn < 4 {
            let found = read(client, key).await;
            let Some(found) = found.filter(|_| self.counts(node, state)) else {
                return false;
            };
            *seen = found;
            self.recorder.answered(key, begin, Kind::Read(found));
            return true;
        }
        let (command, asked) = match drawn {
            4..=7 => (RECORDS.write(key, version), Kind::Write(version)),
            _ => {
                let swap = RECORDS.swap(key, *seen, version);
                (swap, Kind::Swap(*seen, version))
            }
        };
        match write(client, command, asked).await {
            Came::Answer(kind) if self.counts(node, state) => {
                self.recorder.answered(key, begin, kind);
            }
            Came::Answer(_) | Came::Unknown => self.recorder.unanswered(key, begin, asked),
            Came::Refused => return false,
        }
        true
    }

    /// A client, which mostly asks the leader that was found last, and sometimes any node: one that
    /// is cut off may still take itself for the leader.
    async fn client(self: Arc<World>, seed: u64) {
        let clients: Vec<_> = self
            .addresses
            .iter()
            .map(|address| Client::new(address))
            .collect();
        let mut rng = Rng(seed);
        let mut seen = [0; KEYS as usize];
        while !self.is_over.load(Ordering::Relaxed) {
            let (key, drawn) = (rng.below(KEYS), rng.below(10));
            let node = match rng.below(8) {
                0 => rng.below(NODES as u64) as usize,
                _ => self.leader.load(Ordering::Relaxed),
            };
            let seen = &mut seen[key as usize];
            let client = (&clients[node], node);
            let is_done = self.operate(client, key, drawn, seen).await;
            let pause = if is_done { rng.below(6) } else { 20 };
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    /// Starts the clients.
    pub fn start_clients(self: &Arc<World>, seed: u64) -> Vec<tokio::task::JoinHandle<()>> {
        let client = |number| tokio::spawn(self.clone().client(seed ^ number));
        (0..CLIENTS).map(client).collect()
    }

    /// Waits until some node answers a read as the leader, and returns it.
    pub async fn find_leader(&self) -> usize {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            for (node, address) in self.addresses.iter().enumerate() {
                let client = Client::new(address);
                let read = client.get(RECORDS.keyspace, b"anything");
                let read = tokio::time::timeout(Duration::from_secs(1), read).await;
                if let Ok(Ok(Some(_))) = read {
                    self.leader.store(node, Ordering::Relaxed);
                    return node;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut told = Vec::new();
        for node in 0..NODES {
            told.push(self.told_by(node).await);
        }
        panic!("no leader for {PATIENCE:?}:\n{}", told.join("\n"));
    }

    /// What a node says of its consensus, or why it does not.
    async fn told_by(&self, node: usize) -> String {
        let client = Client::new(&self.addresses[node]);
        let asked = client.post("/metrics", Vec::new());
        match tokio::time::timeout(Duration::from_secs(1), asked).await {
            Ok(Ok((_, told))) => String::from_utf8_lossy(&told).into_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(late) => late.to_string(),
        }
    }

    /// The index of the last entry that a node has applied. `None` if it does not say.
    pub async fn applied_by(&self, node: usize) -> Option<u64> {
        let told = self.told_by(node).await;
        let (_, applied) = told.split_once("last_applied: Some(")?;
        let (_, index) = applied.split_once("index: ")?;
        let digits = index.split(|digit: char| !digit.is_ascii_digit()).next()?;
        digits.parse().ok()
    }

    /// The number of operations that were answered so far.
    pub fn answers(&self) -> usize {
        self.recorder.answers()
    }

    /// Ends the clients.
    pub async fn stop(&self, clients: Vec<tokio::task::JoinHandle<()>>) {
        self.is_over.store(true, Ordering::Relaxed);
        for client in clients {
            client.await.expect("no panic");
        }
    }

    /// Reads everything, and returns the history.
    pub async fn end(&self) -> Vec<Op> {
        for key in 0..KEYS {
            let began = Instant::now();
            loop {
                let leader = self.find_leader().await;
                let begin = self.recorder.moment();
                let client = Client::new(&self.addresses[leader]);
                if let Some(found) = read(&client, key).await {
                    self.recorder.answered(key, begin, Kind::Read(found));
                    break;
                }
                assert!(began.elapsed() < PATIENCE, "key {key} cannot be read");
            }
        }
        self.recorder.take()
    }
}

/// Keeps a history under this name, and judges it. Returns the number of answers.
pub fn judge(name: &str, history: &[Op]) -> Result<u64, String> {
    keep(name, KEYS as u32, history);
    check(history)?;
    Ok(history.iter().filter(|op| op.end != NEVER).count() as u64)
}

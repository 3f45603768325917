//! Three nodes in one process over a simulated network and simulated disks, in simulated time:
//! partitions, messages that are late or lost, full disks, crashes and power cuts with restarts.
//! Clients write, swap and read single keys; the history must be linearizable, no acknowledged
//! write may be lost, and at the end all nodes have the same content. With odd seeds each command
//! is an entry, with even ones those that come together are one.
//!
//! A seed decides on faults, delays, clients and elections. `EVENDB_RAFT_SEEDS` sets the number of
//! seeds (default 10), `EVENDB_RAFT_SEED` the first one, `EVENDB_HISTORY_OUT` a folder for the
//! histories. openraft's loops choose at random between messages that are there; for an exact
//! replay build with `RUSTFLAGS="--cfg tokio_unstable"`, which has that choice follow the seed,
//! too.

#![allow(
    clippy::disallowed_types,
    reason = "no model runs a test or an example"
)]
#![allow(clippy::result_large_err, reason = "openraft has errors of that size")]

mod common;

use common::linearizable::{Kind, NEVER, Op, check, keep};
use common::operations::{Keys, Recorder};
use common::{Rng, content_of, number_from_env, scramble};
use evendb::vfs::{CrashMode, Fault, FaultKind, FaultOn, SimVfs};
use evendb_raft::machine::{Answer, Command, KeyValue};
use evendb_raft::openraft09::{Group, Grouped, LogStore, Proposer, SnapshotFile, open};
use evendb_raft::store::Config;
use openraft::error::{InstallSnapshotError, RPCError, RaftError, RemoteError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{AsyncRuntime, BasicNode, OptionalSend, Raft, SnapshotPolicy, TokioRuntime};
use rand::SeedableRng;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const NODES: u64 = 3;
const KEYS: u64 = 5;
const CLIENTS: u64 = 4;
const RECORDS: Keys = Keys {
    keyspace: "keys",
    value_bytes: 4,
};
/// The simulated time in which clients and faults are at work.
const LIFE: Duration = Duration::from_secs(40);

openraft::declare_raft_types!(
    /// The ready state machine's types, with elections that follow the seed.
    pub Types: D = Group<Command>, R = Group<Answer>, SnapshotData = SnapshotFile,
    AsyncRuntime = Seeded
);

thread_local! {
    static ELECTIONS: RefCell<rand::rngs::StdRng> =
    RefCell::new(rand::rngs::StdRng::seed_from_u64(0));
}

/// tokio, with random numbers of a seed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seeded;

/// The numbers of this thread's seed.
pub struct SeededRng;

impl rand::RngCore for SeededRng {
    fn next_u32(&mut self) -> u32 {
        ELECTIONS.with_borrow_mut(rand::RngCore::next_u32)
    }
    fn next_u64(&mut self) -> u64 {
        ELECTIONS.with_borrow_mut(rand::RngCore::next_u64)
    }
    fn fill_bytes(&mut self, to: &mut [u8]) {
        ELECTIONS.with_borrow_mut(|rng| rng.fill_bytes(to));
    }
    fn try_fill_bytes(&mut self, to: &mut [u8]) -> Result<(), rand::Error> {
        ELECTIONS.with_borrow_mut(|rng| rng.try_fill_bytes(to))
    }
}

impl AsyncRuntime for Seeded {
    type JoinError = <TokioRuntime as AsyncRuntime>::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::JoinHandle<T>;
    type Sleep = <TokioRuntime as AsyncRuntime>::Sleep;
    type Instant = <TokioRuntime as AsyncRuntime>::Instant;
    type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = tokio::time::Timeout<T>;
    type ThreadLocalRng = SeededRng;
    type OneshotSender<T: OptionalSend> = <TokioRuntime as AsyncRuntime>::OneshotSender<T>;
    type OneshotReceiver<T: OptionalSend> = <TokioRuntime as AsyncRuntime>::OneshotReceiver<T>;
    type OneshotReceiverError = <TokioRuntime as AsyncRuntime>::OneshotReceiverError;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        TokioRuntime::spawn(future)
    }
    fn sleep(duration: Duration) -> Self::Sleep {
        TokioRuntime::sleep(duration)
    }
    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        TokioRuntime::sleep_until(deadline)
    }
    fn timeout<R, F: Future<Output = R> + OptionalSend>(
        duration: Duration,
        future: F,
    ) -> Self::Timeout<R, F> {
        tokio::time::timeout(duration, future)
    }
    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(
        deadline: Self::Instant,
        future: F,
    ) -> Self::Timeout<R, F> {
        tokio::time::timeout_at(deadline, future)
    }
    fn is_panic(join_error: &Self::JoinError) -> bool {
        join_error.is_panic()
    }
    fn thread_rng() -> SeededRng {
        SeededRng
    }
    fn oneshot<T: OptionalSend>() -> (Self::OneshotSender<T>, Self::OneshotReceiver<T>) {
        TokioRuntime::oneshot()
    }
}

/// A node that runs.
#[derive(Clone)]
struct Node {
    raft: Raft<Types>,
    log: LogStore<Types>,
    vfs: SimVfs,
    proposer: Proposer<Types, Command, Answer>,
}

fn tiny(options: evendb::Options) -> evendb::Options {
    options
        .workers(0)
        .memory_budget(1 << 20)
        .advanced(|advanced| {
            advanced
                .commit_log_bytes(64 << 10)
                .chunk_bytes(4096)
                .block_bytes(512)
        })
}

/// Takes the committed index away. It is written without a sync, so a crash may do that; without
/// threads the database syncs it all the same.
fn forget_committed(vfs: &SimVfs) {
    let options = tiny(evendb::Options::new()).vfs(Arc::new(vfs.clone()));
    let options = options.durability(evendb::Durability::Sync);
    let log = options.open("/node/log").expect("opens");
    let marks = log.keyspace("marks").expect("opens");
    marks.delete("committed").expect("is deleted");
    log.close().expect("closes");
}

/// From now on nothing that needs room on the disk succeeds.
fn full() -> Fault {
    Fault {
        at: 0,
        on: FaultOn::Room,
        kind: FaultKind::NoSpace,
        sticky: true,
        path_contains: None,
    }
}

/// The network and the nodes on it.
#[derive(Clone)]
struct World {
    nodes: Arc<Mutex<BTreeMap<u64, Node>>>,
    /// From whom to whom nothing comes through.
    cuts: Arc<Mutex<BTreeSet<(u64, u64)>>>,
    rng: Arc<Mutex<Rng>>,
    recorder: Arc<Recorder>,
    /// Whether commands that come together are one entry.
    is_grouped: bool,
    /// The number of answered commands of each entry.
    answered: Arc<Mutex<BTreeMap<u64, u64>>>,
    /// Faults, for the message of a failure and for the comparison of two runs.
    events: Arc<Mutex<Vec<String>>>,
}

struct Link {
    world: World,
    from: u64,
    to: u64,
}

#[derive(Clone)]
struct Links {
    world: World,
    from: u64,
}

fn cut_off() -> Unreachable {
    Unreachable::new(&io::Error::other("no way"))
}

impl Link {
    /// Sends something, and brings the answer back: each way may be cut, and takes its time.
    async fn send<T, F: Future<Output = T>>(
        &self,
        handle: impl FnOnce(Raft<Types>) -> F,
    ) -> Result<T, Unreachable> {
        self.world.delay(1, 12).await;
        self.world.passes(self.from, self.to)?;
        let raft = self.world.node(self.to).ok_or_else(cut_off)?.raft;
        let answer = handle(raft).await;
        self.world.delay(1, 12).await;
        self.world.passes(self.to, self.from)?;
        Ok(answer)
    }

    fn of_target<T, E: std::error::Error>(
        &self,
        answer: Result<T, RaftError<u64, E>>,
    ) -> Result<T, RPCError<u64, BasicNode, RaftError<u64, E>>> {
        answer.map_err(|error| RPCError::RemoteError(RemoteError::new(self.to, error)))
    }
}

impl RaftNetwork<Types> for Link {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RPCError<u64, BasicNode, RaftError<u64>>> {
        let answer = self
            .send(|raft| async move { raft.append_entries(rpc).await })
            .await?;
        self.of_target(answer)
    }

    async fn install_snapshot(
        &mut self,
        rpc: InstallSnapshotRequest<Types>,
        _: RPCOption,
    ) -> Result<
        InstallSnapshotResponse<u64>,
        RPCError<u64, BasicNode, RaftError<u64, InstallSnapshotError>>,
    > {
        let answer = self
            .send(|raft| async move { raft.install_snapshot(rpc).await })
            .await?;
        self.of_target(answer)
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<u64>,
        _: RPCOption,
    ) -> Result<VoteResponse<u64>, RPCError<u64, BasicNode, RaftError<u64>>> {
        let answer = self
            .send(|raft| async move { raft.vote(rpc).await })
            .await?;
        self.of_target(answer)
    }
}

impl RaftNetworkFactory<Types> for Links {
    type Network = Link;

    async fn new_client(&mut self, target: u64, _: &BasicNode) -> Link {
        Link {
            world: self.world.clone(),
            from: self.from,
            to: target,
        }
    }
}

fn consensus() -> Arc<openraft::Config> {
    let config = openraft::Config {
        heartbeat_interval: 100,
        election_timeout_min: 300,
        election_timeout_max: 600,
        install_snapshot_timeout: 500,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(25),
        max_in_snapshot_log_to_keep: 4,
        purge_batch_size: 1,
        snapshot_max_chunk_size: 700,
        ..openraft::Config::default()
    };
    Arc::new(config.validate().expect("is valid"))
}

impl World {
    fn new(seed: u64) -> World {
        World {
            nodes: Arc::default(),
            cuts: Arc::default(),
            rng: Arc::new(Mutex::new(Rng(seed))),
            recorder: Arc::default(),
            is_grouped: seed.is_multiple_of(2),
            answered: Arc::default(),
            events: Arc::default(),
        }
    }

    fn below(&self, bound: u64) -> u64 {
        self.rng.lock().expect("no panic").below(bound)
    }

    fn say(&self, event: String) {
        self.events.lock().expect("no panic").push(event);
    }

    async fn delay(&self, from: u64, to: u64) {
        let millis = from + self.below(to - from);
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    /// Every hundredth message is lost.
    fn passes(&self, from: u64, to: u64) -> Result<(), Unreachable> {
        let is_cut = self.cuts.lock().expect("no panic").contains(&(from, to));
        match is_cut || self.below(100) == 0 {
            true => Err(cut_off()),
            false => Ok(()),
        }
    }

    fn node(&self, id: u64) -> Option<Node> {
        self.nodes.lock().expect("no panic").get(&id).cloned()
    }

    async fn start(&self, id: u64, vfs: SimVfs) {
        let config = Config::new()
            .keyspace("keys")
            .log_options(tiny)
            .state_options(tiny);
        let config = config.vfs(Arc::new(vfs.clone())).inline();
        let (log, machine) =
            open::<Types, _>(Path::new("/node"), config, Grouped(KeyValue)).expect("opens");
        let links = Links {
            world: self.clone(),
            from: id,
        };
        let raft = Raft::new(id, consensus(), links, log.clone(), machine)
            .await
            .expect("starts");
        let node = Node {
            proposer: Proposer::new(raft.clone()),
            raft,
            log,
            vfs,
        };
        self.nodes.lock().expect("no panic").insert(id, node);
    }

    async fn crash(&self, id: u64, mode: CrashMode) -> SimVfs {
        let node = self
            .nodes
            .lock()
            .expect("no panic")
            .remove(&id)
            .expect("it runs");
        let left = node.vfs.crash(mode);
        // Its tasks end; its disk takes nothing any more.
        let _ = node.raft.shutdown().await;
        left
    }

    async fn restart(&self, id: u64, mode: CrashMode) {
        let left = self.crash(id, mode).await;
        if self.below(2) == 0 {
            forget_committed(&left);
        }
        // Often it is back before the others have elected a new leader.
        let longest = if self.below(2) == 0 { 250 } else { 3000 };
        self.delay(1, longest).await;
        self.start(id, left).await;
    }

    /// Cuts, heals, fills disks and crashes until the time is over; then everything is well again.
    async fn disturb(&self) {
        let end = tokio::time::Instant::now() + LIFE;
        while tokio::time::Instant::now() < end {
            self.delay(200, 2500).await;
            let (mut one, drawn) = (1 + self.below(NODES), self.below(10));
            if let Some((leader, _)) = self.leader().filter(|_| self.below(2) == 0) {
                one = leader;
            }
            match drawn {
                0..=2 => {
                    self.say(format!("{one} alone"));
                    let others = (1..=NODES).filter(|other| *other != one);
                    let ways = others.flat_map(|other| [(one, other), (other, one)]);
                    self.cuts.lock().expect("no panic").extend(ways);
                }
                3 => {
                    let other = 1 + (one + self.below(NODES - 1)) % NODES;
                    self.say(format!("nothing from {one} to {other}"));
                    self.cuts.lock().expect("no panic").insert((one, other));
                }
                4..=5 => {
                    self.say("healed".to_owned());
                    self.cuts.lock().expect("no panic").clear();
                }
                6 => {
                    self.say(format!("{one} has a full disk"));
                    self.node(one).expect("it runs").vfs.inject(full());
                    self.delay(200, 3000).await;
                    // Whether it stopped or not: there is room again.
                    self.restart(one, CrashMode::Process).await;
                }
                _ => {
                    let mode = match self.below(4) {
                        0 => CrashMode::Process,
                        1 => CrashMode::PowerLossNothing,
                        _ => CrashMode::PowerLossRandom(self.below(1 << 40)),
                    };
                    self.say(format!("{one} crashes: {mode:?}"));
                    self.restart(one, mode).await;
                }
            }
        }
        self.cuts.lock().expect("no panic").clear();
    }

    /// The node that takes itself for the leader, or one of them.
    fn leader(&self) -> Option<(u64, Node)> {
        let nodes = self.nodes.lock().expect("no panic").clone();
        let is_leader =
            |(id, node): &(u64, Node)| node.raft.metrics().borrow().current_leader == Some(*id);
        let leaders: Vec<_> = nodes.into_iter().filter(is_leader).collect();
        let count = leaders.len() as u64;
        leaders.into_iter().nth(if count > 1 {
            self.below(count) as usize
        } else {
            0
        })
    }

    async fn operate(&self, key: u64, drawn: u64, seen: &mut u32) {
        let Some((_, node)) = self.leader() else {
            return self.delay(20, 80).await;
        };
        let version = self.recorder.version();
        let begin = self.recorder.moment();
        let patience = Duration::from_secs(3);
        if drawn < 4 {
            let read = tokio::time::timeout(patience, read(&node, key)).await;
            if let Ok(Some(found)) = read {
                *seen = found;
                self.recorder.answered(key, begin, Kind::Read(found));
            }
            return;
        }
        let (command, asked) = match drawn {
            4..=7 => (RECORDS.write(key, version), Kind::Write(version)),
            _ => {
                let swap = RECORDS.swap(key, *seen, version);
                (swap, Kind::Swap(*seen, version))
            }
        };
        match tokio::time::timeout(patience, self.write(&node, command)).await {
            Ok(Some(answer)) => {
                let kind = RECORDS.outcome(&answer, asked);
                self.recorder.answered(key, begin, kind);
            }
            _ => self.recorder.unanswered(key, begin, asked),
        }
    }

    async fn write(&self, node: &Node, command: Command) -> Option<Answer> {
        let (log_id, answer) = if self.is_grouped {
            let written = node.proposer.write(command).await.ok()?;
            (written.log_id, written.answer)
        } else {
            let written = node.raft.client_write(Group(vec![command])).await.ok()?;
            (written.log_id, written.data.0.into_iter().next()?)
        };
        *self
            .answered
            .lock()
            .expect("no panic")
            .entry(log_id.index)
            .or_default() += 1;
        Some(answer)
    }

    async fn client(self, end: tokio::time::Instant) {
        let mut seen = [0; KEYS as usize];
        while tokio::time::Instant::now() < end {
            let key = self.below(KEYS);
            let drawn = self.below(10);
            self.operate(key, drawn, &mut seen[key as usize]).await;
            self.delay(5, 150).await;
        }
    }

    /// Reads every key once more, and compares the content of all nodes.
    async fn finish(&self) {
        let mut left: BTreeSet<u64> = (0..KEYS).collect();
        for _ in 0..2000 {
            let Some(key) = left.first().copied() else {
                break;
            };
            let Some((_, node)) = self.leader() else {
                self.delay(20, 80).await;
                continue;
            };
            let begin = self.recorder.moment();
            if let Some(found) = read(&node, key).await {
                self.recorder.answered(key, begin, Kind::Read(found));
                left.remove(&key);
            } else {
                self.delay(20, 80).await;
            }
        }
        assert!(left.is_empty(), "no leader: {:?}", self.events.lock());
        self.compare().await;
    }

    async fn compare(&self) {
        let nodes = self.nodes.lock().expect("no panic").clone();
        let applied = |node: &Node| node.log.store().state.applied_index();
        for _ in 0..2000 {
            let all: BTreeSet<_> = nodes.values().map(applied).collect();
            if all.len() == 1 {
                break;
            }
            self.delay(20, 80).await;
        }
        let contents = nodes.values().map(|node| {
            let moment = node.log.store().state.moment().expect("is taken");
            (moment.applied().clone(), content_of(&moment))
        });
        let contents: Vec<_> = contents.collect();
        assert!(
            contents.windows(2).all(|two| two[0] == two[1]),
            "{contents:?}"
        );
    }
}

async fn read(node: &Node, key: u64) -> Option<u32> {
    node.raft.ensure_linearizable().await.ok()?;
    let state = &node.log.store().state;
    let found = state.get(RECORDS.keyspace, &RECORDS.name(key)).await;
    Some(RECORDS.version(found.ok()?.as_deref()))
}

/// What one seed did.
#[derive(Debug, PartialEq)]
struct Run {
    history: Vec<Op>,
    events: Vec<String>,
    snapshots: u64,
    /// Entries with more than one answered command.
    groups: usize,
}

async fn live(seed: u64) -> Run {
    let world = World::new(seed);
    for id in 1..=NODES {
        world.start(id, SimVfs::new(scramble(seed ^ id))).await;
    }
    let members: BTreeMap<u64, BasicNode> =
        (1..=NODES).map(|id| (id, BasicNode::default())).collect();
    let first = world.node(1).expect("runs");
    first.raft.initialize(members).await.expect("begins");
    let end = tokio::time::Instant::now() + LIFE;
    // More clients, so that some come together.
    let clients = if world.is_grouped {
        3 * CLIENTS
    } else {
        CLIENTS
    };
    let clients: Vec<_> = (0..clients)
        .map(|_| tokio::spawn(world.clone().client(end)))
        .collect();
    world.disturb().await;
    for client in clients {
        client.await.expect("ends");
    }
    world.finish().await;
    let nodes = world.nodes.lock().expect("no panic").clone();
    let kept = nodes
        .values()
        .filter_map(|node| node.log.store().shelf.current());
    let snapshots = kept
        .filter_map(|kept| kept.about.last)
        .map(|(index, _)| index)
        .max();
    for node in nodes.values() {
        node.raft.shutdown().await.expect("ends");
    }
    let history = world.recorder.take();
    let events = std::mem::take(&mut *world.events.lock().expect("no panic"));
    let answered = world.answered.lock().expect("no panic");
    let groups = answered.values().filter(|count| **count > 1).count();
    Run {
        groups,
        history,
        events,
        snapshots: snapshots.unwrap_or(0),
    }
}

fn run(seed: u64) -> Run {
    ELECTIONS.set(rand::rngs::StdRng::seed_from_u64(seed));
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true);
    #[cfg(tokio_unstable)]
    builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&seed.to_le_bytes()));
    builder.build().expect("is built").block_on(live(seed))
}

#[test]
fn histories_are_linearizable_and_nodes_agree() {
    let seed = number_from_env("EVENDB_RAFT_SEED", 1);
    let seeds = number_from_env("EVENDB_RAFT_SEEDS", 10);
    let (mut answers, mut snapshots, mut crashes, mut full) = (0, 0, 0, 0);
    for seed in seed..seed + seeds {
        let run = run(seed);
        if seed.is_multiple_of(2) {
            assert!(run.groups > 5, "seed {seed}: {}", run.groups);
        } else {
            assert_eq!(run.groups, 0, "seed {seed}");
        }
        keep(&format!("raft-{seed}"), KEYS as u32, &run.history);
        check(&run.history).unwrap_or_else(|what| panic!("seed {seed}: {what}: {:?}", run.events));
        answers += run.history.iter().filter(|op| op.end != NEVER).count() as u64;
        snapshots += u64::from(run.snapshots > 0);
        let events =
            |what: &'static str| run.events.iter().filter(move |event| event.contains(what));
        crashes += events("crashes").count() as u64;
        full += events("full disk").count() as u64;
    }
    println!(
        "{seeds} seeds: {answers} answers, {crashes} crashes, {full} full disks, {snapshots} with \
         snapshots"
    );
    // Faults leave enough time in which something happens.
    assert!(answers > 150 * seeds && crashes > 2 * seeds && 2 * full > seeds);
    assert!(2 * snapshots > seeds);
}

#[test]
fn a_checker_that_accepts_lost_writes_would_be_found() {
    let run = run(number_from_env("EVENDB_RAFT_SEED", 1) + 1000);
    // The last answered write of a key that was read later, taken away.
    let mut history = run.history.clone();
    let read = history.iter().rev().find_map(|op| match op.kind {
        Kind::Read(version) if version > 0 => Some(version),
        _ => None,
    });
    let read = read.expect("a read found something");
    history.retain(|op| {
        op.kind != Kind::Write(read) && !matches!(op.kind, Kind::Swap(_, to) if to == read)
    });
    assert!(check(&history).is_err());
}

#[cfg(tokio_unstable)]
#[test]
fn a_seed_replays() {
    let seed = number_from_env("EVENDB_RAFT_SEED", 1);
    assert_eq!(run(seed), run(seed));
}

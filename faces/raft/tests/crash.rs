//! Crashes at every operation that writes: of appends, votes, purges, truncations, applying,
//! checkpoints, snapshots and installs, on the engine's simulated disk. Whatever a crash leaves,
//! the node opens; its log is what some prefix of the writes made, no shorter than what was told to
//! be durable; its state is what the entries up to its applied index make; the log is nowhere
//! purged past that, and no snapshot is ahead of it; and the log leads the state to what had been
//! applied.
//!
//! Everything replays from seed and operation in the message. `EVENDB_RAFT_CRASHES` sets the number
//! of crashes (default 240, each looked at in two ways), `EVENDB_RAFT_SEED` the first seed.

mod common;

use common::{Content, Rng, command, content_of, number_from_env, run, scramble, wait};
use evendb::vfs::{CrashMode, Fault, FaultKind, FaultOn, SimVfs};
use evendb::{Advanced, Options, Result};
use evendb_raft::log::{Appended, Mark};
use evendb_raft::machine;
use evendb_raft::snapshot::Writer;
use evendb_raft::state::Applied;
use evendb_raft::store::{Config, Store};
use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

const STEPS: u64 = 60;

fn tiny(options: Options) -> Options {
    options
        .workers(0)
        .memory_budget(1 << 20)
        .advanced(|advanced: Advanced| {
            advanced
                .commit_log_bytes(64 << 10)
                .chunk_bytes(2048)
                .block_bytes(256)
        })
}

fn open(vfs: &SimVfs) -> Result<Store> {
    let config = Config::new()
        .keyspace("users")
        .keyspace("orders")
        .keep_changes(20);
    let config = config
        .log_options(tiny)
        .state_options(tiny)
        .vfs(Arc::new(vfs.clone()))
        .inline();
    Store::open(Path::new("/node"), config)
}

/// The log as the model has it: what a reader sees.
#[derive(Debug, Clone, Default, PartialEq)]
struct Logged {
    /// Index and term of each entry.
    entries: BTreeMap<u64, u64>,
    /// Entries up to here are purged; the first entry has index 1.
    purged: u64,
    vote: u64,
}

impl Logged {
    fn last(&self) -> u64 {
        self.entries
            .keys()
            .last()
            .copied()
            .unwrap_or(self.purged)
            .max(self.purged)
    }
}

/// A node, and what it should be.
struct Node {
    store: Option<Arc<Store>>,
    rng: Rng,
    now: Logged,
    /// The log after each write, and the first of them that was told to be durable.
    past: Vec<Logged>,
    durable: usize,
    open_appends: Vec<(usize, Appended)>,
    /// The terms of the committed entries, from index 1.
    committed: Vec<u64>,
    applied: u64,
    term: u64,
}

fn id(term: u64) -> Vec<u8> {
    term.to_le_bytes().to_vec()
}

fn entry(index: u64, term: u64) -> Vec<u8> {
    let mut bytes = id(term);
    bytes.resize(8 + (scramble(index) % 120) as usize, term as u8);
    bytes
}

fn term_of(entry: &[u8]) -> u64 {
    u64::from_le_bytes(entry[..8].try_into().expect("eight bytes"))
}

fn about(index: u64, term: u64) -> Applied {
    Applied {
        last: Some((index, id(term))),
        membership: b"members".to_vec(),
    }
}

fn content(committed: &[u64], upto: u64) -> Content {
    let mut content = Content::new();
    for (index, term) in (1..=upto).zip(committed) {
        run(&mut content, &command(index, *term));
    }
    content
}

async fn apply(store: &Store, entries: impl IntoIterator<Item = (u64, u64)>) -> Result<()> {
    let mut effects = store.state.effects();
    for (index, term) in entries {
        machine::run(command(index, term), &mut effects).await?;
        let membership = (index == 1).then(|| b"members".to_vec());
        effects.applied(index, id(term), membership).await?;
    }
    effects.finish().await
}

impl Node {
    fn new(seed: u64) -> Node {
        Node {
            store: None,
            rng: Rng(seed),
            now: Logged::default(),
            past: vec![Logged::default()],
            durable: 0,
            open_appends: Vec::new(),
            committed: Vec::new(),
            applied: 0,
            term: 1,
        }
    }

    fn store(&self) -> &Store {
        self.store.as_deref().expect("is open")
    }

    /// Notes a write that is going to happen; returns its number.
    fn note(&mut self) -> usize {
        self.past.push(self.now.clone());
        self.past.len() - 1
    }

    fn settle(&mut self, number: usize) {
        self.durable = self.durable.max(number);
    }

    /// Entries that follow the last one, as the model has them from now on.
    fn next_entries(&mut self) -> (usize, Vec<(u64, Vec<u8>)>) {
        let first = self.now.last() + 1;
        let count = 1 + self.rng.below(6);
        let mut bytes = Vec::new();
        for index in first..first + count {
            self.now.entries.insert(index, self.term);
            bytes.push((index, entry(index, self.term)));
        }
        (self.note(), bytes)
    }

    async fn append(&mut self) -> Result<()> {
        let (number, bytes) = self.next_entries();
        let appended = self.store().log.append(bytes).await?;
        self.open_appends.push((number, appended));
        if self.rng.below(3) == 0 {
            self.wait_for_appends().await?;
        }
        Ok(())
    }

    async fn wait_for_appends(&mut self) -> Result<()> {
        for (number, appended) in std::mem::take(&mut self.open_appends) {
            appended.await?;
            self.settle(number);
        }
        Ok(())
    }

    async fn vote(&mut self) -> Result<()> {
        self.now.vote += 1;
        let number = self.note();
        self.store()
            .log
            .set("vote", &self.now.vote.to_le_bytes())
            .await?;
        self.settle(number);
        Ok(())
    }

    /// Removes entries that are not committed; the next ones are of a new term.
    async fn truncate(&mut self) -> Result<()> {
        let committed = (self.committed.len() as u64).max(self.now.purged);
        let more = self.now.last().saturating_sub(committed);
        let from = committed + 1 + self.rng.below(more + 1);
        self.truncate_from(from).await
    }

    async fn truncate_from(&mut self, from: u64) -> Result<()> {
        self.now.entries.split_off(&from);
        self.term += 1;
        let number = self.note();
        self.store().log.truncate(from).await?;
        self.settle(number);
        Ok(())
    }

    async fn commit_and_apply(&mut self) -> Result<()> {
        self.wait_for_appends().await?;
        let committed = self.committed.len() as u64;
        let more = self.now.last().saturating_sub(committed);
        let upto = committed + self.rng.below(more + 1);
        for index in committed + 1..=upto {
            self.committed.push(self.now.entries[&index]);
        }
        drop(self.store().log.set("committed", &upto.to_le_bytes()));
        let from = self.applied + 1;
        let terms = self.committed[self.applied as usize..].to_vec();
        // A crash in the middle may leave any part of them applied.
        self.applied = upto;
        apply(self.store(), (from..).zip(terms)).await
    }

    async fn purge(&mut self) -> Result<()> {
        let upto = self.now.purged + self.rng.below(self.applied - self.now.purged + 1);
        if upto > 0 {
            self.purge_to(upto).await?;
        }
        if self.rng.below(2) == 0 {
            self.store().checkpoint().await?;
        }
        Ok(())
    }

    async fn purge_to(&mut self, upto: u64) -> Result<()> {
        self.now.entries = self.now.entries.split_off(&(upto + 1));
        self.now.purged = self.now.purged.max(upto);
        self.note();
        let id = id(self.committed[upto as usize - 1]);
        // Hidden at once, and deleted some time: nothing says that it is durable.
        self.store()
            .purge(Mark { index: upto, id })
            .await
            .map(|_| ())
    }

    fn snapshot(&self) -> Result<()> {
        if self.applied > 0 {
            let store = self.store();
            let kept = store.write_snapshot(&store.state.moment()?)?;
            assert_eq!(kept.about.last.map(|(index, _)| index), Some(self.applied));
        }
        Ok(())
    }

    /// Takes a snapshot of a leader that is ahead, as openraft does: conflicting entries go, the
    /// purge is asked for before or after the install.
    async fn install(&mut self) -> Result<()> {
        self.wait_for_appends().await?;
        let committed = self.committed.len() as u64;
        self.truncate_from(committed.max(self.now.purged) + 1)
            .await?;
        let upto = committed + 1 + self.rng.below(12);
        self.committed.resize(upto as usize, self.term);
        let about = about(upto, self.term);
        let file = self.store().shelf.new_part()?;
        let mut writer = Writer::new(file.clone(), &about)?;
        let mut keyspace = String::new();
        for ((name, key), value) in content(&self.committed, upto) {
            if name != keyspace {
                writer.keyspace(&name)?;
                keyspace = name;
            }
            writer.record(&key, &value)?;
        }
        writer.finish()?;
        if self.rng.below(2) == 0 {
            return self.purge_and_install(upto, &file, &about).await;
        }
        self.applied = upto;
        self.store().install(&file, &about)?;
        self.purge_to(upto).await
    }

    /// openraft does not wait for the install before it purges, and may append meanwhile.
    async fn purge_and_install(
        &mut self,
        upto: u64,
        file: &Arc<dyn evendb::vfs::File>,
        about: &Applied,
    ) -> Result<()> {
        self.purge_to(upto).await?;
        let (number, bytes) = self.next_entries();
        let store = self.store.clone().expect("is open");
        let mut appended = pin!(store.log.append(bytes));
        // It waits: a crash could take the install back, and the entries would stand behind a gap.
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(appended) = appended.as_mut().poll(&mut context) {
            appended?.await?;
            self.settle(number);
            panic!("entries behind a gap were written before the state held what is before them");
        }
        self.applied = upto;
        self.store().install(file, about)?;
        self.store().log.settle().await?;
        let appended = appended.await?;
        self.open_appends.push((number, appended));
        Ok(())
    }

    async fn step(&mut self) -> Result<()> {
        match self.rng.below(16) {
            0..=5 => self.append().await,
            6..=9 => self.commit_and_apply().await,
            10 => self.vote().await,
            11 => self.truncate().await,
            12 => self.purge().await,
            13 => self.store().checkpoint().await,
            14 => self.snapshot(),
            _ => self.install().await,
        }
    }

    async fn steps(&mut self, vfs: &SimVfs) -> Result<()> {
        self.store = Some(Arc::new(open(vfs)?));
        for _ in 0..STEPS {
            self.step().await?;
        }
        self.wait_for_appends().await
    }
}

/// The log as a store has it.
async fn logged(store: &Store) -> Result<Logged> {
    let stored = store.log.entries(0..u64::MAX, None).await?;
    let mut entries = BTreeMap::new();
    for (index, bytes) in stored {
        let term = term_of(&bytes);
        assert_eq!(bytes, entry(index, term), "entry {index}");
        entries.insert(index, term);
    }
    let vote = store.log.mark("vote").await?;
    let vote = vote.map_or(0, |bytes| {
        u64::from_le_bytes(bytes.try_into().expect("8 bytes"))
    });
    let purged = store.log.purged().map_or(0, |mark| mark.index);
    Ok(Logged {
        entries,
        purged,
        vote,
    })
}

/// Whether what was found is what the model had: entries that the model has purged may be there.
fn agrees(found: &Logged, model: &Logged) -> bool {
    let shown = found.entries.range(model.purged + 1..);
    found.vote == model.vote
        && found.purged <= model.purged
        && shown.eq(model.entries.iter())
        && (model.entries.is_empty()
            || found.purged + 1 + found.entries.len() as u64 == model.last() + 1)
}

async fn verify(node: &Node, machine: &SimVfs) -> std::result::Result<(), String> {
    let store = open(machine).map_err(|error| format!("opening: {error}"))?;
    let found = logged(&store).await.map_err(|error| error.to_string())?;
    if !node.past[node.durable..]
        .iter()
        .any(|past| agrees(&found, past))
    {
        let durable = &node.past[node.durable];
        return Err(format!("the log is {found:?}; durable was {durable:?}"));
    }
    let from = found.purged + 1;
    if !found
        .entries
        .keys()
        .copied()
        .eq(from..from + found.entries.len() as u64)
    {
        return Err(format!("a gap: {found:?}"));
    }
    let applied = store.state.applied_index().unwrap_or(0);
    if applied > node.applied || found.purged > applied {
        let (model, purged) = (node.applied, found.purged);
        return Err(format!(
            "applied is {applied} of {model}, and {purged} are purged"
        ));
    }
    let shelf = store.shelf.current().and_then(|kept| kept.about.last);
    let shelf = shelf.map_or(0, |(index, _)| index);
    if shelf > applied || (shelf > 0 && shelf < found.purged) {
        return Err(format!(
            "a snapshot at {shelf}: {applied} applied, {found:?}"
        ));
    }
    let moment = store.state.moment().map_err(|error| error.to_string())?;
    if content_of(&moment) != content(&node.committed, applied) {
        return Err(format!("the state at {applied} is wrong"));
    }
    go_on(node, &store, &found, applied)
        .await
        .map_err(|error| format!("going on: {error}"))?;
    store.close().map_err(|error| format!("closing: {error}"))?;
    drop(store);
    let store = open(machine).map_err(|error| format!("opening again: {error}"))?;
    let again = store.state.applied_index().unwrap_or(0);
    let moment = store.state.moment().map_err(|error| error.to_string())?;
    let is_right = content_of(&moment) == content(&node.committed, again);
    (is_right && again >= applied)
        .then_some(())
        .ok_or(format!("replayed to {again}, wrong"))
}

/// Replays the log, as openraft does, purges, and appends.
async fn go_on(node: &Node, store: &Store, found: &Logged, applied: u64) -> Result<()> {
    let replayed = found.last().min(node.committed.len() as u64);
    let terms = found.entries.range(applied + 1..replayed.max(applied) + 1);
    apply(store, terms.map(|(index, term)| (*index, *term))).await?;
    let now = store.state.applied_index().unwrap_or(0);
    assert_eq!(now, replayed.max(applied), "replays without a gap");
    if now > 0 {
        let id = id(node.committed[now as usize - 1]);
        store.purge(Mark { index: now, id }).await?;
        store.checkpoint().await?;
    }
    let next = found.last().max(now) + 1;
    store
        .log
        .append(vec![(next, entry(next, 9))])
        .await?
        .await?;
    assert_eq!(store.log.last().await?.map(|(index, _)| index), Some(next));
    Ok(())
}

fn modes(number: u64) -> [CrashMode; 2] {
    let random = CrashMode::PowerLossRandom(scramble(number));
    match number % 3 {
        0 => [CrashMode::Process, random],
        1 => [CrashMode::PowerLossNothing, random],
        _ => [CrashMode::PowerLossAll, random],
    }
}

fn crash_at(seed: u64, at: u64) {
    let vfs = SimVfs::new(seed);
    vfs.set_crash_at(at);
    let mut node = Node::new(seed);
    if let Err(error) = wait(node.steps(&vfs)) {
        assert!(vfs.crashed(), "seed {seed} operation {at}: {error}");
    }
    node.open_appends.clear();
    node.store = None;
    for mode in modes(scramble(seed ^ at)) {
        let machine = vfs.crash(mode);
        let verified = wait(verify(&node, &machine));
        verified.unwrap_or_else(|what| panic!("seed {seed} operation {at} {mode:?}: {what}"));
    }
}

#[test]
fn no_crash_loses_what_was_acknowledged() {
    let mut wanted = number_from_env("EVENDB_RAFT_CRASHES", 240);
    let mut seed = number_from_env("EVENDB_RAFT_SEED", 1);
    while wanted > 0 {
        let vfs = SimVfs::new(seed);
        let mut node = Node::new(seed);
        wait(node.steps(&vfs)).expect("nothing stops it");
        let found = wait(logged(node.store())).expect("is read");
        assert_eq!(found, node.now, "seed {seed}");
        node.store = None;
        // A prime, so that several workloads are looked at, and over the seeds every place.
        for at in (seed % 17..vfs.op_count()).step_by(17) {
            if wanted > 0 {
                crash_at(seed, at);
                wanted -= 1;
            }
        }
        seed += 1;
    }
}

/// Runs a workload on a disk that fails from some operation on, and looks at what is left.
fn fail_at(seed: u64, at: u64, on: FaultOn, kind: FaultKind) -> bool {
    let vfs = SimVfs::new(seed);
    let path_contains = None;
    vfs.inject(Fault {
        at,
        on,
        kind,
        sticky: true,
        path_contains,
    });
    let mut node = Node::new(seed);
    let outcome = wait(node.steps(&vfs));
    node.open_appends.clear();
    node.store = None;
    for mode in [CrashMode::Process, CrashMode::PowerLossNothing] {
        let machine = vfs.crash(mode);
        let verified = wait(verify(&node, &machine));
        verified.unwrap_or_else(|what| panic!("seed {seed} {on:?} {kind:?} {at} {mode:?}: {what}"));
    }
    outcome.is_err()
}

/// Full disks and failed syncs stop a node with an error. With room again, or on another disk, it
/// opens and has everything that it acknowledged.
#[test]
fn no_failing_disk_loses_what_was_acknowledged() {
    let faults = [
        (FaultOn::Room, FaultKind::NoSpace),
        (FaultOn::Change, FaultKind::Eio),
        (FaultOn::Sync, FaultKind::SyncFailsThenClean),
        (FaultOn::Sync, FaultKind::SyncFullThenClean),
    ];
    let mut failed = 0;
    let runs = number_from_env("EVENDB_RAFT_CRASHES", 240).div_ceil(6);
    for number in 0..runs {
        let (on, kind) = faults[(number % 4) as usize];
        // Of all operations that change something, one in some five is a sync.
        let bound = if on == FaultOn::Sync { 120 } else { 500 };
        failed += u64::from(fail_at(100 + number, scramble(number) % bound, on, kind));
    }
    // In the others the workload ended before the fault.
    assert!(2 * failed > runs, "{failed} of {runs}");
}

//! The state: a moment is what the entries up to its applied index make, whatever goes on beside
//! it; the feed of changes gives every effect once, and never a silent gap; times to live are
//! refused.

mod common;

use common::{Content, command, content_of, run, wait};
use evendb::{ErrorKind, KeyspaceOptions};
use evendb_raft::log::Mark;
use evendb_raft::machine::{Answer, Command, Compare, Condition};
use evendb_raft::snapshot::Writer;
use evendb_raft::state::Applied;
use evendb_raft::state::changes::Changes;
use evendb_raft::state::effects::Write;
use evendb_raft::store::{Config, Store};
use evendb_raft::{Result, machine};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn config() -> Config {
    let small = |options: evendb::Options| options.memory_budget(8 << 20);
    let config = Config::new().keyspace("users").keyspace("orders");
    config.log_options(small).state_options(small)
}

fn open(dir: &Path, config: Config) -> Store {
    Store::open(dir, config).expect("opens")
}

async fn apply(store: &Store, entries: RangeInclusive<u64>) -> Result<()> {
    let mut effects = store.state.effects();
    for index in entries {
        machine::run(command(index, 1), &mut effects).await?;
        effects.applied(index, b"id".to_vec(), None).await?;
    }
    effects.finish().await
}

fn content(upto: u64) -> Content {
    let mut content = Content::new();
    (1..=upto).for_each(|index| run(&mut content, &command(index, 1)));
    content
}

fn install(store: &Store, upto: u64) {
    let about = Applied {
        last: Some((upto, b"id".to_vec())),
        membership: b"members".to_vec(),
    };
    let file = store.shelf.new_part().expect("is made");
    let mut writer = Writer::new(file.clone(), &about).expect("begins");
    let mut keyspace = String::new();
    for ((name, key), value) in content(upto) {
        if name != keyspace {
            writer.keyspace(&name).expect("is written");
            keyspace = name;
        }
        writer.record(&key, &value).expect("is written");
    }
    writer.finish().expect("is written");
    store.install(&file, &about).expect("is installed");
}

#[test]
fn a_moment_is_one_prefix_while_entries_are_applied_and_snapshots_installed() {
    let dir = tempfile::tempdir().expect("is made");
    let store = open(dir.path(), config());
    let is_over = AtomicBool::new(false);
    let looks = std::thread::scope(|threads| {
        let reader = threads.spawn(|| {
            let mut looks = 0;
            while !is_over.load(Ordering::Relaxed) || looks < 20 {
                let moment = store.state.moment().expect("is taken");
                let applied = moment
                    .applied()
                    .last
                    .as_ref()
                    .map_or(0, |(index, _)| *index);
                assert_eq!(content_of(&moment), content(applied), "at {applied}");
                looks += 1;
            }
            looks
        });
        for round in 0..12 {
            let first = round * 40 + 1;
            wait(apply(&store, first..=first + 29)).expect("is applied");
            install(&store, first + 39);
        }
        is_over.store(true, Ordering::Relaxed);
        reader.join().expect("no panic")
    });
    assert!(looks >= 20);
    assert_eq!(store.state.applied_index(), Some(480));
}

#[test]
fn a_moment_and_its_iterators_outlive_an_install() {
    let dir = tempfile::tempdir().expect("is made");
    let store = open(dir.path(), config());
    wait(apply(&store, 1..=50)).expect("is applied");
    let moment = store.state.moment().expect("is taken");
    let mut records = moment.range::<&[u8]>("users", ..).expect("is there");
    let first = records.next().expect("there is one").expect("is read");
    install(&store, 90);
    install(&store, 120);
    let rest: Result<Vec<_>> = records.collect();
    let users = content(50)
        .into_iter()
        .filter(|((name, _), _)| name == "users")
        .count();
    assert_eq!(rest.expect("is read").len() + 1, users);
    assert_eq!(content_of(&moment), content(50));
    let place = ("users".to_owned(), first.0.to_vec());
    let now = wait(store.state.get("users", &first.0)).expect("is read");
    assert_eq!(
        now.map(|value| value.to_vec()),
        content(120).get(&place).cloned()
    );
    // Only the keyspaces of one generation are left.
    let names = store.state.db().keyspace_names();
    let of_users = names.iter().filter(|name| name.contains('/')).count();
    assert_eq!(of_users, 2, "{names:?}");
}

async fn all(changes: &mut Changes) -> Result<Vec<(u64, Vec<Write>)>> {
    let mut found = Vec::new();
    while let Some(change) = changes.next().await? {
        found.push((change.index, change.writes));
    }
    Ok(found)
}

#[test]
fn the_feed_gives_every_effect_once() {
    let dir = tempfile::tempdir().expect("is made");
    let store = open(dir.path(), config().keep_changes(1000));
    wait(async {
        apply(&store, 1..=40).await.expect("is applied");
        let mut feed = store.state.changes_since(0);
        let mut found = all(&mut feed).await.expect("are kept");
        assert_eq!(feed.position(), 40);
        apply(&store, 41..=90).await.expect("is applied");
        found.extend(all(&mut feed).await.expect("are kept"));
        assert!(found.windows(2).all(|two| two[0].0 < two[1].0));
        let mut replica = Content::new();
        for (_, writes) in found {
            run(&mut replica, &Command::Batch(writes));
        }
        assert_eq!(replica, content(90));
    });
}

#[test]
fn a_feed_that_waits_is_woken_and_one_that_is_too_late_is_told() {
    let dir = tempfile::tempdir().expect("is made");
    let store = Arc::new(open(dir.path(), config().keep_changes(16)));
    wait(async {
        let mut feed = store.state.changes_since(0);
        let writer = store.clone();
        let waiting = tokio::spawn(async move { feed.wait().await.map(|change| change.index) });
        tokio::task::yield_now().await;
        apply(&writer, 1..=1).await.expect("is applied");
        let index = tokio::time::timeout(Duration::from_secs(30), waiting).await;
        assert_eq!(
            index
                .expect("is woken")
                .expect("no panic")
                .expect("is kept"),
            1
        );
        apply(&writer, 2..=200).await.expect("is applied");
        let late = writer.state.changes_since(1).next().await;
        assert_eq!(
            late.expect_err("is forgotten").kind(),
            ErrorKind::ChangesGone
        );
        let kept = all(&mut writer.state.changes_since(184))
            .await
            .expect("are kept");
        assert!(kept.iter().all(|(index, _)| (185..=200).contains(index)) && !kept.is_empty());
        install(&writer, 210);
        let before = writer.state.changes_since(200).next().await;
        assert_eq!(
            before.expect_err("the snapshot has no changes").kind(),
            ErrorKind::ChangesGone
        );
        assert_eq!(
            writer
                .state
                .changes_since(210)
                .next()
                .await
                .expect("is kept"),
            None
        );
    });
}

#[test]
fn a_life_that_keeps_no_changes_leaves_no_silent_gap() {
    let dir = tempfile::tempdir().expect("is made");
    for (entries, kept) in [(1..=10, 100), (11..=20, 0), (21..=30, 100)] {
        let store = open(dir.path(), config().keep_changes(kept));
        wait(apply(&store, entries)).expect("is applied");
        store.close().expect("closes");
    }
    let store = open(dir.path(), config().keep_changes(100));
    let gap = wait(store.state.changes_since(5).next());
    assert_eq!(
        gap.expect_err("11 to 20 are missing").kind(),
        ErrorKind::ChangesGone
    );
    let found = wait(all(&mut store.state.changes_since(20))).expect("are kept");
    assert!(!found.is_empty() && found.iter().all(|(index, _)| *index > 20));
}

#[test]
fn conditions_compare() {
    let dir = tempfile::tempdir().expect("is made");
    let store = open(dir.path(), config());
    let ask = |compare: Compare| {
        let condition = Condition {
            keyspace: "users".to_owned(),
            key: b"k".to_vec(),
            compare,
        };
        let put = |value: &[u8]| vec![common::put("users", b"k", value)];
        Command::Transaction {
            conditions: vec![condition],
            then: put(b"m"),
            otherwise: put(b"p"),
            reads: vec![("users".to_owned(), b"k".to_vec())],
        }
    };
    // Each condition, whether it holds for what the one before has left, and what it leaves.
    let asked = [
        (Compare::Present, false),
        (Compare::Absent, false),
        (Compare::Equals(b"p".to_vec()), true),
        (Compare::Differs(b"p".to_vec()), true),
        (Compare::Less(b"m".to_vec()), false),
        (Compare::Greater(b"n".to_vec()), true),
        (Compare::Less(b"n".to_vec()), true),
    ];
    wait(async {
        let mut effects = store.state.effects();
        for (index, (compare, held)) in (1..).zip(asked) {
            let answer = machine::run(ask(compare.clone()), &mut effects)
                .await
                .expect("runs");
            let values = vec![Some(if held { b"m".to_vec() } else { b"p".to_vec() })];
            assert_eq!(answer, Answer::Done { held, values }, "{compare:?}");
            effects
                .applied(index, Vec::new(), None)
                .await
                .expect("is applied");
        }
        effects.finish().await.expect("is applied");
        let mut effects = store.state.effects();
        let unknown = Command::Batch(vec![common::put("nobody's", b"k", b"v")]);
        let answer = machine::run(unknown, &mut effects).await.expect("runs");
        assert_eq!(answer, Answer::UnknownKeyspace("nobody's".to_owned()));
    });
}

#[test]
fn entries_that_are_purged_before_a_checkpoint_reach_no_table() {
    const ENTRIES: u64 = 20_000;
    const BYTES: u64 = 400;
    // Entries are logged, and the log goes round several times. Without workers a checkpoint comes
    // when a call needs it, and not when a thread has time.
    let small = |options: evendb::Options| {
        let options = options.memory_budget(16 << 20).workers(0);
        options.advanced(|advanced| advanced.commit_log_bytes(1 << 20))
    };
    let written = |is_purged: bool| {
        let dir = tempfile::tempdir().expect("is made");
        let store = open(dir.path(), config().log_options(small));
        wait(async {
            for first in (1..=ENTRIES).step_by(100) {
                let last = first + 99;
                let entry = |index| (index, vec![index as u8; BYTES as usize]);
                let appended = store.log.append((first..=last).map(entry).collect()).await;
                appended.expect("is appended").await.expect("is durable");
                let mut effects = store.state.effects();
                effects
                    .applied(last, Vec::new(), None)
                    .await
                    .expect("is applied");
                effects.finish().await.expect("is applied");
                if is_purged && last.is_multiple_of(500) {
                    let mark = Mark {
                        index: last - 50,
                        id: Vec::new(),
                    };
                    store.purge(mark).await.expect("is purged");
                    store.checkpoint().await.expect("is purged");
                }
            }
        });
        store.log.db().flush().expect("is written");
        let stats = store.log.db().stats();
        assert!(stats.checkpoints > 4, "{} checkpoints", stats.checkpoints);
        stats.bytes_written.log + stats.bytes_written.sstable
    };
    let (kept, purged) = (written(false), written(true));
    println!("bytes in tables and chunks' logs: {kept} without a purge, {purged} with purges");
    // The last 500 entries or so are there at a checkpoint; the others are not.
    assert!(kept >= ENTRIES * BYTES);
    assert!(purged < ENTRIES * BYTES / 3, "{purged} bytes");
}

#[test]
fn a_checkpoint_writes_only_the_entries_that_are_left() {
    let dir = tempfile::tempdir().expect("is made");
    // No thread makes a checkpoint before the purge.
    let alone = config().log_options(|options| options.workers(0));
    let store = open(dir.path(), alone);
    wait(async {
        for first in (1..=5000u64).step_by(100) {
            let entries = (first..first + 100)
                .map(|index| (index, vec![1; 400]))
                .collect();
            store
                .log
                .append(entries)
                .await
                .expect("is appended")
                .await
                .expect("is durable");
        }
        let mut effects = store.state.effects();
        effects
            .applied(5000, Vec::new(), None)
            .await
            .expect("is applied");
        effects.finish().await.expect("is applied");
        store.checkpoint().await.expect("is made");
        let purged = store
            .purge(Mark {
                index: 4990,
                id: Vec::new(),
            })
            .await;
        assert!(purged.expect("is purged"));
    });
    let before = store.log.db().stats().bytes_written.log;
    store.log.db().flush().expect("is written");
    let stats = store.log.db().stats();
    assert_eq!(stats.bytes_written.sstable, 0);
    let written = stats.bytes_written.log - before;
    // Ten entries of 400 bytes, and what is around them; of two million bytes.
    assert!((4000..12_000).contains(&written), "{written} bytes");
}

#[test]
fn a_time_to_live_is_refused() {
    let dir = tempfile::tempdir().expect("is made");
    let options = KeyspaceOptions::new().ttl(Duration::from_secs(1));
    let refused = Store::open(dir.path(), Config::new().keyspace_with("users", options));
    assert_eq!(
        refused.map(drop).expect_err("is refused").kind(),
        ErrorKind::InvalidArgument
    );
}

#[test]
fn log_and_state_are_locked_like_any_database() {
    let dir = tempfile::tempdir().expect("is made");
    let _store = open(dir.path(), config());
    let second = Store::open(dir.path(), config());
    assert_eq!(
        second.map(drop).expect_err("is open").kind(),
        ErrorKind::Locked
    );
}

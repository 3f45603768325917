//! Commands that come together are one entry: how many entries, in which order, what each client is
//! answered, and what happens when it goes or the node stops. On one node, in one thread, so that
//! what comes together is known.

#![allow(clippy::result_large_err, reason = "openraft has errors of that size")]

mod common;

use common::{put, wait};
use evendb_raft::machine::{Answer, Command, KeyValue};
use evendb_raft::openraft09::{Group, Grouped, LogStore, Proposer, SnapshotFile, open};
use evendb_raft::store::Config;
use openraft::error::{InstallSnapshotError, RPCError, RaftError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{BasicNode, Raft};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;

openraft::declare_raft_types!(
    /// The ready state machine's types, in groups.
    pub Types: D = Group<Command>, R = Group<Answer>, SnapshotData = SnapshotFile
);

type Told<T, E> = Result<T, RPCError<u64, BasicNode, E>>;

/// There is no other node.
struct Nobody;

fn nobody<T, E: std::error::Error>() -> Told<T, E> {
    Err(RPCError::Unreachable(Unreachable::new(
        &std::io::Error::other("no node"),
    )))
}

impl RaftNetwork<Types> for Nobody {
    async fn append_entries(
        &mut self,
        _: AppendEntriesRequest<Types>,
        _: RPCOption,
    ) -> Told<AppendEntriesResponse<u64>, RaftError<u64>> {
        nobody()
    }

    async fn install_snapshot(
        &mut self,
        _: InstallSnapshotRequest<Types>,
        _: RPCOption,
    ) -> Told<InstallSnapshotResponse<u64>, RaftError<u64, InstallSnapshotError>> {
        nobody()
    }

    async fn vote(
        &mut self,
        _: VoteRequest<u64>,
        _: RPCOption,
    ) -> Told<VoteResponse<u64>, RaftError<u64>> {
        nobody()
    }
}

impl RaftNetworkFactory<Types> for Nobody {
    type Network = Nobody;

    async fn new_client(&mut self, _: u64, _: &BasicNode) -> Nobody {
        Nobody
    }
}

type Writes = Proposer<Types, Command, Answer>;

/// Runs a node that leads itself.
fn with_node<F: Future<Output = ()>>(work: impl FnOnce(Writes, LogStore<Types>) -> F) {
    let dir = tempfile::tempdir().expect("is made");
    wait(async {
        let config = Config::new().keyspace("users");
        let opened = open::<Types, _>(dir.path(), config, Grouped(KeyValue));
        let (log, machine) = opened.expect("opens");
        let consensus = Arc::new(openraft::Config::default().validate().expect("is valid"));
        let raft = Raft::new(1, consensus, Nobody, log.clone(), machine);
        let raft = raft.await.expect("starts");
        let alone = BTreeMap::from([(1, BasicNode::default())]);
        raft.initialize(alone).await.expect("begins");
        let seen = raft.wait(None).current_leader(1, "it leads").await;
        drop(seen.expect("is elected"));
        let proposer = Proposer::new(raft.clone());
        work(proposer, log).await;
        let _ = raft.shutdown().await;
    });
}

/// Puts a value under a number, and reads what is under another one.
fn command(number: u64, value: &[u8], read: u64) -> Command {
    Command::Transaction {
        conditions: Vec::new(),
        then: vec![put("users", &number.to_be_bytes(), value)],
        otherwise: Vec::new(),
        reads: vec![("users".to_owned(), read.to_be_bytes().to_vec())],
    }
}

fn value(answer: &Answer) -> Option<Vec<u8>> {
    let Answer::Done { held: true, values } = answer else {
        panic!("{answer:?}");
    };
    values[0].clone()
}

/// Calls all writes in one step; returns the indexes of their entries and the answers, in order.
async fn write_all(proposer: &Writes, commands: Vec<Command>) -> Vec<(u64, Answer)> {
    let tasks = commands.into_iter().map(|command| {
        let proposer = proposer.clone();
        tokio::spawn(async move { proposer.write(command).await })
    });
    let mut answers = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        let written = task.await.expect("no panic").expect("is written");
        answers.push((written.log_id.index, written.answer));
    }
    answers
}

fn entries(answers: &[(u64, Answer)]) -> usize {
    let indexes: BTreeSet<u64> = answers.iter().map(|(index, _)| *index).collect();
    indexes.len()
}

#[test]
fn commands_that_come_together_are_one_entry_and_one_sync() {
    with_node(|proposer, log| async move {
        let before = log.store().log.db().stats().bytes_written.commit_log;
        // Each reads what the one before it in the same entry has written.
        let commands =
            (1..=200u64).map(|number| command(number, &number.to_le_bytes(), number - 1));
        let answers = write_all(&proposer, commands.collect()).await;
        assert_eq!(entries(&answers), 1);
        for (number, (_, answer)) in (1..=200u64).zip(&answers) {
            let expected = (number > 1).then(|| (number - 1).to_le_bytes().to_vec());
            assert_eq!(value(answer), expected, "{number}");
        }
        let record = log.store().log.db().stats().bytes_written.commit_log - before;
        // A command is some 45 bytes, and a record of its own would have a header of 64.
        assert!(record < 200 * 50, "{record}");
    });
}

#[test]
fn a_lone_client_s_commands_are_entries_of_their_own() {
    with_node(|proposer, log| async move {
        for number in 1..=7u64 {
            let before = log.store().state.applied_index();
            let written = proposer.write(command(number, b"x", number - 1)).await;
            let written = written.expect("is written");
            assert_eq!(Some(written.log_id.index), before.map(|index| index + 1));
            let expected = (number > 1).then(|| b"x".to_vec());
            assert_eq!(value(&written.answer), expected);
        }
    });
}

#[test]
fn an_entry_ends_at_its_limits() {
    with_node(|proposer, _| async move {
        let short = (0..2500u64).map(|number| command(number, b"x", number));
        let answers = write_all(&proposer, short.collect()).await;
        // 1,024, 1,024 and the rest.
        assert_eq!(entries(&answers), 3);
        let long = (0..10u64).map(|number| command(number, &[7; 100 << 10], number));
        let answers = write_all(&proposer, long.collect()).await;
        // Three of 100 KiB pass 256 KiB.
        assert_eq!(entries(&answers), 4);
        let indexes: Vec<u64> = answers.iter().map(|(index, _)| *index).collect();
        assert!(indexes.is_sorted(), "in the order of the calls");
    });
}

#[test]
fn a_client_that_goes_takes_nothing_from_the_others() {
    with_node(|proposer, log| async move {
        let gone = tokio::spawn({
            let proposer = proposer.clone();
            async move { proposer.write(command(1, b"of one that goes", 1)).await }
        });
        let stays = tokio::spawn({
            let proposer = proposer.clone();
            async move { proposer.write(command(2, b"of one that stays", 1)).await }
        });
        // Both have called.
        tokio::task::yield_now().await;
        gone.abort();
        let written = stays.await.expect("no panic").expect("is written");
        assert_eq!(value(&written.answer), Some(b"of one that goes".to_vec()));
        let found = log.store().state.get("users", &1u64.to_be_bytes()).await;
        assert_eq!(
            &*found.expect("is read").expect("is there"),
            b"of one that goes"
        );
    });
}

#[test]
fn writes_to_a_node_that_has_stopped_fail_and_do_not_wait() {
    with_node(|proposer, _| async move {
        proposer.raft().shutdown().await.expect("ends");
        for number in 1..=3 {
            let outcome = proposer.write(command(number, b"x", 1)).await;
            assert!(matches!(outcome, Err(RaftError::Fatal(_))), "{outcome:?}");
        }
    });
}

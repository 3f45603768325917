//! Three processes on loopback (`processes`), whose leaders are killed by signal 9 and started
//! again, or whose connections are dropped: the history of the clients must be linearizable.
//!
//! `EVENDB_RAFT_KILLS` sets the number of kills (default 3; the campaign has 200),
//! `EVENDB_RAFT_PARTITIONS` that of partitions (default 6; the campaign has 200),
//! `EVENDB_RAFT_SEED` the seed, and `EVENDB_HISTORY_OUT` a folder for the histories.

#![allow(
    clippy::disallowed_types,
    reason = "no model runs a test or an example"
)]
#![allow(clippy::result_large_err, reason = "openraft has errors of that size")]

mod common;
mod processes;

use common::linearizable::Op;
use common::{Rng, number_from_env};
use processes::links::{Cut, around};
use processes::{Cluster, NODE, NODES, World, be_a_node, judge};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// One cluster at a time: processes that wait for a processor have no leader.
static ALONE: Mutex<()> = Mutex::new(());

/// No test by itself: the server of the processes that the other tests start.
#[test]
fn a_node_of_the_cluster() {
    if let Ok(arguments) = std::env::var(NODE) {
        be_a_node(&arguments).expect("serves");
    }
}

async fn pause(from: u64, below: u64, rng: &mut Rng) {
    tokio::time::sleep(Duration::from_millis(from + rng.below(below - from))).await;
}

async fn kill_leaders(kills: u64, seed: u64) -> Vec<Op> {
    let dir = tempfile::tempdir().expect("is made");
    let mut cluster = Cluster::start_in(dir.path()).await;
    let world = World::begin(&cluster).await;
    let clients = world.start_clients(seed);
    let mut rng = Rng(seed);
    for kill in 1..=kills {
        let leader = world.find_leader().await;
        pause(50, 450, &mut rng).await;
        cluster.kill(leader);
        // Sometimes it comes back before the others have a new leader, sometimes after that.
        pause(0, 1500, &mut rng).await;
        cluster.spawn(leader);
        cluster.all_run(&format!("before kill {kill}"));
    }
    world.stop(clients).await;
    let history = world.end().await;
    cluster.all_run("at the end");
    history
}

/// Draws which links are cut: those of the leader, those of another node, or some in one direction.
fn draw_links(leader: usize, rng: &mut Rng) -> Vec<(usize, usize)> {
    let other = (leader + 1 + rng.below(NODES as u64 - 1) as usize) % NODES;
    match rng.below(6) {
        0..=2 => around(leader, NODES),
        3 => around(other, NODES),
        // It hears the others, and is not heard; or the other way round.
        4 => around(leader, NODES)
            .into_iter()
            .filter(|(from, _)| *from == leader)
            .collect(),
        _ => vec![(leader, other), (other, leader)],
    }
}

async fn cut_links(partitions: u64, seed: u64) -> Vec<Op> {
    let dir = tempfile::tempdir().expect("is made");
    let mut cluster = Cluster::start_in(dir.path()).await;
    let world = World::begin(&cluster).await;
    let clients = world.start_clients(seed);
    let mut rng = Rng(seed);
    for _ in 0..partitions {
        let leader = world.find_leader().await;
        pause(50, 300, &mut rng).await;
        let cut = [Cut::Closed, Cut::Silent][rng.below(2) as usize];
        let links = draw_links(leader, &mut rng);
        // The one that is cut off goes on answering, if it may, while the others elect.
        cluster.links.cut(links, cut);
        pause(300, 2500, &mut rng).await;
        if rng.below(3) == 0 {
            // Another cut before the first one is healed.
            let links = draw_links(rng.below(NODES as u64) as usize, &mut rng);
            cluster.links.cut(links, Cut::Closed);
            pause(300, 1500, &mut rng).await;
        }
        cluster.links.heal();
    }
    world.stop(clients).await;
    let history = world.end().await;
    cluster.all_run("at the end");
    history
}

fn campaign(name: &str, count: u64, history: &[Op]) {
    let answered = judge(name, history).unwrap_or_else(|what| panic!("{what}"));
    let operations = history.len();
    println!("{name}: {count} times, {operations} operations, {answered} answered");
    assert!(answered > 20 * count, "{answered} answers");
}

#[test]
fn killed_leaders_lose_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let kills = number_from_env("EVENDB_RAFT_KILLS", 3);
    let seed = number_from_env("EVENDB_RAFT_SEED", 1);
    let history = processes::run(kill_leaders(kills, seed));
    campaign("raft-kill", kills, &history);
}

#[test]
fn nodes_whose_connections_are_dropped_agree_on_one_history() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let partitions = number_from_env("EVENDB_RAFT_PARTITIONS", 6);
    let seed = number_from_env("EVENDB_RAFT_SEED", 1);
    let history = processes::run(cut_links(partitions, seed));
    campaign("raft-partitions", partitions, &history);
}

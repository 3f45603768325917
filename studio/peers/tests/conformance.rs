//! Every store that can be opened here answers as the lab's trait says. That check and the lab's
//! own run find adapters that are wrong on purpose.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use evendb_lab::dataset::Dataset;
use evendb_lab::distribution::{Distribution, DistributionKind, THETA_DEFAULT};
use evendb_lab::driver::{self, Limit, NoProgress, Phase, Worker};
use evendb_lab::mix::{LoadWorker, Mix, MixWorker, Population, SweepWorker};
use evendb_lab::opener::{Durability, Opener, Settings};
use evendb_lab::store::Store;
use evendb_peers::conformance::{Effort, check};
use evendb_peers::openers;
use evendb_peers::wrong::{WrongOpener, Wrongness};

const WRONG: [Wrongness; 3] = [
    Wrongness::LostPut,
    Wrongness::StaleValue,
    Wrongness::DroppedRecord,
];

#[test]
fn every_store_that_can_be_opened_conforms() {
    // Each in a process of its own, since a C or C++ library can end the process.
    let output = Command::new(env!("CARGO_BIN_EXE_experiments"))
        .arg("conformance")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    print!("{told}");
    assert!(output.status.success(), "{told}{errors}");
    for opener in openers::all() {
        let expected = match opener.unavailable() {
            Some(why) => format!("{}: left out: {why}", opener.name()),
            None => format!("{}: relaxed: ok", opener.name()),
        };
        assert!(told.contains(&expected), "{expected} in\n{told}");
    }
}

#[test]
fn the_command_fails_for_a_wrong_store() {
    let output = Command::new(env!("CARGO_BIN_EXE_experiments"))
        .args(["conformance", "--stores=evendb", "--wrong=lost-put"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("evendb: WRONG"), "{told}");
}

/// A store that is always there, wrong in one way.
fn with_wrong_store<T>(
    wrongness: Option<Wrongness>,
    name: &str,
    use_it: impl FnOnce(&dyn Opener, &Path) -> T,
) -> T {
    let all = openers::all();
    let right = all
        .iter()
        .find(|opener| opener.name() == name)
        .expect("a store of every build");
    let directory = tempfile::tempdir().expect("a directory");
    match wrongness {
        None => use_it(&**right, directory.path()),
        Some(wrongness) => {
            let inner = &**right;
            use_it(&WrongOpener { inner, wrongness }, directory.path())
        }
    }
}

#[test]
fn the_check_finds_every_kind_of_wrongness() {
    let level = Durability::Process;
    for name in ["evendb", "lmdb"] {
        // A store without transactions has no updates to lose.
        let lost_update = (name == "evendb").then_some(Wrongness::LostUpdate);
        for wrongness in WRONG.into_iter().chain(lost_update) {
            let outcome = with_wrong_store(Some(wrongness), name, |opener, directory| {
                check(opener, directory, level, Effort::of(level), 1)
            });
            let error = outcome.expect_err("a wrong store");
            println!("{name} {wrongness:?}: {error}");
        }
    }
}

/// The lab's run: load, sweep, a mix of gets and puts, a mix of scans.
fn run(opener: &dyn Opener, directory: &Path) -> Result<(), String> {
    let settings = Settings {
        memory_bytes: 64 << 20,
        durability: Durability::Process,
    };
    let store = opener
        .open(directory, &settings)
        .map_err(|error| error.to_string())?;
    let dataset = Dataset::new(5000, 100, 1);
    let loading = Arc::new(Population::new(0));
    phase(&*store, None, &|_| {
        Box::new(LoadWorker::new(dataset.clone(), Arc::clone(&loading)))
    })?;
    let cursor = Arc::new(AtomicU64::new(0));
    phase(&*store, None, &|_| {
        Box::new(SweepWorker::new(dataset.clone(), Arc::clone(&cursor)))
    })?;
    let population = Arc::new(Population::new(dataset.records));
    let kind = DistributionKind::ZipfSimple;
    let distribution = Distribution::new(kind, dataset.records, THETA_DEFAULT, 1);
    for (number, mix) in [Mix::A, Mix::E(100)].into_iter().enumerate() {
        phase(&*store, Some(20_000), &|thread| {
            let number = number as u64;
            let worker = MixWorker::new(mix, &distribution, &dataset, &population, number, thread);
            Box::new(worker)
        })?;
    }
    store.close().map_err(|error| error.to_string())
}

fn phase(
    store: &dyn Store,
    operations: Option<u64>,
    worker_of: &dyn Fn(usize) -> Box<dyn Worker>,
) -> Result<(), String> {
    let phase = Phase {
        name: "run".to_owned(),
        distribution: String::new(),
        threads: 4,
        limit: Limit {
            operations,
            duration: None,
        },
        expected_operations: None,
        settle: false,
        course_interval: Duration::from_millis(500),
    };
    let never = AtomicBool::new(false);
    driver::run(store, &phase, &never, &NoProgress, worker_of)
        .map(drop)
        .map_err(|error| error.to_string())
}

#[test]
fn the_labs_run_finds_every_kind_of_wrongness() {
    for (wrongness, words) in [
        // The sweep after loading finds the gap.
        (Wrongness::LostPut, "yielded key"),
        (Wrongness::StaleValue, "overwritten before"),
        (Wrongness::DroppedRecord, "yielded key"),
    ] {
        let error = with_wrong_store(Some(wrongness), "evendb", run).expect_err("a wrong store");
        assert!(error.contains(words), "{wrongness:?}: {error}");
    }
    assert_eq!(with_wrong_store(None, "evendb", run), Ok(()));
}

use super::*;
use crate::experiments::tests::parsed;
use crate::store::{Store, StoreResult};
use crate::stores::evendb::GuardsOpener;
use crate::stores::memory::{Fault, MemoryStore};
use std::fs;
use std::path::Path;

fn arguments(out: &str, given: &str) -> Arguments {
    let words = ["flsm-claims", "--out", out].into_iter();
    let words = words.chain(given.split_whitespace());
    parsed(words)
}

/// A few hundred pairs, and enough time for all.
const METHOD: Method = Method {
    settings: Settings {
        memory_bytes: 16 << 20,
        durability: Durability::Process,
    },
    variant: None,
    scale: 1e-5,
    seed: 1,
    seconds: 600.0,
    seconds_max: 600.0,
};

/// The lines that the process of a claim notes.
fn measured(out: &Path, claim: &str) -> Vec<Value> {
    let claim = CLAIMS.iter().find(|one| one.name == claim).unwrap();
    let results = ResultsFile::in_directory(out);
    let directory = out.join(claim.name);
    fs::create_dir(&directory).unwrap();
    let measurement = Measurement {
        method: &METHOD,
        claim,
        opener: &GuardsOpener::DEFAULT,
        round: 0,
        results: &results,
        directory: &directory,
    };
    measurement.run().unwrap();
    let lines = results.lines().unwrap();
    assert!(lines.iter().all(|line| line["kind"] == "cell"), "{lines:?}");
    lines
}

fn operations(line: &Value) -> u64 {
    line["phase"]["operations"].as_u64().unwrap()
}

#[test]
fn an_aged_store_is_measured_phase_by_phase_and_reported() {
    let out = tempfile::tempdir().unwrap();
    let lines = measured(out.path(), "aged");
    let done: Vec<_> = lines
        .iter()
        .map(|line| (line["cell"].as_str().unwrap(), operations(line)))
        .collect();
    let expected = [
        ("random fill", 500),
        ("deletes", 200),
        ("updates", 200),
        ("reads", 100),
        ("seeks", 100),
        ("short scans", 10),
    ];
    assert_eq!(done, expected);
    let live = lines
        .iter()
        .map(|line| line["live_bytes"].as_u64().unwrap());
    let expected = [500, 300, 300, 300, 300, 300].map(|pairs| pairs * 1040);
    assert!(live.eq(expected));
    report::write(out.path()).unwrap();
    let text = fs::read_to_string(report::path(out.path())).unwrap();
    let has = |what: &str| text.contains(what);
    assert!(has("## aged") && has("short scans:\n\n| store |"), "{text}");
    assert!(!has("skipped") && !has("## ycsb-a"), "{text}");
}

#[test]
fn every_claim_can_be_measured() {
    let out = tempfile::tempdir().unwrap();
    for claim in &CLAIMS {
        let lines = measured(out.path(), claim.name);
        let last = lines.last().unwrap();
        assert_eq!(last["cell"], claim.phases.last().unwrap().name);
        let pairs = claim.pairs(1e-5);
        let whole = pairs * (crate::dataset::KEY_BYTES + claim.value_bytes()) as u64;
        let live = last["live_bytes"].as_u64().unwrap();
        match claim.name {
            "aged" => assert_eq!(live, pairs * 3 / 5 * 1040),
            // D inserts.
            "ycsb-a" => assert!(live > whole, "{live}"),
            name => assert_eq!(live, whole, "{name}"),
        }
    }
}

/// An error of a store ends the claim. Each phase that was not measured gets the reason.
#[test]
fn a_store_that_errs_is_skipped_with_the_reason() {
    let out = tempfile::tempdir().unwrap();
    let results = ResultsFile::in_directory(out.path());
    let claim = &CLAIMS[1];
    let measurement = Measurement {
        method: &METHOD,
        claim,
        opener: &Erring,
        round: 0,
        results: &results,
        directory: out.path(),
    };
    measurement.run().unwrap_err();
    let lines = results.lines().unwrap();
    let kinds: Vec<_> = lines
        .iter()
        .map(|line| line["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["cell", "skipped", "skipped", "skipped"]);
    let why = |line: &Value| line["why"].as_str().unwrap().to_owned();
    assert!(
        why(&lines[1]).contains("reads: the store answered wrongly"),
        "{lines:?}"
    );
    assert!(
        why(&lines[3]).starts_with("not reached: reads:"),
        "{lines:?}"
    );
}

struct Erring;

impl Opener for Erring {
    fn name(&self) -> &'static str {
        "erring"
    }

    fn open(&self, _: &Path, _: &Settings) -> StoreResult<Box<dyn Store>> {
        Ok(Box::new(MemoryStore::with_fault(Fault::FlipBit)))
    }
}

#[test]
fn claims_are_chosen_by_name_and_stores_take_turns() {
    let chosen = arguments("nowhere", "--claims aged,ycsb-e --rounds 2");
    let claims = chosen.claims().unwrap();
    let plan = chosen.plan(&claims, &["a", "b"]);
    let turns: Vec<_> = plan
        .iter()
        .map(|step| (step.what.as_str(), step.round, step.store.as_str()))
        .collect();
    assert_eq!(
        turns[..4],
        [
            ("aged", 0, "a"),
            ("aged", 0, "b"),
            ("aged", 1, "a"),
            ("aged", 1, "b")
        ]
    );
    assert_eq!(turns.len(), 8);
    let error = arguments("nowhere", "--claims aged,none")
        .claims()
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no claim `none`; there are write-amplification, ")
    );
}

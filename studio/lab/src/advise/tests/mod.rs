//! Operations and traces for the tests of advice.

mod advice;
mod load;

use evendb_report::{Column, Document, Unit};
use evendb_trace::{Header, Kind, Operation, Outcome, Reader, Writer};

use crate::advise::Advice;
use crate::advise::beside::{Beside, MissRow, Ratio, miss_ratio, misses, spread};
use crate::advise::candidates::Candidate;
use crate::advise::halving::Standing;
use crate::advise::load::{Load, observe};
use crate::advise::page;
use crate::advise::runs::Measured;
use crate::advise::source::{Drawn, source};
use crate::advise::words::{of_load, warnings};
use crate::random::Random;
use crate::replay::command::{LeftOut, reader_of};
use crate::replay::{Merges, Part, ReplaySettings};

fn written(operations: &[Operation]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
    for operation in operations {
        writer.add(operation).unwrap();
    }
    writer.finish().unwrap().0
}

fn load_of(operations: &[Operation], loading: u64) -> Load {
    let trace = written(operations);
    observe(Reader::new(&trace[..]).unwrap(), (loading, u64::MAX), 100).unwrap()
}

fn put(key: impl Into<Vec<u8>>, bytes: u64) -> Operation {
    let mut put = Operation::new(Kind::Put, key);
    put.value_len = Some(bytes);
    put.outcome = Outcome::Done;
    put
}

fn get(key: impl Into<Vec<u8>>, found: Option<u64>) -> Operation {
    let mut get = Operation::new(Kind::Get, key);
    let present = |len| Outcome::Present {
        len: Some(len),
        hash: None,
    };
    get.outcome = found.map_or(Outcome::Absent, present);
    get
}

fn delete(key: &str) -> Operation {
    let mut delete = Operation::new(Kind::Delete, key);
    delete.outcome = Outcome::Done;
    delete
}

fn scan(key: &str, count: u64) -> Operation {
    let mut scan = Operation::new(Kind::Scan, key);
    (scan.count, scan.limit) = (Some(count), Some(100));
    scan.outcome = Outcome::Done;
    scan
}

/// Advice of one stage in which each of these settings was that many times as fast as the default.
/// The first of them wins.
fn advised(fixed: &str, scores: &[(&str, f64)]) -> Advice {
    let candidate = |settings: &str| Candidate {
        tuning: settings.parse().unwrap(),
        reason: String::new(),
    };
    let others = scores.iter().map(|(settings, _)| candidate(settings));
    let speeds = scores.iter().map(|(_, speed)| *speed);
    let standing = |(candidate, speed): (usize, f64)| Standing {
        candidate,
        ratios: vec![speed; 3],
        base: vec![1.0; 3],
    };
    let all = std::iter::once(1.0).chain(speeds).enumerate();
    Advice {
        load: Load {
            has_values: true,
            ..Load::default()
        },
        memory_bytes: 64 << 20,
        allowed_bytes: 64 << 20,
        fixed: fixed.parse().unwrap(),
        candidates: std::iter::once(candidate("")).chain(others).collect(),
        untried: Vec::new(),
        runs: Vec::new(),
        stages: vec![all.map(standing).collect()],
        winner: usize::from(scores.first().is_some_and(|(_, speed)| *speed > 1.05)),
        budgets: Vec::new(),
        peers: Vec::new(),
        peers_were_asked: false,
        misses: Vec::new(),
        age_bytes: 0,
    }
}

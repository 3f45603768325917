//! Models made from the analysis of traces with one kind, two kinds, one operation and none.

use crate::load::*;
use evendb_model::from_analysis::{Known, Made, MakeError, make};
use evendb_model::model::Model;
use evendb_trace::{Kind, Operation, Outcome};

/// Kinds that a model does not have.
const NOT_MODELLED: [Kind; 7] = [
    Kind::DeleteRange,
    Kind::Pop,
    Kind::BatchCommit,
    Kind::Begin,
    Kind::Commit,
    Kind::Abort,
    Kind::Other,
];

/// `each` operations of each of these kinds, a second apart or all at one moment. No outcome and no
/// length is known, as in traces of other stores.
fn unknown(kinds: &[Kind], each: u64, seconds: u64) -> Vec<Operation> {
    let all = (0..each * kinds.len() as u64).map(|number| {
        let kind = kinds[(number % kinds.len() as u64) as usize];
        let mut operation = Operation::new(kind, format!("key {}", number % 7));
        operation.start_nanos = number * seconds * 1_000_000_000;
        operation
    });
    all.collect()
}

fn made(operations: &[Operation]) -> Result<Made, MakeError> {
    make(&found(operations), &Known::default())
}

/// Fails unless there is a model of these operations that has all of them, and the model comes back
/// from its file.
fn assert_made(operations: &[Operation], modelled: u64, case: &str) -> Made {
    let made = made(operations).unwrap_or_else(|error| panic!("{case}: {error}"));
    let text = made.to_toml().unwrap();
    assert_eq!(Model::from_toml(&text).unwrap(), made.model, "{case}");
    assert_eq!(made.model.operations, modelled, "{case}");
    made
}

#[test]
fn a_model_is_made_of_a_trace_of_every_single_kind() {
    for (number, kind) in Kind::ALL.into_iter().enumerate() {
        // One operation, some at one moment, and some a second apart.
        let (each, seconds) = [(1, 0), (20, 0), (20, 1)][number % 3];
        let operations = unknown(&[kind], each, seconds);
        let case = format!("{} {each} {seconds}", kind.name());
        if NOT_MODELLED.contains(&kind) {
            let error = made(&operations).unwrap_err();
            assert!(matches!(error, MakeError::Nothing(_)), "{case}: {error}");
            continue;
        }
        let made = assert_made(&operations, each, &case);
        let told = made.unknown.join("\n");
        assert_eq!(
            told.contains("Scans: "),
            kind == Kind::Scan,
            "{case}: {told}"
        );
    }
}

#[test]
fn a_model_is_made_of_traces_of_two_kinds() {
    let modelled = [Kind::Get, Kind::Put, Kind::Delete, Kind::Merge, Kind::Scan];
    for (at, one) in modelled.into_iter().enumerate() {
        for other in modelled.into_iter().skip(at + 1) {
            let operations = unknown(&[one, other], 10, 1);
            let case = format!("{} and {}", one.name(), other.name());
            assert_made(&operations, 20, &case);
        }
    }
    // Kinds that a model does not have, with a kind that it has.
    let operations = unknown(&[Kind::Commit, Kind::DeleteRange, Kind::Get], 10, 1);
    assert_made(&operations, 10, "with kinds that a model does not have");
}

#[test]
fn of_a_trace_without_operations_no_model_is_made_and_the_reason_is_told() {
    let error = made(&[]).unwrap_err();
    assert_eq!(error.to_string(), "the trace has no operations");
}

#[test]
fn backward_scans_alone_have_a_model_with_their_length() {
    let mut operations = unknown(&[Kind::Scan], 20, 1);
    for operation in &mut operations {
        operation.reverse = true;
        operation.count = Some(9);
        operation.outcome = Outcome::Done;
    }
    let made = assert_made(&operations, 20, "backward scans");
    let scans = made.model.scans.unwrap();
    assert_eq!((scans.least, scans.most), (9, 9));
}

#[test]
fn the_mean_size_of_values_in_a_model_is_that_of_the_trace() {
    // Two humps: no formula fits them.
    let mut operations = unknown(&[Kind::Put], 3000, 1);
    let mut random = Random(7);
    let mut sum = 0;
    for operation in &mut operations {
        let len = match random.below(3) {
            0 => 70_000 + random.below(9000) + random.below(9000),
            _ => 100 + random.below(300) + random.below(300),
        };
        sum += len;
        operation.value_len = Some(len);
    }
    let mean = sum as f64 / operations.len() as f64;
    let made = assert_made(&operations, 3000, "values");
    let off = made.model.values.sizes.mean() / mean - 1.0;
    assert!(off.abs() < 0.002, "{off}");
}

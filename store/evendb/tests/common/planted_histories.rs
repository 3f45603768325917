//! Whether our checker refuses the histories of an engine in which a fault is planted.

use super::clients::Plan;
use super::history_file;
use super::linearizable::{self, Op};

/// `record` records a history of a plan, with the fault or without. Without the fault it is sound.
/// With it, one run may miss the moment, but several do not. The refused history is kept by `name`.
pub fn is_refused(name: &str, record: impl Fn(Plan, bool) -> Vec<Op>) {
    let plan = |seed| Plan {
        seed,
        keys: 400,
        block: 10,
        is_shared: false,
        operations: 8000,
        round: 1000,
    };
    let sound = record(plan(1), false);
    assert_eq!(linearizable::check(&sound), Ok(()));
    let noticed = (1..=20).any(|seed| {
        let ops = record(plan(seed), true);
        let is_refused = linearizable::check(&ops).is_err();
        if is_refused {
            history_file::keep(&format!("planted-{name}"), plan(seed).keys, &ops);
        }
        is_refused
    });
    assert!(noticed, "{name} is not noticed");
}

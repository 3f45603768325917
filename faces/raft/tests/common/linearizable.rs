//! Whether a history of reads and writes of single keys is linearizable, by the search of Wing and
//! Gong with Lowe's memory of states; each key by itself, which is enough for single keys.
//!
//! A write whose answer never came may have happened at any time after its begin, or never.
//! Versions differ, so somebody who found its version tells that it happened before; if nobody did,
//! the history is linearizable without it exactly if it is with it. So [`settled`] gives such
//! writes an end or leaves them out, and the search has no choice there. A read whose answer never
//! came is left out by the recorder. [`keep`] writes the history for `scripts/linearizability`,
//! another checker by other authors.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;

/// The end of an operation whose answer never came.
pub const NEVER: u64 = u64::MAX;

/// One operation on one key. Moments are numbers that no two operations share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    pub key: u32,
    pub begin: u64,
    pub end: u64,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Found this version; 0 if there is none.
    Read(u32),
    /// Wrote this version.
    Write(u32),
    /// Found the first version and wrote the second one, in one step.
    Swap(u32, u32),
}

impl Kind {
    fn found(self) -> Option<u32> {
        match self {
            Kind::Read(found) | Kind::Swap(found, _) => Some(found),
            Kind::Write(_) => None,
        }
    }

    fn written(self) -> Option<u32> {
        match self {
            Kind::Write(version) | Kind::Swap(_, version) => Some(version),
            Kind::Read(_) => None,
        }
    }
}

fn step(state: u32, kind: Kind) -> Option<u32> {
    match kind.found() {
        Some(found) if found != state => None,
        _ => Some(kind.written().unwrap_or(state)),
    }
}

/// The history with an end for each operation; moments are doubled to make room for them.
fn settled(ops: &[Op]) -> Vec<Op> {
    let mut kept: Vec<Op> = ops.iter().filter(|op| op.end != NEVER).cloned().collect();
    for op in &mut kept {
        (op.begin, op.end) = (2 * op.begin, 2 * op.end);
    }
    let mut open: Vec<&Op> = ops.iter().filter(|op| op.end == NEVER).collect();
    // An operation that is settled may have found what another open one wrote.
    loop {
        let mut found: HashMap<(u32, u32), u64> = HashMap::new();
        for op in &kept {
            if let Some(version) = op.kind.found() {
                let first = found.entry((op.key, version)).or_insert(NEVER);
                *first = op.end.min(*first);
            }
        }
        let before = kept.len();
        open.retain(|op| {
            let version = op.kind.written().expect("an open read is left out");
            let Some(first) = found.get(&(op.key, version)) else {
                return true;
            };
            // One operation finds one version, so no two get this end.
            let (begin, end) = (2 * op.begin, first - 1);
            kept.push(Op {
                begin,
                end,
                ..(*op).clone()
            });
            false
        });
        if kept.len() == before {
            return kept;
        }
    }
}

/// Whether the operations of one key have an order that agrees with time.
fn check_key(ops: &[Op]) -> bool {
    let mut seen: HashSet<(Vec<u64>, u32)> = HashSet::new();
    // Each frame: which operations are done, the state, and the next one to try.
    let mut stack = vec![(vec![0u64; ops.len().div_ceil(64)], 0u32, 0usize, 0usize)];
    while let Some((done, state, count, next)) = stack.pop() {
        if count == ops.len() {
            return true;
        }
        let is_done = |at: usize| done[at / 64] >> (at % 64) & 1 == 1;
        let open = (0..ops.len()).filter(|at| !is_done(*at));
        // Nothing may come before an operation that ended before it began.
        let first_end = open.clone().map(|at| ops[at].end).min().unwrap_or(NEVER);
        let Some(at) = open
            .clone()
            .find(|at| *at >= next && ops[*at].begin < first_end)
        else {
            continue;
        };
        stack.push((done.clone(), state, count, at + 1));
        if let Some(after) = step(state, ops[at].kind) {
            let mut taken = done;
            taken[at / 64] |= 1 << (at % 64);
            if seen.insert((taken.clone(), after)) {
                stack.push((taken, after, count + 1, 0));
            }
        }
    }
    false
}

/// Checks a history, and tells the first key that has no order.
pub fn check(ops: &[Op]) -> Result<(), String> {
    let mut keys: BTreeMap<u32, Vec<Op>> = BTreeMap::new();
    for op in settled(ops) {
        if op.begin >= op.end {
            return Err(format!(
                "key {}: found before it was written: {:?}",
                op.key, op.kind
            ));
        }
        keys.entry(op.key).or_default().push(op);
    }
    for (key, mut ops) in keys {
        ops.sort_by_key(|op| op.begin);
        if !check_key(&ops) {
            return Err(format!("key {key} has no order: {ops:?}"));
        }
    }
    Ok(())
}

/// Writes a history in the form of `scripts/linearizability` to `<name>.history` in the folder that
/// `EVENDB_HISTORY_OUT` names; does nothing if it names none.
pub fn keep(name: &str, keys: u32, ops: &[Op]) {
    let Some(folder) = std::env::var_os("EVENDB_HISTORY_OUT") else {
        return;
    };
    let mut sorted = settled(ops);
    sorted.sort_by_key(|op| op.begin);
    let mut text = format!("evendb-history 1\nkeys {keys}\n");
    let version = |number: u32| match number {
        0 => "-".to_owned(),
        number => number.to_string(),
    };
    for Op {
        key,
        begin,
        end,
        kind,
    } in sorted
    {
        write!(text, "{begin} {end}").expect("a string takes it");
        if let Some(found) = kind.found() {
            write!(text, " r{key}={}", version(found)).expect("a string takes it");
        }
        if let Some(written) = kind.written() {
            write!(text, " w{key}={written}").expect("a string takes it");
        }
        text.push('\n');
    }
    let path = Path::new(&folder).join(format!("{name}.history"));
    std::fs::write(path, text).expect("is written");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(begin: u64, end: u64, kind: Kind) -> Op {
        Op {
            key: 0,
            begin,
            end,
            kind,
        }
    }

    #[test]
    fn an_order_is_found_where_there_is_one() {
        let beside = [
            op(0, 5, Kind::Write(1)),
            op(1, 2, Kind::Read(1)),
            op(3, 4, Kind::Read(1)),
        ];
        assert_eq!(check(&beside), Ok(()));
        let lost = [op(0, 1, Kind::Write(1)), op(2, 3, Kind::Read(0))];
        assert!(check(&lost).is_err());
        let back = [
            op(0, 1, Kind::Write(1)),
            op(2, 7, Kind::Write(2)),
            op(3, 4, Kind::Read(2)),
            op(5, 6, Kind::Read(1)),
        ];
        assert!(check(&back).is_err());
    }

    #[test]
    fn a_write_without_an_answer_may_happen_late_or_never() {
        let write = op(0, NEVER, Kind::Write(1));
        let late = [
            write.clone(),
            op(1, 2, Kind::Read(0)),
            op(3, 4, Kind::Read(1)),
        ];
        assert_eq!(check(&late), Ok(()));
        let never = [write.clone(), op(1, 2, Kind::Read(0))];
        assert_eq!(check(&never), Ok(()));
        let gone_again = [write, op(1, 2, Kind::Read(1)), op(3, 4, Kind::Read(0))];
        assert!(check(&gone_again).is_err());
    }

    #[test]
    fn two_swaps_of_one_version_have_no_order() {
        let twice = [op(0, 3, Kind::Swap(0, 1)), op(1, 2, Kind::Swap(0, 2))];
        assert!(check(&twice).is_err());
        let both = [op(0, 3, Kind::Swap(2, 1)), op(1, 2, Kind::Swap(0, 2))];
        assert_eq!(check(&both), Ok(()));
    }

    #[test]
    fn an_open_swap_tells_of_an_open_write() {
        let write = op(0, NEVER, Kind::Write(1));
        let swap = op(1, NEVER, Kind::Swap(1, 2));
        let history = [write.clone(), swap.clone(), op(2, 3, Kind::Read(2))];
        assert_eq!(check(&history), Ok(()));
        let without = [swap, op(2, 3, Kind::Read(2))];
        assert!(check(&without).is_err());
        let too_early = [op(0, 1, Kind::Read(1)), op(2, NEVER, Kind::Write(1))];
        assert!(check(&too_early).is_err());
    }
}

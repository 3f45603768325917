//! Whether a history of gets, puts, deletes, batches, scans and snapshots is linearizable, all
//! kinds together.
//!
//! A key has one writing thread, so its versions are known and numbered. Then a history is
//! linearizable exactly if a graph of its operations has no cycle. The graph has three kinds of
//! edges: version n comes before the reads of it; these come before version n + 1; and an operation
//! that ended before another began comes before it. The last kind of edge goes through a chain of
//! all beginnings and ends, so that the graph, and the check, is linear.

use super::order::left_waiting;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

/// A read that found nothing.
pub const ABSENT: u32 = u32::MAX;

/// The reads and writes of one operation, between two moments that no other operation shares.
#[derive(Clone, Debug, Default)]
pub struct Op {
    pub begin: u32,
    pub end: u32,
    /// Key and version read.
    pub reads: Vec<(u32, u32)>,
    /// Key and version written; whether it is a deletion.
    pub writes: Vec<(u32, u32, bool)>,
}

/// The versions of one key: the operation that wrote each, and whether it is a deletion. Version 0
/// is the absence at the beginning.
#[derive(Default)]
struct Versions(Vec<(u32, bool)>);

struct Checker<'h> {
    ops: &'h [Op],
    versions: HashMap<u32, Versions>,
}

impl<'h> Checker<'h> {
    fn new(ops: &'h [Op]) -> Checker<'h> {
        let mut versions: HashMap<u32, Versions> = HashMap::new();
        for (index, op) in ops.iter().enumerate() {
            for &(key, version, deleted) in &op.writes {
                let known = &mut versions.entry(key).or_default().0;
                known.resize(known.len().max(version as usize + 1), (ABSENT, true));
                known[version as usize] = (index as u32, deleted);
            }
        }
        Checker { ops, versions }
    }

    fn writer(&self, key: u32, version: u32) -> Option<u32> {
        let (writer, _) = *self.versions.get(&key)?.0.get(version as usize)?;
        (writer != ABSENT).then_some(writer)
    }

    /// The version that a read which found nothing saw, if only one is possible; an error if none
    /// is.
    fn absent_version(&self, key: u32, op: &Op) -> Result<Option<u32>, String> {
        let Some(Versions(known)) = self.versions.get(&key) else {
            return Ok(None);
        };
        // Versions of one writer end in order: the versions that had ended before the read were
        // overwritten, except the last of them.
        let ended = |index: usize| index == 0 || self.ops[known[index].0 as usize].end < op.begin;
        let (mut first, mut beyond) = (0, known.len());
        while beyond - first > 1 {
            let middle = (first + beyond) / 2;
            if ended(middle) {
                first = middle
            } else {
                beyond = middle
            }
        }
        let mut found = None;
        for (index, &(writer, deleted)) in known.iter().enumerate().skip(first) {
            if index > 0 && self.ops[writer as usize].begin > op.end {
                break;
            }
            if deleted && found.replace(index as u32).is_some() {
                return Ok(None);
            }
        }
        match found {
            Some(_) => Ok(found),
            None => Err(format!("key {key} cannot have been absent: {op:?}")),
        }
    }

    fn edges(&self, mut edge: impl FnMut(u32, u32)) -> Result<(), String> {
        let count = self.ops.len() as u32;
        for event in 1..2 * count {
            edge(count + event - 1, count + event);
        }
        for (index, op) in self.ops.iter().enumerate() {
            let own = index as u32;
            edge(count + op.begin, own);
            edge(own, count + op.end);
            for &(key, version, _) in &op.writes {
                if let Some(next) = self.writer(key, version + 1) {
                    edge(own, next);
                }
            }
            for &(key, seen) in &op.reads {
                let version = match seen {
                    ABSENT => match self.absent_version(key, op)? {
                        Some(version) => version,
                        None => continue,
                    },
                    version => version,
                };
                match self.writer(key, version) {
                    Some(writer) => edge(writer, own),
                    None if version == 0 => {}
                    None => return Err(format!("nobody wrote {version} of key {key}: {op:?}")),
                }
                if let Some(next) = self.writer(key, version + 1) {
                    edge(own, next);
                }
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let nodes = self.ops.len() * 3;
        let waiting = left_waiting(nodes, &|edge| self.edges(edge))?;
        let Some(waits) = waiting else {
            return Ok(());
        };
        let mut stuck: Vec<&Op> = (0..self.ops.len())
            .filter(|&node| waits[node] > 0)
            .map(|node| &self.ops[node])
            .collect();
        stuck.sort_by_key(|op| op.end);
        stuck.truncate(12);
        Err(format!(
            "not linearizable; among the first in a circle: {stuck:#?}"
        ))
    }
}

pub fn check(ops: &[Op]) -> Result<(), String> {
    Checker::new(ops).check()
}

/// Returns moments.
#[derive(Default)]
pub struct Watch(AtomicU32);

impl Watch {
    pub fn now(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

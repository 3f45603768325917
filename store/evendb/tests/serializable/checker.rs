//! Whether recorded transactions are strictly serializable: as if one happened after the other,
//! each between its begin and its end.
//!
//! The value of a key is a list of numbers, and each write appends a unique number. So a list that
//! was read says which writes came before, and in which order. Then a history is strictly
//! serializable exactly if a graph has no cycle:
//!
//! ```text
//!   ww   an append comes before the next append to the same key
//!   wr   an append comes before the reads of a list that ends with it
//!   rw   a read of a list comes before the append that makes it longer
//!   rt   a transaction that had ended comes before one that began then
//! ```
//! Edges of real time go through a chain of all begins and ends, so that the graph, and the check,
//! is linear.
//!
//! Plain data, no database. Not here: how histories are made.

use crate::common::order::left_waiting;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// A key of one of the keyspaces, as a number.
pub type Key = u32;
/// The list of a key; empty if the key is absent.
pub type List = Vec<u32>;

/// The reads and appends of one transaction, between two moments that no other transaction shares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tx {
    pub begin: u32,
    pub end: u32,
    /// The lists of other transactions that it saw, key by key.
    pub reads: Vec<(Key, List)>,
    /// For each append, the key and the number that was appended to its list.
    pub appends: Vec<(Key, u32)>,
}

/// Everything that is known of a run.
#[derive(Default)]
pub struct History {
    pub transactions: Vec<Tx>,
    /// The numbers appended by transactions that were refused or rolled back.
    pub aborted: HashSet<u32>,
    /// The lists of the keys at the end.
    pub last: HashMap<Key, List>,
}

/// Why one transaction comes before another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Why {
    Ww(Key),
    Wr(Key),
    Rw(Key),
    RealTime,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Ww(key) => write!(f, "ww of key {key}"),
            Why::Wr(key) => write!(f, "wr of key {key}"),
            Why::Rw(key) => write!(f, "rw of key {key}"),
            Why::RealTime => write!(f, "rt"),
        }
    }
}

struct Checker<'h> {
    history: &'h History,
    /// For each number, the transaction that appended it, and the key.
    writers: HashMap<u32, (u32, Key)>,
}

impl History {
    /// Renumbers all begins and ends from 0 without gaps, in their order.
    pub fn close_gaps(&mut self) {
        let all = self.transactions.iter();
        let mut moments: Vec<u32> = all.flat_map(|one| [one.begin, one.end]).collect();
        moments.sort_unstable();
        let place = |moment: u32| moments.partition_point(|&other| other < moment) as u32;
        for transaction in &mut self.transactions {
            transaction.begin = place(transaction.begin);
            transaction.end = place(transaction.end);
        }
    }
}

/// Returns what is wrong with the history, if anything is.
pub fn check(history: &History) -> Result<(), String> {
    let checker = Checker {
        history,
        writers: writers(history)?,
    };
    checker.check_last_lists()?;
    checker.check_reads()?;
    checker.check_order("not serializable", false)?;
    checker.check_order("serializable, but not in real time", true)
}

fn writers(history: &History) -> Result<HashMap<u32, (u32, Key)>, String> {
    let mut writers = HashMap::new();
    for (index, transaction) in history.transactions.iter().enumerate() {
        for &(key, number) in &transaction.appends {
            if writers.insert(number, (index as u32, key)).is_some() {
                return Err(format!("the history appends {number} twice"));
            }
        }
    }
    Ok(writers)
}

impl Checker<'_> {
    /// Each committed number is in the list of its key once, and no other number is in a list.
    fn check_last_lists(&self) -> Result<(), String> {
        let mut seen = HashSet::new();
        for (&key, list) in &self.history.last {
            for &number in list {
                self.check_known(key, number)?;
                if !seen.insert(number) {
                    return Err(format!("{number} is there twice: key {key} has {list:?}"));
                }
            }
        }
        match self
            .writers
            .iter()
            .find(|(number, _)| !seen.contains(number))
        {
            None => Ok(()),
            Some((number, (writer, key))) => Err(format!(
                "{number} is lost: key {key} has {:?} in the end, after {:?}",
                self.last(*key),
                self.history.transactions[*writer as usize]
            )),
        }
    }

    fn check_known(&self, key: Key, number: u32) -> Result<(), String> {
        match self.writers.get(&number) {
            Some(&(_, own)) if own == key => Ok(()),
            Some((_, own)) => Err(format!("key {key} has {number}, which was for key {own}")),
            None if self.history.aborted.contains(&number) => {
                Err(format!("key {key} has {number} of an aborted transaction"))
            }
            None => Err(format!("key {key} has {number}, which nobody appended")),
        }
    }

    /// Each list that was read is a prefix of the last one.
    fn check_reads(&self) -> Result<(), String> {
        for transaction in &self.history.transactions {
            for (key, list) in &transaction.reads {
                let last = self.last(*key);
                if last.starts_with(list) {
                    continue;
                }
                for &number in list {
                    self.check_known(*key, number)?;
                }
                return Err(format!(
                    "key {key} was read as {list:?} and has {last:?} in the end: {transaction:?}"
                ));
            }
        }
        Ok(())
    }

    fn last(&self, key: Key) -> &[u32] {
        self.history.last.get(&key).map_or(&[], Vec::as_slice)
    }

    fn writer(&self, number: u32) -> u32 {
        self.writers[&number].0
    }

    fn edges(&self, real_time: bool, mut edge: impl FnMut(u32, u32, Why)) {
        for (&key, list) in &self.history.last {
            for pair in list.windows(2) {
                edge(self.writer(pair[0]), self.writer(pair[1]), Why::Ww(key));
            }
        }
        let count = self.history.transactions.len() as u32;
        for (own, transaction) in (0..count).zip(&self.history.transactions) {
            for (key, list) in &transaction.reads {
                if let Some(&newest) = list.last() {
                    edge(self.writer(newest), own, Why::Wr(*key));
                }
                if let Some(&next) = self.last(*key).get(list.len()) {
                    edge(own, self.writer(next), Why::Rw(*key));
                }
            }
            if real_time {
                edge(count + transaction.begin, own, Why::RealTime);
                edge(own, count + transaction.end, Why::RealTime);
            }
        }
        for event in 1..if real_time { 2 * count } else { 0 } {
            edge(count + event - 1, count + event, Why::RealTime);
        }
    }

    /// Checks that there is an order.
    fn check_order(&self, what: &str, real_time: bool) -> Result<(), String> {
        let count = self.history.transactions.len();
        let nodes = if real_time { count * 3 } else { count };
        // A transaction's reads of its own writes give no order.
        let waiting = left_waiting(nodes, &|edge| {
            self.edges(real_time, |from, to, _| {
                if from != to {
                    edge(from, to);
                }
            });
            Ok(())
        })?;
        match waiting {
            None => Ok(()),
            Some(waits) => Err(format!("{what}: {}", self.cycle(real_time, &waits))),
        }
    }

    /// A cycle among the nodes that still wait. Each of them has a predecessor that waits too, so a
    /// walk back from any one of them comes to a node a second time.
    fn cycle(&self, real_time: bool, waits: &[u32]) -> String {
        let mut before: Vec<Option<(u32, Why)>> = vec![None; waits.len()];
        self.edges(real_time, |from, to, why| {
            let waiting = waits[from as usize] > 0 && waits[to as usize] > 0;
            if from != to && waiting && before[to as usize].is_none() {
                before[to as usize] = Some((from, why));
            }
        });
        let mut node = waits
            .iter()
            .position(|&waits| waits > 0)
            .expect("one waits") as u32;
        let mut passed = HashSet::new();
        while passed.insert(node) {
            (node, _) = before[node as usize].expect("a predecessor waits");
        }
        let (first, mut steps) = (node, Vec::new());
        loop {
            let (from, why) = before[node as usize].expect("a predecessor waits");
            if let Some(transaction) = self.history.transactions.get(node as usize) {
                steps.push(format!("  {why} -> {transaction:?}"));
            }
            node = from;
            if node == first {
                steps.reverse();
                return format!("each before the next, in a circle\n{}", steps.join("\n"));
            }
        }
    }
}

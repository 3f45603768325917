//! [`Merged`]: several traces as one, in the order of time, in bounded memory.
//!
//! ```text
//!   shard 1 --> InOrder --+
//!   shard 2 --> InOrder --+--> the one that began first --> Operation
//!   shard 3 --> InOrder --+        keyspaces by name, threads and groups renumbered
//! ```
//! **Time.** If all traces know the wall clock at which they began, each is moved by its distance
//! from the earliest one. Otherwise all begin at 0, and [`Merged::is_aligned`] says so. Clocks of
//! several machines differ: the order between shards is as good as these clocks.
//!
//! **Names.** Keyspaces with one name become one keyspace. A keyspace without a name stays apart
//! from those of other traces. Threads and groups of several traces never become one.
//!
//! Memory: what [`InOrder`] takes for each trace, and a number for each thread and keyspace.

use crate::error::{Error, ErrorKind, Result};
use crate::frame::Header;
use crate::in_order::InOrder;
use crate::operation::{Kind, Operation};
use crate::reader::{Losses, Reader};
use std::collections::{BTreeMap, HashMap};
use std::io::Read;

/// See the module.
pub struct Merged<R> {
    inputs: Vec<Shard<R>>,
    names: Names,
    threads: HashMap<(usize, u32), u32>,
    is_aligned: bool,
}

struct Shard<R> {
    ordered: InOrder<R>,
    /// The next operation, with its time in the merged trace.
    next: Option<Operation>,
    shift_nanos: u64,
    keyspaces: HashMap<u32, u32>,
}

/// Keyspaces of the merged trace.
#[derive(Default)]
struct Names {
    by_name: BTreeMap<String, u32>,
    /// Names that were given since they were last asked for.
    new: BTreeMap<u32, String>,
    next: u32,
}

impl Names {
    fn number(&mut self, name: String) -> u32 {
        if let Some(number) = self.by_name.get(&name) {
            return *number;
        }
        let number = self.next;
        self.next = self.next.saturating_add(1);
        self.new.insert(number, name.clone());
        self.by_name.insert(name, number);
        number
    }
}

impl<R: Read> Merged<R> {
    /// Merges what `readers` give, with this number of bytes of memory for all of them.
    ///
    /// # Errors
    /// `NotATrace` if the traces are samples of different shares of the keys: together they would
    /// be a sample of nothing. Those of reading the first operations.
    pub fn new(readers: Vec<Reader<R>>, heap_bytes_max: usize) -> Result<Merged<R>> {
        let shares: Vec<u64> = readers.iter().map(|one| one.header().one_in).collect();
        if shares.windows(2).any(|pair| pair[0] != pair[1]) {
            let message = format!(
                "these are samples of different shares of the keys (one key in {shares:?}), and together they would be a sample of nothing"
            );
            return Err(Error::new(ErrorKind::NotATrace, message));
        }
        let clocks = readers.iter().map(|one| one.header().wall_clock_millis);
        let clocks: Vec<u64> = clocks.collect();
        let is_aligned = clocks.iter().all(|millis| *millis > 0);
        let earliest = clocks.iter().copied().min().unwrap_or(0);
        let each = heap_bytes_max / readers.len().max(1);
        let shard = |(reader, millis): (Reader<R>, &u64)| Shard {
            ordered: InOrder::new(reader, each),
            next: None,
            shift_nanos: match is_aligned {
                true => (millis - earliest).saturating_mul(1_000_000),
                false => 0,
            },
            keyspaces: HashMap::new(),
        };
        let mut merged = Merged {
            inputs: readers.into_iter().zip(&clocks).map(shard).collect(),
            names: Names::default(),
            threads: HashMap::new(),
            is_aligned,
        };
        for number in 0..merged.inputs.len() {
            let known = merged.inputs[number].ordered.reader().keyspaces().clone();
            for (own, name) in known {
                let common = merged.names.number(name);
                merged.inputs[number].keyspaces.insert(own, common);
            }
            merged.fill(number)?;
        }
        Ok(merged)
    }

    /// Whether the wall clocks of all traces are known.
    #[must_use]
    pub fn is_aligned(&self) -> bool {
        self.is_aligned
    }

    /// The header of the merged trace. Names that it has are not given by
    /// [`new_names`](Self::new_names).
    pub fn header(&mut self) -> Header {
        let headers = || self.inputs.iter().map(|one| one.ordered.reader().header());
        let clock = headers().map(|one| one.wall_clock_millis).min();
        let sources: Vec<&str> = headers().map(|one| &one.source[..]).collect();
        let mut header = Header {
            one_in: headers().map(|one| one.one_in).next().unwrap_or(1),
            wall_clock_millis: clock.filter(|_| self.is_aligned).unwrap_or(0),
            has_hashes: headers().all(|one| one.has_hashes),
            has_values: headers().all(|one| one.has_values),
            without_ends: headers().any(|one| one.without_ends),
            times: headers().map(|one| one.times).max().unwrap_or_default(),
            source: format!("{} traces: {}", sources.len(), sources.join("; ")),
            keyspaces: BTreeMap::new(),
        };
        header.keyspaces = std::mem::take(&mut self.names.new);
        header
    }

    /// Names of keyspaces that came since the last call.
    pub fn new_names(&mut self) -> BTreeMap<u32, String> {
        std::mem::take(&mut self.names.new)
    }

    /// Operations that came too late to be put in order.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.inputs.iter().map(|one| one.ordered.late()).sum()
    }

    /// What was lost of each trace, and what its recorder left out: when the file was full, and
    /// because operations came too fast.
    pub fn losses(&self) -> impl Iterator<Item = (Losses, (u64, u64))> {
        self.inputs.iter().map(|one| {
            let reader = one.ordered.reader();
            let dropped = reader
                .end()
                .map(|end| (end.dropped_full, end.dropped_behind));
            (reader.losses(), dropped.unwrap_or_default())
        })
    }

    /// Reads the next operation of a trace, and gives it its place in the merged one.
    fn fill(&mut self, number: usize) -> Result<()> {
        let count = self.inputs.len() as u64;
        let shard = &mut self.inputs[number];
        let Some(operation) = shard.ordered.next() else {
            shard.next = None;
            return Ok(());
        };
        let mut operation = operation?;
        operation.start_nanos = operation.start_nanos.saturating_add(shard.shift_nanos);
        if operation.group != 0 {
            let group = operation.group.wrapping_mul(count);
            operation.group = group.wrapping_add(number as u64).max(1);
        }
        let next_thread = self.threads.len() as u32;
        let thread = (number, operation.thread);
        operation.thread = *self.threads.entry(thread).or_insert(next_thread);
        if has_keyspace(operation.kind) {
            let own = operation.keyspace;
            operation.keyspace = match shard.keyspaces.get(&own) {
                Some(common) => *common,
                None => {
                    let name = shard.ordered.reader().keyspaces().get(&own).cloned();
                    let name = name.unwrap_or_else(|| format!("#{own} of trace {}", number + 1));
                    let common = self.names.number(name);
                    shard.keyspaces.insert(own, common);
                    common
                }
            };
        }
        shard.next = Some(operation);
        Ok(())
    }
}

impl<R: Read> Iterator for Merged<R> {
    type Item = Result<Operation>;

    fn next(&mut self) -> Option<Result<Operation>> {
        let waiting = self.inputs.iter().enumerate();
        let waiting =
            waiting.filter_map(|(number, one)| Some((one.next.as_ref()?.start_nanos, number)));
        let (_, number) = waiting.min()?;
        let operation = self.inputs[number].next.take()?;
        match self.fill(number) {
            Ok(()) => Some(Ok(operation)),
            Err(error) => Some(Err(error)),
        }
    }
}

/// Whether the keyspace of such an operation has a meaning.
fn has_keyspace(kind: Kind) -> bool {
    use Kind::{Abort, BatchCommit, Begin, Commit, Other};
    !matches!(kind, BatchCommit | Begin | Commit | Abort | Other)
}

#[cfg(test)]
mod tests {
    use super::Merged;
    use crate::{Header, Kind, Operation, Reader, Writer};

    fn trace(header: &Header, operations: &[(u64, u32, u64, &str)]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), header).unwrap();
        for (nanos, keyspace, group, key) in operations {
            let mut operation = Operation::new(Kind::Put, *key);
            operation.start_nanos = *nanos;
            (operation.keyspace, operation.group) = (*keyspace, *group);
            writer.add(&operation).unwrap();
        }
        writer.finish().unwrap().0
    }

    fn header(millis: u64, names: &[(u32, &str)]) -> Header {
        Header {
            one_in: 1,
            wall_clock_millis: millis,
            keyspaces: names
                .iter()
                .map(|(number, name)| (*number, (*name).to_owned()))
                .collect(),
            source: "a shard".to_owned(),
            ..Header::default()
        }
    }

    fn merged(traces: &[Vec<u8>]) -> Merged<&[u8]> {
        let readers = traces.iter().map(|one| Reader::new(&one[..]).unwrap());
        Merged::new(readers.collect(), 1 << 20).unwrap()
    }

    #[test]
    fn shards_come_in_the_order_of_their_wall_clocks() {
        let one = trace(
            &header(5000, &[(0, "default"), (1, "users")]),
            &[(0, 0, 1, "a"), (3_000_000, 1, 1, "d")],
        );
        let other = trace(
            &header(5001, &[(0, "users"), (1, "edges")]),
            &[
                (0, 0, 1, "b"),
                (1_000_000, 1, 0, "c"),
                (4_000_000, 9, 0, "e"),
            ],
        );
        let traces = [one, other];
        let mut merged = merged(&traces);
        assert!(merged.is_aligned());
        let header = merged.header();
        assert_eq!(header.wall_clock_millis, 5000);
        let names: Vec<_> = header.keyspaces.values().map(String::as_str).collect();
        assert_eq!(names, ["default", "users", "edges"]);
        let all: Vec<_> = merged.by_ref().map(|one| one.unwrap()).collect();
        let keys: Vec<_> = all
            .iter()
            .map(|one| String::from_utf8_lossy(&one.key))
            .collect();
        assert_eq!(keys, ["a", "b", "c", "d", "e"]);
        let keyspaces: Vec<_> = all.iter().map(|one| one.keyspace).collect();
        assert_eq!(keyspaces, [0, 1, 2, 1, 3]);
        assert_eq!(
            merged.new_names().into_values().collect::<Vec<_>>(),
            ["#9 of trace 2"]
        );
        let times: Vec<_> = all.iter().map(|one| one.start_nanos / 1_000_000).collect();
        assert_eq!(times, [0, 1, 2, 3, 5]);
        // One group of each trace: they stay two. So do the threads.
        let groups: Vec<_> = all.iter().map(|one| one.group).collect();
        assert_eq!(groups, [2, 3, 0, 2, 0]);
        let threads: Vec<_> = all.iter().map(|one| one.thread).collect();
        assert_eq!(threads, [0, 1, 1, 0, 1]);
    }

    #[test]
    fn without_a_wall_clock_all_begin_at_once_and_samples_must_be_alike() {
        let one = trace(&header(0, &[]), &[(5, 0, 0, "a")]);
        let other = trace(&header(7000, &[]), &[(4, 0, 0, "b")]);
        let traces = [one.clone(), other];
        let both = merged(&traces);
        assert!(!both.is_aligned());
        let keys: Vec<_> = both.map(|one| one.unwrap().key).collect();
        assert_eq!(keys, [b"b", b"a"]);
        let sample = Header {
            one_in: 100,
            ..header(0, &[])
        };
        let sample = trace(&sample, &[(1, 0, 0, "c")]);
        let readers = [&one, &sample].map(|one| Reader::new(&one[..]).unwrap());
        let error = Merged::new(readers.into(), 1 << 20)
            .map(|_| ())
            .unwrap_err();
        assert!(error.to_string().contains("different shares"), "{error}");
    }
}

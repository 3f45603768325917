//! A model's operations as a trace, without a store: any number of them, in little time.
//!
//! ```text
//!   ModelWorker: keyspace, kind, pair, size, length --+--> Writer --> file
//!   Timetable:   when it starts ----------------------+      ^
//!   Written:     what a read finds --------------------------+
//! ```
//! Results are those of a correct store: for a get, the size of the pair's last value; for a scan,
//! the number of pairs. Latencies and threads, which a store would add, are not there. The same
//! seed gives the same bytes. Operations carry the numbers of their keyspaces, whose names are in
//! the header.
//!
//! One thread. Memory: about 16 bytes for each pair that was written.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use evendb_model::model::{COUNTER_BYTES, Rate};
use evendb_trace::{Call, EndNote, Header, Outcome, Writer};

use super::{Family, Kind, Load, ModelWorker};
use crate::random::Random;

/// When drawn operations start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timetable {
    /// As a Poisson process with a rate that swings.
    Swing(Rate),
    /// In order, with this number of operations a second.
    Even(f64),
}

/// Draws `operations` of a load, and writes them as a trace to `to`.
///
/// # Errors
/// The writer's.
pub fn write(
    load: &Arc<Load>,
    operations: u64,
    timetable: Timetable,
    to: impl Write,
) -> evendb_trace::Result<EndNote> {
    write_with(load, operations, timetable, false, to)
}

/// As [`write()`], with puts of all pairs first, in the order in which a store is filled: so the
/// trace has what scans find.
///
/// # Errors
/// The writer's.
pub fn write_loaded(
    load: &Arc<Load>,
    operations: u64,
    timetable: Timetable,
    to: impl Write,
) -> evendb_trace::Result<EndNote> {
    write_with(load, operations, timetable, true, to)
}

fn write_with(
    load: &Arc<Load>,
    operations: u64,
    timetable: Timetable,
    loads: bool,
    to: impl Write,
) -> evendb_trace::Result<EndNote> {
    let header = Header {
        one_in: 1,
        source: source(load),
        keyspaces: load.keyspaces(),
        ..Header::default()
    };
    let mut writer = Writer::new(to, &header)?;
    let mut draw = Draw {
        worker: ModelWorker::new(load, 0, 0),
        written: Written::default(),
        load,
        key: Vec::new(),
    };
    let loaded_nanos = match loads {
        true => draw.load(&mut writer)?,
        false => 0,
    };
    let mut starts = Starts::new(timetable, load.seed);
    for _ in 0..operations {
        draw.one(&mut writer, loaded_nanos + starts.next_nanos())?;
    }
    Ok(writer.finish()?.1)
}

/// The origin of a trace in its header.
#[must_use]
pub fn source(load: &Load) -> String {
    let (name, pairs) = (&load.workload.name, load.pairs());
    let keyspaces = match load.families.len() {
        1 => String::new(),
        several => format!(" in {several} keyspaces"),
    };
    format!("evendb mixgraph {name}, {pairs} pairs{keyspaces}")
}

struct Draw<'l> {
    load: &'l Load,
    worker: ModelWorker,
    written: Written,
    key: Vec<u8>,
}

/// Nanoseconds between two puts of a load.
const LOAD_NANOS: u64 = 1000;

impl Draw<'_> {
    /// Puts all pairs. Returns when that ends.
    fn load<W: Write>(&mut self, to: &mut Writer<W>) -> evendb_trace::Result<u64> {
        let order = self.load.fill_order();
        for number in 0..self.load.pairs() {
            let (keyspace, pair) = self.load.pair_at(order.apply(number));
            let family = &self.load.families[keyspace];
            family.records.write_key_in_keyspace(pair, &mut self.key);
            let mut call = Call::new(evendb_trace::Kind::Put, keyspace as u32, &self.key);
            call.outcome = Outcome::Done;
            call.value_len = self.written.value_bytes(family, pair);
            to.add_call(&call, 0, number * LOAD_NANOS, None)?;
        }
        Ok(self.load.pairs() * LOAD_NANOS)
    }

    fn one<W: Write>(&mut self, to: &mut Writer<W>, start: u64) -> evendb_trace::Result<()> {
        let keyspace = self.worker.next_keyspace();
        let kind = self.worker.next_kind();
        let pair = self.worker.next_pair(kind);
        let family = &self.load.families[keyspace];
        let record = family.records.number(pair);
        family.records.write_key_in_keyspace(pair, &mut self.key);
        let mut call = Call::new(traced(kind), keyspace as u32, &self.key);
        call.outcome = Outcome::Done;
        match kind {
            Kind::Get => {
                let found = self.written.value_bytes(family, pair);
                call.outcome = found.map_or(Outcome::Absent, |bytes| Outcome::Present {
                    len: Some(bytes),
                    hash: None,
                });
            }
            Kind::Put => {
                let (bytes, _) = self.worker.next_value(pair);
                call.value_len = Some(bytes);
                self.written.0.insert(record, Some(bytes as u32));
            }
            Kind::Delete => {
                self.written.0.insert(record, None);
            }
            Kind::Merge => {
                call.value_len = Some(COUNTER_BYTES);
                // It makes a counter of a deleted pair.
                let bytes = Some(COUNTER_BYTES as u32);
                self.written
                    .0
                    .entry(record)
                    .or_insert(bytes)
                    .get_or_insert(COUNTER_BYTES as u32);
            }
            Kind::Scan => {
                let length = self.worker.next_length();
                call.limit = Some(length);
                call.count = Some(self.written.pairs_from(family, pair, length));
            }
        }
        to.add_call(&call, 0, start, None)
    }
}

fn traced(kind: Kind) -> evendb_trace::Kind {
    match kind {
        Kind::Get => evendb_trace::Kind::Get,
        Kind::Put => evendb_trace::Kind::Put,
        Kind::Delete => evendb_trace::Kind::Delete,
        Kind::Merge => evendb_trace::Kind::Merge,
        Kind::Scan => evendb_trace::Kind::Scan,
    }
}

/// The sizes of values that were written since the beginning, by the number of the record. `None`
/// for pairs that were deleted.
#[derive(Default)]
struct Written(HashMap<u64, Option<u32>>);

impl Written {
    fn value_bytes(&self, family: &Family, pair: u64) -> Option<u64> {
        match self.0.get(&family.records.number(pair)) {
            Some(bytes) => bytes.map(u64::from),
            None if family.model.counts() => Some(COUNTER_BYTES),
            None => Some(family.records.value_bytes(pair, 0)),
        }
    }

    /// The number of pairs that a scan finds.
    fn pairs_from(&self, family: &Family, start: u64, length: u64) -> u64 {
        let pairs = family.model.pairs;
        if family.model.mix.delete == 0.0 {
            return length.min(pairs - start);
        }
        let records = &family.records;
        let is_there = |pair: &u64| {
            let written = self.0.get(&records.number(*pair));
            written.is_none_or(Option::is_some)
        };
        (start..pairs)
            .filter(is_there)
            .take(length as usize)
            .count() as u64
    }
}

/// The starts of operations, in order.
pub(crate) struct Starts {
    timetable: Timetable,
    random: Random,
    seconds: f64,
    number: u64,
}

impl Starts {
    /// The starts of this timetable. The same seed gives the same starts.
    pub(crate) fn new(timetable: Timetable, seed: u64) -> Self {
        Self {
            timetable,
            random: Random::new(seed ^ 0x7374_6172_7473, 0),
            seconds: 0.0,
            number: 0,
        }
    }

    fn next_nanos(&mut self) -> u64 {
        (self.next_seconds() * 1e9) as u64
    }

    /// The next start, in seconds since the first operation may start.
    pub(crate) fn next_seconds(&mut self) -> f64 {
        match self.timetable {
            Timetable::Swing(rate) => {
                // The rate is that at the beginning of the gap: a gap is far shorter than a swing.
                let gap = -(1.0 - self.random.unit()).ln();
                self.seconds += gap / rate.at(self.seconds);
            }
            Timetable::Even(per_second) => self.seconds = self.number as f64 / per_second,
        }
        self.number += 1;
        self.seconds
    }
}

#[cfg(test)]
mod tests;

//! [`InOrder`]: the operations of a trace in the order in which they began, in bounded memory.
//!
//! Operations of several threads interleave in the file by buffers, and a scan is recorded when it
//! ends. So operations wait in a heap. When the heap is full, the operation that began first leaves
//! it. An operation that comes too late for that is given at once, and counted ([`InOrder::late`]):
//! times of a trace may also go back. If operations began at the same time, the one that is first
//! in the file comes first.

use crate::error::Result;
use crate::operation::Operation;
use crate::reader::Reader;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Read;

/// The bytes that an operation in the heap costs beside its own.
const OVERHEAD: usize = size_of::<Waiting>() + 32;

/// See the module.
pub struct InOrder<R> {
    reader: Reader<R>,
    heap: BinaryHeap<Reverse<Waiting>>,
    heap_bytes: usize,
    heap_bytes_max: usize,
    arrived: u64,
    last_given: u64,
    late: u64,
    ended: bool,
}

struct Waiting {
    order: (u64, u64),
    operation: Operation,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order.cmp(&other.order)
    }
}

fn bytes_of(operation: &Operation) -> usize {
    let optional = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
    OVERHEAD + operation.key.len() + optional(&operation.end_key) + optional(&operation.value)
}

impl<R: Read> InOrder<R> {
    /// Orders the operations of `reader`, with this number of bytes of memory. 64 MiB hold some
    /// hundred thousand operations.
    pub fn new(reader: Reader<R>, heap_bytes_max: usize) -> InOrder<R> {
        InOrder {
            reader,
            heap: BinaryHeap::new(),
            heap_bytes: 0,
            heap_bytes_max,
            arrived: 0,
            last_given: 0,
            late: 0,
            ended: false,
        }
    }

    /// The reader behind it, for names and losses.
    pub fn reader(&self) -> &Reader<R> {
        &self.reader
    }

    /// Operations that were given after one that began later.
    pub fn late(&self) -> u64 {
        self.late
    }

    fn fill(&mut self) -> Result<()> {
        // There is always room for one operation.
        while !self.ended && (self.heap.is_empty() || self.heap_bytes < self.heap_bytes_max) {
            let Some(operation) = self.reader.next()? else {
                self.ended = true;
                break;
            };
            self.heap_bytes += bytes_of(operation);
            let operation = operation.clone();
            let order = (operation.start_nanos, self.arrived);
            self.heap.push(Reverse(Waiting { order, operation }));
            self.arrived += 1;
        }
        Ok(())
    }
}

impl<R: Read> Iterator for InOrder<R> {
    type Item = Result<Operation>;

    fn next(&mut self) -> Option<Result<Operation>> {
        if let Err(error) = self.fill() {
            self.ended = true;
            return Some(Err(error));
        }
        let Reverse(first) = self.heap.pop()?;
        self.heap_bytes -= bytes_of(&first.operation);
        let start = first.operation.start_nanos;
        match start < self.last_given {
            true => self.late += 1,
            false => self.last_given = start,
        }
        Some(Ok(first.operation))
    }
}

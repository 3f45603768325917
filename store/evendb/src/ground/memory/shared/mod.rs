//! One budget for many databases of a process: memory, threads and open tables that they share.
//!
//! ```text
//!   SharedBudget (cloned, held by the program and by each open database)
//!     bytes = | reserve | part of 1 | part of 2 | part of 3 | ... | free |
//!                         '- least: what it has, and a little for puts
//!     round of a database:  Member::report   what it holds, can use, and how much it is used
//!                           the first round that finds a division due divides   (division.rs)
//!                           Member::part     read by its memory policy, as another its budget
//!     databases that hold more than their part and rest are woken, and come down to it
//! ```
//! **A part** moves with demand. Every database has a least part: [`BASE_BYTES`] for itself, its
//! metadata, and [`DELTAS_MIN`] for puts. The rest of the budget goes to the databases by how much
//! they were used lately (a sum of operations that halves in [`HALF_LIFE`]), and to none more than
//! it can use: all its data in RAM, and twice the deltas that it had lately. So an idle database
//! keeps its caches as long as nobody else can use them; then they go, down to the least part. No
//! thread is there for it: whichever database makes a round divides, at most once in
//! [`DIVIDED_EVERY`].
//!
//! **What does not move.** Sizes that are fixed while a database is open (its largest chunk, its
//! commit log, its largest batch, the most bytes of its deltas) follow from the budget divided by
//! the number of databases that the program expects: [`SharedOptions::databases`]. A database is
//! made and opened as one of [`Shared::sizes_budget`] of its own is. Its commit log is written by
//! system calls, unless the program wants it mapped: so no part has to hold it.
//!
//! **No cache is shared.** Each database has rows, spans and tables of its own, so the number of a
//! file or a chunk of one is never taken for that of another.
//!
//! Invariants
//! * The parts, or what databases still hold above their parts, are together at most the budget
//!   without the reserve. There are two exceptions. A database that has just been opened has its
//!   least part at once, and the others give it back in their next rounds; the reserve covers it.
//!   And where the least parts with the metadata are more than the budget, each has its least.
//! * A part is written under the table's lock alone. It falls at once, and rises only by bytes that
//!   nobody holds.
//! * No call of a database waits for another database here. What a database does with its part is
//!   its own: a failure or a full disk of one does not touch the others.
//!
//! Thread safety: any thread. A report is a few relaxed stores, the reading of a part is one
//! relaxed load, and neither is on the way of a get or a put. The table's lock is a leaf, except
//! that databases are woken after it was given back. Not here: the memory that a use takes inside
//! of a part ([`crate::memory_policy`]); threads (`crew.rs`).

mod crew;
#[cfg(all(test, evendb_loom))]
mod crew_models;
mod division;
mod options;

pub(crate) use crew::{Next, Turn};
pub use options::SharedOptions;

use crate::error::{Error, ErrorKind, Result};
use crate::memory::heap::HeapTrim;
use crate::memory::slab;
use crate::sync::{Arc, Mutex, OnceLock};
use crew::Crew;
use division::{Having, Wish, divide, move_to};
use std::collections::BTreeMap;
// Not the seam's atomics: these order no other data, so the models need not step through them.
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{io, process};

/// Bytes of an open database that are counted nowhere else: handles, counters, buffers of files,
/// the row cache's tables, and a part of a stack.
pub(crate) const BASE_BYTES: u64 = 96 << 10;
/// The least bytes of deltas that a database may have.
pub(crate) const DELTAS_MIN: u64 = 64 << 10;
/// The least part.
pub(crate) const PART_MIN: u64 = BASE_BYTES + DELTAS_MIN;
/// The least time between two divisions.
const DIVIDED_EVERY: Duration = Duration::from_millis(50);
/// The time in which past use comes to count half.
const HALF_LIFE: Duration = Duration::from_secs(5);
/// The weight of a database that was not used: others take nearly everything that they want first.
const WEIGHT_MIN: f64 = 0.01;
/// The least budget by which the sizes of a database are chosen.
const SIZES_MIN: u64 = 1 << 20;

/// One budget that any number of databases of a process keep together: of memory and of open
/// tables. It is cheap to clone, and lives as long as the last clone or database.
///
/// Memory goes to the databases that use it: see `docs/embedding.md`, "Many databases".
///
/// ```
/// use evendb::SharedBudget;
///
/// # let dir = tempfile::tempdir().unwrap();
/// let shared = SharedBudget::new(64 << 20)?;
/// let databases: Vec<evendb::Db> = (0..10)
///     .map(|number| shared.options().open(dir.path().join(number.to_string())))
///     .collect::<evendb::Result<_>>()?;
/// databases[3].put("key", "value")?;
/// assert!(shared.stats().parts <= shared.stats().budget);
/// # Ok::<(), evendb::Error>(())
/// ```
#[derive(Clone)]
pub struct SharedBudget(Arc<Shared>);

/// What the databases of a [`SharedBudget`] have at a moment, in bytes where nothing else is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct SharedStats {
    /// The budget.
    pub budget: u64,
    /// The number of open databases.
    pub databases: u64,
    /// The parts that the databases may have now. The rest is kept for what is not counted, or is
    /// free.
    pub parts: u64,
    /// What the databases have, as each counted in its last round. Each counts 96 KiB for what it
    /// does not count one by one.
    pub held: u64,
    /// The number of open tables that are files.
    pub open_files: u64,
    /// The number of threads that do the databases' background work.
    pub threads: u64,
}

impl SharedBudget {
    /// A budget of this number of bytes, with defaults for the rest: [`SharedOptions`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for less than 1 MiB or more than 16 TiB.
    pub fn new(bytes: u64) -> Result<SharedBudget> {
        SharedOptions::new(bytes).make()
    }

    fn of(numbers: Numbers) -> SharedBudget {
        SharedBudget(Arc::new(Shared {
            process: process::id(),
            crew: Arc::new(Crew::new(numbers.threads)),
            numbers,
            files: AtomicI64::new(0),
            count: AtomicU64::new(0),
            table: Mutex::default(),
            heap: Mutex::new(HeapTrim::new()),
        }))
    }

    /// What the databases have now; all 0 in a forked child of the process that made the budget.
    pub fn stats(&self) -> SharedStats {
        if self.0.is_strange() {
            return SharedStats::default();
        }
        let table = self.0.table.lock();
        let sum = |of: fn(&Member) -> u64| table.seats.values().map(|seat| of(&seat.member)).sum();
        SharedStats {
            budget: self.0.numbers.bytes,
            databases: table.seats.len() as u64,
            parts: sum(Member::part),
            held: sum(|member| member.held.load(Ordering::Relaxed)),
            open_files: self.0.files.load(Ordering::Relaxed).max(0) as u64,
            threads: self.0.crew.threads() as u64,
        }
    }

    /// See [`Shared::sizes_budget`].
    pub(crate) fn sizes_budget(&self) -> u64 {
        self.0.sizes_budget()
    }

    /// The number of open tables of all databases together.
    pub(crate) fn open_files_max(&self) -> u64 {
        self.0.numbers.open_files_max
    }

    /// Makes room for one more database. Those that give room back for it do so in their next
    /// rounds.
    pub(crate) fn join(&self) -> Result<Membership> {
        if self.0.is_strange() {
            let message = "this process was forked from the one that made the shared budget; make \
                           another budget here";
            return Err(Error::new(ErrorKind::Forked, message));
        }
        let mut table = self.0.table.lock();
        let most = self.0.for_parts(0) / PART_MIN;
        if table.seats.len() as u64 >= most {
            let message = format!(
                "a shared budget of {} bytes has room for {most} databases, and they are open; \
                 make it larger, or close some of them",
                self.0.numbers.bytes
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let id = table.next;
        table.next += 1;
        let member = Arc::new(Member {
            id,
            shared: self.0.clone(),
            part: AtomicU64::new(PART_MIN),
            held: AtomicU64::new(BASE_BYTES),
            least: AtomicU64::new(PART_MIN),
            want: AtomicU64::new(PART_MIN),
            operations: AtomicU64::new(0),
            files: AtomicI64::new(0),
            wake: OnceLock::new(),
        });
        table.seats.insert(id, Seat::new(member.clone()));
        self.0.count.fetch_add(1, Ordering::Relaxed);
        drop(table);
        Ok(Membership { member })
    }
}

impl std::fmt::Debug for SharedBudget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedBudget({} bytes)", self.0.numbers.bytes)
    }
}

/// The numbers by which a budget is made.
struct Numbers {
    bytes: u64,
    /// The bytes of them that are never given to a part.
    reserve: u64,
    /// See [`SharedOptions::databases`].
    databases: u64,
    threads: usize,
    open_files_max: u64,
}

/// What the databases share.
struct Shared {
    /// The process that made it: a forked child has no thread of it, and its locks may be held.
    process: u32,
    numbers: Numbers,
    crew: Arc<Crew>,
    /// Open tables that are files.
    files: AtomicI64,
    /// The number of databases.
    count: AtomicU64,
    table: Mutex<Table>,
    heap: Mutex<HeapTrim>,
}

/// The databases by the number that each got.
#[derive(Default)]
struct Table {
    seats: BTreeMap<u64, Seat>,
    next: u64,
    divided: Option<Instant>,
}

/// A database, and what the table remembers of it.
struct Seat {
    member: Arc<Member>,
    /// Operations lately, and all operations at the last division.
    rate: f64,
    operations: u64,
    /// What it held when it was last woken, if its part has not changed since.
    woken: Option<u64>,
}

impl Seat {
    fn new(member: Arc<Member>) -> Seat {
        Seat {
            member,
            rate: 0.0,
            operations: 0,
            woken: None,
        }
    }

    /// What it wishes, `left` of its past use counting still.
    fn wish(&mut self, left: f64) -> Wish {
        let member = &self.member;
        let operations = member.operations.load(Ordering::Relaxed);
        let came = operations.saturating_sub(self.operations);
        self.operations = operations;
        self.rate = self.rate * left + came as f64;
        Wish {
            least: member.least.load(Ordering::Relaxed),
            want: member.want.load(Ordering::Relaxed),
            weight: self.rate + WEIGHT_MIN,
        }
    }

    /// Gives it a new part. Returns whether it should be woken: it holds more than that, and has
    /// given some of it back since it was woken last, or its part has fallen since.
    fn set(&mut self, part: u64, files_max: u64) -> bool {
        let before = self.member.part.swap(part, Ordering::Relaxed);
        if part < before {
            self.woken = None;
        }
        let held = self.member.held.load(Ordering::Relaxed);
        let files = self.member.files.load(Ordering::Relaxed).max(0) as u64;
        let is_above = held > part || files > files_max;
        if !is_above {
            self.woken = None;
            return false;
        }
        let wakes = self.woken.is_none_or(|woken| held < woken);
        self.woken = Some(held);
        wakes
    }
}

impl Shared {
    fn is_strange(&self) -> bool {
        self.process != process::id()
    }

    /// The budget by which the sizes of each database are chosen.
    fn sizes_budget(&self) -> u64 {
        (self.numbers.bytes / self.numbers.databases).max(SIZES_MIN)
    }

    /// The bytes that parts may have, while slabs have these bytes of holes: at least half of what
    /// they have without holes, because databases outside of the budget leave holes, too.
    fn for_parts(&self, holes: u64) -> u64 {
        let most = self.numbers.bytes - self.numbers.reserve;
        let holes = holes.saturating_sub(self.numbers.reserve / 2);
        most.saturating_sub(holes).max(most / 2)
    }

    /// Divides the budget if it is time and no other thread does it.
    fn divide_if_due(&self) {
        let Some(mut table) = self.table.try_lock() else {
            return;
        };
        let now = Instant::now();
        let since = table
            .divided
            .map(|last| now.saturating_duration_since(last));
        if since.is_some_and(|since| since < DIVIDED_EVERY) {
            return;
        }
        table.divided = Some(now);
        let halves = since.unwrap_or_default().as_secs_f64() / HALF_LIFE.as_secs_f64();
        let left = 0.5f64.powf(halves);
        // Without what databases outside of the budget keep for themselves.
        let holes = slab::slack_bytes().saturating_sub(slab::kept_warm_bytes());
        let bytes = self.for_parts(holes);
        let (mut wishes, mut havings) = (Vec::new(), Vec::new());
        for seat in table.seats.values_mut() {
            wishes.push(seat.wish(left));
            havings.push(Having {
                part: seat.member.part(),
                held: seat.member.held.load(Ordering::Relaxed),
            });
        }
        let parts = move_to(&divide(&wishes, bytes), &havings, bytes);
        let files_max = match self.are_files_over() {
            true => self.files_share(),
            false => u64::MAX,
        };
        let mut above = Vec::new();
        for (seat, part) in table.seats.values_mut().zip(parts) {
            if seat.set(part, files_max) {
                above.push(seat.member.clone());
            }
        }
        drop(table);
        for member in above {
            if let Some(wake) = member.wake.get() {
                wake();
            }
        }
    }

    /// Whether all databases together have too many tables open.
    fn are_files_over(&self) -> bool {
        self.files.load(Ordering::Relaxed).max(0) as u64 > self.numbers.open_files_max
    }

    /// The number of open tables that each database may have where all have too many.
    fn files_share(&self) -> u64 {
        (self.numbers.open_files_max / self.count.load(Ordering::Relaxed).max(1)).max(1)
    }
}

/// The place of an open database in a shared budget; dropping it gives its part back.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) member: Arc<Member>,
}

impl Drop for Membership {
    fn drop(&mut self) {
        let shared = &self.member.shared;
        if shared.is_strange() {
            return;
        }
        shared.table.lock().seats.remove(&self.member.id);
        shared.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a database tells in a round, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    /// What it has, without [`BASE_BYTES`].
    pub(crate) held: u64,
    /// What it has of that in any case: metadata.
    pub(crate) fixed: u64,
    /// What it could use, besides the least part and what is fixed.
    pub(crate) want: u64,
    /// The number of its operations so far.
    pub(crate) operations: u64,
}

/// A database of a shared budget.
pub(crate) struct Member {
    /// Its number among the databases of the budget.
    id: u64,
    shared: Arc<Shared>,
    part: AtomicU64,
    held: AtomicU64,
    least: AtomicU64,
    want: AtomicU64,
    operations: AtomicU64,
    /// Open tables that are files.
    files: AtomicI64,
    /// Wakes the database's upkeep.
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Member {
    /// The bytes that the database may have now.
    pub(crate) fn part(&self) -> u64 {
        self.part.load(Ordering::Relaxed)
    }

    /// Sets how its upkeep is woken. Called once.
    pub(crate) fn set_wake(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
    }

    /// Notes a round of the database, and divides the budget anew if that is due.
    pub(crate) fn report(&self, report: Report) {
        let least = PART_MIN + report.fixed;
        self.held.store(BASE_BYTES + report.held, Ordering::Relaxed);
        self.least.store(least, Ordering::Relaxed);
        self.want
            .store(least.saturating_add(report.want), Ordering::Relaxed);
        self.operations.store(report.operations, Ordering::Relaxed);
        self.shared.divide_if_due();
    }

    /// Adds work for the threads that all databases share, due now. `is_job` says that a turn may
    /// take long.
    pub(crate) fn add_turns(&self, role: u8, is_job: bool, turn: Turn) -> io::Result<()> {
        self.shared.crew.add((self.id, role), is_job, turn)
    }

    /// Makes the next turn of a role due at once, or that of all roles.
    pub(crate) fn hasten(&self, role: Option<u8>) {
        self.shared.crew.hasten(self.id, role);
    }

    /// Returns when the work of this database has ended, which has been told to.
    pub(crate) fn end_turns(&self) {
        self.shared.crew.end(self.id);
    }

    /// Bytes of slabs that may be resident without use: for all databases of the budget together,
    /// and those that databases outside of it keep.
    pub(crate) fn slack(&self) -> u64 {
        self.shared.numbers.reserve / 2 + slab::kept_warm_bytes()
    }

    /// Gives back free memory of the heap, if it is time and no other database does.
    pub(crate) fn tend_heap(&self) {
        if let Some(mut heap) = self.shared.heap.try_lock() {
            heap.tend(self.shared.numbers.bytes);
        }
    }

    /// Notes that the database has this number of open tables more that are files.
    pub(crate) fn count_files(&self, more: i64) {
        self.files.fetch_add(more, Ordering::Relaxed);
        self.shared.files.fetch_add(more, Ordering::Relaxed);
    }

    /// Whether all databases have too many tables open, and this one more than its share, with
    /// `files` of them.
    pub(crate) fn has_too_many_files(&self, files: u64) -> bool {
        self.shared.are_files_over() && files > self.shared.files_share()
    }
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Member(part of {} bytes)", self.part())
    }
}

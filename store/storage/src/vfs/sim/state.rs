//! The whole state of one boot of the simulated machine, behind one mutex: contents, names, space,
//! locks, open files, and the counters by which crashes and faults are placed.
//!
//! Each operation that changes something passes [`State::begin`]. It numbers the operation, stops
//! the machine if that was asked for, and applies faults. Only after that is anything changed.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::fault::{CrashMode, FaultKind, FaultOn, Faults, SimEvent, SimEventKind};
use super::hints::Hints;
use super::inode::{Inode, PAGE_BYTES, PowerLoss, SECTOR_BYTES};
use super::names::{InodeId, Names};
use super::rng::Rng;

/// Contents are kept in a flat list of pages, so a stray offset would cost memory, not just fail.
const WRITTEN_BYTES_MAX: u64 = 16 << 30;

#[derive(Debug)]
pub(super) struct State {
    pub(super) names: Names,
    inodes: BTreeMap<InodeId, Arc<Inode>>,
    inode_next: InodeId,
    pub(super) used_pages: u64,
    pub(super) capacity_pages: u64,
    pub(super) links_allowed: bool,
    /// Identifies the boot, if the machine tells it: it stays the same when a process dies, and
    /// changes at a power loss.
    pub(super) boot: Option<u64>,
    rng: Rng,
    pub(super) op_count: u64,
    pub(super) read_count: u64,
    pub(super) read_ahead: Hints,
    pub(super) crash_at: Option<u64>,
    pub(super) halted: bool,
    pub(super) faults: Faults,
    handles: HashMap<InodeId, usize>,
    locks: HashMap<InodeId, Lock>,
    pub(super) trace: Option<Vec<SimEvent>>,
    pub(super) watcher: Option<Watcher>,
}

/// Called for each operation that changes something.
pub(super) struct Watcher(pub(super) Box<dyn Fn(&SimEvent) + Send>);

impl std::fmt::Debug for Watcher {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Watcher")
    }
}

#[derive(Debug)]
enum Lock {
    Exclusive,
    Shared(usize),
}

/// The fate of an operation.
pub(super) enum Verdict {
    Proceed,
    Fail(FaultKind),
    /// The machine stops in the middle of it.
    Halt,
}

pub(super) fn crashed() -> io::Error {
    io::Error::other("crashed")
}

impl State {
    pub(super) fn new(seed: u64) -> State {
        State {
            names: Names::new(),
            inodes: BTreeMap::new(),
            inode_next: 1,
            used_pages: 0,
            capacity_pages: u64::MAX,
            links_allowed: true,
            boot: Some(seed),
            rng: Rng::new(seed),
            op_count: 0,
            read_count: 0,
            read_ahead: Hints::default(),
            crash_at: None,
            halted: false,
            faults: Faults::default(),
            handles: HashMap::new(),
            locks: HashMap::new(),
            trace: None,
            watcher: None,
        }
    }

    /// The same files on a machine without open files, locks, faults or history.
    pub(super) fn image(&self) -> State {
        let mut image = State {
            names: self.names.clone(),
            inodes: self.inodes.clone(),
            inode_next: self.inode_next,
            capacity_pages: self.capacity_pages,
            links_allowed: self.links_allowed,
            boot: self.boot,
            ..State::new(self.rng.clone().next())
        };
        image.sweep();
        image.recount();
        image
    }

    /// The files that the next boot finds.
    pub(super) fn crash_image(&self, mode: CrashMode) -> State {
        let mut image = self.image();
        let mut rng;
        let mut loss = match mode {
            CrashMode::Process => return image,
            CrashMode::PowerLossNothing => {
                image.names.lose_pending();
                PowerLoss::Nothing
            }
            CrashMode::PowerLossAll => {
                image.names.keep_pending();
                PowerLoss::All
            }
            CrashMode::PowerLossRandom(seed) => {
                rng = Rng::new(seed);
                image.names.resolve_random(&mut rng);
                PowerLoss::Random(&mut rng)
            }
        };
        image.boot = image.boot.map(|_| image.new_boot());
        image.sweep();
        for inode in image.inodes.values_mut() {
            Inode::lose_power(inode, &mut loss);
        }
        image.recount();
        image
    }

    /// A name that no earlier boot of this disk had.
    pub(super) fn new_boot(&self) -> u64 {
        // Seeds are small, so boots of machines with other seeds have other names.
        self.boot.unwrap_or(0).wrapping_add(1 << 44)
    }

    /// Numbers a changing operation and decides its fate. Fails if the machine is down already.
    pub(super) fn begin(&mut self, event: SimEvent) -> io::Result<Verdict> {
        if self.halted {
            return Err(crashed());
        }
        if self.crash_at.is_some_and(|op| self.op_count >= op) {
            self.halted = true;
            return Ok(Verdict::Halt);
        }
        let op = self.op_count;
        self.op_count += 1;
        if let Some(Watcher(watch)) = &self.watcher {
            watch(&event);
        }
        let classes: &[FaultOn] = match event.kind {
            SimEventKind::MappedWrite => &[],
            SimEventKind::SyncData => &[FaultOn::Change, FaultOn::Sync],
            SimEventKind::SyncDir => &[FaultOn::Change],
            _ => &[FaultOn::Change, FaultOn::Room],
        };
        if let Some(kind) = self.faults.hit(classes, &event.path) {
            return Ok(Verdict::Fail(kind));
        }
        if let Some(trace) = &mut self.trace {
            trace.push(SimEvent { op, ..event });
        }
        Ok(Verdict::Proceed)
    }

    /// [`State::begin`] for an operation that happens wholly or not at all.
    pub(super) fn begin_whole(&mut self, event: SimEvent) -> io::Result<()> {
        match self.begin(event)? {
            Verdict::Proceed => Ok(()),
            Verdict::Fail(kind) => Err(kind.error()),
            Verdict::Halt => Err(crashed()),
        }
    }

    /// Counts an operation that changes nothing.
    pub(super) fn observe(&mut self, class: FaultOn, path: &Path) -> io::Result<()> {
        if self.halted {
            return Err(crashed());
        }
        if class == FaultOn::Read {
            self.read_count += 1;
        }
        match self.faults.hit(&[class], path) {
            Some(kind) => Err(kind.error()),
            None => Ok(()),
        }
    }

    pub(super) fn note_read(&mut self, id: InodeId, offset: u64, len: u64) {
        self.read_ahead.note_read(id, offset, len);
    }

    pub(super) fn note_asked(&mut self, id: InodeId, offset: u64, len: u64) {
        self.read_ahead.note_asked(id, offset, len);
    }

    pub(super) fn inode(&self, id: InodeId) -> &Inode {
        self.inodes.get(&id).expect("a named or open file exists")
    }

    /// Changes a file and keeps count of the used space. The closure gets the number of free pages.
    pub(super) fn edit<R>(
        &mut self,
        id: InodeId,
        change: impl FnOnce(&mut Inode, u64, &mut Rng) -> R,
    ) -> R {
        let free = self.capacity_pages.saturating_sub(self.used_pages);
        let inode = self
            .inodes
            .get_mut(&id)
            .expect("a named or open file exists");
        let inode = Arc::make_mut(inode);
        let before = inode.allocated_pages;
        let result = change(inode, free, &mut self.rng);
        if inode.links > 0 {
            self.used_pages = self.used_pages + inode.allocated_pages - before;
        }
        result
    }

    /// Gives `path`, which is vacant, to a new file.
    pub(super) fn add_file(&mut self, path: &Path) -> InodeId {
        let id = self.inode_next;
        self.inode_next += 1;
        let mut inode = Inode::default();
        inode.links = 1;
        self.inodes.insert(id, Arc::new(inode));
        self.names.create(path, id);
        id
    }

    /// Gives `path`, which is vacant, to a file that has a name already.
    pub(super) fn link(&mut self, id: InodeId, path: &Path) {
        let inode = self.inodes.get_mut(&id).expect("a named file exists");
        Arc::make_mut(inode).links += 1;
        self.names.create(path, id);
    }

    /// Removes one visible name of a file. With the last one its space comes back.
    pub(super) fn unlink(&mut self, id: InodeId) {
        let inode = self.inodes.get_mut(&id).expect("a named file exists");
        let inode = Arc::make_mut(inode);
        inode.links -= 1;
        if inode.links == 0 {
            self.used_pages -= inode.allocated_pages;
        }
    }

    pub(super) fn write(&mut self, event: SimEvent, id: InodeId, data: &[u8]) -> io::Result<()> {
        let offset = event.offset;
        check_range(offset, data.len() as u64)?;
        let (len, outcome) = match self.begin(event)? {
            Verdict::Proceed => (data.len(), Ok(())),
            Verdict::Fail(FaultKind::ShortWrite) => {
                let len = self.rng.below((data.len() as u64).max(1)) as usize;
                (len, Err(FaultKind::ShortWrite.error()))
            }
            Verdict::Fail(kind) => return Err(kind.error()),
            Verdict::Halt => (self.torn_len(offset, data.len()), Err(crashed())),
        };
        let written = self.edit(id, |inode, pages_free, rng| {
            inode.write(&data[..len], offset, pages_free, rng)
        });
        if written < len {
            return outcome.and(Err(io::ErrorKind::StorageFull.into()));
        }
        outcome
    }

    /// A mapped write cannot fail. In a file that was written as the contract asks, it takes no new
    /// blocks. If it does take some, they are not refused.
    pub(super) fn write_mapped(&mut self, event: SimEvent, id: InodeId, data: &[u8]) {
        let offset = event.offset;
        let len = match self.begin(event) {
            // The process stops between any two bytes of the copy.
            Ok(Verdict::Halt) if self.rng.coin() => self.rng.below(data.len() as u64 + 1) as usize,
            Ok(Verdict::Halt) | Err(_) => return,
            Ok(Verdict::Proceed | Verdict::Fail(_)) => data.len(),
        };
        assert!(
            offset + data.len() as u64 <= self.inode(id).visible_len,
            "a mapped file was shortened"
        );
        self.assert_backed(id, offset, data.len() as u64);
        self.edit(id, |inode, _, rng| {
            inode.write(&data[..len], offset, u64::MAX, rng);
        });
    }

    /// On a full disk, touching a mapped page without a block would be a signal: no such page may
    /// be touched.
    pub(super) fn assert_backed(&self, id: InodeId, offset: u64, len: u64) {
        let backed = self
            .inodes
            .get(&id)
            .is_none_or(|inode| inode.has_blocks(offset, len));
        assert!(
            backed,
            "{len} bytes at {offset} of a mapping have no blocks"
        );
    }

    /// How much of a write is done when the machine stops in it: half of the time nothing,
    /// otherwise some of its sectors from the first one on.
    fn torn_len(&mut self, offset: u64, len: usize) -> usize {
        if self.rng.coin() {
            return 0;
        }
        let first_bytes = SECTOR_BYTES - (offset % SECTOR_BYTES as u64) as usize;
        let sectors = 1 + len.saturating_sub(first_bytes).div_ceil(SECTOR_BYTES);
        match self.rng.below(sectors as u64 + 1) as usize {
            0 => 0,
            whole => len.min(first_bytes + (whole - 1) * SECTOR_BYTES),
        }
    }

    pub(super) fn sync_data(&mut self, event: SimEvent, id: InodeId) -> io::Result<()> {
        match self.begin(event)? {
            Verdict::Proceed => {
                self.edit(id, |inode, _, _| inode.sync());
                Ok(())
            }
            Verdict::Fail(kind) => {
                if matches!(
                    kind,
                    FaultKind::SyncFailsThenClean | FaultKind::SyncFullThenClean
                ) {
                    self.edit(id, |inode, _, _| inode.fail_sync());
                }
                Err(kind.error())
            }
            Verdict::Halt => Err(crashed()),
        }
    }

    pub(super) fn sync_dir(&mut self, dir: &Path) {
        self.names.sync_dir(dir);
        self.sweep();
    }

    /// Replaces a file's contents, visible and durable at once.
    pub(super) fn tamper(&mut self, path: &Path, data: &[u8]) -> io::Result<()> {
        let id = match self.names.find(path) {
            Ok(id) => id,
            Err(_) => {
                self.names.check_vacant(path)?;
                self.add_file(path)
            }
        };
        self.edit(id, |inode, _, rng| {
            let links = inode.links;
            *inode = Inode::default();
            inode.links = links;
            inode.write(data, 0, u64::MAX, rng);
            inode.sync();
        });
        self.names.sync_name(path);
        Ok(())
    }

    pub(super) fn open_handle(&mut self, id: InodeId) {
        *self.handles.entry(id).or_default() += 1;
    }

    pub(super) fn close_handle(&mut self, id: InodeId) {
        let count = self.handles.get_mut(&id).expect("the handle was opened");
        *count -= 1;
        if *count == 0 {
            self.handles.remove(&id);
            if self.inode(id).links == 0 {
                self.sweep();
            }
        }
    }

    pub(super) fn lock(&mut self, id: InodeId, shared: bool) -> io::Result<()> {
        match (self.locks.get_mut(&id), shared) {
            (None, false) => {
                self.locks.insert(id, Lock::Exclusive);
            }
            (None, true) => {
                self.locks.insert(id, Lock::Shared(1));
            }
            (Some(Lock::Shared(owners)), true) => *owners += 1,
            (Some(_), _) => return Err(io::ErrorKind::WouldBlock.into()),
        }
        self.open_handle(id);
        Ok(())
    }

    pub(super) fn is_shared(&self, id: InodeId) -> bool {
        matches!(self.locks.get(&id), Some(Lock::Shared(_)))
    }

    pub(super) fn unlock(&mut self, id: InodeId) {
        match self.locks.get_mut(&id) {
            Some(Lock::Shared(owners)) if *owners > 1 => *owners -= 1,
            _ => {
                self.locks.remove(&id);
            }
        }
        self.close_handle(id);
    }

    /// Forgets files that nothing can lead to any more.
    fn sweep(&mut self) {
        let reachable = self.names.reachable();
        let handles = &self.handles;
        self.inodes
            .retain(|id, _| reachable.contains(id) || handles.contains_key(id));
    }

    fn recount(&mut self) {
        let mut counts: HashMap<InodeId, usize> = HashMap::new();
        for id in self.names.linked() {
            *counts.entry(id).or_default() += 1;
        }
        self.used_pages = 0;
        for (id, inode) in &mut self.inodes {
            let links = counts.get(id).copied().unwrap_or(0);
            if inode.links != links {
                Arc::make_mut(inode).links = links;
            }
            if links > 0 {
                self.used_pages += inode.allocated_pages;
            }
        }
    }

    /// Whether a new file's metadata has room.
    pub(super) fn check_room_for_file(&self) -> io::Result<()> {
        if self.used_pages >= self.capacity_pages {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

pub(super) fn check_range(offset: u64, len: u64) -> io::Result<()> {
    match offset.checked_add(len) {
        Some(end) if end <= WRITTEN_BYTES_MAX => Ok(()),
        Some(_) => Err(io::ErrorKind::FileTooLarge.into()),
        None => Err(io::ErrorKind::InvalidInput.into()),
    }
}

pub(super) fn pages_in(bytes: u64) -> u64 {
    bytes / PAGE_BYTES as u64
}

//! A simulated file system: what is visible kept apart from what is durable, with crashes, faults
//! and a full disk as inputs. Nothing touches the real disk.
//!
//! ```text
//! SimVfs --+                    names.rs   visible and durable names, pending changes
//! SimVfs --+-- World -- State   inode.rs   one file: visible and durable pages, pending sectors
//! files  --+   (mutex)          fault.rs   faults, crash modes, trace events
//!                               state.rs   operation numbers, space, locks; all of it together
//! ```
//!
//! A [`SimVfs`] is a handle on a world: one boot of a machine, or a part of one. Clones and open
//! files share the world. [`SimVfs::crash`] ends the boot and gives the next one,
//! [`SimVfs::fork_state`] copies without ending it. Both take time in proportion to the number of
//! files and pending sectors: pages are shared until they are written.
//!
//! Operations that change state are numbered from 0 in each boot, whether they succeed or not;
//! [`SimVfs::op_count`] is the number of the next. Single-threaded, everything replays from the
//! seed.
//!
//! Not simulated: the space of removed files that are still open (it is free at once), renames of
//! directories, directories that are not durable, and any duration. Removing a directory is durable
//! at once, and with it the removal of its contents.

mod fault;
mod hints;
mod inode;
mod names;
mod rng;
mod state;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

pub use fault::{CrashMode, Fault, FaultKind, FaultOn, SimEvent, SimEventKind};
pub use hints::ReadAheadCounts;

use super::{BLOCK_BYTES, BootId, File, LockGuard, LockHolder, Mapping, Vfs};
use inode::PAGE_BYTES;
use names::InodeId;
use state::{State, Watcher, check_range, pages_in};

/// One boot of a simulated machine with its disk. Clones are the same machine.
#[derive(Debug, Clone)]
pub struct SimVfs {
    world: Arc<World>,
}

struct World(Mutex<State>);

impl std::fmt::Debug for World {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The contents would drown every message that prints an open file.
        let mut output = formatter.debug_struct("World");
        if let Some(state) = self.0.try_lock() {
            output.field("op_count", &state.op_count);
            output.field("halted", &state.halted);
        }
        output.finish_non_exhaustive()
    }
}

fn event(kind: SimEventKind, path: &Path, offset: u64, len: u64) -> SimEvent {
    SimEvent {
        op: 0,
        kind,
        path: path.to_owned(),
        to: None,
        offset,
        len,
    }
}

impl SimVfs {
    /// An empty disk without a size limit; `/` exists. The seed decides how writes are torn and
    /// which earlier versions of sectors may come back.
    pub fn new(seed: u64) -> SimVfs {
        SimVfs::of(State::new(seed))
    }

    fn of(state: State) -> SimVfs {
        SimVfs {
            world: Arc::new(World(Mutex::new(state))),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.world.0.lock()
    }

    /// The number of operations so far that change state: create (also of a lock file), write,
    /// mapped write, sync of file or directory, rename, remove, set length, preallocate, punch
    /// hole.
    pub fn op_count(&self) -> u64 {
        self.state().op_count
    }

    /// The number of reads of file contents so far.
    pub fn read_count(&self) -> u64 {
        self.state().read_count
    }

    /// Bytes that were read; the part of them that [`File::will_need`] had asked for; and all bytes
    /// that it asked for.
    pub fn read_ahead(&self) -> ReadAheadCounts {
        self.state().read_ahead.counts
    }

    /// Stops the machine when operation number `op` is reached, so that exactly `op` operations
    /// happen. That operation and all later ones fail with "crashed". Of a write a first part may
    /// still happen: whole sectors, and any number of bytes of a mapped write.
    pub fn set_crash_at(&self, op: u64) {
        self.state().crash_at = Some(op);
    }

    /// Whether the machine has stopped.
    pub fn crashed(&self) -> bool {
        self.state().halted
    }

    /// Stops this machine if it still runs, and boots the next on what `mode` leaves of the disk.
    /// Can be called again with other modes: the state at the crash stays.
    pub fn crash(&self, mode: CrashMode) -> SimVfs {
        let mut state = self.state();
        state.halted = true;
        SimVfs::of(state.crash_image(mode))
    }

    /// A copy of the disk, visible, pending and durable, in a machine of its own without locks,
    /// open files, faults or crash point. Its counters are 0. This machine goes on.
    pub fn fork_state(&self) -> SimVfs {
        SimVfs::of(self.state().image())
    }

    /// Arms a fault. If several faults hit the same operation, the one that was armed first
    /// decides.
    pub fn inject(&self, fault: Fault) {
        self.state().faults.inject(fault);
    }

    /// Disarms all faults.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// Whether a file can have a second name (by default it can). If not, it is as if that name
    /// were on another file system.
    pub fn allow_links(&self, yes: bool) {
        self.state().links_allowed = yes;
    }

    /// Whether the machine tells [`Vfs::boot_id`] (by default it does). The next boot does the
    /// same.
    pub fn tell_boot(&self, yes: bool) {
        let mut state = self.state();
        state.boot = yes.then(|| state.new_boot());
    }

    /// Limits the disk to `bytes`, counted in whole 4 KiB pages.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity_pages = pages_in(bytes);
    }

    /// Bytes of all pages written or preallocated in files that have a name.
    pub fn used_bytes(&self) -> u64 {
        self.state().used_pages * PAGE_BYTES as u64
    }

    /// The names in `dir`, sorted; none if there is no such directory.
    pub fn file_names(&self, dir: &Path) -> Vec<String> {
        let names = self.state().names.list(dir).unwrap_or_default();
        let lossy = names.iter().map(|name| name.to_string_lossy().into_owned());
        let mut sorted: Vec<String> = lossy.collect();
        sorted.sort();
        sorted
    }

    /// The visible contents of a file, counted nowhere. Panics if there is none.
    pub fn read_file(&self, path: &Path) -> Vec<u8> {
        let state = self.state();
        let id = state.names.find(path).expect("the file to read exists");
        let inode = state.inode(id);
        let mut contents = vec![0; inode.visible_len as usize];
        inode.read(&mut contents, 0);
        contents
    }

    /// Replaces or creates a file, visible and durable at once, whatever the capacity and counted
    /// nowhere. Panics if its directory does not exist.
    pub fn write_file(&self, path: &Path, contents: Vec<u8>) {
        let outcome = self.state().tamper(path, &contents);
        outcome.expect("the directory of the file to write exists");
    }

    /// Removes a file, durably at once, counted nowhere. Panics if there is none.
    pub fn remove_file(&self, path: &Path) {
        let mut state = self.state();
        let id = state.names.find(path).expect("the file to remove exists");
        state.names.remove(path);
        state.names.sync_name(path);
        state.unlink(id);
    }

    /// Starts a trace of the operations that are done, or drops it.
    pub fn trace(&self, on: bool) {
        self.state().trace = on.then(Vec::new);
    }

    /// The trace since the last call. The trace goes on if it was started.
    pub fn take_trace(&self) -> Vec<SimEvent> {
        self.state()
            .trace
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// From now on `watch` is called for each operation that changes state, by the thread that asks
    /// for it, before it is done. Everything else that is asked of this machine waits meanwhile, so
    /// `watch` itself must ask nothing of it. The next boot has no watcher.
    pub fn watch(&self, watch: impl Fn(&SimEvent) + Send + 'static) {
        self.state().watcher = Some(Watcher(Box::new(watch)));
    }

    fn handle(&self, state: &mut State, id: InodeId, path: &Path) -> Arc<Handle> {
        state.open_handle(id);
        Arc::new(Handle {
            vfs: self.clone(),
            id,
            path: path.to_owned(),
        })
    }
}

fn create_file(state: &mut State, path: &Path) -> io::Result<InodeId> {
    state.begin_whole(event(SimEventKind::Create, path, 0, 0))?;
    state.names.check_vacant(path)?;
    state.check_room_for_file()?;
    Ok(state.add_file(path))
}

impl Vfs for SimVfs {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.observe(FaultOn::Lookup, dir)?;
        state.names.create_dir_all(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        let id = create_file(&mut state, path)?;
        let handle = self.handle(&mut state, id, path);
        Ok(Arc::new(SimFile {
            handle,
            write: true,
            whole_blocks: false,
        }))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        state.observe(FaultOn::Lookup, path)?;
        let id = state.names.find(path)?;
        let handle = self.handle(&mut state, id, path);
        Ok(Arc::new(SimFile {
            handle,
            write,
            whole_blocks: false,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.begin_whole(SimEvent {
            to: Some(to.to_owned()),
            ..event(SimEventKind::Rename, from, 0, 0)
        })?;
        if let Some(replaced) = state.names.rename(from, to)? {
            state.unlink(replaced);
        }
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.begin_whole(SimEvent {
            to: Some(to.to_owned()),
            ..event(SimEventKind::HardLink, from, 0, 0)
        })?;
        let id = state.names.find(from)?;
        state.names.check_vacant(to)?;
        if !state.links_allowed {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        state.link(id, to);
        Ok(())
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.begin_whole(event(SimEventKind::RemoveDir, dir, 0, 0))?;
        state.names.remove_dir(dir)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.begin_whole(event(SimEventKind::Remove, path, 0, 0))?;
        let id = state.names.find(path)?;
        state.names.remove(path);
        state.unlink(id);
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.begin_whole(event(SimEventKind::SyncDir, dir, 0, 0))?;
        if !state.names.is_dir(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.sync_dir(dir);
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        let mut state = self.state();
        state.observe(FaultOn::Lookup, dir)?;
        state.names.list(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let mut state = self.state();
        state.observe(FaultOn::Lookup, path)?;
        Ok(state.names.is_dir(path) || state.names.find(path).is_ok())
    }

    fn lock(&self, path: &Path, shared: bool) -> io::Result<Box<dyn LockGuard>> {
        let mut state = self.state();
        state.observe(FaultOn::Lookup, path)?;
        let id = match state.names.find(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !shared => {
                create_file(&mut state, path)?
            }
            found => found?,
        };
        state.lock(id, shared)?;
        Ok(Box::new(SimLockGuard {
            vfs: self.clone(),
            id,
            path: path.to_owned(),
        }))
    }

    fn boot_id(&self) -> Option<BootId> {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.state().boot?.to_le_bytes());
        Some(id)
    }

    fn lock_holder(&self, path: &Path) -> LockHolder {
        let state = self.state();
        let shared = state.names.find(path).is_ok_and(|id| state.is_shared(id));
        LockHolder {
            shared,
            process: (!shared).then(std::process::id),
            process_seen: !shared,
        }
    }
}

#[derive(Debug)]
struct SimLockGuard {
    vfs: SimVfs,
    id: InodeId,
    path: PathBuf,
}

impl LockGuard for SimLockGuard {
    fn still_held(&self) -> io::Result<bool> {
        let mut state = self.vfs.state();
        state.observe(FaultOn::Lookup, &self.path)?;
        Ok(state.names.find(&self.path).is_ok_and(|id| id == self.id))
    }
}

impl Drop for SimLockGuard {
    fn drop(&mut self) {
        self.vfs.state().unlock(self.id);
    }
}

/// Keeps a file in the world while a handle or mapping uses it.
#[derive(Debug)]
struct Handle {
    vfs: SimVfs,
    id: InodeId,
    path: PathBuf,
}

impl Handle {
    fn event(&self, kind: SimEventKind, offset: u64, len: u64) -> SimEvent {
        event(kind, &self.path, offset, len)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.vfs.state().close_handle(self.id);
    }
}

#[derive(Debug)]
struct SimFile {
    handle: Arc<Handle>,
    write: bool,
    /// A handle past the cache: anything but whole blocks is a mistake of the caller.
    whole_blocks: bool,
}

impl SimFile {
    fn state(&self) -> MutexGuard<'_, State> {
        self.handle.vfs.state()
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.write {
            Ok(())
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }
}

impl File for SimFile {
    fn path(&self) -> &Path {
        &self.handle.path
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state();
        state.observe(FaultOn::Read, &self.handle.path)?;
        state.note_read(self.handle.id, offset, buf.len() as u64);
        Ok(state.inode(self.handle.id).read(buf, offset))
    }

    /// It only notes the request: reads take no time here.
    fn will_need(&self, offset: u64, len: u64) {
        self.state().note_asked(self.handle.id, offset, len);
    }

    fn past_cache(&self) -> Option<Arc<dyn File>> {
        Some(Arc::new(SimFile {
            handle: Arc::clone(&self.handle),
            write: self.write,
            whole_blocks: true,
        }))
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.check_writable()?;
        let aligned = [offset as usize, data.len(), data.as_ptr().addr()];
        assert!(
            !self.whole_blocks || aligned.iter().all(|at| at.is_multiple_of(BLOCK_BYTES)),
            "whole blocks only"
        );
        let event = self
            .handle
            .event(SimEventKind::Write, offset, data.len() as u64);
        self.state().write(event, self.handle.id, data)
    }

    fn sync_data(&self) -> io::Result<()> {
        let event = self.handle.event(SimEventKind::SyncData, 0, 0);
        self.state().sync_data(event, self.handle.id)
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.state();
        state.observe(FaultOn::Lookup, &self.handle.path)?;
        Ok(state.inode(self.handle.id).visible_len)
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        let mut state = self.state();
        state.observe(FaultOn::Lookup, &self.handle.path)?;
        let inode = state.inode(self.handle.id);
        Ok(inode.allocated_pages * BLOCK_BYTES as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        if len > i64::MAX as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut state = self.state();
        state.begin_whole(self.handle.event(SimEventKind::SetLen, 0, len))?;
        state.edit(self.handle.id, |inode, _, _| inode.set_len(len));
        Ok(())
    }

    fn preallocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.check_writable()?;
        check_range(offset, len)?;
        let mut state = self.state();
        state.begin_whole(self.handle.event(SimEventKind::Preallocate, offset, len))?;
        let fits = state.edit(self.handle.id, |inode, pages_free, _| {
            inode.preallocate(offset, len, pages_free)
        });
        if fits {
            Ok(())
        } else {
            Err(io::ErrorKind::StorageFull.into())
        }
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.check_writable()?;
        offset.checked_add(len).ok_or(io::ErrorKind::InvalidInput)?;
        let mut state = self.state();
        state.begin_whole(self.handle.event(SimEventKind::PunchHole, offset, len))?;
        state.edit(self.handle.id, |inode, _, rng| {
            inode.punch_hole(offset, len, rng);
        });
        Ok(())
    }

    fn map(&self, len: usize) -> io::Result<Box<dyn Mapping>> {
        self.check_writable()?;
        let mut state = self.state();
        state.observe(FaultOn::Lookup, &self.handle.path)?;
        if len == 0 || len as u64 > state.inode(self.handle.id).visible_len {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Box::new(SimMapping {
            handle: Arc::clone(&self.handle),
            len,
        }))
    }
}

/// A mapping whose writes are ordinary pending writes, except that they cannot fail.
#[derive(Debug)]
struct SimMapping {
    handle: Arc<Handle>,
    len: usize,
}

impl SimMapping {
    fn check_bounds(&self, offset: usize, len: usize) {
        let end = offset.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.len),
            "{len} bytes at {offset} are outside a mapping of {} bytes",
            self.len
        );
    }
}

impl Mapping for SimMapping {
    fn write(&self, offset: usize, data: &[u8]) {
        self.check_bounds(offset, data.len());
        let handle = &self.handle;
        let event = handle.event(SimEventKind::MappedWrite, offset as u64, data.len() as u64);
        handle.vfs.state().write_mapped(event, handle.id, data);
    }

    fn prefault(&self, offset: usize, len: usize) {
        self.check_bounds(offset, len);
        let state = self.handle.vfs.state();
        state.assert_backed(self.handle.id, offset as u64, len as u64);
    }

    /// The visible bytes are the file's, in memory or not.
    fn give_back(&self, offset: usize, len: usize) -> bool {
        self.check_bounds(offset, len);
        true
    }
}

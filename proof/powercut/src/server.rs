//! The process that serves a [`Disk`] as one file. A loop device makes a block device from this
//! file.
//!
//! ```text
//!   file system -> /dev/loopN -> FUSE -> this process: Disk
//!                   a flush is an fsync of the file
//! ```
//! The file is opened for direct I/O, so the kernel keeps no copy of it: every write of the loop
//! device is a request here, and is answered before the flush that must cover it comes. It is a
//! process of its own, so that a writer that hangs in the file system never holds up the disk below
//! it.
//!
//! Orders come as lines on standard input, `cut KEEP SEED WRITES`, `restart` and `flushes MICROS
//! HONEST`; each is answered by a line. The end of the input, for example when the campaign dies,
//! ends the process, and with it the mount.

use crate::Result;
use crate::disk::{CutCounts, Disk, Keep};
use crate::draw::Draw;
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use parking_lot::{Mutex, MutexGuard};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

const NAME: &str = "image";
const FILE: INodeNo = INodeNo(2);
const FOREVER: Duration = Duration::from_secs(3600);
/// How long a cut waits for the write with which it should come.
const WRITES_COME: Duration = Duration::from_millis(50);
/// A flag of `fallocate`: the block layer uses these for zeros and for holes.
const ZERO_RANGE: i32 = 0x10;
const PUNCH_HOLE: i32 = 0x02;

/// What the disk does with flushes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flushes {
    /// The time that each takes.
    pub takes: Duration,
    /// Whether they make anything durable. A disk that lies must be found out.
    pub are_honest: bool,
}

impl Default for Flushes {
    /// Those of a disk of today. If they took no time there would hardly be unflushed writes when a
    /// cut comes.
    fn default() -> Flushes {
        Flushes {
            takes: Duration::from_millis(1),
            are_honest: true,
        }
    }
}

/// The file system with the one file.
#[derive(Clone)]
struct Served {
    disk: Arc<Mutex<Disk>>,
    flushes: Arc<Mutex<Flushes>>,
}

impl Served {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock()
    }

    fn attr(&self, ino: INodeNo) -> FileAttr {
        let is_file = ino == FILE;
        let size = match is_file {
            true => self.disk().len() as u64,
            false => 0,
        };
        FileAttr {
            ino,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: match is_file {
                true => FileType::RegularFile,
                false => FileType::Directory,
            },
            perm: if is_file { 0o600 } else { 0o700 },
            nlink: if is_file { 1 } else { 2 },
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // A refusal names the number that the kernel takes, and that is enough.
        let _ = config.set_max_write(1 << 20);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match parent == INodeNo::ROOT && name == NAME {
            true => reply.entry(&FOREVER, &self.attr(FILE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attr(ino));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        reply.data(self.disk().read(offset as usize, size as usize));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let done = self.disk().write(offset as usize, data);
        match done {
            true => reply.written(data.len() as u32),
            false => reply.error(Errno::ENOSPC),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // A close of the file, which makes nothing durable.
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        // A cut may come in the meantime, and finds all the writes that this would have covered.
        let flushes = *self.flushes.lock();
        std::thread::sleep(flushes.takes);
        if flushes.are_honest {
            self.disk().flush();
        }
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        // Either is a write of zeros, which a cut may take back like any other.
        let mut disk = self.disk();
        let fits = length <= disk.len() as u64;
        let known = mode & (ZERO_RANGE | PUNCH_HOLE) != 0;
        match known && fits && disk.write(offset as usize, &vec![0; length as usize]) {
            true => reply.ok(),
            false => reply.error(Errno::EOPNOTSUPP),
        }
    }
}

/// Serves the bytes of `image` as the file `mountpoint/image`, until standard input ends.
///
/// # Errors
/// If the image cannot be read or the file system cannot be mounted.
pub fn serve(image: &Path, mountpoint: &Path) -> Result<()> {
    let bytes = std::fs::read(image).map_err(|error| format!("reading {image:?}: {error}"))?;
    let served = Served {
        disk: Arc::new(Mutex::new(Disk::new(bytes))),
        flushes: Arc::default(),
    };
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("power-cut".to_owned())];
    let session = fuser::spawn_mount(served.clone(), mountpoint, &config);
    let session = session.map_err(|error| format!("mounting the served disk: {error}"))?;
    let say = |line: &str| writeln!(std::io::stdout(), "{line}").map_err(|error| error.to_string());
    say("serving")?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        say(&served.obey(&line)?)?;
    }
    session.umount_and_join().map_err(|error| error.to_string())
}

impl Served {
    /// Carries out an order, and returns the answer.
    fn obey(&self, line: &str) -> Result<String> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["cut", keep, seed, writes] => {
                let seed = seed.parse().map_err(|_| "a bad seed")?;
                let keep = Keep::ALL.into_iter().find(|own| format!("{own:?}") == keep);
                let keep = keep.ok_or("a bad choice")?;
                let writes = writes.parse().map_err(|_| "a bad number")?;
                let counts = cut(&self.disk, keep, Draw::new(seed), writes);
                let CutCounts {
                    unflushed,
                    kept,
                    torn,
                } = counts;
                Ok(format!("{unflushed} {kept} {torn}"))
            }
            ["restart"] => {
                self.disk().restart();
                Ok("restarted".to_owned())
            }
            ["flushes", micros, honest] => {
                let takes = micros.parse().map_err(|_| "a bad time")?;
                *self.flushes.lock() = Flushes {
                    takes: Duration::from_micros(takes),
                    are_honest: honest.parse().map_err(|_| "neither true nor false")?,
                };
                Ok("set".to_owned())
            }
            _ => Err(format!("an order that is none: {line}")),
        }
    }
}

/// Cuts after this number of further writes. If they do not come, it cuts after a while.
fn cut(disk: &Mutex<Disk>, keep: Keep, mut draw: Draw, writes: u64) -> CutCounts {
    if writes > 0 {
        disk.lock().cut_after(writes, keep, draw.clone());
        let begun = Instant::now();
        while begun.elapsed() < WRITES_COME {
            if let Some(counts) = disk.lock().was_cut() {
                return counts;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    disk.lock().cut(keep, &mut draw)
}

/// The campaign's end of that process.
pub struct Server {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// The served file.
    pub file: PathBuf,
}

impl Server {
    /// Starts `program`, which is this crate's command, to serve the bytes of `image` below
    /// `mountpoint`.
    ///
    /// # Errors
    /// If it does not begin to serve.
    pub fn start(program: &Path, image: &Path, mountpoint: &Path) -> Result<Server> {
        let mut child = Command::new(program)
            .arg("serve")
            .args([image, mountpoint])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("starting the disk: {error}"))?;
        let answers = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut server = Server {
            orders: child.stdin.take(),
            child,
            answers,
            file: mountpoint.join(NAME),
        };
        match server.answer()?.as_str() {
            "serving" => Ok(server),
            other => Err(format!("the disk says {other:?}")),
        }
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        read.map_err(|error| format!("the disk does not answer: {error}"))?;
        match line.trim_end() {
            "" => Err("the disk ended".to_owned()),
            line => Ok(line.to_owned()),
        }
    }

    fn order(&mut self, line: &str) -> Result<String> {
        let orders = self.orders.as_mut().ok_or("the disk was told to end")?;
        let sent = writeln!(orders, "{line}");
        sent.map_err(|error| format!("the disk takes no orders: {error}"))?;
        self.answer()
    }

    /// See [`Disk::cut`] and, if `writes` is not 0, [`Disk::cut_after`].
    ///
    /// # Errors
    /// If the process has ended.
    pub fn cut(&mut self, keep: Keep, seed: u64, writes: u64) -> Result<CutCounts> {
        let answer = self.order(&format!("cut {keep:?} {seed} {writes}"))?;
        let numbers: Vec<usize> = answer
            .split(' ')
            .filter_map(|word| word.parse().ok())
            .collect();
        match numbers[..] {
            [unflushed, kept, torn] => Ok(CutCounts {
                unflushed,
                kept,
                torn,
            }),
            _ => Err(format!("the disk says {answer:?} of a cut")),
        }
    }

    /// From now on, the disk flushes so.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn set_flushes(&mut self, flushes: Flushes) -> Result<()> {
        let Flushes { takes, are_honest } = flushes;
        let order = format!("flushes {} {are_honest}", takes.as_micros());
        self.order(&order).map(drop)
    }

    /// See [`Disk::restart`].
    ///
    /// # Errors
    /// If the process has ended.
    pub fn restart(&mut self) -> Result<()> {
        self.order("restart").map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It unmounts and ends.
        self.orders = None;
        let _ = self.child.wait();
    }
}

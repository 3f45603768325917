//! A new file that is written front to back in large pieces. They go past the system's cache if the
//! caller wants that and the system can do it.
//!
//! ```text
//! buffer | pad | bytes that are not written yet ... |
//!              ^ aligned in memory; in the file it lies at `at`, a multiple of a block
//! ```
//! The kernel copies bytes that go through the cache once more, into pages that it finds, charges,
//! marks and cleans one by one. So pieces of whole blocks go from the buffer to the device. Only
//! the last bytes of the file, less than a block, go through the cache. When the write of a piece
//! returns, the piece is on the device, or in the device's cache. So a read that comes meanwhile
//! waits for at most one piece of each writer.
//!
//! The same pieces go through the cache, and [`WriteBehind`] keeps them close to the device, in
//! three cases: the written bytes should be in the cache, [`File::past_cache`] gives no way past
//! it, or a write by this way is refused with `InvalidInput`.
//!
//! In either case nothing is durable before [`File::sync_data`]. After an error it is not known
//! what was written: nothing more is appended then. An appender belongs to one thread at a time.

use super::{BLOCK_BYTES, File, WriteBehind};
use std::io;
use std::sync::Arc;

/// Bytes of room behind a piece, so that the buffer need not grow for the bytes that fill the
/// piece.
const SLACK_BYTES: usize = 32 << 10;

/// Writes one new file.
#[derive(Debug)]
pub struct Appender {
    file: Arc<dyn File>,
    /// The way past the cache.
    direct: Option<Arc<dyn File>>,
    behind: WriteBehind,
    buffer: Vec<u8>,
    pad: usize,
    at: u64,
    piece_bytes: usize,
}

impl Appender {
    /// An appender for `file`, which is empty. A piece has `piece_bytes` bytes, a multiple of
    /// [`BLOCK_BYTES`]. With `past_cache` the written bytes are not in the system's cache
    /// afterwards, if the system can do that.
    pub fn new(file: Arc<dyn File>, piece_bytes: usize, past_cache: bool) -> Appender {
        assert!(piece_bytes > 0 && piece_bytes.is_multiple_of(BLOCK_BYTES));
        let mut appender = Appender {
            direct: file.past_cache().filter(|_| past_cache),
            file,
            behind: WriteBehind::default(),
            buffer: Vec::with_capacity(piece_bytes + SLACK_BYTES + BLOCK_BYTES),
            pad: 0,
            at: 0,
            piece_bytes,
        };
        appender.align();
        appender
    }

    /// The file that is written.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// The buffer to which the file's next bytes are appended.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Bytes of memory that the buffer takes.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Sets how many pieces may be on their way, if they go through the cache
    /// ([`WriteBehind::set_depth`]).
    pub fn set_depth(&mut self, pieces: usize) {
        self.behind.set_depth(pieces);
    }

    /// Whether the buffer holds a piece.
    pub fn is_full(&self) -> bool {
        self.waiting() >= self.piece_bytes
    }

    /// Writes the full pieces of the buffer and removes them from it.
    pub fn pass_on(&mut self) -> io::Result<()> {
        self.write(self.piece_bytes)
    }

    /// Writes the rest. Nothing is appended any more.
    pub fn finish(&mut self) -> io::Result<()> {
        self.write(BLOCK_BYTES)?;
        let rest = &self.buffer[self.pad..];
        if !rest.is_empty() {
            self.file.write_at(rest, self.at)?;
        }
        Ok(())
    }

    /// Bytes that are not written.
    fn waiting(&self) -> usize {
        self.buffer.len() - self.pad
    }

    /// Writes the waiting bytes, up to a multiple of `unit`.
    fn write(&mut self, unit: usize) -> io::Result<()> {
        let full = self.waiting() / unit * unit;
        if full == 0 {
            return Ok(());
        }
        self.align();
        let end = self.pad + full;
        let bytes = &self.buffer[self.pad..end];
        if let Some(direct) = &self.direct {
            match direct.write_at(bytes, self.at) {
                // A part may have been written. All of it is written again, with the same bytes.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.direct = None,
                result => result?,
            }
        }
        if self.direct.is_none() {
            self.behind.write_at(&*self.file, bytes, self.at)?;
        }
        self.at += full as u64;
        self.buffer.copy_within(end.., self.pad);
        self.buffer.truncate(self.buffer.len() - full);
        Ok(())
    }

    /// Moves the waiting bytes to an aligned place. They are there already, unless the buffer has
    /// moved.
    fn align(&mut self) {
        let waiting = self.waiting();
        self.buffer.reserve(BLOCK_BYTES);
        let pad = self.buffer.as_ptr().align_offset(BLOCK_BYTES);
        if pad != self.pad {
            self.buffer.resize(self.buffer.len().max(pad + waiting), 0);
            self.buffer.copy_within(self.pad..self.pad + waiting, pad);
            self.buffer.truncate(pad + waiting);
            self.pad = pad;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::behind::tests::{Noting, Past};
    use super::super::read_exact_at;
    use super::*;

    const PIECE: usize = 128 << 10;

    /// Appends `len` bytes in parts of these sizes, in turns, as a writer of tables does. Returns
    /// the bytes.
    fn append(file: &Arc<dyn File>, len: usize, parts: &[usize]) -> Vec<u8> {
        append_by(file, len, parts, true)
    }

    fn append_by(file: &Arc<dyn File>, len: usize, parts: &[usize], past_cache: bool) -> Vec<u8> {
        let data: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let mut appender = Appender::new(file.clone(), PIECE, past_cache);
        let (mut at, mut parts) = (0, parts.iter().cycle());
        while at < len {
            let end = (at + parts.next().unwrap()).min(len);
            appender.buffer().extend_from_slice(&data[at..end]);
            at = end;
            if appender.is_full() {
                appender.pass_on().unwrap();
            }
        }
        appender.finish().unwrap();
        data
    }

    fn check(file: &Arc<dyn File>, data: &[u8]) {
        assert_eq!(file.len().unwrap(), data.len() as u64);
        let mut read = vec![0; data.len()];
        read_exact_at(&**file, &mut read, 0).unwrap();
        assert!(read == data, "other bytes than were appended");
    }

    /// The file ends at all places of a block and a piece. Parts are smaller and larger than the
    /// slack, and than a piece. The simulation asserts that whole blocks go past the cache, from
    /// aligned memory.
    #[test]
    fn what_is_appended_is_there() {
        use super::super::{SimVfs, Vfs};
        let lengths = [
            0,
            1,
            4095,
            4096,
            4097,
            PIECE - 1,
            PIECE,
            PIECE + 1,
            9 * PIECE + 5000,
        ];
        let parts: [&[usize]; 4] = [&[4093], &[1, 70_000], &[PIECE], &[5, 3 * PIECE + 17, 9000]];
        for len in lengths {
            for parts in parts {
                let file = SimVfs::new(1).create(std::path::Path::new("/a")).unwrap();
                check(&file, &append(&file, len, parts));
            }
        }
    }

    /// Whole pieces go past the cache, then whole blocks at the end. The rest goes through the
    /// cache.
    #[test]
    fn only_the_last_bytes_go_through_the_cache() {
        let noting = Noting::with(Past::RefusesFrom(u64::MAX));
        let file: Arc<dyn File> = Arc::new(noting.clone());
        let len = 3 * PIECE + 2 * BLOCK_BYTES + 7;
        check(&file, &append(&file, len, &[4093]));
        let piece = |at: u64| at * PIECE as u64..(at + 1) * PIECE as u64;
        let blocks_end = (len - 7) as u64;
        let last = 3 * PIECE as u64..blocks_end;
        assert_eq!(noting.of('d'), [piece(0), piece(1), piece(2), last]);
        assert_eq!(noting.of('w'), vec![blocks_end..len as u64; 1]);
        assert!(noting.of('s').is_empty());
    }

    /// Without a way past the cache, and from its first refusal on, pieces go through the cache and
    /// their writing is started.
    #[test]
    fn refused_pieces_go_through_the_cache() {
        let len = 9 * PIECE + 5000;
        for (past, direct, refused) in [
            (Past::Missing, 0, 0),
            (Past::RefusesFrom(0), 0, 1),
            (Past::RefusesFrom(3 * PIECE as u64), 3, 1),
        ] {
            let noting = Noting::with(past);
            let file: Arc<dyn File> = Arc::new(noting.clone());
            check(&file, &append(&file, len, &[4093]));
            assert_eq!(
                (noting.of('d').len(), noting.of('r').len()),
                (direct, refused)
            );
            assert_eq!(
                noting.of('w').first().unwrap().start,
                (direct * PIECE) as u64
            );
            assert!(!noting.of('s').is_empty());
        }
    }

    #[test]
    fn what_is_to_be_in_the_cache_goes_through_it() {
        let noting = Noting::with(Past::RefusesFrom(u64::MAX));
        let file: Arc<dyn File> = Arc::new(noting.clone());
        check(&file, &append_by(&file, 3 * PIECE + 7, &[4093], false));
        assert!(noting.of('d').is_empty() && !noting.of('s').is_empty());
    }
}

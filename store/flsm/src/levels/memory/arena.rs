#![expect(
    unsafe_code,
    reason = "memory that is given out in pieces of any length and freed at once"
)]
//! [`Arena`]: memory in pieces of any length, freed all at once.
//!
//! ```text
//!   chunk  | piece | piece | ...... |  piece  |   free   |   chunks grow up to a limit;
//!   chunk  | one long piece |                                a long piece has a chunk of its own
//! ```
//! Pieces are aligned to 8 bytes and never move. They live as long as the arena. Nothing in them is
//! dropped.
//! Thread safety: one thread at a time allocates; the caller is responsible for the use of the
//! pieces.

use evendb_storage::heap;
use std::alloc::{self, Layout};
use std::ptr::NonNull;

/// The alignment of pieces in bytes.
pub(super) const ALIGNMENT: usize = 8;
/// Bytes of the first chunk: a keyspace with one record takes no more.
const CHUNK_BYTES_MIN: usize = 1 << 10;
const CHUNK_BYTES_MAX: usize = 256 << 10;

pub(super) struct Arena {
    chunks: Vec<(NonNull<u8>, Layout)>,
    /// The rest of the chunk in use.
    free: NonNull<u8>,
    free_bytes: usize,
    /// The sum over all chunks.
    allocated_bytes: usize,
}

// SAFETY: the arena owns its chunks, as a vector does, and nothing of it belongs to a thread.
unsafe impl Send for Arena {}

impl Arena {
    pub(super) fn new() -> Arena {
        Arena {
            chunks: Vec::new(),
            free: NonNull::dangling(),
            free_bytes: 0,
            allocated_bytes: 0,
        }
    }

    /// Bytes that the allocator was asked for.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.allocated_bytes
    }

    /// A piece of `bytes`, not initialised, aligned to [`ALIGNMENT`].
    pub(super) fn allocate(&mut self, bytes: usize) -> NonNull<u8> {
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        if bytes > self.free_bytes {
            let chunk_bytes = self.allocated_bytes.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
            if bytes > chunk_bytes / 4 {
                return self.add_chunk(bytes);
            }
            self.free = self.add_chunk(chunk_bytes);
            self.free_bytes = chunk_bytes;
        }
        let piece = self.free;
        self.free_bytes -= bytes;
        // SAFETY: the chunk has `free_bytes` bytes from `free` on, and `bytes` is not more than
        // that.
        self.free = unsafe { piece.add(bytes) };
        piece
    }

    fn add_chunk(&mut self, bytes: usize) -> NonNull<u8> {
        heap::expect(bytes);
        let layout = Layout::from_size_align(bytes, ALIGNMENT);
        let layout = layout.expect("a record is shorter than the address space");
        // SAFETY: no record is empty, its header is not, so `bytes` is not 0.
        let chunk = NonNull::new(unsafe { alloc::alloc(layout) });
        let chunk = chunk.unwrap_or_else(|| alloc::handle_alloc_error(layout));
        self.chunks.push((chunk, layout));
        self.allocated_bytes += bytes;
        chunk
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for (chunk, layout) in &self.chunks {
            // SAFETY: allocated by `add_chunk` with this layout, and freed here alone.
            unsafe { alloc::dealloc(chunk.as_ptr(), *layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills each piece with a byte of its own, and looks at all of them in the end.
    #[test]
    fn pieces_do_not_overlap_and_are_aligned() {
        let mut arena = Arena::new();
        let lens = (0..400usize).map(|number| match number % 50 {
            49 => 100_000,
            _ => 1 + number * 7 % 90,
        });
        let mut pieces = Vec::new();
        for (number, len) in lens.enumerate() {
            let piece = arena.allocate(len);
            assert!(piece.addr().get().is_multiple_of(ALIGNMENT));
            // SAFETY: the piece has `len` bytes.
            unsafe { piece.write_bytes(number as u8, len) };
            pieces.push((piece, len));
        }
        for (number, (piece, len)) in pieces.iter().enumerate() {
            // SAFETY: written above, and the arena lives.
            let bytes = unsafe { std::slice::from_raw_parts(piece.as_ptr(), *len) };
            assert!(bytes == vec![number as u8; *len]);
        }
        let used: usize = pieces.iter().map(|(_, len)| len).sum();
        assert!(arena.allocated_bytes() >= used);
        assert!(arena.allocated_bytes() < 2 * used + CHUNK_BYTES_MAX);
    }

    #[test]
    fn a_small_arena_takes_little() {
        let mut arena = Arena::new();
        assert_eq!(arena.allocated_bytes(), 0);
        arena.allocate(100);
        assert_eq!(arena.allocated_bytes(), CHUNK_BYTES_MIN);
    }
}

//! Encryption of stored bytes: a database's secret, the ciphers that are derived from it, and how
//! files carry it.
//!
//! ```text
//! data key --HKDF-SHA-256(use, id, salt)--> key of a table, log, life, ... --AES-256-GCM--> bodies
//!
//! body, as it was --seal(nonce, bound, ..)--> | body, encrypted | tag (16 bytes) |
//! ```
//! A *body* is the unit of one read and one checksum: a block, a frame, a record, a piece of an
//! extent. Each body of a file is sealed by the cipher of that file, under a nonce of its own. If a
//! place is written only once under one key, the nonce is made from the place ([`Nonce::at`]). If a
//! place is written again, the nonce is random ([`Secrets::fresh`]). Whatever must not be confused
//! with the body goes into the derivation (use, id, salt), into the nonce (place), or into `bound`
//! (everything else). So a body that was moved within its file, to another file or to another
//! database does not open.
//!
//! [`SealedVfs`](crate::vfs::SealedVfs) hands the secret to all code that reads and writes files:
//! [`File::secrets`](crate::vfs::File::secrets) of each of its files is the database's. It changes
//! no byte itself. The code that knows what a body is asks the file, and seals.
//!
//! Which key and nonce, of each kind of file:
//! ```text
//! file          key of (use, id, salt)           nonce    why the pair does not come twice
//! KEYS          data key, 0, salt in the file    0        a salt for each writing
//! table, run    table, its id, salt in it        offset   a salt for each table, which is written
//!                                                         front to back
//! commit log    commit log, life, its seed       LSN      a seed for each life, in which an LSN is
//!                                                         given out once: a place of the ring has
//!                                                         another one in each lap
//! manifest,     framed log of this name, its id  chance   in each frame
//! kept changes
//! value extent  value extent, its id, salt in it ordinal  a salt for each, written front to back
//! value file    value, number of the file        chance   in each value
//! HEAT          heat, 0, salt in it              ordinal  a salt for each writing
//! ```
//! Salts and random nonces come from [`Secrets::fresh`]: its numbers follow from 256 bits that the
//! operating system gives in each opening. A life's seed is asked of the system as well
//! ([`crate::random`]). Nothing else separates two lives: ids, LSNs and offsets come again in
//! databases that go on apart from one copy, and so do process ids and times. So forks, copies,
//! restores, kills and numbers that are drawn again need no care of their own. (In databases below
//! format version 6 a value has its offset as nonce and no salt. Such values are read, and not
//! written any more.)
//!
//! Invariants: no two bodies are sealed by one cipher under one nonce (`watch` notes all of them,
//! for tests). No key is in `Debug`, in an error, or left in memory by a drop. Thread safety:
//! everything here may be used by any thread. Without the feature `encryption` no value of
//! [`Secrets`] and [`Cipher`] exists, so no code that needs one is ever reached (`absent.rs`).
//! Not here: where the secret is kept, and who gives the key to it (the engine's `encryption`).

#[cfg(not(feature = "encryption"))]
mod absent;
#[cfg(feature = "encryption")]
mod aes_gcm;
mod pieces;
#[cfg(all(test, feature = "encryption"))]
mod tests;
#[cfg(all(feature = "encryption", feature = "nonce-watch"))]
#[doc(hidden)]
pub mod watch;
#[cfg(all(target_arch = "x86_64", feature = "encryption"))]
mod wide;

#[cfg(not(feature = "encryption"))]
pub use absent::{Cipher, Key, Secrets};
#[cfg(feature = "encryption")]
pub use aes_gcm::{Cipher, Key, Secrets};
pub use pieces::{PieceSealer, open_pieces, seal_pieces};

/// Whether this build encrypts and decrypts.
pub const HAS_ENCRYPTION: bool = cfg!(feature = "encryption");

/// Bytes that sealing adds to a body.
pub const TAG_BYTES: usize = 16;

/// Bytes of a salt.
pub const SALT_BYTES: usize = 16;

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 12;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// What a cipher is for. No two uses share a key. The names are part of the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use<'a> {
    /// The data key itself, in the file that keeps it.
    DataKey,
    /// Blocks of a table.
    Table,
    /// Records of the commit log in one life.
    CommitLog,
    /// Frames of the framed log of this file name.
    FramedLog(&'a str),
    /// Bodies in a file of this kind: in pieces ([`PieceSealer`]), or each under a nonce of
    /// [`Secrets::fresh`] that is stored with it.
    File(&'a str),
}

#[cfg(feature = "encryption")]
impl<'a> Use<'a> {
    /// The names that go into the derivation. No name is the beginning of another.
    fn names(self) -> [&'a [u8]; 2] {
        match self {
            Use::DataKey => [b"evendb data key\0", b""],
            Use::Table => [b"evendb table\0", b""],
            Use::CommitLog => [b"evendb commit log\0", b""],
            Use::FramedLog(file) => [b"evendb framed log\0", file.as_bytes()],
            Use::File(kind) => [b"evendb file\0", kind.as_bytes()],
        }
    }
}

/// A number under which a cipher seals one body, and no second one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nonce(pub [u8; NONCE_BYTES]);

impl Nonce {
    /// The nonce of the body at `place`: an offset, an LSN, an ordinal.
    #[inline]
    pub fn at(place: u64) -> Nonce {
        let mut bytes = [0; NONCE_BYTES];
        bytes[..8].copy_from_slice(&place.to_le_bytes());
        Nonce(bytes)
    }

    /// The nonce of something that is no body. `kind`, which is not 0, distinguishes it from a body
    /// at the same place.
    #[inline]
    pub fn of_kind(place: u64, kind: u32) -> Nonce {
        let mut nonce = Nonce::at(place);
        nonce.0[8..].copy_from_slice(&kind.to_le_bytes());
        nonce
    }
}

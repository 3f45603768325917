//! Bodies of any length, written front to back: a file, or a stretch of one, in sealed pieces.
//!
//! ```text
//! | salt (16 bytes) | piece | piece | ... |
//! piece = 64 KiB of the body, or its rest, encrypted | tag (16 bytes)
//! ```
//! The key is made from kind, id and salt. The nonce is the piece's ordinal. The length of the body
//! must be known from elsewhere: a body that was cut between two pieces opens.

use super::{Cipher, Nonce, SALT_BYTES, Secrets, TAG_BYTES, Use};
use std::io;

/// Bytes of a body in one piece.
const PIECE_BYTES: usize = 64 << 10;

/// Seals a body that comes in parts of any size.
pub struct PieceSealer {
    cipher: Cipher,
    waiting: Vec<u8>,
    ordinal: u64,
}

impl PieceSealer {
    /// A sealer for a body of this kind and id, and the bytes that come first in the file.
    pub fn new(secrets: &Secrets, kind: &str, id: u64) -> (PieceSealer, [u8; SALT_BYTES]) {
        let salt = secrets.fresh();
        let sealer = PieceSealer {
            cipher: secrets.cipher(Use::File(kind), id, &salt),
            waiting: Vec::with_capacity(PIECE_BYTES + TAG_BYTES),
            ordinal: 0,
        };
        (sealer, salt)
    }

    /// Takes the body's next bytes. `out` gets sealed bytes.
    pub fn push(
        &mut self,
        mut bytes: &[u8],
        out: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            let fits = (PIECE_BYTES - self.waiting.len()).min(bytes.len());
            let (now, later) = bytes.split_at(fits);
            self.waiting.extend_from_slice(now);
            if self.waiting.len() == PIECE_BYTES {
                self.cut(out)?;
            }
            bytes = later;
        }
        Ok(())
    }

    /// Gives `out` the rest. Nothing is pushed any more.
    pub fn finish(&mut self, out: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        match self.waiting.is_empty() {
            true => Ok(()),
            false => self.cut(out),
        }
    }

    fn cut(&mut self, out: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        self.cipher
            .seal(Nonce::at(self.ordinal), &[], &mut self.waiting, 0);
        self.ordinal += 1;
        out(&self.waiting)?;
        self.waiting.clear();
        Ok(())
    }
}

/// A whole body, sealed.
pub fn seal_pieces(secrets: &Secrets, kind: &str, id: u64, body: &[u8]) -> Vec<u8> {
    let (mut sealer, salt) = PieceSealer::new(secrets, kind, id);
    let mut sealed = salt.to_vec();
    let mut out = |piece: &[u8]| {
        sealed.extend_from_slice(piece);
        Ok(())
    };
    let pushed = sealer.push(body, &mut out);
    pushed
        .and_then(|()| sealer.finish(&mut out))
        .expect("memory takes all");
    sealed
}

/// Opens `sealed`; `None` if it was not sealed as this kind and id.
pub fn open_pieces(secrets: &Secrets, kind: &str, id: u64, sealed: &[u8]) -> Option<Vec<u8>> {
    let (salt, pieces) = sealed.split_first_chunk::<SALT_BYTES>()?;
    let cipher = secrets.cipher(Use::File(kind), id, salt);
    let mut body = Vec::with_capacity(pieces.len());
    for (ordinal, piece) in pieces.chunks(PIECE_BYTES + TAG_BYTES).enumerate() {
        let start = body.len();
        body.resize(start + piece.len().checked_sub(TAG_BYTES)?, 0);
        let nonce = Nonce::at(ordinal as u64);
        if !cipher.open_into(nonce, &[], piece, &mut body[start..]) {
            return None;
        }
    }
    Some(body)
}

//! An append-only file of checksummed frames (the manifest): writer and reader.
//!
//! ```text
//! file   = | header | frame | frame | ...
//! header = | magic u64 | format version u32 | log id u64 | crc32c u32 |       (24 bytes)
//! frame  = | payload length u32 | crc32c u32 | payload, at least a byte |
//! ```
//!
//! A frame's checksum covers log id, the frame's offset, its length and payload. So no frame of
//! another log and no frame at another place verifies. The caller gives frames their meaning.
//!
//! A reader is told up to which offset frames were made durable. Before that offset every frame
//! must verify. Behind it, reading ends at the first frame that does not verify (a torn append).
//! The torn tail is wiped before the next append ([`FramedLogWriter::resume`]): it may contain
//! whole frames, and one of them would come back to life if a new frame happened to end where it
//! starts.
//!
//! In an encrypted database ([`crate::sealing`]) the format version is 2, and each payload is
//! replaced by
//! ```text
//! | nonce (12 bytes) | payload, encrypted | tag (16 bytes) |
//! ```
//! The key is the log's own, made from its file name and id. Each frame has a fresh nonce, because
//! a place is written again after a torn append. The frame's offset is bound. [`FrameCodec`] does
//! all of this for one log.
//!
//! * `frame` - headers and frames as bytes. `writer` - appends frames. `reading` - reads them.
//!   `search` - finds frames behind damage.

mod frame;
mod reading;
mod search;
mod writer;

pub use frame::{
    FRAME_HEADER_BYTES, FrameAt, FrameCodec, HEADER_BYTES, decode_frame, encode_frame,
    encode_header, header_id, header_id_in,
};
pub use reading::{
    Surveyed, find_frame, read_frame, read_frames, read_synced_frames, survey_frames,
};
pub use writer::FramedLogWriter;

//! Files that are packed by gzip or Zstandard, known by their first bytes. Traces and exported
//! records are often published so.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

const BUFFER_BYTES: usize = 1 << 20;

/// Bytes of a packed Zstandard file that are unpacked in one step.
const ZSTD_STEP_BYTES: usize = 128 << 10;

const GZIP: &[u8] = b"\x1F\x8B\x08";
const ZSTD: &[u8] = b"\x28\xB5\x2F\xFD";

/// Reads up to `most` bytes ahead. Returns a source that gives them again, and the bytes.
///
/// # Errors
/// The errors of the source.
pub fn peek(source: Box<dyn BufRead>, most: usize) -> io::Result<(Box<dyn BufRead>, Vec<u8>)> {
    let mut source = source;
    let buffered = source.fill_buf()?;
    if buffered.len() >= most {
        let sample = buffered[..most].to_vec();
        return Ok((source, sample));
    }
    let mut sample = Vec::new();
    (&mut source).take(most as u64).read_to_end(&mut sample)?;
    let again = Cursor::new(sample.clone()).chain(source);
    Ok((Box::new(again), sample))
}

/// The bytes of the source that are there without waiting for more than its beginning, and the
/// source that gives them again.
///
/// # Errors
/// The errors of the source.
pub fn begun(source: Box<dyn BufRead>) -> io::Result<(Box<dyn BufRead>, Vec<u8>)> {
    let mut source = source;
    let mut begun = Vec::new();
    // The first bytes come alone: they told whether the source is packed. A pipe may give no more
    // than one line for a long time.
    while begun.len() <= ZSTD.len() && !begun.contains(&b'\n') {
        let piece = source.fill_buf()?;
        if piece.is_empty() {
            break;
        }
        begun.extend_from_slice(piece);
        let bytes = piece.len();
        source.consume(bytes);
    }
    let again = Cursor::new(begun.clone()).chain(source);
    Ok((Box::new(again), begun))
}

/// The unpacked content of the source, and its packer if it is packed. Damage to packed bytes is an
/// error of the reads ([`is_damage`]).
///
/// # Errors
/// The errors of the source.
pub fn unpacked(source: Box<dyn BufRead>) -> io::Result<(Box<dyn BufRead>, Option<&'static str>)> {
    let (source, sample) = peek(source, ZSTD.len())?;
    let (reader, name): (Box<dyn Read>, _) = if sample.starts_with(GZIP) {
        (Box::new(MultiGzDecoder::new(source)), "gzip")
    } else if sample.starts_with(ZSTD) {
        (Box::new(ZstdReader::new(source)), "Zstandard")
    } else {
        return Ok((source, None));
    };
    let reader = BufReader::with_capacity(BUFFER_BYTES, reader);
    Ok((Box::new(reader), Some(name)))
}

/// Whether the bytes do not unpack. Otherwise the system failed.
#[must_use]
pub fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

/// Unpacks the frames of a Zstandard file in order.
struct ZstdReader {
    source: Box<dyn BufRead>,
    decoder: FrameDecoder,
    is_in_frame: bool,
}

impl ZstdReader {
    fn new(source: Box<dyn BufRead>) -> Self {
        Self {
            source,
            decoder: FrameDecoder::new(),
            is_in_frame: false,
        }
    }

    /// Begins the next frame; `false` at the end.
    fn begin_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut skipped = (&mut self.source).take(u64::from(length));
                    io::copy(&mut skipped, &mut io::sink())?;
                }
                Err(error) => return Err(damaged(error)),
            }
        }
        Ok(false)
    }

    /// Compares the frame's checksum, if it has one.
    fn end_frame(&mut self) -> io::Result<()> {
        self.is_in_frame = false;
        let written = self.decoder.get_checksum_from_data();
        match written.is_some() && written != self.decoder.get_calculated_checksum() {
            true => Err(damaged("its checksum does not fit")),
            false => Ok(()),
        }
    }
}

impl Read for ZstdReader {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.is_in_frame {
                self.is_in_frame = self.begin_frame()?;
                if !self.is_in_frame {
                    return Ok(0);
                }
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let step = BlockDecodingStrategy::UptoBytes(ZSTD_STEP_BYTES);
                let decoded = self.decoder.decode_blocks(&mut self.source, step);
                decoded.map_err(damaged)?;
            }
            match self.decoder.read(target)? {
                0 if !target.is_empty() => self.end_frame()?,
                bytes => return Ok(bytes),
            }
        }
    }
}

fn damaged(why: impl std::fmt::Display) -> io::Error {
    let why = format!("the Zstandard data is damaged or cut: {why}");
    io::Error::new(io::ErrorKind::InvalidData, why)
}

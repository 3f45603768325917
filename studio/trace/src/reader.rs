//! [`Reader`]: the operations of a trace, one by one, from any source of bytes, in bounded memory.
//!
//! Damaged parts are passed over and counted ([`Losses`]). All operations that come were written
//! so. A frame is believed if its checksum is right. After a frame that is not, the next marker is
//! looked for byte by byte. A file that ends within a frame was torn: all frames before are given.
//! The numbers of the frames tell how many are missing, and the note at the end tells the number of
//! operations. A frame whose number was there already is passed over: an operation is given once.
//!
//! Memory: two frames ([`FRAME_BYTES_MAX`]) and the names of keyspaces
//! ([`NAMES_BYTES_MAX`](crate::NAMES_BYTES_MAX)), for any file. Time: proportional to the file.
//! Places that look like frames and are none may each cost the checksum of a whole frame. When that
//! adds up to much more than the file has, they are passed over whole, and not byte by byte.
//!
//! Order: that of the file. Operations of one thread come in the order in which they ended;
//! operations of several threads interleave by buffers. [`InOrder`](crate::InOrder) puts them in
//! the order of time.

use crate::codec::Input;
use crate::encode::Decoder;
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{
    EndNote, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FrameHeader, FrameKind, HEADER_BYTES, Header,
    MARKER, Names,
};
use crate::operation::{Kind, Operation};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read, Seek, SeekFrom};

/// Checksums of places that are no frames may cost this many times the bytes that were read of the
/// file, and this number of bytes more.
const VAIN_TIMES: u64 = 16;
const VAIN_BYTES: u64 = 64 << 20;

/// The parts of a trace that could not be given, as far as it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Losses {
    /// Bytes that belong to no frame that can be believed.
    pub skipped_bytes: u64,
    /// Places at which something was skipped.
    pub damaged_places: u64,
    /// Missing frames, by the numbers of the present ones. Some of them may be names.
    pub missing_frames: u64,
    /// Frames that were there already, by their numbers, and were passed over.
    pub repeated_frames: u64,
    /// Operations in frames whose checksum is right, but which cannot be read.
    pub unreadable_operations: u64,
    /// The file ends within a frame.
    pub is_torn: bool,
    /// The trace was not ended, or its end is lost.
    pub has_no_end: bool,
    /// Operations that were written, by the note at the end, and are missing.
    pub missing_operations: u64,
    /// Names of keyspaces beyond the limits.
    pub names_passed_over: u64,
}

impl Losses {
    /// Whether everything that was recorded has been given.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Losses::default()
    }
}

/// In words, for people.
impl fmt::Display for Losses {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        if self.is_torn {
            words.push("the file ends within a frame".to_owned());
        } else if self.has_no_end {
            words.push("the trace was not ended, or its end is lost".to_owned());
        }
        let counts = [
            (
                self.missing_operations,
                "operations that were recorded are not there",
            ),
            (self.unreadable_operations, "operations cannot be read"),
            (self.missing_frames, "frames are missing"),
            (
                self.repeated_frames,
                "frames were there already, and were passed over",
            ),
            (
                self.skipped_bytes,
                "bytes are damaged, and were passed over",
            ),
            (
                self.names_passed_over,
                "names of keyspaces were passed over",
            ),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        words.extend(counts.map(|(count, what)| format!("{count} {what}")));
        if words.is_empty() && self.damaged_places > 0 {
            words.push(format!("{} places are damaged", self.damaged_places));
        }
        to.write_str(&words.join("; "))
    }
}

/// See the module.
pub struct Reader<R> {
    source: R,
    header: Header,
    names: Names,
    /// Bytes that were read from the source and not used, from `at` on.
    buffer: Vec<u8>,
    at: usize,
    /// Offset in the file of `buffer[at]`.
    offset: u64,
    source_ended: bool,
    decoder: Decoder,
    operation: Operation,
    left_in_frame: u32,
    next_sequence: u32,
    given: u64,
    in_damage: bool,
    /// Bytes whose checksum was computed and was not that of a frame.
    vain_bytes: u64,
    is_strict: bool,
    ended: bool,
    end: Option<EndNote>,
    losses: Losses,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// `NotATrace`, `UnsupportedVersion`, `Damaged`, `Io`.
    pub fn new(mut source: R) -> Result<Reader<R>> {
        let mut fixed = [0; HEADER_BYTES];
        let got = read_full(&mut source, &mut fixed)?;
        if got < HEADER_BYTES {
            let message = "this is no trace of EvenDB: it is shorter than a header";
            return Err(Error::new(ErrorKind::NotATrace, message));
        }
        let mut body = vec![0; Header::body_len(&fixed)?];
        if read_full(&mut source, &mut body)? < body.len() {
            return Err(Error::damaged(
                HEADER_BYTES as u64,
                "a header that is cut off",
            ));
        }
        let header = Header::decode(&fixed, &body)?;
        Ok(Reader {
            source,
            names: Names::new(header.keyspaces.clone()),
            header,
            buffer: Vec::new(),
            at: 0,
            offset: (HEADER_BYTES + body.len()) as u64,
            source_ended: false,
            decoder: Decoder::default(),
            operation: Operation::new(Kind::Other, Vec::new()),
            left_in_frame: 0,
            next_sequence: 0,
            given: 0,
            in_damage: false,
            vain_bytes: 0,
            is_strict: false,
            ended: false,
            end: None,
            losses: Losses::default(),
        })
    }

    /// From now on the first damage is an error, and not a counted loss.
    #[must_use]
    pub fn strict(mut self) -> Reader<R> {
        self.is_strict = true;
        self
    }

    /// The header of the trace.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Names of keyspaces by number, as far as it was read.
    #[must_use]
    pub fn keyspaces(&self) -> &BTreeMap<u32, String> {
        self.names.by_number()
    }

    /// The note at the end of the trace, when that was reached.
    #[must_use]
    pub fn end(&self) -> Option<EndNote> {
        self.end
    }

    /// What was lost, as far as it was read; complete when [`next`](Self::next) has given `None`.
    #[must_use]
    pub fn losses(&self) -> Losses {
        self.losses
    }

    /// Bytes of the file that were used so far, for a progress bar.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.offset
    }

    /// The next operation, lent until the next call.
    ///
    /// # Errors
    /// `Io`; `Damaged` of a [strict](Self::strict) reader.
    #[expect(
        clippy::should_implement_trait,
        reason = "a lending iterator cannot be an Iterator"
    )]
    pub fn next(&mut self) -> Result<Option<&Operation>> {
        loop {
            if self.left_in_frame > 0 {
                if self.decoder.next(&mut self.operation).is_some() {
                    self.left_in_frame -= 1;
                    self.given += 1;
                    let is_last = self.left_in_frame == 0;
                    if is_last && !self.decoder.is_at_end() {
                        self.damage("operations beyond those that a frame counts")?;
                        self.losses.damaged_places += 1;
                    }
                    return Ok(Some(&self.operation));
                }
                let lost = std::mem::take(&mut self.left_in_frame);
                self.losses.unreadable_operations += u64::from(lost);
                self.damage("an operation that cannot be read")?;
            }
            if !self.next_frame()? {
                return Ok(None);
            }
        }
    }

    /// All operations that are left, as an iterator of its own.
    pub fn operations(&mut self) -> impl Iterator<Item = Result<Operation>> + '_ {
        std::iter::from_fn(move || self.next().map(|next| next.cloned()).transpose())
    }

    fn damage(&self, what: &str) -> Result<()> {
        match self.is_strict {
            true => Err(Error::damaged(self.offset, what)),
            false => Ok(()),
        }
    }

    /// Goes on to the next frame that can be believed; false at the end of the trace.
    fn next_frame(&mut self) -> Result<bool> {
        loop {
            if self.ended {
                return Ok(false);
            }
            if !self.fill(FRAME_HEADER_BYTES)? {
                self.finish()?;
                return Ok(false);
            }
            let Some(frame) = FrameHeader::read(self.rest()) else {
                self.skip_to_marker("no frame where one should be")?;
                continue;
            };
            let whole = FRAME_HEADER_BYTES + frame.stored;
            let is_there = self.fill(whole)?;
            let opened = is_there && {
                let bytes = &self.buffer[self.at..self.at + whole];
                frame.open(bytes, &mut self.decoder.raw).is_some()
            };
            if !opened {
                self.not_opened(if is_there { whole } else { 0 })?;
                continue;
            }
            self.take(whole);
            self.in_damage = false;
            if self.number(frame.sequence)? && self.begin_frame(&frame)? {
                return Ok(true);
            }
        }
    }

    /// Goes on after a place that looked like a frame. `looked_at` bytes of it were looked at.
    fn not_opened(&mut self, looked_at: usize) -> Result<()> {
        const WHY: &str = "a frame whose checksum is wrong";
        self.vain_bytes += looked_at as u64;
        let affordable = (self.offset.saturating_mul(VAIN_TIMES)).saturating_add(VAIN_BYTES);
        if self.vain_bytes > affordable && looked_at > 0 {
            self.damage(WHY)?;
            self.skip(looked_at);
            return Ok(());
        }
        // If the length itself is damaged too, the frames after it must not be taken for its bytes.
        self.skip_to_marker(WHY)
    }

    /// Counts the frames that are missing before this one; false if it was there already.
    fn number(&mut self, sequence: u32) -> Result<bool> {
        let missing = sequence.wrapping_sub(self.next_sequence);
        if missing >= u32::MAX / 2 {
            self.losses.repeated_frames += 1;
            self.damage("a frame that was there already")?;
            return Ok(false);
        }
        if missing > 0 {
            self.losses.missing_frames += u64::from(missing);
            self.damage("a frame is missing")?;
        }
        self.next_sequence = sequence.wrapping_add(1);
        Ok(true)
    }

    /// Begins a frame. Returns whether it has operations.
    fn begin_frame(&mut self, frame: &FrameHeader) -> Result<bool> {
        match frame.kind {
            FrameKind::Operations => {
                self.left_in_frame = frame.operations;
                self.decoder.begin(&mut self.operation);
                if frame.operations == 0 && !self.decoder.is_at_end() {
                    self.losses.damaged_places += 1;
                    self.damage("operations in a frame that counts none")?;
                }
                return Ok(frame.operations > 0);
            }
            FrameKind::Names => {
                let mut input = Input::new(&self.decoder.raw);
                match self.names.read(&mut input) {
                    Some(passed_over) => self.losses.names_passed_over += passed_over,
                    None => {
                        self.losses.damaged_places += 1;
                        self.damage("names that cannot be read")?;
                    }
                }
            }
            FrameKind::End => match EndNote::decode(&self.decoder.raw) {
                Some(note) => {
                    self.end = Some(note);
                    self.finish()?;
                }
                None => {
                    self.losses.damaged_places += 1;
                    self.damage("an end that cannot be read")?;
                }
            },
        }
        Ok(false)
    }

    fn finish(&mut self) -> Result<()> {
        self.ended = true;
        let left = self.rest().len() as u64;
        if left > 0 && self.end.is_none() {
            self.losses.is_torn = true;
            self.skip(left as usize);
            self.damage("the file ends within a frame")?;
        }
        match self.end {
            None => {
                self.losses.has_no_end = true;
                self.damage("the trace has no end")?;
            }
            Some(note) => {
                self.losses.missing_operations = note.recorded.saturating_sub(self.given);
                if self.losses.missing_operations > 0 {
                    self.damage("fewer operations than the end counts")?;
                }
            }
        }
        Ok(())
    }

    fn rest(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    fn take(&mut self, bytes: usize) {
        self.at += bytes;
        self.offset += bytes as u64;
    }

    fn skip(&mut self, bytes: usize) {
        self.losses.skipped_bytes += bytes as u64;
        self.losses.damaged_places += u64::from(!self.in_damage);
        self.in_damage = true;
        self.take(bytes);
    }

    /// Passes over at least one byte, and goes on to where the next frame may begin.
    fn skip_to_marker(&mut self, what: &str) -> Result<()> {
        self.damage(what)?;
        let rest = &self.rest()[1..];
        let found = rest.windows(MARKER.len()).position(|at| at == MARKER);
        // A marker may begin in the last bytes of the buffer.
        let bytes = match found {
            Some(at) => at + 1,
            None if self.source_ended => self.rest().len(),
            None => self.rest().len().saturating_sub(MARKER.len() - 1).max(1),
        };
        if found.is_none() && self.source_ended {
            self.losses.is_torn = true;
        }
        self.skip(bytes);
        Ok(())
    }

    /// Fills the buffer with at least this number of bytes, unless the source ends before.
    fn fill(&mut self, bytes: usize) -> Result<bool> {
        debug_assert!(
            bytes <= FRAME_HEADER_BYTES + FRAME_BYTES_MAX,
            "lengths were checked"
        );
        if self.rest().len() >= bytes || self.source_ended {
            return Ok(self.rest().len() >= bytes);
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        let target = bytes.max(64 << 10);
        while self.buffer.len() < bytes && !self.source_ended {
            let before = self.buffer.len();
            self.buffer.resize(target.max(before), 0);
            let got = read_full(&mut self.source, &mut self.buffer[before..]);
            let got = got.inspect_err(|_| self.buffer.truncate(before))?;
            self.buffer.truncate(before + got);
            self.source_ended = before + got < target;
        }
        Ok(self.buffer.len() >= bytes)
    }
}

/// The names of all keyspaces of a trace by number, with those that were made while it was
/// recorded. In a trace that is whole it reads the heads of frames and the names, and seeks over
/// the operations. It reads all of a damaged trace.
///
/// # Errors
/// As [`Reader::new`] and [`Reader::next`].
pub fn keyspaces_of<R: Read + Seek>(mut source: R) -> Result<BTreeMap<u32, String>> {
    let mut reader = Reader::new(&mut source)?;
    let mut raw = Vec::new();
    loop {
        let mut head = [0; FRAME_HEADER_BYTES];
        if read_full(reader.source, &mut head)? < FRAME_HEADER_BYTES {
            break;
        }
        let Some(frame) = FrameHeader::read(&head) else {
            break;
        };
        match frame.kind {
            FrameKind::Operations => {
                reader.source.seek(SeekFrom::Current(frame.stored as i64))?;
            }
            FrameKind::Names => {
                let mut bytes = head.to_vec();
                bytes.resize(FRAME_HEADER_BYTES + frame.stored, 0);
                let got = read_full(reader.source, &mut bytes[FRAME_HEADER_BYTES..])?;
                let is_whole = got == frame.stored && frame.open(&bytes, &mut raw).is_some();
                if !is_whole || reader.names.read(&mut Input::new(&raw)).is_none() {
                    break;
                }
            }
            FrameKind::End => return Ok(reader.names.by_number().clone()),
        }
    }
    source.rewind()?;
    let mut reader = Reader::new(source)?;
    while reader.next()?.is_some() {}
    Ok(reader.names.by_number().clone())
}

/// Reads until the slice is full or the source ends. Returns the number of bytes.
fn read_full(source: &mut impl Read, mut to: &mut [u8]) -> Result<usize> {
    let mut got = 0;
    while !to.is_empty() {
        match source.read(to) {
            Ok(0) => break,
            Ok(read) => {
                got += read;
                to = &mut to[read..];
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::{FRAME_BYTES_MAX, MARKER, Reader, VAIN_BYTES, VAIN_TIMES};
    use crate::{Header, Kind, Operation, Writer};

    /// A file that has only heads of frames, and each head claims the longest possible frame. The
    /// cost of checksums stays in proportion to the file, all damage is told, and a good frame
    /// after it is found.
    #[test]
    fn heads_that_claim_the_longest_frame_cost_no_more_than_the_file() {
        let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        writer.add(&Operation::new(Kind::Get, "k")).unwrap();
        let good = writer.finish().unwrap().0;
        let header = 24 + u32::from_le_bytes(good[12..16].try_into().unwrap()) as usize;
        let mut head = MARKER.to_vec();
        head.extend_from_slice(&[1, 1, 0, 0]);
        for _ in 0..2 {
            head.extend_from_slice(&(FRAME_BYTES_MAX as u32).to_le_bytes());
        }
        head.resize(32, 0);
        let mut bytes = good[..header].to_vec();
        for _ in 0..(3 << 20) / head.len() {
            bytes.extend_from_slice(&head);
        }
        // The part that is passed over whole ends before the last of them. There, bytes are looked
        // at one by one again.
        bytes.extend_from_slice(&vec![0; FRAME_BYTES_MAX + 32]);
        bytes.extend_from_slice(&good[header..]);
        let mut reader = Reader::new(&bytes[..]).unwrap();
        assert_eq!(reader.operations().count(), 1);
        let skipped = reader.losses().skipped_bytes;
        assert_eq!(skipped, (bytes.len() - good.len()) as u64);
        let affordable = bytes.len() as u64 * VAIN_TIMES + VAIN_BYTES + FRAME_BYTES_MAX as u64;
        let every_head = (3 << 20) / 32 * FRAME_BYTES_MAX as u64;
        assert!(reader.vain_bytes <= affordable && affordable < every_head / 100);
    }
}

//! [`Writer`]: a trace from operations that one caller has, as in a conversion.
//! [`Recorder`](crate::Recorder) is for many threads.

use crate::encode::Encoder;
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{EndNote, FrameKind, Header, encode_frame, put_names};
use crate::operation::{Call, Operation};
use std::collections::BTreeMap;
use std::io::Write;

/// A frame is ended at about this number of bytes. With the largest operation it stays below the
/// limit.
const FRAME_BYTES: usize = 64 << 10;

/// Writes a trace. A trace that was not [finished](Writer::finish) has no end.
pub struct Writer<W: Write> {
    frames: FrameWriter<W>,
    encoder: Encoder,
    last_nanos: u64,
    dropped: EndNote,
}

impl<W: Write> Writer<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// `Io`, `TooLarge`.
    pub fn new(to: W, header: &Header) -> Result<Writer<W>> {
        Ok(Writer {
            frames: FrameWriter::new(to, header)?,
            encoder: Encoder::default(),
            last_nanos: 0,
            dropped: EndNote::default(),
        })
    }

    /// Adds an operation.
    ///
    /// # Errors
    /// `TooLarge` (it is left out, and the writer goes on), `Io`.
    pub fn add(&mut self, operation: &Operation) -> Result<()> {
        let (thread, start) = (operation.thread, operation.start_nanos);
        self.add_call(&operation.as_call(), thread, start, operation.latency_nanos)
    }

    /// Adds an operation with borrowed bytes.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn add_call(
        &mut self,
        call: &Call<'_>,
        thread: u32,
        start_nanos: u64,
        latency_nanos: Option<u64>,
    ) -> Result<()> {
        self.encoder.add(call, thread, start_nanos, latency_nanos)?;
        let end = start_nanos.saturating_add(latency_nanos.unwrap_or_default());
        self.last_nanos = self.last_nanos.max(end);
        match self.encoder.raw.len() < FRAME_BYTES {
            true => Ok(()),
            false => self.end_frame(),
        }
    }

    /// Names a keyspace, if that was not done in the header.
    ///
    /// # Errors
    /// `Io`.
    pub fn name_keyspace(&mut self, number: u32, name: &str) -> Result<()> {
        self.end_frame()?;
        self.frames.names(&[(number, name.to_owned())].into())
    }

    fn end_frame(&mut self) -> Result<()> {
        if self.encoder.operations == 0 {
            return Ok(());
        }
        let (raw, operations) = self.encoder.take(Vec::with_capacity(FRAME_BYTES));
        self.frames.operations(&raw, operations)
    }

    /// Adds a note for the end: this number of operations of the source is not in the trace.
    pub fn note_dropped(&mut self, full: u64, behind: u64) {
        self.dropped.dropped_full += full;
        self.dropped.dropped_behind += behind;
    }

    /// Adds a note for the end: this number of operations was recorded and is lost, or could not be
    /// read from the trace that is converted. Readers of the trace are told so.
    pub fn note_lost(&mut self, operations: u64) {
        self.dropped.recorded += operations;
    }

    /// Leaves the trace without an end, because its source has none. Gives back the target of the
    /// writes.
    ///
    /// # Errors
    /// `Io`.
    pub fn finish_without_end(mut self) -> Result<W> {
        self.end_frame()?;
        self.frames.to.flush()?;
        Ok(self.frames.to)
    }

    /// Ends the trace, and gives back the target of the writes.
    ///
    /// # Errors
    /// The first failure of a write.
    pub fn finish(mut self) -> Result<(W, EndNote)> {
        self.end_frame()?;
        let note = EndNote {
            recorded: self.frames.recorded + self.dropped.recorded,
            duration_nanos: self.last_nanos,
            ..self.dropped
        };
        self.frames.end(&note)?;
        Ok((self.frames.to, note))
    }
}

/// Frames in order, each with the next number.
pub(crate) struct FrameWriter<W: Write> {
    pub(crate) to: W,
    sequence: u32,
    /// Bytes so far.
    pub(crate) bytes: u64,
    /// Operations so far.
    pub(crate) recorded: u64,
    out: Vec<u8>,
}

impl<W: Write> FrameWriter<W> {
    pub(crate) fn new(mut to: W, header: &Header) -> Result<FrameWriter<W>> {
        let bytes = header.encode()?;
        to.write_all(&bytes)?;
        Ok(FrameWriter {
            to,
            sequence: 0,
            bytes: bytes.len() as u64,
            recorded: 0,
            out: Vec::new(),
        })
    }

    fn operations(&mut self, raw: &[u8], operations: u32) -> Result<()> {
        self.operations_within(raw, operations, u64::MAX)?;
        Ok(())
    }

    /// Writes operations, unless the file would then be above `bytes_max`.
    pub(crate) fn operations_within(
        &mut self,
        raw: &[u8],
        operations: u32,
        bytes_max: u64,
    ) -> Result<bool> {
        self.encode(FrameKind::Operations, raw, operations)?;
        if self.bytes + self.out.len() as u64 > bytes_max {
            return Ok(false);
        }
        self.write_out()?;
        self.recorded += u64::from(operations);
        Ok(true)
    }

    pub(crate) fn names(&mut self, names: &BTreeMap<u32, String>) -> Result<()> {
        let mut raw = Vec::new();
        put_names(&mut raw, names);
        self.frame(FrameKind::Names, &raw, 0)
    }

    pub(crate) fn end(&mut self, note: &EndNote) -> Result<()> {
        self.frame(FrameKind::End, &note.encode(), 0)?;
        Ok(self.to.flush()?)
    }

    fn frame(&mut self, kind: FrameKind, raw: &[u8], operations: u32) -> Result<()> {
        self.encode(kind, raw, operations)?;
        self.write_out()
    }

    fn encode(&mut self, kind: FrameKind, raw: &[u8], operations: u32) -> Result<()> {
        if raw.len() > crate::FRAME_BYTES_MAX {
            let message = format!("a frame of {} bytes", raw.len());
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        self.out.clear();
        encode_frame(&mut self.out, kind, (raw, operations), self.sequence);
        Ok(())
    }

    fn write_out(&mut self) -> Result<()> {
        self.to.write_all(&self.out)?;
        self.sequence = self.sequence.wrapping_add(1);
        self.bytes += self.out.len() as u64;
        Ok(())
    }
}

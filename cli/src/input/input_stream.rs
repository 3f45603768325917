//! The input of `import` and `verify-import`: a file or standard input.
//!
//! Standard input is read by a thread of its own: a flag that a signal sets cannot interrupt a read
//! that waits for a pipe, but it can end a wait for a channel. After an interruption the input
//! simply ends; the caller looks at the flag before it trusts the end.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use evendb_lab::standard_streams;

use crate::failure::Failure;
use crate::foreign;
use crate::interrupt::Interrupt;
use crate::open::DEFAULT_MEMORY_BYTES;

const BUFFER_BYTES: usize = 1 << 20;

/// The bytes of an argument that becomes a value. `-` stands for all of standard input, which may
/// be as long as a value in a database with this memory budget.
pub fn bytes_of(argument: &str, memory: Option<u64>) -> Result<Vec<u8>, Failure> {
    if argument != "-" {
        return Ok(argument.as_bytes().to_vec());
    }
    let mut bytes = Vec::new();
    let most = memory.unwrap_or(DEFAULT_MEMORY_BYTES) / 4;
    standard_streams::input()
        .and_then(|input| input.take(most + 1).read_to_end(&mut bytes))
        .map_err(|error| Failure::new("cannot read standard input", error))?;
    if bytes.len() as u64 > most {
        return Err(Failure::Message(format!(
            "standard input has more than {most} bytes, and a value may have a quarter of the memory budget; \
             --memory raises it"
        )));
    }
    Ok(bytes)
}

/// Opens the input. Returns its size too, if that is known.
pub fn open(
    path: &Path,
    interrupt: &Interrupt,
) -> Result<(Box<dyn BufRead>, Option<u64>), Failure> {
    if path == Path::new("-") {
        let reader = ChannelReader::new(interrupt.clone());
        return Ok((
            Box::new(BufReader::with_capacity(BUFFER_BYTES, reader)),
            None,
        ));
    }
    refuse_directory(path)?;
    let failed = |error| Failure::new(format!("cannot read {}", path.display()), error);
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let size = metadata.is_file().then_some(metadata.len());
    Ok((Box::new(BufReader::with_capacity(BUFFER_BYTES, file)), size))
}

/// Opening a directory works; only the first read of it would fail.
pub fn refuse_directory(path: &Path) -> Result<(), Failure> {
    if !path.is_dir() {
        return Ok(());
    }
    if let Some(foreign) = foreign::of(path) {
        return Err(Failure::Message(foreign::named(path, foreign)));
    }
    let what = match path.join("CURRENT").exists() {
        true => "a database: `evendb scan` prints its records",
        false => "a directory",
    };
    Err(Failure::Message(format!(
        "cannot read {}: it is {what}; give a file",
        path.display()
    )))
}

struct ChannelReader {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    used: usize,
    interrupt: Interrupt,
}

impl ChannelReader {
    fn new(interrupt: Interrupt) -> Self {
        let (sender, pieces) = mpsc::sync_channel(4);
        thread::spawn(move || {
            let mut input = match standard_streams::input() {
                Ok(input) => input,
                Err(error) => {
                    let _ = sender.send(Err(error));
                    return;
                }
            };
            loop {
                let mut piece = vec![0; BUFFER_BYTES];
                let read = input.read(&mut piece).map(|bytes| {
                    piece.truncate(bytes);
                    piece
                });
                let last = !matches!(&read, Ok(piece) if !piece.is_empty());
                if sender.send(read).is_err() || last {
                    return;
                }
            }
        });
        Self {
            pieces,
            piece: Vec::new(),
            used: 0,
            interrupt,
        }
    }
}

impl Read for ChannelReader {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        while self.used == self.piece.len() {
            if self.interrupt.raised() {
                return Ok(0);
            }
            match self.pieces.recv_timeout(Duration::from_millis(100)) {
                Ok(piece) => {
                    self.piece = piece?;
                    self.used = 0;
                    if self.piece.is_empty() {
                        return Ok(0);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
        }
        let bytes = target.len().min(self.piece.len() - self.used);
        target[..bytes].copy_from_slice(&self.piece[self.used..self.used + bytes]);
        self.used += bytes;
        Ok(bytes)
    }
}

//! Where a conversion writes: the formats, and how each is ended.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::Path;

use clap::ValueEnum;
use evendb_lab::readable::grouped;
use evendb_trace::formats::{self, RocksDbWriter, Written};
use evendb_trace::{Header, Operation, Writer};

use super::failed;
use crate::failure::Failure;
use crate::output;

/// A format to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum ToFormat {
    /// EvenDB's own
    Evendb,
    /// RocksDB's query trace 0.2, which db_bench --benchmarks=replay takes
    Rocksdb,
    /// RocksDB's human-readable form
    RocksdbText,
}

/// Where operations go.
pub(super) struct Target {
    form: Form,
    /// Writing has failed.
    pub(super) has_failed: bool,
}

enum Form {
    Own(Box<Writer<BufWriter<File>>>),
    RocksDb(Box<RocksDbWriter<BufWriter<File>>>),
    Text {
        to: BufWriter<File>,
        begin_micros: u64,
        left_out: u64,
    },
}

/// Makes the file to write.
pub(super) fn made(to: &Path) -> Result<File, Failure> {
    output::refuse_inside_database(to, "a trace")?;
    let file = OpenOptions::new().write(true).create_new(true).open(to);
    file.map_err(|error| Failure::new(format!("cannot make {}", to.display()), error))
}

impl Target {
    pub(super) fn new(
        (to, file): (&Path, File),
        format: ToFormat,
        header: &Header,
    ) -> Result<Target, Failure> {
        let file = BufWriter::with_capacity(256 << 10, file);
        let begin_micros = header.wall_clock_millis.saturating_mul(1000);
        let form = match format {
            ToFormat::Evendb => {
                let writer = Writer::new(file, header).map_err(|error| failed(to, &error))?;
                Form::Own(Box::new(writer))
            }
            ToFormat::Rocksdb => {
                let writer = RocksDbWriter::new(file, begin_micros);
                Form::RocksDb(Box::new(writer.map_err(|error| failed(to, &error))?))
            }
            ToFormat::RocksdbText => Form::Text {
                to: file,
                begin_micros,
                left_out: 0,
            },
        };
        Ok(Target {
            form,
            has_failed: false,
        })
    }

    /// Names a keyspace, if the form has names.
    pub(super) fn name_keyspace(&mut self, number: u32, name: &str) -> evendb_trace::Result<()> {
        let named = match &mut self.form {
            Form::Own(writer) => writer.name_keyspace(number, name),
            Form::RocksDb(_) | Form::Text { .. } => Ok(()),
        };
        self.noted(named)
    }

    pub(super) fn add(&mut self, operation: &Operation) -> evendb_trace::Result<()> {
        let added = match &mut self.form {
            Form::Own(writer) => writer.add(operation),
            Form::RocksDb(writer) => writer.add(operation),
            Form::Text {
                to,
                begin_micros,
                left_out,
            } => {
                let written = formats::write_rocksdb_text(to, operation, *begin_micros);
                written.map(|written| *left_out += u64::from(!written))
            }
        };
        self.noted(added)
    }

    fn noted(&mut self, done: evendb_trace::Result<()>) -> evendb_trace::Result<()> {
        let kind = done.as_ref().err().map(evendb_trace::Error::kind);
        self.has_failed |= kind == Some(evendb_trace::ErrorKind::Io);
        done
    }

    /// Notes for the end of the trace, if the form has such: operations that the source's recorder
    /// left out, and operations that are lost.
    pub(super) fn note(&mut self, (full, behind): (u64, u64), lost: u64) {
        if let Form::Own(writer) = &mut self.form {
            writer.note_dropped(full, behind);
            writer.note_lost(lost);
        }
    }

    /// Ends the written trace, if its source has an end.
    pub(super) fn finish(self, path: &Path, is_torn: bool) -> Result<(), Failure> {
        let wrong = |error: evendb_trace::Error| failed(path, &error);
        match self.form {
            Form::Own(writer) if is_torn => {
                writer.finish_without_end().map_err(wrong)?;
            }
            Form::Own(writer) => {
                writer.finish().map_err(wrong)?;
            }
            Form::RocksDb(writer) => {
                let (_, written) = writer.finish().map_err(wrong)?;
                tell(&written);
            }
            Form::Text {
                mut to, left_out, ..
            } => {
                let written = to.flush();
                let cannot =
                    |error| Failure::new(format!("cannot write {}", path.display()), error);
                written.map_err(cannot)?;
                if left_out > 0 {
                    output::complain(&format!(
                        "evendb: {} operations are none of RocksDB's form, and were left out",
                        grouped(left_out)
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Says what RocksDB's form lacks of the trace, and what was made for it.
fn tell(written: &Written) {
    for (why, count) in &written.left_out {
        output::complain(&format!("evendb: left out: {why}: {}", grouped(*count)));
    }
    let counted = [
        (
            written.values_made,
            "values were made, because the trace has their length alone",
        ),
        (
            written.lengths_made,
            "of them have 100 bytes, because the trace does not have their length either",
        ),
        (written.scans, "scans are seeks: their lengths are lost"),
        (
            written.written_early,
            "parts of batches and transactions were written before their end: too many were open",
        ),
    ];
    for (count, what) in counted.into_iter().filter(|(count, _)| *count > 0) {
        output::complain(&format!("evendb: {} {what}", grouped(count)));
    }
}

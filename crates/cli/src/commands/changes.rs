//! `evendb changes`: prints what was written, in the order of the commit log.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::ops::Bound;
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use evendb::{Change, Db, Durability, ErrorKind, Position};
use serde_json::{Value, json};

use crate::failure::{Failure, Success};
use crate::interrupt::Interrupt;
use crate::open::{DatabaseArguments, Purpose};
use crate::output::{complain, escaped, text_or_hex};
use crate::time_text::show_time;

/// How often `--follow` looks whether the database was written.
const LOOK: Duration = Duration::from_millis(200);

/// Print what was written, in the order in which it was
///
/// Each put, delete, batch and transaction is one change, with the position after it; --since goes on from
/// such a position. Without it, everything that the commit log still has is printed. Large writes are kept
/// until the next checkpoint only, and changes of keyspaces that were dropped are left out.
///
/// The command opens the database itself, for reading only: while another process has it open for writing, it is
/// locked. With --follow the command waits until that process has closed it (or died), prints what it wrote, and gives
/// the database free again; it holds it only for a moment after each such process. A program that wants each
/// change at once follows in its own process, by Db::changes_since.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb changes events.db --output json
  evendb changes events.db --position > at
  evendb changes events.db --since $(cat at) --follow

The form text has one line for each write: position, keyspace, put, delete or delete range, key, and of a put the value,
of a range the first key behind it (none: the end of the keyspace), and of a put that expires `until` and the time, with tabs between them; lines of one position are one change. Control characters, backslashes and bytes that are no UTF-8
are escapes as \\t or \\xNN. The form json has one object for each change.")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    /// Only what was written after this position
    #[arg(long, value_name = "POSITION")]
    since: Option<Position>,
    /// Wait for more, and print it, until interrupted
    #[arg(long, conflicts_with = "position")]
    follow: bool,
    /// Print only the position after the last change
    #[arg(long, conflicts_with = "since")]
    position: bool,
    /// How to write the changes
    #[arg(long, value_enum, default_value = "text")]
    output: ChangeForm,
}

/// The form of a change in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ChangeForm {
    /// One line for each write
    Text,
    /// One JSON object a line for each change
    Json,
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let place = &arguments.database;
    place.engine.need_evendb(&place.db, "record of changes")?;
    let interrupt = Interrupt::install()?;
    let mut target = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut position = arguments.since;
    let mut looked = None;
    while !interrupt.raised() {
        let current = current(arguments);
        if looked.as_ref() != Some(&current) {
            match arguments.database.try_reading_evendb() {
                Ok(database) => {
                    if arguments.position {
                        writeln!(target, "{}", database.position()?)?;
                    } else {
                        position = Some(print(arguments, &database, position, &mut target)?);
                    }
                    database.close()?;
                    target.flush()?;
                    looked = Some(current);
                }
                // Its owner's writes are printed when it has gone.
                Err(error) if arguments.follow && error.kind() == ErrorKind::Locked => {}
                Err(error) => return Err(arguments.database.not_opened(Purpose::Reading, &error)),
            }
        }
        if !arguments.follow {
            return Ok(Success::Done);
        }
        thread::sleep(LOOK);
    }
    if let Some(position) = position {
        complain(&format!("interrupted; --since {position} goes on"));
    }
    Err(Failure::Interrupted)
}

/// What changes whenever the database is opened for writing, or closed.
fn current(arguments: &Arguments) -> Vec<u8> {
    fs::read(arguments.database.db.join("CURRENT")).unwrap_or_default()
}

/// Prints what comes after `since`; the position after it.
fn print(
    arguments: &Arguments,
    database: &Db,
    since: Option<Position>,
    target: &mut impl Write,
) -> Result<Position, Failure> {
    let only = arguments.database.keyspace.as_deref();
    // It must be there.
    arguments.database.existing_keyspace(database)?;
    let since = match since {
        Some(since) => since,
        None => database.oldest_position()?,
    };
    let mut changes = database.changes_since(&since)?;
    for change in &mut changes {
        let change = change?;
        match arguments.output {
            ChangeForm::Text => write_lines(target, &change, only)?,
            ChangeForm::Json => write_object(target, &change, only)?,
        }
    }
    Ok(changes.position())
}

fn write_lines(target: &mut impl Write, change: &Change, only: Option<&str>) -> io::Result<()> {
    let position = change.position();
    for write in change {
        if only.is_some_and(|only| only != write.keyspace) {
            continue;
        }
        let (keyspace, key) = (escaped(write.keyspace.as_bytes()), escaped(write.key));
        if let Some(operands) = write.operands {
            for operand in operands.iter() {
                let operand = escaped(operand);
                writeln!(target, "{position}\t{keyspace}\tmerge\t{key}\t{operand}")?;
            }
            continue;
        }
        let (what, rest) = match (write.value, write.deleted_to) {
            (Some(value), _) => ("put", Some(escaped(value))),
            (None, None) => ("delete", None),
            (None, Some(Bound::Excluded(behind))) => ("delete range", Some(escaped(behind))),
            (None, Some(_)) => ("delete range", None),
        };
        let until = write
            .expires
            .map(|at| format!("\tuntil {}", show_time(&at)));
        let rest = rest.map_or_else(String::new, |rest| format!("\t{rest}"));
        let rest = rest + &until.unwrap_or_default();
        writeln!(target, "{position}\t{keyspace}\t{what}\t{key}{rest}")?;
    }
    Ok(())
}

fn write_object(target: &mut impl Write, change: &Change, only: Option<&str>) -> io::Result<()> {
    let writes = change.writes();
    let writes = writes.filter(|write| only.is_none_or(|only| only == write.keyspace));
    let writes: Vec<Value> = writes
        .map(|write| {
            let mut object = json!({ "keyspace": write.keyspace, "key": text_or_hex(write.key) });
            match (write.value, write.operands) {
                (Some(value), _) => object["value"] = text_or_hex(value),
                (None, Some(operands)) => {
                    object["operands"] = operands.iter().map(text_or_hex).collect();
                }
                (None, None) => object["deleted"] = json!(true),
            }
            if let Some(at) = write.expires {
                object["expires"] = json!(show_time(&at));
            }
            match write.deleted_to {
                Some(Bound::Excluded(behind)) => object["deleted_to"] = text_or_hex(behind),
                Some(_) => object["deleted_to"] = Value::Null,
                None => {}
            }
            object
        })
        .collect();
    if writes.is_empty() {
        return Ok(());
    }
    let durable = change.durability() == Durability::Sync;
    let object = json!({
        "position": change.position().to_string(),
        "durable": durable,
        "writes": writes,
    });
    writeln!(target, "{object}")
}

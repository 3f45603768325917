//! `evendb changes`: prints what was written, in the order of the commit log.

use evendb::vfs::OsVfs;
use std::collections::BTreeMap;
use std::io::{BufWriter, Read, Write};
use std::ops::Bound;
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use evendb::{Change, Db, Durability, ErrorKind, Position};
use serde_json::{Value, json};

use crate::failure::{Failure, Success};
use crate::interrupt::Interrupt;
use crate::key_types;
use crate::keys::ColumnType;
use crate::open::{DatabaseArguments, Purpose};
use crate::output::{bound_field, bound_json, complain, escaped, key_field, key_json, out};
use crate::store::Store;
use crate::time_text::show_time;
use crate::values::Values;

/// How often `--follow` looks whether the database was written.
const LOOK: Duration = Duration::from_millis(200);

/// Print what was written, in the order in which it was
///
/// Each put, delete, batch and transaction is one change, with the position after it; --since goes
/// on from such a position. Without it, everything that the commit log still has is printed. Large
/// writes are kept until the next checkpoint only, and changes of keyspaces that were dropped are
/// left out.
///
/// The command opens the database itself, for reading only: while another process has it open for
/// writing, it is locked. With --follow the command waits until that process has closed it (or
/// died), prints what it wrote, and gives the database free again; it holds it only for a moment
/// after each such process. A program that wants each change at once follows in its own process, by
/// Db::changes_since.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb changes events.db --output json
  evendb changes events.db --position > at
  evendb changes events.db --since $(cat at) --follow

The form text has one line for each write: position, keyspace, put, delete, delete range or merge, key, and of a put the value,
of a merge the operand, of a range the first key behind it (none: the end of the keyspace), and of a put that expires `until` and
the time, with tabs between them; lines of one position are one change. A key of several columns is these with commas between
them, as arguments have it. Control characters, marks of direction, backslashes and bytes that are no UTF-8 are escapes as \\t or \\xNN; a limit
of a range that is no column of the keyspace's key types begins with \\k, and a value that is no number where the keyspace adds
numbers with \\v. The form json has one object for each change, with keys and values as `scan --output json` has them.")]
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
    /// Write keys and values as their bytes, with any key types and operators of the keyspaces
    #[arg(long)]
    raw: bool,
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
    let interrupt = Interrupt::install()?;
    let mut target = BufWriter::with_capacity(1 << 16, out());
    let mut position = arguments.since;
    let mut looked = None;
    while !interrupt.raised() {
        let current = current(arguments);
        if looked.as_ref() != Some(&current) {
            match arguments.database.try_reading() {
                Ok(database) => {
                    if arguments.follow && has_no_log(&database)? {
                        complain(NO_LOG_YET);
                    } else if arguments.position {
                        writeln!(target, "{}", database.position()?)?;
                    } else {
                        position = Some(print(arguments, &database, position, &mut target)?);
                    }
                    database.close()?;
                    target.flush()?;
                    looked = Some(current);
                }
                // The owner's writes are printed after it has gone.
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

const NO_LOG_YET: &str = "waiting: the database has no commit log yet, as one that was restored \
                          or copied and that nobody has written to since";

/// Whether nothing has been logged in the database, for example because it was restored.
fn has_no_log(database: &Db) -> Result<bool, Failure> {
    match database.oldest_position() {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(true),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(false),
    }
}

/// `CURRENT` has at most this number of bytes.
const CURRENT_BYTES_MAX: u64 = 1 << 10;

/// Bytes that change whenever the database is opened for writing, or closed.
fn current(arguments: &Arguments) -> Vec<u8> {
    let mut bytes = Vec::new();
    let file = OsVfs::regular_file(&arguments.database.db.join("CURRENT"));
    let read = file.and_then(|file| file.take(CURRENT_BYTES_MAX).read_to_end(&mut bytes));
    read.map_or_else(|_| Vec::new(), |_| bytes)
}

/// Prints the changes after `since`. Returns the position after them.
fn print(
    arguments: &Arguments,
    database: &Db,
    since: Option<Position>,
    target: &mut impl Write,
) -> Result<Position, Failure> {
    let only = arguments.database.keyspace.as_deref();
    // The keyspace must be there.
    arguments.database.existing_keyspace(database)?;
    let since = match since {
        Some(since) => since,
        None => database.oldest_position()?,
    };
    let mut changes = database.changes_since(&since)?;
    let mut shapes = Shapes {
        database,
        raw: arguments.raw,
        known: BTreeMap::new(),
    };
    for change in &mut changes {
        let change = change?;
        let writes = change.writes();
        let writes = writes.filter(|write| only.is_none_or(|only| only == write.keyspace));
        match arguments.output {
            ChangeForm::Text => write_lines(target, &change.position(), writes, &mut shapes)?,
            ChangeForm::Json => write_object(target, &change, writes, &mut shapes)?,
        }
    }
    Ok(changes.position())
}

/// What the keys and the values of a keyspace are.
#[derive(Default)]
struct Shape {
    types: Vec<ColumnType>,
    values: Values,
}

/// The shapes of all keyspaces. Each is asked for once.
struct Shapes<'d> {
    database: &'d Db,
    raw: bool,
    known: BTreeMap<String, Shape>,
}

impl Shapes<'_> {
    fn of(&mut self, keyspace: &str) -> Result<&Shape, Failure> {
        if !self.known.contains_key(keyspace) {
            let shape = self.find(keyspace)?;
            self.known.insert(keyspace.to_owned(), shape);
        }
        Ok(&self.known[keyspace])
    }

    fn find(&self, keyspace: &str) -> Result<Shape, Failure> {
        if self.raw || !self.database.keyspace_exists(keyspace) {
            return Ok(Shape::default());
        }
        let store = Store::of(self.database.clone()).at_keyspace(keyspace)?;
        Ok(Shape {
            types: key_types::remembered(&store)?.unwrap_or_default(),
            values: Values::of(&store)?,
        })
    }
}

fn write_lines<'w>(
    target: &mut impl Write,
    position: &Position,
    writes: impl Iterator<Item = evendb::Write<'w>>,
    shapes: &mut Shapes<'_>,
) -> Result<(), Failure> {
    for write in writes {
        let Shape { types, values } = shapes.of(write.keyspace)?;
        let keyspace = escaped(write.keyspace.as_bytes());
        let key = match write.deleted_to {
            Some(_) => bound_field(types, write.key),
            None => key_field(types, write.key),
        };
        if let Some(operands) = write.operands {
            for operand in operands.iter() {
                let operand = values.as_text(operand);
                writeln!(target, "{position}\t{keyspace}\tmerge\t{key}\t{operand}")?;
            }
            continue;
        }
        let (what, rest) = match (write.value, write.deleted_to) {
            (Some(value), _) => ("put", Some(values.as_text(value))),
            (None, None) => ("delete", None),
            (None, Some(Bound::Excluded(behind))) => {
                ("delete range", Some(bound_field(types, behind)))
            }
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

fn write_object<'w>(
    target: &mut impl Write,
    change: &Change,
    writes: impl Iterator<Item = evendb::Write<'w>>,
    shapes: &mut Shapes<'_>,
) -> Result<(), Failure> {
    let mut objects: Vec<Value> = Vec::new();
    for write in writes {
        let Shape { types, values } = shapes.of(write.keyspace)?;
        let key = match write.deleted_to {
            Some(_) => bound_json(types, write.key),
            None => key_json(types, write.key),
        };
        let mut object = json!({ "keyspace": write.keyspace, "key": key });
        match (write.value, write.operands) {
            (Some(value), _) => object["value"] = values.as_json(value),
            (None, Some(operands)) => {
                let operands = operands.iter().map(|operand| values.as_json(operand));
                object["operands"] = operands.collect();
            }
            (None, None) => object["deleted"] = json!(true),
        }
        if let Some(at) = write.expires {
            object["expires"] = json!(show_time(&at));
        }
        match write.deleted_to {
            Some(Bound::Excluded(behind)) => object["deleted_to"] = bound_json(types, behind),
            Some(_) => object["deleted_to"] = Value::Null,
            None => {}
        }
        objects.push(object);
    }
    if objects.is_empty() {
        return Ok(());
    }
    let durable = change.durability() == Durability::Sync;
    let object = json!({
        "position": change.position().to_string(),
        "durable": durable,
        "writes": objects,
    });
    writeln!(target, "{object}")?;
    Ok(())
}

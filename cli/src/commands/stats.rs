//! `evendb stats`: the figures of a database.

use std::io::Write;
use std::path::Path;

use evendb::LiveStats;
use serde_json::{Map, Value};

use crate::commands::stats_watch;
use crate::failure::{Failure, Success};
use crate::key_types;
use crate::open::DatabaseArguments;
use crate::output;
use crate::store::Store;

/// Print the database's figures
///
/// Opens the database for reading only: counters count from that moment, sizes are those of the
/// whole. If a process has the database open, prints the figures that this process wrote last.
///
/// With --watch SECONDS: a line of rates each time, for a database that a process has open. The
/// interval is at least that process's own interval for writing figures, usually a second. Columns:
/// time since it was opened; operations a second; gets a second by the component that answered; MiB
/// a second that users put and that reached the disk, and the ratio of the two; MiB of memory used,
/// and the parts of munks, deltas, rows and indexes; MiB that reorganisation owes; chunks and
/// munks; longest pause of a put and of a get up to now.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb stats files.db
  evendb stats files.db --json
  evendb stats files.db --watch
  evendb stats files.db --watch 10 --json")]
pub struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
    /// Print one JSON object, or with --watch one a line
    #[arg(long)]
    json: bool,
    /// Print rates each time this number of seconds has passed, until interrupted or the database
    /// is closed
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
          value_parser = parse_seconds)]
    watch: Option<f64>,
    /// With --watch: end after this number of lines
    #[arg(long, value_name = "LINES", requires = "watch")]
    count: Option<u64>,
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => {
            Err("a number of seconds from 0.01 to 86400 (the database comes before --watch)".into())
        }
    }
}

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let dir = &arguments.database.db;
    if let Some(seconds) = arguments.watch {
        return stats_watch::run(dir, seconds, arguments.count, arguments.json);
    }
    match arguments.database.open_for_reading() {
        Ok(store) => print(&store, arguments.json)?,
        // The owner writes them down.
        Err(Failure::Locked(_)) => print_live(dir, &read_live(dir)?, arguments.json)?,
        Err(failure) => return Err(failure),
    }
    Ok(Success::Done)
}

fn print(store: &Store, json: bool) -> Result<(), Failure> {
    let mut target = output::out();
    let types = key_types(store)?;
    if json {
        let figures = store.db.stats().figures();
        let figures = figures.iter();
        let mut object: Map<_, _> = figures
            .map(|of| (of.name.to_owned(), of.value.into()))
            .collect();
        let known = types.iter().filter_map(|(name, types)| {
            let types = Value::from(types.as_deref()?);
            Some((name.clone(), types))
        });
        object.insert("key_types".to_owned(), Value::Object(known.collect()));
        object.insert("keyspaces".to_owned(), store.db.keyspace_names().into());
        writeln!(target, "{}", Value::Object(object))?;
    } else {
        writeln!(
            target,
            "closed: no process writes to the database, so what it did is not known; sizes are those of the whole, and \
             counts begin with this look"
        )?;
        writeln!(target, "{}", store.db.stats().to_string().trim_end())?;
        let names: Vec<String> = types
            .into_iter()
            .map(|(name, types)| (output::escaped(name.as_bytes()), types))
            .map(|(name, types)| match types {
                Some(types) => format!("{name} (key types {})", output::printable(&types)),
                None => name,
            })
            .collect();
        writeln!(target, "keyspaces: {}", names.join(", "))?;
    }
    target.flush()?;
    Ok(())
}

/// The names of the keyspaces, and the key types that they remember.
fn key_types(store: &Store) -> Result<Vec<(String, Option<String>)>, Failure> {
    let types = |name: String| {
        let types = key_types::remembered_text(&store.at_keyspace(&name)?)?;
        Ok((name, types))
    };
    store.db.keyspace_names().into_iter().map(types).collect()
}

/// The figures of the process that has the database open.
pub(super) fn read_live(dir: &Path) -> Result<LiveStats, Failure> {
    let place = dir.display();
    let live = LiveStats::read(dir).map_err(|error| Failure::new(format!("in {place}"), error))?;
    match live {
        None if dir.join("CURRENT").exists() => Err(Failure::Message(format!(
            "no figures in {place}: no process has the database open, or it writes none"
        ))),
        None => Err(Failure::Message(format!("there is no database in {place}"))),
        Some(live) if is_dead(&live) => Err(Failure::Message(stale(&live))),
        Some(live) => Ok(live),
    }
}

/// Whether the process that has the database open will write no more figures. This looks at both
/// the age of the figures and the process: a busy process may be late, and a process in another
/// container cannot be seen.
pub(super) fn is_dead(live: &LiveStats) -> bool {
    live.is_stale() && live.process_is_alive() != Some(true)
}

/// What happened to the owner, as far as can be told.
pub(super) fn stale(live: &LiveStats) -> String {
    let what = match live.process_is_alive() {
        Some(false) => "is gone and did not close the database",
        Some(true) => "is there, but stands still",
        None => "stands still or is gone",
    };
    let (process, age) = (live.process_id(), live.age().as_secs());
    format!("the figures are stale: process {process}, which wrote them {age} s ago, {what}")
}

fn print_live(dir: &Path, live: &LiveStats, json: bool) -> Result<(), Failure> {
    let (process, age) = (live.process_id(), live.age().as_secs_f64());
    output::complain(&format!(
        "{} is open in process {process}; its figures of {age:.1} s ago",
        dir.display()
    ));
    if let Some(failure) = live.failure() {
        output::complain(&format!("it takes no more writes: {failure}"));
    }
    let mut target = output::out();
    if json {
        let object: Map<String, Value> = live
            .figures()
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        writeln!(target, "{}", Value::Object(object))?;
    } else {
        for (name, value) in live.figures() {
            writeln!(target, "{name:<24} {value:>20}")?;
        }
    }
    target.flush()?;
    Ok(())
}

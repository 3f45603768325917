//! Traces of programs that know nothing of traces: the variable `EVENDB_LEVELDB_TRACE` names where.
//!
//! ```text
//! EVENDB_LEVELDB_TRACE=FILE        FILE, FILE.2, FILE.3, ...: each opening of a database takes the
//!                                  first name that nothing has yet
//! EVENDB_LEVELDB_TRACE=DIRECTORY   NAME-1.trace, NAME-2.trace, ...: NAME is the last part of the
//!                                  database's path
//! ```
//!
//! Programs open several databases, and open one again; no trace is ever overwritten. A trace
//! begins when the database is open, and ends when it is closed: the calls of the program with
//! their keys, without values, up to 4 GiB. If the process is killed, the trace ends with what was
//! written of it.
//!
//! An opening fails if its trace cannot be made: a user who sets the variable wants the trace.

use crate::error::{Code, Error, Result};
use evendb::{Db, ErrorKind, Trace, TraceOptions};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const TRACE_VARIABLE: &str = "EVENDB_LEVELDB_TRACE";

/// The number of traces with one name.
const TRACES_MAX: u32 = 100_000;

/// Begins the trace of a database that was just opened, if the variable asks for one.
pub(crate) fn start(db: &Db, database: &Path) -> Result<Option<Trace>> {
    match std::env::var_os(TRACE_VARIABLE).filter(|place| !place.is_empty()) {
        None => Ok(None),
        Some(place) => start_at(db, database, Path::new(&place)).map(Some),
    }
}

fn start_at(db: &Db, database: &Path, place: &Path) -> Result<Trace> {
    let in_dir = place.is_dir();
    for number in 1..=TRACES_MAX {
        let file = match in_dir {
            true => place.join(name_in_dir(database, number)),
            false => numbered(place, number),
        };
        match db.start_trace(TraceOptions::new(file)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                let message = format!("{TRACE_VARIABLE} asks for a trace: {error}");
                return Err(Error::new(Code::Io, message));
            }
            Ok(trace) => return Ok(trace),
        }
    }
    let message = format!(
        "{TRACE_VARIABLE}: {} has {TRACES_MAX} traces; remove some",
        place.display()
    );
    Err(Error::new(Code::Io, message))
}

/// The last part of the database's path, a number, and what a trace's name ends with.
fn name_in_dir(database: &Path, number: u32) -> OsString {
    let mut name = database.file_name().unwrap_or_default().to_owned();
    name.push(format!("-{number}.trace"));
    name
}

/// The file itself, or its name with a number.
fn numbered(file: &Path, number: u32) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    if number > 1 {
        name.push(format!(".{number}"));
    }
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn each_opening_has_a_trace_of_its_own_in_a_file_or_in_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("db");
        let db = Db::open(&database).unwrap();
        let traces = dir.path().join("traces");
        fs::create_dir(&traces).unwrap();
        let record = |place: &Path| {
            let trace = start_at(&db, &database, place).unwrap();
            db.get("k").unwrap();
            trace.stop().unwrap().recorded
        };
        for _ in 0..2 {
            assert_eq!(record(&dir.path().join("t")), 1);
            assert_eq!(record(&traces), 1);
        }
        for name in ["t", "t.2", "traces/db-1.trace", "traces/db-2.trace"] {
            assert!(dir.path().join(name).exists(), "{name}");
        }
        assert_eq!(fs::read_dir(&traces).unwrap().count(), 2);
    }

    #[test]
    fn a_trace_that_cannot_be_made_is_an_error_that_names_the_variable() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("db");
        let db = Db::open(&database).unwrap();
        for place in [dir.path().join("none/t"), database.join("t")] {
            let error = start_at(&db, &database, &place).unwrap_err();
            assert!(error.to_string().contains(TRACE_VARIABLE), "{error}");
        }
    }
}

//! How an opening ends, and what the next one finds.
//!
//! The state after a kill is a copy of the directory, made while the database is open and nothing
//! changes any file of it. Names, lengths and times must be the same before and after the copy, and
//! each time must be older than a tick of the system's clock. Writes through a mapping change no
//! time, but only calls make them, and there are no calls meanwhile. So the copy is of one moment.

use crate::process::{Listing, listing};
use crate::store::{Answer, Store};
use evendb_powercut::draw::Draw;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Longer than a tick of the clock that files have.
const TICK: Duration = Duration::from_millis(12);
/// The number of tries to copy a quiet directory.
const TRIES: u32 = 25;

/// How an opening ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum End {
    /// It is closed.
    Closed,
    /// Its last handle is dropped.
    LetGo,
    /// A copy with the state after a kill goes on.
    Killed,
    /// A copy goes on.
    Copied,
    /// A database that was restored from a backup goes on.
    Restored,
}

impl End {
    /// Some end.
    pub fn drawn(draw: &mut Draw) -> End {
        let all = [
            End::Closed,
            End::LetGo,
            End::Killed,
            End::Closed,
            End::Killed,
            End::Copied,
            End::Restored,
        ];
        draw.of(&all)
    }
}

fn words(error: evendb::Error) -> String {
    format!("{:?}: {error}", error.kind())
}

fn copy(from: &Listing, dir: &Path, into: &Path) -> std::io::Result<()> {
    fs::create_dir_all(into)?;
    for path in from.keys() {
        let name = path.strip_prefix(dir).unwrap_or(path);
        let to = into.join(name);
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::copy(path, to)?;
    }
    Ok(())
}

/// Copies a directory.
///
/// # Errors
/// Of the system.
pub fn copy_all(dir: &Path, into: &Path) -> std::io::Result<()> {
    copy(&listing(dir)?, dir, into)
}

/// Copies a directory in which nothing changes meanwhile. Returns whether it stood still.
fn copy_quiet(dir: &Path, into: &Path) -> std::io::Result<bool> {
    for _ in 0..TRIES {
        let earlier = listing(dir)?;
        std::thread::sleep(TICK);
        let before = listing(dir)?;
        let copied = match earlier == before {
            true => copy(&before, dir, into),
            false => continue,
        };
        std::thread::sleep(TICK);
        if copied.is_ok() && listing(dir)? == before {
            return Ok(true);
        }
        fs::remove_dir_all(into)?;
    }
    Ok(false)
}

/// Ends it. Returns the end that it really was. The next opening finds its database in the same
/// directory.
///
/// # Errors
/// In words.
pub fn end(end: End, store: Store, dir: &Path, beside: &Path) -> Result<End, String> {
    let (next, backups) = (beside.join("next"), beside.join("backups"));
    let failed = |error: std::io::Error| error.to_string();
    let close_and_take = |store: Store, made: Answer<()>| -> Result<(), String> {
        made.map_err(words)?;
        store.close().map_err(words)?;
        Store::destroy(dir).map_err(words)?;
        fs::rename(&next, dir).map_err(failed)
    };
    match end {
        End::Closed => store.close().map_err(words)?,
        End::LetGo => drop(store),
        End::Killed => {
            if !copy_quiet(dir, &next).map_err(failed)? {
                store.close().map_err(words)?;
                return Ok(End::Closed);
            }
            close_and_take(store, Ok(()))?;
        }
        End::Copied => {
            let made = store.copy_to(&next);
            close_and_take(store, made)?;
        }
        End::Restored => {
            let made = store.back_up_and_restore(&backups, &next);
            close_and_take(store, made)?;
            fs::remove_dir_all(&backups).map_err(failed)?;
        }
    }
    Ok(end)
}

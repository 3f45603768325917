//! Runs each store and round of an experiment in a process of its own.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{Failure, Measure, Measured, Turn, at};
use crate::opener::Opener;
use evendb::placement;

const SIGKILL: i32 = rustix::process::Signal::KILL.as_raw();

/// Runs an experiment: as the parent, which starts a process for each store and round; or, if the
/// arguments say so, as such a process.
///
/// # Errors
/// A store is unknown, or none can be opened here. The first round that fails; the stores that are
/// left are still measured and reported.
pub fn run(experiment: &dyn Measure, openers: &[Box<dyn Opener>]) -> Result<(), Failure> {
    match &experiment.common().child {
        Some(child) => measure(experiment, openers, child),
        None => compare(experiment, openers),
    }
}

fn compare(experiment: &dyn Measure, openers: &[Box<dyn Opener>]) -> Result<(), Failure> {
    let common = experiment.common();
    let takes_part = |opener: &dyn Opener| experiment.takes_part(opener);
    let stores = chosen(&common.stores, openers, takes_part)?;
    if let Some(path) = &common.json {
        placement::refuse_output(path, "a report")?;
    }
    let place = RemovedDirectory::new(common.dir.as_deref())?;
    let mut results = Vec::new();
    for round in 0..common.rounds {
        for &store in &stores {
            let directory = place.0.join(store);
            fs::create_dir_all(&directory).map_err(at(&directory))?;
            let figures = place.0.join(format!("{store}.{round}.json"));
            let status = Command::new(std::env::current_exe()?)
                .args(std::env::args_os().skip(1))
                .arg(format!("--child={store}:{round}"))
                .arg(format!("--dir={}", directory.display()))
                .arg(format!("--json={}", figures.display()))
                .status()?;
            // A process that kills itself has written its figures before.
            let killed = experiment.ends_by_kill() && status.signal() == Some(SIGKILL);
            if !(status.success() || killed && figures.exists()) {
                // The other stores' figures are still worth having.
                tell!("{store}: round {} failed: {status}", round + 1);
                continue;
            }
            let text = crate::whole_file::read(&figures).map_err(at(&figures))?;
            let figures = serde_json::from_slice(&text)?;
            let store = store.to_owned();
            results.push(Measured {
                store,
                round,
                figures,
            });
            forget_files(&directory)?;
        }
    }
    if results.is_empty() {
        return Err("no round ended well".into());
    }
    say!("{}", experiment.report(&results))?;
    if let Some(path) = &common.json {
        let rounds: Vec<Value> = results
            .iter()
            .map(|one| json!({ "store": one.store, "round": one.round, "figures": one.figures }))
            .collect();
        let report = json!({ "settings": experiment.settings(), "results": rounds });
        placement::write_output(path, "a report", &format!("{report:#}\n"))?;
    }
    if results.len() < stores.len() * common.rounds {
        return Err("not all rounds ended well".into());
    }
    experiment.verdict(&results)
}

/// The names of the stores that are asked for. If none is named, the stores that take part. A store
/// that cannot be opened on this machine is left out, and the reason is printed.
///
/// # Errors
/// A name is not known, or none of the stores can be opened.
pub(super) fn chosen<'a>(
    wanted: &[String],
    openers: &'a [Box<dyn Opener>],
    takes_part: impl Fn(&dyn Opener) -> bool,
) -> Result<Vec<&'a str>, Failure> {
    let known = || openers.iter().map(|opener| opener.name());
    for store in wanted {
        if !known().any(|name| name == store) {
            let names: Vec<_> = known().collect();
            return Err(format!("no store `{store}` here; there are {}", names.join(", ")).into());
        }
    }
    let is_wanted = |opener: &dyn Opener| match wanted.is_empty() {
        true => takes_part(opener),
        false => wanted.iter().any(|store| store == opener.name()),
    };
    let mut stores = Vec::new();
    for opener in openers.iter().filter(|opener| is_wanted(&***opener)) {
        match opener.unavailable() {
            None => stores.push(opener.name()),
            Some(why) => tell!("{}: left out: {why}", opener.name()),
        }
    }
    if stores.is_empty() {
        return Err("none of the stores can be opened here".into());
    }
    Ok(stores)
}

fn measure(
    experiment: &dyn Measure,
    openers: &[Box<dyn Opener>],
    child: &str,
) -> Result<(), Failure> {
    let common = experiment.common();
    let (Some(directory), Some(json)) = (&common.dir, &common.json) else {
        return Err("a child needs --dir and --json".into());
    };
    let parsed = child
        .split_once(':')
        .and_then(|(store, round)| Some((store, round.parse().ok()?)));
    let (store, round) = parsed.ok_or("a child is STORE:ROUND")?;
    let opener = openers.iter().find(|opener| opener.name() == store);
    let opener = opener.ok_or("no such store")?;
    let figures = experiment.measure(Turn {
        opener: &**opener,
        directory,
        round,
    })?;
    placement::write_output(json, "a report", &figures.to_string())?;
    if experiment.ends_by_kill() {
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)?;
    }
    Ok(())
}

/// A directory that is removed when this is dropped.
struct RemovedDirectory(std::path::PathBuf);

impl RemovedDirectory {
    fn new(parent: Option<&Path>) -> Result<RemovedDirectory, Failure> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let path = parent.join(format!("evendb-experiment-{}", std::process::id()));
        fs::create_dir_all(&parent).map_err(at(&parent))?;
        fs::create_dir(&path).map_err(at(&path))?;
        Ok(RemovedDirectory(path))
    }
}

impl Drop for RemovedDirectory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tell!("{} could not be removed: {error}", self.0.display());
        }
    }
}

/// Writes a directory's files out and drops them from the page cache.
///
/// # Errors
/// The errors of the file system.
pub fn forget_files(directory: &Path) -> Result<(), Failure> {
    for entry in fs::read_dir(directory).map_err(at(directory))? {
        let entry = entry.map_err(at(directory))?;
        let path = entry.path();
        if entry.file_type().map_err(at(&path))?.is_dir() {
            forget_files(&path)?;
        } else {
            let file = fs::File::open(&path).map_err(at(&path))?;
            file.sync_all().map_err(at(&path))?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    Ok(())
}

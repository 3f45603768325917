//! The file `results.jsonl` of a run: one JSON object a line, appended when a phase has ended.
//!
//! ```text
//!   {"kind":"run", "version":1, "settings":{..}, "machine":{..}, ..}   one for each start of the command
//!   {"kind":"cell", "experiment":.., "cell":.., "store":.., "round":.., ..., "phase":{...}}
//!   {"kind":"skipped", "experiment":.., "cell":.., "store":.., "round":.., "why":..}
//!   {"kind":"step", "store":.., "round":.., "family":.., "memory_peak_bytes":..}
//! ```
//! A phase (`PhaseResult::to_json`) says its units in the names of its figures; those of `course` are in
//! `course_unit`. What a store or a system does not tell is missing or null. A line is written by one system call to the end of the file, by the one process that measures. A
//! last line that was cut off is no result, and is replaced by starting a new line. A finished cell
//! is not run again; a skipped one is.

use super::cells::{Cell, Work};
use crate::experiments::Failure;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A run's file of results.
#[derive(Clone, Debug)]
pub struct ResultsFile(PathBuf);

/// What identifies a measurement.
pub type Finished = HashSet<(String, String, String, usize)>;

impl ResultsFile {
    /// Those of a directory.
    pub fn in_directory(directory: &Path) -> ResultsFile {
        ResultsFile(directory.join("results.jsonl"))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Appends a line.
    pub fn append(&self, line: &Value) -> Result<(), Failure> {
        let mut file = fs::OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(&self.0)?;
        let mut text = String::new();
        let end = file.seek(SeekFrom::End(0))?;
        let mut last = [b'\n'];
        if end > 0 {
            file.seek(SeekFrom::Start(end - 1))?;
            file.read_exact(&mut last)?;
        }
        if last != [b'\n'] {
            text.push('\n');
        }
        text.push_str(&line.to_string());
        text.push('\n');
        file.write_all(text.as_bytes())?;
        Ok(())
    }

    /// Appends that a cell was not measured.
    pub fn skip(&self, cell: &Cell, store: &str, round: usize, why: &str) -> Result<(), Failure> {
        let mut line = identity("skipped", cell, store, round);
        line["why"] = why.into();
        self.append(&line)
    }

    /// All lines that can be read.
    fn lines(&self) -> Result<Vec<Value>, Failure> {
        let text = match fs::read(&self.0) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(format!("{}: {error}", self.0.display()).into()),
        };
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        Ok(lines.collect())
    }

    /// The settings of the first run, if there was one.
    pub fn first_run(&self) -> Result<Option<Value>, Failure> {
        let lines = self.lines()?;
        Ok(lines.into_iter().find(|line| line["kind"] == "run"))
    }

    /// What need not be measured any more.
    pub fn finished(&self) -> Result<Finished, Failure> {
        let text = |line: &Value, name: &str| line[name].as_str().map(str::to_owned);
        let lines = self.lines()?;
        let cells = lines.iter().filter(|line| line["kind"] == "cell");
        Ok(cells
            .filter_map(|line| {
                let round = line["round"].as_u64()? as usize;
                let name = |name| text(line, name);
                Some((name("experiment")?, name("cell")?, name("store")?, round))
            })
            .collect())
    }
}

/// The fields that say which cell a line is about.
pub fn identity(kind: &str, cell: &Cell, store: &str, round: usize) -> Value {
    let (mix, distribution) = cell.work.names();
    let theta = match cell.work {
        Work::Mix { theta, .. } => Some(theta),
        Work::Load(_) | Work::Ingest | Work::Analytics => None,
    };
    json!({
        "kind": kind,
        "experiment": cell.experiment,
        "cell": cell.name(),
        "store": store,
        "round": round,
        "mix": mix,
        "distribution": distribution,
        "theta": theta,
        "data_bytes": cell.data_bytes,
        "threads": cell.threads,
        "variant": cell.variant.map(|variant| variant.to_string()),
    })
}

/// Which measurement of a cell.
pub fn key(cell: &Cell, store: &str, round: usize) -> (String, String, String, usize) {
    let experiment = cell.experiment.to_owned();
    (experiment, cell.name(), store.to_owned(), round)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_finished_is_found_again_and_a_cut_line_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let results = ResultsFile::in_directory(directory.path());
        assert!(results.finished().unwrap().is_empty());
        let cell = Cell {
            experiment: "figure-3",
            work: Work::Ingest,
            data_bytes: 1 << 30,
            threads: 4,
            variant: None,
        };
        results
            .append(&json!({ "kind": "run", "seed": 1 }))
            .unwrap();
        results.append(&identity("cell", &cell, "a", 0)).unwrap();
        results.skip(&cell, "b", 0, "it did not want to").unwrap();
        let path = directory.path().join("results.jsonl");
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend_from_slice(b"{\"kind\":\"cell\",\"experiment\":\"fig\xff");
        fs::write(&path, bytes).unwrap();
        results.append(&identity("cell", &cell, "c", 1)).unwrap();
        let expected: Finished = [key(&cell, "a", 0), key(&cell, "c", 1)].into();
        assert_eq!(results.finished().unwrap(), expected);
        assert_eq!(results.first_run().unwrap().unwrap()["seed"], 1);
    }
}

//! The file `results.jsonl` of a run: one JSON object a line, appended when a phase has ended.
//!
//! ```text
//!   {"kind":"run", "version":1, "settings":{..}, "machine":{..}, ..}   one for each start
//!   {"kind":"cell", "experiment":.., "cell":.., "store":.., "round":.., ..., "phase":{...}}
//!   {"kind":"skipped", "experiment":.., "cell":.., "store":.., "round":.., "why":..}
//!   {"kind":"step", "store":.., "round":.., "family":.., "memory_peak_bytes":..}
//! ```
//! A phase (`PhaseResult::to_json`) has the units in the names of its figures; the units of
//! `course` are in `course_unit`. What a store or a system does not tell is missing or null. A line
//! is written by one system call to the end of the file, by the one process that measures. A last
//! line that was cut off is no result; the next line begins anew. A finished cell is not run again;
//! a skipped one is.

use super::{Failure, at};
use crate::own_output;
use evendb::vfs::OsVfs;
use serde_json::Value;
use std::collections::HashSet;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A run's file of results.
#[derive(Clone, Debug)]
pub struct ResultsFile(PathBuf);

/// What identifies a measurement: experiment, cell, store, round.
pub type Key = (String, String, String, usize);

impl ResultsFile {
    /// The results file of a directory.
    pub fn in_directory(directory: &Path) -> ResultsFile {
        ResultsFile(directory.join("results.jsonl"))
    }

    /// Refuses a directory if its results file, or a report beside it, does not come from such a
    /// run.
    ///
    /// # Errors
    /// With the file's path.
    pub fn refuse_foreign(directory: &Path) -> Result<(), Failure> {
        let is_result = |line: &str| {
            serde_json::from_str::<Value>(line).is_ok_and(|line| line["kind"].is_string())
        };
        let is_ours = |text: &str| text.is_empty() || text.lines().next().is_some_and(is_result);
        own_output::refuse_foreign(directory, "results.jsonl", &is_ours, &["report.md"])?;
        Ok(())
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Appends a line.
    pub fn append(&self, line: &Value) -> Result<(), Failure> {
        let mut file = OsVfs::own_file(&self.0).map_err(at(&self.0))?;
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

    /// Appends that a cell was not measured. `cell` has the fields that name it.
    pub fn skip(&self, cell: &Value, why: &str) -> Result<(), Failure> {
        let mut line = cell.clone();
        line["kind"] = "skipped".into();
        line["why"] = why.into();
        self.append(&line)
    }

    /// All lines that can be read.
    pub fn lines(&self) -> Result<Vec<Value>, Failure> {
        let text = match crate::whole_file::read(&self.0) {
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

    /// The measurements that are done.
    pub fn finished(&self) -> Result<HashSet<Key>, Failure> {
        let lines = self.lines()?;
        let cells = lines.iter().filter(|line| line["kind"] == "cell");
        Ok(cells.filter_map(key_of).collect())
    }
}

/// The measurement of a line. `None` if the line does not say it.
pub fn key_of(line: &Value) -> Option<Key> {
    let text = |name: &str| line[name].as_str().map(str::to_owned);
    let round = line["round"].as_u64()? as usize;
    Some((text("experiment")?, text("cell")?, text("store")?, round))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::fs;

    #[test]
    fn what_was_finished_is_found_again_and_a_cut_line_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let results = ResultsFile::in_directory(directory.path());
        assert!(results.finished().unwrap().is_empty());
        let cell = |store: &str, round: usize| json!({ "kind": "cell", "experiment": "figure-3", "cell": "ingest", "store": store, "round": round });
        results
            .append(&json!({ "kind": "run", "seed": 1 }))
            .unwrap();
        results.append(&cell("a", 0)).unwrap();
        results.skip(&cell("b", 0), "it did not want to").unwrap();
        let path = directory.path().join("results.jsonl");
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend_from_slice(b"{\"kind\":\"cell\",\"experiment\":\"fig\xff");
        fs::write(&path, bytes).unwrap();
        results.append(&cell("c", 1)).unwrap();
        let key = |store, round| key_of(&cell(store, round)).unwrap();
        let expected: HashSet<Key> = [key("a", 0), key("c", 1)].into();
        assert_eq!(results.finished().unwrap(), expected);
        assert_eq!(results.first_run().unwrap().unwrap()["seed"], 1);
    }
}

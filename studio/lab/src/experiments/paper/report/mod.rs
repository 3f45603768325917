//! The report on a run of the paper's evaluation: `report.md`, beside the `results.jsonl` that it
//! is made from.
//!
//! ```text
//!   DIR/results.jsonl --> run_results --> document: summary, figures (the paper's, in its order),
//!                          (quantity)               tables, method --> markdown
//! ```
//! Reading (`run_results`, `quantity`), choosing what is shown (`document`, `figures`,
//! `half_memory`, `departures`, `tables`) and writing (`markdown`) are apart. Text from the results
//! is escaped in one place, by the writer.
//!
//! Invariants: every cell of the results is in at least one table, with the word "skipped" if it
//! was not measured. A figure that a store does not give is missing, never zero.
//!
//! Not here: measuring, and plots. A report can be written while a run goes on, and again
//! afterwards. Every figure is in `results.jsonl`, for drawing with other programs.

mod departures;
mod document;
mod figures;
mod half_memory;
mod quantity;
mod run_results;
mod stores;
mod tables;
#[cfg(test)]
mod tests;

use crate::experiments::results_file::ResultsFile;
use crate::experiments::{Failure, markdown};
use crate::own_output;
use run_results::RunResults;
use std::path::{Path, PathBuf};

/// The report's file in the run's directory.
const REPORT_FILE: &str = "report.md";

/// Reads the results in `directory`, writes `report.md` beside them, prints the summary and the
/// report's path.
///
/// # Errors
/// No results, a damaged line of them, or a directory that cannot be read or written.
pub fn write(directory: &Path) -> Result<(), Failure> {
    ResultsFile::refuse_foreign(directory)?;
    let results = ResultsFile::in_directory(directory);
    let file = results.path();
    let bytes =
        crate::whole_file::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let results =
        RunResults::parse(&bytes).map_err(|error| format!("{}{error}", file.display()))?;
    let report = directory.join(REPORT_FILE);
    own_output::replace(&report, &document::text(&results))
        .map_err(|error| format!("{}: {error}", report.display()))?;
    say!("{}\n", document::summary(&results).join("\n"))?;
    say!("{}\n", report.display())?;
    Ok(())
}

/// Table 3 alone, for memory and values of these numbers of bytes.
pub fn table_3(memory_bytes: u64, value_bytes: usize) -> String {
    let mut page = markdown::Page::default();
    page.table(&tables::skew(4 * memory_bytes, value_bytes));
    page.into_text()
}

/// The arguments of `experiment report`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    /// The --out directory of `experiment paper`: its results.jsonl is read, report.md is written
    /// there
    dir: PathBuf,
}

impl Arguments {
    /// Writes the report and says where it is.
    ///
    /// # Errors
    /// As [`write()`].
    pub fn run(&self) -> Result<(), Failure> {
        write(&self.dir)
    }
}

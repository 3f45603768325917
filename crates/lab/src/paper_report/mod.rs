//! The report on a run of the paper's figures: one HTML file that needs nothing else, and Markdown.
//!
//! ```text
//!   DIR/results.jsonl --> results --> arrangement (the paper's figures) --+
//!                            |    --> gap         (ratio beside target) --+--> document --> html, plots
//!                            +------> summary     (who wins where)      --+             --> markdown
//! ```
//! Reading, arranging and rendering are apart: what is shown is decided once, in a [`document`] that
//! holds plain text and figures, and both renderers show all of it (Markdown leaves out the plots).
//! Every text that came from the results is escaped by the renderer, wherever it stands.
//!
//! Invariants: every cell of the results is in at least one table, those that were skipped or
//! interrupted with that word in place of a figure; the HTML names no address outside itself.
//!
//! What is not here: measuring. A report can be written while a run goes on, and again afterwards.

pub mod arrangement;
pub mod document;
#[cfg(test)]
mod fixture;
pub mod gap;
pub mod html;
pub mod markdown;
pub mod plots;
pub mod quantity;
pub mod results;
pub mod series;
pub mod stores;
pub mod summary;
pub mod tables;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use results::Results;

/// The file in the run's directory that is read.
pub const RESULTS_FILE: &str = "results.jsonl";

/// The files that are written beside it.
const HTML_FILE: &str = "report.html";
const MARKDOWN_FILE: &str = "report.md";

/// Why there is no report.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReportError {
    /// The results could not be read.
    Read(PathBuf, io::Error),
    /// The file has no cell and nothing that was skipped.
    Empty(PathBuf),
    /// A line before the last is not what the format says.
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The report could not be written.
    Write(PathBuf, io::Error),
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, _) => write!(f, "{} cannot be read", path.display()),
            Self::Empty(path) => write!(
                f,
                "{} has no results: no cell was finished or skipped yet",
                path.display()
            ),
            Self::Damaged { path, line, why } => {
                write!(
                    f,
                    "{}, line {line}: {why}; mend or remove the line",
                    path.display()
                )
            }
            Self::Write(path, _) => write!(f, "{} cannot be written", path.display()),
        }?;
        match self {
            Self::Read(_, error) | Self::Write(_, error) => write!(f, ": {error}"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for ReportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read(_, error) | Self::Write(_, error) => Some(error),
            _ => None,
        }
    }
}

/// What [`write()`] left.
#[derive(Clone, Debug)]
pub struct Written {
    /// The self-contained page.
    pub html: PathBuf,
    /// The same tables for `docs/benchmarks.md`.
    pub markdown: PathBuf,
    /// The report's first sentences, for a terminal.
    pub summary: String,
}

/// Reads `results.jsonl` in `dir` and writes `report.html` and `report.md` beside it.
///
/// # Errors
/// No results, damaged ones, or a directory that cannot be read or written.
pub fn write(dir: &Path) -> Result<Written, ReportError> {
    let results = Results::read(&dir.join(RESULTS_FILE))?;
    let document = summary::document(&results);
    let written = Written {
        html: dir.join(HTML_FILE),
        markdown: dir.join(MARKDOWN_FILE),
        summary: summary::sentences(&results).join("\n"),
    };
    for (path, text) in [
        (&written.html, html::page(&document)),
        (&written.markdown, markdown::text(&document)),
    ] {
        fs::write(path, text).map_err(|error| ReportError::Write(path.clone(), error))?;
    }
    Ok(written)
}

/// `experiment report DIR`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    /// The directory of a run of the paper's figures: results.jsonl is read, report.html and
    /// report.md are written
    pub dir: PathBuf,
}

impl Arguments {
    /// Writes the report and says where it is.
    ///
    /// # Errors
    /// As [`write()`].
    pub fn run(&self) -> Result<(), ReportError> {
        let written = write(&self.dir)?;
        println!("{}", written.summary);
        println!("{}", written.html.display());
        println!("{}", written.markdown.display());
        Ok(())
    }
}

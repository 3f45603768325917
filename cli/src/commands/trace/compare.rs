//! `evendb trace compare`: how one trace differs from another. `evendb_lab::drift` compares them.

use std::io::Write;
use std::path::{Path, PathBuf};

use evendb_lab::drift::{Drift, Portrait};

use super::{failed, reader, told};
use crate::failure::{Failure, Success};
use crate::output;

#[derive(clap::Args)]
pub(super) struct CompareArguments {
    /// The first trace
    a: PathBuf,
    /// The second trace
    b: PathBuf,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Carries the command out.
pub(super) fn run(arguments: &CompareArguments) -> Result<Success, Failure> {
    let (a, b) = (portrait(&arguments.a)?, portrait(&arguments.b)?);
    let drift = Drift::of(&a, &b);
    let names = [&arguments.a, &arguments.b].map(|path| path.display().to_string());
    let names = [&names[0][..], &names[1][..]];
    match arguments.json {
        true => writeln!(output::out(), "{:#}", drift.to_json(names))?,
        false => write!(output::out(), "{}", drift.text(names))?,
    }
    let whole = [a, b].into_iter().map(|one| one.losses);
    let lost = whole.into_iter().find(|losses| !losses.is_nothing());
    Ok(lost.map_or(Success::Done, told))
}

fn portrait(path: &Path) -> Result<Portrait, Failure> {
    Portrait::of(reader(path)?).map_err(|error| failed(path, &error))
}

//! `evendb analyze`: passes its arguments on to `evendb-analyze`. That is a program of its own,
//! because the engine for tables in it compiles for minutes.
//!
//! The program is looked for beside this one, then where its build puts it in the checkout in which
//! this program was built, then on the path.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Success};

/// The name of the program.
const PROGRAM: &str = "evendb-analyze";
/// The command that builds it, in a checkout.
const BUILD: &str = "cargo build --release --locked --manifest-path studio/analyze/Cargo.toml";

/// Analyze a trace: figures of the load, as a page and as JSON
///
/// How often keys are accessed and when, which are hot and where they lie, how large everything is,
/// and what a cache would find. Makes a folder with page.html and analysis.json. All arguments go
/// to the program evendb-analyze, which one more command builds: cargo build --release --locked
/// --manifest-path studio/analyze/Cargo.toml
#[derive(clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "evendb analyze --help tells its options, once it is built."
)]
pub struct Arguments {
    /// The trace, and further arguments of evendb-analyze
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Carries the command out: becomes the other program.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let program = program()?;
    let error = Command::new(&program).args(&arguments.arguments).exec();
    Err(Failure::new(
        format!("cannot run {}", program.display()),
        error,
    ))
}

/// Where the program is.
pub fn program() -> Result<PathBuf, Failure> {
    let own = env::current_exe().ok();
    let path = env::var_os("PATH").unwrap_or_default();
    let found = places(own.as_deref(), &path).find(|place| place.is_file());
    found.ok_or_else(|| Failure::Message(missing()))
}

fn missing() -> String {
    format!(
        "the analysis is not built: `{BUILD}` builds {PROGRAM}, which takes 16 minutes or more on two cores; it is looked for beside this program, in studio/analyze/target/release, and on the path"
    )
}

fn places(own: Option<&Path>, path: &std::ffi::OsStr) -> impl Iterator<Item = PathBuf> {
    let beside = own.and_then(Path::parent).map(Path::to_path_buf);
    // This program is in target/release or target/debug of a checkout.
    let checkout = own
        .and_then(|own| own.ancestors().nth(3))
        .map(|root| root.join("studio/analyze/target/release"));
    let path: Vec<PathBuf> = env::split_paths(path).collect();
    beside
        .into_iter()
        .chain(checkout)
        .chain(path)
        .map(|folder| folder.join(PROGRAM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_looked_for_beside_in_the_checkout_and_on_the_path() {
        let own = Path::new("/src/even/target/release/evendb");
        let places: Vec<_> = places(Some(own), "/usr/bin:/opt/bin".as_ref()).collect();
        let expected = [
            "/src/even/target/release/evendb-analyze",
            "/src/even/studio/analyze/target/release/evendb-analyze",
            "/usr/bin/evendb-analyze",
            "/opt/bin/evendb-analyze",
        ];
        assert_eq!(places, expected.map(PathBuf::from));
    }
}

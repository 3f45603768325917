//! How a test reports that it, or a part of it, is not run on this machine.

use std::io::Write;

/// Reports it on standard error, past the test harness, which hides the output of tests that pass;
/// and as a line of the file that `EVENDB_SKIPPED` names: `./check` lists that file at its end.
pub fn skipped(what: &str, why: impl std::fmt::Display) {
    let line = format!("{what}: {why}\n");
    let _ = std::io::stderr().write_all(format!("SKIPPED: {line}").as_bytes());
    if let Some(path) = std::env::var_os("EVENDB_SKIPPED") {
        let file = std::fs::File::options()
            .append(true)
            .create(true)
            .open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the file that EVENDB_SKIPPED names can be written");
    }
}

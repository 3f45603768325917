//! What the tests of the command share: a directory of its own, and runs of the built command in it.

#![allow(dead_code, reason = "every test binary uses its own part")]

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A directory of its own.
pub struct Place(pub tempfile::TempDir);

impl Place {
    #[allow(clippy::new_without_default, reason = "it makes a directory")]
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// Runs `evendb COMMAND DB ARGUMENTS...`.
    pub fn run(&self, command: &str, arguments: &[&str]) -> Outcome {
        self.run_with_input(command, arguments, b"")
    }

    pub fn run_with_input(&self, command: &str, arguments: &[&str], input: &[u8]) -> Outcome {
        let mut child = evendb();
        child
            .arg(command)
            .arg(self.path("db"))
            .args(arguments)
            .current_dir(self.0.path());
        child
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        Outcome::of(child.wait_with_output().unwrap())
    }
}

/// The command.
pub fn evendb() -> Command {
    Command::new(env!("CARGO_BIN_EXE_evendb"))
}

/// How a run ended.
#[derive(Debug)]
pub struct Outcome {
    pub code: Option<i32>,
    pub out: Vec<u8>,
    pub error: String,
}

impl Outcome {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: output.stdout,
            error: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    #[track_caller]
    pub fn expect(self, code: i32, out: impl AsRef<[u8]>) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(
            String::from_utf8_lossy(&self.out),
            String::from_utf8_lossy(out.as_ref())
        );
        self
    }

    #[track_caller]
    pub fn expect_code(&self, code: i32) {
        assert_eq!(self.code, Some(code), "{self:?}");
    }

    #[track_caller]
    pub fn complains(self, code: i32, words: &str) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.error.contains(words), "`{words}` in {}", self.error);
        self
    }
}

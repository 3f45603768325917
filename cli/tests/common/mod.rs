//! Shared by the tests of the command: a directory of its own, and runs of the built command in it.

#![allow(dead_code, reason = "every test binary uses its own part")]

#[path = "../../../store/evendb/tests/common/skipped.rs"]
pub mod skipped;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Output, Stdio};

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

/// The outputs of a command that are a terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Terminal {
    Output,
    OutputAndErrors,
}

/// Runs a command with a terminal. Returns what it wrote there.
pub fn on_a_terminal(mut command: Command, of: Terminal) -> (ExitStatus, String) {
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let terminal = rustix::pty::openpt(flags).unwrap();
    rustix::pty::grantpt(&terminal).unwrap();
    rustix::pty::unlockpt(&terminal).unwrap();
    let name = rustix::pty::ptsname(&terminal, Vec::new()).unwrap();
    let other_end = || {
        let name = name.to_str().unwrap();
        File::options().read(true).write(true).open(name).unwrap()
    };
    command.stdout(other_end());
    if of == Terminal::OutputAndErrors {
        command.stderr(other_end());
    }
    let mut child = command.spawn().unwrap();
    // The command's own end of the terminal would keep it from ending.
    drop(command);
    let mut written = Vec::new();
    // A terminal whose other end is closed ends with an error.
    let _ = File::from(terminal).read_to_end(&mut written);
    // The terminal itself makes line feeds of the output into line ends.
    let written = String::from_utf8(written).unwrap().replace("\r\n", "\n");
    (child.wait().unwrap(), written)
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

    /// What it printed, which must be text.
    #[track_caller]
    pub fn text(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        String::from_utf8(self.out).unwrap()
    }

    #[track_caller]
    pub fn expect_start(self, code: i32, out: &str) {
        let text = self.text(code);
        assert!(text.starts_with(out), "`{out}` and not {text}");
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

//! A command of the workspace that a test runs, and ends if it hangs.

use super::skipped::skipped;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Everything that the command printed.
pub fn told(output: &Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// Runs the command, whose output must fit into a pipe. The test fails if that takes longer than
/// `patience`. Lines that begin with `SKIPPED` name what cannot be tested here, of `subject`.
pub fn run(command: &mut Command, patience: Duration, subject: &str) -> Output {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let started = Instant::now();
    while child.try_wait().expect("it was started").is_none() {
        if started.elapsed() > patience {
            child.kill().expect("it runs");
            panic!("it hangs: {:?}", child.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().expect("it was started");
    for line in text(&output.stdout).lines() {
        if let Some(what) = line.strip_prefix("SKIPPED ") {
            skipped(subject, what);
        }
    }
    output
}

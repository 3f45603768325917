//! A process of several writing threads that is killed: its messages to the process that starts it,
//! and the killing.
//!
//! The test binary starts itself, with its test `child_process`. That process writes `found` with
//! its counts when it has opened, `ack` with thread and number after each write, and `bad` when it
//! finds what must not be.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// They tell the process that will be killed where its database is, and its level.
pub const DIR_VARIABLE: &str = "EVENDB_KILL_DIR";
pub const LEVEL_VARIABLE: &str = "EVENDB_KILL_LEVEL";
/// The number of threads that write.
pub const THREADS: usize = 4;

/// For each thread, the number of its writes that had been acknowledged.
pub type Counts = [u64; THREADS];

/// Writes one line to the parent, which may be gone.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "\n{line}");
}

/// The messages of a process before it was killed.
#[derive(Default)]
pub struct Told {
    /// The writes that it found when it opened.
    pub found: Option<Counts>,
    /// For each thread, the number of its writes that were acknowledged, or found.
    pub acknowledged: Counts,
    pub acknowledgements: u64,
}

/// Starts the process, and kills it `pause` after its `wanted` acknowledgements: if both are small,
/// the kill hits the opening or the jobs that the opening began.
pub fn run_and_kill(dir: &Path, level: &str, wanted: u64, pause: Duration) -> Told {
    let mut child = Command::new(std::env::current_exe().expect("the test binary"))
        .args(["child_process", "--exact", "--nocapture"])
        .env(DIR_VARIABLE, dir)
        .env(LEVEL_VARIABLE, level)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let mut told = Told::default();
    if wanted == 0 {
        std::thread::sleep(pause);
        child.kill().expect("it runs");
    }
    for line in output.lines() {
        // The last line may be cut in the middle: it then shows too small a number, or none.
        let Ok(line) = line else { break };
        let mut words = line.split(' ');
        let first = words.next();
        let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
        match (first, &numbers[..]) {
            (Some("found"), counts) if counts.len() == THREADS => {
                let counts: Counts = counts.try_into().expect("as many as threads");
                told.found = Some(counts);
                told.acknowledged = counts;
            }
            (Some("ack"), &[thread, number]) => {
                let count = &mut told.acknowledged[thread as usize];
                *count = (*count).max(number + 1);
                told.acknowledgements += 1;
                if told.acknowledgements == wanted {
                    std::thread::sleep(pause);
                    child.kill().expect("it runs");
                }
            }
            (Some("bad"), _) => {
                // The child would continue without this process.
                child.kill().expect("it runs");
                panic!("{level}: the running process says: {line}")
            }
            _ => {}
        }
    }
    child.wait().expect("it was started");
    assert!(
        told.acknowledgements >= wanted,
        "{level}: it ended by itself after {}",
        told.acknowledgements
    );
    told
}

/// Panics if fewer writes are there than needed.
pub fn require(counts: &Counts, needed: &Counts, place: &str) {
    for thread in 0..THREADS {
        let (count, needed) = (counts[thread], needed[thread]);
        assert!(
            count >= needed,
            "{place}: thread {thread} has {count} of {needed} acknowledged"
        );
    }
}

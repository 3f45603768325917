//! A test in a process of its own: memory that is retired there does not wait for pins of another
//! test's threads.

use std::process::Command;

const ALONE: &str = "EVENDB_TEST_ALONE";

/// Whether this process runs only the test `name`. If not, the test is run in a process of its own,
/// and must pass there.
pub fn is_alone(name: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let output = Command::new(std::env::current_exe().expect("the test binary"))
        .args([name, "--exact", "--nocapture"])
        .env(ALONE, "1")
        .output()
        .expect("starts");
    let told = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy);
    println!("{}", told.concat());
    // Without a test of this name the run would succeed too.
    let passed = told[0].contains("test result: ok. 1 passed");
    assert!(output.status.success() && passed, "alone, {name} fails");
    false
}

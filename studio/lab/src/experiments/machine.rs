//! What the report says of the machine, the file system, the program, and the time.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::readable::rfc_3339;

/// The machine that measures into this directory. A fact that cannot be found out is null.
pub fn machine(directory: &Path) -> Value {
    let field = |path: &str, name: &str| {
        let text = fs::read_to_string(path).ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let memory_kib = field("/proc/meminfo", "MemTotal")
        .and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    json!({
        "cpu": field("/proc/cpuinfo", "model name"),
        "cores": std::thread::available_parallelism().ok().map(usize::from),
        "memory_bytes": memory_kib.map(|kib| kib << 10),
        "kernel": kernel.map(|text| text.trim().to_owned()),
        "filesystem": filesystem(directory),
        "commit": commit(),
    })
}

/// The commit of the checkout in which this program was built, if the program still lies there.
/// `-dirty` at its end says that there were changes on top.
fn commit() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let output = Command::new("git")
        .arg("-C")
        .arg(program.parent()?)
        .args([
            "describe",
            "--always",
            "--dirty",
            "--abbrev=12",
            "--exclude=*",
        ])
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned())
}

/// Type and options of the mount that holds the directory.
fn filesystem(directory: &Path) -> Option<String> {
    let directory = directory.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    filesystem_of(&directory, &mounts)
}

fn filesystem_of(directory: &Path, mounts: &str) -> Option<String> {
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            let (_, place) = (fields.next()?, fields.next()?);
            let text = format!("{} ({})", fields.next()?, fields.next()?);
            directory.starts_with(place).then_some((place.len(), text))
        })
        // If two mounts have the same place, the later one is visible.
        .max_by_key(|(length, _)| *length)
        .map(|(_, text)| text)
}

/// The time in the form of RFC 3339.
#[expect(
    clippy::disallowed_methods,
    reason = "a result says when it was measured; no store depends on it"
)]
pub fn now() -> String {
    use std::time::SystemTime;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    rfc_3339(since.map_or(0, |since| since.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_holds_the_directory() {
        let mounts = "a / ext4 rw 0 0\nb /data xfs rw,noatime 0 0\nc /da tmpfs rw 0 0\nbroken\n";
        let of = |path: &str| filesystem_of(Path::new(path), mounts);
        assert_eq!(of("/data/x").as_deref(), Some("xfs (rw,noatime)"));
        assert_eq!(of("/database").as_deref(), Some("ext4 (rw)"));
        assert_eq!(of("/da/x").as_deref(), Some("tmpfs (rw)"));
    }
}

//! Limits the memory of processes, page cache included, by a memory control group.
//!
//! ```text
//!   /proc/mounts, /proc/self/cgroup --> where a group may be made
//!        version 1:  <memory mount>/evendb-limit-<pid>-<n>/   limit_in_bytes, memsw.limit_in_bytes
//!        version 2:  <cgroup2 mount>/evendb-limit-<pid>-<n>/  memory.max, memory.swap.max = 0
//! ```
//! The group is made at the top of the hierarchy if that is allowed (root). Otherwise it is made
//! below the group of this process, or, in version 2, beside it (delegated hierarchies). No group
//! is made if this process is itself limited to less memory: nobody may escape a limit from
//! outside.
//!
//! Pages are charged to the group that first touched them. Pages that a process outside has in the
//! page cache stay charged there, so files should be dropped from the cache before a limited
//! process reads them. Memory and swap together are limited if the kernel counts swap.
//!
//! The guard removes the group when it is dropped, after moving this process back if it was put in.
//! Processes that still run in it then keep the group alive; the next limit that is made removes
//! groups whose maker is gone. Thread safety is what `&self` says: any thread may call `add`.
//!
//! Not here: CPU and I/O limits. Without control groups there is no limit: the caller gets the
//! reason as a text for its report, and runs without.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

const NAME: &str = "evendb-limit-";

/// Numbers the groups of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// The two interfaces of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// A memory control group, removed when this is dropped.
#[derive(Debug)]
pub struct MemoryLimit {
    version: Version,
    bytes: u64,
    group: PathBuf,
    procs: PathBuf,
    /// The `cgroup.procs` of the group in which this process was when the limit was made.
    home_procs: Option<PathBuf>,
}

/// Makes an empty group of at most `bytes` bytes.
///
/// # Errors
/// The reason why a limit cannot be set here, for a report: "this run had no memory limit: ...".
pub fn limit(bytes: u64) -> Result<MemoryLimit, String> {
    let read = |path| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    let places = Places::parse(&read("/proc/mounts")?, &read("/proc/self/cgroup")?)?;
    places.limit(bytes)
}

impl MemoryLimit {
    /// `cgroup v1` or `cgroup v2`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.version {
            Version::V1 => "cgroup v1",
            Version::V2 => "cgroup v2",
        }
    }

    /// The limit.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A process joins the group when its number is written to this file.
    #[must_use]
    pub fn procs_file(&self) -> &Path {
        &self.procs
    }

    /// Puts a process into the group. Memory that it touched before stays charged where it was.
    ///
    /// # Errors
    /// The kernel's, for example for a process that has ended.
    pub fn add(&self, pid: u32) -> io::Result<()> {
        fs::write(&self.procs, pid.to_string())
    }

    /// A command that joins the group before it becomes `program`, so that all of its memory is
    /// counted. The caller adds arguments as to any command. (A shell joins the group, since code
    /// between fork and exec would have to be unsafe.)
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
            .arg(&self.procs)
            .arg(program);
        command
    }

    /// The highest number of bytes that the group ever held. `None` if the kernel does not tell it.
    #[must_use]
    pub fn peak_bytes(&self) -> Option<u64> {
        let name = match self.version {
            Version::V1 => "memory.max_usage_in_bytes",
            Version::V2 => "memory.peak",
        };
        read_number(&self.group.join(name))
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        let own = std::process::id().to_string();
        let inside = fs::read_to_string(&self.procs).unwrap_or_default();
        if inside.lines().any(|pid| pid == own)
            && let Some(home) = &self.home_procs
        {
            let _ = fs::write(home, &own);
        }
        // A process that has just ended may still be counted for a moment.
        for _ in 0..20 {
            match fs::remove_dir(&self.group) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    thread::sleep(Duration::from_millis(50));
                }
                _ => return,
            }
        }
    }
}

/// Where the hierarchy is and where in it this process is.
#[derive(Debug, PartialEq, Eq)]
struct Places {
    version: Version,
    mount: PathBuf,
    /// The group of this process, relative to the mount (in a container it may not be visible).
    own: Option<PathBuf>,
}

impl Places {
    fn parse(mounts: &str, groups: &str) -> Result<Self, String> {
        let mut unified = None;
        for line in mounts.lines() {
            let mut fields = line.split(' ').skip(1);
            let (Some(place), Some(kind), Some(options)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let mount = PathBuf::from(unescape(place));
            match kind {
                // If both are mounted and version 1 has the memory controller, the controller is
                // there.
                "cgroup" if options.split(',').any(|option| option == "memory") => {
                    let own = own_group(groups, Version::V1);
                    return Ok(Self {
                        version: Version::V1,
                        mount,
                        own,
                    });
                }
                "cgroup2" if unified.is_none() => unified = Some(mount),
                _ => {}
            }
        }
        let mount = unified.ok_or("no control-group file system is mounted")?;
        Ok(Self {
            version: Version::V2,
            mount,
            own: own_group(groups, Version::V2),
        })
    }

    fn limit(&self, bytes: u64) -> Result<MemoryLimit, String> {
        if let Some(outer) = self.outer_limit()
            && outer < bytes
        {
            return Err(format!(
                "this process is itself limited to {outer} bytes, less than the {bytes} asked for"
            ));
        }
        let mut reasons = Vec::new();
        for parent in self.parents() {
            match self.make(&parent, bytes) {
                Ok(limit) => return Ok(limit),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(reasons.join("; "))
    }

    /// Candidates for the new group's parent, the preferred one first.
    fn parents(&self) -> Vec<PathBuf> {
        let mut parents = vec![self.mount.clone()];
        let own = self.own.iter().map(|own| self.mount.join(own));
        for own in own.filter(|own| own.is_dir() && *own != self.mount) {
            match self.version {
                Version::V1 => parents.push(own),
                // A group that has processes cannot have limited children: only the groups above it
                // can.
                Version::V2 => parents.extend(
                    own.ancestors()
                        .skip(1)
                        .take_while(|above| *above != self.mount && above.starts_with(&self.mount))
                        .map(Path::to_owned),
                ),
            }
        }
        parents
    }

    fn make(&self, parent: &Path, bytes: u64) -> Result<MemoryLimit, String> {
        if self.version == Version::V2 {
            delegate_memory(parent)?;
        }
        remove_abandoned(parent);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let group = parent.join(format!("{NAME}{}-{number}", std::process::id()));
        fs::create_dir(&group).map_err(|error| format!("{}: {error}", group.display()))?;
        let home = self.own.as_ref().map(|own| self.mount.join(own));
        // From here on the guard removes the group.
        let limit = MemoryLimit {
            version: self.version,
            bytes,
            procs: group.join("cgroup.procs"),
            group,
            home_procs: home
                .map(|home| home.join("cgroup.procs"))
                .filter(|procs| procs.exists()),
        };
        let write = |name: &str, text: String| {
            let path = limit.group.join(name);
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
        };
        let (memory, swap, swap_bytes) = match self.version {
            // This limits memory and swap together, ...
            Version::V1 => (
                "memory.limit_in_bytes",
                "memory.memsw.limit_in_bytes",
                bytes,
            ),
            // ... and this limits swap alone.
            Version::V2 => ("memory.max", "memory.swap.max", 0),
        };
        write(memory, bytes.to_string())?;
        if limit.group.join(swap).exists() {
            write(swap, swap_bytes.to_string())?;
        }
        Ok(limit)
    }

    /// The limit of this process, if it can be seen.
    fn outer_limit(&self) -> Option<u64> {
        let own = self.mount.join(self.own.as_ref()?);
        match self.version {
            Version::V1 => {
                let stat = fs::read_to_string(own.join("memory.stat")).ok()?;
                let line = |line: &str| {
                    line.strip_prefix("hierarchical_memory_limit ")?
                        .parse()
                        .ok()
                };
                stat.lines().find_map(line)
            }
            // `max` is no limit, and a missing file (as at the root) is none.
            Version::V2 => own
                .ancestors()
                .take_while(|group| group.starts_with(&self.mount))
                .filter_map(|group| read_number(&group.join("memory.max")))
                .min(),
        }
    }
}

/// Makes sure that groups below `parent` (version 2) have the memory controller.
fn delegate_memory(parent: &Path) -> Result<(), String> {
    let has = |name| {
        let text = fs::read_to_string(parent.join(name)).unwrap_or_default();
        text.split_whitespace().any(|word| word == "memory")
    };
    if has("cgroup.subtree_control") {
        return Ok(());
    }
    if !has("cgroup.controllers") {
        return Err(format!("{}: no memory controller", parent.display()));
    }
    let control = parent.join("cgroup.subtree_control");
    fs::write(&control, "+memory").map_err(|error| format!("{}: {error}", control.display()))
}

/// Removes groups that killed processes left behind. A group that has processes refuses.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(maker_of);
        if maker.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The process that made a group of this name, if it is one of ours.
fn maker_of(name: &str) -> Option<u32> {
    let (pid, number) = name.strip_prefix(NAME)?.split_once('-')?;
    number.parse::<u32>().ok()?;
    pid.parse().ok()
}

/// The group of a process by its `/proc/PID/cgroup`, relative to the mount.
fn own_group(groups: &str, version: Version) -> Option<PathBuf> {
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let fits = match version {
            Version::V1 => controllers.split(',').any(|name| name == "memory"),
            Version::V2 => controllers.is_empty(),
        };
        // What lies beyond the root of a container's view cannot be seen.
        let visible = !path.split('/').any(|part| part == "..");
        (fits && visible).then(|| PathBuf::from(path.trim_start_matches('/')))
    })
}

/// A path in `/proc/mounts`: a blank or similar character is a backslash and three octal digits.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find('\\') {
        plain.push_str(&rest[..place]);
        let code = rest.get(place + 1..place + 4);
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if byte.is_ascii() => {
                plain.push(char::from(byte));
                rest = &rest[place + 4..];
            }
            _ => {
                plain.push('\\');
                rest = &rest[place + 1..];
            }
        }
    }
    plain.push_str(rest);
    plain
}

fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS_V1: &str = "proc /proc proc rw 0 0\n\
        tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n\
        cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
        cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
        broken\n";
    const GROUPS_V1: &str = "5:cpu,cpuacct:/a\n4:memory:/service/one:two\n0::/else\n";
    const MOUNTS_V2: &str =
        "cgroup2 /sys/fs/my\\040cgroup cgroup2 rw,nosuid,nsdelegate,memory_recursiveprot 0 0\n";
    const GROUPS_V2: &str = "0::/user.slice/user-1000.slice/session-3.scope\n";

    #[test]
    fn version_1_is_found_by_its_controller() {
        let places = Places::parse(MOUNTS_V1, GROUPS_V1).unwrap();
        let expected = Places {
            version: Version::V1,
            mount: "/sys/fs/cgroup/memory".into(),
            own: Some("service/one:two".into()),
        };
        assert_eq!(places, expected);
    }

    #[test]
    fn version_2_is_taken_where_version_1_has_no_memory_controller() {
        let places = Places::parse(MOUNTS_V2, GROUPS_V2).unwrap();
        assert_eq!(places.version, Version::V2);
        assert_eq!(places.mount, Path::new("/sys/fs/my cgroup"));
        let own = "user.slice/user-1000.slice/session-3.scope";
        assert_eq!(places.own.as_deref(), Some(Path::new(own)));

        let hybrid = MOUNTS_V1.replace(",memory", ",freezer");
        let places = Places::parse(&hybrid, GROUPS_V1).unwrap();
        assert_eq!(places.version, Version::V2);
        assert_eq!(places.mount, Path::new("/sys/fs/cgroup/unified"));
        assert_eq!(places.own.as_deref(), Some(Path::new("else")));
    }

    #[test]
    fn where_there_is_nothing_the_reason_is_named() {
        let reason = Places::parse("proc /proc proc rw 0 0\n", "").unwrap_err();
        assert!(reason.contains("no control-group file system"), "{reason}");
        // A container that sees only a part of the hierarchy.
        assert_eq!(own_group("0::/../other\n", Version::V2), None);
        assert_eq!(own_group("", Version::V1), None);
        assert_eq!(own_group("garbage\n4:memory\n", Version::V1), None);
    }

    #[test]
    fn escapes_are_octal() {
        assert_eq!(unescape("/a\\040b\\134c"), "/a b\\c");
        for text in ["\\", "\\04", "\\999", "a\\"] {
            assert_eq!(unescape(text), text);
        }
    }

    #[test]
    fn only_groups_of_ours_are_recognised() {
        assert_eq!(maker_of("evendb-limit-12-0"), Some(12));
        for name in ["evendb-limit-12", "evendb-limit-x-1", "other-12-0"] {
            assert_eq!(maker_of(name), None, "{name}");
        }
    }

    /// A tree of plain files in the shape of version 2.
    fn fake_v2(subtree: &str) -> (tempfile::TempDir, Places) {
        let root = tempfile::tempdir().unwrap();
        let slice = root.path().join("slice");
        fs::create_dir_all(slice.join("session")).unwrap();
        fs::write(root.path().join("cgroup.controllers"), "cpu memory\n").unwrap();
        fs::write(root.path().join("cgroup.subtree_control"), subtree).unwrap();
        let places = Places {
            version: Version::V2,
            mount: root.path().to_owned(),
            own: Some("slice/session".into()),
        };
        (root, places)
    }

    #[test]
    fn version_2_gets_its_controller_and_its_limit() {
        for subtree in ["cpu memory\n", "cpu\n"] {
            let (root, places) = fake_v2(subtree);
            let limit = places.limit(1 << 20).unwrap();
            assert_eq!((limit.kind(), limit.bytes()), ("cgroup v2", 1 << 20));
            assert_eq!(limit.group.parent(), Some(root.path()));
            assert_eq!(read_number(&limit.group.join("memory.max")), Some(1 << 20));
            let control = fs::read_to_string(root.path().join("cgroup.subtree_control")).unwrap();
            assert_eq!(control == "+memory", subtree == "cpu\n");
            limit.add(7).unwrap();
            assert_eq!(read_number(limit.procs_file()), Some(7));
        }
    }

    #[test]
    fn version_2_falls_back_to_what_is_delegated() {
        let (root, places) = fake_v2("memory");
        fs::write(root.path().join("cgroup.controllers"), "cpu\n").unwrap();
        fs::write(root.path().join("cgroup.subtree_control"), "cpu\n").unwrap();
        let reason = places.limit(1 << 20).unwrap_err();
        assert!(reason.contains("no memory controller"), "{reason}");
        let slice = root.path().join("slice");
        fs::write(slice.join("cgroup.subtree_control"), "memory\n").unwrap();
        let limit = places.limit(1 << 20).unwrap();
        assert_eq!(limit.group.parent(), Some(&*slice));
    }

    #[test]
    fn a_limit_from_outside_is_not_escaped() {
        let (root, places) = fake_v2("memory");
        fs::write(root.path().join("slice/memory.max"), "1000000\n").unwrap();
        fs::write(root.path().join("slice/session/memory.max"), "max\n").unwrap();
        let reason = places.limit(2_000_000).unwrap_err();
        assert!(reason.contains("limited to 1000000 bytes"), "{reason}");
        assert!(places.limit(1_000_000).is_ok());
    }

    /// Limits a real process if that is allowed. Otherwise the reason is printed.
    #[test]
    fn a_process_that_exceeds_the_limit_is_held_to_it() {
        const BYTES: u64 = 24 << 20;
        let limit = match limit(BYTES) {
            Ok(limit) => limit,
            Err(why) => return eprintln!("skipped: {why}"),
        };
        // Page cache is counted and held to the limit: three times the limit is written.
        let directory = tempfile::tempdir().unwrap();
        let mut command = limit.command("dd");
        command.args(["if=/dev/zero", "bs=1M", "count=72", "status=none"]);
        let mut output = std::ffi::OsString::from("of=");
        output.push(directory.path().join("zeros"));
        assert!(command.arg(output).status().unwrap().success());
        if let Some(peak) = limit.peak_bytes() {
            assert!((BYTES / 2..=BYTES).contains(&peak), "{peak}");
        }
        let group = limit.group.clone();
        assert!(group.exists());
        drop(limit);
        assert!(!group.exists());
    }

    #[test]
    fn processes_can_be_added_and_their_group_goes_after_them() {
        let limit = match limit(64 << 20) {
            Ok(limit) => limit,
            Err(why) => return eprintln!("skipped: {why}"),
        };
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        limit.add(child.id()).unwrap();
        let inside = fs::read_to_string(limit.procs_file()).unwrap();
        assert_eq!(inside.trim(), child.id().to_string());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(limit.add(child.id()).is_err());
        let group = limit.group.clone();
        drop(limit);
        assert!(!group.exists());
    }
}

//! The memory that a container lets this process have, from which the default budget follows.
//!
//! A control group's limit holds for all groups within it, so the least of a path's limits counts.
//! Both versions of control groups are read. In the second version each group has `memory.max`; in
//! the first version it has `memory.limit_in_bytes` below the mount of the memory controller. In a
//! container the path is often not the path outside, and then the limit is in the mount's root.
//!
//! Thread safety: any. Only [`default_budget`]'s answer is remembered here.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Bytes that a database takes if no limit is lower.
const BUDGET: u64 = 512 << 20;
/// The least budget in bytes, however small the container is.
const BUDGET_MIN: u64 = 4 << 20;
/// Bytes beside the budget for the process itself, for holes in its heap and for the system's cache
/// of files. They get at least a fifth of the container.
const BESIDE: u64 = 64 << 20;

/// The memory budget of a database for which none is set: 512 MiB, or in a container its memory
/// less a fifth of it, and less 64 MiB at least. The answer is the same for the life of the
/// process.
pub fn default_budget() -> u64 {
    static ANSWER: OnceLock<u64> = OnceLock::new();
    *ANSWER.get_or_init(|| budget_within(limit(Path::new("/"))))
}

fn budget_within(limit: Option<u64>) -> u64 {
    let Some(limit) = limit else { return BUDGET };
    let beside = BESIDE.max(limit / 5);
    let whole = limit.saturating_sub(beside) >> 20 << 20;
    whole.clamp(BUDGET_MIN, BUDGET)
}

/// The least limit of the control groups of this process, in the system whose root is `root`;
/// `None` if there is none, or if none can be read.
fn limit(root: &Path) -> Option<u64> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = root.join("sys/fs/cgroup");
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        match controllers {
            "" => least(&mounts, path, "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                least(&mounts.join("memory"), path, "memory.limit_in_bytes")
            }
            _ => None,
        }
    });
    limits.min()
}

/// The least number in the files `name` in `mount` and in each directory along `path` below it.
fn least(mount: &Path, path: &str, name: &str) -> Option<u64> {
    let read = |dir: PathBuf| {
        let text = std::fs::read_to_string(dir.join(name)).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let path = Path::new(path.trim_start_matches('/'));
    path.ancestors()
        .filter_map(|ancestor| read(mount.join(ancestor)))
        .min()
}

#[cfg(all(test, not(any(evendb_loom, evendb_shuttle))))]
mod tests {
    use super::*;
    use std::fs;

    fn system(groups: &str, files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("works");
        fs::create_dir_all(root.path().join("proc/self")).expect("works");
        fs::write(root.path().join("proc/self/cgroup"), groups).expect("works");
        for (name, text) in files {
            let path = root.path().join("sys/fs/cgroup").join(name);
            fs::create_dir_all(path.parent().expect("works")).expect("works");
            fs::write(path, text).expect("works");
        }
        root
    }

    fn limit_of(groups: &str, files: &[(&str, &str)]) -> Option<u64> {
        limit(system(groups, files).path())
    }

    #[test]
    fn the_least_limit_of_a_path_of_groups_counts() {
        let groups = "0::/app/worker\n";
        let of_worker = ("app/worker/memory.max", "max\n");
        let of_app = ("app/memory.max", "134217728\n");
        assert_eq!(limit_of(groups, &[of_worker, of_app]), Some(128 << 20));
        let less = ("app/worker/memory.max", "1048576\n");
        assert_eq!(limit_of(groups, &[less, of_app]), Some(1 << 20));
        assert_eq!(limit_of(groups, &[of_worker]), None);
        // In a container the path is that of the outside, and the limit is in the root.
        let of_root = ("memory.max", "268435456\n");
        assert_eq!(limit_of("0::/../outside\n", &[of_root]), Some(256 << 20));
    }

    #[test]
    fn the_first_version_of_groups_is_read_too() {
        let groups = "5:cpu,cpuacct:/app\n4:memory:/app\n1:name=systemd:/\n";
        let of_app = ("memory/app/memory.limit_in_bytes", "134217728\n");
        let of_all = ("memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit_of(groups, &[of_app, of_all]), Some(128 << 20));
        assert_eq!(
            limit_of(groups, &[("memory/memory.limit_in_bytes", "67108864\n")]),
            Some(64 << 20)
        );
    }

    #[test]
    fn what_is_no_limit_or_cannot_be_read_limits_nothing() {
        assert_eq!(limit(Path::new("/nothing/here")), None);
        for groups in ["", "0", "0:", "0::", "::", "x:memory", "0::/\n"] {
            assert_eq!(limit_of(groups, &[]), None, "{groups}");
            assert_eq!(limit_of(groups, &[("memory.max", "-1 x")]), None);
        }
    }

    #[test]
    fn a_budget_leaves_a_fifth_and_64_mib() {
        let mib = |mib: u64| mib << 20;
        assert_eq!(budget_within(None), mib(512));
        assert_eq!(budget_within(Some(u64::MAX)), mib(512));
        assert_eq!(budget_within(Some(mib(1024))), mib(512));
        assert_eq!(budget_within(Some(mib(512))), mib(409));
        assert_eq!(budget_within(Some(mib(256))), mib(192));
        assert_eq!(budget_within(Some(mib(128))), mib(64));
        assert_eq!(budget_within(Some(mib(32))), mib(4));
    }
}

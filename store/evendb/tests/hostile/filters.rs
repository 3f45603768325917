//! A sandbox whose filter of system calls refuses calls that are only hints, or that have a
//! replacement.
#![expect(unsafe_code, reason = "a filter of system calls is set by a raw call")]

use crate::in_another_process;
use evendb::Durability;
use std::path::Path;

/// Calls that are refused; the store needs none of them.
const REFUSED: [i64; 7] = [
    libc::SYS_madvise,
    libc::SYS_fallocate,
    libc::SYS_pwritev2,
    libc::SYS_fadvise64,
    libc::SYS_sync_file_range,
    libc::SYS_mlock2,
    libc::SYS_ioctl,
];

/// From now on these calls of this process fail with `errno`.
fn refuse(errno: i32) {
    use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter, sock_fprog};
    let step = |code: u32, yes: u8, no: u8, value: u32| sock_filter {
        code: code as u16,
        jt: yes,
        jf: no,
        k: value,
    };
    // The number of the call comes first in the data of a filter.
    let mut program = vec![step(BPF_LD | BPF_W | BPF_ABS, 0, 0, 0)];
    for (at, call) in REFUSED.iter().enumerate() {
        let to_refusal = (REFUSED.len() - at) as u8;
        program.push(step(BPF_JMP | BPF_JEQ | BPF_K, to_refusal, 0, *call as u32));
    }
    program.push(step(BPF_RET | BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    let refusal = libc::SECCOMP_RET_ERRNO | errno as u32;
    program.push(step(BPF_RET | BPF_K, 0, 0, refusal));
    let program = sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the calls take numbers and a pointer to a program that lives longer than they run.
    let set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) == 0
    };
    assert!(set, "{}", std::io::Error::last_os_error());
}

/// A database is made, filled, closed and opened again while these calls fail with `errno`.
pub fn without_hints(dir: &Path, errno: i32) {
    refuse(errno);
    for level in [Durability::Process, Durability::Sync] {
        let dir = dir.join(format!("{level:?}"));
        let open = || {
            crate::common::options()
                .memory_budget(4 << 20)
                .durability(level)
                .open(&dir)
        };
        let db = open().expect("opens");
        for number in 0..3_000 {
            db.put(format!("{number:05}"), vec![7; 1_000])
                .expect("puts");
        }
        db.persist().expect("syncs");
        db.compact().expect("compacts");
        db.close().expect("closes");
        assert_eq!(open().expect("opens").iter().count(), 3_000);
    }
}

#[test]
fn hints_that_a_filter_refuses_refuse_nothing() {
    for role in ["hints refused", "hints unknown"] {
        let dir = tempfile::tempdir().expect("a directory");
        in_another_process(role, dir.path());
    }
}

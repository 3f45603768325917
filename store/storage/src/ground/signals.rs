#![cfg_attr(
    not(miri),
    expect(
        unsafe_code,
        reason = "calls of the C library that Rust's does not offer"
    )
)]
//! Threads that take no signal of the program.
//!
//! A thread begins with those signals blocked that its maker has blocked. A thread of the store
//! that took a signal would run a handler of the program on its own stack, beside its locks, and
//! system calls of the store would be interrupted; and a program that waits for a signal in a
//! thread of its own (`sigwait`) would never see it. So each thread is started within
//! [`without_signals`].
//!
//! Faults of the thread itself (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS) stay as they are:
//! no other thread could take them, and a program's crash report comes from there.
//!
//! Thread safety: any thread; it changes its own signals only.

/// Runs `body` with all signals blocked in this thread that another thread can take.
pub fn without_signals<R>(body: impl FnOnce() -> R) -> R {
    #[cfg(not(miri))]
    let _restored = Restore::block();
    body()
}

/// Gives the thread its signals back, also when the body panics.
#[cfg(not(miri))]
struct Restore(Option<libc::sigset_t>);

#[cfg(not(miri))]
impl Restore {
    fn block() -> Restore {
        let own = [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGFPE,
            libc::SIGILL,
            libc::SIGTRAP,
            libc::SIGSYS,
        ];
        let mut blocked = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: both point to memory of this call. `blocked` is written by the first call, and
        // `before` is read only if the last one succeeded, which has written it then.
        let before = unsafe {
            libc::sigfillset(blocked.as_mut_ptr());
            for signal in own {
                libc::sigdelset(blocked.as_mut_ptr(), signal);
            }
            let (blocked, into) = (blocked.as_ptr(), before.as_mut_ptr());
            match libc::pthread_sigmask(libc::SIG_BLOCK, blocked, into) {
                0 => Some(before.assume_init()),
                _ => None,
            }
        };
        Restore(before)
    }
}

#[cfg(not(miri))]
impl Drop for Restore {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // SAFETY: the set is valid, and nothing is to be told.
            unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut());
            }
        }
    }
}

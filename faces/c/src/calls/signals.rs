//! Threads of the store that take no signal of the program.
//!
//! A thread begins with the signals of its maker blocked. So calls that start threads run with all
//! signals blocked; a handler of the program then runs in a thread of the program. The store's
//! threads start each other, and pass that on.

use std::mem::MaybeUninit;

/// Runs `body` with all signals blocked in this thread.
pub(crate) fn without_signals<R>(body: impl FnOnce() -> R) -> R {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both point to memory of this call; `before` is written when the call succeeds.
    let blocked = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) == 0
    };
    let _restored = Restore(blocked.then_some(before));
    body()
}

/// Gives the thread its signals back, also when the body panics.
struct Restore(Option<MaybeUninit<libc::sigset_t>>);

impl Drop for Restore {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // SAFETY: the set was written by the call that blocked the signals.
            unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
            }
        }
    }
}

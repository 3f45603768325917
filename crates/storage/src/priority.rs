//! Priority of a thread, so that background work yields to what it works for.

/// Lowers the calling thread's share of a busy processor by `steps` (each about a fifth less; idle
/// processors are used as before). For good: raising it again needs a privilege. Where the system
/// refuses or does not know priorities of single threads, nothing happens.
pub fn lower_thread_priority(steps: u8) {
    // On Linux the "process" 0 is the calling thread; elsewhere it is the whole process, which must
    // not be touched.
    #[cfg(target_os = "linux")]
    if let Ok(now) = rustix::process::getpriority_process(None) {
        let _ = rustix::process::setpriority_process(None, now + i32::from(steps));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = steps;
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn only_the_calling_thread_is_lowered() {
        let own = || rustix::process::getpriority_process(None).unwrap();
        let before = own();
        let lowered = std::thread::spawn(move || {
            super::lower_thread_priority(3);
            own()
        });
        assert_eq!(lowered.join().unwrap(), (before + 3).min(19));
        assert_eq!(own(), before);
    }
}

//! What a test may do without the rights of root.

/// Runs `work` in a thread that may write only where a file's permissions allow it, which root does
/// not have to respect. Threads that it starts have the same rights.
pub fn without_privileges(work: impl FnOnce() + Send + 'static) {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let thread = std::thread::spawn(move || {
        let mut own = capabilities(None).expect("asks");
        let above = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        own.effective.remove(above);
        own.permitted.remove(above);
        own.inheritable.remove(above);
        set_capabilities(None, own).expect("gives up");
        work();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

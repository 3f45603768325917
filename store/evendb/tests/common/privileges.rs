//! What a test may do that is not root.

/// Runs `work` in a thread that may write no more than a file's permissions say, which for root would
/// be nothing to heed; threads that it starts are like it.
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

//! Stopping at the user's request without losing anything.
//!
//! The first SIGINT or SIGTERM sets a flag that long-running commands look at between steps; the
//! second ends the process at once with exit code 130.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::Failure;

/// The flag that a signal sets.
#[derive(Clone)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Installs the handlers; from here on a signal no longer ends the process by itself.
    pub fn install() -> Result<Self, Failure> {
        let raised = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the flag is still false when the first signal passes the first
            // handler.
            flag::register_conditional_shutdown(signal, 130, Arc::clone(&raised))
                .and_then(|_| flag::register(signal, Arc::clone(&raised)))
                .map_err(|error| Failure::new("cannot install a signal handler", error))?;
        }
        Ok(Self(raised))
    }

    /// Whether the user wants to stop.
    pub fn raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag, for code that takes a plain flag.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }
}

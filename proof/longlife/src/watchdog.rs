//! [`Watchdog`]: ends a process in which a life does not end, and names that life. Nothing else
//! would tell: a call that waits for ever gives no wrong answer.
//!
//! It has a thread of its own as long as it lives. It ends the process by an abort, so that a
//! debugger or a core shows where each thread waits.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// See the module.
pub struct Watchdog {
    begun: Option<Sender<String>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// A watchdog that waits at most this time for the end of each part.
    pub fn new(patience: Duration) -> Watchdog {
        let (begun, begins) = channel::<String>();
        let watch = move || {
            let mut part = "the beginning".to_owned();
            loop {
                match begins.recv_timeout(patience) {
                    Ok(next) => part = next,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        println!("FAULT {part}: it has not ended after {patience:?}");
                        std::process::abort();
                    }
                }
            }
        };
        Watchdog {
            begun: Some(begun),
            thread: Some(std::thread::spawn(watch)),
        }
    }

    /// The part before has ended, and this one begins.
    pub fn begin(&self, part: String) {
        if let Some(begun) = &self.begun {
            // Its thread is there as long as this is.
            let _ = begun.send(part);
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.begun = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

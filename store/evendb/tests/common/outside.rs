//! Which calls of a database change files while closing would not wait for them.

#![allow(clippy::disallowed_types, reason = "no model runs this")]

use evendb_storage::vfs::SimVfs;
use std::sync::{Arc, Mutex};
use std::thread;

/// Watches the calls that the thread which made this makes one after the other.
pub struct Outside {
    /// The call under way, and the calls that changed something outside of the gate.
    told: Arc<Mutex<(&'static str, Vec<&'static str>)>>,
}

impl Outside {
    /// Watches from now on what this thread asks of `vfs`. `nobody_is_inside` asks the gate, and
    /// does not use the machine.
    pub fn of(vfs: &SimVfs, nobody_is_inside: impl Fn() -> bool + Send + 'static) -> Outside {
        let told = Arc::new(Mutex::new(("no call", Vec::new())));
        let (notes, own) = (told.clone(), thread::current().id());
        vfs.watch(move |_| {
            let mut notes = notes.lock().expect("nobody panicked");
            let (call, found) = &mut *notes;
            // Other threads belong to the database; closing ends them.
            let is_outside = thread::current().id() == own && nobody_is_inside();
            if is_outside && found.last() != Some(call) {
                found.push(call);
            }
        });
        Outside { told }
    }

    /// Runs a call under its name; it must change something.
    pub fn call<T>(&self, vfs: &SimVfs, name: &'static str, run: impl FnOnce() -> T) -> T {
        self.told.lock().expect("nobody panicked").0 = name;
        let before = vfs.op_count();
        let result = run();
        assert!(vfs.op_count() > before, "{name} changed nothing");
        self.told.lock().expect("nobody panicked").0 = "no call";
        result
    }

    /// The calls that were not inside, in their order.
    pub fn found(&self) -> Vec<&'static str> {
        self.told.lock().expect("nobody panicked").1.clone()
    }
}

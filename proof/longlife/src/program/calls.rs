//! [`calls`]: the calls of a phase, and how often each comes. Also the calls that are neither reads
//! nor writes of a thread's own keys: those on what all threads share, and upkeep.

use super::{Outcome, Phase, Program, words};
use crate::together;
use evendb::ErrorKind;

/// A call: its name, how often it comes beside the others, and what it does.
pub(super) type Call<'a> = (&'static str, u64, fn(&mut Program<'a>) -> Outcome);

/// All calls of a phase.
pub(super) fn calls<'a>(phase: Phase) -> Vec<Call<'a>> {
    let all: [Call<'a>; 21] = [
        ("put", 300, Program::put),
        ("get", 200, Program::get),
        ("delete", 70, Program::delete),
        ("batch", 60, Program::batch),
        ("multi_get", 30, Program::multi_get),
        ("scan", 50, Program::scan),
        ("scan backward", 50, Program::scan_backward),
        ("scan of all own keys", 4, Program::scan_own),
        ("snapshot", 24, Program::snapshot),
        ("write together", 12, Program::write_together),
        ("read together", 12, Program::read_together),
        ("persist", 4, Program::persist),
        ("flush", 3, Program::flush),
        ("compact", 1, Program::compact),
        ("put that expires", 60, Program::put_expiring),
        ("merge", 90, Program::merge),
        ("delete range", 8, Program::delete_range),
        ("single delete", 20, Program::single_delete),
        ("transaction", 30, Program::transact),
        ("transfer", 20, Program::transfer),
        ("read accounts", 10, Program::read_accounts),
    ];
    let is_for_full = |name: &str| {
        let few = [
            "put",
            "get",
            "delete",
            "scan",
            "scan backward",
            "multi_get",
            "snapshot",
        ];
        few.contains(&name)
    };
    all.into_iter()
        .filter(|(name, ..)| phase != Phase::Full || is_for_full(name))
        .collect()
}

impl Program<'_> {
    fn write_together(&mut self) -> Outcome {
        let number = self.draw.number();
        together::write(self.store, number).map_err(words)
    }

    fn read_together(&mut self) -> Outcome {
        together::read(self.store)
    }

    fn transfer(&mut self) -> Outcome {
        let (from, amount) = (self.draw.below(together::ACCOUNTS), self.draw.below(60));
        let to = from + 1 + self.draw.below(together::ACCOUNTS - 1);
        let moved = together::transfer(self.store, from, to, amount);
        match moved.map_err(|error| (error.kind(), words(error))) {
            // Transfers of another thread came between, again and again: nothing is moved.
            Err((ErrorKind::Conflict | ErrorKind::LockTimeout | ErrorKind::Deadlock, _)) => Ok(()),
            moved => moved.map_err(|(_, what)| what),
        }
    }

    fn read_accounts(&mut self) -> Outcome {
        together::read_accounts(self.store)
    }

    fn persist(&mut self) -> Outcome {
        self.store.persist().map_err(words)
    }

    fn flush(&mut self) -> Outcome {
        self.store.flush().map_err(words)
    }

    fn compact(&mut self) -> Outcome {
        match self.thread == 0 && self.draw.one_in(3) {
            true => self.store.compact().map_err(words),
            false => Ok(()),
        }
    }
}

//! The checker can fail: a sound state in memory passes, and each kind of fault in it is named.

use super::*;
use std::cell::RefCell;

type Key = (u8, String);

/// A database that is a map, and its moment, which is itself.
#[derive(Default)]
struct Memory(RefCell<BTreeMap<Key, Vec<u8>>>);

impl Memory {
    fn set(&self, space: Space, key: &str, value: Option<&[u8]>) {
        let key = (space as u8, key.to_owned());
        match value {
            Some(value) => self.0.borrow_mut().insert(key, value.to_vec()),
            None => self.0.borrow_mut().remove(&key),
        };
    }

    /// The given number of writes of each thread, in turn. Each write comes after all before it.
    fn written(counts: &Counts) -> Memory {
        let memory = Memory::default();
        for account in 0..ACCOUNTS {
            let balance = FIRST_BALANCE.to_le_bytes();
            memory.set(Space::Bank, &account_key(account), Some(&balance));
        }
        let mut before = [0; THREADS];
        for number in 0..counts.iter().copied().max().unwrap_or(0) {
            for thread in 0..THREADS {
                if number < counts[thread] {
                    memory.write(thread, number, &before);
                    before[thread] = number + 1;
                }
            }
        }
        memory
    }

    fn write(&self, thread: usize, number: u64, before: &Counts) {
        let (key, value) = (slot_key(thread, number), value(number, before));
        let partner = format!("w{thread}");
        match kind(number) {
            Kind::Delete => self.set(Space::Slots, &key, None),
            Kind::Put => self.set(Space::Slots, &key, Some(&value)),
            Kind::Batch { .. } => {
                self.set(Space::Slots, &key, Some(&value));
                self.set(Space::Mirror, &partner, Some(&value));
            }
            Kind::Transfer { .. } => {
                self.set(Space::Slots, &key, Some(&value));
                self.set(Space::Bank, &partner, Some(&value));
            }
        }
    }

    fn fault(&self) -> Option<FaultKind> {
        check(self).err().map(|fault| fault.kind)
    }
}

impl Look for Memory {
    fn pairs(&self, space: Space, prefix: &str) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let map = self.0.borrow();
        let begins = |key: &Key| key.0 == space as u8 && key.1.starts_with(prefix);
        let pairs = map.iter().filter(|(key, _)| begins(key));
        Ok(pairs
            .map(|(key, value)| (key.1.clone().into_bytes(), value.clone()))
            .collect())
    }

    fn get(&self, space: Space, key: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.0.borrow().get(&(space as u8, key.to_owned())).cloned())
    }
}

#[test]
fn every_prefix_is_sound_and_counted() {
    for count in 0..400 {
        let counts = [count, count, count + 1, count];
        let found = check(&Memory::written(&counts));
        // A delete of an empty slot as the last write counts as done, though it is not made yet.
        let found = found.expect("sound");
        for (found, count) in found.iter().zip(&counts) {
            let next_deletes = deletes(*count) && *found == count + 1;
            assert!(found == count || next_deletes, "{found} of {count}");
        }
    }
}

#[test]
fn each_fault_is_named() {
    let counts = [200; THREADS];
    let sound = || Memory::written(&counts);
    assert_eq!(sound().fault(), None);
    let put = (0..SLOTS)
        .map(|back| 199 - back)
        .find(|number| kind(*number) == Kind::Put);
    let put = put.expect("there are puts");

    let hole = sound();
    hole.set(Space::Slots, &slot_key(1, put - 10), None);
    assert_eq!(hole.fault(), Some(FaultKind::Wrong));

    let damaged = sound();
    let mut bytes = value(put, &[0; THREADS]);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    damaged.set(Space::Slots, &slot_key(1, put), Some(&bytes));
    assert_eq!(damaged.fault(), Some(FaultKind::Wrong));

    let undead = sound();
    // It must not be the very last write: without that, the rest would be a prefix too.
    let deleted = (130..190).rev().find(|number| deletes(*number));
    let deleted = deleted.expect("there are deletes");
    let old = value(deleted - SLOTS, &[0; THREADS]);
    undead.set(Space::Slots, &slot_key(2, deleted), Some(&old));
    assert_eq!(undead.fault(), Some(FaultKind::Wrong));

    let halved = sound();
    let older = value(8, &[0; THREADS]);
    halved.set(Space::Mirror, "w3", Some(&older));
    assert_eq!(halved.fault(), Some(FaultKind::Torn));

    let poorer = sound();
    poorer.set(Space::Bank, &account_key(3), Some(&99_u64.to_le_bytes()));
    assert_eq!(poorer.fault(), Some(FaultKind::Torn));

    // Thread 0 wrote its last ones when thread 1 had all its own.
    let no_prefix = Memory::written(&[200, 150, 200, 200]);
    no_prefix.write(0, 200, &[200; THREADS]);
    assert_eq!(no_prefix.fault(), Some(FaultKind::Wrong));
}

#[test]
fn what_is_missing_is_counted() {
    assert_eq!(missing(&[3, 4, 5, 6], &[3, 4, 0, 6]), None);
    let fault = missing(&[3, 4, 5, 6], &[4, 4, 8, 0]).expect("it is missing");
    assert_eq!(fault.kind, FaultKind::Lost);
    assert!(fault.what.starts_with("4 writes"), "{}", fault.what);
    assert_eq!(Fault::parse(&fault.to_string()), Some(fault));
}

//! [`Cut`]: the part of a trace that somebody wants, by time, keyspace, kind and prefix of keys.
//!
//! ```text
//!   operation --+-- of a key --> in the window, the keyspaces, the kinds, the prefixes? --> given
//!               +-- begin, savepoint of a transaction --> waits for the first part that is given
//!               +-- end of a batch or transaction -----> given if a part of it was
//! ```
//! * **Time.** An operation belongs to the window in which it began. Its time then counts from the
//!   beginning of the window. Parts of a transaction that began before the window are left out, and
//!   its end is given if any of its parts is, also behind the window.
//! * **Prefixes.** A scan has the key at which it begins (in reverse, the end of its range). The
//!   deletion of a range is cut down to the keys with a prefix. A pop has the lower end of its
//!   range. Calls without a key are left out if keyspaces or prefixes are asked for.
//! * **Kinds.** Ends of batches and transactions come with their parts, and need not be named.
//!
//! Memory: an entry for each open batch or transaction, at most [`GROUPS_MAX`] of them. What is
//! beyond that is given without its end.

use crate::error::Result;
use crate::operation::{Kind, Operation};
use std::collections::{BTreeSet, HashMap};

/// At most this number of open batches and transactions is followed.
const GROUPS_MAX: usize = 1 << 20;
/// At most this number of beginnings and savepoints of a transaction waits for its first part.
const WAITING_MAX: usize = 1024;

/// A window of time, in nanoseconds since the beginning of the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Window {
    /// Operations that began before it are left out.
    pub from: u64,
    /// Operations that began then or later are left out.
    pub until: Option<u64>,
}

impl Window {
    fn has(&self, start_nanos: u64) -> bool {
        start_nanos >= self.from && self.until.is_none_or(|until| start_nanos < until)
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Cut {
    /// The window of time.
    pub window: Window,
    /// Names of keyspaces. Empty: all.
    pub keyspaces: BTreeSet<String>,
    /// Kinds. Empty: all.
    pub kinds: BTreeSet<Kind>,
    /// Beginnings of keys. Empty: all keys.
    pub prefixes: Vec<Vec<u8>>,
    groups: HashMap<u64, Group>,
    seen: u64,
    given: u64,
}

/// An open batch or transaction.
#[derive(Clone, Debug, Default)]
struct Group {
    is_given: bool,
    waiting: Vec<Operation>,
}

/// Takes what is given.
type Give<'a> = &'a mut dyn FnMut(&Operation) -> Result<()>;

impl Cut {
    /// Whether everything is wanted.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.window == Window::default()
            && self.keyspaces.is_empty()
            && self.kinds.is_empty()
            && self.prefixes.is_empty()
    }

    /// The number of operations that came, and of those that were given.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.seen, self.given)
    }

    /// Gives the operation, or what is wanted of it. `keyspace` is the name of its keyspace.
    ///
    /// # Errors
    /// Those of `give`.
    pub fn take(&mut self, operation: &Operation, keyspace: &str, give: Give<'_>) -> Result<()> {
        self.seen += 1;
        if self.is_all() {
            self.given += 1;
            return give(operation);
        }
        match operation.kind {
            Kind::BatchCommit | Kind::Commit | Kind::Abort => {
                let ended = self.groups.remove(&operation.group);
                let is_asked_for =
                    self.kinds.contains(&operation.kind) && self.is_keyless(operation);
                match ended.is_some_and(|group| group.is_given) || is_asked_for {
                    true => self.give(operation.clone(), give),
                    false => Ok(()),
                }
            }
            Kind::Begin => self.wait(operation, give),
            Kind::Other if operation.group != 0 => self.wait(operation, give),
            Kind::Other => match self.is_keyless(operation) && self.has_kind(Kind::Other) {
                true => self.give(operation.clone(), give),
                false => Ok(()),
            },
            _ => self.keyed(operation, keyspace, give),
        }
    }

    /// Whether a call without a key is wanted, as far as its time and its missing key decide.
    fn is_keyless(&self, operation: &Operation) -> bool {
        let is_any = self.keyspaces.is_empty() && self.prefixes.is_empty();
        is_any && self.window.has(operation.start_nanos)
    }

    fn has_kind(&self, kind: Kind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }

    /// A part of a transaction that has no meaning without the others.
    fn wait(&mut self, operation: &Operation, give: Give<'_>) -> Result<()> {
        let has_room = self.groups.len() < GROUPS_MAX;
        if !has_room && !self.groups.contains_key(&operation.group) {
            return Ok(());
        }
        let group = self.groups.entry(operation.group).or_default();
        if group.is_given {
            return self.give(operation.clone(), give);
        }
        if group.waiting.len() < WAITING_MAX {
            group.waiting.push(operation.clone());
        }
        Ok(())
    }

    fn keyed(&mut self, operation: &Operation, keyspace: &str, give: Give<'_>) -> Result<()> {
        let is_wanted = self.window.has(operation.start_nanos)
            && (self.keyspaces.is_empty() || self.keyspaces.contains(keyspace))
            && self.has_kind(operation.kind);
        let wanted = match is_wanted {
            true => self.within_prefixes(operation),
            false => Vec::new(),
        };
        if wanted.is_empty() {
            return Ok(());
        }
        // Lookups of several keys have a group without an end.
        if operation.group != 0 && operation.kind != Kind::MultiGet {
            let has_room = self.groups.len() < GROUPS_MAX;
            if has_room || self.groups.contains_key(&operation.group) {
                let group = self.groups.entry(operation.group).or_default();
                group.is_given = true;
                for waiting in std::mem::take(&mut group.waiting) {
                    self.give(waiting, give)?;
                }
            }
        }
        wanted.into_iter().try_for_each(|one| self.give(one, give))
    }

    /// What is left of an operation: nothing, itself, or the deletions of smaller ranges.
    fn within_prefixes(&self, operation: &Operation) -> Vec<Operation> {
        if self.prefixes.is_empty() {
            return vec![operation.clone()];
        }
        if operation.kind == Kind::DeleteRange {
            let cut = self.prefixes.iter();
            return cut.filter_map(|prefix| within(operation, prefix)).collect();
        }
        let key = match operation.kind == Kind::Scan && operation.reverse {
            true => operation.end_key.as_deref(),
            false => Some(&operation.key[..]),
        };
        let begins = |prefix: &Vec<u8>| key.is_some_and(|key| key.starts_with(prefix));
        match self.prefixes.iter().any(begins) {
            true => vec![operation.clone()],
            false => Vec::new(),
        }
    }

    fn give(&mut self, mut operation: Operation, give: Give<'_>) -> Result<()> {
        operation.start_nanos = operation.start_nanos.saturating_sub(self.window.from);
        self.given += 1;
        give(&operation)
    }
}

/// The deletion of a range, cut down to the keys with a prefix.
fn within(operation: &Operation, prefix: &[u8]) -> Option<Operation> {
    let low = std::cmp::max(&operation.key[..], prefix);
    let end = after(prefix);
    let end = match (&operation.end_key, end) {
        (Some(own), Some(end)) => Some(own.clone().min(end)),
        (Some(own), None) => Some(own.clone()),
        (None, end) => end,
    };
    if end.as_ref().is_some_and(|end| &end[..] <= low) {
        return None;
    }
    let mut cut = operation.clone();
    (cut.key, cut.end_key) = (low.to_vec(), end);
    Some(cut)
}

/// The first key behind all keys with a prefix. `None` if there is none.
fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::{Cut, Window, after};
    use crate::{Kind, Operation};

    fn at(nanos: u64, kind: Kind, key: &str) -> Operation {
        let mut operation = Operation::new(kind, key);
        operation.start_nanos = nanos;
        operation
    }

    fn of_group(mut operation: Operation, group: u64) -> Operation {
        operation.group = group;
        operation
    }

    /// What a cut gives, as time, kind, key and end of a range.
    fn given(mut cut: Cut, operations: &[Operation]) -> Vec<(u64, Kind, String, Option<Vec<u8>>)> {
        let mut all = Vec::new();
        for operation in operations {
            let name = if operation.keyspace == 0 {
                "default"
            } else {
                "users"
            };
            cut.take(operation, name, &mut |one| {
                let key = String::from_utf8(one.key.clone()).unwrap();
                all.push((one.start_nanos, one.kind, key, one.end_key.clone()));
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(cut.counts(), (operations.len() as u64, all.len() as u64));
        all
    }

    fn keys(cut: Cut, operations: &[Operation]) -> Vec<String> {
        given(cut, operations)
            .into_iter()
            .map(|one| one.2)
            .collect()
    }

    #[test]
    fn a_window_has_what_began_in_it_and_times_count_from_its_beginning() {
        let operations: Vec<_> = (0..10).map(|n| at(n, Kind::Get, &n.to_string())).collect();
        let cut = Cut {
            window: Window {
                from: 3,
                until: Some(6),
            },
            ..Cut::default()
        };
        let times: Vec<_> = given(cut, &operations)
            .into_iter()
            .map(|one| (one.0, one.2))
            .collect();
        assert_eq!(times, [(0, "3".into()), (1, "4".into()), (2, "5".into())]);
    }

    #[test]
    fn keyspaces_kinds_and_prefixes_are_all_asked_for() {
        let mut other = at(0, Kind::Get, "a2");
        other.keyspace = 1;
        let mut back = at(0, Kind::Scan, "");
        (back.reverse, back.end_key) = (true, Some(b"a9".to_vec()));
        let operations = [
            at(0, Kind::Get, "a1"),
            other,
            at(0, Kind::Get, "b1"),
            at(0, Kind::Put, "a3"),
            back,
            at(0, Kind::Other, "checkpoint"),
        ];
        let by_prefix = Cut {
            prefixes: vec![b"a".to_vec()],
            ..Cut::default()
        };
        assert_eq!(keys(by_prefix, &operations), ["a1", "a2", "a3", ""]);
        let by_name = Cut {
            keyspaces: ["users".to_owned()].into(),
            ..Cut::default()
        };
        assert_eq!(keys(by_name, &operations), ["a2"]);
        let by_kind = Cut {
            kinds: [Kind::Put, Kind::Other].into(),
            ..Cut::default()
        };
        assert_eq!(keys(by_kind, &operations), ["a3", "checkpoint"]);
        assert_eq!(given(Cut::default(), &operations).len(), 6);
    }

    #[test]
    fn the_end_of_a_batch_comes_with_its_parts_and_only_then() {
        let operations = [
            of_group(at(1, Kind::Begin, ""), 7),
            of_group(at(2, Kind::Put, "a"), 7),
            of_group(at(3, Kind::Put, "b"), 8),
            of_group(at(9, Kind::Commit, ""), 7),
            of_group(at(9, Kind::BatchCommit, ""), 8),
        ];
        let kinds = |cut| -> Vec<_> {
            given(cut, &operations)
                .into_iter()
                .map(|one| one.1)
                .collect()
        };
        let a = || vec![b"a".to_vec()];
        let by_prefix = Cut {
            prefixes: a(),
            ..Cut::default()
        };
        assert_eq!(kinds(by_prefix), [Kind::Begin, Kind::Put, Kind::Commit]);
        // The end lies behind the window, and the beginning before it.
        let window = Window {
            from: 2,
            until: Some(3),
        };
        let by_time = Cut {
            window,
            ..Cut::default()
        };
        assert_eq!(kinds(by_time), [Kind::Begin, Kind::Put, Kind::Commit]);
        let by_kind = Cut {
            kinds: [Kind::Get].into(),
            ..Cut::default()
        };
        assert_eq!(kinds(by_kind), []);
        let ends = Cut {
            kinds: [Kind::BatchCommit].into(),
            ..Cut::default()
        };
        assert_eq!(kinds(ends), [Kind::BatchCommit]);
    }

    #[test]
    fn a_deletion_of_a_range_is_cut_down_to_the_prefixes() {
        let mut range = at(0, Kind::DeleteRange, "a5");
        range.end_key = Some(b"c".to_vec());
        let cut = |prefixes: &[&str]| {
            let cut = Cut {
                prefixes: prefixes.iter().map(|one| one.as_bytes().to_vec()).collect(),
                ..Cut::default()
            };
            let all = given(cut, std::slice::from_ref(&range));
            all.into_iter()
                .map(|one| (one.2, one.3.unwrap()))
                .collect::<Vec<_>>()
        };
        assert_eq!(cut(&["a"]), [("a5".to_owned(), b"b".to_vec())]);
        assert_eq!(cut(&["b", "c"]), [("b".to_owned(), b"c".to_vec())]);
        assert_eq!(cut(&["a1", "d"]), []);
        range.end_key = None;
        assert_eq!(after(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(after(b"\xff"), None);
    }
}

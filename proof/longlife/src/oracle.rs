//! [`Owner`]: the writes of a thread, as ordered maps, and so what it must read.
//!
//! ```text
//!   thread 0 ---- keys t0/...  and those of a kept database ----+
//!   thread 1 ---- keys t1/...                                   +---- one database, five keyspaces
//!   ...                                                         |
//!   all ---- keys that begin with `~`: accounts, batches -------+     (`together.rs`)
//! ```
//! Nobody else writes the keys of a thread, so beside any other threads its answers are exact: each
//! get and each scan of its own keys is compared with the maps. Between two phases nothing runs,
//! and a scan of everything is compared with all maps together.
//!
//! **Time.** A value may expire. A reader whose time is `now` sees values that expire later. Time
//! may go back (a new opening with a clock that was set back). Then there are two right answers for
//! values that had expired meanwhile: [`Owner::settle_expired`] takes the one that is found, from
//! then on.
//!
//! **Refusals.** A write that was refused for want of room may be there or not, until its key is
//! written again. Such keys are in doubt, with all their possible values.
//!
//! One owner at a time. Not here: how a database is asked (`store.rs`).

use crate::content::{Content, brief, merged};
use evendb::Merges;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// A keyspace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Space {
    /// The default one.
    Default,
    /// Merges, with the operator with which it was made.
    Counts,
    /// Values that expire.
    Until,
    /// A keyspace that kept databases have, too.
    Other,
    /// A keyspace that openings drop and make anew. Merges.
    Fresh,
}

/// All of them.
pub const SPACES: [Space; 5] = [
    Space::Default,
    Space::Counts,
    Space::Until,
    Space::Other,
    Space::Fresh,
];

impl Space {
    /// The keyspace's name.
    pub fn name(self) -> &'static str {
        match self {
            Space::Default => "default",
            Space::Counts => "counts",
            Space::Until => "until",
            Space::Other => "other",
            Space::Fresh => "fresh",
        }
    }
}

/// The first byte of keys that do not belong to a thread.
pub const SHARED: u8 = b'~';

/// When a value expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lasting {
    /// As the keyspace says.
    Plain,
    /// This number of milliseconds from now on.
    For(u64),
    /// At this number of milliseconds since 1970.
    Until(u64),
}

/// One write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Write {
    /// A value.
    Put(Space, Vec<u8>, Content, Lasting),
    /// A delete.
    Delete(Space, Vec<u8>),
    /// A delete of a key that was put once.
    SingleDelete(Space, Vec<u8>),
    /// A delete of all keys from one up to another one.
    DeleteRange(Space, Vec<u8>, Vec<u8>),
    /// An operand.
    Merge(Space, Vec<u8>, Vec<u8>),
}

/// The facts that decide the result of a write. They are fixed while threads run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// The time of the database: milliseconds since 1970.
    pub now: u64,
    /// The time to live of [`Space::Until`], in milliseconds.
    pub ttl: Option<u64>,
    /// The operator of [`Space::Counts`].
    pub counts: Merges,
    /// The operator of [`Space::Fresh`].
    pub fresh: Merges,
}

impl Rules {
    /// The operator of a keyspace that merges.
    pub fn merges(&self, space: Space) -> Merges {
        match space {
            Space::Fresh => self.fresh,
            _ => self.counts,
        }
    }
}

/// What a key has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The value.
    pub content: Content,
    /// When it expires.
    pub until: Option<u64>,
}

impl Entry {
    /// Whether a reader sees it.
    pub fn is_there(&self, now: u64) -> bool {
        self.until.is_none_or(|until| until > now)
    }
}

type Map = BTreeMap<Vec<u8>, Entry>;

/// See the module.
#[derive(Clone, Default, Debug)]
pub struct Owner {
    maps: [Map; SPACES.len()],
    doubts: BTreeMap<(Space, Vec<u8>), Vec<Option<Entry>>>,
    bytes: u64,
}

fn bytes_of(key: &[u8], entry: &Entry) -> u64 {
    (key.len() + entry.content.len()) as u64
}

fn in_words(found: Option<&[u8]>) -> String {
    found.map_or_else(|| "nothing".to_owned(), brief)
}

impl Owner {
    /// The content of a keyspace, visible or not.
    pub fn map(&self, space: Space) -> &Map {
        &self.maps[space as usize]
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A part of it: one keyspace, keys from one up to another.
    pub fn part(&self, space: Space, low: &[u8], high: &[u8]) -> Owner {
        let mut part = Owner::default();
        let bounds = (Bound::Included(low), Bound::Excluded(high));
        for (key, entry) in self.map(space).range::<[u8], _>(bounds) {
            part.set(space, key.clone(), Some(entry.clone()));
        }
        part
    }

    /// Sets what a key has.
    pub fn set(&mut self, space: Space, key: Vec<u8>, entry: Option<Entry>) {
        let map = &mut self.maps[space as usize];
        if let Some((key, before)) = map.get_key_value(&key) {
            self.bytes -= bytes_of(key, before);
        }
        match entry {
            Some(entry) => {
                self.bytes += bytes_of(&key, &entry);
                map.insert(key, entry);
            }
            None => drop(map.remove(&key)),
        }
    }

    /// Notes that a keyspace was dropped.
    pub fn clear(&mut self, space: Space) {
        let map = std::mem::take(&mut self.maps[space as usize]);
        let bytes: u64 = map.iter().map(|(key, entry)| bytes_of(key, entry)).sum();
        self.bytes -= bytes;
        self.doubts.retain(|(of, _), _| *of != space);
    }

    fn keys_between(&self, space: Space, low: &[u8], high: &[u8]) -> Vec<Vec<u8>> {
        let bounds = (Bound::Included(low), Bound::Excluded(high));
        let range = self.map(space).range::<[u8], _>(bounds);
        range.map(|(key, _)| key.clone()).collect()
    }

    /// The keys that a write changes, with what they have then.
    fn changes(&self, write: &Write, rules: &Rules) -> Vec<(Space, Vec<u8>, Option<Entry>)> {
        match write {
            Write::Put(space, key, content, lasting) => {
                let until = match (lasting, space) {
                    (Lasting::Plain, Space::Until) => rules.ttl.map(|ttl| rules.now + ttl),
                    (Lasting::Plain, _) => None,
                    (Lasting::For(millis), _) => Some(rules.now + millis),
                    (Lasting::Until(at), _) => Some(*at),
                };
                let content = content.clone();
                vec![(*space, key.clone(), Some(Entry { content, until }))]
            }
            Write::Delete(space, key) | Write::SingleDelete(space, key) => {
                vec![(*space, key.clone(), None)]
            }
            Write::DeleteRange(space, low, high) => {
                let keys = self.keys_between(*space, low, high).into_iter();
                keys.map(|key| (*space, key, None)).collect()
            }
            Write::Merge(space, key, operand) => {
                let value = self.map(*space).get(key);
                let value = value.map(|entry| entry.content.bytes());
                let value = merged(rules.merges(*space), value.as_deref(), operand);
                let entry = value.map(|bytes| Entry {
                    content: Content::Bytes(bytes),
                    until: None,
                });
                vec![(*space, key.clone(), entry)]
            }
        }
    }

    /// Notes that a write was acknowledged.
    pub fn apply(&mut self, write: &Write, rules: &Rules) {
        for (space, key, entry) in self.changes(write, rules) {
            if !self.doubts.is_empty() {
                self.doubts.remove(&(space, key.clone()));
            }
            self.set(space, key, entry);
        }
    }

    /// Notes that writes were refused, all in one batch.
    pub fn doubt(&mut self, writes: &[Write], rules: &Rules) {
        for write in writes {
            for (space, key, entry) in self.changes(write, rules) {
                let may_be = self.doubts.entry((space, key)).or_default();
                may_be.push(entry);
            }
        }
    }

    /// Writes after which nothing is in doubt. Values that are longer than `longest` are deleted:
    /// an opening with more memory wrote them.
    pub fn mending(&self, longest: u64) -> Vec<Write> {
        let each = self.doubts.keys();
        let fits = |entry: &&Entry| entry.content.len() as u64 <= longest;
        let mend = |(space, key): &(Space, Vec<u8>)| match self.map(*space).get(key).filter(fits) {
            Some(Entry { content, until }) => {
                let lasting = until.map_or(Lasting::Plain, Lasting::Until);
                Write::Put(*space, key.clone(), content.clone(), lasting)
            }
            None => Write::Delete(*space, key.clone()),
        };
        each.map(mend).collect()
    }

    /// Compares what a get found.
    ///
    /// # Errors
    /// What differs.
    pub fn check_get(
        &self,
        space: Space,
        key: &[u8],
        found: Option<&[u8]>,
        now: u64,
    ) -> Result<(), String> {
        let is = |entry: Option<&Entry>| {
            let there = entry.filter(|entry| entry.is_there(now));
            there.map(|entry| entry.content.bytes()).as_deref() == found
        };
        let own = self.map(space).get(key);
        let doubts = || self.doubts.get(&(space, key.to_vec()));
        if is(own) || doubts().is_some_and(|all| all.iter().any(|one| is(one.as_ref()))) {
            return Ok(());
        }
        Err(format!(
            "{} of {space:?} has {}, and {own:?} was to be there at {now}",
            key.escape_ascii(),
            in_words(found)
        ))
    }

    /// Compares what a scan of these keys found, in the order of keys.
    ///
    /// # Errors
    /// What differs first.
    pub fn check_scan(
        &self,
        space: Space,
        (low, high): (&[u8], &[u8]),
        found: &[Pair],
        now: u64,
    ) -> Result<(), String> {
        let bounds = (Bound::Included(low), Bound::Excluded(high));
        let there = self.map(space).range::<[u8], _>(bounds);
        let there = there.filter(|(_, entry)| entry.is_there(now));
        compare(space, there.map(|(key, _)| &key[..]), found, self, now)
    }

    /// Values had expired before time went back, so they may be there or not. This takes the found
    /// state as right from now on. A value that is there must be right.
    pub fn settle_expired(&mut self, space: Space, found: &[Pair], now: u64, latest: u64) {
        let was_gone = |entry: &Entry| {
            entry
                .until
                .is_some_and(|until| until > now && until <= latest)
        };
        let open = self.map(space).iter().filter(|(_, entry)| was_gone(entry));
        let is_found = |key: &[u8]| found.binary_search_by(|(own, _)| own[..].cmp(key)).is_ok();
        let gone: Vec<Vec<u8>> = open
            .map(|(key, _)| key)
            .filter(|key| !is_found(key))
            .cloned()
            .collect();
        for key in gone {
            self.set(space, key, None);
        }
    }
}

/// The expected keys, and the found ones. Keys in doubt are compared apart.
fn compare<'a>(
    space: Space,
    expected: impl Iterator<Item = &'a [u8]>,
    found: &[Pair],
    owner: &Owner,
    now: u64,
) -> Result<(), String> {
    let is_certain =
        |key: &[u8]| owner.doubts.is_empty() || !owner.doubts.contains_key(&(space, key.to_vec()));
    let mut expected = expected.filter(|key| is_certain(key));
    for (key, value) in found {
        if is_certain(key) {
            let wanted = expected.next();
            if wanted != Some(key) {
                return Err(format!(
                    "a scan of {space:?} at {now} found {} where {:?} was to come",
                    key.escape_ascii(),
                    wanted.map(|key| key.escape_ascii().to_string())
                ));
            }
        }
        owner.check_get(space, key, Some(value), now)?;
    }
    match expected.next() {
        None => Ok(()),
        Some(key) => Err(format!(
            "a scan of {space:?} at {now} of {} keys misses {}",
            found.len(),
            key.escape_ascii()
        )),
    }
}

/// Compares the whole content of a keyspace with all owners; shared keys are not looked at.
///
/// # Errors
/// What differs first.
pub fn check_all(owners: &[&Owner], space: Space, found: &[Pair], now: u64) -> Result<(), String> {
    let mut whole = Owner::default();
    for owner in owners {
        for (key, entry) in owner.map(space) {
            whole.set(space, key.clone(), Some(entry.clone()));
        }
        let doubts = owner.doubts.iter().filter(|((of, _), _)| *of == space);
        let doubts = doubts.map(|(key, all)| (key.clone(), all.clone()));
        whole.doubts.extend(doubts);
    }
    let own = found.iter().filter(|(key, _)| key.first() != Some(&SHARED));
    let own: Vec<Pair> = own.cloned().collect();
    let there = whole.map(space).iter();
    let there = there.filter(|(_, entry)| entry.is_there(now));
    compare(space, there.map(|(key, _)| &key[..]), &own, &whole, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules {
        now: 100,
        ttl: Some(10),
        counts: Merges::Append,
        fresh: Merges::AddU64,
    };

    fn put(space: Space, key: &str, lasting: Lasting) -> Write {
        Write::Put(space, key.into(), Content::Bytes(b"v".to_vec()), lasting)
    }

    fn pair(key: &str) -> Pair {
        (key.into(), b"v".to_vec())
    }

    #[test]
    fn what_was_written_must_be_found_and_nothing_else() {
        let mut owner = Owner::default();
        for key in ["a", "b", "c"] {
            owner.apply(&put(Space::Default, key, Lasting::Plain), &RULES);
        }
        owner.apply(
            &Write::DeleteRange(Space::Default, b"b".to_vec(), b"c".to_vec()),
            &RULES,
        );
        let check =
            |found: &[Pair]| owner.check_scan(Space::Default, (b"a", b"z"), found, RULES.now);
        assert!(check(&[pair("a"), pair("c")]).is_ok());
        for wrong in [
            vec![pair("a")],
            vec![pair("c")],
            vec![pair("a"), pair("b"), pair("c")],
            vec![pair("c"), pair("a")],
            vec![pair("a"), (b"c".to_vec(), b"w".to_vec())],
        ] {
            assert!(check(&wrong).is_err(), "{wrong:?}");
        }
        assert!(owner.check_get(Space::Default, b"b", None, 100).is_ok());
        assert!(owner.check_get(Space::Default, b"a", None, 100).is_err());
        assert_eq!(owner.bytes(), 4);
    }

    #[test]
    fn what_expires_is_there_until_then() {
        let mut owner = Owner::default();
        owner.apply(&put(Space::Until, "k", Lasting::Plain), &RULES);
        owner.apply(&put(Space::Default, "k", Lasting::For(20)), &RULES);
        let check = |space, now, found: Option<&[u8]>| owner.check_get(space, b"k", found, now);
        assert!(check(Space::Until, 109, Some(b"v")).is_ok());
        assert!(check(Space::Until, 110, None).is_ok());
        assert!(check(Space::Until, 110, Some(b"v")).is_err());
        assert!(check(Space::Default, 119, None).is_err());
        // A clock that went from 115 back to 105: it may be there or not.
        let mut found = owner.clone();
        found.settle_expired(Space::Until, &[pair("k")], 105, 115);
        assert!(found.check_get(Space::Until, b"k", Some(b"v"), 105).is_ok());
        owner.settle_expired(Space::Until, &[], 105, 115);
        assert!(owner.check_get(Space::Until, b"k", None, 105).is_ok());
    }

    #[test]
    fn what_was_refused_may_be_there_until_it_is_mended() {
        let mut owner = Owner::default();
        owner.apply(&put(Space::Default, "a", Lasting::Plain), &RULES);
        owner.doubt(&[put(Space::Default, "b", Lasting::Plain)], &RULES);
        let check = |owner: &Owner, found: &[Pair]| {
            owner.check_scan(Space::Default, (b"a", b"z"), found, 100)
        };
        assert!(check(&owner, &[pair("a"), pair("b")]).is_ok());
        assert!(check(&owner, &[pair("a")]).is_ok());
        assert!(check(&owner, &[pair("b")]).is_err());
        for write in owner.mending(1000) {
            assert_eq!(write, Write::Delete(Space::Default, b"b".to_vec()));
            owner.apply(&write, &RULES);
        }
        assert!(check(&owner, &[pair("a"), pair("b")]).is_err());
        assert!(owner.mending(1000).is_empty());
        // A value that is there and does not fit is deleted.
        let again = put(Space::Default, "a", Lasting::Plain);
        owner.doubt(std::slice::from_ref(&again), &RULES);
        assert_eq!(owner.mending(1000), [again]);
        let gone = Write::Delete(Space::Default, b"a".to_vec());
        assert_eq!(owner.mending(0), [gone]);
    }

    #[test]
    fn merges_come_to_what_their_operators_say() {
        let mut owner = Owner::default();
        for operand in ["x", "y"] {
            let write = Write::Merge(Space::Counts, b"k".to_vec(), operand.into());
            owner.apply(&write, &RULES);
        }
        assert!(owner.check_get(Space::Counts, b"k", Some(b"xy"), 0).is_ok());
        for number in [3u64, 4] {
            let operand = number.to_le_bytes().to_vec();
            owner.apply(&Write::Merge(Space::Fresh, b"k".to_vec(), operand), &RULES);
        }
        let seven = 7u64.to_le_bytes();
        assert!(owner.check_get(Space::Fresh, b"k", Some(&seven), 0).is_ok());
    }
}

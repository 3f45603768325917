//! Calls that write a thread's own keys, and the deletion of most of them.

use super::{KEYS, ONCE, Outcome, Phase, Program};
use crate::content::operand;
use crate::oracle::{Lasting, SPACES, Space, Write};
use crate::time::{HOUR, YEAR};

impl Program<'_> {
    pub(super) fn put(&mut self) -> Outcome {
        let space = self.space();
        if self.has_enough() && self.load.phase != Phase::Full {
            let key = self.there(space);
            return self.write(Write::Delete(space, key));
        }
        let is_new = self.load.phase == Phase::Grow || self.draw.one_in(3);
        let key = match is_new {
            true => self.any_key(),
            false => self.there(space),
        };
        let content = self.content(space);
        self.write(Write::Put(space, key, content, Lasting::Plain))
    }

    pub(super) fn put_expiring(&mut self) -> Outcome {
        let space = self.draw.of(&[Space::Until, Space::Until, Space::Default]);
        let (key, content) = (self.any_key(), self.content(space));
        let lasting = self.lasting();
        self.write(Write::Put(space, key, content, lasting))
    }

    pub(super) fn lasting(&mut self) -> Lasting {
        let millis = self
            .draw
            .of(&[HOUR / 2, HOUR, 30 * HOUR, YEAR / 3, 2 * YEAR, 100 * YEAR]);
        match self.draw.one_in(2) {
            true => Lasting::For(millis),
            false => Lasting::Until(self.rules().now + millis),
        }
    }

    pub(super) fn delete(&mut self) -> Outcome {
        let space = self.space();
        let key = match self.draw.one_in(4) {
            true => self.any_key(),
            false => self.there(space),
        };
        self.write(Write::Delete(space, key))
    }

    pub(super) fn merge(&mut self) -> Outcome {
        let space = self.draw.of(&[Space::Counts, Space::Fresh]);
        let key = match self.draw.one_in(3) {
            true => self.any_key(),
            false => self.there(space),
        };
        // A value that is appended to grows for ever.
        let is_long = self.hand.owner.map(space).get(&key);
        if is_long.is_some_and(|entry| entry.content.len() > 2000) {
            return self.write(Write::Delete(space, key));
        }
        let operand = operand(self.rules().merges(space), &mut self.draw);
        self.write(Write::Merge(space, key, operand))
    }

    pub(super) fn delete_range(&mut self) -> Outcome {
        let write = self.range_delete();
        self.write(write)
    }

    pub(super) fn range_delete(&mut self) -> Write {
        let space = self.space();
        let low = self.draw.below(KEYS);
        let high = low + self.draw.below(60);
        Write::DeleteRange(space, self.key(low), self.key(high))
    }

    /// Puts a key once in its life, or deletes it by the call for such keys.
    pub(super) fn single_delete(&mut self) -> Outcome {
        let prefix = [ONCE, format!("{}/", self.thread).as_bytes()].concat();
        let map = self.hand.owner.map(Space::Default);
        let oldest = map.range(prefix.clone()..).next();
        let oldest = oldest.filter(|(key, _)| key.starts_with(&prefix));
        if self.draw.one_in(2)
            && let Some((key, _)) = oldest
        {
            let key = key.clone();
            return self.write(Write::SingleDelete(Space::Default, key));
        }
        let number = self.hand.next;
        self.hand.next += 1;
        let key = [&prefix[..], format!("{number:09}").as_bytes()].concat();
        let content = self.content(Space::Default);
        self.write(Write::Put(Space::Default, key, content, Lasting::Plain))
    }

    /// Some writes that fit into a batch.
    pub(super) fn writes(&mut self) -> Vec<Write> {
        let (mut writes, mut bytes) = (Vec::new(), 0);
        for _ in 0..2 + self.draw.below(11) {
            let space = self.space();
            let write = match self.draw.below(10) {
                0..=4 => {
                    let (key, content) = (self.any_key(), self.content(space));
                    bytes += (key.len() + content.len() + 64) as u64;
                    Write::Put(space, key, content, Lasting::Plain)
                }
                5 | 6 => Write::Delete(space, self.there(space)),
                7 => {
                    let (key, content) = (self.any_key(), self.content(Space::Until));
                    bytes += (key.len() + content.len() + 64) as u64;
                    Write::Put(Space::Until, key, content, self.lasting())
                }
                8 => {
                    let merges = self.rules().merges(Space::Counts);
                    let key = format!("t{}/b{:03}", self.thread, self.draw.below(200));
                    let operand = operand(merges, &mut self.draw);
                    Write::Merge(Space::Counts, key.into_bytes(), operand)
                }
                _ => self.range_delete(),
            };
            if bytes > self.store.record_bytes_max() / 2 {
                break;
            }
            writes.push(write);
        }
        writes
    }

    pub(super) fn batch(&mut self) -> Outcome {
        let writes = self.writes();
        let raised = self.draw.one_in(8);
        let done = self.store.batch(&writes, raised);
        self.note(&writes, done)
    }

    pub(super) fn transact(&mut self) -> Outcome {
        let mut gets = Vec::new();
        for _ in 0..1 + self.draw.below(4) {
            let space = self.space();
            gets.push((space, self.there(space)));
        }
        let writes = self.writes();
        let got = self.store.transact(&gets, &writes);
        let now = self.rules().now;
        let got = match got {
            Ok(got) => got,
            Err(error) => return self.note(&writes, Err(error)),
        };
        for ((space, key), found) in gets.iter().zip(&got) {
            self.hand
                .owner
                .check_get(*space, key, found.as_deref(), now)?;
        }
        self.note(&writes, Ok(()))
    }

    /// Deletes nine of ten keys of each keyspace: one by one, in batches, or, if there are deletes
    /// of ranges, at once.
    pub(super) fn shrink(&mut self) -> Outcome {
        for space in SPACES {
            let keys = self.hand.owner.map(space).keys();
            let keys: Vec<Vec<u8>> = keys
                .enumerate()
                .filter(|(number, _)| number % 10 != 0)
                .map(|(_, key)| key.clone())
                .collect();
            match self.draw.below(3) {
                0 => {
                    for key in keys {
                        self.write(Write::Delete(space, key))?;
                    }
                }
                1 => {
                    for some in keys.chunks(20) {
                        let writes = some.iter().cloned();
                        let writes: Vec<Write> =
                            writes.map(|key| Write::Delete(space, key)).collect();
                        let done = self.store.batch(&writes, false);
                        self.note(&writes, done)?;
                    }
                }
                _ => {
                    let write = Write::DeleteRange(space, self.key(0), self.key(KEYS / 10 * 9));
                    self.write(write)?;
                }
            }
        }
        Ok(())
    }
}

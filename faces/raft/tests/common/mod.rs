//! The common parts of the tests: numbers from the environment, a generator, a runtime, and a model
//! of what entries do to the state.

#![allow(dead_code, reason = "every test binary uses its own part")]

pub mod linearizable;
pub mod operations;

use evendb_raft::machine::{Command, Compare, Condition};
use evendb_raft::state::Moment;
use evendb_raft::state::effects::Write;
use std::collections::BTreeMap;
use std::future::Future;

/// What the state has: keyspace and key, and the value.
pub type Content = BTreeMap<(String, Vec<u8>), Vec<u8>>;

/// Runs a future to its end in this thread.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().build();
    runtime.expect("is built").block_on(future)
}

/// A number that the environment may set.
pub fn number_from_env(name: &str, usual: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => usual,
    }
}

/// Mixes the bits of a number (SplitMix64).
pub fn scramble(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Random numbers of a seed.
pub struct Rng(pub u64);

impl Rng {
    /// The next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = scramble(self.0);
        self.0 % bound
    }
}

pub fn put(keyspace: &str, key: &[u8], value: &[u8]) -> Write {
    let (keyspace, key, value) = (keyspace.to_owned(), key.to_vec(), value.to_vec());
    Write::Put {
        keyspace,
        key,
        value,
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("key {:02}", number % 40).into_bytes()
}

/// The command of an entry: depends on its index and term alone.
pub fn command(index: u64, term: u64) -> Command {
    let drawn = scramble(index * 1000 + term);
    let value = format!(
        "{index} of term {term}, {}",
        "x".repeat((drawn % 90) as usize)
    );
    let keyspace = if drawn.is_multiple_of(2) {
        "users"
    } else {
        "orders"
    };
    let own = put(keyspace, &key(drawn >> 8), value.as_bytes());
    match drawn % 11 {
        0 => Command::Batch(vec![
            Write::DeleteRange {
                keyspace: keyspace.to_owned(),
                from: key(drawn >> 16),
                until: Some(key((drawn >> 16) + 3)),
            },
            own,
        ]),
        1 => Command::Batch(vec![Write::Delete {
            keyspace: keyspace.to_owned(),
            key: key(drawn >> 16),
        }]),
        2 | 3 => Command::Transaction {
            conditions: vec![Condition {
                keyspace: keyspace.to_owned(),
                key: key(drawn >> 16),
                compare: Compare::Absent,
            }],
            then: vec![own],
            otherwise: vec![put(keyspace, &key(drawn >> 16), b"was there")],
            reads: Vec::new(),
        },
        _ => Command::Batch(vec![own]),
    }
}

fn write(content: &mut Content, write: &Write) {
    match write {
        Write::Put {
            keyspace,
            key,
            value,
        } => {
            content.insert((keyspace.clone(), key.clone()), value.clone());
        }
        Write::Delete { keyspace, key } => {
            content.remove(&(keyspace.clone(), key.clone()));
        }
        Write::DeleteRange {
            keyspace,
            from,
            until,
        } => content.retain(|(of, key), _| {
            let is_in =
                of == keyspace && key >= from && until.as_ref().is_none_or(|until| key < until);
            !is_in
        }),
    }
}

/// What a command does to a content.
pub fn run(content: &mut Content, command: &Command) {
    let writes = match command {
        Command::Batch(writes) => writes,
        Command::Transaction {
            conditions,
            then,
            otherwise,
            ..
        } => {
            let holds = |condition: &Condition| {
                let place = (condition.keyspace.clone(), condition.key.clone());
                condition
                    .compare
                    .holds(content.get(&place).map(|value| &value[..]))
            };
            if conditions.iter().all(holds) {
                then
            } else {
                otherwise
            }
        }
    };
    for one in writes {
        write(content, one);
    }
}

/// The content of a state at a moment.
pub fn content_of(moment: &Moment) -> Content {
    let mut content = Content::new();
    let names: Vec<String> = moment.keyspaces().map(str::to_owned).collect();
    for name in names {
        for record in moment.range::<&[u8]>(&name, ..).expect("is there") {
            let (key, value) = record.expect("is read");
            content.insert((name.clone(), key.to_vec()), value.to_vec());
        }
    }
    content
}

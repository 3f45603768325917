//! `kill -9` of a real process whose threads move money between accounts of two keyspaces, again
//! and again on one directory: by `transact`, and by transactions that lock both accounts.
//! Afterwards the sum is the same as before, no account is below zero, and every transfer is there
//! whose acknowledgement has come through the pipe.
//!
//! Each transfer writes a record of its own beside the two balances, in the same transaction. So
//! the balances must equal the sums of the records, and a thread's records must be its first ones.
//! Order over threads: a record says for each thread how many of its transfers had been
//! acknowledged before this one began. So each record that is there names other transfers that must
//! be there too.
//!
//! The test binary starts itself as the process to be killed. `EVENDB_BANK_KILLS` sets the number
//! of kills for each durability level; 200 is the full campaign.

mod common;

use common::killing::{Counts, DIR_VARIABLE, LEVEL_VARIABLE, THREADS, require, run_and_kill, say};
use common::{count_from_env, perhaps_apart, scramble, tiny};
use evendb::{Db, Durability, Error, ErrorKind, Keyspace, Transaction};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of accounts in each keyspace, and the first balance of each.
const ACCOUNTS: u64 = 12;
const FIRST_BALANCE: u64 = 100;
/// One transfer in this number of a thread's transfers has raised durability.
const RAISED: u64 = 12;

/// The keyspaces of accounts.
struct Bank {
    db: Db,
    spaces: [Keyspace; 2],
}

/// An account: the index of its keyspace, and its number there.
type Account = (usize, u64);

/// The content of the record of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Transfer {
    from: Account,
    to: Account,
    amount: u64,
    before: Counts,
}

impl Transfer {
    fn encoded(&self) -> Vec<u8> {
        let account = |(space, number): Account| [space as u64, number];
        let numbers = [account(self.from), account(self.to)].concat();
        let all = numbers.iter().chain([&self.amount]).chain(&self.before);
        all.flat_map(|number| number.to_le_bytes()).collect()
    }

    fn decoded(bytes: &[u8]) -> Result<Transfer, String> {
        let words: Vec<u64> = bytes.chunks(8).map_while(number).collect();
        let &[space, number, to_space, to_number, amount, ref before @ ..] = &words[..] else {
            return Err(format!("a record of {} words", words.len()));
        };
        let before = before.try_into();
        let transfer = Transfer {
            from: (space as usize, number),
            to: (to_space as usize, to_number),
            amount,
            before: before.map_err(|_| "a record of another length")?,
        };
        match transfer.encoded() == bytes {
            true => Ok(transfer),
            false => Err(format!("a damaged record: {transfer:?}")),
        }
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

fn account_key(number: u64) -> String {
    format!("account/{number:03}")
}

fn transfer_key(thread: usize, number: u64) -> String {
    format!("transfer/{thread}/{number:08}")
}

impl Bank {
    fn open(dir: &Path, level: &str) -> evendb::Result<Bank> {
        let level = match level {
            "process" => Durability::Process,
            _ => Durability::Sync,
        };
        let own = u64::from(std::process::id());
        let db = perhaps_apart(tiny(level, 1), own).open(dir)?;
        let spaces = [db.default_keyspace().clone(), db.keyspace("savings")?];
        let bank = Bank { db, spaces };
        bank.db.transact(|transaction| {
            if transaction.contains_key(&bank.spaces[1], account_key(0))? {
                return Ok(());
            }
            for space in &bank.spaces {
                for number in 0..ACCOUNTS {
                    let balance = FIRST_BALANCE.to_le_bytes();
                    transaction.put(space, account_key(number), balance)?;
                }
            }
            Ok::<_, Error>(())
        })?;
        Ok(bank)
    }

    /// All balances of a transaction's moment.
    fn balances(&self, transaction: &Transaction) -> Result<BTreeMap<Account, u64>, String> {
        let mut balances = BTreeMap::new();
        for (place, space) in self.spaces.iter().enumerate() {
            let iter = transaction.prefix(space, "account/");
            for item in iter.map_err(|error| error.to_string())? {
                let (key, value) = item.map_err(|error| error.to_string())?;
                let account = (place, balances.len() as u64 % ACCOUNTS);
                if *key != *account_key(account.1).as_bytes() {
                    return Err(format!("{account:?} is {:?}", key.escape_ascii()));
                }
                let balance = number(&value).ok_or("a balance of another length")?;
                balances.insert(account, balance);
            }
        }
        Ok(balances)
    }

    /// The transfers of a thread, which must be its first ones.
    fn transfers(&self, transaction: &Transaction, thread: usize) -> Result<Vec<Transfer>, String> {
        let mut transfers = Vec::new();
        let iter = transaction.prefix(&self.spaces[0], format!("transfer/{thread}/"));
        for item in iter.map_err(|error| error.to_string())? {
            let (key, value) = item.map_err(|error| error.to_string())?;
            let expected = transfer_key(thread, transfers.len() as u64);
            if *key != *expected.as_bytes() {
                return Err(format!("{expected} is missing: {:?}", key.escape_ascii()));
            }
            transfers.push(Transfer::decoded(&value)?);
        }
        Ok(transfers)
    }

    /// Checks the whole bank, as one transaction sees it; returns the number of transfers of each
    /// thread.
    fn check(&self) -> Result<Counts, String> {
        let transaction = self.db.transaction().map_err(|error| error.to_string())?;
        let balances = self.balances(&transaction)?;
        let sum: u64 = balances.values().sum();
        if sum != 2 * ACCOUNTS * FIRST_BALANCE {
            return Err(format!("the sum is {sum}: {balances:?}"));
        }
        let mut counts = [0; THREADS];
        let mut known = Vec::new();
        let mut folded: BTreeMap<Account, i128> = BTreeMap::new();
        for (thread, count) in counts.iter_mut().enumerate() {
            let transfers = self.transfers(&transaction, thread)?;
            *count = transfers.len() as u64;
            known.extend(transfers.last().map(|transfer| transfer.before));
            for Transfer {
                from, to, amount, ..
            } in transfers
            {
                *folded.entry(from).or_default() -= i128::from(amount);
                *folded.entry(to).or_default() += i128::from(amount);
            }
        }
        for (account, &balance) in &balances {
            let moved = folded.get(account).copied().unwrap_or(0);
            let expected = i128::from(FIRST_BALANCE) + moved;
            // So no balance is below zero either.
            if i128::from(balance) != expected {
                return Err(format!(
                    "{account:?} has {balance}, and its transfers come to {expected}"
                ));
            }
        }
        let named = |thread: usize| known.iter().map(|before| before[thread]).max();
        match (0..THREADS).find(|&thread| named(thread).is_some_and(|named| counts[thread] < named))
        {
            None => Ok(counts),
            Some(thread) => Err(format!(
                "thread {thread} has {} transfers, and {:?} were acknowledged before others",
                counts[thread],
                named(thread)
            )),
        }
    }

    /// One transfer: the balances, which `locks` locks first, and the record.
    fn transfer(
        &self,
        transaction: &mut Transaction,
        locks: bool,
        key: &str,
        mut transfer: Transfer,
    ) -> evendb::Result<()> {
        let balance = |(space, place): Account| -> evendb::Result<u64> {
            let (space, key) = (&self.spaces[space], account_key(place));
            let value = match locks {
                true => transaction.get_for_update(space, key)?,
                false => transaction.get(space, key)?,
            };
            Ok(number(&value.expect("an account")).expect("a balance"))
        };
        let (from, to) = (balance(transfer.from)?, balance(transfer.to)?);
        transfer.amount = transfer.amount.min(from);
        let balances = [
            (transfer.from, from - transfer.amount),
            (transfer.to, to + transfer.amount),
        ];
        for ((space, place), balance) in balances {
            let (space, key) = (&self.spaces[space], account_key(place));
            transaction.put(space, key, balance.to_le_bytes())?;
        }
        transaction.put(&self.spaces[0], key, transfer.encoded())
    }

    /// Locks both accounts by hand, in any order, until it succeeds.
    fn transfer_locked(
        &self,
        key: &str,
        transfer: Transfer,
        durability: Durability,
    ) -> evendb::Result<()> {
        loop {
            let mut transaction = self.db.transaction()?;
            transaction.durability(durability);
            let done = self.transfer(&mut transaction, true, key, transfer);
            match done.and_then(|()| transaction.commit()) {
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Conflict | ErrorKind::LockTimeout | ErrorKind::Deadlock
                    ) => {}
                done => return done,
            }
        }
    }

    fn transfer_forever(&self, thread: usize, done: &[AtomicU64; THREADS]) -> evendb::Result<()> {
        for count in done[thread].load(Ordering::SeqCst).. {
            let random = scramble(count * THREADS as u64 + thread as u64);
            let account = |random: u64| ((random % 2) as usize, random / 2 % ACCOUNTS);
            let (from, mut to) = (account(random), account(random >> 16));
            if from == to {
                to.0 = 1 - to.0;
            }
            let transfer = Transfer {
                from,
                to,
                amount: random >> 32 & 63,
                before: std::array::from_fn(|other| done[other].load(Ordering::SeqCst)),
            };
            let key = transfer_key(thread, count);
            let durability = match count % RAISED {
                0 => Durability::Sync,
                _ => Durability::Process,
            };
            match random >> 40 & 1 {
                0 => self.transfer_locked(&key, transfer, durability)?,
                _ => self.db.transact(|transaction| {
                    transaction.durability(durability);
                    self.transfer(transaction, false, &key, transfer)
                })?,
            }
            done[thread].store(count + 1, Ordering::SeqCst);
            say(&format!("ack {thread} {count}"));
        }
        Ok(())
    }
}

/// Not a test of its own: the process that is killed.
#[test]
fn child_process() {
    let (Ok(dir), Ok(level)) = (std::env::var(DIR_VARIABLE), std::env::var(LEVEL_VARIABLE)) else {
        return;
    };
    let bank = Bank::open(Path::new(&dir), &level).expect("opens");
    let counts = match bank.check() {
        Ok(counts) => counts,
        Err(what) => return say(&format!("bad {what}")),
    };
    let shown = counts.map(|count| count.to_string()).join(" ");
    say(&format!("found {shown}"));
    let done = counts.map(AtomicU64::new);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (bank, done) = (&bank, &done);
            scope.spawn(move || {
                if let Err(error) = bank.transfer_forever(thread, done) {
                    say(&format!("bad {error}"));
                }
            });
        }
        loop {
            if let Err(what) = bank.check() {
                say(&format!("bad {what}"));
            }
        }
    });
}

/// Each process checks what the one before left; now and then, and at the end, this process does.
fn kill_again_and_again(level: &str) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let kills = count_from_env("EVENDB_BANK_KILLS", 10);
    let mut needed = [0; THREADS];
    let (mut acknowledgements, mut while_opening) = (0, 0);
    for kill in 0..kills {
        let place = format!("{level} kill {kill}");
        let random = scramble(kill);
        let wanted = match random % 10 {
            0 => 0,
            1..=5 => 1 + random / 10 % 60,
            _ => 1 + random / 10 % 800,
        };
        let pause = Duration::from_micros(random / 1_000 % 20_000);
        let told = run_and_kill(dir.path(), level, wanted, pause);
        match &told.found {
            Some(found) => {
                require(found, &needed, &place);
                needed = told.acknowledged;
            }
            None => while_opening += 1,
        }
        acknowledgements += told.acknowledgements;
        if kill % 10 == 9 || kill + 1 == kills {
            let bank = Bank::open(dir.path(), level).expect("opens after a kill");
            let counts = bank.check();
            let counts = counts.unwrap_or_else(|what| panic!("{place}: {what}"));
            require(&counts, &needed, &place);
            needed = counts;
            if kill % 20 == 9 {
                bank.db.close().expect("closes");
            }
        }
    }
    println!(
        "{level}: {kills} kills ({while_opening} of them while opening), {acknowledgements} \
         acknowledgements, {} transfers, 0 lost",
        needed.iter().sum::<u64>()
    );
}

#[test]
fn killed_at_process_level() {
    kill_again_and_again("process");
}

#[test]
fn killed_at_sync_level() {
    kill_again_and_again("sync");
}

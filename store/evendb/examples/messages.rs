//! A small messenger: messages by user and time, an index by sender that always agrees with them,
//! counters, a live tail, a backup each night, and messages that expire after thirty days.
//!
//! ```text
//! messages    (to, time, number)         -> "from: text"  a user's inbox is one range, newest last
//! by_sender   (from, time, to, number)   -> nothing       kept in the same transactions
//! unread      to                         -> the number of unread messages
//! sent        from                       -> the number of messages ever sent, counted by merges
//! ```
//! Run it with `cargo run --release -p evendb --example messages`. It makes a database in a
//! temporary directory. With an argument it uses the directory that the argument names, and adds to
//! the database there. The backups are beside the database, in a directory with its name and
//! `-backups`.

use evendb::{
    Backups, Change, Db, Keyspace, KeyspaceOptions, Merges, Options, Transaction, WallClock, keys,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const USERS: [&str; 5] = ["ada", "ben", "cleo", "dan", "eve"];
/// The number of messages that each sender posts.
const MESSAGES: u64 = 400;
/// How long a message is kept.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// The number of nights whose backups are kept.
const BACKUPS_KEPT: usize = 7;
/// The number of lines of the live tail that are shown.
const SHOWN: usize = 5;

#[expect(
    clippy::disallowed_methods,
    reason = "an application; the store asks in one place"
)]
fn now() -> SystemTime {
    SystemTime::now()
}

/// A clock that is ahead of the system's, so that a month passes while you watch.
#[derive(Debug)]
struct Ahead(Duration);

impl WallClock for Ahead {
    fn now(&self) -> SystemTime {
        now() + self.0
    }
}

/// The messenger's keyspaces.
#[derive(Clone)]
struct Messenger {
    db: Db,
    messages: Keyspace,
    by_sender: Keyspace,
    unread: Keyspace,
    sent: Keyspace,
}

impl Messenger {
    fn open(db: Db) -> evendb::Result<Messenger> {
        Ok(Messenger {
            messages: db.keyspace("messages")?,
            by_sender: db.keyspace("by_sender")?,
            unread: db.keyspace("unread")?,
            sent: db.keyspace_with(
                "sent",
                &KeyspaceOptions::new().merge_operator(Merges::AddU64),
            )?,
            db,
        })
    }

    /// Posts a message: the message, its place in the index and the count of unread messages, all
    /// or none.
    fn post(&self, from: &str, to: &str, time: u64, text: &str) -> evendb::Result<()> {
        // Message and index expire at the same moment.
        let until = now() + KEPT;
        self.db.transact(|transaction| {
            // The next free number of this user and time. Two posts at the same time notice each
            // other: a scan is a read.
            let taken = keys::range((to, time, ..));
            let taken = taken_numbers(transaction, &self.messages, taken)?;
            let key = (to, time, taken);
            let body = format!("{from}: {text}");
            transaction.put_expiring_at(&self.messages, keys::key(&key), body, until)?;
            let index = keys::key(&(from, time, to, taken));
            transaction.put_expiring_at(&self.by_sender, index, "", until)?;
            let unread = count_of(transaction.get(&self.unread, to)?.as_deref());
            transaction.put(&self.unread, to, (unread + 1).to_le_bytes())?;
            // No transaction reads it, so other senders do not conflict with it.
            transaction.merge(&self.sent, from, 1u64.to_le_bytes())
        })
    }

    /// Takes the oldest message out of an inbox, with its place in the index.
    fn read_oldest(&self, user: &str) -> Result<Option<String>, Failure> {
        self.db.transact(|transaction| {
            let inbox = keys::prefix(&(user,));
            let Some(first) = transaction.prefix(&self.messages, &inbox)?.next() else {
                return Ok(None);
            };
            let (key, body) = first?;
            let (to, time, number): (&str, u64, u32) = keys::decode(&key)?;
            let body = String::from_utf8(body.to_vec())?;
            let from = body.split(':').next().unwrap_or_default();
            transaction.delete(&self.messages, &key)?;
            let index = keys::key(&(from, time, to, number));
            transaction.delete(&self.by_sender, index)?;
            let unread = count_of(transaction.get(&self.unread, user)?.as_deref());
            let left = unread.saturating_sub(1).to_le_bytes();
            transaction.put(&self.unread, user, left)?;
            Ok(Some(body))
        })
    }

    /// A job of each night, beside everything else: counts the unread messages again, without those
    /// that have expired.
    fn count_again(&self) -> Result<(), Failure> {
        for user in USERS {
            self.db.transact(|transaction| {
                let inbox = transaction.prefix(&self.messages, keys::prefix(&(user,)))?;
                let unread = inbox
                    .map(|item| item.map(|_| 1))
                    .sum::<evendb::Result<u64>>()?;
                transaction.put(&self.unread, user, unread.to_le_bytes())
            })?;
        }
        Ok(())
    }

    /// Another job of each night; returns where the backups are.
    fn back_up(&self, backups: &Path) -> Result<Backups, Failure> {
        self.db.backup(backups)?;
        let backups = Backups::at(backups);
        backups.prune(BACKUPS_KEPT)?;
        backups.verify(None)?;
        Ok(backups)
    }

    /// The number of messages that have been sent.
    fn sent(&self) -> Result<u64, Failure> {
        let each = self.sent.iter().map(|item| Ok(count_of(Some(&item?.1))));
        each.sum()
    }

    /// Checks at one moment that messages, index and counts agree; returns the number of messages.
    fn check(&self) -> Result<usize, Failure> {
        let snapshot = self.db.snapshot()?;
        let mut messages = BTreeSet::new();
        let mut counts = [0u64; USERS.len()];
        for item in snapshot.iter(&self.messages) {
            let (key, body) = item?;
            let (to, time, number): (&str, u64, u32) = keys::decode(&key)?;
            let from = std::str::from_utf8(&body)?.split(':').next();
            let from = from.unwrap_or_default().to_owned();
            let user = USERS.iter().position(|user| *user == to);
            counts[user.ok_or("a user that nobody knows")?] += 1;
            messages.insert((from, time, to.to_owned(), number));
        }
        let mut index = BTreeSet::new();
        for item in snapshot.iter(&self.by_sender) {
            let (key, _) = item?;
            let (from, time, to, number): (&str, u64, &str, u32) = keys::decode(&key)?;
            index.insert((from.to_owned(), time, to.to_owned(), number));
        }
        if messages != index {
            return Err("messages and index differ".into());
        }
        for (user, count) in USERS.iter().zip(counts) {
            let noted = count_of(snapshot.get(&self.unread, user)?.as_deref());
            if noted != count {
                return Err(format!("{user} has {count} messages, and {noted} are noted").into());
            }
        }
        Ok(messages.len())
    }
}

/// The number of taken numbers in a range of messages.
fn taken_numbers(
    transaction: &Transaction,
    messages: &Keyspace,
    range: keys::KeyRange,
) -> evendb::Result<u32> {
    let last = transaction.range(messages, range)?.next_back();
    let Some(last) = last.transpose()? else {
        return Ok(0);
    };
    let decoded: Result<(&str, u64, u32), _> = keys::decode(&last.0);
    Ok(decoded.map_or(0, |(_, _, number)| number + 1))
}

/// A directory with a name of its own beside the database's.
fn beside(directory: &Path, what: &str) -> PathBuf {
    let mut name = directory.as_os_str().to_owned();
    name.push(format!("-{what}"));
    PathBuf::from(name)
}

fn count_of(bytes: Option<&[u8]>) -> u64 {
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}

/// Prints messages as they are posted, from a position on, until the senders are done; returns
/// their number.
fn tail(db: &Db, since: &evendb::Position, over: &AtomicBool) -> Result<usize, evendb::Error> {
    let mut changes = db.changes_since(since)?;
    let mut seen = 0;
    loop {
        let ends = over.load(Ordering::Acquire);
        for change in changes.by_ref() {
            seen += show(&change?, seen);
        }
        if ends {
            return Ok(seen);
        }
        changes.wait(Duration::from_millis(100))?;
    }
}

/// Shows the messages of a change, unless enough were shown; returns the number of its messages.
fn show(change: &Change, seen: usize) -> usize {
    let posted = change.writes().filter(|write| write.keyspace == "messages");
    let posted: Vec<_> = posted
        .filter_map(|write| Some((write.key, write.value?)))
        .collect();
    for (key, body) in &posted {
        if seen < SHOWN
            && let Ok((to, time, _)) = keys::decode::<(&str, u64, u32)>(key)
        {
            println!("  {time} to {to}: {}", String::from_utf8_lossy(body));
        }
    }
    posted.len()
}

/// The disk breaks, and the database comes back as it was last night.
fn break_and_restore(messenger: Messenger, directory: &Path) -> Result<(), Failure> {
    let was = (messenger.check()?, messenger.sent()?);
    let backups = messenger.back_up(&beside(directory, "backups"))?;
    messenger.db.close()?;
    let restored = beside(directory, "restored");
    backups.restore(None, &restored)?;
    let messenger = Messenger::open(Db::open(&restored)?)?;
    let is = (messenger.check()?, messenger.sent()?);
    if was != is {
        return Err(format!("restored {is:?} where {was:?} was").into());
    }
    println!(
        "{} have ever been sent; the backup has the same {} messages",
        is.1, is.0
    );
    messenger.db.close()?;
    a_month_later(&restored)?;
    std::fs::remove_dir_all(&restored)?;
    Ok(())
}

/// A month later the messages have expired, though nobody has deleted them.
fn a_month_later(directory: &Path) -> Result<(), Failure> {
    let clock = Arc::new(Ahead(KEPT + Duration::from_secs(3600)));
    let options = Options::new().advanced(|advanced| advanced.wall_clock(clock));
    let messenger = Messenger::open(options.open(directory)?)?;
    messenger.count_again()?;
    let (left, sent) = (messenger.check()?, messenger.sent()?);
    if left != 0 {
        return Err(format!("{left} messages are still there a month later").into());
    }
    println!("a month later: {left} messages, {sent} ever sent");
    Ok(messenger.db.close()?)
}

fn main() -> Result<(), Failure> {
    let temporary = std::env::temp_dir().join(format!("messages-{}", std::process::id()));
    let named = std::env::args_os().nth(1).map(PathBuf::from);
    let directory = named.clone().unwrap_or_else(|| temporary.clone());
    let messenger = Messenger::open(Db::open(&directory)?)?;
    let since = messenger.db.position()?;
    let over = AtomicBool::new(false);
    println!("the first of what is posted, as it comes:");
    let (posted, read) = std::thread::scope(|scope| -> Result<(usize, usize), Failure> {
        let tail = scope.spawn(|| tail(&messenger.db, &since, &over));
        let senders: Vec<_> = (0..USERS.len())
            .map(|from| {
                let messenger = &messenger;
                scope.spawn(move || -> evendb::Result<()> {
                    for number in 0..MESSAGES {
                        let to = USERS[(from + 1 + number as usize % 4) % USERS.len()];
                        let time = 1_700_000_000 + number / 7;
                        messenger.post(USERS[from], to, time, "are you there?")?;
                    }
                    Ok(())
                })
            })
            .collect();
        let reader = scope.spawn(|| -> Result<usize, Failure> {
            let mut read = 0;
            for turn in 0..200 {
                let user = USERS[turn % USERS.len()];
                read += usize::from(messenger.read_oldest(user)?.is_some());
            }
            Ok(read)
        });
        for sender in senders {
            sender.join().map_err(|_| "a sender has panicked")??;
        }
        let read = reader.join().map_err(|_| "the reader has panicked")??;
        over.store(true, Ordering::Release);
        let posted = tail.join().map_err(|_| "the tail has panicked")??;
        Ok((posted, read))
    })?;
    let left = messenger.check()?;
    let stats = messenger.db.stats();
    println!(
        "posted {posted}, read {read}, left {left}; index and counts agree; {} transactions, {} conflicts",
        stats.transactions, stats.transaction_conflicts
    );
    let ada = keys::range(("ada", 1_700_000_050u64..));
    println!(
        "ada has {} messages since 1700000050, {} of them unread",
        messenger.messages.range(ada).count(),
        count_of(messenger.unread.get("ada")?.as_deref())
    );
    break_and_restore(messenger, &directory)?;
    if named.is_none() {
        std::fs::remove_dir_all(beside(&directory, "backups"))?;
        std::fs::remove_dir_all(&temporary)?;
    }
    if posted != USERS.len() * MESSAGES as usize {
        return Err(format!("the tail has seen {posted} messages").into());
    }
    Ok(())
}

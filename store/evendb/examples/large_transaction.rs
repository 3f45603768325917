//! Loads many pairs in one transaction, reads them back, opens the database again, and says what
//! it took: `large_transaction [pairs] [budget in MiB] [level] [layout] [end]`. With `end` it ends
//! behind the acknowledgement, as if it were killed, and another call of it opens what is there.
//!
//! ```text
//! cargo run --release -p evendb --example large_transaction -- 5000000 256 process chunks
//! ```
//! The pairs have random keys of 24 bytes and values of 150, as in redb's comparison. The peak is
//! that of the whole process (`VmHWM`), with the transaction's own pairs.

use evendb::{Db, Durability, Layout, Options};
use std::path::Path;
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

/// Numbers that are good enough for keys: the next one of a sequence.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut x = *state;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn filled<const N: usize>(state: &mut u64) -> [u8; N] {
    let mut bytes = [0; N];
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&next(state).to_le_bytes()[..part.len()]);
    }
    bytes
}

/// The pairs in the order in which they are put.
fn pairs(count: u64) -> impl Iterator<Item = ([u8; 24], [u8; 150])> {
    let mut state = 42;
    (0..count).map(move |_| (filled(&mut state), filled(&mut state)))
}

/// A figure of the process in MiB, where the system tells it.
fn mib_of(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|text| text.parse::<u64>().ok())
        .unwrap_or(0)
        >> 10
}

fn on_disk_mib(dir: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes >> 20)
}

struct Told(Instant);

impl Told {
    fn tell(&mut self, what: &str, dir: &Path) -> Result<(), Failure> {
        let seconds = self.0.elapsed().as_secs_f64();
        let (peak, now) = (mib_of("VmHWM:"), mib_of("VmRSS:"));
        let disk = on_disk_mib(dir)?;
        println!("{what:30} {seconds:6.1} s  peak {peak} MiB  now {now} MiB  disk {disk} MiB");
        self.0 = Instant::now();
        Ok(())
    }
}

fn check(db: &Db, count: u64) -> Result<(), Failure> {
    for (number, (key, value)) in pairs(count).enumerate() {
        let same = db.get(key)?.is_some_and(|got| *got == value[..]);
        if !same {
            return Err(format!("pair {number} is not what was put").into());
        }
    }
    let found = db.iter().count() as u64;
    match found == count {
        true => Ok(()),
        false => Err(format!("{found} pairs instead of {count}").into()),
    }
}

/// What the program was told.
struct Asked {
    count: u64,
    options: Options,
    /// The process ends behind the acknowledgement, as if it were killed.
    is_to_end: bool,
}

fn asked() -> Result<Asked, Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| {
        let text = arguments.next();
        text.map_or(Ok(default), |text| text.parse::<u64>())
    };
    let (count, budget) = (number(200_000)?, number(16)?);
    let level = match arguments.next().as_deref() {
        Some("relaxed") => Durability::Relaxed,
        None | Some("process") => Durability::Process,
        Some("sync") => Durability::Sync,
        Some(other) => return Err(format!("no level: {other}").into()),
    };
    let layout = match arguments.next().as_deref() {
        None | Some("chunks") => Layout::Chunks,
        Some("guards") => Layout::Guards,
        Some(other) => return Err(format!("no layout: {other}").into()),
    };
    let options = Options::new().memory_budget(budget << 20);
    Ok(Asked {
        count,
        options: options.durability(level).layout(layout),
        is_to_end: arguments.next().as_deref() == Some("end"),
    })
}

fn main() -> Result<(), Failure> {
    let asked = asked()?;
    let place = std::env::temp_dir().join("evendb-large");
    let dir = &place;
    let is_there = dir.exists();
    let db = asked.options.clone().open(dir)?;
    let mut told = Told(Instant::now());
    if is_there {
        told.tell("opened", dir)?;
    } else {
        let mut transaction = db.transaction()?;
        for (key, value) in pairs(asked.count) {
            transaction.put(db.default_keyspace(), key, value)?;
        }
        told.tell("put into the transaction", dir)?;
        transaction.commit()?;
        told.tell("committed", dir)?;
        if asked.is_to_end {
            println!("ends without closing; call it again to see what is there");
            std::process::abort();
        }
        db.put("the next put", "")?;
        db.delete("the next put")?;
        told.tell("the next put", dir)?;
    }
    check(&db, asked.count)?;
    told.tell("got and scanned", dir)?;
    db.close()?;
    told.tell("closed", dir)?;
    let db = asked.options.open(dir)?;
    told.tell("opened", dir)?;
    check(&db, asked.count)?;
    told.tell("got and scanned", dir)?;
    db.close()?;
    std::fs::remove_dir_all(dir)?;
    Ok(())
}

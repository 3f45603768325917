//! A life: one database, which is opened again and again, with other options each time.
//!
//! ```text
//!   [kept database]  ->  opening 0 .. 7  ->  verified, removed
//!   opening:  clock jumps?  ->  read only?  ->  open, compare all
//!             ->  phases of 1 to 4 threads, jumps between  ->  compare all  ->  end
//!   end:      closed | let go | state after a kill | a copy | restored from a backup  ->  verify
//! ```
//! The seed and the number of the life fix everything except how threads interleave.

use crate::content::Content;
use crate::covering::Row;
use crate::ends::{self, End};
use crate::oracle::{self, Lasting, Pair, Rules, SPACES, Space, Write};
use crate::program::{Hand, Load, Phase, Program};
use crate::room::Room;
use crate::store::{How, Said, Span, Store};
use crate::tally::Tally;
use crate::time::{Clock, HOUR, YEAR};
use crate::together;
use evendb::{Durability, Error, ErrorKind};
use evendb_powercut::draw::Draw;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often a database is opened in its life.
pub const OPENINGS: u64 = 8;
/// The highest number of threads.
const THREADS: usize = 4;
/// When there is room again, a call is repeated this number of times, a millisecond apart.
const PATIENCE: u32 = 20_000;

/// Where lives take place.
pub struct Site {
    /// A directory for them.
    pub dir: PathBuf,
    /// Its file system, if it can be filled.
    pub room: Option<Room>,
}

/// How much work a life does.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Calls of a thread in a phase.
    pub calls: u64,
    /// The highest number of bytes of all data. Some lives have a tenth.
    pub bytes: u64,
}

/// See the module.
pub struct Life<'a> {
    site: &'a Site,
    size: Size,
    draw: Draw,
    dir: PathBuf,
    clock: Arc<Clock>,
    /// The latest time that the database was told in its life.
    latest: u64,
    counts: evendb::Merges,
    hands: [Hand; THREADS],
    before: Option<Row>,
    loses: bool,
}

fn words(error: Error) -> String {
    format!("{:?}: {error}", error.kind())
}

fn sequence(draw: &mut Draw, opening: u64, may_fill: bool) -> Vec<Phase> {
    let filled = if may_fill { Phase::Full } else { Phase::Grow };
    match opening {
        0 => vec![Phase::Grow],
        1 => vec![Phase::Steady, Phase::Steady],
        2 => vec![filled, Phase::Steady],
        4 => vec![Phase::Shrink],
        6 => vec![Phase::Grow],
        7 => match draw.below(3) {
            0 => vec![filled, Phase::Shrink],
            1 => vec![Phase::Shrink, Phase::Grow],
            _ => vec![Phase::Steady, Phase::Shrink],
        },
        _ => vec![Phase::Steady],
    }
}

impl<'a> Life<'a> {
    /// A life that has not begun. One that `loses` writes must end in a fault.
    pub fn new(site: &'a Site, size: Size, seed: u64, loses: bool) -> Life<'a> {
        Life {
            site,
            size,
            draw: Draw::new(seed),
            dir: site.dir.join("life"),
            clock: Arc::new(Clock::default()),
            latest: 0,
            counts: evendb::Merges::AddU64,
            hands: Default::default(),
            before: None,
            loses,
        }
    }

    /// Lives it, with a row of options for each opening. What it did is added to `tally`.
    ///
    /// # Errors
    /// What went wrong first, and where.
    pub fn live(mut self, number: u64, rows: &[Row], tally: &mut Tally) -> Result<(), String> {
        let mut how = How::First;
        if number % 3 == 1
            && let Some(kept) = Store::kept().get((number / 3) as usize % Store::kept().len())
        {
            let holds = kept.lay_down(&self.dir);
            self.hands[0].owner = holds.map_err(|error| error.to_string())?;
            tally.kept += 1;
            how = How::Again;
        }
        if self.draw.one_in(4) {
            self.size.bytes /= 10;
        }
        for (opening, row) in rows.iter().enumerate() {
            let lived = self.opening(opening as u64, row, how, tally);
            lived.map_err(|what| format!("opening {opening} ({}): {what}", Store::told(row)))?;
            if let Some(before) = self.before.replace(row.clone()) {
                tally.successions.note(&before, row);
            }
            tally.pairs.note(row);
            tally.openings += 1;
            how = How::Again;
        }
        Store::destroy(&self.dir).map_err(words)?;
        match self.dir.exists() {
            true => Err("what is removed leaves files".to_owned()),
            false => Ok(()),
        }
    }

    fn opening(
        &mut self,
        opening: u64,
        row: &Row,
        how: How,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let said = Store::said(row);
        if opening > 0 && self.draw.one_in(2) {
            self.jump();
            tally.jumps += 1;
        }
        // A kept database does not have all keyspaces before it was opened for writing.
        if said.read_only && opening > 0 {
            let looked = self.look(row);
            looked.map_err(|what| format!("for reading only: {what}"))?;
            tally.read_only += 1;
        }
        let mut store = Store::open(&self.dir, row, &self.clock, how).map_err(words)?;
        if opening == 0 {
            self.counts = said.merges;
        }
        let mut rules = self.begin(&store, &said, true)?;
        self.remake(&mut store, opening, row)?;
        together::prepare(&store).map_err(words)?;
        for phase in sequence(&mut self.draw, opening, self.site.room.is_some()) {
            if self.draw.one_in(3) {
                self.jump();
                tally.jumps += 1;
                rules.now = rules.now.max(self.clock.millis());
                self.latest = self.latest.max(rules.now);
                self.tick(&store).map_err(words)?;
            }
            match phase {
                Phase::Full => {
                    store = self.full(store, row, &mut rules, tally)?;
                }
                _ => self.phase(&store, phase, rules, tally)?,
            }
            self.after(&store, phase)?;
        }
        self.compare(&store, rules.now, true)?;
        self.end(store, &said, rules, tally)?;
        let findings = Store::verify(&self.dir).map_err(words)?;
        match findings.is_empty() {
            true => Ok(()),
            false => Err(format!("verify: {findings:?}")),
        }
    }

    /// The clock jumps: by hours or years, forward or back.
    fn jump(&mut self) {
        let now = self.clock.millis();
        let forward = self
            .draw
            .of(&[HOUR / 3, 2 * HOUR, 900 * HOUR, YEAR / 2, 3 * YEAR]);
        let back = self.draw.of(&[0, HOUR, 50 * HOUR, YEAR]);
        match self.draw.one_in(3) {
            true => self.clock.set(now.saturating_sub(back).max(YEAR)),
            false => self.clock.set(now + forward),
        }
    }

    /// The database is told the time.
    fn tick(&self, store: &Store) -> Result<(), Error> {
        let content = Content::Bytes(Vec::new());
        let key = vec![oracle::SHARED, b't'];
        let write = Write::Put(Space::Until, key, content, Lasting::For(1000 * YEAR));
        store.write(&write)
    }

    /// The rules of a new opening. Everything is compared. Expired values that a clock set back
    /// makes visible again are accepted as found.
    fn begin(&mut self, store: &Store, said: &Said, may_write: bool) -> Result<Rules, String> {
        if may_write {
            self.tick(store).map_err(words)?;
        }
        let now = self.clock.millis();
        for space in SPACES {
            let found = store.scan(space, &Span::all(false)).map_err(words)?;
            for hand in &mut self.hands {
                hand.owner.settle_expired(space, &found, now, self.latest);
            }
            self.compare_one(space, &found, now)?;
        }
        self.latest = self.latest.max(now);
        Ok(Rules {
            now,
            ttl: said.ttl,
            counts: self.counts,
            fresh: said.merges,
        })
    }

    /// One keyspace begins anew with each opening, another one now and then.
    fn remake(&mut self, store: &mut Store, opening: u64, row: &Row) -> Result<(), String> {
        if opening == 0 {
            return Ok(());
        }
        let mut spaces = vec![Space::Fresh];
        if self.draw.one_in(6) {
            spaces.push(Space::Other);
        }
        for space in spaces {
            store.remake(space, row).map_err(words)?;
            for hand in &mut self.hands {
                hand.owner.clear(space);
            }
        }
        Ok(())
    }

    /// Opens it for reading only, and compares everything.
    fn look(&self, row: &Row) -> Result<(), String> {
        let store = Store::open(&self.dir, row, &self.clock, How::ReadOnly).map_err(words)?;
        let now = self.clock.millis();
        for space in SPACES {
            let found = store.scan(space, &Span::all(false)).map_err(words)?;
            let mut owners: Vec<_> = self.hands.iter().map(|hand| hand.owner.clone()).collect();
            for owner in &mut owners {
                owner.settle_expired(space, &found, now, self.latest);
            }
            let owners: Vec<_> = owners.iter().collect();
            oracle::check_all(&owners, space, &found, now)?;
        }
        store.close().map_err(words)
    }

    fn compare(&self, store: &Store, now: u64, backward: bool) -> Result<(), String> {
        for space in SPACES {
            let mut found = store.scan(space, &Span::all(backward)).map_err(words)?;
            if backward {
                found.reverse();
            }
            self.compare_one(space, &found, now)?;
        }
        together::read(store)?;
        together::read_accounts(store)
    }

    fn compare_one(&self, space: Space, found: &[Pair], now: u64) -> Result<(), String> {
        let owners: Vec<_> = self.hands.iter().map(|hand| &hand.owner).collect();
        oracle::check_all(&owners, space, found, now)
    }

    /// Threads run their programs.
    fn phase(
        &mut self,
        store: &Store,
        phase: Phase,
        rules: Rules,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let threads = 1 + self.draw.below(THREADS as u64) as usize;
        let load = Load {
            phase,
            calls: self.size.calls,
            bytes_max: self.size.bytes / THREADS as u64,
            rules,
            loses: self.loses,
        };
        let seeds: Vec<u64> = (0..threads).map(|_| self.draw.number()).collect();
        let hands = self.hands.iter_mut().zip(seeds).enumerate();
        let done: Vec<_> = std::thread::scope(|scope| {
            let started: Vec<_> = hands
                .map(|(thread, (hand, seed))| {
                    let program = Program::new(store, thread, seed, hand, load);
                    scope.spawn(move || program.run())
                })
                .collect();
            started.into_iter().map(|thread| thread.join()).collect()
        });
        for done in done {
            let counts = done.map_err(|_| format!("{phase:?}: a thread panicked"))?;
            let counts = counts.map_err(|what| format!("{phase:?}: {what}"))?;
            tally.add_program(&counts);
        }
        Ok(())
    }

    fn after(&mut self, store: &Store, phase: Phase) -> Result<(), String> {
        match phase {
            Phase::Shrink => {
                store.settle().map_err(words)?;
                if self.draw.one_in(2) {
                    store.compact().map_err(words)?;
                }
                store.idle().map_err(words)
            }
            _ if self.draw.one_in(4) => store.settle().map_err(words),
            _ => Ok(()),
        }
    }

    /// The disk is full for a while: reads go on, writes are refused, and no acknowledged write is
    /// lost. Now and then the database is also closed and opened meanwhile. When there is room,
    /// everything goes on.
    fn full(
        &mut self,
        store: Store,
        row: &Row,
        rules: &mut Rules,
        tally: &mut Tally,
    ) -> Result<Store, String> {
        let Some(room) = &self.site.room else {
            return Ok(store);
        };
        tally.full_disks += 1;
        room.take(self.draw.of(&[0, 60 << 10, 2 << 20]))?;
        self.phase(&store, Phase::Full, *rules, tally)?;
        self.compare_full(&store, rules.now)?;
        let mut store = store;
        let keeps = Store::said(row).durability > Durability::Relaxed;
        if keeps && self.draw.one_in(3) {
            self.let_go();
            but_no_room(store.close())?;
            let again = Store::open(&self.dir, row, &self.clock, How::Again);
            let is_refused = again
                .as_ref()
                .is_err_and(|error| error.kind() == ErrorKind::NoSpace);
            if is_refused {
                room.give_back()?;
            }
            let again = match is_refused {
                true => Store::open(&self.dir, row, &self.clock, How::Again),
                false => again,
            };
            store = again.map_err(|error| format!("opening a full disk: {}", words(error)))?;
            room.give_back()?;
            with_patience(|| self.tick(&store))?;
            *rules = self.begin(&store, &Store::said(row), false)?;
            tally.openings += 1;
        }
        room.give_back()?;
        for hand in &mut self.hands {
            for write in hand.owner.mending(store.record_bytes_max() / 2) {
                with_patience(|| store.write(&write))?;
                hand.owner.apply(&write, rules);
            }
        }
        with_patience(|| store.settle())?;
        Ok(store)
    }

    /// On a full disk everything can be read as usual.
    fn compare_full(&self, store: &Store, now: u64) -> Result<(), String> {
        let compared = self.compare(store, now, false);
        compared.map_err(|what| format!("while the disk is full: {what}"))
    }

    fn let_go(&mut self) {
        for hand in &mut self.hands {
            hand.let_go();
        }
    }

    fn end(
        &mut self,
        store: Store,
        said: &Said,
        rules: Rules,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let end = End::drawn(&mut self.draw);
        // At the lowest level a kill loses writes that were not made durable.
        if said.durability == Durability::Relaxed || self.draw.one_in(2) {
            store.persist().map_err(words)?;
        } else {
            self.phase(&store, Phase::Steady, rules, tally)?;
        }
        if said.durability == Durability::Relaxed {
            store.flush().map_err(words)?;
        }
        self.let_go();
        let what = |what| format!("ending by {end:?}: {what}");
        let ended = ends::end(end, store, &self.dir, &self.site.dir).map_err(what)?;
        *tally.ends.entry(ended).or_default() += 1;
        Ok(())
    }
}

fn but_no_room(done: Result<(), Error>) -> Result<(), String> {
    match done {
        Err(error) if error.kind() != ErrorKind::NoSpace => Err(words(error)),
        _ => Ok(()),
    }
}

/// There is room now, or soon: a caller that waits for a job which failed before is told so.
fn with_patience(mut call: impl FnMut() -> Result<(), Error>) -> Result<(), String> {
    for _ in 0..PATIENCE {
        match call() {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() != ErrorKind::NoSpace => return Err(words(error)),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    let last = call().map_err(words);
    last.map_err(|what| format!("no room comes back: {what}"))
}

/// Removes what a life left that ended in a fault.
///
/// # Errors
/// Of the system.
pub fn clear(dir: &Path) -> std::io::Result<()> {
    if dir.exists() {
        std::fs::remove_dir_all(dir)?;
    }
    Ok(())
}

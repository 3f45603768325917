//! The process that has the database open when the power is cut.
//!
//! ```text
//!   verify -> open -> compare with what was promised -> backups -> write and read on, close,
//!   open again -> threads write until killed
//!   any difference before the threads write is a fault, noted in a file for the campaign
//! ```
//! A power cut may hit any of these steps. The campaign reads the noted fault just before it cuts,
//! so errors that the cut itself causes do not count. The process ends when its standard input
//! does, for example when the campaign dies.

use crate::Result;
use crate::board::{Board, MadeBackup, Phase};
use crate::draw::Draw;
use crate::store::{Level, Space, Store};
use crate::workload::{
    Counts, Fault, FaultKind, THREADS, check, missing, now, prepare, write_forever,
};
use clap::{Args, ValueEnum};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// What the process does after it has opened the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Plan {
    /// Compares, and writes at once.
    Quick,
    /// Looks at everything first.
    Full,
    /// Looks at everything, and ends.
    Look,
}

/// What the campaign tells the process.
#[derive(Clone, Debug, Args)]
pub struct Order {
    /// The level of the database.
    #[arg(long)]
    pub level: Level,
    /// The plan.
    #[arg(long)]
    pub plan: Plan,
    /// The seed of the options and the calls of this process.
    #[arg(long)]
    pub seed: u64,
    /// The mounted file system.
    #[arg(long)]
    pub root: PathBuf,
    /// The directory of the board, and of the note of a fault.
    #[arg(long)]
    pub desk: PathBuf,
    /// Whether the database was open before.
    #[arg(long)]
    pub established: bool,
    /// Writes of each thread that must be there.
    #[arg(long, value_delimiter = ',')]
    pub promised: Vec<u64>,
    /// Number and writes of each thread of a backup that must be there.
    #[arg(long, value_delimiter = ',')]
    pub backup: Vec<u64>,
}

fn joined(numbers: &[u64]) -> String {
    let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
    words.join(",")
}

fn counts_of(numbers: &[u64]) -> Result<Counts> {
    let counts = numbers.try_into();
    counts.map_err(|_| format!("{numbers:?} are not {THREADS} numbers"))
}

fn name_of<T: ValueEnum>(value: &T) -> String {
    let shown = value.to_possible_value();
    shown.map_or_else(String::new, |shown| shown.get_name().to_owned())
}

impl Order {
    /// The path of the board.
    pub fn board(desk: &Path) -> PathBuf {
        desk.join("board")
    }

    /// The path of the note of a fault.
    pub fn fault(desk: &Path) -> PathBuf {
        desk.join("fault")
    }

    /// The command that carries the order out.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.arg("write");
        for (name, value) in [
            ("--level", name_of(&self.level)),
            ("--plan", name_of(&self.plan)),
            ("--seed", self.seed.to_string()),
            ("--promised", joined(&self.promised)),
        ] {
            command.args([name, &value]);
        }
        command.arg("--root").arg(&self.root);
        command.arg("--desk").arg(&self.desk);
        if self.established {
            command.arg("--established");
        }
        if !self.backup.is_empty() {
            command.args(["--backup", &joined(&self.backup)]);
        }
        command
    }

    fn required_backup(&self) -> Result<Option<MadeBackup>> {
        match self.backup.split_first() {
            None => Ok(None),
            Some((number, counts)) => Ok(Some(MadeBackup {
                number: *number,
                counts: counts_of(counts)?,
            })),
        }
    }
}

/// Carries out an order. Returns when all its work is done, if it ends.
///
/// # Errors
/// If the board or the file of the fault cannot be written.
pub fn carry_out(order: &Order) -> Result<()> {
    std::thread::spawn(|| {
        let mut rest = Vec::new();
        let _ = std::io::stdin().read_to_end(&mut rest);
        std::process::exit(0);
    });
    // A panic of any thread is a fault.
    let (desk, told) = (order.desk.clone(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        let _ = note(&desk, &Fault::refused(panic.to_string()));
        told(panic);
    }));
    let board = Board::open(&Order::board(&order.desk))?;
    match work(order, &board) {
        Ok(()) => board.reach(Phase::Done),
        Err(fault) => note(&order.desk, &fault),
    }
}

/// Notes a fault for the campaign. Only the first one is noted.
fn note(desk: &Path, fault: &Fault) -> Result<()> {
    let path = Order::fault(desk);
    let whole = desk.join(format!("fault-{:?}", std::thread::current().id()));
    let failed = |error: std::io::Error| format!("noting {fault}: {error}");
    if path.exists() {
        return Ok(());
    }
    let written =
        File::create(&whole).and_then(|mut file| file.write_all(fault.to_string().as_bytes()));
    written.map_err(failed)?;
    std::fs::rename(&whole, &path).map_err(failed)
}

fn work(order: &Order, board: &Board) -> Result<(), Fault> {
    let (dir, draw) = (order.root.join("db"), &mut Draw::new(order.seed));
    let full = order.plan != Plan::Quick;
    if order.established && full {
        Store::verify(&dir).map_err(Fault::refused)?;
    }
    let mut store: Store = open(order, &dir, draw)?;
    let found = look_at(&store)?;
    let promised = counts_of(&order.promised).map_err(Fault::refused)?;
    if let Some(lost) = missing(&found, &promised) {
        return Err(lost);
    }
    board
        .note_found(&found)
        .and_then(|()| board.reach(Phase::Opened))
        .map_err(Fault::refused)?;
    if full {
        check_backups(order, draw)?;
        store = write_on(order, store, &dir, draw)?;
        let again = look_at(&store)?;
        if again != found {
            return Err(Fault::wrong(format!("{found:?} became {again:?}")));
        }
    }
    if order.plan == Plan::Look {
        return store.close().map_err(Fault::refused);
    }
    run_threads(order, board, &store, &found, draw);
    Ok(())
}

fn open(order: &Order, dir: &Path, draw: &mut Draw) -> Result<Store, Fault> {
    let store = Store::open(dir, order.level, draw);
    let store = store.map_err(|what| Fault::refused(format!("opening: {what}")))?;
    prepare(&store).map_err(Fault::refused)?;
    Ok(store)
}

fn look_at(store: &Store) -> Result<Counts, Fault> {
    check(&*store.look().map_err(Fault::refused)?)
}

/// Every backup verifies, and the newest is a database that holds everything that was acknowledged
/// before it was begun.
fn check_backups(order: &Order, draw: &mut Draw) -> Result<(), Fault> {
    let into = order.root.join("restored");
    // A cut may have left it.
    match std::fs::remove_dir_all(&into) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Fault::refused(format!("removing {into:?}: {error}")));
        }
        _ => {}
    }
    let restored = Store::restore(&order.root.join("backups"), &into).map_err(Fault::refused)?;
    let required = order.required_backup().map_err(Fault::refused)?;
    let lost = |what: String| Fault {
        kind: FaultKind::Lost,
        what,
    };
    let Some(number) = restored else {
        return required.map_or(Ok(()), |made| {
            Err(lost(format!("backup {}: there is none", made.number)))
        });
    };
    let store = Store::open(&into, order.level, draw).map_err(Fault::refused)?;
    let found = look_at(&store)?;
    store.close().map_err(Fault::refused)?;
    match required {
        Some(made) if number < made.number => Err(lost(format!(
            "backup {}; the newest is {number}",
            made.number
        ))),
        // A later backup has more.
        Some(made) => missing(&found, &made.counts).map_or(Ok(()), |fault| {
            Err(lost(format!("in backup {number}: {}", fault.what)))
        }),
        None => Ok(()),
    }
}

/// Writes and reads its writes, closes the database or not, and opens it again.
fn write_on(order: &Order, store: Store, dir: &Path, draw: &mut Draw) -> Result<Store, Fault> {
    let stamp = order.seed.to_le_bytes();
    for number in 0..30 {
        let key = format!("{number:02}");
        let written = store.batch(&[(Space::After, &key, &stamp)], number % 10 == 0);
        written.map_err(Fault::refused)?;
    }
    store.persist().map_err(Fault::refused)?;
    match draw.one_in(2) {
        true => store.close().map_err(Fault::refused)?,
        false => drop(store),
    }
    let store: Store = open(order, dir, draw)?;
    let pairs = store.look().and_then(|look| look.pairs(Space::After, ""));
    let pairs = pairs.map_err(Fault::refused)?;
    match pairs.len() == 30 && pairs.iter().all(|(_, value)| *value == stamp) {
        true => Ok(store),
        false => Err(Fault::wrong(format!(
            "{} records of 30 written after the cut",
            pairs.len()
        ))),
    }
}

/// Writers, a reader, and a thread that makes durable and backs up, until the process is killed.
fn run_threads(order: &Order, board: &Board, store: &Store, found: &Counts, draw: &mut Draw) {
    let done = found.map(AtomicU64::new);
    let failed = |what: String| {
        // The campaign may be gone.
        let _ = note(&order.desk, &Fault::refused(what));
    };
    // A store that lies must not call anything that would make its claim true.
    let honest = order.level != Level::Lie;
    let begun = board.reach(Phase::Writing);
    if let Err(what) = begun {
        return failed(what);
    }
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (done, failed) = (&done, &failed);
            scope.spawn(move || {
                let told = |count, raised| board.note_acknowledged(thread, count, raised);
                failed(write_forever(store, thread, done, honest, told));
            });
        }
        scope.spawn(|| {
            loop {
                if let Err(fault) = look_at(store) {
                    let _ = note(&order.desk, &fault);
                    return;
                }
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        if honest {
            failed(make_durable_forever(order, board, store, &done, draw));
        }
    });
}

/// Makes durable what returned, in every possible way, until an error comes, and returns it.
fn make_durable_forever(
    order: &Order,
    board: &Board,
    store: &Store,
    done: &[AtomicU64; THREADS],
    draw: &mut Draw,
) -> String {
    let backups = order.root.join("backups");
    loop {
        std::thread::sleep(Duration::from_micros(draw.below(4_000)));
        let counts = now(done);
        let called = match draw.below(8) {
            0..=2 => store.persist(),
            3..=5 => store.flush(),
            6 => store.settle(),
            _ => match store.backup(&backups) {
                // The promised writes are in the backup.
                Ok(number) => match board.note_backup(&MadeBackup { number, counts }) {
                    Ok(()) => continue,
                    failed => failed,
                },
                Err(what) => Err(what),
            },
        };
        if let Err(what) = called.and_then(|()| board.note_promised(&counts)) {
            return what;
        }
    }
}

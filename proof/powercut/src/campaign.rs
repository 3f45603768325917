//! The campaign: cells of file system, way of cutting and level, and a number of cuts in each.
//!
//! ```text
//!   for each cut: power on -> the writer checks what the last cut left, and writes -> wait
//!                 -> read the board -> cut -> end the writer -> power off
//! ```
//! Promised is what the board said before the cut was called. A last life of each cell only looks.
//! After a fault the cell goes on with a new file system, so that each fault counts once. A file
//! system that cannot be mounted after a cut is counted apart: it is no fault of the engine.

use crate::Result;
use crate::board::{Board, MadeBackup, Phase, Told};
use crate::device::{Cut, Device, Way};
use crate::disk::Keep;
use crate::draw::Draw;
use crate::filesystem::FileSystem;
use crate::store::Level;
use crate::system::BootId;
use crate::workload::{Counts, Fault, FaultKind, THREADS};
use crate::writer::{Order, Plan};
use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest time until a writer begins to write.
const PATIENCE: Duration = Duration::from_secs(120);
/// The longest time for which it writes.
const WRITING: Duration = Duration::from_millis(300);

/// The combination that is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// The file system below the database.
    pub file_system: FileSystem,
    /// How its power is cut.
    pub way: Way,
    /// The level of durability.
    pub level: Level,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file_system, way) = (self.file_system.name(), self.way.name());
        write!(f, "{file_system} {way} {}", self.level.name())
    }
}

/// The outcome of the cuts of a cell.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Power cuts after which the database was looked at.
    pub cuts: u64,
    /// Cuts before the threads wrote: while the database was opened, checked or created.
    pub early: u64,
    /// Writes of the file system that no flush had covered when a disk was cut.
    pub unflushed: u64,
    /// Unflushed writes that were kept in part.
    pub halved: u64,
    /// Writes that returned before a cut.
    pub acknowledged: u64,
    /// Acknowledged writes that were promised to survive.
    pub promised: u64,
    /// The number of cuts after which the file system could not be mounted.
    pub unmountable: u64,
    /// The faults.
    pub faults: Vec<Fault>,
}

impl Tally {
    /// Faults of a kind.
    pub fn of(&self, kind: FaultKind) -> u64 {
        self.faults
            .iter()
            .filter(|fault| fault.kind == kind)
            .count() as u64
    }
}

/// The settings that all cells share.
pub struct Campaign {
    /// This crate's command.
    pub program: PathBuf,
    /// The directory of images and boards.
    pub dir: PathBuf,
    /// The boot identity that the machine is said to have.
    pub boot: BootId,
    /// Set when the campaign is to end.
    pub interrupted: Arc<AtomicBool>,
    /// The directory for the image of each cut that showed a fault, if they are kept.
    pub keep: Option<PathBuf>,
}

/// What must be there after the next cut.
#[derive(Clone, Debug, Default)]
struct Owed {
    established: bool,
    promised: Counts,
    backup: Option<MadeBackup>,
}

/// A writing process, which is ended when this is dropped.
struct Writer {
    child: Child,
    desk: PathBuf,
    board: Board,
}

impl Writer {
    fn fault(&self) -> Option<Fault> {
        let text = std::fs::read_to_string(Order::fault(&self.desk)).ok()?;
        Some(Fault::parse(&text).unwrap_or_else(|| Fault::refused(text)))
    }

    /// Kills it, if it runs. Returns what it wrote to standard error.
    fn end(mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        std::fs::read_to_string(self.desk.join("stderr")).unwrap_or_default()
    }
}

/// How a life ended before its power was cut.
enum Came {
    /// It came as far as it should.
    Far,
    /// It ended by itself, or takes too long.
    NoFurther(&'static str),
}

impl Campaign {
    /// Runs a cell.
    ///
    /// # Errors
    /// If the rig itself fails. Faults of the database are counted.
    pub fn run(&self, cell: Cell, cuts: u64, seed: u64) -> Result<Tally> {
        let mut run = Run {
            campaign: self,
            cell,
            draw: Draw::new(seed),
            tally: Tally::default(),
            number: 0,
        };
        while run.tally.cuts + run.tally.unmountable < cuts && !self.is_interrupted() {
            run.cut_until_fault(cuts)?;
        }
        Ok(run.tally)
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// An empty directory of this name.
    ///
    /// # Errors
    /// Of the system.
    pub fn fresh_dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.dir.join(name);
        let failed = |error: std::io::Error| format!("making {dir:?} anew: {error}");
        if dir.exists() {
            std::fs::remove_dir_all(&dir).map_err(failed)?;
        }
        std::fs::create_dir_all(&dir).map_err(failed)?;
        Ok(dir)
    }
}

struct Run<'a> {
    campaign: &'a Campaign,
    cell: Cell,
    draw: Draw,
    tally: Tally,
    /// The number of the life, which changes the boot identity.
    number: u64,
}

impl Run<'_> {
    /// Cuts one file system, until there were enough cuts or one showed a fault.
    fn cut_until_fault(&mut self, cuts: u64) -> Result<()> {
        let dir = self.campaign.fresh_dir("device")?;
        let Cell {
            file_system, way, ..
        } = self.cell;
        let mut device = Device::create(file_system, way, &dir, &self.campaign.program)?;
        let mut owed = Owed::default();
        let mut cut: Option<Cut> = None;
        loop {
            let seen = self.tally.cuts + self.tally.unmountable + u64::from(cut.is_some());
            let last = seen >= cuts || self.campaign.is_interrupted();
            let kept = self.keep_image(&device, cut.is_some())?;
            if let Err(what) = device.power_on(&mut self.draw) {
                if cut.is_none() {
                    return Err(what);
                }
                self.tally.unmountable += 1;
                eprintln!("{}: not mounted after {cut:?}: {what}", self.cell);
                return Ok(());
            }
            let (fault, next) = self.live(&mut device, &mut owed, last)?;
            self.tally.cuts += u64::from(cut.is_some());
            if let Some(fault) = fault {
                eprintln!("{}: cut {} ({cut:?}): {fault}", self.cell, self.tally.cuts);
                self.tally.faults.push(fault);
                return Ok(());
            }
            if let Some(kept) = kept {
                std::fs::remove_file(kept).map_err(|error| error.to_string())?;
            }
            if last {
                return Ok(());
            }
            cut = next;
            if let Some(Cut::Disk(_, counts)) = cut {
                self.tally.unflushed += counts.unflushed as u64;
                self.tally.halved += counts.torn as u64;
            }
        }
    }

    /// A copy of the image after a cut, for people who look for the cause of a fault.
    fn keep_image(&self, device: &Device, was_cut: bool) -> Result<Option<PathBuf>> {
        let Some(keep) = self.campaign.keep.as_ref().filter(|_| was_cut) else {
            return Ok(None);
        };
        let name = format!(
            "{}-{}",
            self.cell.to_string().replace(' ', "-"),
            self.tally.cuts + 1
        );
        let copy = keep.join(name);
        let copied = std::fs::copy(device.image(), &copy);
        copied.map_err(|error| format!("keeping {copy:?}: {error}"))?;
        Ok(Some(copy))
    }

    /// One life: from mounting to the cut, or to the end of the last look. Returns the fault that
    /// its writer found, and the cut, if any.
    fn live(
        &mut self,
        device: &mut Device,
        owed: &mut Owed,
        last: bool,
    ) -> Result<(Option<Fault>, Option<Cut>)> {
        self.number += 1;
        self.campaign.boot.change(self.number)?;
        // A lie is found if writes were made and nothing else kept them: the rig has to see that
        // each time.
        let lies = self.cell.level == Level::Lie;
        let early = !last && !lies && self.draw.one_in(6);
        let plan = match (last, self.draw.one_in(3)) {
            (true, _) => Plan::Look,
            (_, true) => Plan::Full,
            _ => Plan::Quick,
        };
        let mut writer = self.start(device, owed, plan)?;
        let came = match early {
            true => {
                std::thread::sleep(Duration::from_micros(self.draw.below(60_000)));
                Came::Far
            }
            false => wait(&mut writer, if last { Phase::Done } else { Phase::Writing })?,
        };
        if matches!(came, Came::Far) && !early && !last {
            self.let_write(&writer, if lies { 100 } else { 0 })?;
        }
        let ended = writer.child.try_wait().map_err(|error| error.to_string())?;
        let came = match ended.filter(|_| !last) {
            Some(_) => Came::NoFurther("the process ended by itself"),
            None => came,
        };
        // The board is read before the cut, so it was written before.
        let (told, mut fault) = (writer.board.told()?, writer.fault());
        let cut = match last {
            true => None,
            false if lies => Some(device.cut_keeping(Keep::Nothing, 0, 0)?),
            false => Some(device.cut(&mut self.draw)?),
        };
        let errors = writer.end();
        if let (Came::NoFurther(why), None) = (came, &fault) {
            if self.campaign.is_interrupted() {
                return device.power_off().map(|()| (None, cut));
            }
            fault = Some(Fault::refused(format!("{why}; it said: {errors}")));
        }
        self.count(&told, owed, last);
        device.power_off()?;
        Ok((fault, cut))
    }

    /// Lets the writer write for a while: until there are at least `least` writes, or for the
    /// longest time.
    fn let_write(&mut self, writer: &Writer, least: u64) -> Result<()> {
        let most = self.draw.of(&[1, 40, 400, 1_500]);
        let (wanted, pause) = (least + self.draw.below(most), self.draw.below(5_000));
        let started = Instant::now();
        while started.elapsed() < WRITING {
            let told = writer.board.told()?;
            if told.acknowledged.iter().sum::<u64>() - told.found.iter().sum::<u64>() >= wanted {
                break;
            }
            std::thread::sleep(Duration::from_micros(300));
        }
        std::thread::sleep(Duration::from_micros(pause));
        Ok(())
    }

    fn start(&mut self, device: &Device, owed: &Owed, plan: Plan) -> Result<Writer> {
        let desk = self.campaign.fresh_dir("desk")?;
        let board = Board::create(&Order::board(&desk))?;
        let backup = owed.backup.iter();
        let order = Order {
            level: self.cell.level,
            plan,
            seed: self.draw.number(),
            root: device.point().to_owned(),
            desk: desk.clone(),
            established: owed.established,
            promised: owed.promised.to_vec(),
            backup: backup
                .flat_map(|made| [&[made.number], &made.counts[..]].concat())
                .collect(),
        };
        let errors = File::create(desk.join("stderr")).map_err(|error| error.to_string())?;
        let child = order
            .command(&self.campaign.program)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("starting the writer: {error}"))?;
        Ok(Writer { child, desk, board })
    }

    /// Notes what is owed after a cut, by what the board said before it.
    fn count(&mut self, told: &Told, owed: &mut Owed, last: bool) {
        if told.phase < Phase::Writing && !last {
            self.tally.early += 1;
        }
        if told.phase < Phase::Opened {
            // What was owed before is still owed.
            return;
        }
        owed.established = true;
        let all = self.cell.level.promises_all();
        owed.promised = std::array::from_fn(|thread| match all {
            true => told.acknowledged[thread],
            false => told.promised[thread].max(told.found[thread]),
        });
        let since = |counts: &Counts| -> u64 {
            (0..THREADS)
                .map(|thread| counts[thread].saturating_sub(told.found[thread]))
                .sum()
        };
        self.tally.acknowledged += since(&told.acknowledged);
        self.tally.promised += since(&owed.promised);
        owed.backup = told.backup.or(owed.backup);
    }
}

/// Waits until the writer has come to this phase, or ended, or has a fault, or patience ends.
fn wait(writer: &mut Writer, phase: Phase) -> Result<Came> {
    let started = Instant::now();
    loop {
        if writer.board.told()?.phase >= phase || Order::fault(&writer.desk).exists() {
            return Ok(Came::Far);
        }
        let ended = writer.child.try_wait().map_err(|error| error.to_string())?;
        if ended.is_some() && writer.board.told()?.phase < phase {
            return Ok(Came::NoFurther("the process ended by itself"));
        }
        if started.elapsed() > PATIENCE {
            return Ok(Came::NoFurther("the process does not come to its writing"));
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// All cells of these, except those that make no sense.
pub fn cells(file_systems: &[FileSystem], ways: &[Way], levels: &[Level]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &level in levels {
        for &way in ways {
            let suits = file_systems
                .iter()
                .filter(|file_system| way.suits(**file_system));
            cells.extend(suits.map(|&file_system| Cell {
                file_system,
                way,
                level,
            }));
        }
    }
    cells
}

/// A table of tallies, a row for each cell.
pub fn table(rows: &[(Cell, Tally)]) -> String {
    let head = [
        "file system",
        "way",
        "level",
        "cuts",
        "early",
        "unflushed",
        "halved",
        "acknowledged",
        "promised",
        "lost",
        "wrong",
        "torn",
        "refused",
        "not mounted",
    ];
    let mut lines = vec![
        format!("| {} |", head.join(" | ")),
        format!("|{}", "---|".repeat(head.len())),
    ];
    for (cell, tally) in rows {
        let names = [cell.file_system.name(), cell.way.name(), cell.level.name()];
        let mut numbers = vec![
            tally.cuts,
            tally.early,
            tally.unflushed,
            tally.halved,
            tally.acknowledged,
            tally.promised,
        ];
        numbers.extend(FaultKind::ALL.map(|kind| tally.of(kind)));
        numbers.push(tally.unmountable);
        let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
        lines.push(format!(
            "| {} | {} |",
            names.join(" | "),
            numbers.join(" | ")
        ));
    }
    lines.join("\n")
}

//! [`FileSystem`]: the file systems, and how each is made, mounted, and put right before it is
//! mounted.

use crate::Result;
use crate::draw::Draw;
use crate::system::{has_command, run};
use clap::ValueEnum;
use std::fs::File;
use std::path::Path;
use std::process::Command;

/// A file system in the form in which it is made and mounted here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum FileSystem {
    /// With its journal.
    Ext4,
    /// Without a journal: `e2fsck` puts it right before each mount.
    Ext4NoJournal,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
}

impl FileSystem {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Ext4NoJournal => "ext4-no-journal",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            FileSystem::Ext4 | FileSystem::Ext4NoJournal => "ext4",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
        }
    }

    /// Why this machine does not have it, if it does not.
    pub fn missing(self) -> Option<String> {
        let kind = self.kind();
        let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        let maker = format!("mkfs.{kind}");
        if !known.lines().any(|line| line.trim() == kind) {
            return Some(format!("the kernel has no {kind} loaded"));
        }
        if !has_command(&maker) {
            return Some(format!("{maker} is not installed"));
        }
        (self == FileSystem::Ext4NoJournal && !has_command("e2fsck"))
            .then(|| "e2fsck is not installed".to_owned())
    }

    /// Makes an empty one in a new file.
    ///
    /// # Errors
    /// The text of `mkfs`.
    pub fn make(self, image: &Path) -> Result<()> {
        let mebibytes = match self {
            FileSystem::Btrfs => 128,
            _ => 96,
        };
        File::create(image)
            .and_then(|file| file.set_len(mebibytes << 20))
            .map_err(|error| format!("making {image:?}: {error}"))?;
        let arguments: &[&str] = match self {
            FileSystem::Ext4 => &["-q", "-F", "-E", "nodiscard"],
            FileSystem::Ext4NoJournal => &["-q", "-F", "-E", "nodiscard", "-O", "^has_journal"],
            FileSystem::Xfs => &["-q", "-f", "-K", "-l", "size=16m"],
            FileSystem::Btrfs => &["-q", "-f", "-K"],
        };
        let make = |more: &[&str]| {
            let maker = &mut Command::new(format!("mkfs.{}", self.kind()));
            run(maker.args(arguments).args(more).arg(image), &[]).map(drop)
        };
        match self {
            // Newer versions make no small file system unless they are told so; older ones do not
            // know the word.
            FileSystem::Xfs => make(&["--unsupported"]).or_else(|_| make(&[])),
            _ => make(&[]),
        }
    }

    /// Puts a file system right after a power cut, if mounting does not do that itself.
    ///
    /// # Errors
    /// If it cannot be put right.
    pub fn put_right(self, image: &Path) -> Result<()> {
        match self {
            // 1: errors were corrected.
            FileSystem::Ext4NoJournal => {
                run(Command::new("e2fsck").arg("-fy").arg(image), &[1]).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// How it is mounted: its type for `mount`, and options that vary from mount to mount.
    pub fn mounting(self, draw: &mut Draw) -> (&'static str, &'static str) {
        let options = match self {
            FileSystem::Ext4 => draw.of(&[
                "",
                "data=writeback",
                "nodelalloc",
                "commit=1",
                "data=journal",
            ]),
            FileSystem::Ext4NoJournal => draw.of(&["", "nodelalloc"]),
            FileSystem::Xfs => draw.of(&["", "allocsize=4k", "logbufs=2"]),
            FileSystem::Btrfs => {
                draw.of(&["nodiscard", "nodiscard,commit=1", "nodiscard,notreelog"])
            }
        };
        (self.kind(), options)
    }
}

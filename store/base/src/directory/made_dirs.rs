//! Directories that a call makes, and removes again if it fails.
//!
//! Thread safety: any. Files that somebody else has put there meanwhile stay, and so does the
//! directory around them.

use evendb_storage::vfs::Vfs;
use std::io;
use std::path::{Path, PathBuf};

/// The directories that a call has made.
pub struct MadeDirs {
    /// The innermost first.
    made: Vec<PathBuf>,
}

impl MadeDirs {
    /// Makes `dir` and its missing parents.
    ///
    /// # Errors
    /// The errors of the file system; nothing is left then.
    pub fn make(vfs: &dyn Vfs, dir: &Path) -> io::Result<MadeDirs> {
        let mut made = Vec::new();
        for missing in dir.ancestors() {
            if vfs.exists(missing)? {
                break;
            }
            made.push(missing.to_owned());
        }
        let made = MadeDirs { made };
        vfs.create_dir_all(dir).inspect_err(|_| made.undo(vfs))?;
        Ok(made)
    }

    /// Whether the directory itself was missing.
    pub fn is_new(&self) -> bool {
        !self.made.is_empty()
    }

    /// Removes the directories, as far as they are empty.
    pub fn undo(&self, vfs: &dyn Vfs) {
        for dir in &self.made {
            let _ = vfs.remove_dir(dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evendb_storage::vfs::OsVfs;
    use std::fs;

    #[test]
    fn what_was_made_goes_and_what_was_there_or_is_used_stays() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let made = MadeDirs::make(&OsVfs, &at("a/b/c")).unwrap();
        assert!(made.is_new() && at("a/b/c").is_dir());
        let again = MadeDirs::make(&OsVfs, &at("a/b/c")).unwrap();
        assert!(!again.is_new());
        again.undo(&OsVfs);
        assert!(at("a/b/c").is_dir());
        fs::write(at("a/of another one"), "").unwrap();
        made.undo(&OsVfs);
        assert!(!at("a/b").exists() && at("a/of another one").exists());
        fs::write(at("file"), "").unwrap();
        assert!(MadeDirs::make(&OsVfs, &at("file/x/y")).is_err());
        assert!(at("file").is_file());
    }
}

//! Files of fixed names in a directory that the user names. A later run writes them anew, but only
//! if such a run has made them.
//!
//! One of the files is the mark: its content tells that the directory belongs to such runs. Without
//! it, no other file of these names is ours. Thread safety: any.

use evendb::vfs::OsVfs;
use std::io::{self, Read, Write};
use std::path::Path;

/// A mark with more bytes is not ours: `results.jsonl` and the documents have some megabytes at
/// most.
const MARK_BYTES_MAX: u64 = 256 << 20;

/// Refuses a directory in three cases: `mark` is no regular file, or its content is not ours by
/// `is_ours`; one of `others` is there without a mark; one of `others` is no regular file. Nothing
/// is written.
pub(crate) fn refuse_foreign(
    dir: &Path,
    mark: &str,
    is_ours: &dyn Fn(&str) -> bool,
    others: &[&str],
) -> io::Result<()> {
    let refused = |name: &str, what: &str| {
        let path = dir.join(name);
        let message = format!(
            "{} is there already, and {what}: it is left as it is; name another directory",
            path.display()
        );
        io::Error::new(io::ErrorKind::AlreadyExists, message)
    };
    let has_mark = match OsVfs::regular_file(&dir.join(mark)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(refused(mark, &error.to_string())),
        Ok(file) => {
            let mut text = String::new();
            let read = file.take(MARK_BYTES_MAX).read_to_string(&mut text);
            if read.is_err() || !is_ours(&text) {
                return Err(refused(mark, "none of ours"));
            }
            true
        }
    };
    for name in others {
        match dir.join(name).symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(there) if there.is_file() && has_mark => {}
            Ok(_) => return Err(refused(name, "none of ours")),
        }
    }
    Ok(())
}

/// Writes a file that [`refuse_foreign`] let pass, and never through a link.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OsVfs::own_file(path)?;
    file.set_len(0)?;
    file.write_all(text.as_bytes())
}

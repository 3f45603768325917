//! Files that are read as a whole: models, analyses, advice, results.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The longest file that is read as a whole. The largest files that the commands write have some
/// 100 KiB. A file without an end, such as a device, must not take all memory.
pub const FILE_BYTES_MAX: u64 = 64 << 20;

/// The longest model. It is edited by hand, and takes many times its bytes while it is read.
pub const MODEL_BYTES_MAX: u64 = 1 << 20;

/// The bytes of a file.
///
/// # Errors
/// It cannot be read, or has more than [`FILE_BYTES_MAX`] bytes.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    within(path, FILE_BYTES_MAX)
}

fn within(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let why = format!("it has more than {most} bytes, and is no such file");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// The text of a file.
///
/// # Errors
/// As of [`read`]; it is no UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    text(read(path)?)
}

/// The text of a model.
///
/// # Errors
/// It cannot be read, has more than [`MODEL_BYTES_MAX`] bytes, or is no UTF-8.
pub fn read_model(path: &Path) -> io::Result<String> {
    text(within(path, MODEL_BYTES_MAX)?)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused_and_a_whole_one_is_read() {
        let endless = read(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(endless.kind(), io::ErrorKind::FileTooLarge);
        assert!(endless.to_string().contains("67108864 bytes"), "{endless}");
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let most = vec![b'x'; FILE_BYTES_MAX as usize];
        std::fs::write(&path, &most).unwrap();
        assert!(read(&path).unwrap() == most);
        let too_long = read_model(&path).unwrap_err();
        assert_eq!(too_long.kind(), io::ErrorKind::FileTooLarge);
        std::fs::write(&path, b"\xff").unwrap();
        assert_eq!(read(&path).unwrap(), b"\xff");
        assert_eq!(
            read_text(&path).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }
}

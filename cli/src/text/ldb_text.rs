//! Reads the output of RocksDB's tool: `ldb --db=DIR dump --hex` and `ldb --db=DIR scan --hex`.
//!
//! ```text
//! 0xKEY ==> 0xVALUE        hexadecimal digits, empty for an empty value;
//!                          scan of older tools prints ` : ` for ` ==> `
//! Keys in range: COUNT     dump ends with it, and the count must be that of the lines before it
//! ```

use crate::escapes::{shown, unhex};

const COUNT: &[u8] = b"Keys in range: ";

/// Whether a line is a record.
pub fn looks_right(line: &[u8]) -> bool {
    split(line).is_some_and(|(key, value)| unhex(key).is_ok() && unhex(value).is_ok())
}

/// The count of records, if the line says it.
pub fn count(line: &[u8]) -> Option<u64> {
    let digits = line.strip_prefix(COUNT)?;
    std::str::from_utf8(digits).ok()?.trim().parse().ok()
}

/// Reads a record.
pub fn read(line: &[u8], key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<(), String> {
    let (found_key, found_value) = split(line).ok_or_else(|| {
        format!(
            "`{}` is not as `ldb dump --hex` prints a record: 0xKEY ==> 0xVALUE",
            shown(line)
        )
    })?;
    *key = unhex(found_key)?;
    *value = unhex(found_value)?;
    Ok(())
}

/// The digits of a key and of a value.
fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let digits = line.strip_prefix(b"0x")?;
    let key = digits.iter().position(|byte| !byte.is_ascii_hexdigit())?;
    let (key, rest) = digits.split_at(key);
    let value = [&b" ==> 0x"[..], b" : 0x"]
        .iter()
        .find_map(|between| rest.strip_prefix(*between))?;
    Some((key, value.trim_ascii_end()))
}

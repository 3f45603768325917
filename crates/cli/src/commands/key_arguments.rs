//! Keys as they are written on the command line: text, hexadecimal, or typed columns.

use clap::Args;

use crate::failure::Failure;
use crate::keys::{ColumnType, KeyEncoder};

/// How keys in the arguments are written.
#[derive(Args)]
pub struct KeyForm {
    /// Keys are written in hexadecimal
    #[arg(long, conflicts_with = "key_types")]
    pub hex: bool,
    /// Keys are columns of these types (str, u64, i64), as `evendb import` makes them
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    pub key_types: Vec<ColumnType>,
    /// What stands between the columns of a key; the last column may contain it
    #[arg(long, value_name = "TEXT", default_value = ",")]
    pub key_separator: String,
}

impl KeyForm {
    /// The bytes of a whole key.
    pub fn key(&self, text: &str) -> Result<Vec<u8>, Failure> {
        let (key, columns) = self.encode(text)?;
        if !self.key_types.is_empty() && columns != self.key_types.len() {
            let expected = self.key_types.len();
            return Err(Failure::Usage(format!(
                "the key `{text}` has {columns} columns, --key-types has {expected}"
            )));
        }
        Ok(key)
    }

    /// The bytes that a range starts or ends with; of the columns the last ones may be missing.
    pub fn bound(&self, text: &str) -> Result<Vec<u8>, Failure> {
        self.encode(text).map(|(key, _)| key)
    }

    fn encode(&self, text: &str) -> Result<(Vec<u8>, usize), Failure> {
        if self.hex {
            return Ok((unhex(text).map_err(Failure::Usage)?, 1));
        }
        if self.key_types.is_empty() {
            return Ok((text.as_bytes().to_vec(), 1));
        }
        if self.key_separator.is_empty() {
            return Err(Failure::Usage(
                "--key-separator must not be empty".to_owned(),
            ));
        }
        let mut key = Vec::new();
        let mut encoder = KeyEncoder::new(&mut key, self.key_types.len());
        let mut columns = 0;
        for (column, kind) in text
            .splitn(self.key_types.len(), &self.key_separator)
            .zip(&self.key_types)
        {
            encoder
                .push(*kind, column.as_bytes())
                .map_err(Failure::Usage)?;
            columns += 1;
        }
        Ok((key, columns))
    }
}

fn unhex(text: &str) -> Result<Vec<u8>, String> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return Err(format!("`{text}` has an odd number of hexadecimal digits"));
    }
    pairs
        .iter()
        .map(|&[high, low]| Some((digit(high)? << 4) | digit(low)?))
        .collect::<Option<_>>()
        .ok_or_else(|| format!("`{text}` is no hexadecimal number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(hex: bool, key_types: &[ColumnType]) -> KeyForm {
        KeyForm {
            hex,
            key_types: key_types.to_vec(),
            key_separator: ",".to_owned(),
        }
    }

    #[test]
    fn keys_are_read_in_every_form() {
        assert_eq!(form(false, &[]).key("a,b").unwrap(), b"a,b");
        assert_eq!(form(true, &[]).key("00fF").unwrap(), b"\x00\xFF");
        let typed = form(false, &[ColumnType::Text, ColumnType::Unsigned]);
        assert_eq!(typed.key("a,1").unwrap(), b"a\x00\x01\0\0\0\0\0\0\0\x01");
        assert_eq!(typed.bound("a").unwrap(), b"a\x00\x01");
    }

    #[test]
    fn what_is_no_key_is_wrong_usage() {
        let typed = form(false, &[ColumnType::Text, ColumnType::Unsigned]);
        for outcome in [
            form(true, &[]).key("0"),
            form(true, &[]).key("0g"),
            typed.key("a"),
            typed.key("a,b"),
        ] {
            assert!(matches!(outcome, Err(Failure::Usage(_))));
        }
    }
}

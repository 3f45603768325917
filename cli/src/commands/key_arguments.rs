//! Keys as they are written on the command line: text, hexadecimal, or typed columns.

use clap::Args;
use evendb_lab::readable::counted;

use crate::escapes::unhex;
use crate::failure::Failure;
use crate::key_types::{self, KeyTypes, Untyped};
use crate::keys::{self, ColumnType, KeyEncoder};
use crate::output::{Form, Shape};
use crate::scan_output;
use crate::store::Store;

/// How keys in the arguments are written.
#[derive(Args)]
pub struct KeyForm {
    /// Keys are written as the hexadecimal digits of their bytes; records are printed so, too,
    /// without --output
    #[arg(long, conflicts_with = "key_types")]
    pub hex: bool,
    /// Keys are columns of these types (str, u64, i64, f32, f64, bytes and more), as `evendb
    /// import` makes them; the remembered types of the keyspace if not given. `raw`: keys are text,
    /// and remembered types are not used
    #[arg(long, value_name = "TYPES", allow_hyphen_values = true)]
    pub key_types: Option<KeyTypes>,
    /// What stands between the columns of a key; the last column may contain it
    #[arg(
        long,
        value_name = "TEXT",
        default_value = ",",
        allow_hyphen_values = true
    )]
    pub key_separator: String,
}

/// How keys in the arguments become keys of one keyspace.
pub struct Keys<'a> {
    form: &'a KeyForm,
    /// Empty if keys are their own bytes.
    pub types: Vec<ColumnType>,
}

/// The bytes that end a text among columns (docs/keys.md), in descending order too.
const END_MARK_BYTES: usize = 2;

/// The last column of a limit.
enum Column<'t> {
    /// Its bytes, and nothing follows.
    Bytes,
    /// A text, and the end mark follows.
    Ended,
    /// No text.
    NoText(&'t ColumnType),
}

impl KeyForm {
    /// The form for keys of this keyspace. The keyspace remembers their types, unless types are
    /// given.
    pub fn agreed(&self, store: &Store) -> Result<Keys<'_>, Failure> {
        let types = key_types::agreed(store, self.key_types.as_ref())?;
        Ok(Keys { form: self, types })
    }

    /// The form for a key that will be put: an empty keyspace remembers the given types.
    pub fn agreed_for_put(&self, store: &Store) -> Result<Keys<'_>, Failure> {
        if let Some(KeyTypes::Columns(types)) = &self.key_types {
            key_types::remember(store, types, Untyped::Keep)?;
        }
        self.agreed(store)
    }

    /// Refuses a text that cannot be a key in any keyspace.
    pub fn check(&self, text: &str) -> Result<(), Failure> {
        let types = match &self.key_types {
            Some(KeyTypes::Columns(types)) => types.clone(),
            _ => Vec::new(),
        };
        Keys { form: self, types }.key(text).map(drop)
    }
}

impl Keys<'_> {
    /// The bytes of a whole key.
    pub fn key(&self, text: &str) -> Result<Vec<u8>, Failure> {
        let (key, columns) = self.encode(text)?;
        let expected = self.types.len();
        if !self.form.hex && expected > 0 && columns != expected {
            return Err(Failure::Usage(format!(
                "the key `{text}` has {}, the key types `{}` have {expected}; --prefix {text} of scan and delete \
                 takes all keys that begin with it",
                counted(columns as u64, "column"),
                key_types::shown(&self.types)
            )));
        }
        Ok(key)
    }

    /// How records of the keyspace are printed, in the form `asked` for or the usual one.
    pub fn shape(&self, store: &Store, asked: Option<Form>) -> Result<Shape, Failure> {
        let asked = asked.or(self.form.hex.then_some(Form::Hex));
        Shape::of_records(store, &self.types, asked)
    }

    /// The common first bytes of all keys whose last given column, a text, begins as in `text`.
    pub fn start(&self, text: &str) -> Result<Vec<u8>, Failure> {
        let mut start = self.bound(text)?;
        match self.open_column(text) {
            Column::Ended => start.truncate(start.len().saturating_sub(END_MARK_BYTES)),
            Column::Bytes => {}
            Column::NoText(kind) => {
                return Err(Failure::Usage(format!(
                    "the last column of `{text}` is of the type {kind}, and only of a text it can be \
                     said what it starts with: give --from and --to"
                )));
            }
        }
        Ok(start)
    }

    /// Whether a prefix that selects nothing may have been meant as the start of a text.
    pub fn may_be_a_start(&self, text: &str) -> bool {
        matches!(self.open_column(text), Column::Ended) && !text.is_empty()
    }

    /// What the last column of a limit is.
    fn open_column(&self, text: &str) -> Column<'_> {
        let given = match self.form.hex || scan_output::is_plain(&self.types) {
            true => return Column::Bytes,
            false => text
                .splitn(self.types.len(), &self.form.key_separator)
                .count(),
        };
        let kind = &self.types[given - 1];
        match (keys::text_type(kind), &self.types[..]) {
            (ColumnType::Bytes, [ColumnType::Bytes]) => Column::Bytes,
            (ColumnType::Text | ColumnType::Bytes, _) => Column::Ended,
            _ => Column::NoText(kind),
        }
    }

    /// The bytes that a range starts or ends with. The last columns may be missing.
    pub fn bound(&self, text: &str) -> Result<Vec<u8>, Failure> {
        match text.is_empty() {
            true => Ok(Vec::new()),
            false => self.encode(text).map(|(key, _)| key),
        }
    }

    fn encode(&self, text: &str) -> Result<(Vec<u8>, usize), Failure> {
        if self.form.hex {
            return Ok((unhex(text.as_bytes()).map_err(Failure::Usage)?, 1));
        }
        if self.types.is_empty() {
            return Ok((text.as_bytes().to_vec(), 1));
        }
        if self.form.key_separator.is_empty() {
            return Err(Failure::Usage(
                "--key-separator must not be empty".to_owned(),
            ));
        }
        let mut key = Vec::new();
        let mut encoder = KeyEncoder::new(&mut key, self.types.len());
        let mut columns = 0;
        for (column, kind) in text
            .splitn(self.types.len(), &self.form.key_separator)
            .zip(&self.types)
        {
            keys::push(&mut encoder, kind, column.as_bytes()).map_err(Failure::Usage)?;
            columns += 1;
        }
        Ok((key, columns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(hex: bool) -> KeyForm {
        KeyForm {
            hex,
            key_types: None,
            key_separator: ",".to_owned(),
        }
    }

    fn keys<'a>(form: &'a KeyForm, types: &[ColumnType]) -> Keys<'a> {
        Keys {
            form,
            types: types.to_vec(),
        }
    }

    const TYPES: [ColumnType; 2] = [ColumnType::Text, ColumnType::U64];

    #[test]
    fn keys_are_read_in_every_form() {
        let (text, hex) = (form(false), form(true));
        assert_eq!(keys(&text, &[]).key("a,b").unwrap(), b"a,b");
        assert_eq!(keys(&hex, &[]).key("00fF").unwrap(), b"\x00\xFF");
        assert_eq!(keys(&hex, &TYPES).key("00fF").unwrap(), b"\x00\xFF");
        let typed = keys(&text, &TYPES);
        assert_eq!(typed.key("a,1").unwrap(), b"a\x00\x01\0\0\0\0\0\0\0\x01");
        assert_eq!(typed.bound("a").unwrap(), b"a\x00\x01");
        assert_eq!(typed.bound("").unwrap(), b"");
    }

    #[test]
    fn the_start_of_a_text_has_no_end_mark() {
        let (text, hex) = (form(false), form(true));
        let typed = keys(&text, &TYPES);
        assert_eq!(typed.start("a").unwrap(), b"a");
        assert_eq!(typed.start("a\0").unwrap(), b"a\x00\xFF");
        assert!(matches!(typed.start("a,1"), Err(Failure::Usage(_))));
        let descending = ["u8", "desc:str"].map(|name| keys::column_type(name).unwrap());
        let descending = keys(&text, &descending);
        assert_eq!(descending.start("7,ab").unwrap(), [7, !b'a', !b'b']);
        assert_eq!(keys(&text, &[]).start("a,b").unwrap(), b"a,b");
        assert_eq!(keys(&text, &[ColumnType::Text]).start("a").unwrap(), b"a");
        assert_eq!(
            keys(&text, &[ColumnType::Bytes]).start("00").unwrap(),
            b"\0"
        );
        assert_eq!(keys(&hex, &TYPES).start("00").unwrap(), b"\0");
        assert!(typed.may_be_a_start("a") && !typed.may_be_a_start("a,1"));
        assert!(!keys(&text, &[]).may_be_a_start("a"));
    }

    #[test]
    fn what_is_no_key_is_wrong_usage() {
        let (text, hex) = (form(false), form(true));
        let typed = keys(&text, &TYPES);
        for outcome in [
            keys(&hex, &[]).key("0"),
            keys(&hex, &[]).key("0g"),
            typed.key("a"),
            typed.key("a,b"),
        ] {
            assert!(matches!(outcome, Err(Failure::Usage(_))));
        }
    }
}

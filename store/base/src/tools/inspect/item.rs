//! One item of a dump: what a stretch of a file says, and where it lies. Values only.

use std::fmt;

/// How to dump.
#[derive(Clone, Debug, Default)]
pub struct DumpOptions {
    /// Stops after this many records (of tables and logs) or changes (of the manifest).
    pub limit: Option<u64>,
    /// Leaves the values out.
    pub keys_only: bool,
}

/// A field of an item.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DumpValue {
    /// A number.
    Number(u64),
    /// A word or a sentence.
    Text(String),
    /// A key or a value.
    Bytes(Vec<u8>),
}

/// One thing found in a file. Shown as one line of text, indented by its depth.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DumpItem {
    /// What it is: `edit`, `change`, `block`, `record`, `damage`, ...
    pub kind: &'static str,
    /// Its depth below the items before it.
    pub depth: usize,
    /// Where it starts in its file.
    pub offset: Option<u64>,
    /// Its bytes in the file.
    pub len: Option<u64>,
    /// What it says.
    pub fields: Vec<(&'static str, DumpValue)>,
}

/// Methods for the engine, which makes items.
#[doc(hidden)]
impl DumpItem {
    /// An item without fields.
    pub fn new(kind: &'static str, depth: usize) -> DumpItem {
        DumpItem {
            kind,
            depth,
            offset: None,
            len: None,
            fields: Vec::new(),
        }
    }

    /// An item for bytes that do not verify, with the reason.
    pub fn damage(depth: usize, offset: u64, len: u64, what: impl Into<String>) -> DumpItem {
        DumpItem::new("damage", depth)
            .at(offset, len)
            .text("what", what)
    }

    /// The same item at this place.
    #[must_use]
    pub fn at(mut self, offset: u64, len: u64) -> DumpItem {
        (self.offset, self.len) = (Some(offset), Some(len));
        self
    }

    /// The same item with a field.
    #[must_use]
    pub fn number(mut self, name: &'static str, number: u64) -> DumpItem {
        self.fields.push((name, DumpValue::Number(number)));
        self
    }

    /// The same item with a field.
    #[must_use]
    pub fn text(mut self, name: &'static str, text: impl Into<String>) -> DumpItem {
        self.fields.push((name, DumpValue::Text(text.into())));
        self
    }

    /// The same item with a field.
    #[must_use]
    pub fn bytes(mut self, name: &'static str, bytes: &[u8]) -> DumpItem {
        self.fields.push((name, DumpValue::Bytes(bytes.to_vec())));
        self
    }
}

impl fmt::Display for DumpItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:indent$}{}", "", self.kind, indent = self.depth * 2)?;
        if let (Some(offset), Some(len)) = (self.offset, self.len) {
            write!(f, " @{offset}+{len}")?;
        }
        for (name, value) in &self.fields {
            match value {
                DumpValue::Number(number) => write!(f, " {name}={number}")?,
                DumpValue::Text(text) if text.contains(' ') => write!(f, " {name}: {text}")?,
                DumpValue::Text(text) => write!(f, " {name}={text}")?,
                DumpValue::Bytes(bytes) => write!(f, " {name}=`{}`", bytes.escape_ascii())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_a_line() {
        let item = DumpItem::new("record", 2)
            .at(24, 8)
            .number("version", 7)
            .text("kind", "put")
            .bytes("key", b"a\n");
        assert_eq!(
            item.to_string(),
            "    record @24+8 version=7 kind=put key=`a\\n`"
        );
        assert_eq!(
            DumpItem::damage(0, 1, 2, "not there").to_string(),
            "damage @1+2 what: not there"
        );
    }
}

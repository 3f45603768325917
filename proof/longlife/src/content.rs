//! [`Content`]: a value without its bytes; and the results of merges.
//!
//! An oracle that held all bytes would be as large as the database, and its memory would hide that
//! of the engine. So nearly all values follow from a number and a length. Plain data.

use evendb::Merges;
use evendb_powercut::draw::Draw;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

/// A value.
#[derive(Clone, PartialEq, Eq)]
pub enum Content {
    /// A value that follows from a number and a length.
    Made {
        /// Any number.
        tag: u64,
        /// Bytes.
        len: u32,
    },
    /// Bytes as they are: numbers, results of merges, values of a kept database.
    Bytes(Vec<u8>),
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", brief(&self.bytes()))
    }
}

/// The beginning of a value and its length, for messages.
pub fn brief(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(24)];
    format!("\"{}\" ({} bytes)", head.escape_ascii(), bytes.len())
}

impl Content {
    /// Its length.
    pub fn len(&self) -> usize {
        match self {
            Content::Made { len, .. } => *len as usize,
            Content::Bytes(bytes) => bytes.len(),
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its bytes. One of every three made values has one byte throughout, one repeats itself, and
    /// one cannot be compressed.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        let (tag, len) = match self {
            Content::Bytes(bytes) => return Cow::Borrowed(bytes),
            Content::Made { tag, len } => (*tag, *len as usize),
        };
        let mut draw = Draw::new(tag);
        let mut bytes = draw.number().to_le_bytes().to_vec();
        match tag % 3 {
            0 => bytes.resize(len.max(8), tag as u8),
            1 => {
                let text = format!("{tag:x}, and again ");
                bytes.extend(text.bytes().cycle().take(len.saturating_sub(8)));
            }
            _ => {
                while bytes.len() < len {
                    bytes.extend_from_slice(&draw.number().to_le_bytes());
                }
            }
        }
        bytes.truncate(len);
        Cow::Owned(bytes)
    }
}

/// A possible operand for this operator.
pub fn operand(merges: Merges, draw: &mut Draw) -> Vec<u8> {
    let number = draw.number();
    match merges {
        Merges::AddU64 | Merges::AddI64 => (number >> draw.below(64)).to_le_bytes().to_vec(),
        Merges::Union => {
            let each = (0..1 + number % 3).map(|_| format!("{}", draw.below(30)));
            Merges::set(each)
        }
        _ => format!("{:x};", number >> draw.below(60)).into_bytes(),
    }
}

/// The result of a value and an operand, by the operators' documentation. `None` for an operator of
/// a later version.
pub fn merged(merges: Merges, value: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
    let Some(value) = value else {
        return Some(operand.to_vec());
    };
    Some(match merges {
        // Two's complement: both are the same sum.
        Merges::AddU64 | Merges::AddI64 => number(value)?
            .wrapping_add(number(operand)?)
            .to_le_bytes()
            .to_vec(),
        Merges::Max => value.max(operand).to_vec(),
        Merges::Min => value.min(operand).to_vec(),
        Merges::Append => [value, operand].concat(),
        Merges::Union => {
            let both = [Merges::elements(value)?, Merges::elements(operand)?].concat();
            Merges::set(both.into_iter().collect::<BTreeSet<_>>())
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_have_their_length_and_differ() {
        for len in [0, 1, 8, 9, 1000] {
            for tag in 0..6 {
                let made = Content::Made { tag, len };
                assert_eq!(made.bytes().len(), len as usize);
                let other = Content::Made { tag: tag + 6, len };
                assert!(len < 8 || made.bytes() != other.bytes(), "{tag} {len}");
            }
        }
    }
}

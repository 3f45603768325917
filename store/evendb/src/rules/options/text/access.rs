//! How the text of one option is read and written: its form, its limits, and the two functions that
//! set and read the option.
//!
//! A word may stand for a value, as `none` for 0, or for no value of the option's own, as `auto`
//! for a size that follows from the memory budget. Thread safety: plain data.

use super::forms;
use crate::error::Result;
use std::time::Duration;

/// An option of `T` as text.
pub(super) trait Access<T>: Send + Sync {
    /// What texts it takes, in a word.
    fn takes(&self) -> &'static str;

    /// The limits of its value, or the texts that it takes.
    fn limits(&self) -> String;

    /// Sets the option. Returns whether the text is one that it takes; an error has words of its
    /// own.
    fn set(&self, options: &mut T, text: &str) -> Result<bool>;

    /// The option's text, from which it can be set again.
    fn text(&self, options: &T) -> String;
}

/// A form of values as text.
pub(super) struct Kind<V> {
    pub(super) name: &'static str,
    pub(super) example: &'static str,
    /// The greatest value of the type: a limit there is none.
    greatest: Option<V>,
    parse: fn(&str) -> Option<V>,
    write: fn(V) -> String,
    is_within: fn(&(V, V), &V) -> bool,
}

fn is_between<V: PartialOrd>((least, most): &(V, V), value: &V) -> bool {
    (least..=most).contains(&value)
}

pub(super) const SIZE: Kind<u64> = Kind {
    name: "size",
    example: "a size in bytes, as 4096, 64KiB or 1.5GiB",
    greatest: Some(u64::MAX),
    parse: |text| forms::parse_size(text).ok(),
    write: forms::size,
    is_within: is_between,
};

pub(super) const NUMBER: Kind<u64> = Kind {
    name: "number",
    example: "a whole number",
    greatest: Some(u64::MAX),
    parse: forms::parse_number,
    write: |number| number.to_string(),
    is_within: is_between,
};

pub(super) const FRACTION: Kind<f64> = Kind {
    name: "fraction",
    example: "a number, as 1.25",
    greatest: None,
    parse: |text| text.trim().parse().ok(),
    write: |number| number.to_string(),
    is_within: is_between,
};

pub(super) const TIME: Kind<Duration> = Kind {
    name: "time",
    example: "a length of time, as 100ms, 30s, 1.5h or 2d",
    greatest: Some(Duration::MAX),
    parse: |text| forms::parse_duration(text).ok(),
    write: forms::duration,
    is_within: is_between,
};

pub(super) const SWITCH: Kind<bool> = Kind {
    name: "switch",
    example: "`on` or `off`",
    greatest: None,
    parse: forms::parse_switch,
    write: forms::switch,
    is_within: |_, _| true,
};

/// Two sizes; the limits hold for each of them.
pub(super) const SIZES: Kind<Pair> = Kind {
    name: "two sizes",
    example: "two sizes in bytes with a comma between them, as 2MiB,20MiB",
    greatest: None,
    parse: |text| pair(text, SIZE.parse),
    write: |(one, other)| format!("{},{}", forms::size(one), forms::size(other)),
    is_within: |limits, &(one, other)| each_is_between(limits, one, other),
};

/// Two numbers, the second not less than the first; the limits hold for each of them.
pub(super) const NUMBERS: Kind<Pair> = Kind {
    name: "two numbers",
    example: "two whole numbers with a comma between them, the second not less than the first",
    greatest: None,
    parse: |text| pair(text, forms::parse_number),
    write: |(one, other)| format!("{one},{other}"),
    is_within: |limits, &(one, other)| each_is_between(limits, one, other) && one <= other,
};

pub(super) type Pair = (u64, u64);

fn each_is_between(&((least, _), (most, _)): &(Pair, Pair), one: u64, other: u64) -> bool {
    [one, other]
        .iter()
        .all(|number| is_between(&(least, most), number))
}

fn pair(text: &str, parse: fn(&str) -> Option<u64>) -> Option<Pair> {
    let (one, other) = text.split_once(',')?;
    Some((parse(one)?, parse(other)?))
}

/// Words that stand for a value; `None` is the option without a value of its own.
pub(super) type Words<V> = &'static [(&'static str, Option<V>)];

/// A quantity, or a switch.
pub(super) struct Quantity<T: 'static, V: 'static> {
    pub(super) kind: Kind<V>,
    /// The least and the greatest value.
    pub(super) limits: (V, V),
    pub(super) words: Words<V>,
    pub(super) set: fn(&mut T, Option<V>),
    pub(super) get: fn(&T) -> Option<V>,
}

impl<T, V: Copy + PartialEq + Send + Sync> Access<T> for Quantity<T, V> {
    fn takes(&self) -> &'static str {
        self.kind.name
    }

    fn limits(&self) -> String {
        let (least, most) = (self.limits.0, self.limits.1);
        let write = self.kind.write;
        let mut text = match self.kind.name {
            "switch" => "on, off".to_owned(),
            _ if self.kind.greatest == Some(most) => format!("{} or more", write(least)),
            _ => format!("{} to {}", write(least), write(most)),
        };
        for (word, _) in self.words {
            text.push_str(", ");
            text.push_str(word);
        }
        text
    }

    fn set(&self, options: &mut T, text: &str) -> Result<bool> {
        let word = self.words.iter().find(|(word, _)| *word == text.trim());
        let is_of_words = |value| self.words.iter().any(|(_, of)| *of == Some(value));
        let fits = |value: &V| is_of_words(*value) || (self.kind.is_within)(&self.limits, value);
        let value = match word {
            Some((_, value)) => *value,
            None => match (self.kind.parse)(text).filter(fits) {
                Some(value) => Some(value),
                None => return Ok(false),
            },
        };
        (self.set)(options, value);
        Ok(true)
    }

    fn text(&self, options: &T) -> String {
        let value = (self.get)(options);
        let word = self.words.iter().find(|(_, of)| *of == value);
        match (word, value) {
            (Some((word, _)), _) => (*word).to_owned(),
            (None, Some(value)) => (self.kind.write)(value),
            (None, None) => String::new(),
        }
    }
}

/// One of a few texts.
pub(super) struct Choice<T: 'static> {
    /// The texts.
    pub(super) texts: &'static str,
    pub(super) set: fn(&mut T, &str) -> Result<bool>,
    pub(super) get: fn(&T) -> String,
}

impl<T> Access<T> for Choice<T> {
    fn takes(&self) -> &'static str {
        "choice"
    }

    fn limits(&self) -> String {
        self.texts.to_owned()
    }

    fn set(&self, options: &mut T, text: &str) -> Result<bool> {
        (self.set)(options, text.trim())
    }

    fn text(&self, options: &T) -> String {
        (self.get)(options)
    }
}

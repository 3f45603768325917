//! Settings of EvenDB as text, `name=value`: the one table for the commands that take them.
//!
//! ```text
//!   "chunk-bytes=1048576" --> TABLE (name, what it takes, how it is set) --> Tuning
//!                                     Tuning --> Options
//!                                            --> the same as code of an application
//! ```
//! A setting that the chosen layout does not have is a contradiction ([`Tuning::contradiction`]).
//! EvenDB's option of the same name says what a value means and which limits it has. EvenDB checks
//! limits when it opens a database, before anything is made. Plain data.

mod table;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use evendb::{Layout, Options};

use table::Value;
pub use table::{MEMORY_SHARE, Setting, TABLE};

/// Settings that were chosen, each at most once, in the given order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tuning {
    chosen: Vec<(&'static Setting, Value)>,
}

/// Why a text is no setting.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TuningError {
    /// There is no `=` in it.
    NoValue(String),
    /// No setting has this name.
    Unknown(String),
    /// The setting does not take this value.
    WrongValue {
        /// The setting.
        name: &'static str,
        /// The given value.
        given: String,
        /// The values that it takes.
        takes: &'static str,
    },
    /// The setting was chosen before.
    Twice(&'static str),
}

impl fmt::Display for TuningError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TuningError::NoValue(text) => write!(f, "`{text}` is no setting: NAME=VALUE is needed"),
            TuningError::Unknown(name) => {
                let names: Vec<_> = TABLE.iter().map(|setting| setting.name).collect();
                write!(f, "no setting `{name}`; there are {}", names.join(", "))
            }
            TuningError::WrongValue { name, given, takes } => {
                write!(f, "`{given}` is no value of {name}: {takes} is needed")
            }
            TuningError::Twice(name) => write!(f, "{name} is chosen twice"),
        }
    }
}

impl std::error::Error for TuningError {}

impl Tuning {
    /// Nothing chosen: the defaults.
    #[must_use]
    pub fn new() -> Tuning {
        Tuning::default()
    }

    /// Whether nothing is chosen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chosen.is_empty()
    }

    /// Chooses the setting that a text names.
    ///
    /// # Errors
    /// The text is no setting, or one that is chosen already.
    pub fn choose(&mut self, text: &str) -> Result<(), TuningError> {
        let (name, given) = text
            .split_once('=')
            .ok_or_else(|| TuningError::NoValue(text.to_owned()))?;
        let setting = TABLE.iter().find(|setting| setting.name == name);
        let setting = setting.ok_or_else(|| TuningError::Unknown(name.to_owned()))?;
        if self.sets(setting.name) {
            return Err(TuningError::Twice(setting.name));
        }
        let wrong = || TuningError::WrongValue {
            name: setting.name,
            given: given.to_owned(),
            takes: setting.takes.name(),
        };
        let value = setting.takes.parse(given).ok_or_else(wrong)?;
        if setting.name == MEMORY_SHARE && value.fraction() > 1.0 {
            return Err(wrong());
        }
        self.chosen.push((setting, value));
        Ok(())
    }

    /// Whether a setting of this name is chosen.
    #[must_use]
    pub fn sets(&self, name: &str) -> bool {
        self.chosen.iter().any(|(setting, _)| setting.name == name)
    }

    /// The layout that is chosen, by default chunks.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let mut layouts = self.chosen.iter().filter_map(|(_, value)| match value {
            Value::Layout(layout) => Some(*layout),
            _ => None,
        });
        layouts.next().unwrap_or_default()
    }

    /// A chosen setting that the chosen layout does not have, in words.
    #[must_use]
    pub fn contradiction(&self) -> Option<String> {
        let layout = self.layout();
        let is_others = |setting: &Setting| setting.of.is_some_and(|of| of != layout);
        let (setting, value) = self.chosen.iter().find(|(of, _)| is_others(of))?;
        let name = setting.name;
        Some(format!("the layout {layout} has no {name}={value}"))
    }

    /// Both together. `None` if both choose the same setting, or one that the layout does not have.
    #[must_use]
    pub fn and(&self, other: &Tuning) -> Option<Tuning> {
        let meets = other
            .chosen
            .iter()
            .any(|(setting, _)| self.sets(setting.name));
        let all = self.chosen.iter().chain(&other.chosen);
        let both = Tuning {
            chosen: all.copied().collect(),
        };
        (!meets && both.contradiction().is_none()).then_some(both)
    }

    /// The memory budget in a store that is given `memory_bytes`.
    #[must_use]
    pub fn budget(&self, memory_bytes: u64) -> u64 {
        let is_share = |(setting, _): &&(&Setting, Value)| setting.name == MEMORY_SHARE;
        match self.chosen.iter().find(is_share) {
            Some((_, share)) => (memory_bytes as f64 * share.fraction()) as u64,
            None => memory_bytes,
        }
    }

    /// Options with what is chosen. The memory budget is set before, by [`budget`](Self::budget).
    #[must_use]
    pub fn applied(&self, options: Options) -> Options {
        let each = self.chosen.iter();
        each.fold(options, |options, (setting, value)| {
            (setting.set)(options, *value)
        })
    }

    /// Each chosen setting: its name, its value, and what it does.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, String, &'static str)> {
        let each = self.chosen.iter();
        each.map(|(setting, value)| (setting.name, value.to_string(), setting.about))
    }

    /// The code of an application for a store that is given `memory_bytes`.
    #[must_use]
    pub fn code(&self, memory_bytes: u64) -> String {
        let budget = shifted(self.budget(memory_bytes));
        let mut code = format!("Options::new().memory_budget({budget})");
        let call = |(setting, value): &&(&Setting, Value)| {
            let value = match value {
                Value::Switch(is_on) => is_on.to_string(),
                Value::Fraction(number) => format!("{number:?}"),
                Value::Compression(compression) => format!("Compression::{compression:?}"),
                Value::Layout(layout) => format!("Layout::{layout:?}"),
                Value::Whole(_) => value.to_string(),
            };
            setting.code.replace("{}", &value)
        };
        let settings = || {
            self.chosen
                .iter()
                .filter(|(setting, _)| !setting.code.is_empty())
        };
        for setting in settings().filter(|(setting, _)| !setting.is_advanced) {
            code += &format!(".{}", call(&setting));
        }
        let advanced = settings().filter(|(setting, _)| setting.is_advanced);
        let advanced: Vec<_> = advanced.map(|setting| call(&setting)).collect();
        if !advanced.is_empty() {
            code += &format!(".advanced(|all| all.{})", advanced.join("."));
        }
        code
    }
}

/// Bytes as people write them in code: `256 << 20`.
fn shifted(bytes: u64) -> String {
    match bytes {
        _ if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{} << 20", bytes >> 20),
        _ => format!("{} << 10", bytes >> 10),
    }
}

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (setting, value)) in self.chosen.iter().enumerate() {
            let blank = if number > 0 { " " } else { "" };
            write!(f, "{blank}{}={value}", setting.name)?;
        }
        Ok(())
    }
}

impl FromStr for Tuning {
    type Err = TuningError;

    /// Settings with blanks between them.
    fn from_str(text: &str) -> Result<Tuning, TuningError> {
        let mut tuning = Tuning::new();
        for setting in text.split_whitespace() {
            tuning.choose(setting)?;
        }
        Ok(tuning)
    }
}

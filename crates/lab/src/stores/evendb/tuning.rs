//! Settings of EvenDB as text, `name=value`: the one table for the commands that take them.
//!
//! ```text
//!   "chunk-bytes=1048576" --> TABLE (name, what it takes, how it is set) --> Tuning --> Options
//!                                                                               +--> the same as code of an application
//! ```
//! What a value means and which limits it has is said by the engine's option of the same name; the engine checks limits when it
//! opens a database, before anything is made. Plain data.

use std::fmt;
use std::str::FromStr;

use evendb::{Compression, Options};

/// Settings that were chosen, each at most once, in the order in which they were given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tuning {
    chosen: Vec<(&'static Setting, Value)>,
}

/// One setting that can be chosen.
#[derive(Debug)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// What it does, in few words.
    pub about: &'static str,
    takes: Takes,
    apply: fn(Options, Value) -> Options,
    /// The call that sets it, with `{}` for the value.
    code: &'static str,
    is_advanced: bool,
}

impl PartialEq for Setting {
    fn eq(&self, other: &Setting) -> bool {
        self.name == other.name
    }
}

/// What a setting takes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Takes {
    Whole,
    Fraction,
    Switch,
    Compression,
}

/// What a setting is set to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Whole(u64),
    Fraction(f64),
    Switch(bool),
    Compression(Compression),
}

impl Value {
    fn whole(self) -> u64 {
        match self {
            Value::Whole(number) => number,
            _ => 0,
        }
    }

    fn small(self) -> u32 {
        u32::try_from(self.whole()).unwrap_or(u32::MAX)
    }

    fn fraction(self) -> f64 {
        match self {
            Value::Fraction(number) => number,
            _ => 0.0,
        }
    }

    fn is_on(self) -> bool {
        self == Value::Switch(true)
    }
}

/// The name of the setting that is a share of the memory which a store is given, the rest being left to the system's cache.
pub const MEMORY_SHARE: &str = "memory-share";

/// All settings.
pub static TABLE: [Setting; 10] = [
    Setting {
        name: MEMORY_SHARE,
        about: "share of the given memory that is the budget; the rest is the system's cache of files",
        takes: Takes::Fraction,
        apply: |options, _| options,
        code: "",
        is_advanced: false,
    },
    Setting {
        name: "compression",
        about: "of tables and logs: none, lz4, zstd",
        takes: Takes::Compression,
        apply: |options, value| match value {
            Value::Compression(compression) => options.compression(compression),
            _ => options,
        },
        code: "compression({})",
        is_advanced: false,
    },
    Setting {
        name: "space-amplification",
        about: "how much larger than its data the database may be",
        takes: Takes::Fraction,
        apply: |options, value| options.space_amplification(value.fraction()),
        code: "space_amplification({})",
        is_advanced: false,
    },
    Setting {
        name: "chunk-bytes",
        about: "greatest size of a chunk",
        takes: Takes::Whole,
        apply: |options, value| options.advanced(|all| all.chunk_bytes(value.whole())),
        code: "chunk_bytes({})",
        is_advanced: true,
    },
    Setting {
        name: "block-bytes",
        about: "size of a table's block, which a get from disk reads",
        takes: Takes::Whole,
        apply: |options, value| options.advanced(|all| all.block_bytes(value.whole() as usize)),
        code: "block_bytes({})",
        is_advanced: true,
    },
    Setting {
        name: "filter-bits-per-key",
        about: "filters for keys that are not there",
        takes: Takes::Whole,
        apply: |options, value| options.advanced(|all| all.filter_bits_per_key(value.small())),
        code: "filter_bits_per_key({})",
        is_advanced: true,
    },
    Setting {
        name: "munks",
        about: "whether hot spans are kept in RAM as a whole: on, off",
        takes: Takes::Switch,
        apply: |options, value| options.advanced(|all| all.munks(value.is_on())),
        code: "munks({})",
        is_advanced: true,
    },
    Setting {
        name: "row-cache",
        about: "whether single hot rows are kept in RAM: on, off",
        takes: Takes::Switch,
        apply: |options, value| options.advanced(|all| all.row_cache(value.is_on())),
        code: "row_cache({})",
        is_advanced: true,
    },
    Setting {
        name: "row-cache-share",
        about: "fixed share of rows in the memory for rows and spans",
        takes: Takes::Fraction,
        apply: |options, value| options.advanced(|all| all.row_cache_share(Some(value.fraction()))),
        code: "row_cache_share(Some({}))",
        is_advanced: true,
    },
    Setting {
        name: "values-apart-from",
        about: "bytes from which on a value lies apart from its key",
        takes: Takes::Whole,
        apply: |options, value| options.advanced(|all| all.values_apart_from(Some(value.small()))),
        code: "values_apart_from(Some({}))",
        is_advanced: true,
    },
];

/// Why a text is no setting.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TuningError {
    /// There is no `=` in it.
    NoValue(String),
    /// No setting has this name.
    Unknown(String),
    /// The value is none that the setting takes.
    WrongValue {
        /// Of which setting.
        name: &'static str,
        /// What was given.
        given: String,
        /// What it takes.
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

impl Takes {
    fn name(self) -> &'static str {
        match self {
            Takes::Whole => "a whole number",
            Takes::Fraction => "a number above 0",
            Takes::Switch => "on or off",
            Takes::Compression => "none, lz4, zstd or zstd:LEVEL",
        }
    }

    fn parse(self, text: &str) -> Option<Value> {
        match self {
            Takes::Whole => text.parse().ok().map(Value::Whole),
            Takes::Fraction => {
                let number = text.parse::<f64>().ok();
                let number = number.filter(|number| *number > 0.0 && number.is_finite());
                number.map(Value::Fraction)
            }
            Takes::Switch => match text {
                "on" => Some(Value::Switch(true)),
                "off" => Some(Value::Switch(false)),
                _ => None,
            },
            Takes::Compression => text.parse().ok().map(Value::Compression),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Whole(number) => number.fmt(f),
            Value::Fraction(number) => number.fmt(f),
            Value::Switch(true) => f.write_str("on"),
            Value::Switch(false) => f.write_str("off"),
            Value::Compression(compression) => compression.fmt(f),
        }
    }
}

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

    /// Chooses what a text says.
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

    /// This and another one together; `None` where both choose the same setting.
    #[must_use]
    pub fn and(&self, other: &Tuning) -> Option<Tuning> {
        let meets = other
            .chosen
            .iter()
            .any(|(setting, _)| self.sets(setting.name));
        let all = || self.chosen.iter().chain(&other.chosen);
        (!meets).then(|| Tuning {
            chosen: all().copied().collect(),
        })
    }

    /// The budget of a store that is given so much memory.
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
            (setting.apply)(options, *value)
        })
    }

    /// Each chosen setting: its name, its value, and what it does.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, String, &'static str)> {
        let each = self.chosen.iter();
        each.map(|(setting, value)| (setting.name, value.to_string(), setting.about))
    }

    /// What an application writes for a store that is given so much memory.
    #[must_use]
    pub fn code(&self, memory_bytes: u64) -> String {
        let mut code = format!(
            "Options::new().memory_budget({} << 10)",
            self.budget(memory_bytes) >> 10
        );
        let call = |(setting, value): &&(&Setting, Value)| {
            let value = match value {
                Value::Switch(is_on) => is_on.to_string(),
                Value::Fraction(number) => format!("{number:?}"),
                Value::Compression(compression) => format!("Compression::{compression:?}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_back_as_text_and_as_code() {
        let text = "chunk-bytes=1048576 compression=lz4 row-cache=off memory-share=0.5";
        let tuning: Tuning = text.parse().unwrap();
        assert_eq!(tuning.to_string(), text);
        assert_eq!(tuning.budget(64 << 20), 32 << 20);
        assert_eq!(
            tuning.code(64 << 20),
            "Options::new().memory_budget(32768 << 10).compression(Compression::Lz4)\
             .advanced(|all| all.chunk_bytes(1048576).row_cache(false))"
        );
        assert_eq!(
            Tuning::new().code(1 << 20),
            "Options::new().memory_budget(1024 << 10)"
        );
    }

    #[test]
    fn what_is_no_setting_is_told() {
        let wrong = |text: &str| text.parse::<Tuning>().unwrap_err();
        assert_eq!(wrong("munks"), TuningError::NoValue("munks".to_owned()));
        assert_eq!(wrong("monks=on"), TuningError::Unknown("monks".to_owned()));
        assert_eq!(wrong("munks=on munks=off"), TuningError::Twice("munks"));
        for text in [
            "munks=yes",
            "chunk-bytes=1MiB",
            "chunk-bytes=-1",
            "compression=zip",
            "row-cache-share=0",
            "memory-share=1.5",
            "space-amplification=inf",
        ] {
            assert!(
                matches!(wrong(text), TuningError::WrongValue { .. }),
                "{text}"
            );
        }
        assert!(wrong("monks=on").to_string().contains("munks"));
    }

    #[test]
    fn two_that_choose_different_settings_go_together() {
        let of = |text: &str| text.parse::<Tuning>().unwrap();
        let both = of("munks=off").and(&of("block-bytes=1024")).unwrap();
        assert_eq!(both, of("munks=off block-bytes=1024"));
        assert_eq!(of("munks=off").and(&of("munks=on")), None);
    }

    #[test]
    fn every_setting_opens_a_database() {
        let values = [
            "memory-share=0.5",
            "compression=lz4",
            "space-amplification=2",
            "chunk-bytes=262144",
            "block-bytes=1024",
            "filter-bits-per-key=10",
            "munks=off",
            "row-cache=off",
            "row-cache-share=0.5",
            "values-apart-from=1024",
        ];
        for (setting, text) in TABLE.iter().zip(values) {
            let tuning: Tuning = text.parse().unwrap();
            assert!(
                tuning.sets(setting.name),
                "{text} is not of {}",
                setting.name
            );
            let before = format!("{:?}", Options::new());
            let options = tuning.applied(Options::new());
            let is_share = setting.name == MEMORY_SHARE;
            assert_eq!(
                before == format!("{options:?}"),
                is_share,
                "{text} does nothing"
            );
            let directory = tempfile::tempdir().unwrap();
            options.open(directory.path()).unwrap();
        }
    }
}

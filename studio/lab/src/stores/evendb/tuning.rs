//! Settings of EvenDB's engines as text, `name=value`: the one table for the commands that take
//! them.
//!
//! ```text
//!   "chunk-bytes=1048576" --> TABLE (name, what it takes, how it is set) --> Tuning
//!                                     Tuning --> Options of the engine that is chosen
//!                                            --> the same as code of an application
//! ```
//! `engine` chooses between the first engine, chunks, and the second, a fragmented log-structured
//! merge tree. A setting that the chosen engine does not have is a contradiction
//! ([`Tuning::contradiction`]). The engine's option of the same name says what a value means and
//! which limits it has. The engine checks limits when it opens a database, before anything is made.
//! Plain data.

use std::fmt;
use std::str::FromStr;

use evendb::{Compression, Options};
use evendb_flsm::{Compression as FlsmCompression, Options as FlsmOptions};

/// Settings that were chosen, each at most once, in the given order.
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
    /// How it is set in the first engine, if that has it.
    chunks: Option<fn(Options, Value) -> Options>,
    /// How it is set in the second engine, if that has it and takes the value.
    flsm: Option<fn(FlsmOptions, Value) -> Option<FlsmOptions>>,
    /// The call that sets it, with `{}` for the value.
    code: &'static str,
    is_advanced: bool,
}

impl PartialEq for Setting {
    fn eq(&self, other: &Setting) -> bool {
        self.name == other.name
    }
}

/// The values that a setting takes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Takes {
    Whole,
    Fraction,
    Switch,
    Compression,
    Engine,
}

/// The engine of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The first: chunks.
    Chunks,
    /// The second: a fragmented log-structured merge tree.
    Flsm,
}

impl Engine {
    /// The word for it in settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Engine::Chunks => "evendb",
            Engine::Flsm => "flsm",
        }
    }
}

/// The value of a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Whole(u64),
    Fraction(f64),
    Switch(bool),
    Compression(Compression),
    Engine(Engine),
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

/// The name of the setting for the store's share of the memory. The rest is left to the system's
/// cache.
pub const MEMORY_SHARE: &str = "memory-share";

/// The name of the setting that chooses the engine.
pub const ENGINE: &str = "engine";

/// All settings.
pub static TABLE: [Setting; 12] = [
    Setting {
        name: ENGINE,
        about: "chunks, or a fragmented log-structured merge tree: evendb, flsm",
        takes: Takes::Engine,
        chunks: Some(|options, _| options),
        flsm: Some(|options, _| Some(options)),
        code: "",
        is_advanced: false,
    },
    Setting {
        name: MEMORY_SHARE,
        about: "share of the given memory that is the budget; the rest is the system's cache of files",
        takes: Takes::Fraction,
        chunks: Some(|options, _| options),
        flsm: Some(|options, _| Some(options)),
        code: "",
        is_advanced: false,
    },
    Setting {
        name: "compression",
        about: "of tables and logs: none, lz4, zstd",
        takes: Takes::Compression,
        chunks: Some(|options, value| match value {
            Value::Compression(compression) => options.compression(compression),
            _ => options,
        }),
        flsm: Some(|options, value| {
            let compression = match value {
                Value::Compression(Compression::None) => FlsmCompression::None,
                Value::Compression(Compression::Lz4) => FlsmCompression::Lz4,
                _ => return None,
            };
            Some(options.advanced(|all| all.compression(compression)))
        }),
        code: "compression({})",
        is_advanced: false,
    },
    Setting {
        name: "space-amplification",
        about: "how much larger than its data the database may be",
        takes: Takes::Fraction,
        chunks: Some(|options, value| options.space_amplification(value.fraction())),
        flsm: None,
        code: "space_amplification({})",
        is_advanced: false,
    },
    Setting {
        name: "chunk-bytes",
        about: "greatest size of a chunk",
        takes: Takes::Whole,
        chunks: Some(|options, value| options.advanced(|all| all.chunk_bytes(value.whole()))),
        flsm: None,
        code: "chunk_bytes({})",
        is_advanced: true,
    },
    Setting {
        name: "block-bytes",
        about: "size of a table's block, which a get from disk reads",
        takes: Takes::Whole,
        chunks: Some(|options, value| {
            options.advanced(|all| all.block_bytes(value.whole() as usize))
        }),
        flsm: Some(|options, value| {
            Some(options.advanced(|all| all.block_bytes(value.whole() as usize)))
        }),
        code: "block_bytes({})",
        is_advanced: true,
    },
    Setting {
        name: "filter-bits-per-key",
        about: "filters for keys that are not there",
        takes: Takes::Whole,
        chunks: Some(|options, value| {
            options.advanced(|all| all.filter_bits_per_key(value.small()))
        }),
        flsm: Some(|options, value| {
            Some(options.advanced(|all| all.filter_bits_per_key(value.small())))
        }),
        code: "filter_bits_per_key({})",
        is_advanced: true,
    },
    Setting {
        name: "munks",
        about: "whether hot spans are kept in RAM as a whole: on, off",
        takes: Takes::Switch,
        chunks: Some(|options, value| options.advanced(|all| all.munks(value.is_on()))),
        flsm: None,
        code: "munks({})",
        is_advanced: true,
    },
    Setting {
        name: "row-cache",
        about: "whether single hot rows are kept in RAM: on, off",
        takes: Takes::Switch,
        chunks: Some(|options, value| options.advanced(|all| all.row_cache(value.is_on()))),
        flsm: None,
        code: "row_cache({})",
        is_advanced: true,
    },
    Setting {
        name: "row-cache-share",
        about: "fixed share of rows in the memory for rows and spans",
        takes: Takes::Fraction,
        chunks: Some(|options, value| {
            options.advanced(|all| all.row_cache_share(Some(value.fraction())))
        }),
        flsm: None,
        code: "row_cache_share(Some({}))",
        is_advanced: true,
    },
    Setting {
        name: "values-apart-from",
        about: "bytes from which on a value lies apart from its key",
        takes: Takes::Whole,
        chunks: Some(|options, value| {
            options.advanced(|all| all.values_apart_from(Some(value.small())))
        }),
        flsm: None,
        code: "values_apart_from(Some({}))",
        is_advanced: true,
    },
    Setting {
        name: "max-files-per-guard",
        about: "sorted runs of a guard: more of them, less is written and more is read; 1 is a leveled tree",
        takes: Takes::Whole,
        chunks: None,
        flsm: Some(|options, value| {
            let runs = value.whole() as usize;
            Some(options.advanced(|all| all.max_files_per_guard(runs)))
        }),
        code: "max_files_per_guard({})",
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

impl Takes {
    fn name(self) -> &'static str {
        match self {
            Takes::Whole => "a whole number",
            Takes::Fraction => "a number above 0",
            Takes::Switch => "on or off",
            Takes::Compression => "none, lz4, zstd or zstd:LEVEL",
            Takes::Engine => "evendb or flsm",
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
            Takes::Engine => {
                let mut all = [Engine::Chunks, Engine::Flsm].into_iter();
                all.find(|engine| engine.name() == text).map(Value::Engine)
            }
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
            Value::Engine(engine) => f.write_str(engine.name()),
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

    /// The engine that is chosen, by default the first.
    #[must_use]
    pub fn engine(&self) -> Engine {
        let mut engines = self.chosen.iter().filter_map(|(_, value)| match value {
            Value::Engine(engine) => Some(*engine),
            _ => None,
        });
        engines.next().unwrap_or(Engine::Chunks)
    }

    /// The chosen settings that the chosen engine does not have, in words.
    #[must_use]
    pub fn contradiction(&self) -> Option<String> {
        let engine = self.engine();
        let takes = |setting: &Setting, value: Value| match engine {
            Engine::Chunks => setting.chunks.is_some(),
            Engine::Flsm => {
                let set = setting.flsm.and_then(|set| set(FlsmOptions::new(), value));
                set.is_some()
            }
        };
        let mut each = self.chosen.iter();
        let (setting, value) = each.find(|(setting, value)| !takes(setting, *value))?;
        let (name, engine) = (setting.name, engine.name());
        Some(format!("the engine {engine} has no {name}={value}"))
    }

    /// Both together. `None` if both choose the same setting, or one that the engine does not have.
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

    /// Options of the first engine with what is chosen. The memory budget is set before, by
    /// [`budget`](Self::budget).
    #[must_use]
    pub fn applied(&self, options: Options) -> Options {
        let each = self.chosen.iter();
        each.fold(options, |options, (setting, value)| match setting.chunks {
            Some(set) => set(options, *value),
            None => options,
        })
    }

    /// Options of the second engine with the chosen settings. `None` if it does not have one of
    /// them.
    #[must_use]
    pub fn applied_to_flsm(&self, options: FlsmOptions) -> Option<FlsmOptions> {
        let mut each = self.chosen.iter();
        each.try_fold(options, |options, (setting, value)| {
            setting.flsm?(options, *value)
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
        let is_flsm = self.engine() == Engine::Flsm;
        let mut code = format!(
            "{}Options::new().memory_budget({})",
            if is_flsm { "evendb_flsm::" } else { "" },
            shifted(self.budget(memory_bytes))
        );
        let call = |(setting, value): &&(&Setting, Value)| {
            let value = match value {
                Value::Switch(is_on) => is_on.to_string(),
                Value::Fraction(number) => format!("{number:?}"),
                Value::Compression(compression) => format!("Compression::{compression:?}"),
                Value::Whole(_) | Value::Engine(_) => value.to_string(),
            };
            setting.code.replace("{}", &value)
        };
        let settings = || {
            self.chosen
                .iter()
                .filter(|(setting, _)| !setting.code.is_empty())
        };
        // All settings of the second engine are advanced ones.
        let is_advanced = |setting: &Setting| setting.is_advanced || is_flsm;
        for setting in settings().filter(|(setting, _)| !is_advanced(setting)) {
            code += &format!(".{}", call(&setting));
        }
        let advanced = settings().filter(|(setting, _)| is_advanced(setting));
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
            "Options::new().memory_budget(32 << 20).compression(Compression::Lz4)\
             .advanced(|all| all.chunk_bytes(1048576).row_cache(false))"
        );
        assert_eq!(
            Tuning::new().code(1 << 20),
            "Options::new().memory_budget(1 << 20)"
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
    fn the_engine_decides_which_settings_there_are() {
        let of = |text: &str| text.parse::<Tuning>().unwrap();
        let flsm = of("engine=flsm max-files-per-guard=4 compression=lz4");
        assert_eq!((flsm.engine(), flsm.contradiction()), (Engine::Flsm, None));
        assert_eq!(
            flsm.code(64 << 20),
            "evendb_flsm::Options::new().memory_budget(64 << 20)\
             .advanced(|all| all.max_files_per_guard(4).compression(Compression::Lz4))"
        );
        assert_eq!(of("munks=off").engine(), Engine::Chunks);
        for (text, what) in [
            ("engine=flsm munks=off", "the engine flsm has no munks=off"),
            (
                "engine=flsm compression=zstd",
                "the engine flsm has no compression=zstd",
            ),
            (
                "max-files-per-guard=1",
                "the engine evendb has no max-files-per-guard=1",
            ),
        ] {
            let said = of(text).contradiction();
            assert!(said.is_some_and(|said| said.starts_with(what)), "{text}");
        }
        assert_eq!(of("engine=flsm").and(&of("munks=off")), None);
        let both = of("engine=flsm").and(&of("block-bytes=1024")).unwrap();
        assert_eq!(both.engine(), Engine::Flsm);
    }

    #[test]
    fn every_setting_opens_a_database() {
        let values = [
            "engine=flsm",
            "memory-share=0.5",
            "compression=lz4",
            "space-amplification=2",
            "chunk-bytes=262144",
            "block-bytes=1024",
            "filter-bits-per-key=12",
            "munks=off",
            "row-cache=off",
            "row-cache-share=0.5",
            "values-apart-from=1024",
            "max-files-per-guard=4",
        ];
        for (setting, text) in TABLE.iter().zip(values) {
            let tuning: Tuning = text.parse().unwrap();
            assert!(
                tuning.sets(setting.name),
                "{text} is not of {}",
                setting.name
            );
            // These are no options of an engine.
            let is_idle = [ENGINE, MEMORY_SHARE].contains(&setting.name);
            if setting.chunks.is_some() {
                let before = format!("{:?}", Options::new());
                let options = tuning.applied(Options::new());
                let is_same = before == format!("{options:?}");
                assert_eq!(is_same, is_idle, "{text} does nothing");
                let directory = tempfile::tempdir().unwrap();
                options.open(directory.path()).unwrap();
            }
            if setting.flsm.is_some() {
                let before = format!("{:?}", FlsmOptions::new());
                let options = tuning.applied_to_flsm(FlsmOptions::new()).unwrap();
                let is_same = before == format!("{options:?}");
                assert_eq!(is_same, is_idle, "{text} does nothing");
                let directory = tempfile::tempdir().unwrap();
                options.open(directory.path()).unwrap();
            }
        }
    }
}

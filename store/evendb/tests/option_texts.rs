//! Options by name and text: the table has every setter, its defaults are those of the setters,
//! texts are read back, and what is wrong is told. docs/options.md says what the table says.

mod common;

use common::public::{functions, words};
use evendb::{ErrorKind, KeyspaceOptions, Merges, OptionInfo, Options};
use std::collections::BTreeSet;
use std::time::Duration;

/// They take objects, or functions of other setters; or they are no setters.
const WITHOUT_TEXT: &str = "Options::new Options::open Options::advanced Options::vfs Options::set \
    Options::table Options::text_of Options::open_beside_writer Advanced::shared Advanced::wall_clock Advanced::encryption Advanced::guards \
    Advanced::undo KeyspaceOptions::new KeyspaceOptions::chosen KeyspaceOptions::set \
    KeyspaceOptions::table KeyspaceOptions::text_of";

/// For each option a text other than its default.
const OTHER: [(&str, &str); 34] = [
    ("memory_budget", "64MiB"),
    ("durability", "sync"),
    ("create_if_missing", "off"),
    ("error_if_exists", "on"),
    ("read_only", "on"),
    ("accept_log_loss", "on"),
    ("compression", "zstd:9"),
    ("layout", "guards"),
    ("space_amplification", "1.5"),
    ("workers", "0"),
    ("stats_interval", "none"),
    ("wait_for_lock", "2d"),
    ("chunk_bytes", "64KiB"),
    ("filter_bits_per_key", "0"),
    ("log_search", "bloom:4"),
    ("log_bytes_limits", "2MiB,20MiB"),
    ("munks", "off"),
    ("warm_reopening", "off"),
    ("row_cache", "off"),
    ("row_cache_share", "0.25"),
    ("block_bytes", "16KiB"),
    ("commit_log_bytes", "1MiB"),
    ("commit_log_mapped", "off"),
    ("open_files_max", "100"),
    ("keep_changes_bytes", "1GiB"),
    ("values_apart_from", "4KiB"),
    ("value_file_bytes", "1MiB"),
    ("value_file_live_percent", "90"),
    ("guards.max_files_per_guard", "1"),
    ("guards.level0_runs", "4,4"),
    ("guards.last_guard_bytes", "1"),
    ("guards.table_bytes_max", "1TiB"),
    ("guards.compaction_by_seeks", "off"),
    ("guards.parallel_seeks", "off"),
];

const OTHER_OF_KEYSPACES: [(&str, &str); 8] = [
    ("layout", "guards"),
    ("compression", "none"),
    ("filter_bits_per_key", "12"),
    ("block_bytes", "16KiB"),
    ("row_cache", "off"),
    ("merge_operator", "add-u64"),
    ("ttl", "30m"),
    ("values_apart_from", "none"),
];

/// Options of either kind.
trait Texts: Sized + Clone + std::fmt::Debug {
    fn fresh() -> Self;
    fn with(self, name: &str, text: &str) -> evendb::Result<Self>;
    fn text(&self, name: &str) -> Option<String>;
    fn rows() -> &'static [OptionInfo];

    fn shown(&self) -> String {
        format!("{self:?}")
    }
}

impl Texts for Options {
    fn fresh() -> Self {
        Options::new()
    }
    fn with(self, name: &str, text: &str) -> evendb::Result<Self> {
        self.set(name, text)
    }
    fn text(&self, name: &str) -> Option<String> {
        self.text_of(name)
    }
    fn rows() -> &'static [OptionInfo] {
        Options::table()
    }
}

impl Texts for KeyspaceOptions {
    fn fresh() -> Self {
        KeyspaceOptions::new()
    }
    fn with(self, name: &str, text: &str) -> evendb::Result<Self> {
        self.set(name, text)
    }
    fn text(&self, name: &str) -> Option<String> {
        self.text_of(name)
    }
    fn rows() -> &'static [OptionInfo] {
        KeyspaceOptions::table()
    }
}

fn setter(row: &OptionInfo) -> String {
    let owner = match row.group() {
        "database" => "Options",
        "advanced" => "Advanced",
        "guards" => "GuardOptions",
        "keyspace" => "KeyspaceOptions",
        other => panic!("{other} is no group"),
    };
    let name = row.name();
    format!("{owner}::{}", name.strip_prefix("guards.").unwrap_or(name))
}

#[test]
fn every_setter_is_in_the_table_or_takes_an_object() {
    let mut known: BTreeSet<String> = words(WITHOUT_TEXT);
    let rows = Options::table().iter().chain(KeyspaceOptions::table());
    for row in rows {
        assert!(known.insert(setter(row)), "{} is there twice", row.name());
    }
    let types = ["Options", "Advanced", "GuardOptions", "KeyspaceOptions"];
    assert_eq!(functions(&types, &[]), known);
}

fn defaults_and_others<T: Texts>(others: &[(&str, &str)]) {
    let names: Vec<&str> = T::rows().iter().map(OptionInfo::name).collect();
    let tried: Vec<&str> = others.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, tried);
    for (row, (name, other)) in T::rows().iter().zip(others) {
        let default = row.default_text();
        let by_text = T::fresh().with(name, default).expect("takes its default");
        assert_eq!(by_text.shown(), T::fresh().shown(), "{name}={default}");

        let changed = T::fresh().with(name, other).expect("takes another text");
        assert_ne!(changed.shown(), T::fresh().shown(), "{name}={other}");
        assert_eq!(changed.text(name).as_deref(), Some(*other), "{name}");
        // No other option has changed.
        let back = changed.with(name, default).expect("goes back");
        assert_eq!(back.shown(), T::fresh().shown(), "{name}={other}");

        let text = T::fresh().text(name).expect("has a text");
        let again = T::fresh().with(name, &text).expect("takes its own text");
        assert_eq!(again.shown(), T::fresh().shown(), "{name}={text}");
    }
}

#[test]
fn each_default_is_what_is_there_and_each_text_is_read_back() {
    defaults_and_others::<Options>(&OTHER);
    defaults_and_others::<KeyspaceOptions>(&OTHER_OF_KEYSPACES);
}

#[test]
fn texts_mean_what_the_setters_take() {
    let by_text = |name: &str, text: &str| Options::new().set(name, text).unwrap().shown();
    let budget = Options::new().memory_budget(1 << 30).shown();
    for text in ["1GiB", "1073741824", "1_073_741_824", "1024 mib", "1G"] {
        assert_eq!(by_text("memory_budget", text), budget, "{text}");
    }
    let interval = |length| Options::new().stats_interval(length).shown();
    for (text, length) in [
        ("100ms", Duration::from_millis(100)),
        ("30s", Duration::from_secs(30)),
        ("30", Duration::from_secs(30)),
        ("1h", Duration::from_secs(3600)),
        ("1d", Duration::from_secs(86_400)),
        ("0", Duration::ZERO),
    ] {
        assert_eq!(by_text("stats_interval", text), interval(length), "{text}");
    }
    for (text, yes) in [
        ("on", true),
        ("true", true),
        ("yes", true),
        ("off", false),
        ("false", false),
        ("no", false),
    ] {
        let set = Options::new().read_only(yes).shown();
        assert_eq!(by_text("read_only", text), set, "{text}");
    }
    for name in ["add-u64", "evendb.add-u64"] {
        let by_text = KeyspaceOptions::new().set("merge_operator", name).unwrap();
        let set = KeyspaceOptions::new().merge_operator(Merges::AddU64);
        assert_eq!(by_text, set);
    }
    // The longest time is read back, too.
    let longest = Options::new().advanced(|all| all.wait_for_lock(Duration::MAX));
    let text = longest.text_of("wait_for_lock").unwrap();
    assert_eq!(by_text("wait_for_lock", &text), longest.shown());
    let never = KeyspaceOptions::new().values_apart_from(u32::MAX);
    assert_eq!(never.text_of("values_apart_from").as_deref(), Some("none"));
}

#[test]
fn a_bad_text_is_told_what_the_option_takes() {
    for (name, text, words) in [
        (
            "memory_budget",
            "lots",
            "a size in bytes, as 4096, 64KiB or 1.5GiB: 1MiB to 16TiB, auto",
        ),
        ("memory_budget", "1KiB", "1MiB to 16TiB"),
        ("memory_budget", "-1", "1MiB to 16TiB"),
        ("durability", "fsync", "one of: relaxed, process, sync"),
        ("workers", "257", "a whole number: 0 to 256, auto"),
        (
            "space_amplification",
            "NaN",
            "a number, as 1.25: 1.01 to 10",
        ),
        (
            "stats_interval",
            "2d",
            "a length of time, as 100ms, 30s, 1.5h or 2d: 1ms to 1d, none",
        ),
        ("read_only", "maybe", "takes on or off"),
        ("commit_log_mapped", "", "takes on or off, auto"),
        (
            "compression",
            "zstd:23",
            "level of zstd must be between 1 and 22",
        ),
        (
            "log_search",
            "bloom:0",
            "split_factor must be between 1 and 1024",
        ),
        (
            "guards.level0_runs",
            "5,4",
            "the second not less than the first: 1,1 to 65536,65536",
        ),
        ("guards.level0_runs", "5", "two whole numbers with a comma"),
        ("log_bytes_limits", "1,1", "256,256 to 1TiB,1TiB, none"),
        ("open_files_max", "0", "1 or more, auto"),
        ("keep_changes_bytes", "1", "64KiB to 1TiB, none"),
        ("values_apart_from", "0", "1 to 4294967295, none"),
    ] {
        let refused = Options::new().set(name, text).unwrap_err();
        let message = refused.to_string();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{message}");
        assert!(message.contains(words), "{message}");
        assert!(
            message.contains(&format!("the option {name} takes")),
            "{message}"
        );
        assert!(
            message.contains(&format!("{text:?} was given")),
            "{message}"
        );
    }
    for (name, text) in [("merge_operator", "mine"), ("ttl", "0"), ("layout", "rows")] {
        let refused = KeyspaceOptions::new().set(name, text).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        assert!(refused.to_string().contains(name), "{refused}");
    }
}

#[test]
fn an_unknown_name_is_told_the_nearest_ones() {
    for (name, words) in [
        ("memory_bugdet", "near it are: memory_budget"),
        ("memory-budget", "near it are: memory_budget"),
        ("MEMORY_BUDGET", "near it are: memory_budget"),
        ("budget", "near it are: memory_budget"),
        ("guards.runs", "guards.level0_runs"),
        ("level0_run", "guards.level0_runs"),
        ("apart", "values_apart_from"),
        ("ttl", "an option of a keyspace"),
        ("encryption", "which only a program can give"),
        ("colour", "docs/options.md"),
        ("", "docs/options.md"),
    ] {
        let refused = Options::new().set(name, "1").unwrap_err();
        let message = refused.to_string();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{message}");
        assert!(message.contains(words), "{message}");
        assert!(message.contains(&format!("{name:?}")), "{message}");
    }
    let refused = KeyspaceOptions::new().set("workers", "1").unwrap_err();
    assert!(
        refused.to_string().contains("an option of the database"),
        "{refused}"
    );
    let long = "x".repeat(1 << 20);
    assert!(Options::new().set(&long, "1").is_err());
}

/// The lines of docs/options.md for these options.
fn lines(rows: &[OptionInfo]) -> String {
    let line = |row: &OptionInfo| {
        let [name, takes, default, about] =
            [row.name(), row.takes(), row.default_text(), row.about()];
        format!(
            "| {name} | {takes} | {default} | {} | {about} |\n",
            row.limits()
        )
    };
    rows.iter().map(line).collect()
}

#[test]
fn the_page_says_what_the_table_says() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");
    let page = std::fs::read_to_string(page).expect("reads");
    let found = page.lines().filter(|line| line.starts_with("| "));
    let found = found.filter(|line| !line.starts_with("| option "));
    let found: String = found.map(|line| format!("{line}\n")).collect();
    let expected = lines(Options::table()) + &lines(KeyspaceOptions::table());
    assert!(
        found == expected,
        "docs/options.md should have:\n{expected}"
    );
}

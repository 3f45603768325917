//! `kill -9` of `evendb import` in the middle of a file, again and again.
//!
//! After each kill `verify` finds the database sound. `scan` gives the earlier content with the
//! first lines of the file on top. The number of these lines is open, but there is no gap among
//! them, no value of another line and no key that is not in the file. Then the file is imported to
//! its end, and `verify-import` finds it equal.
//!
//! ```text
//!   import, kill -> verify -> scan = before + a prefix of the file    four times
//!   import to the end -> verify-import, scan = all                 and again in an empty directory
//! ```
//! Half of the kills come after a random number of the file's bytes went through a pipe, so that
//! they are certainly in the middle. The other half come after a random part of the time that an
//! import takes, so that they meet the opening, the last batches and the closing, too.
//!
//! `EVENDB_IMPORT_KILLS` sets the number of kills for each format of the input (default 8).
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;
#[path = "../../store/storage/tests/knobs/mod.rs"]
mod knobs;

use common::{Place, evendb};
use evendb_lab::random::Random;
use knobs::count_from_env;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

const LINES: usize = 12_000;
/// Fewer than the number of lines, so that later lines replace earlier ones.
const KEYS: u64 = 9_000;
const KILLS_OF_A_LIFE: u64 = 4;
/// Little memory and small batches, so that checkpoints, rewrites and splits are always under way.
const SETTINGS: [&str; 2] = ["--memory=2MiB", "--batch-bytes=16KiB"];
const SIGKILL: i32 = 9;

/// The output of `scan --output tsv` before the last tab, and after it.
type Map = BTreeMap<String, String>;

/// A file to import, and the output of `scan` for each of its records.
struct Input {
    name: &'static str,
    arguments: &'static [&'static str],
    text: String,
    records: Vec<(String, String)>,
}

/// Words as they are in names of files and packages.
const WORDS: [&str; 12] = [
    "usr",
    "share",
    "doc",
    "lib",
    "python3",
    "locale",
    "za\u{17c}\u{f3}\u{142}\u{107}",
    "\u{65e5}\u{672c}\u{8a9e}",
    "fonts",
    "x86_64",
    "man",
    "LC_TIME",
];

fn words(random: &mut Random, between: &str, count: u64) -> String {
    let mut word = |_| WORDS[random.below(WORDS.len() as u64) as usize];
    let words: Vec<&str> = (0..count).map(&mut word).collect();
    words.join(between)
}

/// The line's number, so that no two values are equal, and text. Now and then a long value, which
/// does not go through the commit log.
fn value(random: &mut Random, line: usize) -> String {
    let count = match random.below(300) {
        0 => 8_000,
        _ => 1 + random.below(30),
    };
    format!("{line} {}", words(random, ", ", count))
}

/// Paths and packages, as in a distribution's list of files.
fn tsv() -> Input {
    let mut input = Input::new("in.tsv", &[]);
    let mut random = Random::new(1, 1);
    for line in 0..LINES {
        let number = random.below(KEYS);
        let key = format!("{}/{number}", words(&mut Random::new(number, 2), "/", 5));
        let value = value(&mut random, line);
        writeln!(input.text, "{key}\t{value}").unwrap();
        input.records.push((key, value));
    }
    input
}

/// Events with a key of two columns and quoted values.
fn csv() -> Input {
    let mut input = Input::new(
        "in.csv",
        &[
            "--format=csv",
            "--key-columns=app,time:u64",
            "--value-column=event",
        ],
    );
    let mut random = Random::new(2, 1);
    input.text.push_str("app,time,event\n");
    for line in 0..LINES {
        let number = random.below(KEYS);
        let app = WORDS[(number % WORDS.len() as u64) as usize];
        let time = 1_700_000_000 + number * 37;
        let value = format!("{} said \"yes\", twice", value(&mut random, line));
        let quoted = value.replace('"', "\"\"");
        writeln!(input.text, "{app},{time},\"{quoted}\"").unwrap();
        input.records.push((format!("{app}\t{time}"), value));
    }
    input
}

/// Objects with a member that is not used.
fn jsonl() -> Input {
    let mut input = Input::new(
        "in.jsonl",
        &["--format=jsonl", "--key-columns=id", "--value-column=body"],
    );
    let mut random = Random::new(3, 1);
    for line in 0..LINES {
        let key = format!("user/{:06}/\u{e9}", random.below(KEYS));
        let value = format!("{} \"quoted\"", value(&mut random, line));
        let (id, body) = (serde_json::json!(key), serde_json::json!(value));
        writeln!(
            input.text,
            "{{\"seen\":{line},\"body\":{body},\"id\":{id}}}"
        )
        .unwrap();
        input.records.push((key, value));
    }
    input
}

impl Input {
    fn new(name: &'static str, arguments: &'static [&'static str]) -> Input {
        Input {
            name,
            arguments,
            text: String::new(),
            records: Vec::new(),
        }
    }

    /// The content after the first lines, on top of the earlier content.
    fn after(&self, before: &Map, lines: usize) -> Map {
        let mut map = before.clone();
        map.extend(self.records[..lines].iter().cloned());
        map
    }

    /// The lowest number of lines that, on top of `before`, gives the present content.
    ///
    /// # Errors
    /// There is none; the nearest one, and a key that differs there.
    fn lines_of(&self, before: &Map, actual: &Map) -> Result<usize, String> {
        let mut wrong: BTreeSet<&str> = before
            .keys()
            .chain(actual.keys())
            .filter(|key| before.get(*key) != actual.get(*key))
            .map(String::as_str)
            .collect();
        let mut nearest = (usize::MAX, 0, "");
        for lines in 0..=self.records.len() {
            match wrong.first() {
                None => return Ok(lines),
                Some(&key) if wrong.len() < nearest.0 => nearest = (wrong.len(), lines, key),
                Some(_) => {}
            }
            let Some((key, value)) = self.records.get(lines) else {
                break;
            };
            match actual.get(key) == Some(value) {
                true => wrong.remove(key.as_str()),
                false => wrong.insert(key),
            };
        }
        let (differ, lines, key) = nearest;
        Err(format!(
            "no prefix: {differ} keys differ from the first {lines} lines, one of them {key:?}"
        ))
    }
}

/// The moment at which an import is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// After this number of the input's bytes went through a pipe, which stays open.
    Bytes(usize),
    /// After this time, from a file.
    Pause(Duration),
}

/// Starts an import and kills it. Returns whether it was killed before it ended by itself.
fn import_and_kill(place: &Place, input: &Input, moment: Moment) -> bool {
    let file = match moment {
        Moment::Bytes(_) => "-",
        Moment::Pause(_) => input.name,
    };
    let mut child = evendb()
        .current_dir(place.0.path())
        .args(["import", "db", file])
        .args(input.arguments)
        .args(SETTINGS)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    match moment {
        Moment::Bytes(bytes) => {
            let pipe = child.stdin.as_mut().unwrap();
            pipe.write_all(&input.text.as_bytes()[..bytes]).unwrap();
        }
        Moment::Pause(pause) => std::thread::sleep(pause),
    }
    child.kill().unwrap();
    let status = child.wait().unwrap();
    let killed = status.signal() == Some(SIGKILL);
    let ended_before = matches!(moment, Moment::Pause(_)) && status.success();
    assert!(killed || ended_before, "{moment:?}: {status}");
    killed
}

/// The output of `scan`. Nothing if a kill came before there was a database.
fn contents(place: &Place) -> Map {
    if !place.path("db").join("CURRENT").exists() {
        place.run("verify", &[]).complains(1, "no database");
        return Map::new();
    }
    let verified = place.run("verify", &[]);
    let told = String::from_utf8_lossy(&verified.out);
    assert!(
        verified.code == Some(0) && told.contains("sound"),
        "{verified:?}"
    );
    let scanned = place.run("scan", &["--output", "tsv", "--memory=2MiB"]);
    scanned.expect_code(0);
    let text = String::from_utf8(scanned.out).unwrap();
    let record = |line: &str| {
        let (key, value) = line.rsplit_once('\t').unwrap();
        (key.to_owned(), value.to_owned())
    };
    let map: Map = text.lines().map(record).collect();
    assert_eq!(map.len(), text.lines().count(), "a key came twice");
    map
}

/// Imports to the end and compares. Returns how long the import took.
fn import_whole(place: &Place, input: &Input, before: &Map) -> Duration {
    let arguments = [&[input.name], input.arguments].concat();
    let started = Instant::now();
    let imported = place.run("import", &[&arguments[..], &SETTINGS].concat());
    let took = started.elapsed();
    imported.complains(0, "imported 12,000 records");
    place.run("verify-import", &arguments).expect_code(0);
    assert!(
        contents(place) == input.after(before, LINES),
        "{}",
        input.name
    );
    took
}

fn kill_again_and_again(input: &Input) {
    let kills = count_from_env("EVENDB_IMPORT_KILLS", 8);
    let mut random = Random::new(4, input.text.len() as u64);
    let place = Place::new();
    place.file(input.name, &input.text);
    let mut whole = import_whole(&place, input, &Map::new());
    std::fs::remove_dir_all(place.path("db")).unwrap();
    let keys = input.after(&Map::new(), LINES).len();
    let mut before = Map::new();
    let (mut killed, mut in_the_middle) = (0, 0);
    for kill in 0..kills {
        let moment = match kill % 2 {
            0 => Moment::Bytes(random.below(input.text.len() as u64) as usize),
            _ => Moment::Pause(whole.mul_f64(random.below(1_000) as f64 / 1_000.0)),
        };
        killed += u64::from(import_and_kill(&place, input, moment));
        let after = contents(&place);
        input
            .lines_of(&before, &after)
            .unwrap_or_else(|what| panic!("{}, kill {kill}, {moment:?}: {what}", input.name));
        in_the_middle += u64::from((1..keys).contains(&after.len()));
        before = after;
        if kill % KILLS_OF_A_LIFE == KILLS_OF_A_LIFE - 1 || kill + 1 == kills {
            whole = import_whole(&place, input, &before);
            std::fs::remove_dir_all(place.path("db")).unwrap();
            before = Map::new();
        }
    }
    println!(
        "{}: {kills} starts, {killed} killed, {in_the_middle} left in the middle",
        input.name
    );
    // With some of the keys and not all: at least half of the kills through the pipe leave that.
    assert!(in_the_middle >= kills / 4, "{in_the_middle} of {kills}");
}

#[test]
fn killed_while_importing_tsv() {
    kill_again_and_again(&tsv());
}

#[test]
fn killed_while_importing_csv() {
    kill_again_and_again(&csv());
}

#[test]
fn killed_while_importing_json() {
    kill_again_and_again(&jsonl());
}

#[test]
fn what_is_no_prefix_is_found() {
    let input = tsv();
    let nothing = Map::new();
    let whole = input.after(&nothing, 1_000);
    assert_eq!(input.lines_of(&nothing, &whole), Ok(1_000));
    assert_eq!(input.lines_of(&whole, &whole), Ok(0));
    let last = &input.records[999].0;
    for (key, value) in [
        (&input.records[10].0, None),
        (&input.records[10].0, Some(&input.records[11].1)),
        (last, Some(&input.records[5].1)),
        (&"foreign".to_owned(), Some(last)),
    ] {
        let mut wrong = whole.clone();
        match value {
            Some(value) => wrong.insert(key.clone(), value.clone()),
            None => wrong.remove(key),
        };
        let told = input.lines_of(&nothing, &wrong).unwrap_err();
        assert!(told.contains("1 keys differ"), "{told}");
    }
}

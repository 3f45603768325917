//! The command: its exit codes, how it prints foreign text, what it reads, and what it leaves
//! alone.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use evendb_report::Document;
use evendb_report::printed::is_hidden;
use evendb_trace::{Header, Kind, Operation, Writer};
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Text that no terminal may get, and a line that would look like one of ours.
const HOSTILE: &str =
    "\u{1b}[31m\u{7}\r\u{7f}\u{9b}1m\u{85}\u{200f}\u{202e}\u{2066}\u{2028}\nFORGED";

/// The command in a directory of its own, with these arguments.
fn run(place: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evendb-analyze"));
    command.args(arguments).args(["--memory-mib", "256"]);
    command.current_dir(place).stdin(Stdio::null());
    command.output().unwrap()
}

fn error_of(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A trace of a few gets and puts.
fn trace(keyspace: &str) -> Vec<u8> {
    let header = Header {
        one_in: 1,
        source: keyspace.to_owned(),
        keyspaces: [(0, keyspace.to_owned())].into(),
        ..Header::default()
    };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    for number in 0..40 {
        let kind = if number % 4 == 0 {
            Kind::Put
        } else {
            Kind::Get
        };
        let mut operation = Operation::new(kind, format!("key{}", number % 7));
        operation.start_nanos = number * 1_000_000;
        operation.value_len = (kind == Kind::Put).then_some(100);
        writer.add(&operation).unwrap();
    }
    writer.finish().unwrap().0
}

/// Nothing can be read from such a file. A file that can be read in part has the same code.
#[test]
fn a_trace_that_is_damaged_has_the_exit_code_of_damage() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("t.trace");
    let good = trace("default");
    let mut flipped = good.clone();
    // After the magic and the version.
    flipped[14] ^= 1;
    let gzip = packed_by_gzip(&good);
    let cut_gzip = gzip[..gzip.len() / 2].to_vec();
    for damaged in [flipped, cut_gzip] {
        fs::write(&path, damaged).unwrap();
        let output = run(place.path(), &["t.trace"]);
        assert_eq!(output.status.code(), Some(5), "{output:?}");
        assert!(error_of(&output).contains("t.trace"), "{output:?}");
        assert!(!place.path().join("t.trace.analysis").exists());
    }
    fs::write(&path, &good[..good.len() - 10]).unwrap();
    let output = run(place.path(), &["t.trace"]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(error_of(&output).contains("not whole"), "{output:?}");
    // A file that is no trace at all is not damaged, and wrong arguments are no damage either.
    fs::write(&path, "nothing that anybody knows").unwrap();
    let none = run(place.path(), &["t.trace", "--out", "none"]);
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    let wrong = run(place.path(), &["t.trace", "--ranges", "0"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}

fn packed_by_gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Traces are published packed. A packed file has the same content as the unpacked one, in every
/// format.
#[test]
fn a_packed_trace_has_the_figures_of_the_one_that_is_not() {
    let place = tempfile::tempdir().unwrap();
    let lines: String = (0..60)
        .map(|at| format!("{at},key{},4,100,1,get,0\n", at % 9))
        .collect();
    // These names are patterns elsewhere.
    for (name, bytes, operations) in [
        ("own [a-b]", trace("default"), "40"),
        ("lin*s?", lines.into(), "60"),
    ] {
        let figures = |file: &str, bytes: &[u8]| {
            fs::write(place.path().join(file), bytes).unwrap();
            let output = run(place.path(), &[file]);
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            let folder = place.path().join(format!("{file}.analysis"));
            let text = fs::read_to_string(folder.join("analysis.json")).unwrap();
            Document::from_json(&text).unwrap()
        };
        let plain = figures(name, &bytes);
        let packed = figures(&format!("{name}.gz"), &packed_by_gzip(&bytes));
        assert!(
            plain
                .facts
                .contains(&("operations".to_owned(), operations.to_owned()))
        );
        assert_eq!(packed.facts, plain.facts);
        assert_eq!(packed.figures, plain.figures);
    }
}

/// Fails if a terminal would obey something, or the text is not there in escapes.
fn expect_escapes(output: &Output, what: &str) {
    let all = [&output.stdout[..], &output.stderr].concat();
    let all = String::from_utf8(all).unwrap();
    let is_obeyed = |letter: char| is_hidden(letter) && letter != '\n';
    assert!(!all.contains(is_obeyed), "{what}: {all:?}");
    assert!(
        all.lines().all(|line| !line.starts_with("FORGED")),
        "{what}: {all:?}"
    );
    let is_there = ["\\u001b[31m", "\\x1b[31m", "\\u{1b}[31m"];
    assert!(
        is_there.iter().any(|text| all.contains(text)),
        "{what}: {all:?}"
    );
}

#[test]
fn no_text_of_a_file_or_a_name_controls_a_terminal() {
    let place = tempfile::tempdir().unwrap();
    let name = format!("{HOSTILE}.trace");
    fs::write(place.path().join(&name), trace(HOSTILE)).unwrap();
    // Its folder has the name of the trace.
    let made = run(place.path(), &[&name]);
    expect_escapes(&made, "the page's name, or why there is none");
    fs::create_dir_all(place.path().join(format!("{name}.analysis"))).unwrap();
    expect_escapes(&run(place.path(), &[&name]), "the folder is there");
    let keys = place.path().join("keys");
    fs::write(keys, "6b6579\n").unwrap();
    let none = format!("{HOSTILE}.none");
    let lines: [&[&str]; 7] = [
        &[&none],
        &[&name, "--out", HOSTILE, "--keys", &none],
        &[&name, "--out", "out", "--keys", "keys", "--keys-of", "none"],
        &[&name, "--study", HOSTILE],
        &[&name, "--from-format", HOSTILE],
        &["x", HOSTILE],
        &[&format!("--{HOSTILE}")],
    ];
    for line in lines {
        let output = run(place.path(), line);
        assert_ne!(output.status.code(), Some(0), "{line:?}: {output:?}");
        expect_escapes(&output, &format!("{line:?}"));
    }
    let mut flipped = trace(HOSTILE);
    flipped[14] ^= 1;
    fs::write(place.path().join(&name), flipped).unwrap();
    let damaged = run(place.path(), &[&name, "--out", "out"]);
    assert_eq!(damaged.status.code(), Some(5), "{damaged:?}");
    expect_escapes(&damaged, "damage");
}

/// Everything below a directory, with its content.
fn world(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut all, mut left) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(path) = left.pop() {
        let kind = path.symlink_metadata().unwrap().file_type();
        let bytes = match kind.is_file() {
            true => fs::read(&path).unwrap(),
            false => format!("{kind:?}").into_bytes(),
        };
        if kind.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            left.extend(entries.map(|entry| entry.unwrap().path()));
        }
        all.push((path, bytes));
    }
    all.sort();
    all
}

#[test]
fn no_folder_takes_the_place_of_what_is_there() {
    let place = tempfile::tempdir().unwrap();
    let around = place.path().join("around");
    fs::create_dir(&around).unwrap();
    fs::write(around.join("photo"), b"pixels").unwrap();
    fs::write(place.path().join("t.trace"), trace("default")).unwrap();
    let out = place.path().join("out");
    let plants: [&dyn Fn(); 6] = [
        &|| symlink(around.join("photo"), &out).unwrap(),
        &|| symlink(&around, &out).unwrap(),
        &|| symlink(around.join("nothing"), &out).unwrap(),
        &|| drop(UnixListener::bind(&out).unwrap()),
        &|| fs::write(&out, b"a letter of somebody").unwrap(),
        &|| fs::create_dir(&out).unwrap(),
    ];
    for (number, plant) in plants.iter().enumerate() {
        plant();
        let before = world(place.path());
        let lines: [&[&str]; 3] = [
            &["t.trace", "--out", "out"],
            &["out", "--out", "new"],
            &["t.trace", "--keys", "out", "--out", "new"],
        ];
        for line in lines {
            // An empty list of keys is a list.
            let output = run(place.path(), line);
            assert_ne!(
                output.status.code(),
                Some(0),
                "{number} {line:?}: {output:?}"
            );
            assert!(
                error_of(&output).contains("out"),
                "{number} {line:?}: {output:?}"
            );
            assert!(world(place.path()) == before, "{number} {line:?}");
        }
        match out.symlink_metadata().unwrap().is_dir() {
            true => fs::remove_dir(&out).unwrap(),
            false => fs::remove_file(&out).unwrap(),
        }
    }
}

//! Text of files and their names on a terminal: it cannot control the terminal, turn the direction
//! of writing, or begin a line of its own. And an input without an end does not take all memory.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod common;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use common::{Place, Terminal, evendb, on_a_terminal};
use evendb::Options;
use evendb_trace::{Header, Kind, Operation, Writer};

/// Text that no terminal may get, of each kind, and a line that would look like one of ours.
const HOSTILE: &str = "\u{1b}[31m\u{7}\u{8}\r\u{7f}\u{9b}1m\u{85}\u{61c}\u{200e}\u{200f}\u{202e}\u{2066}\u{2028}\nFORGED";

/// Runs the command with a terminal for its output. Returns what it printed there, and on standard
/// error.
fn told(place: &Place, arguments: &[&Path]) -> (String, String) {
    let mut command = evendb();
    command.args(arguments).current_dir(place.0.path());
    let errors = place.path("errors");
    command.stderr(File::create(&errors).unwrap());
    let (_, out) = on_a_terminal(command, Terminal::Output);
    (out, String::from_utf8(fs::read(errors).unwrap()).unwrap())
}

/// What is wrong with a command: hostile text goes out, or is not there in escapes.
fn fault(place: &Place, arguments: &[&Path]) -> Option<String> {
    let (out, error) = told(place, arguments);
    let all = out + &error;
    let is_hostile = |letter: char| {
        matches!(letter, '\0'..='\x08' | '\x0b'..='\x1f' | '\x7f'..='\u{9f}' | '\u{61c}')
            || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(letter, '\u{2066}'..='\u{2069}')
    };
    let is_forged = all.lines().any(|line| line.starts_with("FORGED"));
    let escapes = ["\\x1b[31m", "\\u001b[31m"];
    let is_there = escapes.iter().any(|text| all.contains(text)) && all.contains("FORGED");
    let is_wrong = all.contains(is_hostile) || is_forged || !is_there;
    is_wrong.then(|| format!("{arguments:?}: {all:?}"))
}

#[track_caller]
fn expect_escapes(place: &Place, path: &Path, lines: &[&str]) {
    let faults = lines.iter().filter_map(|line| {
        let word = |word: &str| match word.strip_prefix("PATH") {
            Some(rest) => format!("{}{rest}", path.display()),
            None => word.replace("TEXT", HOSTILE),
        };
        let words: Vec<_> = line.split(' ').map(word).collect();
        let words: Vec<_> = words.iter().map(Path::new).collect();
        fault(place, &words)
    });
    let faults: Vec<_> = faults.collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A database whose name, keyspace, key and value are hostile, and a file in it that is not ours.
fn hostile_database(place: &Place) -> PathBuf {
    let path = place.path(HOSTILE);
    let options = Options::new().create_if_missing(true);
    let options = options.advanced(|advanced| advanced.keep_changes_bytes(1 << 20));
    let database = options.open(&path).unwrap();
    let keyspace = database.keyspace(HOSTILE).unwrap();
    for keyspace in [database.default_keyspace(), &keyspace] {
        keyspace
            .put(HOSTILE.as_bytes(), HOSTILE.as_bytes())
            .unwrap();
    }
    drop(keyspace);
    database.close().unwrap();
    path
}

fn hostile_trace(place: &Place) -> PathBuf {
    let header = Header {
        source: HOSTILE.to_owned(),
        ..Header::default()
    };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    writer.name_keyspace(0, HOSTILE).unwrap();
    writer.add(&Operation::new(Kind::Get, HOSTILE)).unwrap();
    let (bytes, _) = writer.finish().unwrap();
    place.file(&format!("{HOSTILE}.trace"), bytes)
}

#[test]
fn no_command_lets_a_databases_text_or_name_control_a_terminal() {
    let place = Place::new();
    let path = hostile_database(&place);
    let lines = [
        "scan PATH",
        "scan PATH --output json",
        "scan PATH --output tsv",
        "get PATH TEXT",
        "get PATH TEXT --output json",
        "keyspaces PATH",
        "keyspaces PATH --json",
        "stats PATH",
        "stats PATH --json",
        "changes PATH",
        "changes PATH --output json",
        "dump PATH manifest",
        "dump PATH manifest --json",
        "dump PATH kept-changes",
        "dump PATH kept-changes --json",
        "repair PATH --into saved",
        "repair PATH --into saved-again --json",
        // Errors and notes of the commands.
        "get PATH TEXT --keyspace TEXT",
        "get PATH x --keyspace TEXT-none",
        "get PATH x TEXT-none",
        "delete PATH x --keyspace TEXT-none",
        "put PATH a b --keyspace TEXT-new",
        "import PATH PATH",
        "import PATH PATH-none",
        "ingest PATH PATH-none",
        "verify PATH-none",
        "verify PATH PATH",
        "put PATH a b --layout TEXT",
        "restore PATH TEXT-into",
        "export PATH PATH/inside",
        "backup PATH PATH/inside",
        "compact PATH-none",
        "size PATH-none",
        "pop PATH-none",
        "merge PATH-none a b",
        "rotate-key PATH --key-file TEXT --new-key-file TEXT",
        "replay TEXT",
        "mixgraph TEXT",
        "model TEXT",
        "profile TEXT",
        "advise TEXT --memory-mib 64 --out out",
        "trace convert TEXT out --to-format evendb",
    ];
    expect_escapes(&place, &path, &lines);
}

#[test]
fn damage_of_a_hostile_name_is_told_without_controlling_a_terminal() {
    let place = Place::new();
    let path = hostile_database(&place);
    for name in fs::read_dir(&path).unwrap() {
        let file = name.unwrap().path();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("MANIFEST") || name == "CURRENT" {
            fs::write(&file, b"nothing of ours").unwrap();
        }
    }
    let lines = ["get PATH x", "scan PATH", "stats PATH", "put PATH a b"];
    expect_escapes(&place, &path, &lines);
}

#[test]
fn no_text_of_a_trace_controls_a_terminal() {
    let place = Place::new();
    let path = hostile_trace(&place);
    let lines = [
        "trace info PATH",
        "trace info PATH --json",
        "trace print PATH",
    ];
    expect_escapes(&place, &path, &lines);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..8]).unwrap();
    let lines = ["trace info PATH", "trace print PATH", "replay PATH"];
    expect_escapes(&place, &path, &lines);
}

/// `KEYS` of a database that is encrypted by a key with this id. Nobody has that key.
#[cfg(feature = "encryption")]
fn keys_of(id: &str) -> Vec<u8> {
    let mut bytes = [&b"EVENKEY1\x01"[..], &[7; 16], &[id.len() as u8]].concat();
    bytes.extend_from_slice(id.as_bytes());
    bytes.extend_from_slice(&[9; 48]);
    let sum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// The writer of `KEYS` chose the id of the key, and each command that is given another key prints
/// it.
#[cfg(feature = "encryption")]
#[test]
fn no_id_of_a_key_controls_a_terminal() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let key = place.file("a.key", [7; 32]);
    fs::set_permissions(key, fs::Permissions::from_mode(0o600)).unwrap();
    let path = place.path("db");
    let options = Options::new().create_if_missing(true);
    options.open(&path).unwrap().close().unwrap();
    fs::write(path.join("KEYS"), keys_of(HOSTILE)).unwrap();
    let lines = [
        "get PATH x",
        "put PATH a b",
        "merge PATH a b",
        "delete PATH a",
        "pop PATH",
        "scan PATH",
        "size PATH",
        "keyspaces PATH",
        "changes PATH",
        "stats PATH",
        "compact PATH",
        "verify PATH",
        "dump PATH manifest",
        "dump PATH current",
        "repair PATH --into saved",
        "backup PATH new",
        "export PATH new",
        "rotate-key PATH --new-key-file a.key",
    ];
    let with_key = lines.map(|line| line.replace("PATH", "PATH --key-file a.key"));
    let lines: Vec<_> = with_key.iter().map(String::as_str).collect();
    expect_escapes(&place, &path, &lines);
}

/// Input without a line feed is no record: the number of the line and the limit are told.
#[test]
fn a_line_without_an_end_is_refused_by_its_number_and_the_limit() {
    let place = Place::new();
    place.run("put", &["k", "v"]).expect(0, "");
    let limit = ["--format", "tsv", "--memory", "16MiB"];
    for (command, told) in [("import", 1), ("ingest", 1), ("verify-import", 1)] {
        let arguments = [&["/dev/zero"][..], &limit].concat();
        let why = format!("line {told} has more than 16777216 bytes");
        place.run(command, &arguments).complains(1, &why);
    }
    let input = [&b"a\t1\nb\t2\nc\t"[..], &[b'x'; 16 << 20], b"\nd\t4\n"].concat();
    let arguments = [&["-"][..], &limit].concat();
    let imported = place.run_with_input("import", &arguments, &input);
    imported.complains(1, "line 3 has more than 16777216 bytes");
    // Records before it are there, and a line of the greatest allowed length is read.
    place.run("get", &["b"]).expect(0, "2\n");
    let input = [&vec![b'k'; (16 << 20) - 1][..], b"\n"].concat();
    let imported = place.run_with_input("import", &arguments, &input);
    imported.complains(3, "line 1: the key has 16777215 bytes");
}

#[test]
fn a_value_without_an_end_is_refused_by_the_limit() {
    let place = Place::new();
    let mut command = evendb();
    command.args(["put", "db", "k", "-", "--memory", "16MiB"]);
    command.current_dir(place.0.path());
    command.stdin(File::open("/dev/zero").unwrap());
    let put = common::Outcome::of(command.output().unwrap());
    put.complains(1, "more than 4194304 bytes");
    assert!(!place.path("db").exists());
}

#[test]
fn a_model_or_an_analysis_without_an_end_is_refused_by_the_limit() {
    let place = Place::new();
    for (command, most) in [("model", 64 << 20), ("mixgraph", 1 << 20)] {
        let mut command_line = evendb();
        command_line.args([command, "/dev/zero"]);
        command_line.current_dir(place.0.path());
        let outcome = common::Outcome::of(command_line.output().unwrap());
        outcome.complains(1, &format!("more than {most} bytes"));
    }
}

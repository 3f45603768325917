//! The command's inputs: lines of every format, types, columns as text, CSV, JSON, escapes, sizes
//! and times.

use crate::bytes::Input;
use evendb_cli::fuzzing as command;

/// Arguments of an import, each with another reader.
const ARGUMENTS: [&[&str]; 12] = [
    &["--format", "tsv"],
    &["--format", "tsv", "--key-columns", "2,1"],
    &[
        "--format",
        "tsv",
        "--key-columns",
        "a:u64,b:desc:str",
        "--value-column",
        "c",
    ],
    &["--format", "csv"],
    &[
        "--format",
        "csv",
        "--key-columns",
        "k:bytes",
        "--expires-column",
        "e",
    ],
    &[
        "--format",
        "csv",
        "--key-columns",
        "1,2",
        "--key-types",
        "f64,time",
        "--skip-header",
    ],
    &["--format", "jsonl", "--key-columns", "k"],
    &[
        "--format",
        "jsonl",
        "--key-columns",
        "a:i64,b:bool",
        "--value-column",
        "v",
        "--expires-column",
        "e",
    ],
    &["--format", "scan-tsv"],
    &["--format", "scan-tsv", "--key-types", "str,u64"],
    &["--format", "scan-json"],
    &[
        "--format",
        "scan-json",
        "--key-types",
        "f32,bytes,bool,char",
    ],
];

/// The highest number of lines that are read.
const STEPS: usize = 10_000;

/// The first byte chooses the reader.
pub fn inputs(data: &[u8]) {
    let mut input = Input(data);
    match input.byte() {
        form @ 0..=127 => lines(form, input.0),
        128..=159 => columns(&mut input),
        160..=191 => csv(input.0),
        192..=223 => {
            let _ = command::json_parts(input.0);
            let again = command::escaped_again(input.0);
            assert_eq!(again.as_deref(), Some(input.0), "escaped and read back");
        }
        _ => {
            let text = String::from_utf8_lossy(input.0);
            let _ = command::arguments(&text);
            if let Some((types, shown)) = command::key_types(&text) {
                let again = command::key_types(&shown);
                assert_eq!(again, Some((types, shown)), "types that are shown");
            }
        }
    }
}

/// Reads at once and in sips give the same result.
fn lines(form: u8, text: &[u8]) {
    let arguments = ARGUMENTS[usize::from(form) % ARGUMENTS.len()];
    let read = |buffer| command::lines(arguments, text.to_vec(), buffer, STEPS);
    let Some(whole) = read(1 << 16) else {
        return;
    };
    assert_eq!(
        read(1 + usize::from(form)).as_ref(),
        Some(&whole),
        "by sips"
    );
    assert!(whole.is_ended || whole.pairs.len() + whole.bad as usize == STEPS);
    assert!(
        !whole.is_ended || whole.bytes == text.len() as u64,
        "all is read"
    );
    for (key, value) in &whole.pairs {
        assert!(key.len() <= 65_535);
        // A JSON object is a value of its own, and no field is longer than its line.
        assert!(value.len() <= 3 * text.len() + 2, "a value out of nothing");
    }
}

/// Columns as text: what is read is shown, and what is shown is read as the same key.
fn columns(input: &mut Input<'_>) {
    const TYPES: [&str; 8] = [
        "str",
        "bytes,bool",
        "u64,i8",
        "f64,f32",
        "time,duration",
        "desc:str,char",
        "desc:f64,u128,i128",
        "fixed:3,desc:time",
    ];
    let names = TYPES[input.below(TYPES.len())];
    let (types, _) = command::key_types(names).expect("types that there are");
    let texts: Vec<&[u8]> = types
        .iter()
        .map(|_| {
            let len = input.below(48);
            input.take(len)
        })
        .collect();
    let Some(key) = command::key_of(&types, &texts) else {
        return;
    };
    let shown = command::texts_of(&types, &key).expect("a key of these types");
    let shown: Vec<&[u8]> = shown.iter().map(Vec::as_slice).collect();
    let again = command::key_of(&types, &shown);
    assert_eq!(again, Some(key), "a key that is shown: {shown:?}");
}

/// A record of CSV: its fields make a record that has the same fields.
fn csv(record: &[u8]) {
    if let Some(fields) = command::csv_fields(record) {
        let again = command::csv_fields(&command::csv_record(&fields));
        assert_eq!(again, Some(fields), "fields that are written");
    }
}

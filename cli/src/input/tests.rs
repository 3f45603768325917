//! Lines in, pairs out.

use clap::Parser;
use proptest::prelude::*;

use super::*;

#[derive(Parser)]
struct Wrapper {
    #[command(flatten)]
    input: InputArguments,
}

fn read(arguments: &str, text: &str) -> Vec<Result<(String, String), (u64, String)>> {
    let arguments = Wrapper::parse_from(format!("x {arguments}").split_whitespace()).input;
    let source = Box::new(io::Cursor::new(text.to_owned()));
    let mut reader = PairReader::new(source, &arguments).unwrap();
    let mut found = Vec::new();
    loop {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match reader.step().unwrap() {
            Step::End => return found,
            Step::Bad(why) => found.push(Err((reader.line(), why))),
            Step::Pair => found.push(Ok((text(&reader.key), text(&reader.value)))),
        }
    }
}

fn good(arguments: &str, text: &str) -> Vec<(String, String)> {
    read(arguments, text)
        .into_iter()
        .map(Result::unwrap)
        .collect()
}

fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

#[test]
fn tsv_columns_become_key_and_value() {
    assert_eq!(
        good("", "a\tb\tc\nd\te"),
        pairs([("a", "b\tc"), ("d", "e")])
    );
    assert_eq!(good("--value-column 3", "a\tb\tc\n"), pairs([("a", "c")]));
    assert_eq!(good("--key-columns 2", "a\tb\tc\n"), pairs([("b", "a\tc")]));
    assert_eq!(good("--skip-header", "k\tv\na\tb\n"), pairs([("a", "b")]));
    assert_eq!(good("--key-columns k", "v\tk\nb\ta\n"), pairs([("a", "b")]));
    assert_eq!(
        good("--key-columns 1,2", "a\tb\tc\n"),
        pairs([("a\0\u{1}b\0\u{1}", "c")])
    );
    assert_eq!(good("", "only\n"), pairs([("only", "")]));
}

#[test]
fn csv_records_span_lines() {
    let text = "k,v,w\r\n\"a,1\",\"x\ny\",z\r\nb,\"q\"\"\",\r\n";
    assert_eq!(
        good("--format csv --skip-header", text),
        pairs([("a,1", "\"x\ny\",z"), ("b", "\"q\"\"\",")])
    );
    assert_eq!(
        good("--format csv --key-columns k --value-column v", text),
        pairs([("a,1", "x\ny"), ("b", "q\"")])
    );
}

#[test]
fn json_members_become_key_and_value() {
    let text = "{\"app\":\"x\",\"time\":-5,\"v\":{\"a\":1}}\n";
    assert_eq!(
        good("--format jsonl --key-columns app --value-column v", text),
        pairs([("x", "{\"a\":1}")])
    );
    assert_eq!(
        good("--format jsonl --key-columns app", text)[0].1,
        text.trim()
    );
    let wrong = read("--format jsonl --key-columns app,time:u64", text);
    assert!(wrong[0].as_ref().unwrap_err().1.contains("`-5` is no u64"));
}

#[test]
fn bad_lines_are_told_with_their_numbers_and_reading_goes_on() {
    let numbers = |arguments: &str, text: &str| {
        read(arguments, text)
            .into_iter()
            .filter_map(Result::err)
            .map(|bad| bad.0)
            .collect::<Vec<u64>>()
    };
    assert_eq!(numbers("--value-column 2", "a\tb\nbad\n\nc\td\n"), [2]);
    assert_eq!(
        numbers("--key-columns 1:u64", "1\ta\nx\tb\n2\tc\n-3\td\n"),
        [2, 4]
    );
    assert_eq!(
        numbers("--format csv", "a,b\nc\nd,\"e\nf\"\ng\"h,i\nj,k\n"),
        [2, 5]
    );
    assert_eq!(numbers("--format csv", "a,b\nc,\"d\ne,f\n"), [2]);
    let stray = read("--format csv", "a,b\nc\"d,e\nf,g\n");
    assert!(
        stray[1].is_err() && stray[2].is_ok(),
        "a stray quote costs only its line"
    );
    assert_eq!(
        numbers(
            "--format jsonl --key-columns k",
            "{\"k\":1}\n{\n[]\n{}\n{\"k\":\"\"}\n"
        ),
        [2, 3, 4, 5]
    );
    let long = "k".repeat(KEY_BYTES_MAX);
    assert!(numbers("", &format!("{long}\tv\n")).is_empty());
    assert_eq!(numbers("", &format!("{long}k\tv\n")), [1]);
}

/// A stray opening quote costs its own line, at any place and with any quotes in other lines. Each
/// byte is looked at a few times at most.
#[test]
fn a_stray_opening_quote_costs_one_line_and_linear_work() {
    for other in [
        "k,\"\",x",
        "k,\"a \"\"b\"\" c\",x",
        "k,plain,x",
        "k,\"\",\"y\"",
    ] {
        for stray in [1, 2, 5000, 10_000] {
            let mut lines = vec![other.to_owned(); 10_000];
            lines[stray - 1] = "k,\"stray,x".to_owned();
            let text = lines.join("\n") + "\n";
            let arguments = Wrapper::parse_from(["x", "--format", "csv"]).input;
            let source = Box::new(io::Cursor::new(text.clone()));
            let mut reader = PairReader::new(source, &arguments).unwrap();
            let mut good = 0;
            let mut bad = Vec::new();
            loop {
                match reader.step().unwrap() {
                    Step::Pair => good += 1,
                    Step::Bad(why) => {
                        assert_eq!(reader.raw(), b"k,\"stray,x");
                        bad.push((reader.line(), why));
                    }
                    Step::End => break,
                }
            }
            assert_eq!((good, bad.len()), (9_999, 1), "{other} {bad:?}");
            assert_eq!(bad[0].0, stray as u64, "{other}");
            let why = &bad[0].1;
            assert!(why.starts_with("the quote that opens field 2 is "), "{why}");
            let looked = reader.fields.looked_at;
            assert!(looked <= 3 * text.len() as u64, "{other} {stray}: {looked}");
            assert_eq!(reader.bytes(), text.len() as u64);
        }
    }
    // Many strays in order, and a record that is open for as long as it may be.
    let text = "a,\"b\nc,\"\"\nd,e\n".repeat(20_000);
    let arguments = Wrapper::parse_from(["x", "--format", "csv"]).input;
    let mut reader = PairReader::new(Box::new(io::Cursor::new(text.clone())), &arguments).unwrap();
    while reader.step().unwrap() != Step::End {}
    assert!(reader.fields.looked_at <= 4 * text.len() as u64);
    let lines = |count| format!("k,v\na,\"b{}\"\nc,d\n", "\nx".repeat(count));
    assert_eq!(good("--format csv", &lines(10_000)).len(), 3);
    let long = read("--format csv", &lines(10_001));
    let why = "the quote that opens field 2 is still open at line 10002";
    assert_eq!(long[1], Err((2, why.to_owned())));
    assert_eq!(long.iter().filter(|found| found.is_ok()).count(), 2);
}

/// Comments before the first record would give the number of fields, or be the header.
#[test]
fn comment_lines_at_the_beginning_are_left_out() {
    let text = "# made by hand\n#\nk,v\na,1\n#b,2\n";
    let all = pairs([("k", "v"), ("a", "1"), ("#b", "2")]);
    assert_eq!(good("--format csv", text), all);
    let named = "--key-columns k --value-column v";
    let tabs = text.replace(',', "\t");
    assert_eq!(good(&format!("--format csv {named}"), text), all[1..]);
    assert_eq!(good(&format!("--format tsv {named}"), &tabs), all[1..]);
    assert_eq!(good("--format csv --comment #", text), all[..2]);
    assert_eq!(
        read("--format csv --comment=", text)
            .iter()
            .filter(|found| found.is_ok())
            .count(),
        2
    );
    // Lines that may be records stay: keys with `#`, and a header with it.
    assert_eq!(good("--format csv", "#a,1\n#b,2\nc,3\n").len(), 3);
    assert_eq!(
        good("--format csv --key-columns #k", "#k,v\na,1\n"),
        pairs([("a", "1")])
    );
    assert_eq!(good("--format csv", "#a\n#b\n").len(), 2);
    assert_eq!(good("", "# a\nb\tc\n").len(), 2);
    let arguments = Wrapper::parse_from(["x", "--format", "csv"]).input;
    let mut reader = PairReader::new(Box::new(io::Cursor::new(text)), &arguments).unwrap();
    assert_eq!((reader.comments(), reader.notes().len()), (2, 1));
    assert_eq!(reader.step().unwrap(), Step::Pair);
    assert_eq!(reader.line(), 3, "lines are numbered as in the file");
}

#[test]
fn columns_stand_between_the_delimiter_that_is_given() {
    let semicolons = "--format csv --delimiter ;";
    assert_eq!(
        good(semicolons, "a;\"x;y\";1,5\n"),
        pairs([("a", "\"x;y\";1,5")])
    );
    assert_eq!(
        good("--format csv --delimiter tab", "a\t\"x\ty\"\n"),
        pairs([("a", "x\ty")])
    );
    assert_eq!(good("--delimiter |", "a|b|\"c\n"), pairs([("a", "b|\"c")]));
    for wrong in ["\"", "", "ab", "\n", "\u{e9}"] {
        assert!(
            Wrapper::try_parse_from(["x", "--delimiter", wrong]).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn marks_returns_and_empty_lines_are_no_part_of_records() {
    let inputs = [
        ("--format tsv", "k\tv\r\n\r\na\tb\r\n\n", "k"),
        ("--format csv", "k,v\r\n\r\na,b\r\n\n", "k"),
        (
            "--format jsonl",
            "{\"k\":\"k\",\"v\":\"v\"}\r\n \r\n{\"k\":\"a\",\"v\":\"b\"}\r\n",
            "k",
        ),
        ("--format scan-tsv", "k\tv\r\n\r\na\tb\r\n", ""),
        (
            "--format scan-json",
            "{\"key\":\"k\",\"value\":\"v\"}\r\n\n{\"key\":\"a\",\"value\":\"b\"}\r\n",
            "",
        ),
    ];
    for (format, text, key) in inputs {
        for mark in ["", "\u{feff}"] {
            let text = format!("{mark}{text}");
            let found = match key {
                "" => good(format, &text),
                _ if format.contains("jsonl") => {
                    good(&format!("{format} --key-columns k --value-column v"), &text)
                }
                _ => {
                    let named = format!("{format} --key-columns k --value-column v");
                    assert_eq!(good(&named, &text), pairs([("a", "b")]), "{format}");
                    good(format, &text)
                }
            };
            assert_eq!(found, pairs([("k", "v"), ("a", "b")]), "{format} {mark:?}");
        }
    }
    // Only the carriage returns of line ends go: the ones inside a quoted field stay.
    assert_eq!(
        good("--format csv", "a,\"x\r\n\r\ny\r\"\r\n"),
        pairs([("a", "x\r\n\r\ny\r")])
    );
    assert_eq!(good("", "a\tx\ry\r\r\n"), pairs([("a", "x\ry\r")]));
    assert_eq!(
        good("--format scan-tsv", "a\\t\tx\\r\n"),
        pairs([("a\t", "x\r")])
    );
    assert_eq!(
        good("--format csv", "a\n\nb\n"),
        pairs([("a", ""), ("b", "")])
    );
    assert_eq!(good("--format scan-tsv", "\tv\n"), pairs([("", "v")]));
}

#[test]
fn what_is_no_key_in_json_is_a_bad_line() {
    let key = |arguments: &str, value: &str| {
        let text = format!("{{\"k\":{value},\"v\":{value}}}");
        let arguments = format!("--format jsonl --value-column v --key-columns {arguments}");
        read(&arguments, &text).remove(0)
    };
    for (arguments, value, expected) in [
        ("k", "12345678901234567890123", "12345678901234567890123"),
        ("k", "12345678901234567890124", "12345678901234567890124"),
        ("k", "1.10", "1.10"),
        ("k", "1E+2", "1E+2"),
        ("k", "\"\\u0041\\n\"", "A\n"),
        ("k:bytes", "\"4142\"", "AB"),
    ] {
        assert_eq!(
            key(arguments, value).unwrap().0,
            expected,
            "{arguments} {value}"
        );
    }
    for (arguments, value, words) in [
        ("k", "null", "`k` is null"),
        ("k", "true", "`k` is a boolean"),
        ("k", "{\"a\":1}", "`k` is an object"),
        ("k", "[1]", "`k` is an array"),
        ("k", "\"\"", "the key is empty"),
        ("k", "\"\\ud800\"", "is no text"),
        ("k", "1,\"k\":1", "`k` is there twice"),
        ("k", "1,\"v\":1", "`v` is there twice"),
        ("j", "1", "there is no member `j`"),
        ("k:u65", "1", "no such type `u65`"),
        ("k:u64", "18446744073709551616", "is no u64"),
        ("k:i64", "1.0", "is no i64"),
        ("k:f64", "12345678901234567890123", "does not fit f64"),
        ("k:f64", "1e400", "does not fit f64"),
        ("k:bytes", "12", "`k` is a number"),
        ("k:bytes", "\"1g\"", "hexadecimal"),
    ] {
        let (_, why) = key(arguments, value).unwrap_err();
        assert!(why.contains(words), "{arguments} {value}: {why}");
    }
    // A value is its text, or its JSON as it is written. A member that is there twice is bad only
    // if it is used.
    let value = |text: &str| good("--format jsonl --key-columns k --value-column v", text);
    let text = "{\"k\":\"a\",\"x\":1,\"x\":2,\"v\":{ \"b\" : 1.10,\"b\":2 }}";
    assert_eq!(value(text), pairs([("a", "{ \"b\" : 1.10,\"b\":2 }")]));
    assert_eq!(value("{\"k\":\"a\",\"v\":null}"), pairs([("a", "null")]));
}

#[test]
fn contradictory_arguments_are_refused() {
    for arguments in [
        "--key-columns 1,2 --key-types raw",
        "--format scan-tsv --key-columns 1",
        "--format scan-json --value-column v",
        "--format scan-json --skip-header",
        "--format jsonl",
        "--key-types u64,str",
        "--key-columns 1:u64 --key-types i64",
        "--key-columns 0",
    ] {
        let parsed = Wrapper::parse_from(format!("x {arguments}").split_whitespace()).input;
        let outcome = PairReader::new(Box::new(io::empty()), &parsed);
        assert!(
            matches!(outcome.err(), Some(Failure::Usage(_))),
            "{arguments}"
        );
    }
    let twice = Wrapper::parse_from(["x", "--key-columns", "a"]).input;
    assert!(PairReader::new(Box::new(io::Cursor::new("a\ta\n")), &twice).is_err());
    let named = Wrapper::parse_from(["x", "--key-columns", "nope"]).input;
    assert!(PairReader::new(Box::new(io::Cursor::new("a\tb\n")), &named).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(
        pieces in proptest::collection::vec(prop_oneof![
            proptest::sample::select(vec![
                &b"{\"key\":"[..], b"\"value\":", b"{\"hex\":\"", b"[", b"]", b"}", b",", b"\"", b"\\",
                b"\\x", b"\\k", b"\\u00", b"\t", b"\n", b"\r\n", b"1.5e", b"-", b"null", b"\xEF\xBB\xBF",
                b"\xFF", b"a", b"0", b" ",
            ]).prop_map(<[u8]>::to_vec),
            proptest::collection::vec(any::<u8>(), 0..3),
        ], 0..30),
        valid in 0..3,
    ) {
        let mut text = pieces.concat();
        if valid == 0 {
            text.splice(0..0, *b"{\"key\":[\"a\",1],\"value\":\"b\"}\n");
        }
        for arguments in [
            "--format tsv --key-columns 1,2:f64",
            "--format csv --key-columns 1:bytes",
            "--format jsonl --key-columns key",
            "--format jsonl --key-columns key:u64,value:f32 --value-column value",
            "--format scan-tsv",
            "--format scan-tsv --key-types str,f64",
            "--format scan-json",
            "--format scan-json --key-types str,f64",
        ] {
            let parsed = Wrapper::parse_from(format!("x {arguments}").split_whitespace()).input;
            let source = Box::new(io::Cursor::new(text.clone()));
            let mut reader = PairReader::new(source, &parsed).unwrap();
            let mut steps = 0;
            while reader.step().unwrap() != Step::End {
                steps += 1;
                prop_assert!(steps <= text.len());
            }
        }
    }
}

/// A name may hold colons, and so may a type.
#[test]
fn a_column_is_its_name_and_the_longest_type() {
    for (text, name) in [
        ("time:u64", "time"),
        ("time:desc:u64", "time"),
        ("id:fixed:16", "id"),
        ("a:b", "a:b"),
        ("a:b:u64", "a:b"),
        ("a:desc", "a:desc"),
        ("a:opt:x", "a:opt:x"),
    ] {
        let column: ColumnArgument = text.parse().unwrap();
        assert_eq!(column.name, name, "{text}");
    }
    assert!(":u64".parse::<ColumnArgument>().is_err());
}

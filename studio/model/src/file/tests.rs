//! Written files are read back unchanged, and errors are told with their place.

use super::*;
use crate::access::Accesses;
use crate::model::{Kind, OwnHeat};
use crate::presets;

const SMALL: &str = r#"format = 1
name = "small"
pairs = 1000
operations = 100

[mix]
get = 0.5
put = 0.4
scan = 0.1

[keys]
spread = "constant"
size = 16

[values.put]
spread = "weibull"
shape = 1.5
scale = 100.0
most = 1000

[scans]
spread = "uniform"
least = 1
most = 20

[ranges]
pairs_per_table = 100.0
curve = "power"
a = 2.0
b = -0.5

[accesses]
by = "rank"
b = -0.8
"#;

#[test]
fn a_file_comes_back() {
    let model = Model::from_toml(SMALL).unwrap();
    let text = model.to_toml().unwrap();
    assert_eq!(Model::from_toml(&text).unwrap(), model);
    // Optional fields may be missing.
    assert_eq!(model.values.loaded, model.values.sizes);
    assert_eq!((model.rate, model.memory_bytes), (None, None));
    // The number of ranges is that of tables.
    assert_eq!(model.ranges.unwrap().count, 10);
}

/// What kinds have of their own, as the end of the small file.
const OWN: &str = r#"
[accesses.put]
by = "cumulative"
a = 0.05
b = 0.5
first = 0.25

[accesses.scan]
by = "rank"
b = 0.0

[ranges.put]
curve = "exponential"
a = 1.0
b = -0.3
first = 0.5
"#;

#[test]
fn kinds_have_what_is_theirs_and_else_what_is_common() {
    let plain = Model::from_toml(SMALL).unwrap();
    let model = Model::from_toml(&format!("{SMALL}{OWN}")).unwrap();
    let again = Model::from_toml(&model.to_toml().unwrap()).unwrap();
    assert_eq!(again, model);
    let (a, b) = (0.05, 0.5);
    let own = Accesses::Cumulative { a, b };
    assert_eq!(model.accesses_of(Kind::Put), Some(own));
    assert_eq!(model.accesses_of(Kind::Get), plain.accesses);
    assert_eq!(
        model.accesses_of(Kind::Scan),
        Some(Accesses::ByRank { b: 0.0 })
    );
    let ranges = model.ranges_of(Kind::Put).unwrap();
    assert_eq!(
        (ranges.count, &*ranges.curve.parameters),
        (10, &[1.0, -0.3][..])
    );
    assert_eq!(model.ranges_of(Kind::Scan), plain.ranges);
    let firsts = |kind: Kind| {
        let own = &model.own[kind as usize];
        let (ranges, accesses) = (own.ranges.as_ref(), own.accesses.as_ref());
        (ranges.map(|own| own.first), accesses.map(|own| own.first))
    };
    assert_eq!(firsts(Kind::Put), (Some(0.5), Some(0.25)));
    assert_eq!(firsts(Kind::Scan), (None, Some(0.0)));
    assert_eq!(firsts(Kind::Get), (None, None));
    // In a file from before, all kinds have everything in common.
    assert!(plain.own.iter().all(|own| *own == OwnHeat::default()));
    // After scaling, the same share of the pairs is accessed.
    let touched = |model: &Model| model.accesses_of(Kind::Put).unwrap().touched(model.pairs);
    assert!((touched(&model.scaled(20.0)) - touched(&model)).abs() < 1e-9);
}

#[test]
fn what_is_wrong_with_what_kinds_have_is_told() {
    for (from, to, words) in [
        (
            "first = 0.25",
            "first = 1.5",
            "line 40: accesses.put.first: must be from 0 to 1, and is 1.5",
        ),
        (
            "by = \"cumulative\"",
            "by = \"range\"",
            "line 37: accesses.put.by: `range` is not known",
        ),
        (
            "a = 0.05\n",
            "",
            "line 36: accesses.put.a: is missing, and cumulative needs it",
        ),
        (
            "curve = \"exponential\"",
            "count = 5\ncurve = \"exponential\"",
            "line 47: ranges.put.count: must be in `ranges` alone",
        ),
        (
            "b = -0.3",
            "b = 900.0",
            "line 47: ranges.put.curve: is not above 0 at each range",
        ),
        (
            "[accesses.scan]",
            "[accesses.put.scan]",
            "line 36: accesses.put.scan: stands within the table of a kind already",
        ),
        (
            "\n[accesses.put]",
            "first = 0.5\n[accesses.put]",
            "line 35: accesses.first: is for a kind's own table alone",
        ),
    ] {
        assert!(OWN.contains(from), "{from}");
        let text = format!("{SMALL}{}", OWN.replacen(from, to, 1));
        let told = Model::from_toml(&text).unwrap_err().to_string();
        assert!(told.starts_with(words), "{told}");
    }
    let told = |text: &str| Model::from_toml(text).unwrap_err().to_string();
    let unknown = told(&format!(
        "{SMALL}{}",
        OWN.replace("accesses.put", "accesses.push")
    ));
    assert!(
        unknown.contains("line 36") && unknown.contains("unknown field `push`"),
        "{unknown}"
    );
    // A kind's own table needs a common one.
    let text = format!(
        "{}{OWN}",
        SMALL.replace("[accesses]\nby = \"rank\"\nb = -0.8\n", "")
    );
    assert!(
        told(&text).contains("missing field `by`"),
        "{}",
        told(&text)
    );
}

/// The error of the small file after `from` was replaced.
fn error(from: &str, to: &str) -> ModelError {
    assert!(SMALL.contains(from), "{from}");
    let text = SMALL.replacen(from, to, 1);
    Model::from_toml(&text).map(|_| ()).expect_err(to)
}

/// The replaced text, the new text, and the beginning of the error.
const WRONG: &[[&str; 3]] = &[
    [
        "get = 0.5",
        "get = 0.6",
        "line 7: mix.get: all shares of the mix add up to 1.1",
    ],
    [
        "put = 0.4",
        "put = -0.4",
        "line 8: mix.put: must be from 0 to 1, and is -0.4",
    ],
    [
        "put = 0.4",
        "put = nan",
        "line 8: mix.put: must be from 0 to 1, and is NaN",
    ],
    [
        "size = 16",
        "size = 7",
        "line 13: keys.size: must be from 8 to 4096, and is 7",
    ],
    [
        "size = 16",
        "",
        "line 11: keys.size: is missing, and constant needs it",
    ],
    [
        "\"weibull\"",
        "\"normal\"",
        "line 16: values.put.spread: `normal` is not known",
    ],
    [
        "scale = 100.0",
        "scale = inf",
        "line 18: values.put.scale: must be from",
    ],
    [
        "scale = 100.0",
        "scale = 1e11",
        "line 16: values.put.spread: has next to nothing from 0 to 1000",
    ],
    [
        "least = 1\nmost = 20",
        "least = 30\nmost = 20",
        "line 24: scans.most: must be from 30",
    ],
    [
        "b = -0.5",
        "b = -0.5\nc = 1.0",
        "line 31: ranges.c: power has no such parameter",
    ],
    [
        "a = 2.0",
        "a = -2.0",
        "line 28: ranges.curve: is not above 0 at each range",
    ],
    [
        "pairs_per_table = 100.0",
        "",
        "line 26: ranges.count: either this or pairs_per_table",
    ],
    [
        "b = -0.8",
        "b = 0.8",
        "line 34: accesses.b: must be from -4 to 0",
    ],
    [
        "\"rank\"",
        "\"cumulative\"",
        "line 32: accesses.a: is missing",
    ],
    ["pairs = 1000", "pairs = 0", "line 3: pairs: must be from 1"],
    [
        "scan = 0.1",
        "merge = 0.1",
        "line 9: mix.merge: is above 0: then all values are counters",
    ],
];

#[test]
fn what_is_wrong_is_told_with_field_and_line() {
    for [from, to, words] in WRONG {
        let told = error(from, to).to_string();
        assert!(told.starts_with(words), "{told}");
    }
}

#[test]
fn what_is_no_model_is_told_with_its_line() {
    for (from, to, line, words) in [
        ("get = 0.5", "got = 0.5", "line 7", "unknown field `got`"),
        ("get = 0.5", "get = \"much\"", "line 7", "invalid type"),
        ("get = 0.5", "get = ", "line 7", "TOML parse error"),
        ("pairs = 1000", "pairs = -3", "line 3", "invalid value"),
    ] {
        let told = error(from, to).to_string();
        assert!(told.contains(line) && told.contains(words), "{told}");
    }
    let missing = error("name = \"small\"", "").to_string();
    assert!(missing.contains("missing field `name`"), "{missing}");
    assert_eq!(
        error("format = 1", "format = 2"),
        ModelError::Format { found: 2 }
    );
}

#[test]
fn scans_need_lengths() {
    let cut = SMALL.find("[scans]").unwrap()..SMALL.find("[ranges]").unwrap();
    let mut text = SMALL.to_owned();
    text.replace_range(cut, "");
    let told = Model::from_toml(&text).unwrap_err().to_string();
    assert!(told.starts_with("line 9: mix.scan: is above 0"), "{told}");
}

#[test]
fn swings_stay_above_zero() {
    let with = |a: &str| format!("{SMALL}\n[rate]\na = {a}\nb = 0.1\nc = 0.0\nd = 10.0\n");
    let model = Model::from_toml(&with("9.0")).unwrap();
    assert_eq!(Model::from_toml(&model.to_toml().unwrap()).unwrap(), model);
    for a in ["10.0", "-11.0", "nan", "inf"] {
        let told = Model::from_toml(&with(a)).unwrap_err().to_string();
        assert!(
            told.starts_with("line 37: rate.a: must be smaller than d"),
            "{told}"
        );
    }
}

#[test]
fn what_cannot_be_read_is_not_written() {
    let mut model = presets::named("zippydb").unwrap();
    model.pairs = 0;
    assert!(model.to_toml().is_err());
    let mut model = presets::named("zippydb").unwrap();
    model.mix.get = f64::NAN;
    assert!(model.to_toml().is_err());
}

#[test]
fn cut_and_changed_texts_do_not_panic() {
    let text = presets::text("zippydb").unwrap();
    for end in (0..text.len()).step_by(7) {
        if text.is_char_boundary(end) {
            let _ = Model::from_toml(&text[..end]);
        }
        let mut bytes = text.as_bytes().to_vec();
        bytes[end] ^= 0x15;
        if let Ok(text) = std::str::from_utf8(&bytes) {
            let _ = Model::from_toml(text);
        }
    }
}

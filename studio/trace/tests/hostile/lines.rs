//! Traces of lines: a line is an operation, bad, or nothing, with any other lines around it.

use crate::random::Random;
use crate::{MEMORY, import, peak_of, trials};
use evendb_trace::KEY_BYTES_MAX;
use evendb_trace::formats::{self, Format};
use std::io::{self, BufReader, Read};

fn line(random: &mut Random, format: Format, number: u64) -> String {
    let time = match random.one_in(15) {
        true => random.absurd(),
        false => 1_600_000_000 + number,
    };
    let (key, len) = (random.below(1000), random.below(5000));
    match format {
        Format::RocksDbText => format!(
            "0x{key:08X} {} {} {len} {time}",
            random.below(10),
            random.below(3)
        ),
        Format::MetaCsv if number == 0 || random.one_in(20) => {
            "op_time,key,key_size,op,op_count,size,cache_hits,ttl".to_owned()
        }
        Format::MetaCsv => {
            let name = ["GET", "GET_LEASE", "SET", "DELETE"][random.below(4)];
            let count = 1 + random.below(3);
            format!(
                "{time},{key},{},{name},{count},{len},{},{}",
                random.below(60),
                random.below(3),
                random.below(900)
            )
        }
        Format::TwitterCsv => {
            let name = [
                "get", "gets", "set", "add", "incr", "delete", "cas", "append",
            ][random.below(8)];
            format!(
                "{time},key{key},{},{len},{},{name},{}",
                random.below(50),
                random.below(9),
                random.below(900)
            )
        }
        _ => match random.below(5) {
            0 => format!("READ usertable user{key} [ <all fields>]"),
            1 => format!(
                "SCAN usertable user{key} {} [ <all fields>]",
                random.below(100)
            ),
            2 => format!("UPDATE usertable user{key} [ field1={key} ]"),
            3 => format!("DELETE usertable user{key}"),
            _ => "[OVERALL], RunTime(ms), 12".to_owned(),
        },
    }
}

/// The number of lines with content.
fn lines_of(text: &[u8]) -> u64 {
    let lines = text.split(|byte| *byte == b'\n');
    let says = |line: &&[u8]| !line.iter().all(|byte| *byte == b'\r');
    lines.filter(says).count() as u64
}

#[test]
fn every_line_is_an_operation_or_bad_or_says_nothing() {
    trials(|random| {
        let formats = [
            Format::RocksDbText,
            Format::TwitterCsv,
            Format::MetaCsv,
            Format::YcsbText,
        ];
        let format = formats[random.below(formats.len())];
        let lines: Vec<_> = (0..random.below(30) as u64)
            .map(|number| line(random, format, number))
            .collect();
        let mut text = lines.join("\n").into_bytes();
        for _ in 0..random.below(4) {
            match random.one_in(3) {
                // An absurd field.
                true => {
                    let at = random.below(text.len() + 1);
                    let digits = random.absurd().to_string();
                    text.splice(at..at, digits.into_bytes());
                }
                false => drop(random.damage(&mut text)),
            }
        }
        let (mut given, mut back, mut last) = (0, 0, 0);
        let (imported, peak) = peak_of(|| {
            import(format, &text, &mut |operation| {
                given += 1;
                back += u64::from(operation.start_nanos < last);
                last = operation.start_nanos;
            })
        });
        let imported = imported.unwrap();
        assert!(peak < MEMORY, "{peak} bytes of memory");
        let all = given + imported.bad;
        match format {
            Format::YcsbText => assert!(all <= lines_of(&text)),
            // A line stands for the number of operations that it gives, up to a limit.
            Format::MetaCsv => assert!(all <= lines_of(&text) * u64::from(u16::MAX)),
            _ => assert_eq!(all, lines_of(&text)),
        }
        assert!(imported.times_back >= back && !imported.is_torn);
    });
}

/// A hundred million bytes without an end of line are one bad line, and take no memory.
#[test]
fn an_endless_line_is_one_bad_line() {
    for format in [
        Format::RocksDbText,
        Format::TwitterCsv,
        Format::MetaCsv,
        Format::YcsbText,
    ] {
        let endless = io::repeat(b'x').take(100 << 20);
        let tail = &b"\n0,k,1,2,3,get,0\n0x6B 0 0 0 1\nREAD t k\nkey,op,size\nk,GET,1\n"[..];
        let mut source = BufReader::with_capacity(64 << 10, endless.chain(tail));
        let (imported, peak) = peak_of(|| formats::read(format, &mut source, &mut |_| Ok(())));
        let imported = imported.unwrap();
        assert_eq!(imported.operations, 1);
        assert!(
            imported
                .first_bad
                .unwrap()
                .starts_with("line 1: longer than")
        );
        assert!(peak < MEMORY, "{peak} bytes of memory");
    }
}

/// A key that no trace takes costs its line, and a message is short even for a long word.
#[test]
fn a_key_above_the_limit_is_a_bad_line() {
    let long = "k".repeat(KEY_BYTES_MAX + 1);
    let hex = "6B".repeat(KEY_BYTES_MAX);
    let cases = [
        (
            Format::TwitterCsv,
            format!("0,{long},1,2,3,get,0\n0,k,1,2,3,get,0\n"),
        ),
        (
            Format::MetaCsv,
            format!("key,op,size\n{long},GET,1\nk,GET,1\n"),
        ),
        (Format::YcsbText, format!("READ t {long}\nREAD t k\n")),
        // The end of a seek backwards is a byte longer.
        (
            Format::RocksDbText,
            format!("0x{hex} 7 0 0 1\n0x{hex} 6 0 0 1\n"),
        ),
        (
            Format::TwitterCsv,
            format!("0,k,1,2,3,{long},0\n0,k,1,2,3,get,0\n"),
        ),
    ];
    for (format, text) in cases {
        let imported = import(format, text.as_bytes(), &mut |_| {}).unwrap();
        assert_eq!((imported.operations, imported.bad), (1, 1), "{format:?}");
        assert!(imported.first_bad.unwrap().len() < 200);
    }
}

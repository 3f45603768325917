//! Inputs to begin with: valid files, made by the code that writes them, in the forms that targets
//! take.
//!
//! They are made anew whenever they are wanted, so that they follow every change of a format.
//! `corpus/` has further inputs that a fuzzer found: a file for each target with a line for each
//! input.

use crate::bytes::framed;
use crate::programs::{DIR, Database, GUARDS};
use crate::tables::ID;
use crate::{Target, logs, manifests, models, small_files};
use evendb_model::from_analysis::{self, Known};
use evendb_model::presets;
use evendb_report::{Document, Figure, Unit};
use evendb_storage::codec::{put_slice, put_varint};
use evendb_storage::filter::BloomFilter;
use evendb_storage::table::{Codec, TableOptions, TableWriter};
use evendb_storage::vfs::SimVfs;
use evendb_storage::{Apart, EntryRef, Kind, TableId, Version, push_operand};
use evendb_trace::{Header, Kind as Call, Operation, Outcome, Writer};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The path of a target's kept finds.
#[must_use]
pub fn corpus(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target.name)
}

/// The inputs that a target begins with.
#[must_use]
pub fn of(target: &Target) -> Vec<Vec<u8>> {
    match target.name {
        "table" => table_seeds(),
        "block" => vec![block(3, 2), block(20, 4)],
        "filter" => filter_seeds(),
        "run" => run_seeds(),
        "manifest" => with_forms(&[manifest_of(9), manifest_of(9 | GUARDS)]),
        "current" => with_forms(&[evendb::fuzzing::current_bytes(7, 100, true)]),
        "commit-log" => commit_log_seeds(),
        "value-extent" => value_extent_seeds(),
        "trace" => trace_seeds(),
        "keys" => key_seeds(),
        "inputs" => input_seeds(),
        "small-files" => small_file_seeds(),
        "models" => model_seeds(),
        "directory" => directory_seeds(),
        "programs" => program_seeds(),
        _ => Vec::new(),
    }
}

/// Each file after a byte: once with its checksums, once with corrected ones.
fn with_forms(files: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let forms = files.iter().flat_map(|file| [(0, file), (1, file)]);
    forms
        .map(|(form, file)| [&[form], &file[..]].concat())
        .collect()
}

/// A table of this number of keys, each with versions of every kind.
fn table(id: TableId, keys: u64, codec: Codec, filter_bits_per_key: u32) -> Vec<u8> {
    table_of(id, keys, codec, filter_bits_per_key, false)
}

/// As `table`, with a block for each key if it is keyed.
fn table_of(
    id: TableId,
    keys: u64,
    codec: Codec,
    filter_bits_per_key: u32,
    is_keyed: bool,
) -> Vec<u8> {
    let options = TableOptions {
        block_bytes: 160,
        restart_interval: 4,
        codec,
        zstd_level: 1,
        filter_bits_per_key,
    };
    let mut writer = TableWriter::new(Vec::new(), id, options).keyed(is_keyed);
    let mut operands = Vec::new();
    push_operand(&mut operands, b"one");
    push_operand(&mut operands, b"two");
    let apart = Apart {
        file: 1 << 32 | 3,
        offset: 512,
        len: 70,
        checksum: 9,
    };
    let until = [&9_u64.to_le_bytes()[..], b"expires"].concat();
    for number in 0..keys {
        let key = format!("key/{:02}/{number:03}", number / 7);
        let records: [(Kind, &[u8]); 4] = match number % 5 {
            0 => [(Kind::Put, b"value"); 4],
            1 => [(Kind::Put, &[b'x'; 40]); 4],
            2 => [(Kind::Merge, &operands); 4],
            3 => [(Kind::PutUntil, &until); 4],
            _ => [(Kind::Delete, b""); 4],
        };
        let apart = apart.encode();
        let extra: (Kind, &[u8]) = match number % 3 {
            0 => (Kind::PutApart, &apart),
            _ => (Kind::SingleDelete, b""),
        };
        let few = 1 + number as usize % 3;
        for (version, (kind, value)) in (1..).zip(records.iter().take(few).chain([&extra])) {
            let entry = EntryRef {
                key: key.as_bytes(),
                version: Version(1000 - version),
                kind: *kind,
                value,
            };
            writer.add(entry).expect("memory takes it");
        }
    }
    writer.finish().expect("memory takes it").0
}

fn table_seeds() -> Vec<Vec<u8>> {
    with_forms(&[
        table(ID, 3, Codec::None, 0),
        table(ID, 24, Codec::None, 10),
        table(ID, 40, Codec::Lz4, 10),
        table(ID, 0, Codec::None, 10),
        table_of(ID, 24, Codec::None, 0, true),
    ])
}

/// The rows of a block, and its restarts.
fn block(rows: u8, interval: usize) -> Vec<u8> {
    let (mut out, mut restarts) = (Vec::new(), Vec::new());
    for number in 0..rows {
        let shared = match usize::from(number) % interval {
            0 => {
                restarts.push(out.len() as u32);
                0
            }
            _ => 2,
        };
        let key = [b'k', b'e', b'a' + number, b'x'];
        let tail = &key[shared..];
        out.extend_from_slice(&[shared as u8, tail.len() as u8, 3 << 1 | 1, 100 - number]);
        out.extend_from_slice(tail);
        out.extend_from_slice(b"val");
    }
    let count = restarts.len() as u32;
    for number in restarts.into_iter().chain([count]) {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out
}

fn filter_seeds() -> Vec<Vec<u8>> {
    let hashes: Vec<u64> = (0..40_u64)
        .map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect();
    let mut stored = vec![0];
    BloomFilter::build(&hashes, 10).encode(&mut stored);
    let mut built = vec![10 << 1 | 1];
    for hash in hashes.iter().take(8) {
        built.extend_from_slice(&hash.to_le_bytes());
    }
    vec![stored, built]
}

/// Files, each after its length.
fn files(form: u8, files: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![form];
    for file in files {
        out.extend_from_slice(&(file.len() as u16).to_le_bytes());
        out.extend_from_slice(file);
    }
    out
}

fn run_seeds() -> Vec<Vec<u8>> {
    let run = |number: u64, keys| table(TableId(ID.0 + number), keys, Codec::None, 0);
    let runs = [run(0, 12), run(1, 5), run(2, 8)];
    [0, 1, 2, 3].map(|form| files(form, &runs)).to_vec()
}

/// The frames of the manifest of a small database with options of this variant, changed to those of
/// a manifest with the number of all that are fuzzed.
fn manifest_of(variant: u8) -> Vec<u8> {
    let disk = SimVfs::new(2);
    let db = Database::open(&disk, variant);
    for number in 0..60 {
        db.put(format!("key{number:03}").as_bytes(), &[number; 50]);
        if number % 25 == 0 {
            db.flush();
        }
    }
    db.settle();
    db.close();
    let names = disk.file_names(Path::new(DIR)).into_iter();
    let mut manifests = names.filter_map(|name| {
        let own: u64 = name.strip_prefix("MANIFEST-")?.parse().ok()?;
        Some((own, disk.read_file(&Path::new(DIR).join(name))))
    });
    let (own, bytes) = manifests.next().expect("it has a manifest");
    framed(manifests::ID, &crate::bytes::frames_of(&bytes, own))
}

/// Records, each with a length and a kind. The target corrects the rest.
fn commit_log_seeds() -> Vec<Vec<u8>> {
    let mut write = vec![1];
    for number in [0_u32, 3, 5] {
        write.extend_from_slice(&number.to_le_bytes());
    }
    write.extend_from_slice(b"keyvalue");
    let extent = [&[0xff], &[1; 20][..]].concat();
    let mut ring = Vec::new();
    for (payload, kind) in [(&write, 1_u32), (&extent, 3), (&write, 2), (&write, 1)] {
        let mut record = vec![0; 40];
        record[4..8].copy_from_slice(&(payload.len() as u32 | kind << 28).to_le_bytes());
        record[24] = 9;
        record.extend_from_slice(payload);
        record.resize(record.len().next_multiple_of(8), 0);
        ring.extend_from_slice(&record);
    }
    let front = |form: u8, closed: u16| {
        let closed = closed.to_le_bytes();
        [&[form, 0, 0, closed[0], closed[1]], &ring[..]].concat()
    };
    let lives = [evendb::fuzzing::Life {
        epoch: 3,
        seed: logs::SEED,
        start: 0,
        closed_at: None,
    }];
    let mut sealed = ring.clone();
    sealed.resize(4096, 0);
    evendb::fuzzing::seal_ring(&mut sealed, 0, &lives);
    sealed.truncate(ring.len());
    let valid = [&[0; 5], &sealed[..]].concat();
    vec![valid, front(1, 0), front(3, 0), front(5, 8), front(5, 17)]
}

fn value_extent_seeds() -> Vec<Vec<u8>> {
    let mut write = vec![1];
    for number in [0_u32, 3, 5] {
        write.extend_from_slice(&number.to_le_bytes());
    }
    write.extend_from_slice(b"keyvalue");
    let told = [&(write.len() as u64).to_le_bytes()[..], &[7; 8], &[0, 0]].concat();
    let form = |form: u8| [&[form], &told[..], &write, &write].concat();
    (0..4).map(form).collect()
}

fn trace_seeds() -> Vec<Vec<u8>> {
    let mut writer = Writer::new(Vec::new(), &Header::default()).expect("memory takes it");
    for (number, kind) in (0..).zip(Call::ALL) {
        let mut operation = Operation::new(kind, format!("key{number}").into_bytes());
        operation.start_nanos = 1000 * number;
        operation.latency_nanos = Some(50);
        operation.value = (number % 2 == 0).then(|| b"value".to_vec());
        operation.value_len = Some(5);
        operation.outcome = Outcome::Done;
        writer.add(&operation).expect("memory takes it");
        if number == 5 {
            writer.name_keyspace(1, "events").expect("memory takes it");
        }
    }
    let own = writer.finish().expect("memory takes it").0;
    let lines: [(u8, &[u8]); 4] = [
        (2, b"0x6b6579 1 0 5 1000\n6b6579 0 0 0 2000\n"),
        (3, b"1,key,3,5,7,get,0\n2,key,3,5,7,set,60\n"),
        (
            4,
            b"op_time,key,key_size,op,op_count,size,cache_hits,ttl\n1,k,1,GET,2,5,1,0\n2,k,1,SET,1,5,0,60\n",
        ),
        (
            5,
            b"INSERT usertable user1 [ field0=abc ]\nREAD usertable user1 [ <all fields>]\nSCAN usertable user1 5 [ <all fields>]\n",
        ),
    ];
    let mut seeds = with_forms(&[own]);
    seeds.push([&[1 << 1], &rocksdb()[..]].concat());
    seeds.extend(lines.map(|(format, text)| [&[format << 1], text].concat()));
    seeds
}

/// A trace of RocksDB with a header and a get.
fn rocksdb() -> Vec<u8> {
    let mut out = Vec::new();
    let mut record = |kind: u8, payload: &[u8]| {
        out.extend_from_slice(&1_000_000_u64.to_le_bytes());
        out.push(kind);
        out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        out.extend_from_slice(payload);
    };
    record(
        1,
        b"feedcafedeadbeef\tTrace Version: 0.2\tRocksDB Version: 7.8\tFormat: Timestamp OpType Payload\n",
    );
    record(4, b"\x0c\0\0\0\0\0\0\0\x03\0\0\0\x03one");
    record(
        3,
        b"\x02\0\0\0\0\0\0\0\x17\0\0\0\0\0\0\0\0\x01\0\0\0\x01\x03two\x05value",
    );
    record(2, b"");
    out
}

fn key_seeds() -> Vec<Vec<u8>> {
    let kinds = (0..19_u8).map(|kind| [2, 0, kind | 32, 0, kind | 64, b'a', b'b', 0, 0, 1, 9]);
    let keys = kinds.clone().map(|seed| seed.to_vec());
    let pairs = kinds.map(|mut seed| {
        seed[0] |= 1;
        [&seed[..], &[3, b'x', 0, b'z'], &seed].concat()
    });
    keys.chain(pairs).collect()
}

fn input_seeds() -> Vec<Vec<u8>> {
    let texts: [(u8, &str); 20] = [
        (0, "key\tvalue\nkey2\tvalue2\tmore\r\n\n"),
        (1, "a\tb\tc\n"),
        (2, "a\tb\tc\n7\tx\ty\n18446744073709551615\tz\tw\n"),
        (3, "k,\"a \"\"quoted\"\" field\nover lines\",z\n"),
        (4, "k,e,v\n00ff,1700000000.5,x\nff,,y\n"),
        (5, "h,h\n1.5,-0.5\n1e23,1700000000\n"),
        (6, "{\"k\":\"key\",\"n\":[1,{\"a\":null}]}\n{\"k\":12.50}\n"),
        (
            7,
            "{\"a\":-7,\"b\":true,\"v\":{\"x\":1},\"e\":1700000000}\n",
        ),
        (8, "a\\x00b\\tc\tvalue\\n\n\\kwhole\tv\n"),
        (9, "text\t7\tvalue\n\\k\\xff\tv\n"),
        (10, "{\"key\":\"a\",\"value\":{\"hex\":\"00ff\"}}\n"),
        (11, "{\"key\":[1.5,\"00\",true,\"x\"],\"value\":\"v\"}\n"),
        (128, "\0\x05text"),
        (129, "\x02\x021.5\x033.25"),
        (130, "\x04\x041700\x031.5"),
        (160, "a,\"b,\"\"c\"\"\",\n"),
        (192, "{\"a\":[1,2.0,\"\\u00e9\",null,true]}"),
        (224, "str,desc:u64,fixed:9,f64"),
        (225, "1.5GiB"),
        (226, "-1700000000.5"),
    ];
    texts
        .map(|(form, text)| [&[form], text.as_bytes()].concat())
        .to_vec()
}

/// Each file as it is written, in a form whose checksum the target corrects.
fn small_file_seeds() -> Vec<Vec<u8>> {
    let sealed = |form: u8, bytes: &[u8]| {
        let mut file = bytes.to_vec();
        small_files::seal(form, &mut file);
        assert!(small_files::is_read(form, &file), "a seed is read");
        [&[form | 1], &file[..]].concat()
    };
    let mut list = b"EVENBAK1".to_vec();
    put_varint(&mut list, 1_700_000_000);
    put_varint(&mut list, 3);
    let names = ["0000000100000002.sst", "CHUNK-LOGS", "KEYS"];
    for (name, number) in names.into_iter().zip([4711, 1 << 33, 70]) {
        put_slice(&mut list, name.as_bytes());
        // Length, checksum, the number of the table, flags.
        for number in [number, 0xdead_beef, number & 1, number % 4] {
            put_varint(&mut list, number);
        }
    }
    list.extend_from_slice(&[0; 4]);
    let mut properties = Vec::new();
    for (name, value) in [("evendb.key", "str,u64"), ("schema", "")] {
        put_slice(&mut properties, name.as_bytes());
        put_slice(&mut properties, value.as_bytes());
    }
    // Magic, checksum, length.
    let mut heat = [&b"evenHEA1"[..], &[0; 12]].concat();
    for (shared, rest) in [(0, "key/00"), (5, "1"), (6, ""), (0, "x")] {
        for number in [1, 9, shared] {
            put_varint(&mut heat, number);
        }
        put_slice(&mut heat, rest.as_bytes());
    }
    // Cipher and salt, the id of the key, the data key with its tag, a checksum.
    let keys = [
        &b"EVENKEY1\x01"[..],
        &[7; 16],
        b"\x072026-11",
        &[9; 48],
        &[0; 4],
    ]
    .concat();
    vec![
        sealed(small_files::LIST, &list),
        sealed(small_files::PROPERTIES, &properties),
        sealed(small_files::HEAT, &heat),
        sealed(small_files::KEYS, &keys),
    ]
}

/// The presets as they are written, and an analysis with the figures for a model.
fn model_seeds() -> Vec<Vec<u8>> {
    let presets = presets::names().filter_map(|name| presets::workload(name)?.to_toml().ok());
    let mut seeds: Vec<Vec<u8>> = presets
        .map(|text| [&[models::MODEL], text.as_bytes()].concat())
        .collect();
    let analysis = analysis();
    let made = from_analysis::make(&analysis, &Known::default());
    assert!(made.is_ok(), "a seed is read: {:?}", made.err());
    seeds.push([&[models::ANALYSIS], analysis.to_json().as_bytes()].concat());
    seeds
}

/// The figures for a model, with a few rows each, of a load of gets, puts and scans.
fn analysis() -> Document {
    let figure = |id: &str, columns: &[&str], rows: Vec<Vec<Value>>| {
        let columns: Vec<_> = columns.iter().map(|name| (*name, Unit::Number)).collect();
        Figure {
            rows,
            ..Figure::new(id, "", "", "", &columns)
        }
    };
    let of_gets = |more: [Value; 2]| [json!("app"), json!("get")].into_iter().chain(more);
    let curve = |numbers: [u64; 4]| {
        let each = (1..).zip(numbers);
        each.map(|(at, number)| of_gets([json!(at), json!(number)]).collect())
    };
    let sizes = |sizes: [u64; 3]| {
        let each = sizes.into_iter().zip([(50, 0.5), (30, 0.8), (20, 1.0)]);
        each.map(|(size, (count, up_to))| vec![json!(size), json!(count), json!(up_to)])
    };
    let sizes_of = |kind: &str, all: [u64; 3]| -> Vec<Vec<Value>> {
        let front = [json!("app"), json!(kind)];
        let rows = sizes(all).map(|row| front.iter().cloned().chain(row).collect());
        rows.collect()
    };
    let counts = [
        "keyspace",
        "kind",
        "bytes",
        "operations",
        "operations_up_to",
    ];
    let mut document = Document::new("small");
    let kinds = [("get", 100), ("put", 30), ("scan", 10)];
    let rows = kinds.map(|(kind, count)| vec![json!("app"), json!(kind), json!(count)]);
    let mix = figure(
        "composition",
        &["keyspace", "kind", "operations"],
        rows.to_vec(),
    );
    let columns = ["keyspace", "period_seconds", "new_keys"];
    let rows = vec![vec![json!("app"), json!(60), json!(40)]];
    let keys = figure("unique-keys", &columns, rows);
    let rows = sizes([1, 9, 70]).map(|row| [json!("app")].into_iter().chain(row).collect());
    let columns = ["keyspace", "records", "scans", "scans_up_to"];
    let scans = figure("scan-lengths", &columns, rows.collect());
    let columns = ["keyspace", "kind", "range", "accesses"];
    let ranges = figure("ranges", &columns, curve([60, 30, 8, 2]).collect());
    let ranks = (1_u64..).zip([(50, 0.5), (30, 0.8), (15, 0.95), (5, 1.0)]);
    let ranks = ranks.map(|(rank, (count, up_to))| {
        let more = [json!(count), json!(up_to)];
        [json!("app"), json!("get"), json!(rank)]
            .into_iter()
            .chain(more)
            .collect()
    });
    let columns = ["keyspace", "kind", "rank", "accesses", "accesses_up_to"];
    let ranks = figure("access-ranks", &columns, ranks.collect());
    let columns = ["keyspace", "kind", "time", "per_second"];
    let rates = figure("rates", &columns, curve([500, 700, 450, 300]).collect());
    document.figures = vec![
        mix,
        keys,
        figure("key-sizes", &counts, sizes_of("get", [16, 20, 48])),
        figure("value-sizes", &counts, sizes_of("put", [10, 100, 1000])),
        scans,
        ranges,
        ranks,
        rates,
    ];
    document
}

/// Every form, with damage to each file in turn.
fn directory_seeds() -> Vec<Vec<u8>> {
    let inputs = (0..32_u8).flat_map(|form| {
        (0..8_u8).map(move |what| {
            vec![
                form,
                0,
                what.wrapping_mul(3) ^ form,
                what,
                40,
                0,
                1,
                0,
                9,
                9,
            ]
        })
    });
    inputs.collect()
}

/// Programs of random numbers, which use every operation now and then.
fn program_seeds() -> Vec<Vec<u8>> {
    let mut state = 7_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    (0..8).map(|_| (0..400).map(|_| next()).collect()).collect()
}

/// The kept finds of a target, each a line of hexadecimal digits. None if there is no file.
///
/// # Errors
/// The errors of reading.
pub fn kept(target: &Target) -> io::Result<Vec<Vec<u8>>> {
    let text = match fs::read_to_string(corpus(target)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    text.lines().map(bytes_of).collect()
}

fn bytes_of(line: &str) -> io::Result<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = line.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    let wrong = || io::Error::other(format!("no hexadecimal digits: {line}"));
    bytes.filter(|_| rest.is_empty()).ok_or_else(wrong)
}

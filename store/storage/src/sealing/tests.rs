//! The format of sealed bytes, and bytes that do not open.

#![expect(
    clippy::unwrap_used,
    reason = "tests, which fail where something is not as they expect"
)]

use super::*;
use crate::framed_log::{FrameAt, FrameCodec, FramedLogWriter, read_frames};
use crate::table::{Codec, Table, TableCursor, TableOptions, TableWriter};
use crate::vfs::{SealedVfs, SimVfs, Vfs};
use crate::{EntryRef, ErrorKind, Kind, TableId, Version};
use std::path::Path;
use std::sync::Arc;

fn secrets(key: u8) -> Secrets {
    Secrets::with_fresh(Key::new([key; KEY_BYTES]), Key::new([99; KEY_BYTES]))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_body_opens_only_as_what_it_was_sealed() {
    let cipher = secrets(1).cipher(Use::Table, 5, b"salt");
    let mut sealed = b"in front".to_vec();
    sealed.extend_from_slice(b"some body");
    cipher.seal(Nonce::at(7), b"bound", &mut sealed, 8);
    let (front, sealed) = sealed.split_at(8);
    assert_eq!(front, b"in front");
    assert_eq!(sealed.len(), 9 + TAG_BYTES);
    let open = |cipher: &Cipher, nonce, bound: &[u8], sealed: &[u8]| {
        let mut apart = vec![0; sealed.len().saturating_sub(TAG_BYTES)];
        let into = cipher.open_into(nonce, bound, sealed, &mut apart);
        let mut bytes = sealed.to_vec();
        let opened = cipher.open(nonce, bound, &mut bytes).map(<[u8]>::to_vec);
        assert_eq!(into.then_some(apart), opened);
        opened
    };
    let body = Some(b"some body".to_vec());
    assert_eq!(open(&cipher, Nonce::at(7), b"bound", sealed), body);
    assert_eq!(open(&cipher, Nonce::at(8), b"bound", sealed), None);
    assert_eq!(open(&cipher, Nonce::of_kind(7, 1), b"bound", sealed), None);
    assert_eq!(open(&cipher, Nonce::at(7), b"bounds", sealed), None);
    for other in [
        secrets(2).cipher(Use::Table, 5, b"salt"),
        secrets(1).cipher(Use::Table, 6, b"salt"),
        secrets(1).cipher(Use::Table, 5, b"sale"),
        secrets(1).cipher(Use::CommitLog, 5, b"salt"),
        secrets(1).cipher(Use::File("a"), 5, b"salt"),
        secrets(1).cipher(Use::FramedLog("a"), 5, b"salt"),
    ] {
        assert_eq!(open(&other, Nonce::at(7), b"bound", sealed), None);
    }
    for bit in 0..sealed.len() * 8 {
        let mut bad = sealed.to_vec();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(
            open(&cipher, Nonce::at(7), b"bound", &bad),
            None,
            "bit {bit}"
        );
    }
    for len in 0..sealed.len() {
        assert_eq!(open(&cipher, Nonce::at(7), b"bound", &sealed[..len]), None);
    }
}

/// The implementation by wide instructions and the general one open each other's sealed bytes: of
/// every length around the steps, with anything bound.
#[test]
fn every_way_gives_the_same_bytes() {
    let noise = |len: usize, seed: usize| -> Vec<u8> {
        (0..len)
            .map(|at| (((at + seed) * 2_654_435_761) >> 7) as u8)
            .collect()
    };
    let key: [u8; KEY_BYTES] = noise(KEY_BYTES, 5).try_into().unwrap();
    let (own, any) = (Cipher::new(&key), Cipher::of_any_processor(&key));
    let lens = (0..600).chain([1007, 1008, 1009, 4074, 4075, 4076, 65_519, 65_536, 100_001]);
    for len in lens {
        let body = noise(len, len);
        let bound = noise(len % 41, 1);
        let nonce = Nonce::of_kind(0xFFFF_FFFF_0000_0001 - len as u64, 3);
        let [sealed, expected] = [&own, &any].map(|cipher| {
            let mut sealed = body.clone();
            cipher.seal(nonce, &bound, &mut sealed, 0);
            sealed
        });
        assert!(sealed == expected, "{len} bytes");
        for cipher in [&own, &any] {
            assert_eq!(
                cipher.open(nonce, &bound, &mut sealed.clone()),
                Some(&*body)
            );
            let mut apart = vec![0; len];
            assert!(cipher.open_into(nonce, &bound, &sealed, &mut apart) && apart == body);
            let mut bad = sealed.clone();
            let bit = (len * 31) % (bad.len() * 8);
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(cipher.open(nonce, &bound, &mut bad), None, "{len} bytes");
            if !bound.is_empty() {
                assert!(!cipher.open_into(nonce, &bound[1..], &sealed, &mut apart));
            }
            let mut short = vec![0; len + 1];
            assert!(!cipher.open_into(nonce, &bound, &sealed, &mut short));
        }
    }
}

/// These bytes are the format. Keys that are derived in another way, or another cipher, open no
/// existing bytes.
#[test]
fn golden_bytes() {
    let sealed = |what, id| {
        let mut body = b"plaintext".to_vec();
        let cipher = secrets(1).cipher(what, id, &[3; SALT_BYTES]);
        cipher.seal(Nonce::at(4096), b"bound", &mut body, 0);
        hex(&body)
    };
    let found = [
        sealed(Use::Table, 7),
        sealed(Use::CommitLog, 7),
        sealed(Use::FramedLog("MANIFEST-000007"), 7),
        sealed(Use::File("value extent"), 7),
        sealed(Use::DataKey, 0),
        hex(&seal_pieces(&secrets(1), "heat", 0, b"plaintext")),
        hex(&table_bytes(&secrets(1), Codec::None, 2)),
        Key::new([1; KEY_BYTES]).fingerprint(),
    ];
    assert_eq!(found, GOLDEN);
}

/// The first five were also computed by another implementation of HKDF and AES-GCM.
const GOLDEN: [&str; 8] = [
    "29d63429372fd0200d954f88dd733f254e339b94eb3ce06411",
    "d8a2590b2e8c2917943fc7bae7f05a26306b2b2439f504f5c9",
    "4a47b8af15b8887b8c2bbf78878a1c0325f58211b014e73154",
    "dda8e11fd2a675f22b43ff3d5b8c41a7089da338cec6b96f42",
    "1d77200378e33fdb2ce5e6457f0a23c95825659056e091fef6",
    "9b44875d5621806ee005cabc2289d5c6fbc75e03d5897b78f38428d5905cebd8d8b69a754766e91334",
    "b5dd252b5c0b2015ae14ff6c7bba0462cd85addb3adbca959454a0c4c7b48e9945939e863ae82d59ccec7f13d6410f89\
     c32dc630ae9430c049b5135e65fb39a60083e97a83884c45d13a478af972f154a89d2be8bf4e2b09e3cf26d034fd5d58\
     05e272b2cdfde543082446005382495f88570378eb27ae5642c9b37f69d3e92be58bc076f5e22b572d4b1c39370c256b\
     652903ade6719e13dfd19bcee11c322e117da8e80f8261e5cd3153d50e5a3e030781566b801da7413116f5f8c35b8e5d\
     cd00dcf85c5e82e559b0dcd402ed80d39afae4b5a1e8cde9dc4dc19455509ebca7de8261df5e6be52600ca6284ebf651\
     3b43eec03adf0c580d72247ba69edad4a877f6667ced524e704baa04fb84be7e9c5378414fe4202766be12e47ca9c91b\
     4dfc598e4f15e5de7d9400c8a727359b44875d5621806ee005cabc2289d5c642fcf654ee4efc9781e038a6f87cbda170\
     00000000000000560000000000000028000000000000004100000000000000070000000000000003000000021227c945\
     56454e5441424c",
    "1f83315042d2a403",
];

#[test]
fn fresh_numbers_do_not_repeat() {
    let secrets = Secrets::new(Key::new([1; KEY_BYTES])).unwrap();
    let again = Secrets::new(Key::new([1; KEY_BYTES])).unwrap();
    let mut all: Vec<[u8; NONCE_BYTES]> = (0..1000).map(|_| secrets.fresh()).collect();
    all.extend((0..1000).map(|_| again.fresh::<NONCE_BYTES>()));
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 2000);
    assert!(Key::random().unwrap().fingerprint() != Key::random().unwrap().fingerprint());
}

#[test]
fn pieces_of_any_length_come_back_whole() {
    let secrets = secrets(1);
    for len in [0, 1, 65_535, 65_536, 65_537, 200_000] {
        let body: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let (mut sealer, salt) = PieceSealer::new(&secrets, "kind", 5);
        let mut sealed = salt.to_vec();
        for part in body.chunks(777) {
            let mut out = |bytes: &[u8]| {
                sealed.extend_from_slice(bytes);
                Ok(())
            };
            sealer.push(part, &mut out).unwrap();
        }
        let mut out = |bytes: &[u8]| {
            sealed.extend_from_slice(bytes);
            Ok(())
        };
        sealer.finish(&mut out).unwrap();
        assert_eq!(
            open_pieces(&secrets, "kind", 5, &sealed),
            Some(body.clone())
        );
        assert_eq!(
            open_pieces(&secrets, "kind", 6, &sealed).unwrap_or_default(),
            []
        );
        let again = seal_pieces(&secrets, "kind", 5, &body);
        assert!(again[..16] != sealed[..16], "a salt twice");
        if len > 0 {
            let mut bad = again;
            let middle = bad.len() / 2;
            bad[middle] ^= 1;
            assert_eq!(open_pieces(&secrets, "kind", 5, &bad), None);
        }
        assert_eq!(open_pieces(&secrets, "kind", 5, &sealed[..10]), None);
    }
}

fn options(codec: Codec) -> TableOptions {
    TableOptions {
        block_bytes: 256,
        restart_interval: 4,
        codec,
        zstd_level: 1,
        filter_bits_per_key: 10,
    }
}

const ID: TableId = TableId(7);

fn table_bytes(secrets: &Secrets, codec: Codec, records: u64) -> Vec<u8> {
    let mut writer = TableWriter::new(Vec::new(), ID, options(codec)).sealed(Some(secrets));
    for number in 0..records {
        let key = format!("plaintext {number:06}");
        writer
            .add(EntryRef {
                key: key.as_bytes(),
                version: Version(number),
                kind: Kind::Put,
                value: b"plaintext plaintext plaintext",
            })
            .unwrap();
    }
    let (bytes, meta) = writer.finish().unwrap();
    assert_eq!(meta.len, bytes.len() as u64);
    bytes
}

/// The table in a file of a database with this secret, or a plain one.
fn open(bytes: &[u8], secrets: Option<Secrets>) -> crate::Result<Table> {
    let sim: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
    let vfs = match secrets {
        Some(secrets) => Arc::new(SealedVfs::new(sim, secrets)) as Arc<dyn Vfs>,
        None => sim,
    };
    let file = vfs.create(Path::new("/table")).unwrap();
    file.write_at(bytes, 0).unwrap();
    Table::open(file, 0, bytes.len() as u64, ID)
}

fn scan(table: Table) -> crate::Result<u64> {
    let mut cursor = TableCursor::new(Arc::new(table), 4);
    cursor.seek_first()?;
    let mut records = 0;
    while cursor.valid() {
        let entry = cursor.entry();
        assert_eq!(entry.key, format!("plaintext {records:06}").as_bytes());
        assert_eq!(entry.value, b"plaintext plaintext plaintext");
        records += 1;
        cursor.next()?;
    }
    Ok(records)
}

/// Small tables are kept whole, large ones are read block by block; compressed or not.
#[test]
fn tables_are_read_back_and_show_nothing() {
    for codec in [Codec::None, Codec::Lz4] {
        for records in [1, 50, 3000] {
            let bytes = table_bytes(&secrets(1), codec, records);
            assert!(!bytes.windows(9).any(|window| window == b"plaintext"));
            let table = open(&bytes, Some(secrets(1))).unwrap();
            table.verify().unwrap();
            for number in [0, records / 2, records - 1] {
                let key = format!("plaintext {number:06}");
                let found = table.get(key.as_bytes(), Version::MAX).unwrap().unwrap();
                let value = &found.block.bytes()[found.value.clone()];
                assert_eq!(value, b"plaintext plaintext plaintext");
            }
            assert_eq!(scan(table).unwrap(), records);
            let kind = |secrets| open(&bytes, secrets).map(|_| ()).unwrap_err().kind();
            assert_eq!(kind(None), ErrorKind::Unsupported);
            assert_eq!(kind(Some(secrets(2))), ErrorKind::Corruption);
        }
    }
    let plain = TableWriter::new(Vec::new(), ID, options(Codec::None));
    let (plain, _) = plain.finish().unwrap();
    let refused = open(&plain, Some(secrets(1))).map(|_| ()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corruption);
}

/// An attacker who changes bytes can make the checksums right: they need no key.
#[test]
fn bytes_that_somebody_made_are_refused_though_checksums_hold() {
    let bytes = table_bytes(&secrets(1), Codec::None, 200);
    let (mut refused, mut blocks) = (0, 0);
    let table = open(&bytes, Some(secrets(1))).unwrap();
    for ordinal in 0..table.block_count() {
        let place = table.place(ordinal);
        let (start, end) = (place.start as usize, place.end as usize);
        let mut bad = bytes.clone();
        bad[start + 3] ^= 1;
        let crc = crate::codec::checksum(ID.0, &[&place.start.to_le_bytes(), &bad[start..end - 4]]);
        bad[end - 4..end].copy_from_slice(&crc.to_le_bytes());
        blocks += 1;
        let forged = open(&bad, Some(secrets(1))).unwrap();
        let error = forged.read_block(ordinal).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(
            error.to_string().contains("not encrypted for this place"),
            "{error}"
        );
        let scanned = scan(open(&bad, Some(secrets(1))).unwrap());
        refused += usize::from(scanned.is_err());
    }
    assert!(blocks > 5 && refused == blocks, "{refused} of {blocks}");
    // The footer, whose checksum needs no key either, claims that the table has no filter.
    let mut bad = bytes.clone();
    let footer = bad.len() - 56;
    bad[footer + 40] ^= 1 ^ 2;
    assert!(open(&bad, Some(secrets(1))).is_err());
}

#[test]
fn frames_are_read_back_and_refused_elsewhere() {
    let sim: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
    let vfs = SealedVfs::new(sim.clone(), secrets(1));
    let path = Path::new("/LOG-000005");
    let mut log = FramedLogWriter::create(vfs.create(path).unwrap(), 5).unwrap();
    for number in 0..10 {
        let before = log.end();
        log.append(format!("plaintext {number}").as_bytes())
            .unwrap();
        assert_eq!(log.end() - before, log.frame_bytes(11));
    }
    let file = vfs.open(path, true).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    crate::vfs::read_exact_at(&*file, &mut bytes, 0).unwrap();
    assert!(!bytes.windows(9).any(|window| window == b"plaintext"));
    let mut seen = 0;
    let end = read_frames(&*file, 5, log.end(), &mut |_, payload| {
        assert_eq!(payload, format!("plaintext {seen}").as_bytes());
        seen += 1;
        Ok(())
    });
    assert_eq!((seen, end.unwrap()), (10, log.end()));
    // Without the key, with another key, or under another name, reading never ends silently.
    let mut none = |_: u64, _: &[u8]| Ok(());
    let plain = sim.open(path, false).unwrap();
    let kind = |result: crate::Result<u64>| result.unwrap_err().kind();
    assert_eq!(
        kind(read_frames(&*plain, 5, 0, &mut none)),
        ErrorKind::Unsupported
    );
    let other = SealedVfs::new(sim.clone(), secrets(2))
        .open(path, false)
        .unwrap();
    assert_eq!(
        kind(read_frames(&*other, 5, 0, &mut none)),
        ErrorKind::Corruption
    );
    let elsewhere = FrameCodec::of(Some(&secrets(1)), Path::new("/LOG-000006"), 5);
    assert!(matches!(
        elsewhere.decode(&bytes[24..], 24),
        FrameAt::Foreign
    ));
    let own = FrameCodec::of(Some(&secrets(1)), path, 5);
    assert!(matches!(own.decode(&bytes[24..], 24), FrameAt::Frame(_)));
    // A frame at its place is written again after a torn append, under another nonce.
    let first = bytes[32..32 + NONCE_BYTES].to_vec();
    let mut again = FramedLogWriter::resume(file, 5, 24).unwrap();
    again.append(b"plaintext 0").unwrap();
    let file = vfs.open(path, false).unwrap();
    let mut nonce = vec![0; NONCE_BYTES];
    crate::vfs::read_exact_at(&*file, &mut nonce, 32).unwrap();
    assert!(nonce != first);
}

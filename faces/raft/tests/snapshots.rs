//! Files of snapshots: they bring everything, damage and truncation are told and change nothing,
//! later versions are refused, and memory stays small. As openraft streams them: in chunks.

mod common;

use common::{Content, content_of, put, scramble, wait};
use evendb::vfs::{CrashMode, File, SimVfs, Vfs};
use evendb::{Advanced, ErrorKind, Options};
use evendb_raft::Result;
use evendb_raft::machine::{self, Answer, Command, KeyValue};
use evendb_raft::openraft09::{SnapshotFile, open as open_layer};
use evendb_raft::snapshot::{Piece, Reader, Writer};
use evendb_raft::state::Applied;
use evendb_raft::store::{Config, Store};
use openraft::storage::RaftStateMachine;
use openraft::{RaftSnapshotBuilder, entry::FromAppData};
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

openraft::declare_raft_types!(
    /// The ready state machine's types.
    pub Types: D = Command, R = Answer, SnapshotData = SnapshotFile
);

fn tiny(options: Options) -> Options {
    options
        .workers(0)
        .memory_budget(1 << 20)
        .advanced(|advanced: Advanced| {
            advanced
                .commit_log_bytes(64 << 10)
                .chunk_bytes(4096)
                .block_bytes(512)
        })
}

fn open(vfs: &SimVfs) -> Store {
    let config = Config::new().keyspace("users").keyspace("orders");
    let config = config
        .log_options(tiny)
        .state_options(tiny)
        .vfs(Arc::new(vfs.clone()));
    Store::open(Path::new("/node"), config).expect("opens")
}

async fn fill(store: &Store, entries: u64) -> Result<()> {
    let mut effects = store.state.effects();
    for index in 1..=entries {
        machine::run(common::command(index, 1), &mut effects).await?;
        let membership = (index == 1).then(|| b"members".to_vec());
        effects.applied(index, b"id".to_vec(), membership).await?;
    }
    effects.finish().await
}

fn content(store: &Store) -> Content {
    content_of(&store.state.moment().expect("is taken"))
}

fn read_all(file: Arc<dyn File>) -> Result<u64> {
    let mut reader = Reader::new(file)?;
    let mut records = 0;
    while let Some(piece) = reader.next_piece()? {
        records += u64::from(matches!(piece, Piece::Record(..)));
    }
    Ok(records)
}

/// A snapshot's bytes, and the content that it has.
fn sample() -> (Vec<u8>, Content) {
    let vfs = SimVfs::new(1);
    let store = open(&vfs);
    wait(fill(&store, 300)).expect("is applied");
    let moment = store.state.moment().expect("is taken");
    let kept = store.write_snapshot(&moment).expect("is written");
    (vfs.read_file(kept.file.path()), content(&store))
}

fn about() -> Applied {
    Applied {
        last: Some((300, b"id".to_vec())),
        membership: b"members".to_vec(),
    }
}

#[test]
fn a_snapshot_brings_everything_and_survives_an_opening() {
    let (bytes, expected) = sample();
    let vfs = SimVfs::new(2);
    let store = open(&vfs);
    wait(fill(&store, 20)).expect("is applied");
    let file = store.shelf.new_part().expect("is made");
    file.write_at(&bytes, 0).expect("is written");
    let kept = store.install(&file, &about()).expect("is installed");
    assert_eq!(content(&store), expected);
    assert_eq!(store.state.applied(), about());
    drop(store);
    let store = open(&vfs.crash(CrashMode::PowerLossNothing));
    assert_eq!(content(&store), expected);
    assert_eq!(store.state.applied(), about());
    let current = store.shelf.current().expect("is kept");
    assert_eq!((current.name, current.about), (kept.name, about()));
    assert_eq!(
        read_all(current.file).expect("is whole"),
        expected.len() as u64
    );
}

#[test]
fn every_damaged_byte_is_told_and_changes_nothing() {
    let (bytes, _) = sample();
    let vfs = SimVfs::new(3);
    let store = open(&vfs);
    wait(fill(&store, 20)).expect("is applied");
    let before = content(&store);
    // Every byte of the beginning and of the end, and some of the rest.
    let ends = (0..200).chain(bytes.len() - 60..bytes.len());
    let some = (0..150).map(|number| scramble(number) as usize % bytes.len());
    for at in ends.chain(some) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let file = store.shelf.new_part().expect("is made");
        file.write_at(&damaged, 0).expect("is written");
        let error = store.install(&file, &about()).expect_err("is damaged");
        assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at}: {error}");
        assert_eq!(store.state.applied_index(), Some(20));
    }
    for len in (0..bytes.len()).step_by(97).chain([bytes.len() - 1]) {
        let file = store.shelf.new_part().expect("is made");
        file.write_at(&bytes[..len], 0).expect("is written");
        let error = store.install(&file, &about()).expect_err("is cut");
        assert_eq!(error.kind(), ErrorKind::Corruption, "{len} bytes: {error}");
    }
    assert_eq!(content(&store), before);
    // Nothing is left of them: one generation of keyspaces, and no file.
    let names = store.state.db().keyspace_names();
    assert_eq!(
        names.iter().filter(|name| name.contains('/')).count(),
        2,
        "{names:?}"
    );
    assert_eq!(
        vfs.file_names(Path::new("/node/snapshots")),
        Vec::<String>::new()
    );
}

#[test]
fn a_longer_or_foreign_file_is_refused() {
    let (mut bytes, _) = sample();
    let store = open(&SimVfs::new(4));
    let install = |bytes: &[u8], about: &Applied| {
        let file = store.shelf.new_part().expect("is made");
        file.write_at(bytes, 0).expect("is written");
        store
            .install(&file, about)
            .map(drop)
            .expect_err("is refused")
            .kind()
    };
    let other = Applied {
        last: Some((301, b"id".to_vec())),
        ..about()
    };
    assert_eq!(install(&bytes, &other), ErrorKind::Corruption);
    bytes.push(0);
    assert_eq!(install(&bytes, &about()), ErrorKind::Corruption);
    // A later version, with a header that verifies.
    bytes[8] = 2;
    let sum = xxhash_rust::xxh3::xxh3_64(&bytes[..20]);
    bytes[20..28].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(install(&bytes, &about()), ErrorKind::Unsupported);
}

#[test]
fn a_file_that_claims_a_long_frame_takes_no_memory() {
    let (bytes, _) = sample();
    let vfs = SimVfs::new(5);
    let mut claims = bytes[..40].to_vec();
    claims[28..32].copy_from_slice(&u32::MAX.to_le_bytes());
    let file = vfs.create(Path::new("/claims")).expect("is made");
    file.write_at(&claims, 0).expect("is written");
    assert_eq!(
        Reader::new(file).map(drop).expect_err("is cut").kind(),
        ErrorKind::Corruption
    );
}

#[test]
fn records_longer_than_a_frame_and_empty_keyspaces_go_through() {
    let vfs = SimVfs::new(6);
    let file = vfs.create(Path::new("/file")).expect("is made");
    let mut writer = Writer::new(file.clone(), &about()).expect("begins");
    writer.keyspace("empty").expect("is written");
    writer.keyspace("users").expect("is written");
    let long = vec![7; 300_000];
    for (key, value) in [(&b"a"[..], &long[..]), (b"b", b""), (b"c", &long)] {
        writer.record(key, value).expect("is written");
    }
    writer.finish().expect("is written");
    let mut reader = Reader::new(file).expect("begins");
    let mut pieces = Vec::new();
    while let Some(piece) = reader.next_piece().expect("is read") {
        pieces.push(piece);
    }
    let record = |key: &[u8], value: &[u8]| Piece::Record(key.to_vec(), value.to_vec());
    let keyspace = |name: &str| Piece::Keyspace(name.to_owned());
    let expected = [
        keyspace("empty"),
        keyspace("users"),
        record(b"a", &long),
        record(b"b", b""),
        record(b"c", &long),
    ];
    assert!(pieces == expected);
}

/// As openraft's default transport does it, with chunks that do not fit pieces or frames.
#[test]
fn a_snapshot_is_streamed_in_chunks_through_the_layer() {
    let dir = tempfile::tempdir().expect("is made");
    let config = || Config::new().keyspace("users");
    let opened = open_layer::<Types, _>(dir.path().join("one"), config(), KeyValue);
    let (_log, mut from) = opened.expect("opens");
    let opened = open_layer::<Types, _>(dir.path().join("two"), config(), KeyValue);
    let (_log, mut to) = opened.expect("opens");
    wait(async {
        let entries = (1..=400u64).map(|index| {
            let value = vec![index as u8; 3000];
            let command = Command::Batch(vec![put("users", &index.to_be_bytes(), &value)]);
            let mut entry = openraft::Entry::<Types>::from_app_data(command);
            entry.log_id.index = index;
            entry
        });
        from.apply(entries.collect::<Vec<_>>())
            .await
            .expect("is applied");
        let mut builder = from.get_snapshot_builder().await;
        let mut sent = builder.build_snapshot().await.expect("is built");
        let mut received = to.begin_receiving_snapshot().await.expect("begins");
        let mut offset = 0;
        loop {
            sent.snapshot
                .seek(std::io::SeekFrom::Start(offset))
                .await
                .expect("moves");
            let mut chunk = vec![0; 100_003];
            let read = sent.snapshot.read(&mut chunk).await.expect("is read");
            if read == 0 {
                break;
            }
            received
                .seek(std::io::SeekFrom::Start(offset))
                .await
                .expect("moves");
            received
                .write_all(&chunk[..read])
                .await
                .expect("is written");
            offset += read as u64;
        }
        received.shutdown().await.expect("is written");
        assert!(offset > 400 * 3000);
        to.install_snapshot(&sent.meta, received)
            .await
            .expect("is installed");
        let current = to
            .get_current_snapshot()
            .await
            .expect("is read")
            .expect("is kept");
        assert_eq!(current.meta, sent.meta);
        let contents = [&from, &to].map(|one| content_of(&one.state().moment().expect("is taken")));
        assert!(contents[0] == contents[1] && contents[0].len() == 400);
    });
}

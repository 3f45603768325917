//! A record that a job loses is noticed, nothing of the job is published, and the old state stays.

use super::*;
use crate::merge::{Dropping, Source};
use crate::plant::Plant;
use crate::version::horizon::Horizon;
use crate::{Db, Options};
use evendb_storage::vfs::SimVfs;
use evendb_storage::{EntryRef, Version};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";

/// Puts of one version each; the source claims another number of records.
struct Claiming {
    keys: Vec<&'static str>,
    held: Held,
}

impl Source for Claiming {
    fn held(&self) -> Held {
        self.held
    }

    fn current(&self) -> Option<EntryRef<'_>> {
        let key = self.keys.first()?;
        Some(EntryRef {
            key: key.as_bytes(),
            version: Version(1),
            kind: Kind::Put,
            value: b"",
        })
    }

    fn advance(&mut self) -> Result<()> {
        self.keys.remove(0);
        Ok(())
    }
}

/// Merges two sources, where the second has one key of the first, and counts.
fn merged(held: Held, written: u64, written_deletes: u64) -> Result<()> {
    let horizon = Horizon::default();
    let sources: Vec<Box<dyn Source>> = vec![
        Box::new(Claiming {
            keys: vec!["a", "b"],
            held,
        }),
        Box::new(Claiming {
            keys: vec!["b", "c"],
            held: Held::exactly(2),
        }),
    ];
    let dropping = Dropping {
        horizon: &horizon,
        bottom: true,
        zero_below: Version::MAX,
    };
    let mut merge = Merge::new(sources, dropping)?;
    let mut count = Count::default();
    count.begin(&merge);
    while merge.current().is_some() {
        merge.advance()?;
    }
    let table = TableMeta {
        entries: written,
        deletes: written_deletes,
        ..TableMeta::default()
    };
    count.add(&merge, [&table].into_iter());
    count.check(|| "a job".into())
}

#[test]
fn every_record_is_written_or_dropped_for_a_reason() {
    // a, b, c are kept; the second b is a twin.
    merged(Held::exactly(2), 3, 0).expect("they agree");
    merged(Held::at_most(5), 3, 0).expect("some may lie outside");
    for (held, written, deletes) in [
        (Held::exactly(2), 2, 0),
        (Held::exactly(2), 4, 0),
        (Held::exactly(2), 3, 1),
        (Held::exactly(3), 3, 0),
        (Held::exactly(1), 3, 0),
        (Held::at_most(1), 3, 0),
    ] {
        let error = merged(held, written, deletes).expect_err("they differ");
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
}

#[test]
fn a_merge_that_goes_on_counts_each_record_once() {
    let horizon = Horizon::default();
    let dropping = Dropping {
        horizon: &horizon,
        bottom: false,
        zero_below: Version::MAX,
    };
    let rest = |keys: &[&'static str]| -> Result<Merge<'static>> {
        let held = Held::exactly(keys.len() as u64);
        let keys = keys.to_vec();
        Merge::new(vec![Box::new(Claiming { keys, held })], dropping)
    };
    let one = TableMeta {
        entries: 1,
        ..TableMeta::default()
    };
    let mut count = Count::default();
    for keys in [&["a", "b"][..], &["b"], &[]] {
        let mut merge = rest(keys).expect("no I/O");
        count.begin(&merge);
        if merge.current().is_some() {
            merge.advance().expect("no I/O");
            count.add(&merge, [&one].into_iter());
        }
    }
    count.check(|| "a job".into()).expect("two of two");
}

fn open(vfs: &SimVfs, plant: Plant) -> Db {
    let mut options = Options::new().workers(0).vfs(Arc::new(vfs.clone()));
    options.plant = plant;
    options.open(DIR).expect("it opens")
}

fn put_all(db: &Db, round: usize) {
    for number in 0..100 {
        db.put(format!("key{number:02}"), format!("{round}"))
            .expect("there is room");
    }
}

fn assert_whole(db: &Db, round: usize) {
    for number in 0..100 {
        let value = db.get(format!("key{number:02}")).expect("it can be read");
        assert_eq!(
            value.as_deref(),
            Some(round.to_string().as_bytes()),
            "{number}"
        );
    }
    assert_eq!(db.iter().count(), 100);
}

fn tables(vfs: &SimVfs) -> usize {
    let names = vfs.file_names(Path::new(DIR));
    names.iter().filter(|name| name.ends_with(".sst")).count()
}

#[test]
fn a_rewrite_that_loses_a_record_latches_and_the_data_stays() {
    let vfs = SimVfs::new(1);
    let db = open(&vfs, Plant::RewriteLosesRecord);
    for round in 0..2 {
        put_all(&db, round);
        db.flush().expect("a checkpoint loses nothing");
    }
    let before = tables(&vfs);
    let error = db.compact().expect_err("ten keys end with a 7");
    assert_eq!(error.kind(), ErrorKind::Latched);
    assert!(
        error.to_string().contains("100 kept (0 deletes) 90"),
        "{error}"
    );
    assert!(error.to_string().contains("/db/"), "{error}");
    assert_eq!(tables(&vfs), before, "the new tables are gone");
    let refused = db.put("more", "").expect_err("it is latched");
    assert_eq!(refused.kind(), ErrorKind::Latched);
    assert_whole(&db, 1);
    drop(db);
    let db = open(&vfs, Plant::Nothing);
    assert_whole(&db, 1);
    db.compact().expect("nothing is lost now");
    assert_whole(&db, 1);
}

#[test]
fn a_checkpoint_that_loses_a_record_latches_and_the_data_stays() {
    let vfs = SimVfs::new(1);
    let db = open(&vfs, Plant::Nothing);
    put_all(&db, 0);
    db.close().expect("nothing failed");
    let db = open(&vfs, Plant::RunLosesRecord);
    put_all(&db, 1);
    db.persist().expect("the commit log has it all");
    let error = db.flush().expect_err("ten keys end with a 7");
    assert_eq!(error.kind(), ErrorKind::Corruption);
    let refused = db.put("more", "").expect_err("it is latched");
    assert_eq!(refused.kind(), ErrorKind::Latched);
    assert_whole(&db, 1);
    drop(db);
    assert_whole(&open(&vfs, Plant::Nothing), 1);
}

//! Properties of keyspaces: what they survive, and their state after crashes and faults in the
//! middle.

mod common;

use common::damage::inspect_options;
use common::{DIR, LEVELS, on_sim};
use evendb::inspect::{Dump, DumpItem, DumpOptions, DumpValue, RepairOptions, dump, repair};
use evendb::vfs::{CrashMode, Fault, FaultKind, FaultOn, SimEventKind, SimVfs};
use evendb::{Db, Durability, ErrorKind, Keyspace};
use std::ops::ControlFlow;
use std::path::Path;

fn open(vfs: &SimVfs) -> Db {
    on_sim(vfs, Durability::Process, 0)
        .open(DIR)
        .expect("opens")
}

/// The properties `a` and `b`.
fn both(keyspace: &Keyspace) -> [Option<Vec<u8>>; 2] {
    ["a", "b"].map(|name| keyspace.property(name).expect("reads"))
}

fn values(a: Option<&str>, b: Option<&str>) -> [Option<Vec<u8>>; 2] {
    [a, b].map(|value| value.map(|text| text.as_bytes().to_vec()))
}

/// Sets, replaces and removes properties of each keyspace, and sets an empty one.
fn fill(db: &Db) {
    let other = db.keyspace("other").expect("creates");
    let default = db.default_keyspace();
    for (name, value) in [("a", "first"), ("b", "b"), ("a", "second")] {
        default.set_property(name, value).expect("sets");
    }
    default.remove_property("b").expect("removes");
    default
        .remove_property("never there")
        .expect("nothing to do");
    other.set_property("b", "").expect("sets");
    other.put("key", "value").expect("puts");
}

fn check(db: &Db) {
    let other = db.keyspace("other").expect("is there");
    assert_eq!(both(db.default_keyspace()), values(Some("second"), None));
    assert_eq!(both(&other), values(None, Some("")));
}

#[test]
fn properties_survive_every_end() {
    for level in LEVELS {
        for mode in [CrashMode::Process, CrashMode::PowerLossNothing] {
            let vfs = SimVfs::new(1);
            let db = on_sim(&vfs, level, 0).open(DIR).expect("opens");
            fill(&db);
            check(&db);
            let machine = vfs.crash(mode);
            drop(db);
            check(&open(&machine));
            let options = on_sim(&machine, level, 0).read_only(true);
            let reader = options.open(DIR).expect("opens");
            check(&reader);
            let refused = reader.default_keyspace().set_property("a", "x");
            assert_eq!(refused.expect_err("refuses").kind(), ErrorKind::ReadOnly);
        }
    }
}

#[test]
fn copies_and_repairs_have_the_properties_and_dumps_show_them() {
    let vfs = SimVfs::new(1);
    let db = open(&vfs);
    fill(&db);
    db.copy_to("/copy").expect("copies");
    db.close().expect("closes");
    check(
        &on_sim(&vfs, Durability::Process, 0)
            .open("/copy")
            .expect("opens"),
    );
    let options = RepairOptions::default();
    let report = repair(DIR, "/saved", options, inspect_options(&vfs)).expect("repairs");
    assert!(report.losses.is_empty(), "{:#?}", report.losses);
    check(
        &on_sim(&vfs, Durability::Process, 0)
            .open("/saved")
            .expect("opens"),
    );

    let mut seen = Vec::new();
    let mut see = |item: DumpItem| {
        let field = |wanted: &str| {
            let found = item.fields.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| value.clone())
        };
        if let (Some(DumpValue::Text(what)), Some(DumpValue::Text(name))) =
            (field("what"), field("name"))
        {
            seen.push((what, name, field("value")));
        }
        ControlFlow::Continue(())
    };
    let options = DumpOptions::default();
    dump(
        DIR,
        &Dump::Manifest,
        &options,
        inspect_options(&vfs),
        &mut see,
    )
    .expect("dumps");
    let bytes = |text: &str| Some(DumpValue::Bytes(text.as_bytes().to_vec()));
    let set = |name: &str, value: &str| ("set-property".to_owned(), name.to_owned(), bytes(value));
    assert!(seen.contains(&set("a", "second")), "{seen:?}");
    assert!(seen.contains(&("remove-property".to_owned(), "b".to_owned(), None)));
}

#[test]
fn a_keyspace_of_the_same_name_begins_without_properties() {
    let vfs = SimVfs::new(1);
    let db = open(&vfs);
    let old = db.keyspace("other").expect("creates");
    old.set_property("a", "1").expect("sets");
    db.drop_keyspace("other").expect("drops");
    let new = db.keyspace("other").expect("creates");
    assert_eq!(both(&new), values(None, None));
    for outcome in [old.property("a").map(drop), old.set_property("a", "2")] {
        assert_eq!(
            outcome.expect_err("gone").kind(),
            ErrorKind::KeyspaceDropped
        );
    }
    db.close().expect("closes");
    for outcome in [new.property("a").map(drop), new.set_property("a", "2")] {
        assert_eq!(outcome.expect_err("closed").kind(), ErrorKind::Closed);
    }
    let db = open(&vfs);
    assert_eq!(
        both(&db.keyspace("other").expect("is there")),
        values(None, None)
    );
}

#[test]
fn limits_are_errors_that_change_nothing() {
    let vfs = SimVfs::new(1);
    let db = open(&vfs);
    let keyspace = db.default_keyspace();
    let refuses = |name: &str, bytes: usize| {
        let error = keyspace.set_property(name, vec![b'x'; bytes]);
        assert_eq!(
            error.expect_err("refuses").kind(),
            ErrorKind::InvalidArgument
        );
    };
    // A layout that was chosen is a property too.
    let options = keyspace.options().expect("reads");
    let own = options
        .chosen()
        .map(|(name, value)| "evendb.option.".len() + name.len() + value.len());
    let most = (16 << 10) - 1 - own.sum::<usize>();
    refuses("", 1);
    refuses(&"n".repeat(256), 1);
    refuses("a", most + 1);
    keyspace
        .set_property("a", vec![b'x'; most - 1])
        .expect("fits");
    refuses("b", 1);
    keyspace.set_property("a", "x").expect("replaces");
    keyspace
        .set_property("b", "x")
        .expect("there is room again");
    assert_eq!(both(keyspace), values(Some("x"), Some("x")));
}

/// Sets properties until the manifest is rotated, and one in the other keyspace before all of them.
fn rotate(db: &Db, until: u64) -> evendb::Result<u64> {
    let other = db.keyspace("other")?;
    other.set_property("b", "kept")?;
    for number in 0..until {
        let value = format!("{number:>16000}");
        db.default_keyspace().set_property("a", value)?;
    }
    Ok(until)
}

#[test]
fn properties_survive_rotations_and_crashes_in_them() {
    let vfs = SimVfs::new(1);
    vfs.trace(true);
    let db = open(&vfs);
    rotate(&db, 300).expect("sets");
    let trace = vfs.take_trace();
    drop(db);
    let of = |kind, name: &str| {
        let found = trace
            .iter()
            .find(|event| event.kind == kind && event.path.ends_with(name));
        found.unwrap_or_else(|| panic!("{name}")).op
    };
    let created = of(SimEventKind::Create, "MANIFEST-000002");
    let removed = of(SimEventKind::Remove, "MANIFEST-000001");
    assert!(
        !vfs.file_names(Path::new(DIR))
            .contains(&"MANIFEST-000001".into())
    );
    for at in created - 3..removed + 6 {
        let vfs = SimVfs::new(1);
        vfs.set_crash_at(at);
        let db = open(&vfs);
        let other = db.keyspace("other").expect("creates");
        other.set_property("b", "kept").expect("sets");
        let mut acknowledged = None;
        for number in 0..300 {
            let set = db
                .default_keyspace()
                .set_property("a", format!("{number:>16000}"));
            if set.is_err() || vfs.crashed() {
                break;
            }
            acknowledged = Some(number);
        }
        let acknowledged: u64 = acknowledged.expect("some before the rotation");
        for mode in [
            CrashMode::Process,
            CrashMode::PowerLossNothing,
            CrashMode::PowerLossAll,
            CrashMode::PowerLossRandom(7),
        ] {
            let machine = vfs.crash(mode);
            let db = open(&machine);
            let value = db.default_keyspace().property("a").expect("reads");
            let text = String::from_utf8(value.expect("is set")).expect("text");
            let found: u64 = text.trim().parse().expect("a number");
            let may_be = [acknowledged, acknowledged + 1];
            assert!(
                may_be.contains(&found),
                "{at} {mode:?}: {found}, {acknowledged}"
            );
            let other = db.keyspace("other").expect("is there");
            assert_eq!(both(&other), values(None, Some("kept")), "{at} {mode:?}");
        }
        drop(db);
    }
}

/// Sets `a` until it fails; the properties seen then are those that were set before.
fn set_until_failure(keyspace: &Keyspace) -> (ErrorKind, [Option<Vec<u8>>; 2]) {
    // The room reserved for edits is enough for some edits.
    for number in 0..200 {
        let before = both(keyspace);
        if let Err(error) = keyspace.set_property("a", format!("{number:>9999}")) {
            assert!(both(keyspace) == before, "a failed edit is seen");
            return (error.kind(), before);
        }
    }
    panic!("it never failed");
}

#[test]
fn a_full_disk_refuses_a_property_and_changes_nothing() {
    let vfs = SimVfs::new(1);
    let db = open(&vfs);
    let keyspace = db.default_keyspace();
    vfs.set_capacity(vfs.used_bytes());
    let (kind, before) = set_until_failure(keyspace);
    assert_eq!(kind, ErrorKind::NoSpace);
    vfs.set_capacity(u64::MAX);
    keyspace.set_property("b", "later").expect("there is room");
    assert!(keyspace.property("a").expect("reads") == before[0]);
}

#[test]
fn a_failed_edit_is_not_seen_and_latches() {
    let vfs = SimVfs::new(1);
    let db = open(&vfs);
    let keyspace = db.default_keyspace();
    keyspace.set_property("a", "old").expect("sets");
    vfs.inject(Fault {
        at: 0,
        on: FaultOn::Change,
        kind: FaultKind::Eio,
        sticky: true,
        path_contains: Some("MANIFEST".into()),
    });
    let (kind, before) = set_until_failure(keyspace);
    assert_eq!(kind, ErrorKind::Io);
    vfs.clear_faults();
    let error = keyspace.set_property("a", "later").expect_err("latched");
    assert_eq!(error.kind(), ErrorKind::Latched);
    assert!(both(keyspace) == before);
}

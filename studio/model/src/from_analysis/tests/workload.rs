//! Traces of several keyspaces: each has its model, and the whole has their sums.

use super::*;
use crate::workload::Workload;

/// The figures of a load, as of a keyspace of this name.
fn of_keyspace(name: &str, load: &Load, values: &Sizes, scans: &Sizes) -> Document {
    let mut found = document(load, values, scans);
    for figure in &mut found.figures {
        for row in &mut figure.rows {
            if row[0] == "app" {
                row[0] = json!(name);
            }
        }
    }
    found
}

/// The figures of two keyspaces. The first has a third of the operations of the second.
fn of_two(names: [&str; 2]) -> (Document, [Load; 2]) {
    let (mut few, many) = (zippydb(0.6), zippydb(0.3467));
    few.operations /= 3;
    let mut found = of_keyspace(
        names[0],
        &few,
        &Sizes::constant(40),
        &pareto(0.5, 14.0, 10_000),
    );
    let others = of_keyspace(
        names[1],
        &many,
        &pareto(0.2615, 25.45, 1024),
        &Sizes::constant(7),
    );
    let second = names[1];
    for (figure, other) in found.figures.iter_mut().zip(others.figures) {
        let rows = other.rows.into_iter();
        figure.rows.extend(rows.filter(|row| row[0] == second));
    }
    let row = |name: &str, load: &Load| vec![json!(name), json!(load.pairs), json!(1)];
    let rows = vec![row(names[0], &few), row(second, &many)];
    let columns = ["keyspace", "stored", "accessed"];
    found.figures.push(figure("stored-keys", &columns, rows));
    (found, [few, many])
}

#[test]
fn each_keyspace_of_a_trace_has_its_model() {
    let (found, [few, many]) = of_two(["few", "many"]);
    let made = make_workload(&found, &Known::default()).unwrap();
    let notes = made.notes.join("\n");
    let workload = &made.workload;
    let names: Vec<&str> = workload.keyspaces.iter().map(|one| &*one.name).collect();
    // The busiest comes first. The third has five puts.
    assert_eq!(names, ["many", "few", "other"], "{notes}");
    let operations = |load: &Load| (load.operations + load.operations / 9) as f64;
    let all = operations(&few) + operations(&many) + 5.0;
    assert!((workload.operations as f64 - all).abs() <= 2.0);
    for (keyspace, load, b) in [
        (&workload.keyspaces[0], &many, 0.3467),
        (&workload.keyspaces[1], &few, 0.6),
    ] {
        let share = operations(load) / all;
        assert!((keyspace.share - share).abs() < 1e-5, "{}", keyspace.share);
        let model = &keyspace.load;
        assert!((model.mix.get - 0.9).abs() < 1e-5, "{}", model.mix.get);
        assert_eq!(model.pairs, load.pairs);
        let fitted = model.ranges.as_ref().and_then(Ranges::shares).unwrap();
        let planted = load.ranges.shares().unwrap();
        for (planted, fitted) in planted.iter().zip(&fitted) {
            assert!(
                (planted - fitted).abs() < 0.005,
                "{planted} {fitted}\n{notes}"
            );
        }
        let Some(Accesses::Cumulative { b: fitted, .. }) = model.accesses else {
            panic!("{:?}\n{notes}", model.accesses)
        };
        assert!((fitted - b).abs() < 0.03, "{fitted} of {b}\n{notes}");
        assert!(
            notes.contains(&format!("{}, Keys: ", keyspace.name)),
            "{notes}"
        );
    }
    let sizes = |number: usize| &workload.keyspaces[number].load.values.loaded;
    assert_eq!(sizes(1), &Sizes::constant(40));
    let Spread::GeneralizedPareto { k, sigma, .. } = sizes(0).spread else {
        panic!("{notes}")
    };
    assert!((k - 0.2615).abs() < 0.03 && (sigma - 25.45).abs() < 1.0);
    let scans = workload.keyspaces[0].load.scans.as_ref();
    assert_eq!(scans, Some(&Sizes::constant(7)));
    // The rate of both together.
    let rate = workload.rate.unwrap();
    assert!((rate.a.abs() - 2000.0).abs() < 20.0, "{rate:?}");
    assert!((rate.d - 9000.0).abs() < 20.0, "{rate:?}");
    let again = Workload::from_toml(&made.to_toml().unwrap()).unwrap();
    assert_eq!(again, made.workload);
    // One of them alone is the same model.
    let one = Known {
        keyspace: Some("few".to_owned()),
        ..Known::default()
    };
    let alone = make_workload(&found, &one)
        .unwrap()
        .workload
        .only()
        .unwrap();
    assert_eq!(alone.accesses, workload.keyspaces[1].load.accesses);
    assert_eq!(alone.ranges, workload.keyspaces[1].load.ranges);
}

#[test]
fn what_several_keyspaces_cannot_have_is_told() {
    let (mut found, _) = of_two(["a\nb", "many"]);
    let pairs = Known {
        pairs: Some(5),
        ..Known::default()
    };
    let told = make_workload(&found, &pairs).unwrap_err().to_string();
    assert!(told.contains("several keyspaces"), "{told}");
    let length = Known {
        scan_length: Some(5),
        ..Known::default()
    };
    let told = make_workload(&found, &length).unwrap_err().to_string();
    assert!(told.contains("no length can be given"), "{told}");
    // A name that no model can have is another one, and the notes say so.
    let made = make_workload(&found, &Known::default()).unwrap();
    assert_eq!(made.workload.keyspaces[1].name, "keyspace 2");
    assert!(made.notes.join(" ").contains("is \"keyspace 2\" here"));
    let again = Workload::from_toml(&made.to_toml().unwrap()).unwrap();
    assert_eq!(again, made.workload);
    // A keyspace that has nothing a model can have is left out.
    for row in &mut found.figures[0].rows {
        if row[0] == "other" {
            row[1] = json!("commit");
        }
    }
    let made = make_workload(&found, &Known::default()).unwrap();
    assert_eq!(made.workload.keyspaces.len(), 2);
    let notes = made.notes.join("\n");
    assert!(notes.contains("Left out: keyspace \"other\""), "{notes}");
    // Where the length of scans is not known of one, it can be given for that one.
    for figure in &mut found.figures {
        if figure.id == "scan-lengths" {
            figure.rows.retain(|row| row[0] == "many");
        }
    }
    let made = make_workload(&found, &length).unwrap();
    let lengths = |number: usize| made.workload.keyspaces[number].load.scans.clone();
    assert_eq!(lengths(0), Some(Sizes::constant(7)));
    assert_eq!(lengths(1), Some(Sizes::constant(5)));
}

//! The loads of the study, by name. Their files are in `presets/` of this crate; they say what the
//! study printed and what it did not.

use crate::model::Model;
use crate::workload::Workload;

/// Names and texts of the presets.
const PRESETS: [(&str, &str); 5] = [
    ("zippydb", include_str!("../presets/zippydb.toml")),
    (
        "zippydb-kinds",
        include_str!("../presets/zippydb-kinds.toml"),
    ),
    ("udb", include_str!("../presets/udb.toml")),
    ("udb-assoc", include_str!("../presets/udb-assoc.toml")),
    ("up2x", include_str!("../presets/up2x.toml")),
];

/// The names of all presets.
pub fn names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}

/// The text of a preset's file.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    let preset = PRESETS.iter().find(|(known, _)| *known == name);
    preset.map(|(_, text)| *text)
}

/// A preset of one keyspace.
#[must_use]
pub fn named(name: &str) -> Option<Model> {
    workload(name)?.only()
}

/// A preset, of one keyspace or of several.
#[must_use]
pub fn workload(name: &str) -> Option<Workload> {
    // A test reads all of them, so that none is lost here.
    Workload::from_toml(text(name)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Accesses;
    use crate::counts::{Counts, expected};
    use crate::model::Kind;
    use crate::sizes::{Sizes, Spread};

    #[test]
    fn every_preset_is_read_and_comes_back() {
        for name in names() {
            let model = Workload::from_toml(text(name).unwrap());
            let model = model.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(model.name, name);
            let again = Workload::from_toml(&model.to_toml().unwrap()).unwrap();
            assert_eq!(again, model);
            // The column families of UDB are the only ones that the study has in one store.
            assert_eq!(named(name).is_none(), name == "udb");
        }
        assert_eq!(workload("unknown"), None);
    }

    fn family<'w>(udb: &'w Workload, name: &str) -> &'w Model {
        let found = udb.keyspaces.iter().find(|keyspace| keyspace.name == name);
        &found.unwrap().load
    }

    fn above(sizes: &Sizes, size: u64) -> f64 {
        1.0 - (sizes.least..=size)
            .map(|size| sizes.share(size))
            .sum::<f64>()
    }

    /// What the study's text prints of the six column families.
    #[test]
    fn udb_has_six_families_as_the_study_prints_them() {
        let udb = workload("udb").unwrap();
        let names: Vec<&str> = udb.keyspaces.iter().map(|one| &*one.name).collect();
        let printed = [
            "Object",
            "Assoc",
            "Assoc_count",
            "Object_2ry",
            "Assoc_2ry",
            "Non_SG",
        ];
        assert_eq!(names, printed);
        let day = udb.rate.unwrap().due(86_400.0);
        assert!((day / 455e6 - 1.0).abs() < 0.001, "{day}");
        // Section 4.1: no gets of secondary indexes, no deletions of counters.
        for name in ["Object_2ry", "Assoc_2ry"] {
            let family = family(&udb, name);
            assert_eq!(family.mix.get, 0.0);
            // Section 5: three sizes, below 8 bytes on average.
            let Spread::Histogram(bars) = &family.values.sizes.spread else {
                panic!("{name}")
            };
            let sizes: Vec<u64> = bars.iter().map(|(size, _)| *size).collect();
            assert_eq!(sizes, [1, 6, 16]);
            assert!(family.values.sizes.mean() < 8.0);
        }
        let scans = |name| family(&udb, name).mix.scan;
        assert!(scans("Object_2ry") > 0.5, "Iterator is the major kind");
        let count = family(&udb, "Assoc_count");
        assert_eq!((count.mix.delete, count.mix.scan), (0.0, 0.0));
        assert_eq!(
            (&count.keys, &count.values.sizes),
            (&Sizes::constant(20), &Sizes::constant(20))
        );
        // Section 5: sizes of keys and values.
        for keyspace in &udb.keyspaces {
            let mean = keyspace.load.keys.mean();
            match &*keyspace.name {
                "Assoc_2ry" => assert!((mean - 64.0).abs() < 1.0, "{mean}"),
                name => assert!((16.0..=30.0).contains(&mean), "{name} {mean}"),
            }
        }
        let object = &family(&udb, "Object").values.sizes;
        assert!((object.mean() / 1024.0 - 1.0).abs() < 0.05);
        assert!(above(object, 234) > 0.5 && above(object, 235) < 0.5);
        assert!(above(object, 1024) > 0.2);
        assert_eq!((object.least, object.most), (16, 10_000));
        // Assoc is that of the other preset.
        let (assoc, alone) = (family(&udb, "Assoc"), named("udb-assoc").unwrap());
        let expected = Model {
            name: "Assoc".to_owned(),
            about: String::new(),
            rate: None,
            ..alone
        };
        assert_eq!(*assoc, expected);
    }

    /// Section 4.2: how often keys are named, and how long scans are.
    #[test]
    fn udbs_families_have_the_counts_of_the_study() {
        let udb = workload("udb").unwrap();
        for keyspace in &udb.keyspaces {
            let (name, model) = (&*keyspace.name, &keyspace.load);
            let [gets, puts, scans] = [Kind::Get, Kind::Put, Kind::Scan].map(|kind| {
                let operations = model.operations as f64 * model.mix.share(kind);
                expected(model, kind, operations)
            });
            if let Some(gets) = gets {
                let twice = 1.0 - gets.once;
                assert_eq!(twice > 0.7, name == "Assoc", "{name}: {gets:?}");
                assert!(twice < 0.4 || name == "Assoc", "{name}: {gets:?}");
            }
            let puts = puts.unwrap();
            assert!(
                puts.once > 0.75 && puts.at_least_10 < 0.02,
                "{name}: {puts:?}"
            );
            let (Some(scans), Some(lengths)) = (scans, &model.scans) else {
                continue;
            };
            assert!(scans.once > 0.99, "{name}: {scans:?}");
            assert!(lengths.share(1) > 0.6, "{name}");
            let long = above(lengths, 100);
            let printed = match name {
                "Assoc" => 0.2,
                "Assoc_2ry" => 0.1,
                "Non_SG" => 0.05,
                _ => long,
            };
            assert!((long - printed).abs() < 1e-9, "{name}: {long}");
        }
    }

    #[test]
    fn zippydb_has_the_numbers_of_the_appendix() {
        let model = named("zippydb").unwrap();
        assert_eq!((model.pairs, model.operations), (50_000_000, 420_000_000));
        assert_eq!(
            (model.mix.get, model.mix.put, model.mix.scan),
            (0.83, 0.14, 0.03)
        );
        let (k, sigma, theta) = (0.2615, 25.45, 0.0);
        assert_eq!(
            model.values.sizes.spread,
            Spread::GeneralizedPareto { k, sigma, theta }
        );
        let (a, b) = (0.002312, 0.3467);
        assert_eq!(model.accesses, Some(Accesses::Cumulative { a, b }));
        let ranges = model.ranges.unwrap();
        assert_eq!(ranges.count, 30);
        assert_eq!(ranges.curve.parameters, [14.18, -2.917, 0.0164, -0.08082]);
        // A day at its rate is about its number of operations.
        let rate = model.rate.unwrap();
        assert!((rate.due(86_400.0) / 420e6 - 1.0).abs() < 0.1);
    }

    #[test]
    fn udb_keeps_what_was_printed() {
        let model = named("udb-assoc").unwrap();
        // Values from 10 to 200 bytes, about 50 on average; three of five scans of one pair, a
        // fifth above 100.
        assert!((model.values.sizes.mean() - 50.0).abs() < 3.0);
        let scans = model.scans.as_ref().unwrap();
        assert!(scans.share(1) > 0.6);
        let long: f64 = (101..=200).map(|length| scans.share(length)).sum();
        assert!((long - 0.2).abs() < 1e-9, "{long}");
        let [gets, puts, scans] = counts(&model, [Kind::Get, Kind::Put, Kind::Scan]);
        assert!(gets.once < 0.3, "{gets:?}");
        assert!(puts.once > 0.75 && puts.at_least_10 < 0.02, "{puts:?}");
        assert!(scans.once > 0.99, "{scans:?}");
    }

    fn counts<const N: usize>(model: &Model, kinds: [Kind; N]) -> [Counts; N] {
        let operations = model.operations as f64;
        kinds.map(|kind| expected(model, kind, operations * model.mix.share(kind)).unwrap())
    }

    /// The counts of the study, and how close a preset can come to them. Where it cannot, it is
    /// closer than the study's model.
    #[test]
    fn zippydb_by_kinds_has_the_counts_of_the_study() {
        let model = named("zippydb-kinds").unwrap();
        let kinds = [Kind::Get, Kind::Put, Kind::Delete, Kind::Scan];
        let [gets, puts, deletes, scans] = counts(&model, kinds);
        let near = |is: f64, wanted: f64, off: f64| (is - wanted).abs() <= off;
        assert!(near(gets.mean, 15.2, 0.2), "{gets:?}");
        assert!(
            near(puts.mean, 1.7, 0.02) && near(puts.once, 0.73, 0.01),
            "{puts:?}"
        );
        assert!(near(deletes.mean, 1.0, 0.15), "{deletes:?}");
        assert!(near(scans.mean, 10.9, 0.1), "{scans:?}");
        let [printed] = counts(&named("zippydb").unwrap(), [Kind::Get]);
        let closer = |of: fn(&Counts) -> f64, wanted: f64| {
            (of(&gets) - wanted).abs() < 0.8 * (of(&printed) - wanted).abs()
        };
        assert!(closer(|counts| counts.once, 0.8), "{gets:?} {printed:?}");
        assert!(
            closer(|counts| counts.of_those_above_100, 0.5),
            "{gets:?} {printed:?}"
        );
    }

    #[test]
    fn up2x_merges() {
        let model = named("up2x").unwrap();
        assert!(model.counts() && model.mix.merge > 0.92);
        let [gets, merges] = counts(&model, [Kind::Get, Kind::Merge]);
        let near = |is: f64, wanted: f64, off: f64| (is - wanted).abs() <= off;
        assert!(near(merges.at_least_10, 0.25, 0.01), "{merges:?}");
        assert!(near(merges.at_least_100, 0.04, 0.003), "{merges:?}");
        assert!(
            near(gets.at_least_10, 0.5, 0.02) && gets.at_least_100 < 0.01,
            "{gets:?}"
        );
        assert!(near(gets.keys / 470_000.0, 1.0, 0.02), "{gets:?}");
    }
}

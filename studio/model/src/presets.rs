//! The loads of the study, by name. Their files are in `presets/` of this crate; they say what the
//! study printed and what it did not.

use crate::model::Model;

/// Names and texts of the presets.
const PRESETS: [(&str, &str); 4] = [
    ("zippydb", include_str!("../presets/zippydb.toml")),
    (
        "zippydb-kinds",
        include_str!("../presets/zippydb-kinds.toml"),
    ),
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

/// A preset.
#[must_use]
pub fn named(name: &str) -> Option<Model> {
    // A test reads all of them, so that none is lost here.
    Model::from_toml(text(name)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Accesses;
    use crate::counts::{Counts, expected};
    use crate::model::Kind;
    use crate::sizes::Spread;

    #[test]
    fn every_preset_is_read_and_comes_back() {
        for name in names() {
            let model = Model::from_toml(text(name).unwrap());
            let model = model.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(model.name, name);
            let again = Model::from_toml(&model.to_toml().unwrap()).unwrap();
            assert_eq!(again, model);
        }
        assert_eq!(named("unknown"), None);
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

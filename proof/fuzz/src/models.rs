//! Models of loads, and analyses from which models are made.

use evendb_model::Workload;
use evendb_model::from_analysis::{self, Known};
use evendb_report::Document;

/// The first byte says which of the two it is.
pub(crate) const MODEL: u8 = 0;
pub(crate) const ANALYSIS: u8 = 1;

/// A model that is read is written and read again unchanged, and sizes are drawn from it within its
/// limits. A model that is made from an analysis passes the same checks.
pub(crate) fn models(data: &[u8]) {
    let Some((form, text)) = data.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    if form & 1 == MODEL {
        if let Ok(workload) = Workload::from_toml(text) {
            check(&workload);
        }
        return;
    }
    let Ok(document) = Document::from_json(text) else {
        return;
    };
    if let Ok(made) = from_analysis::make(&document, &Known::default()) {
        check(&made.model.clone().into());
        made.to_toml().expect("what was made is a model");
    }
    if let Ok(made) = from_analysis::make_workload(&document, &Known::default()) {
        check(&made.workload);
        made.to_toml().expect("what was made is a model");
    }
}

fn check(workload: &Workload) {
    let text = workload.to_toml().expect("it was read or made");
    let again = Workload::from_toml(&text).expect("it was written");
    assert_eq!(
        again.to_toml().as_ref(),
        Ok(&text),
        "a model that was written again"
    );
    for keyspace in &workload.keyspaces {
        let model = &keyspace.load;
        let sizes = [&model.keys, &model.values.sizes, &model.values.loaded];
        for sizes in sizes.into_iter().chain(&model.scans) {
            for unit in [0.0, 1e-9, 0.5, 1.0 - 1e-9] {
                let size = sizes.quantile(unit);
                assert!(
                    (sizes.least..=sizes.most).contains(&size),
                    "{sizes:?}: {size}"
                );
            }
        }
    }
    let small = workload.scaled(1e-6);
    let pairs = small
        .keyspaces
        .iter()
        .all(|keyspace| keyspace.load.pairs > 0);
    assert!(pairs && small.operations > 0);
}

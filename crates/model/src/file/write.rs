//! From a model to tables: the way back of `read.rs`.

use super::FORMAT;
use super::tables::{
    AccessesTable, Bar, File, MixTable, RangesTable, RateTable, SizesTable, ValuesTable,
};
use crate::access::{Accesses, Ranges};
use crate::model::{Mix, Model, Rate};
use crate::sizes::{Sizes, Spread};

pub(super) fn tables(model: &Model) -> File {
    let Mix {
        get,
        put,
        delete,
        merge,
        scan,
    } = model.mix;
    File {
        format: FORMAT,
        name: model.name.clone(),
        about: model.about.clone(),
        pairs: model.pairs,
        operations: model.operations,
        memory_bytes: model.memory_bytes,
        mix: MixTable {
            get,
            put,
            delete,
            merge,
            scan,
        },
        keys: sizes(&model.keys),
        values: ValuesTable {
            compressible: model.values.compressible,
            put: sizes(&model.values.sizes),
            loaded: Some(sizes(&model.values.loaded)),
        },
        scans: model.scans.as_ref().map(sizes),
        ranges: model.ranges.as_ref().map(ranges),
        accesses: model.accesses.map(accesses),
        rate: model
            .rate
            .map(|Rate { a, b, c, d }| RateTable { a, b, c, d }),
    }
}

fn sizes(sizes: &Sizes) -> SizesTable {
    let mut table = SizesTable {
        spread: sizes.spread.name().to_owned(),
        ..SizesTable::default()
    };
    match &sizes.spread {
        Spread::Constant(size) => {
            table.size = Some(*size);
            return table;
        }
        Spread::Histogram(bars) => {
            let bar = |&(size, share): &(u64, f64)| Bar { size, share };
            table.bars = Some(bars.iter().map(bar).collect());
            return table;
        }
        Spread::Uniform => {}
        Spread::GeneralizedPareto { k, sigma, theta } => {
            (table.k, table.sigma, table.theta) = (Some(*k), Some(*sigma), Some(*theta));
        }
        Spread::Weibull { shape, scale } => {
            (table.shape, table.scale) = (Some(*shape), Some(*scale));
        }
        Spread::Exponential { mean } => table.mean = Some(*mean),
    }
    (table.least, table.most) = (Some(sizes.least), Some(sizes.most));
    table
}

fn ranges(ranges: &Ranges) -> RangesTable {
    let parameter = |index: usize| ranges.curve.parameters.get(index).copied();
    RangesTable {
        count: Some(ranges.count),
        pairs_per_table: None,
        curve: ranges.curve.shape.name().to_owned(),
        a: parameter(0),
        b: parameter(1),
        c: parameter(2),
        d: parameter(3),
        e: parameter(4),
    }
}

fn accesses(accesses: Accesses) -> AccessesTable {
    let (by, a, b) = match accesses {
        Accesses::Cumulative { a, b } => ("cumulative", Some(a), b),
        Accesses::ByRank { b } => ("rank", None, b),
    };
    let by = by.to_owned();
    AccessesTable { by, a, b }
}

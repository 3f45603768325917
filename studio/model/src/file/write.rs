//! From a model to tables: the way back of `read.rs`.

use super::FORMAT;
use super::tables::{
    AccessesTable, Bar, File, KeyspaceTable, MixTable, RangesTable, RateTable, SeveralFile,
    SizesTable, ValuesTable,
};
use crate::access::{Accesses, Own};
use crate::curve::Curve;
use crate::model::{Kind, Mix, Model, Rate};
use crate::sizes::{Sizes, Spread};
use crate::workload::{Keyspace, Workload};

pub(super) fn tables(model: &Model) -> File {
    File {
        format: FORMAT,
        name: model.name.clone(),
        about: model.about.clone(),
        pairs: model.pairs,
        operations: model.operations,
        memory_bytes: model.memory_bytes,
        mix: mix(model.mix),
        keys: sizes(&model.keys),
        values: values(model),
        scans: model.scans.as_ref().map(sizes),
        ranges: ranges(model),
        accesses: accesses(model),
        rate: model.rate.map(rate),
    }
}

pub(super) fn several(workload: &Workload) -> SeveralFile {
    SeveralFile {
        format: FORMAT,
        name: workload.name.clone(),
        about: workload.about.clone(),
        operations: workload.operations,
        memory_bytes: workload.memory_bytes,
        rate: workload.rate.map(rate),
        keyspace: workload.keyspaces.iter().map(keyspace).collect(),
    }
}

fn keyspace(keyspace: &Keyspace) -> KeyspaceTable {
    let model = &keyspace.load;
    KeyspaceTable {
        name: keyspace.name.clone(),
        share: keyspace.share,
        pairs: model.pairs,
        mix: mix(model.mix),
        keys: sizes(&model.keys),
        values: values(model),
        scans: model.scans.as_ref().map(sizes),
        ranges: ranges(model),
        accesses: accesses(model),
    }
}

fn rate(rate: Rate) -> RateTable {
    let Rate { a, b, c, d } = rate;
    RateTable { a, b, c, d }
}

fn mix(mix: Mix) -> MixTable {
    let Mix {
        get,
        put,
        delete,
        merge,
        scan,
    } = mix;
    MixTable {
        get,
        put,
        delete,
        merge,
        scan,
    }
}

fn values(model: &Model) -> ValuesTable {
    ValuesTable {
        compressible: model.values.compressible,
        put: sizes(&model.values.sizes),
        loaded: Some(sizes(&model.values.loaded)),
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

fn ranges(model: &Model) -> Option<RangesTable> {
    let common = model.ranges.as_ref()?;
    let own = |kind: Kind| {
        let Own { curve, first } = model.own[kind as usize].ranges.as_ref()?;
        let first = Some(*first);
        Some(Box::new(RangesTable {
            first,
            ..self::curve(curve)
        }))
    };
    Some(RangesTable {
        count: Some(common.count),
        get: own(Kind::Get),
        put: own(Kind::Put),
        delete: own(Kind::Delete),
        merge: own(Kind::Merge),
        scan: own(Kind::Scan),
        ..curve(&common.curve)
    })
}

fn curve(curve: &Curve) -> RangesTable {
    let parameter = |index: usize| curve.parameters.get(index).copied();
    RangesTable {
        curve: curve.shape.name().to_owned(),
        a: parameter(0),
        b: parameter(1),
        c: parameter(2),
        d: parameter(3),
        e: parameter(4),
        ..RangesTable::default()
    }
}

fn accesses(model: &Model) -> Option<AccessesTable> {
    let own = |kind: Kind| {
        let Own { curve, first } = model.own[kind as usize].accesses.as_ref()?;
        let first = Some(*first);
        Some(Box::new(AccessesTable {
            first,
            ..table_of(*curve)
        }))
    };
    let common = model.accesses?;
    Some(AccessesTable {
        get: own(Kind::Get),
        put: own(Kind::Put),
        delete: own(Kind::Delete),
        merge: own(Kind::Merge),
        scan: own(Kind::Scan),
        ..table_of(common)
    })
}

fn table_of(accesses: Accesses) -> AccessesTable {
    let (by, a, b) = match accesses {
        Accesses::Cumulative { a, b } => ("cumulative", Some(a), b),
        Accesses::ByRank { b } => ("rank", None, b),
    };
    AccessesTable {
        by: by.to_owned(),
        a,
        b,
        ..AccessesTable::default()
    }
}

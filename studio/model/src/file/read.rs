//! From tables to a model: the allowed values of each field.

use super::tables::{
    AccessesTable, File, LoadTables, MixTable, RangesTable, RateTable, SeveralFile, SizesTable,
};
use super::{FORMAT, ModelError};
use crate::access::{Accesses, Own, RANGES_MAX, Ranges};
use crate::curve::{Curve, Shape};
use crate::model::{
    COUNTER_BYTES, KEY_BYTES_MAX, KEY_BYTES_MIN, Kind, Mix, Model, OwnHeat, PAIRS_MAX, Rate,
    SCAN_LENGTH_MAX, VALUE_BYTES_MAX, Values,
};
use crate::sizes::{Sizes, Spread};
use crate::workload::{KEYSPACES_MAX, Keyspace, NAME_BYTES_MAX, Workload};

/// Shares that must add up to 1 may miss it by this: people write rounded numbers.
const ROUNDED: f64 = 1e-3;

/// The place of an error: the text, and the table that is being read.
#[derive(Clone, Copy)]
struct Place<'a> {
    text: &'a str,
    /// The number of the keyspace, from 0 on, and its name, if the table is of a keyspace of
    /// several.
    keyspace: Option<(usize, &'a str)>,
    table: &'a str,
}

impl<'a> Place<'a> {
    /// What stands above the first table of a file.
    fn root(text: &'a str) -> Self {
        Place {
            text,
            keyspace: None,
            table: "",
        }
    }

    /// A table of the same keyspace.
    fn of(self, table: &'a str) -> Self {
        Place { table, ..self }
    }
}

impl Place<'_> {
    fn error(&self, field: &str, why: impl Into<String>) -> ModelError {
        let whole = match self.table {
            "" => field.to_owned(),
            table => format!("{table}.{field}"),
        };
        let (line, field) = match self.keyspace {
            None => (line_of(self.text, self.table, field), whole),
            Some((number, name)) => (
                line_within(self.text, number, self.table, field),
                match name {
                    "" => format!("{whole} of keyspace {}", number + 1),
                    name => format!("{whole} of keyspace `{}`", name.escape_debug()),
                },
            ),
        };
        ModelError::Field {
            line,
            field,
            why: why.into(),
        }
    }

    fn needed<T>(&self, field: &str, value: Option<T>, by: &str) -> Result<T, ModelError> {
        value.ok_or_else(|| self.error(field, format!("is missing, and {by} needs it")))
    }

    /// A finite number from `low` to `high`, both included.
    fn between(&self, field: &str, value: f64, low: f64, high: f64) -> Result<f64, ModelError> {
        match value >= low && value <= high {
            true => Ok(value),
            false => Err(self.error(
                field,
                format!("must be from {low} to {high}, and is {value}"),
            )),
        }
    }

    /// The place of a kind's hottest range or pair.
    fn first(&self, value: Option<f64>) -> Result<f64, ModelError> {
        self.between("first", value.unwrap_or(0.0), 0.0, 1.0)
    }

    /// Refuses a field that only a kind's own table may have.
    fn is_common(&self, first: Option<f64>) -> Result<(), ModelError> {
        match first {
            None => Ok(()),
            Some(_) => Err(self.error("first", "is for a kind's own table alone")),
        }
    }

    /// Refuses tables of kinds within the table of a kind.
    fn is_own<T>(&self, within: [Option<&T>; 5]) -> Result<(), ModelError> {
        let found = Kind::ALL.into_iter().zip(within);
        match found.into_iter().find(|(_, table)| table.is_some()) {
            None => Ok(()),
            Some((kind, _)) => {
                Err(self.error(kind.name(), "stands within the table of a kind already"))
            }
        }
    }

    fn count(&self, field: &str, value: u64, low: u64, high: u64) -> Result<u64, ModelError> {
        match value >= low && value <= high {
            true => Ok(value),
            false => Err(self.error(
                field,
                format!("must be from {low} to {high}, and is {value}"),
            )),
        }
    }
}

/// The line of a field of a table, counted from 1. If the field is not there, the line of the
/// table.
fn line_of(text: &str, table: &str, field: &str) -> Option<usize> {
    let (mut inside, mut head) = (String::new(), None);
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix('[') {
            inside = name.trim_matches(['[', ']', ' ']).to_owned();
            if inside == table {
                head = head.or(Some(index + 1));
            }
        } else if inside == table
            && let Some((key, _)) = line.split_once('=')
            && key.trim() == field
        {
            return Some(index + 1);
        }
    }
    head
}

/// The line of a field of a keyspace's table, where `number` keyspaces stand before.
fn line_within(text: &str, number: usize, table: &str, field: &str) -> Option<usize> {
    let is_head = |line: &str| {
        let line = line.split('#').next().unwrap_or_default();
        let name = line.trim().strip_prefix("[[");
        let name = name.and_then(|name| name.strip_suffix("]]"));
        name.is_some_and(|name| name.trim() == "keyspace")
    };
    let heads = text.lines().enumerate().filter(|(_, line)| is_head(line));
    let mut heads = heads.map(|(index, _)| index).skip(number);
    let (first, end) = (heads.next()?, heads.next().unwrap_or(usize::MAX));
    let own = text.lines().take(end).skip(first);
    let own: Vec<&str> = own.collect();
    let table = match table {
        "" => "keyspace".to_owned(),
        table => format!("keyspace.{table}"),
    };
    let line = line_of(&own.join("\n"), &table, field).unwrap_or(1);
    Some(first + line)
}

pub(super) fn model(file: &File, text: &str) -> Result<Model, ModelError> {
    let root = Place::root(text);
    whole(
        (file.format, &file.name),
        (file.operations, file.memory_bytes),
        root,
    )?;
    let rate = file.rate.as_ref();
    Ok(Model {
        name: file.name.clone(),
        about: file.about.clone(),
        operations: file.operations,
        memory_bytes: file.memory_bytes,
        rate: rate
            .map(|table| self::rate(table, root.of("rate")))
            .transpose()?,
        ..load(file.load(), root)?
    })
}

/// Checks what both forms of a file have at the top.
fn whole(
    (format, name): (u32, &str),
    (operations, memory_bytes): (u64, Option<u64>),
    at: Place<'_>,
) -> Result<(), ModelError> {
    if format != FORMAT {
        return Err(ModelError::Format { found: format });
    }
    if name.is_empty() {
        return Err(at.error("name", "is empty"));
    }
    at.count("operations", operations, 1, 1 << 60)?;
    if let Some(bytes) = memory_bytes {
        at.count("memory_bytes", bytes, 1, 1 << 60)?;
    }
    Ok(())
}

/// A file of several keyspaces.
pub(super) fn several(file: &SeveralFile, text: &str) -> Result<Workload, ModelError> {
    let root = Place::root(text);
    whole(
        (file.format, &file.name),
        (file.operations, file.memory_bytes),
        root,
    )?;
    let all = &file.keyspace;
    if all.is_empty() || all.len() > KEYSPACES_MAX {
        let why = format!(
            "there are {} tables of this name, and there must be 1 to {KEYSPACES_MAX}",
            all.len()
        );
        return Err(root.error("keyspace", why));
    }
    let at = |number: usize| Place {
        keyspace: Some((number, &all[number].name)),
        ..root
    };
    let (mut keyspaces, mut shares): (Vec<Keyspace>, f64) = (Vec::new(), 0.0);
    for (number, table) in all.iter().enumerate() {
        let at = at(number);
        let name = &table.name;
        if let Some(why) = refused_name(name) {
            return Err(at.error("name", why));
        }
        if let Some(first) = keyspaces.iter().position(|known| known.name == *name) {
            let why = format!("keyspace {} has this name already", first + 1);
            return Err(at.error("name", why));
        }
        shares += at.between("share", table.share, 0.0, 1.0)?;
        let load = Model {
            name: name.clone(),
            operations: ((file.operations as f64 * table.share).round() as u64).max(1),
            ..load(table.load(), at)?
        };
        keyspaces.push(Keyspace {
            name: name.clone(),
            share: table.share,
            load,
        });
    }
    if (shares - 1.0).abs() > ROUNDED {
        let why = format!("the shares of all keyspaces add up to {shares}, and not to 1");
        return Err(at(0).error("share", why));
    }
    let rate = file.rate.as_ref();
    Ok(Workload {
        name: file.name.clone(),
        about: file.about.clone(),
        operations: file.operations,
        memory_bytes: file.memory_bytes,
        rate: rate
            .map(|table| self::rate(table, root.of("rate")))
            .transpose()?,
        keyspaces,
    })
}

/// Why a keyspace cannot have this name.
pub(crate) fn refused_name(name: &str) -> Option<String> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        let bytes = name.len();
        return Some(format!(
            "must have 1 to {NAME_BYTES_MAX} bytes, and has {bytes}"
        ));
    }
    // Lists of keys have the name in a column of a line.
    let control = name.chars().find(|one| one.is_control())?;
    Some(format!(
        "has the character U+{:04X}; control characters are not allowed",
        u32::from(control)
    ))
}

/// What a file says of one keyspace. The rest of the model is empty.
fn load(tables: LoadTables<'_>, root: Place<'_>) -> Result<Model, ModelError> {
    let at = |table| root.of(table);
    let pairs = root.count("pairs", tables.pairs, 1, PAIRS_MAX)?;
    let mix = mix(tables.mix, at("mix"))?;
    let keys = sizes(tables.keys, at("keys"), [KEY_BYTES_MIN, KEY_BYTES_MAX])?;
    let values = values(tables, root, mix)?;
    let scans = tables
        .scans
        .map(|scans| sizes(scans, at("scans"), [1, SCAN_LENGTH_MAX]))
        .transpose()?;
    if mix.scan > 0.0 && scans.is_none() {
        return Err(at("mix").error(
            "scan",
            "is above 0, and there is no table `scans` with their lengths",
        ));
    }
    let ranges = match tables.ranges {
        Some(table) => Some(self::ranges(table, pairs, at("ranges"))?),
        None => None,
    };
    let accesses = match tables.accesses {
        Some(table) => Some(common_accesses(table, at("accesses"))?),
        None => None,
    };
    let own = own(tables, ranges.as_ref(), root)?;
    Ok(Model {
        name: String::new(),
        about: String::new(),
        pairs,
        operations: 1,
        memory_bytes: None,
        mix,
        keys,
        values,
        scans,
        ranges,
        accesses,
        own,
        rate: None,
    })
}

fn mix(table: &MixTable, at: Place<'_>) -> Result<Mix, ModelError> {
    let mix = Mix {
        get: table.get,
        put: table.put,
        delete: table.delete,
        merge: table.merge,
        scan: table.scan,
    };
    let mut sum = 0.0;
    for (name, share) in mix.shares() {
        sum += at.between(name, share, 0.0, 1.0)?;
    }
    if (sum - 1.0).abs() > ROUNDED {
        return Err(at.error(
            "get",
            format!("all shares of the mix add up to {sum}, and not to 1"),
        ));
    }
    Ok(mix)
}

fn values(tables: LoadTables<'_>, root: Place<'_>, mix: Mix) -> Result<Values, ModelError> {
    let limits = [0, VALUE_BYTES_MAX];
    let at = |table| root.of(table);
    let table = tables.values;
    let compressible = u64::from(table.compressible);
    at("values").count("compressible", compressible, 0, 100)?;
    let put = sizes(&table.put, at("values.put"), limits)?;
    let loaded = match &table.loaded {
        Some(loaded) => sizes(loaded, at("values.loaded"), limits)?,
        None => put.clone(),
    };
    let counter = Sizes::constant(COUNTER_BYTES);
    if mix.merge > 0.0 && (put != counter || loaded != counter) {
        let why = format!(
            "is above 0: then all values are counters, and both `values.put` and `values.loaded` must be constant {COUNTER_BYTES}"
        );
        return Err(at("mix").error("merge", why));
    }
    Ok(Values {
        sizes: put,
        loaded,
        compressible: table.compressible,
    })
}

fn sizes(table: &SizesTable, at: Place<'_>, limits: [u64; 2]) -> Result<Sizes, ModelError> {
    let [low, high] = limits;
    let least = at.count("least", table.least.unwrap_or(low), low, high)?;
    let most = at.count("most", table.most.unwrap_or(high), least, high)?;
    let name = &*table.spread;
    let positive = |field: &str, value: Option<f64>| {
        at.between(field, at.needed(field, value, name)?, 1e-9, 1e12)
    };
    let spread = match name {
        "constant" => {
            let size = at.needed("size", table.size, name)?;
            return Ok(Sizes::constant(at.count("size", size, low, high)?));
        }
        "histogram" => return histogram(table, at, limits),
        "uniform" => Spread::Uniform,
        "generalized-pareto" => Spread::GeneralizedPareto {
            k: at.between("k", at.needed("k", table.k, name)?, -10.0, 20.0)?,
            sigma: positive("sigma", table.sigma)?,
            theta: at.between("theta", table.theta.unwrap_or(0.0), 0.0, high as f64)?,
        },
        "weibull" => Spread::Weibull {
            shape: at.between("shape", at.needed("shape", table.shape, name)?, 0.01, 100.0)?,
            scale: positive("scale", table.scale)?,
        },
        "exponential" => Spread::Exponential {
            mean: positive("mean", table.mean)?,
        },
        other => {
            let why = format!(
                "`{other}` is not known; known are constant, histogram, uniform, generalized-pareto, weibull, exponential"
            );
            return Err(at.error("spread", why));
        }
    };
    let sizes = Sizes {
        spread,
        least,
        most,
    };
    if !matches!(sizes.spread, Spread::Uniform) {
        let within = sizes.spread.above(least as f64 - 0.5) - sizes.spread.above(most as f64 + 0.5);
        if within.is_nan() || within < 1e-6 {
            return Err(at.error(
                "spread",
                format!("has next to nothing from {least} to {most}"),
            ));
        }
    }
    Ok(sizes)
}

fn histogram(table: &SizesTable, at: Place<'_>, limits: [u64; 2]) -> Result<Sizes, ModelError> {
    let bars = at.needed("bars", table.bars.as_ref(), "histogram")?;
    let mut sum = 0.0;
    for bar in bars {
        at.count("bars", bar.size, limits[0], limits[1])?;
        sum += at.between("bars", bar.share, 0.0, 1.0)?;
    }
    if (sum - 1.0).abs() > ROUNDED {
        return Err(at.error("bars", format!("the shares add up to {sum}, and not to 1")));
    }
    let sizes = || bars.iter().map(|bar| bar.size);
    Ok(Sizes {
        least: sizes().min().unwrap_or(limits[0]),
        most: sizes().max().unwrap_or(limits[0]),
        spread: Spread::Histogram(bars.iter().map(|bar| (bar.size, bar.share)).collect()),
    })
}

fn ranges(table: &RangesTable, pairs: u64, at: Place<'_>) -> Result<Ranges, ModelError> {
    at.is_common(table.first)?;
    let count = match (table.count, table.pairs_per_table) {
        (Some(count), None) => at.count("count", count, 1, RANGES_MAX.min(pairs))?,
        (None, Some(average)) => {
            let average = at.between("pairs_per_table", average, 1.0, 1e15)?;
            Ranges::count_for(pairs, average)
        }
        _ => return Err(at.error("count", "either this or pairs_per_table must be there")),
    };
    curve(table, count, at)
}

/// The curve of a table of `count` ranges.
fn curve(table: &RangesTable, count: u64, at: Place<'_>) -> Result<Ranges, ModelError> {
    let shape: Shape = table
        .curve
        .parse()
        .map_err(|why: String| at.error("curve", why))?;
    let given = [table.a, table.b, table.c, table.d, table.e];
    let mut parameters = Vec::new();
    for (index, (name, value)) in ["a", "b", "c", "d", "e"].iter().zip(given).enumerate() {
        if index < shape.parameters() {
            let value = at.needed(name, value, shape.name())?;
            parameters.push(at.between(name, value, -1e300, 1e300)?);
        } else if value.is_some() {
            return Err(at.error(name, format!("{} has no such parameter", shape.name())));
        }
    }
    let curve = Curve::new(shape, parameters)
        .ok_or_else(|| at.error("curve", "has not the parameters that it needs"))?;
    let ranges = Ranges { count, curve };
    if ranges.shares().is_none() {
        return Err(at.error(
            "curve",
            format!("is not above 0 at each range from 1 to {count}"),
        ));
    }
    Ok(ranges)
}

/// What kinds have of their own.
fn own(
    tables: LoadTables<'_>,
    common: Option<&Ranges>,
    root: Place<'_>,
) -> Result<[OwnHeat; 5], ModelError> {
    let mut own: [OwnHeat; 5] = Default::default();
    for kind in Kind::ALL {
        let number = kind as usize;
        if let (Some(of_all), Some(common)) = (tables.ranges, common)
            && let Some(table) = of_all.own()[number]
        {
            let name = format!("ranges.{}", kind.name());
            own[number].ranges = Some(own_ranges(table, common.count, root.of(&name))?);
        }
        if let Some(of_all) = tables.accesses
            && let Some(table) = of_all.own()[number]
        {
            let name = format!("accesses.{}", kind.name());
            own[number].accesses = Some(own_accesses(table, root.of(&name))?);
        }
    }
    Ok(own)
}

fn own_ranges(table: &RangesTable, count: u64, at: Place<'_>) -> Result<Own<Curve>, ModelError> {
    for (field, is_there) in [
        ("count", table.count.is_some()),
        ("pairs_per_table", table.pairs_per_table.is_some()),
    ] {
        if is_there {
            return Err(at.error(
                field,
                "must be in `ranges` alone: all kinds have the same ranges",
            ));
        }
    }
    at.is_own(table.own())?;
    Ok(Own {
        first: at.first(table.first)?,
        curve: curve(table, count, at)?.curve,
    })
}

fn own_accesses(table: &AccessesTable, at: Place<'_>) -> Result<Own<Accesses>, ModelError> {
    at.is_own(table.own())?;
    Ok(Own {
        first: at.first(table.first)?,
        curve: accesses(table, at)?,
    })
}

fn common_accesses(table: &AccessesTable, at: Place<'_>) -> Result<Accesses, ModelError> {
    at.is_common(table.first)?;
    accesses(table, at)
}

fn accesses(table: &AccessesTable, at: Place<'_>) -> Result<Accesses, ModelError> {
    match &*table.by {
        "cumulative" => Ok(Accesses::Cumulative {
            a: at.between("a", at.needed("a", table.a, "cumulative")?, 1e-300, 1.0)?,
            b: at.between("b", table.b, 1e-3, 1.0)?,
        }),
        "rank" if table.a.is_some() => Err(at.error("a", "rank has no such parameter")),
        "rank" => Ok(Accesses::ByRank {
            b: at.between("b", table.b, -4.0, 0.0)?,
        }),
        other => Err(at.error(
            "by",
            format!("`{other}` is not known; known are cumulative, rank"),
        )),
    }
}

fn rate(table: &RateTable, at: Place<'_>) -> Result<Rate, ModelError> {
    let (b, c) = (
        at.between("b", table.b, 0.0, 1e3)?,
        at.between("c", table.c, -1e6, 1e6)?,
    );
    let d = at.between("d", table.d, 1e-3, 1e7)?;
    let a = table.a;
    if a.is_nan() || a.abs() >= d {
        return Err(at.error(
            "a",
            format!("must be smaller than d, which is {d}, so that the rate stays above 0"),
        ));
    }
    Ok(Rate { a, b, c, d })
}

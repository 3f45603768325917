//! Functions over keys: their place in the key space, and whether they are in a sample.
//!
//! * `prefix(key, bytes)`: the first bytes of a key; the whole key, if it is shorter.
//! * `spread(number)`: a number from 0 to below 1 that looks random, the same each time.
//! * `place_of(keyspace, key, borders)`: the id of the first key of the part that holds a key; null
//!   in a keyspace without borders.
//! * `sampled_units(keyspace, key, units)`: the ordinal of the keyspace, and for each grain the
//!   number of the sampled unit that holds the key, or null; null if no sampled unit holds it.

use super::lookup::{BORDERS, ByKeyspace, Files, GRAINS, Read, SAMPLED};
use arrow::array::cast::AsArray;
use arrow::array::{
    Array, ArrayRef, BinaryViewBuilder, FixedSizeListBuilder, Float64Array, UInt32Builder,
    UInt64Builder,
};
use arrow::datatypes::{DataType, Field, UInt64Type};
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// `prefix`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Prefix(Signature);

impl Prefix {
    pub(super) fn new() -> Prefix {
        let types = vec![DataType::BinaryView, DataType::UInt64];
        Prefix(Signature::exact(types, Volatility::Immutable))
    }
}

impl ScalarUDFImpl for Prefix {
    fn name(&self) -> &str {
        "prefix"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::BinaryView)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&args.args)?;
        let (keys, lengths) = (
            columns[0].as_binary_view(),
            columns[1].as_primitive::<UInt64Type>(),
        );
        let mut prefixes = BinaryViewBuilder::with_capacity(keys.len());
        for (key, bytes) in keys.iter().zip(lengths.iter()) {
            let bytes = usize::try_from(bytes.unwrap_or_default()).unwrap_or(usize::MAX);
            prefixes.append_option(key.map(|key| &key[..bytes.min(key.len())]));
        }
        Ok(ColumnarValue::Array(Arc::new(prefixes.finish())))
    }
}

/// `spread`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Spread(Signature);

impl Spread {
    pub(super) fn new() -> Spread {
        Spread(Signature::exact(
            vec![DataType::UInt64],
            Volatility::Immutable,
        ))
    }
}

impl ScalarUDFImpl for Spread {
    fn name(&self) -> &str {
        "spread"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&args.args)?;
        let numbers = columns[0].as_primitive::<UInt64Type>();
        // 53 bits, the precision of a double: it stays below 1.
        let spread = |number| (super::number_hash(number) >> 11) as f64 / (1u64 << 53) as f64;
        let spread: Float64Array = numbers.iter().map(|number| number.map(spread)).collect();
        Ok(ColumnarValue::Array(Arc::new(spread)))
    }
}

/// A lookup has a keyspace, a key and the path of a file.
fn looked_up() -> Signature {
    let types = vec![DataType::Utf8View, DataType::BinaryView, DataType::Utf8View];
    Signature::exact(types, Volatility::Stable)
}

/// Calls `each` with every key, and the file's data of its keyspace.
fn look_up<T: Read>(
    args: &ScalarFunctionArgs,
    files: &Files<T>,
    mut each: impl FnMut(Option<&T>, &[u8]),
) -> Result<()> {
    let ColumnarValue::Scalar(ScalarValue::Utf8View(Some(path))) = &args.args[2] else {
        return exec_err!("the path of the file is not a text that is the same in all rows");
    };
    let failed = |error| DataFusionError::External(Box::new(error));
    let file: Arc<ByKeyspace<T>> = files.get(path).map_err(failed)?;
    let arrays: Vec<ArrayRef> = args.args[..2]
        .iter()
        .map(|arg| arg.to_array(args.number_rows))
        .collect::<Result<_>>()?;
    let (keyspaces, keys) = (arrays[0].as_string_view(), arrays[1].as_binary_view());
    let mut last: Option<(&str, Option<&T>)> = None;
    for (keyspace, key) in keyspaces.iter().zip(keys.iter()) {
        let (keyspace, key) = (keyspace.unwrap_or_default(), key.unwrap_or_default());
        let found = match last {
            Some((known, found)) if known == keyspace => found,
            _ => file.get(keyspace),
        };
        last = Some((keyspace, found));
        each(found, key);
    }
    Ok(())
}

/// `place_of`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct PlaceOf(Signature);

impl PlaceOf {
    pub(super) fn new() -> PlaceOf {
        PlaceOf(looked_up())
    }
}

impl ScalarUDFImpl for PlaceOf {
    fn name(&self) -> &str {
        "place_of"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut ids = UInt64Builder::with_capacity(args.number_rows);
        look_up(&args, &BORDERS, |borders, key| {
            ids.append_option(borders.and_then(|borders| borders.id_at(key)));
        })?;
        Ok(ColumnarValue::Array(Arc::new(ids.finish())))
    }
}

/// `sampled_units`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct SampledUnits(Signature);

/// The ordinal of the keyspace, and a unit of each grain.
const NUMBERS: i32 = 1 + GRAINS.len() as i32;

impl SampledUnits {
    pub(super) fn new() -> SampledUnits {
        SampledUnits(looked_up())
    }
}

impl ScalarUDFImpl for SampledUnits {
    fn name(&self) -> &str {
        "sampled_units"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        let number = Arc::new(Field::new_list_field(DataType::UInt32, true));
        Ok(DataType::FixedSizeList(number, NUMBERS))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let numbers = UInt32Builder::with_capacity(rows * NUMBERS as usize);
        let mut lists = FixedSizeListBuilder::with_capacity(numbers, NUMBERS, rows);
        look_up(&args, &SAMPLED, |sampled, key| {
            let units: [Option<u32>; GRAINS.len()] =
                std::array::from_fn(|grain| sampled.and_then(|sampled| sampled.unit(grain, key)));
            let numbers = lists.values();
            numbers.append_option(sampled.map(|sampled| sampled.ordinal));
            for unit in units {
                numbers.append_option(unit);
            }
            lists.append(units.iter().any(Option::is_some));
        })?;
        Ok(ColumnarValue::Array(Arc::new(lists.finish())))
    }
}

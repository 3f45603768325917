//! Functions for queries, in addition to the engine's.
//!
//! They keep no data of a session: they look things up in a file that an argument names, so that
//! they are the same in every process that sees the folder.

mod lookup;
mod places;

use arrow::array::UInt64Array;
use arrow::array::cast::AsArray;
use arrow::datatypes::DataType;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use datafusion::prelude::SessionContext;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(crate) use lookup::{GRAINS, bytes, numbers, reals, text};

/// Differs from the hash by which a recorder samples, so that a sample of a sample is a sample.
const SEED: u64 = 0x616e_616c_7973_6973;

/// The hash by which the analysis samples keys.
#[must_use]
pub fn key_hash(keyspace: u32, key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, SEED ^ u64::from(keyspace))
}

/// The hash by which it samples numbered things.
pub(crate) fn number_hash(number: u64) -> u64 {
    xxh3_64_with_seed(&number.to_le_bytes(), SEED)
}

/// All of them.
#[must_use]
pub fn all() -> Vec<ScalarUDF> {
    vec![
        byte_length(),
        ScalarUDF::from(places::Prefix::new()),
        ScalarUDF::from(places::Spread::new()),
        ScalarUDF::from(places::PlaceOf::new()),
        ScalarUDF::from(places::SampledUnits::new()),
    ]
}

/// Makes them known to a session.
pub fn register(context: &SessionContext) {
    for function in all() {
        context.register_udf(function);
    }
}

/// `byte_length(bytes)`: the number of bytes. The engine's own function of this kind takes only
/// text.
fn byte_length() -> ScalarUDF {
    let lengths = |arguments: &[ColumnarValue]| {
        let arrays = ColumnarValue::values_to_arrays(arguments)?;
        let bytes = arrays[0].as_binary_view().iter();
        let lengths: UInt64Array = bytes.map(|of| of.map(|of| of.len() as u64)).collect();
        Ok(ColumnarValue::Array(Arc::new(lengths)))
    };
    create_udf(
        "byte_length",
        vec![DataType::BinaryView],
        DataType::UInt64,
        Volatility::Immutable,
        Arc::new(lengths),
    )
}

//! Functions that queries use beside those of the engine.

use datafusion::prelude::SessionContext;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Apart from the hash by which a recorder samples, so that a sample of a sample is one.
const SEED: u64 = 0x616e_616c_7973_6973;

/// The hash by which the analysis samples keys.
#[must_use]
pub fn key_hash(keyspace: u32, key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, SEED ^ u64::from(keyspace))
}

/// Makes them known to a session.
pub fn register(_context: &SessionContext) {}

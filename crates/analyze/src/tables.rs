//! Tables that are made of the table of operations, once, for several figures.
//!
//! `keys`: a row for each key, in the order of keyspace and key, and of kind for one that was asked in several ways:
//!
//! | column | what |
//! |---|---|
//! | `keyspace`, `key`, `kind` | what was asked of which key. Of a scan: where it began |
//! | `accesses` | how often |
//! | `first_nanos`, `last_nanos` | when first, and when last |
//! | `value_bytes` | the mean length of the values that were written or found; null if none is known |
//!
//! Calls that concern no key (`begin`, `commit`, `abort`, `batch_commit`, `other`) are not in it.

use crate::error::{Error, Result};
use crate::session::Session;
use datafusion::prelude::DataFrame;
use futures::StreamExt;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Kinds that concern no key, in SQL.
pub const KEYLESS: &str = "('begin', 'commit', 'abort', 'batch_commit', 'other')";

/// Makes `keys` of `operations`.
///
/// # Errors
/// `Query`; `Io`.
pub async fn make_keys(session: &Session) -> Result<()> {
    let sql = format!(
        "SELECT keyspace, key, kind, count(*) AS accesses, min(start_nanos) AS first_nanos, max(start_nanos) AS last_nanos,
                avg(value_bytes) AS value_bytes
         FROM operations WHERE kind NOT IN {KEYLESS}
         GROUP BY keyspace, key, kind ORDER BY keyspace, key, kind"
    );
    session.make_table("keys", &sql).await
}

/// Writes the rows of `frame` one batch after the other.
pub(crate) async fn write(frame: DataFrame, to: &Path) -> Result<()> {
    let schema = Arc::new(frame.schema().as_arrow().clone());
    let file = File::create_new(to)
        .map_err(|error| Error::io(format_args!("cannot make {}", to.display()), error))?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::LZ4_RAW)
        .set_max_row_group_row_count(Some(512 << 10))
        .build();
    let mut writer = ArrowWriter::try_new(file, schema, Some(properties))?;
    let mut rows = frame.execute_stream().await?;
    while let Some(batch) = rows.next().await {
        writer.write(&batch?)?;
    }
    writer.close()?;
    Ok(())
}

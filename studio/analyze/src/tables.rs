//! Tables that are made from the table of operations, once, for several figures.
//!
//! `keys`: a row for each key, in the order of keyspace and key, and for each kind that accessed
//! it. If the keys of the store are listed ([`crate::stored`]), each of them also has a row of the
//! kind `stored`, without accesses; so rows with `accesses > 0` are rows of accesses.
//!
//! | column | what |
//! |---|---|
//! | `keyspace`, `key`, `kind` | the key and the kind of access. For a scan: where it began |
//! | `accesses` | how often |
//! | `first_nanos`, `last_nanos` | when first, and when last; null without accesses |
//! | `value_bytes` | the mean length of written or found values; null if none is known |
//! | `id` | of the key in its keyspace: 0, 1, 2 ... in key order |
//!
//! Calls that concern no key (`begin`, `commit`, `abort`, `batch_commit`, `other`) are not in it.
//! Operations that failed are not in it either, and neither are keys that the trace does not name
//! and nobody lists.
//!
//! `access_counts`: the number of keys (`keys`) that a `kind` named this number of times
//! (`accesses`) in a `keyspace`, in the order of these columns.
//!
//! `sizes`: the number of `operations` of a `kind` in a `keyspace` that had a `size`, in the order
//! of `keyspace`, `kind`, `what` and `size`. `what` is one of these:
//!
//! | `what` | `size` |
//! |---|---|
//! | `key` | bytes of the key |
//! | `value` | bytes of the value that was written or found |
//! | `records`, `records_reverse` | records that a scan gave, forwards or backwards |
//!
//! `places`: a row for each keyspace of `keys`, which says how its keys are cut into parts. See
//! [`crate::places`].

use crate::error::{Error, Result};
use crate::places::{self, Cut};
use crate::session::Session;
use crate::stored::STORED;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::prelude::DataFrame;
use futures::StreamExt;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// The number of rows of a group of a file, which is written at once.
const GROUP_ROWS: usize = 512 << 10;
/// The number of bytes of such a group, as far as it can be foreseen.
const GROUP_BYTES: usize = 64 << 20;

/// Kinds that concern no key, in SQL.
pub const KEYLESS: &str = "('begin', 'commit', 'abort', 'batch_commit', 'other')";
/// Operations that had an effect, or were answered, in SQL. Operations that failed are counted
/// apart, by kind, and are in the latencies.
pub(crate) const DONE: &str = "outcome <> 'failed'";
/// Kinds that read.
pub(crate) const READ_KINDS: [&str; 6] = [
    "get",
    "contains",
    "get_for_update",
    "multi_get",
    "scan",
    "pop",
];

/// Kinds that read, in SQL.
pub(crate) fn reads() -> String {
    format!("('{}')", READ_KINDS.join("', '"))
}

/// Makes `keys` from `operations`, and from `stored`, if that is there, and `places` from `keys`.
///
/// # Errors
/// `Query`; `Io`.
pub async fn make_keys(session: &Session, has_stored: bool, cut: &Cut) -> Result<()> {
    let asked = format!(
        "SELECT keyspace, key, kind, start_nanos, value_bytes FROM operations WHERE kind NOT IN {KEYLESS} AND {DONE}"
    );
    let from = match has_stored {
        true => format!(
            "{asked} UNION ALL
             SELECT keyspace, key, '{STORED}' AS kind, CAST(NULL AS BIGINT UNSIGNED) AS start_nanos, CAST(NULL AS BIGINT UNSIGNED) AS value_bytes
             FROM stored"
        ),
        false => asked,
    };
    // A row of `stored` has no time, so it does not count.
    let sql = format!(
        "SELECT keyspace, key, kind, count(start_nanos) AS accesses, min(start_nanos) AS first_nanos, max(start_nanos) AS last_nanos,
                avg(value_bytes) AS value_bytes
         FROM ({from}) GROUP BY keyspace, key, kind"
    );
    let mut counted = places::Counted::default();
    session
        .make_table_by("keys", &sql, &mut |rows| counted.number(rows))
        .await?;
    let places = counted.places(cut)?;
    write_batch(&places, &session.table_file("places"))?;
    session.open_table("places").await
}

/// Makes `access_counts` from `keys`.
///
/// # Errors
/// `Query`; `Io`.
pub async fn make_access_counts(session: &Session) -> Result<()> {
    let sql = "SELECT keyspace, kind, accesses, count(*) AS keys FROM keys WHERE accesses > 0 GROUP BY keyspace, kind, accesses";
    session.make_table("access_counts", sql).await
}

/// Makes `sizes` from `keys` and `operations`.
///
/// # Errors
/// `Query`; `Io`.
pub async fn make_sizes(session: &Session) -> Result<()> {
    let sql = format!(
        "
        SELECT keyspace, kind, what, size, operations FROM (
            SELECT keyspace, kind, 'key' AS what, byte_length(key) AS size, sum(accesses) AS operations
            FROM keys WHERE accesses > 0 GROUP BY keyspace, kind, byte_length(key)
            UNION ALL
            SELECT keyspace, kind, 'value' AS what, value_bytes AS size, count(*) AS operations
            FROM operations WHERE value_bytes IS NOT NULL AND {DONE} GROUP BY keyspace, kind, value_bytes
            UNION ALL
            SELECT keyspace, kind, CASE WHEN reverse THEN 'records_reverse' ELSE 'records' END AS what, records AS size, count(*) AS operations
            FROM operations WHERE kind = 'scan' AND records IS NOT NULL AND {DONE} GROUP BY keyspace, kind, reverse, records)"
    );
    session.make_table("sizes", &sql).await
}

/// Changes rows before they are written.
pub(crate) type Change<'a> = &'a mut (dyn FnMut(RecordBatch) -> Result<RecordBatch> + Send);

/// Writes the rows of `frame` batch by batch, each as `change` makes it.
pub(crate) async fn write(frame: DataFrame, to: &Path, change: Change<'_>) -> Result<()> {
    let none = RecordBatch::new_empty(Arc::new(frame.schema().as_arrow().clone()));
    let mut writer = writer(change(none)?.schema(), to)?;
    let mut rows = frame.execute_stream().await?;
    while let Some(batch) = rows.next().await {
        writer.write(&change(batch?)?)?;
    }
    writer.close()?;
    Ok(())
}

/// Writes only these rows.
pub(crate) fn write_batch(rows: &RecordBatch, to: &Path) -> Result<()> {
    let mut writer = writer(rows.schema(), to)?;
    writer.write(rows)?;
    writer.close()?;
    Ok(())
}

/// A file for rows of these columns.
pub(crate) fn writer(columns: SchemaRef, to: &Path) -> Result<ArrowWriter<File>> {
    let file = File::create_new(to)
        .map_err(|error| Error::io(format_args!("cannot make {}", to.display()), error))?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::LZ4_RAW)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_max_row_group_bytes(Some(GROUP_BYTES))
        .build();
    Ok(ArrowWriter::try_new(file, columns, Some(properties))?)
}

//! The engine for tables, with a bound on its memory, and the tables behind the figures.
//!
//! ```text
//!   operations.parquet --GROUP BY, ORDER BY--> keys.parquet --every nth key--> borders (of ranges)
//!   (operations.rs)              ^             (tables.rs)
//!       stored.parquet ----------+
//!       (stored.rs; if the keys of the store are listed)
//! ```
//! Invariant: memory that queries hold is in the pool, which refuses more than its share of the
//! budget. Rows that do not fit in the pool are spilled to files beside the tables, and removed
//! with them.
//!
//! Not here: the queries, which are in `figures`.

use crate::error::{Error, Result};
use crate::functions;
use crate::pool::Pool;
use crate::tables::Change;
use arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{MemoryPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext, ident};
use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The memory and the threads that the analysis may use.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Memory of the process, in bytes. Half of it is the pool's: the rest is for memory that the
    /// pool does not know.
    pub memory_bytes: u64,
    /// Queries use this number of threads.
    pub threads: usize,
}

impl Budget {
    /// The least memory with which an analysis begins.
    pub const MEMORY_BYTES_MIN: u64 = 256 << 20;

    /// # Errors
    /// `Argument` if the memory is below [`Budget::MEMORY_BYTES_MIN`], or there is no thread.
    pub(crate) fn check(&self) -> Result<()> {
        if self.memory_bytes < Budget::MEMORY_BYTES_MIN {
            let least = Budget::MEMORY_BYTES_MIN >> 20;
            let message = format!("an analysis takes at least {least} MiB of memory");
            return Err(Error::Argument(message));
        }
        if self.threads == 0 {
            return Err(Error::Argument("an analysis takes a thread".to_owned()));
        }
        Ok(())
    }

    /// The pool. When it refuses, it names its largest holders.
    pub(crate) fn pool(&self) -> Arc<dyn MemoryPool> {
        let bytes = usize::try_from(self.memory_bytes / 2).unwrap_or(usize::MAX);
        let names = NonZeroUsize::new(5).expect("5 is not 0");
        Arc::new(TrackConsumersPool::new(Pool::new(bytes), names))
    }
}

/// The engine's text when the pool refuses, wherever the query ran: another attempt would end in
/// the same way.
const TOO_LITTLE_MEMORY: &str = "Resources exhausted";

/// The number of rows that queries pass on at once, and of bytes of keys in them: with long keys,
/// fewer rows. A query holds several of such batches for each of its steps, with any part of the
/// memory.
const BATCH_ROWS: usize = 8192;
const BATCH_ROWS_MIN: usize = 16;
const BATCH_BYTES: u64 = 2 << 20;

/// The configuration of queries, wherever they run.
#[must_use]
pub fn configuration(threads: usize) -> SessionConfig {
    let mut configuration = SessionConfig::new()
        .with_target_partitions(threads)
        .with_batch_size(BATCH_ROWS)
        .with_information_schema(false);
    let options = configuration.options_mut();
    options.execution.parquet.pushdown_filters = true;
    options.execution.sort_spill_reservation_bytes = 16 << 20;
    configuration
}

/// Rows that do not fit in memory go to files in `folder`, until the disk is full.
pub(crate) fn spilling_to(folder: &Path) -> DiskManagerBuilder {
    DiskManagerBuilder::default()
        .with_mode(DiskManagerMode::Directories(vec![folder.to_path_buf()]))
        .with_max_temp_directory_size(u64::MAX)
}

/// The engine, and the place of its tables.
pub struct Session {
    context: SessionContext,
    folder: PathBuf,
    attempts: u32,
}

impl Session {
    /// A session whose tables and spilled rows are in `folder`.
    ///
    /// # Errors
    /// `Argument` if the budget is too little.
    pub fn new(folder: &Path, budget: &Budget) -> Result<Session> {
        budget.check()?;
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(budget.pool())
            .with_disk_manager_builder(spilling_to(folder))
            .build_arc()?;
        let context = SessionContext::new_with_config_rt(configuration(budget.threads), runtime);
        functions::register(&context);
        Ok(Session {
            context,
            folder: folder.to_path_buf(),
            attempts: 1,
        })
    }

    /// Makes queries pass on the number of rows that fits keys of this mean length.
    pub fn fit_keys(&self, key_bytes: u64) {
        let rows = usize::try_from(BATCH_BYTES / key_bytes.max(1)).unwrap_or(BATCH_ROWS);
        let state = self.context.state_ref();
        let mut state = state.write();
        let rows = rows.clamp(BATCH_ROWS_MIN, BATCH_ROWS);
        let fitting = state.config().clone().with_batch_size(rows);
        *state.config_mut() = fitting;
    }

    /// A session that runs its queries by `context`, which has the functions of
    /// [`functions::register`]. Executors may get lost: work that needs them is tried at most
    /// `attempts` times.
    #[must_use]
    pub fn over(context: SessionContext, folder: &Path, attempts: u32) -> Session {
        Session {
            context,
            folder: folder.to_path_buf(),
            attempts,
        }
    }

    /// Does work that asks queries. Does it once more if the executors that ran them may have been
    /// lost. Tables that it made before it failed are removed.
    ///
    /// # Errors
    /// The errors of `work`, the last time; `Io` if tables cannot be removed.
    pub async fn persist<T>(&self, mut work: impl AsyncFnMut() -> Result<T>) -> Result<T> {
        let before = self.tables()?;
        for _ in 1..self.attempts {
            match work().await {
                Err(Error::Query(message)) if !message.contains(TOO_LITTLE_MEMORY) => {}
                result => return result,
            }
            for table in self.tables()?.difference(&before) {
                self.drop_table(table)?;
            }
        }
        work().await
    }

    /// The names of tables that have a file.
    fn tables(&self) -> Result<BTreeSet<String>> {
        let failed =
            |error| Error::io(format_args!("cannot list {}", self.folder.display()), error);
        let mut tables = BTreeSet::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let name = name.to_string_lossy();
            tables.extend(name.strip_suffix(".parquet").map(ToOwned::to_owned));
        }
        Ok(tables)
    }

    /// The folder of the tables.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of a table's file.
    #[must_use]
    pub fn table_file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.parquet"))
    }

    /// Makes the Parquet file `name` of the folder a table of this name.
    ///
    /// # Errors
    /// `Query` if it cannot be read.
    pub async fn open_table(&self, name: &str) -> Result<()> {
        let url = url_of(&self.table_file(name))?;
        let order: Vec<_> = order_of(name)
            .iter()
            .map(|column| ident(*column).sort(true, false))
            .collect();
        let mut options = ParquetReadOptions::default();
        if !order.is_empty() {
            options = options.file_sort_order(vec![order]);
        }
        Ok(self.context.register_parquet(name, &url, options).await?)
    }

    /// Forgets a table and removes its file.
    ///
    /// # Errors
    /// `Io` if the file cannot be removed.
    pub(crate) fn drop_table(&self, name: &str) -> Result<()> {
        self.context.deregister_table(name)?;
        let file = self.table_file(name);
        fs::remove_file(&file)
            .map_err(|error| Error::io(format_args!("cannot remove {}", file.display()), error))
    }

    /// The rows of a query.
    ///
    /// # Errors
    /// `Query`.
    pub async fn rows(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        Ok(self.context.sql(sql).await?.collect().await?)
    }

    /// The rows of a query, as they come.
    ///
    /// # Errors
    /// `Query`.
    pub async fn stream(&self, sql: &str) -> Result<SendableRecordBatchStream> {
        Ok(self.context.sql(sql).await?.execute_stream().await?)
    }

    /// Writes the rows of a query to the Parquet file of a new table, in the table's order, if it
    /// has one.
    ///
    /// # Errors
    /// `Query`; `Io`.
    pub async fn make_table(&self, name: &str, sql: &str) -> Result<()> {
        self.make_table_by(name, sql, &mut Ok).await
    }

    /// As [`make_table`](Session::make_table), with rows as `change` makes them.
    ///
    /// # Errors
    /// `Query`; `Io`.
    pub(crate) async fn make_table_by(
        &self,
        name: &str,
        sql: &str,
        change: Change<'_>,
    ) -> Result<()> {
        let path = self.table_file(name);
        let by = order_of(name);
        let frame = match by.is_empty() {
            true => self.context.sql(sql).await?,
            false => {
                let ordered = format!("{sql} ORDER BY {}", by.join(", "));
                self.context.sql(&ordered).await?
            }
        };
        crate::tables::write(frame, &path, change).await?;
        self.open_table(name).await
    }
}

/// The columns that order the rows of a table, so that the engine need not sort them for queries
/// that ask for this order.
fn order_of(table: &str) -> &'static [&'static str] {
    match table {
        "operations" => &["number"],
        "keys" => &["keyspace", "key", "kind"],
        "access_counts" => &["keyspace", "kind", "accesses"],
        "sizes" => &["keyspace", "kind", "what", "size"],
        _ => &[],
    }
}

/// A file as a URL. A path would be a pattern if its name has brackets, stars or question marks.
fn url_of(path: &Path) -> Result<String> {
    let whole = std::path::absolute(path).map_err(|error| Error::io(path.display(), error))?;
    let mut url = "file://".to_owned();
    for &byte in whole.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => url.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => url.push(char::from(byte)),
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(folder: &Path) -> Session {
        Session::over(SessionContext::new(), folder, 3)
    }

    /// Fails `failures` times, each time after a table was made. Returns how often it was asked.
    async fn attempts(session: &Session, failures: u32, why: &str) -> (Result<()>, u32) {
        let mut asked = 0;
        let result = session
            .persist(async || {
                asked += 1;
                session.make_table("t", "SELECT 1 AS a").await?;
                match asked <= failures {
                    true => Err(Error::Query(why.to_owned())),
                    false => Ok(()),
                }
            })
            .await;
        (result, asked)
    }

    #[test]
    fn what_was_lost_is_asked_again_and_what_it_made_goes() {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            for (failures, asked) in [(0, 1), (1, 2), (2, 3), (3, 3), (9, 3)] {
                let folder = tempfile::tempdir().unwrap();
                let session = session(folder.path());
                session.make_table("before", "SELECT 2 AS a").await.unwrap();
                let (result, found) = attempts(&session, failures, "lost").await;
                assert_eq!(found, asked);
                assert_eq!(result.is_ok(), failures < 3);
                for table in ["before", "t"] {
                    let sql = format!("SELECT a FROM {table}");
                    assert_eq!(session.rows(&sql).await.unwrap().len(), 1);
                }
            }
        });
    }

    #[test]
    fn queries_hand_on_fewer_rows_at_once_where_keys_are_long() {
        let folder = tempfile::tempdir().unwrap();
        let session = session(folder.path());
        for (key_bytes, rows) in [
            (0, 8192),
            (20, 8192),
            (4096, 512),
            (60_000, 34),
            (u64::MAX, 16),
        ] {
            session.fit_keys(key_bytes);
            let state = session.context.state();
            assert_eq!(state.config().batch_size(), rows, "{key_bytes}");
        }
    }

    #[test]
    fn too_little_memory_is_not_asked_for_again() {
        let folder = tempfile::tempdir().unwrap();
        let session = session(folder.path());
        let why = format!("Job failed: {TOO_LITTLE_MEMORY}: of 1 MB");
        let asking = attempts(&session, 1, &why);
        let (result, asked) = tokio::runtime::Runtime::new().unwrap().block_on(asking);
        assert!(result.is_err());
        assert_eq!(asked, 1);
    }
}

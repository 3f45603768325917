//! The engine for tables, with a bound on its memory, and the tables that figures are queries over.
//!
//! ```text
//!   operations.parquet --GROUP BY, ORDER BY--> keys.parquet --every nth key--> borders (of ranges)
//!   (operations.rs)                            (tables.rs)
//! ```
//! Invariant: what queries hold is in the pool, which refuses more than its share of the budget; what does not fit in the pool is spilled to
//! files beside the tables, which go with them.
//!
//! Not here: what is asked. That is in `figures`.

use crate::error::{Error, Result};
use crate::functions;
use arrow::array::RecordBatch;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the analysis may use.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Memory of the process, in bytes. Half of it is the pool's: the rest is for what the pool does not know.
    pub memory_bytes: u64,
    /// Queries use so many threads.
    pub threads: usize,
}

impl Budget {
    /// The least memory with which an analysis begins.
    pub const MEMORY_BYTES_MIN: u64 = 256 << 20;
}

/// The configuration that queries run with, wherever they run.
#[must_use]
pub fn configuration(threads: usize) -> SessionConfig {
    let mut configuration = SessionConfig::new()
        .with_target_partitions(threads)
        .with_batch_size(8192)
        .with_information_schema(false);
    let options = configuration.options_mut();
    options.execution.parquet.pushdown_filters = true;
    options.execution.sort_spill_reservation_bytes = 16 << 20;
    configuration
}

/// The engine, and where its tables are.
pub struct Session {
    context: SessionContext,
    folder: PathBuf,
}

impl Session {
    /// A session whose tables and spilled rows are in `folder`.
    ///
    /// # Errors
    /// `Argument` if the memory is below [`Budget::MEMORY_BYTES_MIN`].
    pub fn new(folder: &Path, budget: &Budget) -> Result<Session> {
        if budget.memory_bytes < Budget::MEMORY_BYTES_MIN {
            let least = Budget::MEMORY_BYTES_MIN >> 20;
            let message = format!("an analysis takes at least {least} MiB of memory");
            return Err(Error::Argument(message));
        }
        let pool = usize::try_from(budget.memory_bytes / 2).unwrap_or(usize::MAX);
        let names = NonZeroUsize::new(5).expect("5 is not 0");
        let disk = DiskManagerBuilder::default()
            .with_mode(DiskManagerMode::Directories(vec![folder.to_path_buf()]))
            .with_max_temp_directory_size(u64::MAX);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(TrackConsumersPool::new(
                FairSpillPool::new(pool),
                names,
            )))
            .with_disk_manager_builder(disk)
            .build_arc()?;
        let context = SessionContext::new_with_config_rt(configuration(budget.threads), runtime);
        functions::register(&context);
        Ok(Session {
            context,
            folder: folder.to_path_buf(),
        })
    }

    /// A session that runs its queries by `context`, which has the functions of [`functions::register`].
    #[must_use]
    pub fn over(context: SessionContext, folder: &Path) -> Session {
        Session {
            context,
            folder: folder.to_path_buf(),
        }
    }

    /// The folder of the tables.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the file of a table is.
    #[must_use]
    pub fn table_file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.parquet"))
    }

    /// Makes the Parquet file `name` of the folder a table of this name.
    ///
    /// # Errors
    /// `Query` if it cannot be read.
    pub async fn open_table(&self, name: &str) -> Result<()> {
        let path = self.table_file(name);
        let path = path.to_string_lossy();
        let options = ParquetReadOptions::default();
        Ok(self
            .context
            .register_parquet(name, path.as_ref(), options)
            .await?)
    }

    /// The rows of a query.
    ///
    /// # Errors
    /// `Query`.
    pub async fn rows(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        Ok(self.context.sql(sql).await?.collect().await?)
    }

    /// Writes the rows of a query to the Parquet file of a new table, in the query's order.
    ///
    /// # Errors
    /// `Query`; `Io`.
    pub async fn make_table(&self, name: &str, sql: &str) -> Result<()> {
        let path = self.table_file(name);
        let frame = self.context.sql(sql).await?;
        crate::tables::write(frame, &path).await?;
        self.open_table(name).await
    }
}

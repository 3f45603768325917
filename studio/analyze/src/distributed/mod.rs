//! The distributed form of the analysis: the same queries, run by a scheduler and executors that
//! are processes of their own.
//!
//! ```text
//!   evendb-analyze TRACE                evendb-analyze scheduler      evendb-analyze executor
//!     --scheduler S                                                     (several)
//!   reads the trace, writes   --------> plans a query, cuts it   <--- ask for tasks, run them,
//!   tables, asks queries (SQL)          into stages of tasks          keep their results in files,
//!        ^                                                            serve these
//!        |                                                                |
//!        +------------------------ rows of the last stage ----------------+
//! ```
//! The engine is Ballista, which is DataFusion on several machines. All three parts are this
//! program, so that all know the functions of [`functions::register`](crate::functions::register):
//! only their names travel. Tables travel as paths: the folder of the tables must lie on a file
//! system that all parts see at the same place.
//!
//! Connections: the client and the executors connect to the scheduler; the client and the executors
//! connect to executors, for results. The scheduler connects to nobody. Each part listens on the
//! address that it was given, and on no other.
//!
//! There is no authentication and no encryption here: everybody who reaches an address can run
//! queries, and so read files, with the rights of the processes.
//!
//! When an executor is lost, its tasks and the results that it kept are lost. The scheduler notices
//! it when it has not heard of the executor for a while ([`Scheduler::executor_timeout_seconds`]),
//! or when another part cannot fetch a result from it. It then has the stages run again elsewhere.
//! When results of the last stage are lost before the client has them, the client asks again.

mod engine;
mod executor;
mod scheduler;

pub use executor::Executor;
pub use scheduler::Scheduler;

use crate::error::{Error, Result};
use crate::functions;
use crate::session::{Session, configuration};
use ballista::prelude::{SessionConfigExt, SessionContextExt};
use ballista_core::config::{
    BALLISTA_SCHEDULER_MAX_PARTITIONS_PER_TASK, BALLISTA_SHUFFLE_READER_MAX_REQUESTS,
    BALLISTA_SHUFFLE_SORT_BASED_MEMORY_LIMIT_PER_TASK_BYTES,
};
use datafusion::execution::SessionState;
use datafusion::prelude::{SessionConfig, SessionContext};
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpStream;

/// Bytes of the rows that a task sorts for their next tasks and keeps in memory; more go to a file.
/// The pool does not know of them.
const SHUFFLE_BYTES_PER_TASK: u64 = 32 << 20;
/// A task fetches at most this number of results of other executors at a time. Each result is in
/// memory as a whole, and the pool does not know of it.
const FETCHES_PER_TASK: u64 = 2;
/// The largest message between parts; a batch of rows is one.
const MESSAGE_BYTES_MAX: u32 = 64 << 20;
/// A query is asked at most this number of times, if the executor that ran it is lost with the
/// results of its last stage.
const ATTEMPTS: u32 = 3;
/// The time for which a part waits for the scheduler when it begins.
const SCHEDULER_WAIT: Duration = Duration::from_secs(10);

/// A session whose queries are run by the scheduler at `scheduler` (`HOST:PORT`), each cut into
/// `partitions` parts. Its tables are in `folder`, which executors see too.
///
/// # Errors
/// `Io` if nothing listens there, or there is no such folder; `Query` if the session is refused.
pub async fn session(scheduler: &str, partitions: usize, folder: &Path) -> Result<Session> {
    // The path travels, and processes have different working directories.
    let folder = std::fs::canonicalize(folder)
        .map_err(|error| Error::io(format_args!("cannot find {}", folder.display()), error))?;
    reach(scheduler).await?;
    let settings = configuration(partitions)
        .upgrade_for_ballista()
        // The adaptive planner of Ballista 55.0 gives rows of a `UNION ALL` twice if one side of it
        // is empty.
        .with_ballista_adaptive_query_planner(false)
        // The small side of a join is in memory, as in one process. Ballista's own choice, a merge
        // join, sorts both sides, has all rows of a keyspace in one task, and takes the whole pool.
        .set_bool("datafusion.optimizer.prefer_hash_join", true)
        // The engine must not choose to send the small side of a join to every task. Ballista 55.0
        // may take that choice back (the rows of a `NOT IN`). Then the join has several parts
        // again, but the steps above it were planned for one.
        .set_u64(
            "datafusion.optimizer.hash_join_single_partition_threshold",
            0,
        )
        .set_u64(
            "datafusion.optimizer.hash_join_single_partition_threshold_rows",
            0,
        )
        // One task is one part. A lost task costs no more than that part, and an executor with a
        // free place runs one, in its share of memory.
        .set_u64(BALLISTA_SCHEDULER_MAX_PARTITIONS_PER_TASK, 1)
        .set_u64(BALLISTA_SHUFFLE_READER_MAX_REQUESTS, FETCHES_PER_TASK)
        .with_ballista_grpc_client_max_message_size(MESSAGE_BYTES_MAX as usize)
        .set_u64(
            BALLISTA_SHUFFLE_SORT_BASED_MEMORY_LIMIT_PER_TASK_BYTES,
            SHUFFLE_BYTES_PER_TASK,
        );
    let state = SessionContext::new_with_config(settings).state();
    let address = format!("df://{scheduler}");
    let context = SessionContext::remote_with_state(&address, state).await?;
    // After the upgrade, which replaces all functions by the engine's own.
    functions::register(&context);
    Ok(Session::over(context, &folder, ATTEMPTS))
}

/// Waits until something listens at `scheduler`.
async fn reach(scheduler: &str) -> Result<()> {
    let attempts = SCHEDULER_WAIT.as_millis() / 250;
    for attempt in 0.. {
        match TcpStream::connect(scheduler).await {
            Ok(_) => break,
            Err(_) if attempt < attempts => tokio::time::sleep(Duration::from_millis(250)).await,
            Err(error) => {
                return Err(Error::io(
                    format_args!("cannot reach the scheduler at {scheduler}"),
                    error,
                ));
            }
        }
    }
    Ok(())
}

/// The state in which the scheduler plans queries, with the functions of the analysis.
fn state(settings: SessionConfig) -> datafusion::error::Result<SessionState> {
    let state = ballista_core::utils::default_session_builder(settings)?;
    let context = SessionContext::new_with_state(state);
    functions::register(&context);
    Ok(context.state())
}

impl From<ballista_core::error::BallistaError> for Error {
    fn from(error: ballista_core::error::BallistaError) -> Error {
        Error::Query(error.to_string())
    }
}

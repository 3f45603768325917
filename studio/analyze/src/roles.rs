//! The processes of the distributed form as subcommands: `scheduler` and `executor`.

use clap::{Args, Subcommand};
use evendb_analyze::distributed::{Executor, Scheduler};
use evendb_analyze::{Budget, Error};
use evendb_report::printed::printable;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Subcommand)]
pub enum Role {
    /// Plan the queries of analyses (`--scheduler`) and hand their tasks to executors, until it is
    /// ended
    ///
    /// There is no authentication: everybody who reaches the address can make the executors read
    /// files.
    Scheduler(SchedulerArguments),
    /// Run tasks of a scheduler's queries, until it is ended
    ///
    /// There is no authentication: everybody who reaches the address can read its results. The
    /// folder of the analysis (`--out`) must be at the same path here and where the analysis was
    /// started.
    Executor(ExecutorArguments),
}

#[derive(Args)]
pub struct SchedulerArguments {
    /// The address to listen on; port 0 is a free port, which is printed
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// An executor that was not heard of for this number of seconds is lost, and its work is done
    /// again elsewhere
    #[arg(long, default_value_t = 30)]
    executor_timeout_seconds: u64,
    /// Write events to standard error, and not only errors
    #[arg(long)]
    verbose: bool,
}

#[derive(Args)]
pub struct ExecutorArguments {
    /// The scheduler
    #[arg(long, value_name = "HOST:PORT")]
    scheduler: String,
    /// The address to listen on, for parts that fetch results; port 0 is a free port, which is
    /// printed
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The host by which others reach it; by default the address
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,
    /// The folder for results of tasks and for rows that do not fit in memory; a folder for this
    /// executor is made in it
    #[arg(long)]
    work: PathBuf,
    /// Tasks that run at once; by default one for each core
    #[arg(long)]
    threads: Option<usize>,
    /// Memory of the executor, in MiB; half of it is for what its tasks hold
    #[arg(long, default_value_t = 2048)]
    memory_mib: u64,
    /// Write events to standard error, and not only errors
    #[arg(long)]
    verbose: bool,
}

/// Runs as the process of this role, until it is ended.
pub fn run(role: Role) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::Io(error.to_string()))?;
    runtime.block_on(async {
        match role {
            Role::Scheduler(arguments) => {
                tell(arguments.verbose);
                let seconds = arguments.executor_timeout_seconds;
                let scheduler = Scheduler::listen(arguments.listen, seconds).await?;
                let _ = writeln!(io::stdout(), "scheduler listens on {}", scheduler.address());
                scheduler.serve().await
            }
            Role::Executor(arguments) => {
                tell(arguments.verbose);
                let budget = Budget {
                    memory_bytes: arguments.memory_mib << 20,
                    threads: arguments.threads.unwrap_or_else(crate::cores),
                };
                let executor = Executor::listen(arguments.listen, &arguments.work, budget).await?;
                let _ = writeln!(
                    io::stdout(),
                    "executor listens on {}, works in {}",
                    executor.address(),
                    printable(&executor.folder().display().to_string())
                );
                executor
                    .serve(&arguments.scheduler, arguments.advertise)
                    .await
            }
        }
    })
}

/// Messages of the engine, on standard error.
struct Log;

impl log::Log for Log {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        let target = metadata.target();
        // It is no warning that a task writes more than it keeps in memory, and has no figures of
        // its plan.
        let is_usual =
            target.ends_with("sort_shuffle::writer") || target.ends_with("execution_stage");
        target.starts_with("ballista") && (!is_usual || log::max_level() >= log::LevelFilter::Info)
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let (level, target) = (record.level(), record.target());
            let said = printable(&record.args().to_string());
            let _ = writeln!(io::stderr(), "{level} {target}: {said}");
        }
    }

    fn flush(&self) {}
}

pub fn tell(verbose: bool) {
    static LOG: Log = Log;
    // It fails only if there is a log already.
    let _ = log::set_logger(&LOG);
    log::set_max_level(if verbose {
        log::LevelFilter::Info
    } else {
        log::LevelFilter::Warn
    });
}

//! An executor: runs tasks of queries, keeps their results in files, and serves these results.
//!
//! Memory: half of the budget is the pool's, which all tasks share; rows that do not fit there are
//! in files. The other half is for memory that the pool does not know: rows on their way, and rows
//! that a task sorts for the next one.
//!
//! Its files are in a folder of its own, which is removed when a signal that it can catch ends it.

use super::engine::Engine;
use super::{MESSAGE_BYTES_MAX, reach, state};
use crate::error::{Error, Result};
use crate::session::{Budget, spilling_to};
use arrow_flight::flight_service_server::FlightServiceServer;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::error::BallistaError;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::utils::{create_grpc_server, default_config_producer};
use ballista_executor::ArrowFlightServerProvider;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_executor::flight_service::BallistaFlightService;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use futures::stream;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

/// An executor that listens, and does not ask for tasks yet.
pub struct Executor {
    listener: TcpListener,
    address: SocketAddr,
    folder: TempDir,
    budget: Budget,
}

impl Executor {
    /// Listens on `address`, for parts that fetch results, and on nothing else. Makes a folder of
    /// its own in `work`.
    ///
    /// # Errors
    /// `Argument` if the memory is too little; `Io`.
    pub async fn listen(address: SocketAddr, work: &Path, budget: Budget) -> Result<Executor> {
        budget.check()?;
        let failed = |error| Error::io(format_args!("cannot listen on {address}"), error);
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let folder = tempfile::Builder::new()
            .prefix("executor-")
            .tempdir_in(work)
            .map_err(|error| {
                Error::io(
                    format_args!("cannot make a folder in {}", work.display()),
                    error,
                )
            })?;
        Ok(Executor {
            listener,
            address,
            folder,
            budget,
        })
    }

    /// The address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs the tasks of the scheduler at `scheduler` (`HOST:PORT`) until a signal ends it.
    /// `advertised` is the host by which others reach it; by default that of its address.
    ///
    /// # Errors
    /// `Io` if there is no scheduler; `Query` if the engine ends.
    pub async fn serve(self, scheduler: &str, advertised: Option<String>) -> Result<()> {
        let (host, port) = scheduler
            .rsplit_once(':')
            .and_then(|(host, port)| Some((host, port.parse().ok()?)))
            .ok_or_else(|| Error::Argument(format!("no HOST:PORT: {scheduler}")))?;
        // The engine's own waiting has no end.
        reach(scheduler).await?;
        let registry = BallistaFunctionRegistry::from(&state(default_config_producer())?);
        let spilled = self.folder.path().to_path_buf();
        let pool = self.budget.pool();
        let settings = ExecutorProcessConfig {
            bind_host: self.address.ip().to_string(),
            external_host: Some(advertised.unwrap_or_else(|| self.address.ip().to_string())),
            port: self.address.port(),
            // Nothing listens there: tasks are asked for.
            grpc_port: 0,
            scheduler_host: host.to_owned(),
            scheduler_port: port,
            vcores: self.budget.threads,
            task_scheduling_policy: TaskSchedulingPolicy::PullStaged,
            work_dir: Some(self.folder.path().to_string_lossy().into_owned()),
            grpc_max_decoding_message_size: MESSAGE_BYTES_MAX,
            grpc_max_encoding_message_size: MESSAGE_BYTES_MAX,
            // No pool except ours, which all tasks share.
            memory_pool_size: Some(0),
            override_execution_engine: Some(Arc::new(Engine::default())),
            override_function_registry: Some(Arc::new(registry)),
            override_runtime_producer: Some(Arc::new(move |_| {
                RuntimeEnvBuilder::new()
                    .with_memory_pool(pool.clone())
                    .with_disk_manager_builder(spilling_to(&spilled))
                    .build_arc()
            })),
            override_arrow_flight_service: Some(results(self.listener)),
            ..ExecutorProcessConfig::default()
        };
        start_executor_process(Arc::new(settings)).await?;
        self.folder
            .close()
            .map_err(|error| Error::io("cannot remove the folder", error))
    }
}

/// The server of results, on an existing listener: the system may have chosen its port.
fn results(listener: TcpListener) -> Arc<ArrowFlightServerProvider> {
    let listener = Mutex::new(Some(listener));
    Arc::new(move |folder, _, mut shutdown, settings| {
        let listener = listener.try_lock().ok().and_then(|mut held| held.take());
        tokio::spawn(async move {
            let listener = listener
                .ok_or_else(|| BallistaError::Internal("results are served once".to_owned()))?;
            let incoming = stream::unfold(listener, async |listener| {
                Some((listener.accept().await.map(|(stream, _)| stream), listener))
            });
            let service = FlightServiceServer::new(BallistaFlightService::new(folder))
                .max_decoding_message_size(MESSAGE_BYTES_MAX as usize)
                .max_encoding_message_size(MESSAGE_BYTES_MAX as usize);
            create_grpc_server(&settings)
                .add_service(service)
                .serve_with_incoming_shutdown(incoming, shutdown.recv())
                .await
                .map_err(BallistaError::TonicError)
        })
    })
}

//! The scheduler: plans queries and hands their tasks to executors that ask.
//!
//! Its state is in memory: when it ends, the queries that run are lost.

use super::state;
use crate::error::{Error, Result};
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::utils::default_config_producer;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// Seconds for which files of an ended query stay, because the client may still be fetching its
/// rows.
const RESULTS_SECONDS: u64 = 1800;

/// A scheduler that listens, and does not serve yet.
pub struct Scheduler {
    listener: TcpListener,
    address: SocketAddr,
    /// An executor that was not heard of for this number of seconds is lost. Executors that are
    /// busy are heard of every 5 seconds.
    pub executor_timeout_seconds: u64,
}

impl Scheduler {
    /// The shortest [`executor_timeout_seconds`](Scheduler::executor_timeout_seconds).
    pub const EXECUTOR_TIMEOUT_SECONDS_MIN: u64 = 10;

    /// Listens on `address` and on nothing else.
    ///
    /// # Errors
    /// `Argument` if executors would be lost too soon; `Io` if the address cannot be had.
    pub async fn listen(address: SocketAddr, executor_timeout_seconds: u64) -> Result<Scheduler> {
        let least = Scheduler::EXECUTOR_TIMEOUT_SECONDS_MIN;
        if executor_timeout_seconds < least {
            return Err(Error::Argument(format!(
                "an executor must be given {least} seconds at least"
            )));
        }
        let failed = |error| Error::io(format_args!("cannot listen on {address}"), error);
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Scheduler {
            listener,
            address,
            executor_timeout_seconds,
        })
    }

    /// The address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the process ends.
    ///
    /// # Errors
    /// `Query` if the engine refuses to begin, or ends.
    pub async fn serve(self) -> Result<()> {
        let settings = SchedulerConfig {
            bind_host: self.address.ip().to_string(),
            external_host: self.address.ip().to_string(),
            bind_port: self.address.port(),
            // Executors ask, so that they need one port, and the scheduler need not reach anybody.
            scheduling_policy: TaskSchedulingPolicy::PullStaged,
            finished_job_data_clean_up_interval_seconds: RESULTS_SECONDS,
            finished_job_state_clean_up_interval_seconds: RESULTS_SECONDS,
            executor_timeout_seconds: self.executor_timeout_seconds,
            expire_dead_executor_interval_seconds: 1,
            no_executors_grace_period_seconds: 10 * self.executor_timeout_seconds,
            override_session_builder: Some(Arc::new(state)),
            ..SchedulerConfig::default()
        };
        settings.validate()?;
        let cluster = BallistaCluster::new_memory(
            settings.scheduler_endpoint(),
            Arc::new(state),
            Arc::new(default_config_producer),
        );
        let scheduler =
            create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, Arc::new(settings))
                .await?;
        Ok(start_grpc_service_with_listener(self.listener, scheduler).await?)
    }
}

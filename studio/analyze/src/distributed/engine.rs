//! How an executor runs a task: as the engine does, but without telling the scheduler figures of
//! the plan's operators.
//!
//! The scheduler of Ballista 55.0 takes a task's end for an error if its plan has other operators
//! than that of the stage's first task. The query then waits for this task for ever. That was seen
//! in a stage over a `UNION ALL`, where a task has one side. The figures are only for the engine's
//! own display.

use ballista_core::JobId;
use ballista_core::serde::protobuf::{
    RuntimeStatsReport, ShuffleWritePartition, TaskColumnStats, WindowStateReport,
};
use ballista_executor::execution_engine::{
    DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor,
};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::prelude::SessionConfig;
use std::fmt;
use std::sync::Arc;

/// The engine of an executor. It fetches each result by a connection of its own, since the engine's
/// pool of connections is not available here.
#[derive(Default)]
pub(super) struct Engine(DefaultExecutionEngine);

impl ExecutionEngine for Engine {
    fn create_query_stage_exec(
        &self,
        job: JobId,
        stage: usize,
        task: usize,
        partitions: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        folder: &str,
        settings: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        let inner = self
            .0
            .create_query_stage_exec(job, stage, task, partitions, plan, folder, settings)?;
        Ok(Arc::new(Task(inner)))
    }
}

/// A task without figures of its plan.
#[derive(Debug)]
struct Task(Arc<dyn QueryStageExecutor>);

impl fmt::Display for Task {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(to)
    }
}

#[async_trait::async_trait]
impl QueryStageExecutor for Task {
    async fn execute_query_stage(
        &self,
        task: usize,
        context: Arc<TaskContext>,
    ) -> Result<Vec<ShuffleWritePartition>> {
        self.0.execute_query_stage(task, context).await
    }

    fn collect_plan_metrics(&self) -> Vec<MetricsSet> {
        Vec::new()
    }

    // The code below decides how later stages run.

    fn collect_runtime_stats_reports(&self) -> Vec<RuntimeStatsReport> {
        self.0.collect_runtime_stats_reports()
    }

    fn collect_window_state_reports(&self) -> Result<Vec<WindowStateReport>> {
        self.0.collect_window_state_reports()
    }

    fn collect_column_stats(&self) -> Vec<TaskColumnStats> {
        self.0.collect_column_stats()
    }
}

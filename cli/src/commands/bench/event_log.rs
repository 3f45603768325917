//! The workloads of `evendb bench` other than the mixes: the paper's event log, and a log from a
//! file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evendb_lab::driver::{Limit, Worker};
use evendb_lab::event_log::{AnalyticsWorker, EventLog, IngestWorker};
use evendb_lab::log_replay::{LogReplay, ReplayWorker, ReplayedLog};
use evendb_lab::mix::Population;
use evendb_lab::readable::{bytes, counted, grouped};
use serde_json::{Value, json};

use super::{Bench, limits};
use crate::escapes;
use crate::failure::Failure;
use crate::input_stream;
use crate::output;

/// Other workloads than the mixes.
#[derive(clap::Args)]
pub struct LogArguments {
    /// Instead of the mixes, the paper's event log: ingest events of --size bytes in the order of
    /// time, then 95 % scans of the last minute of one app and 5 % puts
    #[arg(long, conflicts_with_all = ["mixes", "distributions", "theta", "replay"])]
    event_log: bool,
    /// Events in a minute of the event log; if not given, a sixteenth of the events
    #[arg(long, value_name = "EVENTS", requires = "event_log",
        value_parser = clap::value_parser!(u64).range(1..=60_000_000_000))]
    events_per_minute: Option<u64>,
    /// Instead of the mixes, put the events of this file in its order, all unless --ops or
    /// --seconds give a limit. A line is `app-id timestamp[ bytes]`, or the same with commas;
    /// missing sizes are --value-bytes. A first line that begins with a letter is skipped as a
    /// heading
    #[arg(long, value_name = "FILE", conflicts_with_all = ["mixes", "distributions", "theta", "size"])]
    replay: Option<PathBuf>,
}

impl LogArguments {
    /// Whether an event log takes the place of the mixes.
    pub fn given(&self) -> bool {
        self.event_log || self.replay.is_some()
    }

    /// Runs the event log that was asked for.
    pub fn run(&self, bench: &mut Bench<'_>) -> Result<(), Failure> {
        match &self.replay {
            Some(path) => replay(bench, path),
            None => self.events(bench),
        }
    }

    /// The settings of the event log, for the report.
    pub fn settings(&self, replayed: Option<&ReplayedLog>) -> Value {
        json!({
            "event_log": self.event_log,
            "events_per_minute": self.events_per_minute,
            "replay": self.replay.as_ref().map(|path| path.display().to_string()),
            "replay_lines": replayed.map(|log| log.lines),
            "replay_events": replayed.map(|log| log.events),
            "replay_bad_lines": replayed.map(|log| log.bad.count),
            "replay_heading": replayed.and_then(|log| log.heading.as_ref()),
        })
    }

    fn events(&self, bench: &mut Bench<'_>) -> Result<(), Failure> {
        let arguments = bench.arguments;
        let value_bytes = arguments.value_bytes as usize;
        // The size of an event does not depend on the number of events in a minute.
        let event_bytes = EventLog::new(1, value_bytes, arguments.seed).event_bytes();
        let events = (arguments.size / event_bytes).max(1);
        let in_a_minute = self.events_per_minute.unwrap_or(events.div_ceil(16));
        let log = EventLog::new(in_a_minute, value_bytes, arguments.seed);
        bench.planned = 2;
        let text = format!(
            "{}, {} of {}, {} in all, {} a minute, {}",
            bench.store.name(),
            counted(events, "event"),
            bytes(event_bytes),
            bytes(events * event_bytes),
            grouped(in_a_minute),
            counted(arguments.threads.into(), "thread")
        );
        bench.begin(&text, Some(events * event_bytes))?;
        let mut ingest = bench.phase("ingest", "event-log", Limit::default(), true);
        ingest.expected_operations = Some(events);
        let population = Arc::new(Population::new(0));
        let result = bench.run_measured(&ingest, &|_| -> Box<dyn Worker> {
            let population = Arc::clone(&population);
            Box::new(IngestWorker::new(log.clone(), population, events))
        })?;
        bench.report(result)?;
        if bench.interrupt.raised() {
            return Ok(());
        }
        let limit = limits::limit(arguments, limits::lengths(arguments).seconds);
        let analytics = bench.phase("analytics", "event-log", limit, true);
        let population = Arc::new(Population::new(events));
        let result = bench.run_measured(&analytics, &|thread| -> Box<dyn Worker> {
            let population = Arc::clone(&population);
            Box::new(AnalyticsWorker::new(log.clone(), population, thread))
        })?;
        bench.report(result)
    }
}

fn replay(bench: &mut Bench<'_>, path: &Path) -> Result<(), Failure> {
    let arguments = bench.arguments;
    let threads = usize::from(arguments.threads);
    let value_bytes = arguments.value_bytes as usize;
    input_stream::refuse_directory(path)?;
    // The count ends the reading. It cannot end the workers, whose shares of the file differ.
    let log = LogReplay::open(path, threads, value_bytes, arguments.ops, arguments.seed)
        .map_err(|error| Failure::new(format!("cannot read {}", path.display()), error))?;
    let log = Arc::new(log);
    bench.planned = 1;
    let text = format!(
        "{}, the events of {} ({}), {}",
        bench.store.name(),
        path.display(),
        bytes(log.file_bytes()),
        counted(threads as u64, "thread")
    );
    bench.begin(&text, None)?;
    let limit = Limit {
        operations: None,
        duration: arguments.seconds.map(Duration::from_secs_f64),
    };
    let phase = bench.phase("replay", "file", limit, true);
    let result = bench.run_measured(&phase, &|thread| -> Box<dyn Worker> {
        Box::new(ReplayWorker::new(Arc::clone(&log), thread))
    });
    let done = log.done();
    for (line, why) in &done.bad.first {
        output::complain(&format!("{}:{line}: {why}", path.display()));
    }
    if let Some(heading) = &done.heading {
        let shown = escapes::shown(heading.as_bytes());
        let path = path.display();
        output::complain(&format!("{path}:1: skipped as a heading: `{shown}`"));
    }
    if done.bad.count > 0 {
        let what = match done.bad.count {
            1 => "is no event",
            _ => "are no events",
        };
        let (bad, lines) = (counted(done.bad.count, "line"), grouped(done.lines));
        output::complain(&format!("{bad} of {lines} {what}"));
    }
    let is_nothing = done.events == 0;
    bench.replayed = Some(done);
    let result = result?;
    if is_nothing && !bench.interrupt.raised() {
        let path = path.display();
        let message = format!("nothing was replayed: {path} has no line that is an event");
        return Err(Failure::Message(message));
    }
    bench.report(result)
}

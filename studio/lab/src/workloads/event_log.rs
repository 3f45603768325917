//! The event-log workload of the paper's section 5.2: a stream of application events.
//!
//! ```text
//!   key:  [ app id: u32 ][ timestamp: u64, microseconds or finer ]   12 bytes, big endian, so that
//!         byte order is app first, then time
//! ```
//! There are 60,000 apps; 0.1 % of them produce 70 % of the events and 1 % of them 94 % (the
//! paper's figure 1). Within each of the three tiers popularity falls with the inverse of the rank,
//! and ranks are scattered over the app ids. Event `n` of the log is a pure function of `n` and the
//! seed, so every event that is read back is checked without a table: the timestamp gives `n`,
//! `n` gives the app and the value.
//!
//! * **Ingest**: all events in timestamp order, put only; note that this is not key order.
//! * **Analytics**: 95 % scans of the last minute of one app, drawn like the events themselves,
//!   and 5 % puts of further events.
#![expect(clippy::big_endian_bytes, reason = "keys must sort by their bytes")]

use std::sync::Arc;

use crate::driver::Worker;
use crate::mix::Population;
use crate::permutation::Permutation;
use crate::random::{Random, mix64, unit_from};
use crate::recorder::{OperationKind, Recorder, RunError};
use crate::store::Store;
use crate::value::{Thoroughness, Values};

/// The number of apps in the paper's log.
pub const APPS: u64 = 60_000;

/// The tiers of popularity: (share of the apps, share of the events) up to and including each.
const TIERS: [(f64, f64); 3] = [(0.001, 0.70), (0.01, 0.94), (1.0, 1.0)];

/// Bytes of an event's key.
pub const EVENT_KEY_BYTES: usize = 12;

const MINUTE_NANOS: u64 = 60_000_000_000;

/// The shape of an event log.
#[derive(Clone, Debug)]
pub struct EventLog {
    /// `cumulative[rank]` is the share of the events from apps of this rank and of the ranks before
    /// it.
    cumulative: Arc<[f64]>,
    scatter: Permutation,
    values: Values,
    seed: u64,
    interval_nanos: u64,
}

impl EventLog {
    /// A log with this many events in a minute (the paper: 13 million), evenly spaced in time.
    ///
    /// # Panics
    /// If `a_minute` is zero, or so large that events are less than a nanosecond apart.
    #[must_use]
    pub fn new(events_per_minute: u64, value_bytes: usize, seed: u64) -> Self {
        assert!(
            (1..=MINUTE_NANOS).contains(&events_per_minute),
            "events are 1 ns to 1 min apart"
        );
        Self {
            cumulative: popularity(APPS).into(),
            scatter: Permutation::new(APPS, seed),
            values: Values::new(value_bytes, seed),
            seed,
            interval_nanos: MINUTE_NANOS / events_per_minute,
        }
    }

    /// Bytes of an event's key and value.
    #[must_use]
    pub fn event_bytes(&self) -> u64 {
        (EVENT_KEY_BYTES + self.values.value_bytes()) as u64
    }

    /// The app of the `event`-th event.
    #[must_use]
    pub fn app_of(&self, event: u64) -> u32 {
        self.app_at(unit_from(mix64(mix64(event) ^ self.seed)))
    }

    /// The key of the `event`-th event.
    #[must_use]
    pub fn key_of(&self, event: u64) -> [u8; EVENT_KEY_BYTES] {
        event_key(self.app_of(event), event * self.interval_nanos)
    }

    fn app_at(&self, unit: f64) -> u32 {
        let rank = self.cumulative.partition_point(|&share| share <= unit) as u64;
        self.scatter.apply(rank.min(APPS - 1)) as u32
    }

    /// Checks one record that was read: that the event exists, belongs to its app and has its
    /// value. Returns the event's number.
    fn check(&self, key: &[u8], value: &[u8]) -> Result<u64, String> {
        let (app, timestamp) = split_key(key).ok_or("the key is not an event's")?;
        let event = timestamp / self.interval_nanos;
        if timestamp % self.interval_nanos != 0 || self.app_of(event) != app {
            return Err(format!("app {app} has no event at {timestamp} ns"));
        }
        self.values
            .check(event, value, Thoroughness::Spots)
            .map(|()| event)
            .map_err(|fault| format!("event {event} of app {app}: {fault}"))
    }
}

pub(crate) fn event_key(app: u32, timestamp: u64) -> [u8; EVENT_KEY_BYTES] {
    let mut key = [0; EVENT_KEY_BYTES];
    key[..4].copy_from_slice(&app.to_be_bytes());
    key[4..].copy_from_slice(&timestamp.to_be_bytes());
    key
}

fn split_key(key: &[u8]) -> Option<(u32, u64)> {
    let (app, timestamp) = key.split_at_checked(4)?;
    Some((
        u32::from_be_bytes(app.try_into().ok()?),
        u64::from_be_bytes(timestamp.try_into().ok()?),
    ))
}

/// Cumulative shares of the events by rank.
fn popularity(apps: u64) -> Vec<f64> {
    let mut cumulative = Vec::with_capacity(apps as usize);
    let (mut first, mut before) = (0u64, 0.0);
    for (apps_share, events_share) in TIERS {
        let end = (apps as f64 * apps_share).round() as u64;
        let weight: f64 = (first..end).map(|rank| 1.0 / (rank + 1) as f64).sum();
        let mut sum = 0.0;
        for rank in first..end {
            sum += 1.0 / (rank + 1) as f64;
            cumulative.push(before + (events_share - before) * sum / weight);
        }
        (first, before) = (end, events_share);
    }
    cumulative
}

/// Puts the events in timestamp order until `events` are in; workers share the population.
pub struct IngestWorker {
    log: EventLog,
    population: Arc<Population>,
    events: u64,
    value: Vec<u8>,
}

impl IngestWorker {
    /// A worker that ingests events below `events`.
    #[must_use]
    pub fn new(log: EventLog, population: Arc<Population>, events: u64) -> Self {
        Self {
            log,
            population,
            events,
            value: Vec::new(),
        }
    }
}

impl Worker for IngestWorker {
    fn step(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<bool, RunError> {
        let event = self.population.take();
        if event >= self.events {
            return Ok(false);
        }
        put_event(&self.log, &mut self.value, event, store, recorder)?;
        self.population.acknowledge(event);
        Ok(true)
    }
}

fn put_event(
    log: &EventLog,
    value: &mut Vec<u8>,
    event: u64,
    store: &dyn Store,
    recorder: &mut Recorder,
) -> Result<(), RunError> {
    log.values.fill(event, 0, value);
    let key = log.key_of(event);
    recorder.time(OperationKind::Put, || store.put(&key, value))?;
    recorder.user_bytes_written += log.event_bytes();
    Ok(())
}

/// Queries the last minute of apps, and ingests on.
pub struct AnalyticsWorker {
    log: EventLog,
    population: Arc<Population>,
    random: Random,
    value: Vec<u8>,
}

impl AnalyticsWorker {
    /// A worker over a log that holds `population` events.
    #[must_use]
    pub fn new(log: EventLog, population: Arc<Population>, thread: usize) -> Self {
        let random = Random::new(log.seed, 0xA11A_0000 | thread as u64);
        Self {
            log,
            population,
            random,
            value: Vec::new(),
        }
    }

    fn query(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<(), RunError> {
        let app = self.log.app_at(self.random.unit());
        let now = self.population.present() * self.log.interval_nanos;
        let since = now.saturating_sub(MINUTE_NANOS);
        let (log, mut records, mut newest, mut fault) = (&self.log, 0, None, None);
        recorder.time(OperationKind::Scan, || {
            store.scan(&event_key(app, since), usize::MAX, &mut |key, value| {
                if split_key(key).is_none_or(|(found, _)| found != app) {
                    return false;
                }
                match log.check(key, value) {
                    Ok(event) if newest.is_none_or(|newest| newest < event) => newest = Some(event),
                    Ok(event) => fault = Some(format!("event {event} is out of order")),
                    Err(why) => fault = Some(why),
                }
                records += 1;
                fault.is_none()
            })
        })?;
        recorder.records_scanned += records;
        recorder.user_bytes_read += records * self.log.event_bytes();
        fault.map_or(Ok(()), |why| {
            Err(RunError::Wrong(format!("scan of app {app}: {why}")))
        })
    }
}

impl Worker for AnalyticsWorker {
    fn step(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<bool, RunError> {
        if self.random.below(100) < 95 {
            self.query(store, recorder)?;
        } else {
            let event = self.population.take();
            put_event(&self.log, &mut self.value, event, store, recorder)?;
            self.population.acknowledge(event);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::stores::memory::MemoryStore;

    #[test]
    fn popularity_has_the_tiers_of_the_papers_figure_1() {
        let log = EventLog::new(1000, 64, 3);
        let events = 400_000;
        let mut counts: HashMap<u32, u32> = HashMap::new();
        for event in 0..events {
            *counts.entry(log.app_of(event)).or_default() += 1;
        }
        let mut counts: Vec<u32> = counts.into_values().collect();
        counts.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
        let share = |apps: usize| f64::from(counts[..apps].iter().sum::<u32>()) / events as f64;
        assert!((share(60) - 0.70).abs() < 0.01, "{}", share(60));
        assert!((share(600) - 0.94).abs() < 0.01, "{}", share(600));
        assert!(counts.len() > 10_000, "the tail is there: {}", counts.len());
    }

    #[test]
    fn popularity_is_a_distribution() {
        let cumulative = popularity(APPS);
        assert_eq!(cumulative.len() as u64, APPS);
        assert!(cumulative.windows(2).all(|pair| pair[0] < pair[1]));
        assert!((cumulative[APPS as usize - 1] - 1.0).abs() < 1e-9);
    }

    #[test]
    fn queries_return_exactly_the_last_minute_of_the_app() {
        let store = MemoryStore::new();
        let (per_minute, events) = (2000, 5000);
        let log = EventLog::new(per_minute, 32, 3);
        let population = Arc::new(Population::new(0));
        let mut recorder = Recorder::new(Arc::default());
        let mut ingest = IngestWorker::new(log.clone(), population, events);
        while ingest.step(&store, &mut recorder).unwrap() {}
        assert_eq!(store.len() as u64, events);

        let population = Arc::new(Population::new(events));
        let mut worker = AnalyticsWorker::new(log.clone(), population, 0);
        let (mut total, mut twin) = (0, worker.random.clone());
        for _ in 0..50 {
            worker.query(&store, &mut recorder).unwrap();
            let app = log.app_at(twin.unit());
            total += (events - per_minute..events)
                .filter(|&e| log.app_of(e) == app)
                .count();
        }
        assert_eq!(recorder.records_scanned, total as u64);
        assert!(total > 50);
    }

    #[test]
    fn analytics_goes_on_ingesting() {
        let store = MemoryStore::new();
        let log = EventLog::new(2000, 32, 3);
        let population = Arc::new(Population::new(0));
        let mut worker = AnalyticsWorker::new(log, Arc::clone(&population), 0);
        let mut recorder = Recorder::new(Arc::default());
        for _ in 0..2000 {
            worker.step(&store, &mut recorder).unwrap();
        }
        assert!(
            (60..140).contains(&population.present()),
            "{}",
            population.present()
        );
        assert_eq!(store.len() as u64, population.present());
    }

    #[test]
    fn foreign_records_are_refused() {
        let log = EventLog::new(1000, 32, 3);
        let mut value = Vec::new();
        log.values.fill(7, 0, &mut value);
        assert_eq!(log.check(&log.key_of(7), &value), Ok(7));
        assert!(log.check(&log.key_of(8), &value).is_err());
        assert!(log.check(b"short", &value).is_err());
        let mut key = log.key_of(7);
        key[11] ^= 1;
        assert!(log.check(&key, &value).is_err());
    }
}

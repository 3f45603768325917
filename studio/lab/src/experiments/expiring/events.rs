//! Events of a log that expire, or stay, and a check that a store shows exactly the live ones.
//!
//! Event `n` is a pure function of `n`: its key, and its value, which says `n`. The time of its put
//! is not noted; it lies between two looks ([`Mark`]):
//! ```text
//!   events below `present` of a look were put before it
//!   events from `taken` on were put after it
//! ```
//! So an event that was put before a look that is more than a life ago has expired. An event that
//! was put after a look that is less than a life ago has not. Nothing is said of the events
//! between.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::dataset::{KEY_BYTES, key_of};
use crate::driver::Worker;
use crate::event_log::{EVENT_KEY_BYTES, EventLog};
use crate::experiments::Failure;
use crate::mix::Population;
use crate::purposes::given;
use crate::recorder::{OperationKind, Recorder, RunError};
use crate::store::Store;
use crate::value::{Thoroughness, Values};

/// The first part of keys, which decides where new events go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Keys {
    /// The time alone: after all others
    Time,
    /// One of 60,000 apps, some of them busier than others, then the time: everywhere
    App,
}

impl Keys {
    /// The word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Keys::Time => "time",
            Keys::App => "app",
        }
    }
}

/// The paper's number of events in a minute; only the spacing of timestamps follows from it.
const EVENTS_PER_MINUTE: u64 = 13_000_000;
/// An event that is due within this time is put at once.
const SOON: Duration = Duration::from_millis(1);
/// The least time between a look and an expiry for a judgement: clocks are read in between, and the
/// store's clock has milliseconds.
const SLACK: Duration = Duration::from_millis(100);

/// A log whose events are put in order.
pub struct Events {
    keys: Keys,
    log: EventLog,
    values: Values,
    population: Population,
    expire: bool,
}

/// What a look saw.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// When the look began, since the start.
    pub at: Duration,
    /// When the look had counted, since the start.
    pub counted: Duration,
    /// The puts of events below this had begun.
    pub taken: u64,
    /// The puts of events below this had ended.
    pub present: u64,
    /// Bytes of the store's files.
    pub disk: u64,
}

impl Events {
    pub fn new(keys: Keys, value_bytes: usize, seed: u64) -> Events {
        Events {
            keys,
            log: EventLog::new(EVENTS_PER_MINUTE, value_bytes, seed),
            values: Values::new(value_bytes, seed),
            population: Population::new(0),
            expire: false,
        }
    }

    /// The same events, but they expire.
    pub fn that_expire(self) -> Events {
        Events {
            expire: true,
            ..self
        }
    }

    /// Bytes of a key and a value.
    pub fn event_bytes(&self) -> u64 {
        let key = match self.keys {
            Keys::Time => KEY_BYTES,
            Keys::App => EVENT_KEY_BYTES,
        };
        (key + self.values.value_bytes()) as u64
    }

    /// The number of events whose put has begun, and the number below which all puts have ended.
    pub fn counts(&self) -> (u64, u64) {
        let present = self.population.present();
        (self.population.taken(), present)
    }

    fn key(&self, event: u64, target: &mut Vec<u8>) {
        target.clear();
        match self.keys {
            Keys::Time => target.extend_from_slice(&key_of(event)),
            Keys::App => target.extend_from_slice(&self.log.key_of(event)),
        }
    }

    /// A thread that puts the next events, at a rate that all threads share or as fast as it can.
    pub fn worker(self: &Arc<Self>, started: Instant, rate: Option<f64>) -> EventWorker {
        EventWorker {
            events: Arc::clone(self),
            started,
            rate,
            first: self.population.taken(),
            key: Vec::new(),
            value: Vec::new(),
        }
    }
}

/// Puts events.
pub struct EventWorker {
    events: Arc<Events>,
    started: Instant,
    rate: Option<f64>,
    /// The event that is due at the start.
    first: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Worker for EventWorker {
    fn step(&mut self, store: &dyn Store, recorder: &mut Recorder) -> Result<bool, RunError> {
        let events = &*self.events;
        let event = events.population.take();
        if let Some(rate) = self.rate {
            let due = Duration::from_secs_f64(event.saturating_sub(self.first) as f64 / rate);
            let early = due.saturating_sub(self.started.elapsed());
            if early > SOON {
                thread::sleep(early);
            }
        }
        events.key(event, &mut self.key);
        events.values.fill(event, 0, &mut self.value);
        let (key, value) = (&self.key, &self.value);
        match events.expire {
            true => {
                let expiring = given(store, store.expiring(), "put")?;
                recorder.time(OperationKind::Put, || expiring.put_expiring(key, value))?;
            }
            false => recorder.time(OperationKind::Put, || store.put(key, value))?,
        }
        recorder.user_bytes_written += events.event_bytes();
        events.population.acknowledge(event);
        Ok(true)
    }
}

/// Reads everything in a store to which events with this life were put. Returns how many events it
/// shows.
///
/// # Errors
/// The store's; a record that is no event, or has expired; an event that has not expired and is
/// missing.
pub fn check(
    store: &dyn Store,
    events: &Events,
    marks: &[Mark],
    started: Instant,
    life: Duration,
) -> Result<u64, Failure> {
    let hides = given(store, store.expiring(), "scan")?.hides_expired();
    let before = started.elapsed();
    let mut seen = vec![false; events.counts().1 as usize];
    let (mut key_expected, mut wrong) = (Vec::new(), None);
    let read = store.scan(&[], usize::MAX, &mut |key, value| {
        let event = value
            .first_chunk()
            .map_or(u64::MAX, |n| u64::from_le_bytes(*n));
        let Some(seen) = seen.get_mut(event as usize) else {
            wrong = Some(format!("event {event} was never put"));
            return false;
        };
        events.key(event, &mut key_expected);
        if std::mem::replace(seen, true) || key != key_expected {
            wrong = Some(format!("event {event} has another's key"));
        } else if let Err(fault) = events.values.check(event, value, Thoroughness::Spots) {
            wrong = Some(format!("event {event}: {fault}"));
        }
        wrong.is_none()
    })?;
    let after = started.elapsed();
    if let Some(wrong) = wrong {
        return Err(wrong.into());
    }
    let expired_then = marks
        .iter()
        .rfind(|mark| mark.counted + life + SLACK < before);
    let expired = expired_then.map_or(0, |mark| mark.present) as usize;
    if let Some(event) = seen[..expired].iter().position(|&seen| seen)
        && hides
    {
        return Err(format!("event {event} has expired, and is there").into());
    }
    let alive_since = marks.iter().find(|mark| mark.at + life > after + SLACK);
    let alive = alive_since.map_or(seen.len(), |mark| mark.taken as usize);
    if let Some(event) = seen
        .get(alive..)
        .and_then(|all| all.iter().position(|&seen| !seen))
    {
        let event = alive + event;
        return Err(format!("event {event} has not expired, and is missing").into());
    }
    Ok(read as u64)
}

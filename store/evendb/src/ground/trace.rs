//! The only connection to `tracing`: spans and events with the target `evendb`, for work that is
//! rare enough to be reported one by one. Without the feature `tracing`, none of it is compiled.
//!
//! * [`job!`] begins a piece of work: a span around the rest of the scope, and a clock.
//! * [`event!`] reports something: level, message, fields.
//! * [`Stopwatch`] is a clock that exists with the feature only.
//!
//! Fields are expressions of types that `tracing` can record (integers, `bool`, `&str`). They are
//! evaluated only if a subscriber listens.
//!
//! | level | message | fields |
//! |---|---|---|
//! | INFO | `opened`, `closed` | directory, epoch or outcome, time |
//! | INFO | `recovered` | bytes of the commit log replayed, chunks that they made dirty |
//! | ERROR | `latched` | the failure after which nothing is written |
//! | WARN | `stalled` | the room that a put waited for, the time (above [`STALL_MICROS`]) |
//! | DEBUG | `checkpoint` | its number, chunks, bytes, time |
//! | DEBUG | `rebalanced`, `split`, `merged` | chunk, chunks after, bytes, time |
//! | DEBUG | `munk loaded`, `munk absorbed`, `munk evicted` | chunk, bytes, time |
//! | DEBUG | `compacted` | chunks rewritten, bytes before and after, time |
//!
//! `stalled` reports waits only, and not the time in which a put prepares room for later puts.

/// Longer waits of a put are reported, in microseconds.
pub(crate) const STALL_MICROS: u64 = 10_000;

/// A clock that runs with the feature only.
#[derive(Clone, Copy)]
pub(crate) struct Stopwatch {
    #[cfg(feature = "tracing")]
    started: std::time::Instant,
}

impl Stopwatch {
    #[inline]
    pub(crate) fn start() -> Stopwatch {
        Stopwatch {
            #[cfg(feature = "tracing")]
            started: std::time::Instant::now(),
        }
    }

    /// The microseconds since its start; always 0 without the feature.
    #[inline]
    pub(crate) fn micros(self) -> u64 {
        #[cfg(feature = "tracing")]
        return u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        #[cfg(not(feature = "tracing"))]
        0
    }
}

/// A piece of work under way: its span is entered until this value is dropped.
pub(crate) struct JobSpan {
    #[cfg(feature = "tracing")]
    _span: tracing::span::EnteredSpan,
    watch: Stopwatch,
}

impl JobSpan {
    #[cfg(feature = "tracing")]
    pub(crate) fn begin(span: tracing::Span) -> JobSpan {
        JobSpan {
            _span: span.entered(),
            watch: Stopwatch::start(),
        }
    }

    #[cfg(not(feature = "tracing"))]
    #[inline]
    pub(crate) fn begin() -> JobSpan {
        JobSpan {
            watch: Stopwatch::start(),
        }
    }

    /// The microseconds since its begin; always 0 without the feature.
    #[inline]
    pub(crate) fn micros(&self) -> u64 {
        self.watch.micros()
    }
}

/// Begins a [`JobSpan`]: `job!("rewrite", chunk = id)`.
#[cfg(feature = "tracing")]
macro_rules! job {
    ($name:literal $(, $field:ident = $value:expr)* $(,)?) => {
        $crate::trace::JobSpan::begin(::tracing::span!(
            target: "evendb", ::tracing::Level::DEBUG, $name $(, $field = $value)*
        ))
    };
}

#[cfg(not(feature = "tracing"))]
macro_rules! job {
    ($name:literal $(, $field:ident = $value:expr)* $(,)?) => {{
        // Not evaluated, only named, so that nothing is unused.
        if false {
            $(let _ = &$value;)*
        }
        $crate::trace::JobSpan::begin()
    }};
}

/// Reports something: `event!(DEBUG, "split", chunk = id, bytes = n)`.
#[cfg(feature = "tracing")]
macro_rules! event {
    ($level:ident, $message:literal $(, $field:ident = $value:expr)* $(,)?) => {
        ::tracing::event!(
            target: "evendb", ::tracing::Level::$level, $($field = $value,)* $message
        )
    };
}

#[cfg(not(feature = "tracing"))]
macro_rules! event {
    ($level:ident, $message:literal $(, $field:ident = $value:expr)* $(,)?) => {
        if false {
            $(let _ = &$value;)*
        }
    };
}

pub(crate) use {event, job};

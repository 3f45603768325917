//! The figures: each is a query over the tables, and says how it is read and shown.
//!
//! A module of this folder finds figures of one matter. [`ALL`] has them in the order of the page.
//! A figure that says nothing for a trace (latencies if none were recorded) is left out.
//!
//! Names of columns: `keyspace` and `kind` come first if a figure has them. Shares are from 0 to 1.

mod access;
mod cells;
mod composition;
mod latencies;
mod overlap;
mod pearson;
mod places;
mod sizes;
mod stored;
mod times;

use crate::error::Result;
use crate::operations::Summary;
use crate::session::Session;
use evendb_report::Figure;
use futures::future::{BoxFuture, FutureExt};

/// The source of figures.
pub struct Context<'a> {
    /// The tables.
    pub session: &'a Session,
    /// The facts about the trace.
    pub summary: &'a Summary,
    /// Whether `keys` has all keys of the store, or only keys that the trace names.
    pub has_stored: bool,
}

/// Finds the figures of one matter.
type Find = for<'a> fn(&'a Context<'a>) -> BoxFuture<'a, Result<Vec<Figure>>>;

/// All matters, each with a name for the display of progress, in the order of the page.
pub const ALL: &[(&str, Find)] = &[
    ("composition", |context| composition::find(context).boxed()),
    ("stored keys", |context| stored::find(context).boxed()),
    ("accesses", |context| access::find(context).boxed()),
    ("times", |context| times::find(context).boxed()),
    ("sizes", |context| sizes::find(context).boxed()),
    ("correlations", |context| pearson::find(context).boxed()),
    ("latencies", |context| latencies::find(context).boxed()),
    ("key ranges", |context| {
        places::ranges::find(context).boxed()
    }),
    ("hottest ranges and prefixes", |context| {
        places::hottest::find(context).boxed()
    }),
    ("key space and time", |context| {
        places::space::find(context).boxed()
    }),
    ("what follows what", |context| {
        places::pairs::find(context).boxed()
    }),
    ("caches", |context| places::caches::find(context).boxed()),
];

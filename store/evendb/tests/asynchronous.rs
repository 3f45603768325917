//! The calls that return futures: what is ready at once, what dropping means, order, back-pressure,
//! closing; on an executor of this test, and on a runtime that programs use. The names of trouble
//! that other stores met are in the tests' names: `a05` and so on.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]
#![expect(clippy::disallowed_types, reason = "no model runs this")]
#![expect(
    clippy::type_complexity,
    reason = "a task owns its future and a handle"
)]

mod common;

mod asynchronous {
    pub mod commits;
    pub mod dropping;
    pub mod ends;
    pub mod executor;
    pub mod files;
    pub mod gets;
    pub mod ranges;
    pub mod slow_files;
    pub mod tokio_runtime;
}

//! The functions that breach a limit today, by file and name. A name that breaches no longer fails
//! the tests, so these lists only get shorter. Do not add to them: mend the function.

/// Functions of production code with more than 70 lines.
pub const LONG: &[(&str, &str)] = &[];

/// Functions with more than 80 lines that only tests see.
pub const LONG_TESTS: &[(&str, &str)] = &[];

/// Functions with more than six arguments.
pub const MANY_ARGUMENTS: &[(&str, &str)] = &[];

/// Functions whose arguments a trait of another crate's author says: FUSE, and a planner of
/// queries. They are no breaches, but must be found here as well.
pub const SIGNATURES_OF_OTHERS: &[(&str, &str)] = &[
    ("proof/powercut/src/server.rs", "fallocate"),
    ("proof/powercut/src/server.rs", "read"),
    ("proof/powercut/src/server.rs", "write"),
    (
        "studio/analyze/src/distributed/engine.rs",
        "create_query_stage_exec",
    ),
];

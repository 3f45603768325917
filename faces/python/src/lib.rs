//! EvenDB's extension module for Python, `evendb._evendb`. The package `evendb` beside it is what
//! programs import; its stubs are the contract.
//!
//! ```text
//! Reader                 a mapping that is read         calls/reader.rs
//!   Keyspace             ... and written                calls/keyspace.rs
//!     Database           ... and what concerns all      calls/database.rs
//!   Snapshot             one moment                     calls/snapshot.rs
//!   Transaction          as one, or not at all          calls/transaction.rs
//! Batch, Records, RecordIterator                        calls/
//! Changes, Change, Write feeds                          feeds.rs
//! loading, copies, figures, Arrow, typed keys           tools/
//! functions of Python that the engine calls             setup/
//! ```
//! Rules that hold everywhere:
//! * Every class is frozen: there is no borrowing at run time, and so no "Already borrowed". What
//!   changes lies in a [`slot`](border::slot), whose lock is never held while Python is called.
//! * The interpreter is let go around everything that may wait, and once per chunk of records.
//! * Arguments are taken before that; a buffer that could change is copied ([`border::bytes`]).
//! * A forked child gets `ForkError` from every call, before any lock, and lets handles go without
//!   touching anything ([`border::held`]).
//! * A panic of the engine becomes a `PanicException`; nothing unwinds through Python.

mod aio;
mod border;
mod calls;
mod feeds;
mod opening;
mod setup;
mod tools;

use pyo3::prelude::*;

/// What `evendb.aio` is made of; no part of the package's own interface.
fn add_futures(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let futures = PyModule::new(py, "_futures")?;
    futures.add_class::<aio::pending::Pending>()?;
    futures.add_function(wrap_pyfunction!(aio::pending::begin_get, &futures)?)?;
    futures.add_function(wrap_pyfunction!(aio::pending::begin_multi_get, &futures)?)?;
    futures.add_function(wrap_pyfunction!(aio::pending::begin_range, &futures)?)?;
    futures.add_function(wrap_pyfunction!(aio::pending::begin_write, &futures)?)?;
    futures.add_function(wrap_pyfunction!(aio::pending::begin_commit, &futures)?)?;
    futures.add_function(wrap_pyfunction!(aio::pending::begin_persist, &futures)?)?;
    futures.add_function(wrap_pyfunction!(aio::pending::begin_changes, &futures)?)?;
    module.add_submodule(&futures)
}

/// The compiled half of the package `evendb`.
#[pymodule(gil_used = false)]
fn _evendb(module: &Bound<'_, PyModule>) -> PyResult<()> {
    border::error::add_classes(module)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<calls::reader::Reader>()?;
    module.add_class::<calls::keyspace::Keyspace>()?;
    module.add_class::<calls::database::Database>()?;
    module.add_class::<calls::snapshot::Snapshot>()?;
    module.add_class::<calls::transaction::Transaction>()?;
    module.add_class::<calls::transaction::SavepointHandle>()?;
    module.add_class::<calls::batch::Batch>()?;
    module.add_class::<calls::records::Records>()?;
    module.add_class::<calls::records::RecordIterator>()?;
    module.add_class::<calls::value::ValueBuffer>()?;
    module.add_function(wrap_pyfunction!(calls::database::open, module)?)?;
    module.add_function(wrap_pyfunction!(calls::database::options, module)?)?;
    module.add_function(wrap_pyfunction!(calls::database::destroy, module)?)?;
    module.add_class::<feeds::Changes>()?;
    module.add_class::<feeds::Change>()?;
    module.add_class::<feeds::Write>()?;
    module.add_class::<tools::arrow::giving::ArrowRecords>()?;
    add_futures(module)?;
    let at_exit = wrap_pyfunction!(opening::close_all_at_exit, module)?;
    let register = module.py().import("atexit")?.getattr("register")?;
    register.call1((at_exit,))?;
    module.add_function(wrap_pyfunction!(tools::typed_keys::key, module)?)?;
    module.add_function(wrap_pyfunction!(tools::typed_keys::unkey, module)?)?;
    module.add_function(wrap_pyfunction!(tools::copies::verify, module)?)?;
    module.add_function(wrap_pyfunction!(tools::copies::restore, module)?)?;
    module.add_function(wrap_pyfunction!(tools::copies::backups, module)?)?;
    Ok(())
}

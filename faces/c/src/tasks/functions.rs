//! The functions of calls with callbacks.
//!
//! A call that returns a failure has not begun: its callback is not called. The callback is called
//! outside of what catches panics, and with no lock of a handle held.

use super::driver::{Callback, Done, Driver};
use crate::border::error::finish;
use crate::border::handle::{call_begins, free, take_begins};
use crate::border::{Bytes, ErrorPlace, Failure, Place, Result, Shared, Status};
use crate::calls::batch::BatchHandle;
use crate::calls::database::DbHandle;
use crate::calls::keyspace::KeyspaceHandle;
use crate::calls::transaction::TransactionHandle;
use evendb::Value;
use std::ffi::c_void;
use std::future::Future;
use std::sync::Arc;

/// `evendb_task`.
pub type TaskHandle = Shared<Task>;

/// What the caller has of a call under way.
pub enum Task {
    /// Freeing it calls the call off.
    Read(Arc<Driver>),
    /// The call goes on by itself.
    Write,
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Task::Read(driver) = self {
            driver.call_off();
        }
    }
}

fn callback(done: Option<Done>, context: *mut c_void) -> Result<Callback> {
    let done = done.ok_or_else(|| Failure::argument("`done` is NULL, and tells the outcome"))?;
    Ok(Callback { done, context })
}

/// A read that has begun.
enum Begun {
    /// Memory has answered.
    Known(evendb::Result<Option<Value>>, Callback),
    Asked(Arc<Driver>),
}

#[unsafe(no_mangle)]
extern "C" fn evendb_get_async(
    keyspace: Option<&KeyspaceHandle>,
    key: Bytes,
    key_size: usize,
    done: Option<Done>,
    context: *mut c_void,
    task: Place<'_, *mut TaskHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let task = task.cleared();
    let begun = call_begins(keyspace, |keyspace| {
        let callback = callback(done, context)?;
        let key = key.of(key_size, "key")?;
        let known = match keyspace.try_get(key) {
            Ok(Ok(value)) => Ok(value),
            Err(failure) => Err(failure),
            Ok(Err(_would_read)) => {
                let driver = Driver::new(Box::pin(keyspace.get_async(key)), callback);
                return Ok(Begun::Asked(driver));
            }
        };
        Ok(Begun::Known(known, callback))
    });
    let begun = match begun {
        Ok(begun) => begun,
        Err(failure) => return finish(error, Err(failure)),
    };
    // Places are written before the callback can be called.
    if task.is_wanted() {
        let driver = match &begun {
            Begun::Known(..) => Driver::over(),
            Begun::Asked(driver) => driver.clone(),
        };
        task.fill(Shared::give(Task::Read(driver)));
    }
    let status = finish(error, Ok(()));
    match begun {
        Begun::Known(known, callback) => callback.tell(known.map_err(Into::into)),
        Begun::Asked(driver) => driver.start(),
    }
    status
}

/// Starts a write, or tells why it did not begin.
fn write(
    begun: Result<Arc<Driver>>,
    task: Place<'_, *mut TaskHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    match begun {
        Err(failure) => finish(error, Err(failure)),
        Ok(driver) => {
            if task.is_wanted() {
                task.fill(Shared::give(Task::Write));
            }
            let status = finish(error, Ok(()));
            driver.start();
            status
        }
    }
}

fn driver(
    callback: Callback,
    work: impl Future<Output = evendb::Result<()>> + Send + 'static,
) -> Arc<Driver> {
    Driver::new(Box::pin(async move { work.await.map(|()| None) }), callback)
}

#[unsafe(no_mangle)]
extern "C" fn evendb_batch_commit_async(
    batch: Option<&BatchHandle>,
    done: Option<Done>,
    context: *mut c_void,
    task: Place<'_, *mut TaskHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let task = task.cleared();
    // Without a callback the batch is not used up.
    let begun = callback(done, context).and_then(|callback| {
        take_begins(batch, |batch| Ok(driver(callback, batch.commit_async())))
    });
    write(begun, task, error)
}

#[unsafe(no_mangle)]
extern "C" fn evendb_transaction_commit_async(
    transaction: Option<&TransactionHandle>,
    done: Option<Done>,
    context: *mut c_void,
    task: Place<'_, *mut TaskHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let task = task.cleared();
    let begun = callback(done, context).and_then(|callback| {
        take_begins(transaction, |open| {
            Ok(driver(callback, open.transaction.commit_async()))
        })
    });
    write(begun, task, error)
}

#[unsafe(no_mangle)]
extern "C" fn evendb_persist_async(
    db: Option<&DbHandle>,
    done: Option<Done>,
    context: *mut c_void,
    task: Place<'_, *mut TaskHandle>,
    error: ErrorPlace<'_>,
) -> Status {
    let task = task.cleared();
    let begun = call_begins(db, |db| {
        Ok(driver(callback(done, context)?, db.persist_async()))
    });
    write(begun, task, error)
}

#[unsafe(no_mangle)]
extern "C" fn evendb_task_free(task: *mut TaskHandle) {
    free(task);
}

//! Compaction filters of the caller. A replacement is copied when the callback hands it over.

use super::merge::set_value;
use crate::border::{Bytes, ErrorPlace, Shared, Status, call, lent};
use evendb::{CompactionFilter, FilterDecision, Keyspace};
use std::ffi::c_void;
use std::sync::Arc;

/// What a callback decides: `evendb_filter_result`.
#[derive(Default)]
pub struct FilterResult {
    value: Option<Vec<u8>>,
}

const DROP: i32 = 1;
const REPLACE: i32 = 2;

type Filter = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    usize,
    *const c_void,
    usize,
    *mut FilterResult,
) -> i32;
type Destroy = unsafe extern "C" fn(*mut c_void);

struct Callbacks {
    context: *mut c_void,
    filter: Filter,
    destroy: Option<Destroy>,
}

// SAFETY: the header says that the functions are called by any thread, several at once, with the
// context, and that `destroy` may be called by any thread.
unsafe impl Send for Callbacks {}
// SAFETY: as above.
unsafe impl Sync for Callbacks {}

impl Drop for Callbacks {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: the caller's function with its context, once, when nobody has it any more.
            unsafe { destroy(self.context) }
        }
    }
}

impl CompactionFilter for Callbacks {
    fn filter(&self, key: &[u8], value: &[u8]) -> FilterDecision {
        let mut result = FilterResult::default();
        // SAFETY: the caller's function with its context; all arguments live for the call.
        let answer = unsafe {
            (self.filter)(
                self.context,
                lent(key),
                key.len(),
                lent(value),
                value.len(),
                &raw mut result,
            )
        };
        match (answer, result.value) {
            (DROP, _) => FilterDecision::Drop,
            (REPLACE, Some(value)) => FilterDecision::Replace(value),
            // A decision that makes no sense loses nothing.
            _ => FilterDecision::Keep,
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn evendb_filter_result_set(
    result: Option<&mut FilterResult>,
    value: Bytes,
    value_size: usize,
) -> Status {
    set_value(result.map(|result| &mut result.value), value, value_size)
}

#[unsafe(no_mangle)]
extern "C" fn evendb_keyspace_set_compaction_filter(
    keyspace: Option<&Shared<Keyspace>>,
    filter: Option<Filter>,
    context: *mut c_void,
    destroy: Option<Destroy>,
    error: ErrorPlace<'_>,
) -> Status {
    // Made before the handle is looked at: `destroy` is called if that is refused, too.
    let filter = filter.map(|filter| {
        let callbacks = Callbacks {
            context,
            filter,
            destroy,
        };
        Arc::new(callbacks) as Arc<dyn CompactionFilter>
    });
    call(keyspace, error, |keyspace| {
        Ok(keyspace.set_compaction_filter(filter)?)
    })
}

//! Merge operators: the ready ones by name, and operators of the caller.
//!
//! A result is copied when the callback hands it over (`evendb_merge_result_set`), so it may lie in
//! an operand, on the stack or in an arena. The caller's context is destroyed once, when the last
//! owner is gone: the handle of the operator, options that it was given to, and databases in which
//! a keyspace has it. That may be in a thread of the store.

use crate::border::bytes::terminated;
use crate::border::handle::free;
use crate::border::{Bytes, ErrorPlace, Failure, Place, Shared, Status, Text, lent, plain};
use evendb::{KeyspaceOptions, MergeError, MergeOperator, Merges};
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::Arc;

/// What a callback makes: `evendb_merge_result`.
#[derive(Default)]
pub struct MergeResult {
    value: Option<Vec<u8>>,
    why: Option<String>,
}

type Full = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    usize,
    *const c_void,
    usize,
    *const *const c_void,
    *const usize,
    usize,
    *mut MergeResult,
) -> i32;
type Partial = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    usize,
    *const *const c_void,
    *const usize,
    usize,
    *mut MergeResult,
) -> i32;
type Check =
    unsafe extern "C" fn(*mut c_void, *const c_void, usize, *const c_void, usize, i32) -> i32;
type Destroy = unsafe extern "C" fn(*mut c_void);

/// The caller's functions and their context.
pub struct Callbacks {
    name: String,
    context: *mut c_void,
    full: Full,
    partial: Option<Partial>,
    check: Option<Check>,
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

/// `evendb_merge_operator`.
pub enum Operator {
    Ready(Merges),
    Callers(Arc<Callbacks>),
}

impl Operator {
    pub(crate) fn given_to(&self, options: KeyspaceOptions) -> KeyspaceOptions {
        match self {
            Operator::Ready(merges) => options.merge_operator(*merges),
            Operator::Callers(callbacks) => options.merge_operator(Given(callbacks.clone())),
        }
    }
}

/// The caller's operator, as the engine wants it.
struct Given(Arc<Callbacks>);

/// Bytes as arrays of pointers and of lengths.
fn arrays(operands: &[&[u8]]) -> (Vec<*const c_void>, Vec<usize>) {
    operands
        .iter()
        .map(|operand| (lent(operand), operand.len()))
        .unzip()
}

/// An operand for [`Check`].
const OPERAND: i32 = 1;
const VALUE: i32 = 0;

impl Callbacks {
    fn check(&self, key: &[u8], bytes: &[u8], what: i32) -> Result<(), MergeError> {
        let Some(check) = self.check else {
            return Ok(());
        };
        // SAFETY: the caller's function with its context; the bytes live for the call.
        let answer = unsafe {
            check(
                self.context,
                lent(key),
                key.len(),
                lent(bytes),
                bytes.len(),
                what,
            )
        };
        match answer {
            0 => Ok(()),
            answer => Err(format!("its check answered {answer}").into()),
        }
    }
}

impl MergeOperator for Given {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Option<Vec<u8>>, MergeError> {
        let (pointers, sizes) = arrays(operands);
        let mut result = MergeResult::default();
        // SAFETY: the caller's function with its context; all arguments live for the call.
        let answer = unsafe {
            (self.0.full)(
                self.0.context,
                lent(key),
                key.len(),
                existing.map_or(ptr::null(), lent),
                existing.map_or(0, <[u8]>::len),
                pointers.as_ptr(),
                sizes.as_ptr(),
                operands.len(),
                &raw mut result,
            )
        };
        match answer {
            0 => Ok(result.value),
            answer => {
                let why = result
                    .why
                    .unwrap_or_else(|| format!("it answered {answer}"));
                Err(why.into())
            }
        }
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let partial = self.0.partial?;
        let (pointers, sizes) = arrays(operands);
        let mut result = MergeResult::default();
        // SAFETY: the caller's function with its context; all arguments live for the call.
        let answer = unsafe {
            partial(
                self.0.context,
                lent(key),
                key.len(),
                pointers.as_ptr(),
                sizes.as_ptr(),
                operands.len(),
                &raw mut result,
            )
        };
        result.value.filter(|_| answer == 0)
    }

    fn check_value(&self, key: &[u8], value: &[u8]) -> Result<(), MergeError> {
        self.0.check(key, value, VALUE)
    }

    fn check_operand(&self, key: &[u8], operand: &[u8]) -> Result<(), MergeError> {
        self.0.check(key, operand, OPERAND)
    }
}

#[unsafe(no_mangle)]
extern "C" fn evendb_merge_operator_create(
    name: Text,
    context: *mut c_void,
    full: Option<Full>,
    partial: Option<Partial>,
    check: Option<Check>,
    destroy: Option<Destroy>,
    operator: Place<'_, *mut Shared<Operator>>,
    error: ErrorPlace<'_>,
) -> Status {
    let operator = operator.cleared();
    plain(error, || {
        operator.needed("operator")?;
        let name = name.str("name")?.to_owned();
        let full = full.ok_or_else(|| Failure::argument("`full` is NULL"))?;
        if name.is_empty() || name.len() > 255 || name.starts_with("evendb.") {
            let message = "the name of a merge operator has 1 to 255 bytes, and does not begin with `evendb.`";
            return Err(Failure::argument(message));
        }
        let callbacks = Callbacks {
            name,
            context,
            full,
            partial,
            check,
            destroy,
        };
        operator.fill(Shared::give(Operator::Callers(Arc::new(callbacks))));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_merge_operator_ready(
    name: Text,
    operator: Place<'_, *mut Shared<Operator>>,
    error: ErrorPlace<'_>,
) -> Status {
    let operator = operator.cleared();
    plain(error, || {
        operator.needed("operator")?;
        let name = name.str("name")?;
        let Some(merges) = Merges::named(name) else {
            let known = Merges::ALL
                .map(|merges| merges.name().to_owned())
                .join(", ");
            let message = format!("there is no ready merge operator {name:?}; there are {known}");
            return Err(Failure::argument(message));
        };
        operator.fill(Shared::give(Operator::Ready(merges)));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn evendb_merge_operator_free(operator: *mut Shared<Operator>) {
    free(operator);
}

#[unsafe(no_mangle)]
extern "C" fn evendb_merge_result_set(
    result: Option<&mut MergeResult>,
    value: Bytes,
    value_size: usize,
) -> Status {
    set_value(result.map(|result| &mut result.value), value, value_size)
}

/// Copies the value that a callback gives as its result.
pub(super) fn set_value(result: Option<&mut Option<Vec<u8>>>, value: Bytes, size: usize) -> Status {
    match (result, value.of(size, "value")) {
        (Some(result), Ok(value)) => {
            *result = Some(value.to_vec());
            crate::border::status::OK
        }
        _ => crate::border::status::INVALID_ARGUMENT,
    }
}

#[unsafe(no_mangle)]
extern "C" fn evendb_merge_result_fail(result: Option<&mut MergeResult>, message: *const c_char) {
    if let Some(result) = result
        && !message.is_null()
    {
        // SAFETY: the caller promises a text that ends with a 0.
        let message = unsafe { CStr::from_ptr(message) };
        let message = terminated(message.to_bytes().to_vec());
        result.why = Some(message.to_string_lossy().into_owned());
    }
}

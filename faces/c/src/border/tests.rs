//! The border alone: panics, used-up handles, arguments.

use super::handle::{free, free_slot};
use super::*;
use std::mem::MaybeUninit;
use std::ptr;

/// Runs a call with a place for its error, and returns what came of it.
fn outcome(body: impl FnOnce(ErrorPlace<'_>) -> Status) -> (Status, Option<Box<Failure>>) {
    let mut place = MaybeUninit::<*mut Failure>::uninit();
    let status = body(Place::over(&mut place));
    // SAFETY: every call writes the place for its error.
    let error = unsafe { place.assume_init() };
    // SAFETY: an error that is not NULL was made by `Box::into_raw`, and nobody else has it.
    let error = (!error.is_null()).then(|| unsafe { Box::from_raw(error) });
    (status, error)
}

#[test]
fn a_panic_poisons_a_shared_handle_and_is_a_status() {
    let handle = Shared::give(7_u32);
    // SAFETY: the handle was just made, and is freed at the end.
    let there = unsafe { handle.as_ref() };
    let (status, error) = outcome(|error| call(there, error, |_| panic!("planted")));
    assert_eq!(status, status::PANIC);
    let text = error.unwrap();
    assert!(format!("{text:?}").contains("planted"), "{text:?}");
    let mut ran = false;
    let (status, _) = outcome(|error| {
        call(there, error, |_| {
            ran = true;
            Ok(())
        })
    });
    assert_eq!((status, ran), (status::PANIC, false));
    free(handle);
}

#[test]
fn a_panic_poisons_a_slot_whether_or_not_the_call_uses_it_up() {
    for takes in [false, true] {
        let handle = Slot::give(7_u32);
        // SAFETY: the handle was just made, and is freed at the end.
        let there = unsafe { handle.as_ref() };
        let (status, _) = match takes {
            false => outcome(|error| call_mut(there, error, |_| panic!("planted"))),
            true => outcome(|error| call_take(there, error, |_| panic!("planted"))),
        };
        assert_eq!(status, status::PANIC);
        let (status, _) = outcome(|error| call_mut(there, error, |_| Ok(())));
        assert_eq!(status, status::PANIC);
        let (status, _) = outcome(|error| call_take(there, error, |_| Ok(())));
        assert_eq!(status, status::PANIC);
        free_slot(handle);
    }
}

#[test]
fn a_call_without_a_handle_that_panics_is_a_status() {
    let (status, error) = outcome(|error| plain(error, || panic!("planted")));
    assert_eq!((status, error.is_some()), (status::PANIC, true));
}

#[test]
fn a_used_up_slot_says_so_and_a_call_within_a_call_is_refused() {
    let handle = Slot::give(7_u32);
    // SAFETY: the handle was just made, and is freed at the end.
    let there = unsafe { handle.as_ref() };
    let mut within = status::OK;
    let (status, _) = outcome(|error| {
        call_mut(there, error, |_| {
            within = outcome(|error| call_mut(there, error, |_| Ok(()))).0;
            Ok(())
        })
    });
    assert_eq!((status, within), (status::OK, status::BUSY));
    let (status, error) = outcome(|error| call_take(there, error, |_| Ok(())));
    assert_eq!((status, error.is_none()), (status::OK, true));
    let (status, _) = outcome(|error| call_take(there, error, |_| Ok(())));
    assert_eq!(status, status::USED_UP);
    free_slot(handle);
    free_slot::<u32>(ptr::null_mut());
}

#[test]
fn numbers_and_names_of_statuses_are_distinct() {
    let numbers: std::collections::BTreeSet<_> = status::ALL.iter().map(|(n, _)| n).collect();
    let names: std::collections::BTreeSet<_> = status::ALL.iter().map(|(_, name)| name).collect();
    assert_eq!(
        (numbers.len(), names.len()),
        (status::ALL.len(), status::ALL.len())
    );
}

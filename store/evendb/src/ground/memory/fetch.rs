#![cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(
        unsafe_code,
        reason = "an instruction that Rust's library does not offer otherwise"
    )
)]
//! Fetching ahead: the processor is told which memory will be read soon, so that it waits for
//! memory while other work continues.

/// Bytes of a line of the processor's cache.
const LINE_BYTES: usize = 64;

/// Makes the processor fetch `bytes` bytes from an address on, which need not be valid. It is only
/// a hint.
#[inline]
pub(crate) fn fetch_ahead(from: *const u8, bytes: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for at in (0..bytes).step_by(LINE_BYTES) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: nothing is read or written, whatever the address; every processor of this kind
        // has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(at).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (from, bytes, LINE_BYTES);
}

//! The objects that options are set from, and the rest of the interface: comparators, filter
//! policies, caches, environments, version numbers.
//!
//! Of a program's own comparator or filter policy, only the name and the destructor are ever
//! called.

use crate::memory;
pub use crate::memory::leveldb_free;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

type Destructor = unsafe extern "C" fn(*mut c_void);
type Name = unsafe extern "C" fn(*mut c_void) -> *const c_char;

/// The limit of the engine's filters.
const FILTER_BITS_MAX: c_int = 64;

/// `leveldb_comparator_t`.
pub struct Comparator {
    state: *mut c_void,
    destructor: Destructor,
    name: Name,
}

impl Comparator {
    pub(crate) fn name(&self) -> String {
        // SAFETY: the caller's callback with its state, which gives a text that ends with a 0.
        let name = unsafe { CStr::from_ptr((self.name)(self.state)) };
        name.to_string_lossy().into_owned()
    }
}

impl Drop for Comparator {
    fn drop(&mut self) {
        // SAFETY: the caller's callback with its state, once, at the end.
        unsafe { (self.destructor)(self.state) }
    }
}

/// Makes a comparator from callbacks. Opening accepts it only if it has the name of the order of
/// bytes.
///
/// # Safety
/// `destructor` and `name` may be called with `state` until the comparator is destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_comparator_create(
    state: *mut c_void,
    destructor: Destructor,
    _compare: unsafe extern "C" fn(
        *mut c_void,
        *const c_char,
        usize,
        *const c_char,
        usize,
    ) -> c_int,
    name: Name,
) -> Box<Comparator> {
    Box::new(Comparator {
        state,
        destructor,
        name,
    })
}

/// Destroys a comparator.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_comparator_destroy(_comparator: Option<Box<Comparator>>) {}

/// `leveldb_filterpolicy_t`.
pub enum FilterPolicy {
    /// This many bits for each key.
    Bloom(c_int),
    /// The caller's, which is not used.
    Callers {
        /// The argument of the destructor.
        state: *mut c_void,
        /// Called at the end.
        destructor: unsafe extern "C" fn(*mut c_void),
    },
}

impl FilterPolicy {
    pub(crate) fn bits_per_key(&self) -> u32 {
        match *self {
            FilterPolicy::Bloom(bits) => bits.clamp(0, FILTER_BITS_MAX).unsigned_abs(),
            FilterPolicy::Callers { .. } => 0,
        }
    }
}

impl Drop for FilterPolicy {
    fn drop(&mut self) {
        if let FilterPolicy::Callers { state, destructor } = *self {
            // SAFETY: the caller's callback with its state, once, at the end.
            unsafe { destructor(state) }
        }
    }
}

/// Makes a filter policy from callbacks. It is accepted and not used: a filter only spares reads.
///
/// # Safety
/// `destructor` may be called with `state` when the policy is destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_filterpolicy_create(
    state: *mut c_void,
    destructor: Destructor,
    _create_filter: unsafe extern "C" fn(
        *mut c_void,
        *const *const c_char,
        *const usize,
        c_int,
        *mut usize,
    ) -> *mut c_char,
    _key_may_match: unsafe extern "C" fn(
        *mut c_void,
        *const c_char,
        usize,
        *const c_char,
        usize,
    ) -> u8,
    _name: Name,
) -> Box<FilterPolicy> {
    Box::new(FilterPolicy::Callers { state, destructor })
}

/// Destroys a filter policy.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_filterpolicy_destroy(_policy: Option<Box<FilterPolicy>>) {}

/// Makes the policy of Bloom filters with this number of bits for each key. The engine takes up to
/// 64 bits, and takes 64 for more. With 0 or less there is no filter.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> Box<FilterPolicy> {
    Box::new(FilterPolicy::Bloom(bits_per_key))
}

/// `leveldb_cache_t`: a number of bytes. Each database that is opened with it takes this many bytes
/// for itself.
pub struct Cache {
    capacity: usize,
}

impl Cache {
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }
}

/// Makes a cache of this many bytes.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_cache_create_lru(capacity: usize) -> Box<Cache> {
    Box::new(Cache { capacity })
}

/// Destroys a cache. Databases that were opened with it keep their memory.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_cache_destroy(_cache: Option<Box<Cache>>) {}

/// `leveldb_env_t`: the operating system's files. There is no other environment.
#[derive(Default)]
pub struct Environment {
    // Gives each environment an address of its own.
    _address: u8,
}

/// Makes a handle of the environment.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_create_default_env() -> Box<Environment> {
    Box::default()
}

/// Destroys a handle of the environment.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_env_destroy(_env: Option<Box<Environment>>) {}

/// A directory for tests, which is made if it is missing: the one that the variable `TEST_TMPDIR`
/// names, or otherwise one of the user's in `/tmp`. The caller frees the text.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_env_get_test_directory(_env: &Environment) -> *mut c_char {
    let named = std::env::var_os("TEST_TMPDIR").filter(|name| !name.is_empty());
    let path = named.map_or_else(
        || {
            PathBuf::from(format!(
                "/tmp/leveldbtest-{}",
                rustix::process::geteuid().as_raw()
            ))
        },
        PathBuf::from,
    );
    // If it cannot be made, its first use fails.
    let _ = std::fs::create_dir(&path);
    let mut text = path.as_os_str().as_bytes().to_vec();
    text.push(0);
    memory::bytes(&text)
}

/// The version of LevelDB whose interface this is: 1.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_major_version() -> c_int {
    1
}

/// The version of LevelDB whose interface this is: 23.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_minor_version() -> c_int {
    23
}

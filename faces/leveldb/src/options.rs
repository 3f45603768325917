//! Options of opening, reading and writing: `leveldb_options_*`, `leveldb_readoptions_*`,
//! `leveldb_writeoptions_*`.
//!
//! Options keep values, and no pointer to the objects from which they were set: comparators, caches
//! and filter policies may be destroyed as soon as the options were set. (LevelDB needs them as
//! long as the database is open.) Options that have no meaning here are accepted and dropped;
//! docs/leveldb.md lists them.

use crate::database::Snapshot;
use crate::engine::Moment;
use crate::error::{Code, Error, Result};
use crate::helpers::{Cache, Comparator, Environment, FilterPolicy};
use evendb::vfs::SimVfs;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Arc, Weak};

/// The only order of keys, by its name in LevelDB.
pub(crate) const BYTEWISE: &str = "leveldb.BytewiseComparator";

/// LevelDB's size of a block. It becomes EvenDB's own default.
pub(crate) const BLOCK_BYTES_DEFAULT: usize = 4 << 10;
/// LevelDB's size of a file. It becomes EvenDB's own default.
pub(crate) const FILE_BYTES_DEFAULT: usize = 2 << 20;

/// LevelDB's default of open files.
pub(crate) const OPEN_FILES_DEFAULT: c_int = 1000;

const NO_COMPRESSION: c_int = 0;
const SNAPPY: c_int = 1;

/// `leveldb_options_t`.
pub struct Options {
    comparator: Option<String>,
    compression: c_int,
    pub(crate) create_if_missing: bool,
    pub(crate) error_if_exists: bool,
    pub(crate) write_buffer_bytes: usize,
    pub(crate) open_files_max: c_int,
    pub(crate) cache_bytes: Option<usize>,
    pub(crate) block_bytes: usize,
    pub(crate) file_bytes_max: usize,
    pub(crate) filter_bits_per_key: u32,
    /// The layout of a database that is created, by its name; with `None` the environment names it.
    pub(crate) layout: Option<String>,
    /// The disk in memory that has the database; with `None` it is the real one.
    pub(crate) disk: Option<SimVfs>,
}

impl Options {
    /// LevelDB's defaults.
    pub(crate) fn new() -> Options {
        Options {
            comparator: None,
            compression: SNAPPY,
            create_if_missing: false,
            error_if_exists: false,
            write_buffer_bytes: 4 << 20,
            open_files_max: OPEN_FILES_DEFAULT,
            cache_bytes: None,
            block_bytes: BLOCK_BYTES_DEFAULT,
            file_bytes_max: FILE_BYTES_DEFAULT,
            filter_bits_per_key: 0,
            layout: None,
            disk: None,
        }
    }

    /// Refuses an order of keys that EvenDB does not have.
    pub(crate) fn check_comparator(&self) -> Result<()> {
        match self.comparator.as_deref() {
            None | Some(BYTEWISE) => Ok(()),
            Some(name) => {
                let message = format!(
                    "comparator {name}: keys are sorted by their bytes, which is the comparator {BYTEWISE}; make keys \
                     whose bytes sort as they shall"
                );
                Err(Error::new(Code::NotSupported, message))
            }
        }
    }

    /// Whether blocks are compressed.
    pub(crate) fn compresses(&self) -> Result<bool> {
        match self.compression {
            NO_COMPRESSION => Ok(false),
            SNAPPY => Ok(true),
            other => {
                let message = format!("compression {other}: 0 is none, 1 is a fast one");
                Err(Error::new(Code::InvalidArgument, message))
            }
        }
    }
}

/// Makes options of opening, with LevelDB's defaults.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_create() -> Box<Options> {
    Box::new(Options::new())
}

/// Destroys options.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_destroy(_options: Option<Box<Options>>) {}

/// Sets the order of keys; NULL is the order of their bytes. Any other makes opening fail.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_comparator(
    options: &mut Options,
    comparator: Option<&Comparator>,
) {
    options.comparator = comparator.map(Comparator::name);
}

/// Sets the filter for absent keys; NULL is none. A filter of the caller's own is accepted and not
/// used.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_filter_policy(
    options: &mut Options,
    policy: Option<&FilterPolicy>,
) {
    options.filter_bits_per_key = policy.map_or(0, FilterPolicy::bits_per_key);
}

/// Sets whether a missing database is created.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_create_if_missing(options: &mut Options, yes: u8) {
    options.create_if_missing = yes != 0;
}

/// Sets whether an existing database is refused.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_error_if_exists(options: &mut Options, yes: u8) {
    options.error_if_exists = yes != 0;
}

/// Nothing to set: damage is always refused.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_paranoid_checks(_options: &mut Options, _yes: u8) {}

/// Nothing to set: there is one environment.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_env(_options: &mut Options, _env: Option<&Environment>) {}

/// Nothing to set: nothing is logged. (The C interface has no function that makes a logger.)
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_info_log(_options: &mut Options, _logger: *mut c_void) {}

/// Sets the bytes of a write buffer in memory: twice this number goes into the memory budget.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_write_buffer_size(options: &mut Options, bytes: usize) {
    options.write_buffer_bytes = bytes;
}

/// Sets how many tables may be open at once. LevelDB's default of 1000 becomes EvenDB's own
/// default.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_max_open_files(options: &mut Options, files: c_int) {
    options.open_files_max = files;
}

/// Sets the cache, whose capacity goes into the memory budget; NULL is LevelDB's default of 8 MiB.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_cache(options: &mut Options, cache: Option<&Cache>) {
    options.cache_bytes = cache.map(Cache::capacity);
}

/// Sets the size of a block before compression.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_block_size(options: &mut Options, bytes: usize) {
    options.block_bytes = bytes;
}

/// Nothing to set: blocks have a restart point every 16 keys.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_block_restart_interval(_options: &mut Options, _keys: c_int) {
}

/// Sets at how many bytes a table ends, for the layout `guards`. The layout `chunks` has no such
/// size: the chunks decide about files.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_max_file_size(options: &mut Options, bytes: usize) {
    options.file_bytes_max = bytes;
}

/// Sets the compression: 0 for none, 1 for a fast one (Snappy in LevelDB, LZ4 here). Any other
/// number makes opening fail.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_compression(options: &mut Options, compression: c_int) {
    options.compression = compression;
}

/// Sets the layout of a database that is created, by its name: `chunks` or `guards`. NULL is the
/// layout that the variable `EVENDB_LEVELDB_LAYOUT` names, or otherwise `chunks`. Any other name
/// makes opening fail. An existing database keeps its layout. LevelDB does not have this function.
///
/// # Safety
/// `name` is a text, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evendb_leveldb_options_set_layout(
    options: &mut Options,
    name: *const c_char,
) {
    // SAFETY: the caller's text, for this call.
    let text = |name| unsafe { CStr::from_ptr(name) };
    let name = (!name.is_null()).then(|| text(name));
    options.layout = name.map(|name| name.to_string_lossy().into_owned());
}

/// `leveldb_readoptions_t`.
pub struct ReadOptions {
    at: At,
}

/// What reads see.
enum At {
    Now,
    /// It does not keep the moment: the snapshot does that.
    Snapshot(Weak<Moment>),
    /// The snapshot could not be taken.
    Failed(Error),
}

impl ReadOptions {
    /// The moment that is read: `None` is the newest.
    pub(crate) fn moment(&self) -> Result<Option<Arc<Moment>>> {
        match &self.at {
            At::Now => Ok(None),
            At::Failed(error) => Err(error.clone()),
            At::Snapshot(moment) => match moment.upgrade() {
                Some(moment) => Ok(Some(moment)),
                None => {
                    let message = "the snapshot of the read options was released";
                    Err(Error::new(Code::InvalidArgument, message))
                }
            },
        }
    }
}

/// Makes read options.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_create() -> Box<ReadOptions> {
    Box::new(ReadOptions { at: At::Now })
}

/// Destroys read options.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_destroy(_options: Option<Box<ReadOptions>>) {}

/// Nothing to set: every block is verified when it is read.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_set_verify_checksums(_options: &mut ReadOptions, _yes: u8) {}

/// Nothing to set: the database keeps in memory what is read often.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_set_fill_cache(_options: &mut ReadOptions, _yes: u8) {}

/// Sets the snapshot that is read; NULL is the newest state. A read after the snapshot was released
/// fails.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_set_snapshot(
    options: &mut ReadOptions,
    snapshot: Option<&Snapshot>,
) {
    options.at = match snapshot.map(Snapshot::moment) {
        None => At::Now,
        Some(Ok(moment)) => At::Snapshot(Arc::downgrade(moment)),
        Some(Err(error)) => At::Failed(error.clone()),
    };
}

/// `leveldb_writeoptions_t`.
#[derive(Default)]
pub struct WriteOptions {
    pub(crate) sync: bool,
}

/// Makes write options.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writeoptions_create() -> Box<WriteOptions> {
    Box::default()
}

/// Destroys write options.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writeoptions_destroy(_options: Option<Box<WriteOptions>>) {}

/// Sets whether a write that has returned survives power loss.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writeoptions_set_sync(options: &mut WriteOptions, yes: u8) {
    options.sync = yes != 0;
}

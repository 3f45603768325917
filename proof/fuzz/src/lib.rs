//! Fuzzing: a target for each format that is read, one for damaged directories, one for programs of
//! operations, one for the bytes of keys, one for the command's inputs.
//!
//! ```text
//!   seeds (made of valid files) --+                       +-- fuzzer (libfuzzer/,
//!                                 |                       |     by scripts/fuzz): coverage
//!   corpus/ (kept finds)        --+--> target(bytes) <----+
//!                                                         +-- tests/replay.rs: all of these,
//!                                                               and random damage to them
//! ```
//! A target takes any bytes, and panics if something is wrong: a wrong answer, an error that bytes
//! cannot cause, more memory than the input and 16 MiB ([`Target::run`]), a loop without end (the
//! fuzzer's limit of time). As a rule the first byte chooses a form. In one form the rest are bytes
//! as a disk gives them. In another form the target corrects checksums before it reads: otherwise a
//! fuzzer would only find that checksums do not match.
//!
//! The oracles are other implementations: an examination of a table and a reader; recovery and
//! survey of a log; a decoder and an encoder; an ordered map.
//!
//! Each target belongs to one thread at a time. Between inputs it keeps only the databases with
//! which all inputs begin. No file is touched.

#![allow(unsafe_code, reason = "an allocator that counts")]

mod bytes;
mod directory;
mod inputs;
mod keys;
mod logs;
mod manifests;
mod memory;
mod models;
mod programs;
pub mod seeds;
mod small_files;
mod tables;
mod traces;

/// Bytes of memory that reading may take beyond its input.
const MEMORY_BYTES_MAX: usize = 16 << 20;
/// Bytes that a target takes for itself: it keeps answers to compare them.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Bytes for a target that runs a whole engine, which has memory of its own.
const ENGINE_BYTES_MAX: usize = 48 << 20;

/// A function that takes bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: that of its folder in the corpus.
    pub name: &'static str,
    /// Longest input that the fuzzer makes.
    pub bytes_max: usize,
    /// A replay makes the number of damaged inputs of a fast target, divided by this.
    pub slowness: u32,
    target: fn(&[u8]),
    /// Bytes of memory that it may take beyond its input.
    memory_bytes_max: usize,
}

const fn format(name: &'static str, bytes_max: usize, target: fn(&[u8])) -> Target {
    Target {
        name,
        bytes_max,
        slowness: 1,
        target,
        memory_bytes_max: MEMORY_BYTES_MAX + KEPT_BYTES_MAX,
    }
}

const fn engine(name: &'static str, bytes_max: usize, target: fn(&[u8])) -> Target {
    Target {
        slowness: 20,
        memory_bytes_max: ENGINE_BYTES_MAX,
        ..format(name, bytes_max, target)
    }
}

/// All targets.
pub const TARGETS: [Target; 15] = [
    format("table", 4096, tables::table),
    format("block", 1024, tables::block),
    format("filter", 512, tables::filter),
    format("run", 6144, tables::run),
    format("manifest", 2048, manifests::manifest),
    format("current", 64, manifests::current),
    format("commit-log", 2048, logs::commit_log),
    format("value-extent", 1024, logs::value_extent),
    format("trace", 2048, traces::trace),
    format("keys", 256, keys::keys),
    format("inputs", 512, inputs::inputs),
    format("small-files", 1024, small_files::small_files),
    Target {
        slowness: 10,
        ..format("models", 8192, models::models)
    },
    engine("directory", 512, directory::directory),
    engine("programs", 1024, programs::programs),
];

impl Target {
    /// The target of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Target> {
        TARGETS.into_iter().find(|target| target.name == name)
    }

    /// Gives it an input.
    ///
    /// # Panics
    /// If something is wrong.
    pub fn run(&self, data: &[u8]) {
        let ((), peak) = memory::peak_of(|| (self.target)(data));
        assert!(
            peak <= data.len() + self.memory_bytes_max,
            "{} bytes of memory for an input of {}",
            peak,
            data.len()
        );
    }
}

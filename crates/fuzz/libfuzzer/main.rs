//! libFuzzer over the target that the variable `EVENDB_FUZZ_TARGET` names. `scripts/fuzz` builds and runs it.

#![no_main]

use evendb_fuzz::Target;
use std::sync::LazyLock;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("EVENDB_FUZZ_TARGET").unwrap_or_default();
    Target::named(&name).expect("EVENDB_FUZZ_TARGET names a target")
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| TARGET.run(data));

//! libFuzzer with the target that the variable `EVENDB_FUZZ_TARGET` names. `scripts/fuzz` builds
//! and runs it.
//!
//! With `EVENDB_FUZZ_SEEDS` it does something else: it writes the seeds of each target into that
//! folder, lists all targets with their longest inputs, and ends.

#![no_main]

use evendb_fuzz::{TARGETS, Target, seeds};
use std::path::Path;
use std::sync::LazyLock;
use std::{fs, io};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("EVENDB_FUZZ_TARGET").unwrap_or_default();
    Target::named(&name).expect("EVENDB_FUZZ_TARGET names a target")
});

libfuzzer_sys::fuzz_target!(
    init: {
        if let Some(folder) = std::env::var_os("EVENDB_FUZZ_SEEDS") {
            write_seeds(Path::new(&folder)).expect("the folder takes the seeds");
            std::process::exit(0);
        }
    },
    |data: &[u8]| TARGET.run(data)
);

fn write_seeds(folder: &Path) -> io::Result<()> {
    for target in &TARGETS {
        println!("{} {}", target.name, target.bytes_max);
        let folder = folder.join(target.name);
        fs::create_dir_all(&folder)?;
        for (number, seed) in seeds::of(target).iter().enumerate() {
            fs::write(folder.join(format!("seed-{number:02}")), seed)?;
        }
        for (number, kept) in seeds::kept(target)?.iter().enumerate() {
            fs::write(folder.join(format!("kept-{number:03}")), kept)?;
        }
    }
    Ok(())
}

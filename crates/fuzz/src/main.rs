//! What the fuzzer begins with, as files; and one input given to its target.
//!
//! ```text
//!   evendb-fuzz targets                         names of all targets, and the longest input of each
//!   evendb-fuzz seeds TARGET FOLDER             writes the target's seeds and kept finds into the folder
//!   evendb-fuzz run TARGET FILE...              gives these inputs to the target
//! ```

use evendb_fuzz::{TARGETS, Target, seeds};
use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match done(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("evendb-fuzz: {error}");
            ExitCode::from(2)
        }
    }
}

fn done(arguments: &[&str]) -> io::Result<()> {
    match arguments {
        ["targets"] => {
            for target in TARGETS {
                println!("{} {}", target.name, target.bytes_max);
            }
            Ok(())
        }
        ["seeds", name, folder] => write_seeds(&named(name)?, Path::new(folder)),
        ["run", name, files @ ..] => {
            let target = named(name)?;
            for file in files {
                target.run(&fs::read(file)?);
            }
            Ok(())
        }
        _ => Err(io::Error::other(
            "usage: targets; seeds TARGET FOLDER; run TARGET FILE...",
        )),
    }
}

fn named(name: &str) -> io::Result<Target> {
    Target::named(name).ok_or_else(|| io::Error::other(format!("there is no target {name}")))
}

fn write_seeds(target: &Target, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (number, seed) in seeds::of(target).iter().enumerate() {
        fs::write(folder.join(format!("seed-{number:02}")), seed)?;
    }
    for (name, bytes) in seeds::kept(target)? {
        fs::write(folder.join(name), bytes)?;
    }
    Ok(())
}

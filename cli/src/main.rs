//! The `evendb` command: see the library of this package.

fn main() -> std::process::ExitCode {
    evendb_cli::run()
}

//! The `evendb` command.
fn main() {}

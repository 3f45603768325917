//! Closing: calls of a database after it, calls of other threads during it, and which threads may
//! close.
#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod closing {
    pub mod calls;
    pub mod inside;
    pub mod rounds;
}
mod common;

use common::public::functions_of;

#[test]
fn a_function_that_is_new_is_found() {
    let text = "impl<'t> Db {\n    pub fn new(&self) {}\n    pub(crate) fn own(&self) {}\n}\n\
                impl Iterator for Db {\n    pub fn no(&self) {}\n}\n\
                macro_rules! m {\n        impl<'t> $name<'t> {\n            pub fn seek(&mut self) {}\n        }\n}\n";
    let found: Vec<String> = functions_of(text, &["A", "B"]).into_iter().collect();
    assert_eq!(found, ["A::seek", "B::seek", "Db::new"]);
}

//! Closing: what is asked of a database afterwards, what other threads ask of it meanwhile, and who may close.

mod closing {
    pub mod calls;
    pub mod inside;
    pub mod public;
    pub mod rounds;
}
mod common;

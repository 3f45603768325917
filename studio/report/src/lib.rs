//! Tables of figures, and the page that shows them.
//!
//! A [`Document`] is what an analysis, a benchmark or an advice has found: figures, each a table with a title, a sentence that
//! explains it, how exact it is, and which plot shows it. As JSON it is the interface between the programs that find figures and those that use them.
//! [`page`] makes one HTML file of it, for people, with the summary on top. [`printed`] is how text that others wrote goes to a terminal.
//!
//! ```text
//! page -- plot -- bars, heat -- axis -- words      a page of drawings of axes with words; each knows what is on its right
//!                               svg
//! ```
//!
//! Not here: how a figure is found, and what a trace or a store is.

mod axis;
mod bars;
mod document;
mod heat;
mod page;
mod plot;
pub mod printed;
mod svg;
mod words;

pub use document::{Beside, Chart, Column, Document, Exactness, Figure, Mark, Summary, Unit};
pub use page::page;
pub use words::number_shown;

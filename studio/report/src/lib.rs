//! Tables of figures, and the page that shows them.
//!
//! A [`Document`] is the result of an analysis, a benchmark or an advice: figures, each a table
//! with a title, a sentence that explains it, its exactness, and its plots. As JSON it is the
//! interface between the programs that find figures and the programs that use them. [`page`] makes
//! one HTML file from it, for people, with the summary on top. [`printed`] prepares foreign text
//! for a terminal.
//!
//! ```text
//! page -- plot -- bars, heat -- axis -- words      a page of drawings of axes with words;
//!                               svg                each knows the modules on its right
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

pub use document::{
    Beside, Border, Chart, Column, Document, Exactness, Figure, Mark, Summary, Unit,
};
pub use page::page;
pub use words::number_shown;

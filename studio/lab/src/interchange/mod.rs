//! Models of loads in the words of other benchmarks, and from them.
//!
//! ```text
//!   Model --> db_bench: command lines of RocksDB's benchmark (its mixgraph, the study's own tool)
//!         --> ycsb:     a parameter file of YCSB's core workload
//!   Model <-- db_bench
//! ```
//! What the other benchmark cannot say stands in comments, with what it does instead: a load that
//! is given away must not pass for another one. Nothing here runs a benchmark.

pub mod db_bench;
mod popularity;
pub mod ycsb;

#[cfg(test)]
mod tests;

/// Lines of a comment, each with this mark in front, none longer than about a hundred bytes.
fn comments(mark: &str, notes: &[String]) -> String {
    let mut text = String::new();
    for note in notes {
        let mut line = mark.to_owned();
        for word in note.split(' ') {
            if line.len() + word.len() + 1 > 96 && line.len() > mark.len() {
                text.push_str(&line);
                text.push('\n');
                line = format!("{mark}  ");
            }
            line.push(' ');
            line.push_str(word);
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

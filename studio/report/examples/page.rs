//! Writes the page of a document: `page DOCUMENT.json PAGE.html`.

use std::error::Error;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let names: Vec<String> = env::args().skip(1).collect();
    let [from, to] = &names[..] else {
        return Err("usage: page DOCUMENT.json PAGE.html".into());
    };
    let document = evendb_report::Document::from_json(&fs::read_to_string(from)?)?;
    Ok(fs::write(to, evendb_report::page(&document))?)
}

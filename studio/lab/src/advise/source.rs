//! The source of a load: a trace, or a model from which a trace is drawn.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evendb_model::model::Rate;
use evendb_trace::formats::{self, DETECT_BYTES};

use super::AdviseError;
use crate::experiments::mixgraph::model_named;
use crate::mixgraph::Load;
use crate::mixgraph::allocation::Allocation;
use crate::mixgraph::drawn_trace::{Timetable, write_loaded};
use crate::replay::Merges;

/// Operations a second of a model that gives none.
const PER_SECOND: f64 = 1000.0;

/// A trace to replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its file.
    pub trace: PathBuf,
    /// Its operations that fill the store.
    pub loading: u64,
    /// What merges do, if the model says so.
    pub merges: Option<Merges>,
    /// Whether it was drawn from a model.
    pub is_drawn: bool,
}

/// How much of a model is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Drawn {
    /// Which share of its pairs and operations.
    pub scale: f64,
    /// At most this number of operations is drawn.
    pub operations_max: u64,
    /// The seed of all that is drawn.
    pub seed: u64,
}

/// The trace of this name. For the name of a model, a trace that is drawn from it into `place`,
/// with all pairs put first.
///
/// # Errors
/// There is no such trace or model, or the drawn trace cannot be written.
pub fn source(name: &str, drawn: Drawn, place: &Path) -> Result<Source, AdviseError> {
    if is_trace(Path::new(name)) {
        return Ok(Source {
            trace: PathBuf::from(name),
            loading: 0,
            merges: None,
            is_drawn: false,
        });
    }
    let input = |error: crate::experiments::Failure| {
        let convert = "of a trace of another format, `evendb trace convert` makes one of EvenDB's";
        let why = foreign(Path::new(name)).unwrap_or_else(|| match Path::new(name).is_file() {
            true => format!("{error}; {convert}"),
            false => error.to_string(),
        });
        AdviseError::Input(format!("{name} is no trace of EvenDB, and no model: {why}"))
    };
    let model = model_named(name).map_err(input)?.scaled(drawn.scale);
    let trace = place.join("drawn.trace");
    let operations = model.operations.clamp(1, drawn.operations_max);
    let rate = model.rate.unwrap_or(Rate {
        a: 0.0,
        b: 0.0,
        c: 0.0,
        d: PER_SECOND,
    });
    let load = Arc::new(Load::new(&model, Allocation::PrefixDist, drawn.seed));
    let to = BufWriter::with_capacity(
        1 << 20,
        File::create(&trace).map_err(AdviseError::io(&trace))?,
    );
    let written = write_loaded(&load, operations, Timetable::Swing(rate), to);
    written.map_err(AdviseError::of_trace(&trace))?;
    Ok(Source {
        trace,
        loading: model.pairs(),
        merges: model.counts().then_some(Merges::Counters),
        is_drawn: true,
    })
}

/// Whether a file begins as a trace does.
fn is_trace(path: &Path) -> bool {
    let mut begin = [0; 8];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && &begin == b"EvenDBtr"
}

/// For a trace of another format: the name of the format, and the command that converts it.
fn foreign(path: &Path) -> Option<String> {
    let mut file = BufReader::with_capacity(DETECT_BYTES, File::open(path).ok()?);
    formats::detect(file.fill_buf().ok()?)?;
    Some(formats::open_own(file).err()?.to_string())
}

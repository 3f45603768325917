//! `evendb profile`: everything that this command can tell of a load, step by step, and a page
//! about it.
//!
//! ```text
//!   preset or model --mixgraph--> trace, keys --analyze--> analysis --model--> model
//!   a trace of one's own, and the keys ------>                                   |
//!   of its store, if there are any                                            mixgraph
//!                                                                                v
//!                                                     benchmarks beside the replay of the trace
//! ```
//! Each step is a run of a command that can be run by itself, and leaves its files in the folder;
//! this module only puts them together. The output of a step goes to standard error.

use std::env;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use evendb_lab::whole_file;
use evendb_model::from_analysis::{self, Known, MadeWorkload};
use evendb_model::{presets, study};
use evendb_report::{Chart, Document, Figure, Mark, Unit};
use evendb_trace::formats::{self, Format};
use serde_json::{Value, json};

use super::{analyze, model};
use crate::failure::{Failure, Success};
use crate::output;

/// Profile a load: record it, analyze it, make a model of it, and compare benchmarks with it
///
/// A preset or a model is run on EvenDB and recorded; a trace of your own is taken as it is. It is
/// analyzed, a model is made from it, the trace is replayed, and the model and YCSB's distributions
/// are run beside it, each in a fresh store. Makes a folder with page.html, which tells all of it,
/// and the files of each step. Takes a few minutes with the defaults. Needs evendb-analyze (see
/// `evendb analyze`).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  evendb profile zippydb
  evendb profile udb-assoc --scale 0.05 --out udb
  evendb profile app.trace
  evendb scan app.db --keys-only --output hex > app.keys; evendb profile app.trace --keys app.keys")]
pub struct Arguments {
    /// A preset (zippydb, zippydb-kinds, udb, udb-assoc, up2x), a model file, or a trace
    #[arg(default_value = "zippydb")]
    load: String,
    /// The folder to make; by default the load's name with `.profile`
    #[arg(long)]
    out: Option<PathBuf>,
    /// With a trace: all keys of its store, in hexadecimal digits, one a line, with the keyspace
    /// and a tab before if the trace has several; may be given several times. Without them the
    /// store is taken to have exactly the keys that the trace names
    #[arg(long, value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// The keyspace whose keys --keys lists; one for each list
    #[arg(long, value_name = "KEYSPACE", requires = "keys")]
    keys_of: Vec<String>,
    /// The share of the model's pairs, operations and memory that is run, above 0 and at most 1
    /// [default: 0.002]; a trace is used as it is
    #[arg(long)]
    scale: Option<f64>,
    /// Memory of the analysis, in MiB
    #[arg(long, default_value_t = 2048)]
    memory_mib: u64,
    /// The benchmarks beside the replay
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "prefix-dist,all-random,zipfian,uniform"
    )]
    allocations: Vec<String>,
}

/// The share of a model that is run by default.
const SCALE: f64 = 0.002;
/// The file in the folder that is made from a preset or a model.
const TRACE: &str = "load.trace";
const KEYS: &str = "load.keys";

/// Carries the command out.
pub fn run(arguments: &Arguments) -> Result<Success, Failure> {
    let is_preset = presets::text(&arguments.load).is_some();
    let trace_given = !is_preset && is_trace(Path::new(&arguments.load))?;
    refuse_unused_options(arguments, trace_given)?;
    let program = analyze::program()?;
    let own = env::current_exe()?;
    let folder = made_folder(arguments)?;
    let (trace, keys) = match trace_given {
        true => (PathBuf::from(&arguments.load), arguments.keys.clone()),
        false => (folder.join(TRACE), vec![folder.join(KEYS)]),
    };
    if !trace_given {
        record(&own, arguments, &folder)?;
    }
    let recorded = Recorded {
        arguments,
        folder,
        trace,
        keys,
    };
    let mut document = recorded.analyze(&program)?;
    if is_preset {
        study::put_beside(&mut document, &arguments.load);
    }
    let made = recorded.model(&document)?;
    let benchmarks = recorded.replay(&own)?;
    document.title = format!("The load {}", arguments.load);
    document.figures.push(model_figure(&made));
    document.figures.push(benchmarks_figure(&benchmarks));
    document.summary.stands_out.extend(stands_out(&made));
    write(&recorded.path("page.json"), &document.to_json())?;
    let page = recorded.path("page.html");
    write(&page, &evendb_report::page(&document))?;
    output::say_path(&page)?;
    Ok(Success::Done)
}

/// Refuses options that this kind of load does not use.
fn refuse_unused_options(arguments: &Arguments, trace_given: bool) -> Result<(), Failure> {
    if !arguments.keys.is_empty() && !trace_given {
        let name = &arguments.load;
        let message = format!("--keys is for a trace: the keys of `{name}` are known");
        return Err(Failure::Usage(message));
    }
    if arguments.scale.is_some() && trace_given {
        let message = "--scale is for a model: a trace is used as it is";
        return Err(Failure::Usage(message.to_owned()));
    }
    Ok(())
}

/// Makes the folder of the profile.
fn made_folder(arguments: &Arguments) -> Result<PathBuf, Failure> {
    let folder = arguments.out.clone().unwrap_or_else(|| {
        let load = Path::new(&arguments.load);
        let name = load.file_name().unwrap_or(load.as_os_str());
        PathBuf::from(format!("{}.profile", name.to_string_lossy()))
    });
    output::refuse_inside_database(&folder, "a profile")?;
    fs::create_dir(&folder)
        .map_err(|error| Failure::new(format!("cannot make {}", folder.display()), error))?;
    Ok(folder)
}

/// A load that has its trace. The steps after the recording begin with it.
struct Recorded<'a> {
    arguments: &'a Arguments,
    folder: PathBuf,
    trace: PathBuf,
    keys: Vec<PathBuf>,
}

impl Recorded<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Adds the lists of keys to the arguments of a command, by these options of it.
    fn add_lists(&self, command: &mut Command, [list, of]: [&str; 2]) {
        for keys in &self.keys {
            command.arg(list).arg(keys);
        }
        for keyspace in &self.arguments.keys_of {
            command.arg(of).arg(keyspace);
        }
    }

    fn analyze(&self, program: &Path) -> Result<Document, Failure> {
        let mut command = Command::new(program);
        command.arg(&self.trace);
        command.arg("--out").arg(self.path("analysis"));
        command.args(["--memory-mib", &self.arguments.memory_mib.to_string()]);
        self.add_lists(&mut command, ["--keys", "--keys-of"]);
        step("2 of 4: the trace is analyzed", &mut command)?;
        model::analysis(&self.path("analysis"))
    }

    /// Makes a model of the analysis, and writes it.
    fn model(&self, document: &Document) -> Result<MadeWorkload, Failure> {
        tell("3 of 4: a model is made");
        let failed = |error: from_analysis::MakeError| Failure::Message(error.to_string());
        let made = from_analysis::make_workload(document, &Known::default()).map_err(failed)?;
        model::tell_unknown(&made);
        write(&self.path("model.toml"), &made.to_toml().map_err(failed)?)?;
        Ok(made)
    }

    /// Replays the trace, and runs benchmarks beside it. Returns their results.
    fn replay(&self, own: &Path) -> Result<Value, Failure> {
        let mut command = Command::new(own);
        command
            .arg("mixgraph")
            .arg(self.path("model.toml"))
            .args(["--scale", "1", "--rounds", "1", "--replay"])
            .arg(&self.trace);
        self.add_lists(&mut command, ["--replay-keys", "--replay-keys-of"]);
        command.args(["--allocations", &self.arguments.allocations.join(",")]);
        command.arg("--json").arg(self.path("benchmarks.json"));
        step(
            "4 of 4: the trace is replayed, and benchmarks are run beside it",
            &mut command,
        )?;
        let file = self.path("benchmarks.json");
        let benchmarks = whole_file::read(&file)
            .map_err(|error| Failure::new(format!("cannot read {}", file.display()), error))?;
        serde_json::from_slice(&benchmarks).map_err(|error| Failure::new(file.display(), error))
    }
}

/// Runs a preset or a model on EvenDB. Then the folder has the trace of it and the keys of the
/// store.
fn record(own: &Path, arguments: &Arguments, folder: &Path) -> Result<(), Failure> {
    let mut command = Command::new(own);
    command.arg("mixgraph").arg(&arguments.load);
    command.args([
        "--scale",
        &arguments.scale.unwrap_or(SCALE).to_string(),
        "--rounds",
        "1",
    ]);
    for (option, file) in [
        ("--trace", TRACE),
        ("--trace-keys", KEYS),
        ("--json", "run.json"),
    ] {
        command.arg(option).arg(folder.join(file));
    }
    let what = "1 of 4: the load is run on EvenDB and recorded";
    step(what, &mut command)
}

/// Whether a file begins as a trace does. A missing file is a usage error.
fn is_trace(path: &Path) -> Result<bool, Failure> {
    let known: Vec<_> = presets::names().collect();
    let known = known.join(", ");
    let wrong = |error: io::Error| {
        let name = path.display();
        Failure::Usage(format!(
            "`{name}` is none of the presets ({known}), and as a file cannot be read: {error}"
        ))
    };
    let mut head = Vec::new();
    let file = fs::File::open(path).map_err(wrong)?;
    file.take(8).read_to_end(&mut head).map_err(wrong)?;
    Ok(formats::detect(&head) == Some(Format::EvenDb))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    Ok(evendb::placement::write_output(path, "a profile", text)?)
}

fn tell(what: &str) {
    output::complain(&format!("evendb: {what}"));
}

/// Runs a command. Its output goes to standard error.
fn step(what: &str, command: &mut Command) -> Result<(), Failure> {
    tell(what);
    let output = command.stdout(Stdio::from(io::stderr())).status();
    let status =
        output.map_err(|error| Failure::new(format!("{what}: it cannot be started"), error))?;
    let message = format!("{what}: it failed ({status}); what was made so far is kept");
    match status.code() {
        Some(0) => Ok(()),
        // These commands end with this code if the trace is damaged.
        Some(5) => Err(Failure::Corrupt(message)),
        _ => Err(Failure::Message(message)),
    }
}

/// What the model lacks or has otherwise than the load.
fn stands_out(made: &MadeWorkload) -> Vec<String> {
    let attention = "Attention: ";
    let notes = made
        .notes
        .iter()
        .filter_map(|note| note.strip_prefix(attention));
    let unknown = made.unknown.iter().map(String::as_str);
    unknown
        .chain(notes)
        .map(|note| format!("The model: {note}"))
        .collect()
}

/// How the model came about.
fn model_figure(made: &MadeWorkload) -> Figure {
    let about = "Which description was chosen for each part of the load, with the errors of all that were tried. The file model.toml has the parameters; it can be edited, and drives `evendb mixgraph` on any store.";
    let columns = [("part", Unit::Text), ("choice", Unit::Text)];
    let mut figure = Figure::new("model", "The model", about, "7", &columns);
    figure.rows = made
        .notes
        .iter()
        .map(|note| {
            let (part, choice) = note.split_once(": ").unwrap_or(("", note));
            vec![json!(part), json!(choice)]
        })
        .collect();
    figure
}

/// The comparison with the replay: a name, the field of the benchmark's result, and what it counts.
const COMPARED: [(&str, &str); 5] = [
    ("operations a second", "operations_per_second_with_debt"),
    ("read calls", "read_calls"),
    ("bytes read", "read_call_bytes"),
    ("bytes written", "written_bytes"),
    ("gets answered from RAM", "cache_hits"),
];

/// What the replay and each benchmark asked the system for, per operation.
fn benchmarks_figure(result: &Value) -> Figure {
    let about = "What the store did for an operation of the replayed trace and of each benchmark, and that by the replay's: the closer to 1, the better the benchmark stands for the load. \
                 prefix-dist is the model; all-random has its hot pairs scattered over the whole key space; zipfian and uniform are YCSB's.";
    let columns = [
        ("benchmark", Unit::Text),
        ("what", Unit::Text),
        ("each_operation", Unit::Number),
        ("by_replay", Unit::Number),
    ];
    let mut figure = Figure::new(
        "benchmarks",
        "Benchmarks beside the load",
        about,
        "7.2, figure 14",
        &columns,
    );
    let cells = result["results"][0]["figures"]["cells"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let each = |cell: &Value, field: &str| {
        let of = cell[field].as_f64()?;
        match field {
            "operations_per_second_with_debt" => Some(of),
            _ => Some(of / cell["operations"].as_f64()?),
        }
    };
    for (what, field) in COMPARED {
        let by = cells.first().and_then(|replay| each(replay, field));
        for cell in &cells {
            let own = each(cell, field);
            let ratio = own
                .zip(by)
                .filter(|(_, by)| *by > 0.0)
                .map(|(own, by)| own / by);
            figure.rows.push(vec![
                cell["allocation"].clone(),
                json!(what),
                json!(own),
                json!(ratio),
            ]);
        }
    }
    let mut bars = Chart::new(Mark::Bar, "benchmark", "by_replay").with_panel("what");
    bars.title = "By the replay".to_owned();
    figure.charts.push(bars);
    figure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benchmarks_are_divided_by_the_replay() {
        let cell = |name: &str, written: u64| json!({"allocation": name, "operations": 10, "written_bytes": written, "operations_per_second_with_debt": 5.0});
        let result = json!({"results": [{"figures": {"cells": [cell("replay", 100), cell("zipfian", 50)]}}]});
        let figure = benchmarks_figure(&result);
        let row = |what: &str, name: &str| {
            let row = figure
                .rows
                .iter()
                .find(|row| row[0] == name && row[1] == what);
            row.map(|row| (row[2].clone(), row[3].clone())).unwrap()
        };
        assert_eq!(row("bytes written", "zipfian"), (json!(5.0), json!(0.5)));
        assert_eq!(
            row("operations a second", "zipfian"),
            (json!(5.0), json!(1.0))
        );
        assert_eq!(row("read calls", "replay"), (Value::Null, Value::Null));
    }
}

//! Small traces, their analysis, and the same operations for a naive program that counts them in
//! maps.

use arrow::array::RecordBatch;
use evendb_analyze::{Budget, Cut, Error, Options, Session, Stored, analyze, operations, tables};
use evendb_report::{Document, Figure};
use evendb_trace::{Header, Kind, Operation, Outcome, Writer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub const BUDGET: Budget = Budget {
    memory_bytes: Budget::MEMORY_BYTES_MIN,
    threads: 2,
};

/// Names of keyspaces by number. One of them would break out of SQL and HTML.
pub fn names() -> BTreeMap<u32, String> {
    let names = [(0, "users"), (1, "it's <b>\"\\quoted' -- ;"), (2, "")];
    names.map(|(number, name)| (number, name.to_owned())).into()
}

/// The name of an operation's keyspace.
pub fn keyspace(operation: &Operation) -> String {
    let number = operation.keyspace;
    let name = names().get(&number).cloned();
    name.unwrap_or_else(|| format!("#{number}"))
}

/// Whether the operation names a key.
pub fn has_key(operation: &Operation) -> bool {
    use Kind::{Abort, BatchCommit, Begin, Commit, Other};
    !matches!(operation.kind, Begin | Commit | Abort | BatchCommit | Other)
}

/// The length of the value that was written or found.
pub fn value_bytes(operation: &Operation) -> Option<u64> {
    match operation.outcome {
        _ if operation.value_len.is_some() => operation.value_len,
        Outcome::Present { len, .. } => len,
        _ => None,
    }
}

/// Numbers that look random and are the same in each run.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// Small numbers often, large ones rarely.
    pub fn skewed(&mut self, end: u64) -> u64 {
        let below = self.below(end) + 1;
        self.below(below)
    }
}

fn key(random: &mut Random) -> Vec<u8> {
    // A key that hardly comes again.
    if random.below(40) == 0 {
        return format!("rare {}", random.below(1 << 40)).into_bytes();
    }
    let end = random.skewed(400) + 1;
    match random.skewed(end) {
        0 => Vec::new(),
        1 => vec![0xff; 1 + random.below(3) as usize],
        2 => vec![0; 1 + random.below(3) as usize],
        3 => vec![b'k'; 300 + random.below(2) as usize],
        4 => "'; --\u{202e}<b>".into(),
        number => format!("key {number:0width$}", width = (number % 7) as usize).into_bytes(),
    }
}

fn outcome(random: &mut Random) -> Outcome {
    let len = Some(random.skewed(5000)).filter(|len| len % 9 != 0);
    match random.below(6) {
        0 => Outcome::Unknown,
        1 => Outcome::Done,
        2 => Outcome::Absent,
        3 => Outcome::Failed(evendb_trace::Failure::Io),
        _ => Outcome::Present { len, hash: None },
    }
}

/// Operations of every kind, in the order in which they began, with keys of every sort.
pub fn operations_of_all_kinds(count: u64) -> Vec<Operation> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut now = 0;
    let mut all = Vec::new();
    for number in 0..count {
        let kind = match random.below(3) {
            0 => Kind::ALL[random.below(17) as usize],
            1 => Kind::Get,
            _ => [Kind::Put, Kind::Scan][random.below(2) as usize],
        };
        let mut operation = Operation::new(kind, key(&mut random));
        operation.keyspace = [0, 0, 0, 1, 2, 77][random.below(6) as usize];
        // Now and then nothing comes for long.
        now += random.skewed(2_000_000);
        now += if number % 500 == 499 { 300_000_000 } else { 0 };
        operation.start_nanos = now;
        operation.thread = random.below(4) as u32;
        operation.latency_nanos = Some(random.skewed(1 << 30)).filter(|_| number % 3 != 0);
        operation.outcome = outcome(&mut random);
        match kind {
            Kind::Put | Kind::Merge | Kind::Ingest => {
                operation.value_len = Some(random.skewed(100_000)).filter(|len| len % 11 != 0);
            }
            Kind::Scan => {
                operation.count = Some(random.skewed(3000)).filter(|count| count % 13 != 0);
                operation.reverse = random.below(4) == 0;
            }
            Kind::BatchCommit | Kind::Commit => operation.count = Some(random.below(9)),
            _ => {}
        }
        all.push(operation);
    }
    all
}

/// A trace of these operations.
pub fn write(operations: &[Operation], to: &Path) {
    let header = Header {
        source: "a test".to_owned(),
        keyspaces: names(),
        ..Header::default()
    };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    for operation in operations {
        writer.add(operation).unwrap();
    }
    std::fs::write(to, writer.finish().unwrap().0).unwrap();
}

pub fn run<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(future)
}

/// The result of the analysis of a trace with these operations.
pub fn found(operations: &[Operation]) -> Document {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("a.trace");
    write(operations, &trace);
    analyzed(folder.path(), trace, None).unwrap()
}

/// The result of the analysis of a trace, with tables in a folder that it makes in this one.
pub fn analyzed(folder: &Path, trace: PathBuf, stored: Option<Stored>) -> Result<Document, Error> {
    let tables = folder.join("tables");
    std::fs::create_dir(&tables).unwrap();
    let options = Options {
        trace,
        format: None,
        stored: stored.into_iter().collect(),
        folder: tables,
        budget: BUDGET,
        cut: Cut::default(),
    };
    run(analyze(&options, &mut |_| {}))
}

/// The operations with the key at which each begins: one in reverse at the end of its range, or at
/// the greatest key up to then.
pub fn placed(operations: &[Operation]) -> Vec<Operation> {
    let mut greatest: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    let mut all = operations.to_vec();
    for operation in &mut all {
        if operation.reverse && matches!(operation.kind, Kind::Scan | Kind::Pop) {
            let end = operation.end_key.take().map(|mut end| {
                end.pop_if(|byte| *byte == 0);
                end
            });
            let last = greatest.get(&operation.keyspace).cloned();
            let begin = end.or(last).unwrap_or_else(|| operation.key.clone());
            operation.end_key = Some(std::mem::replace(&mut operation.key, begin));
        } else if operation.kind.is_point_read() || operation.kind.is_point_write() {
            let last = greatest.entry(operation.keyspace).or_default();
            *last = std::mem::take(last).max(operation.key.clone());
        }
    }
    all
}

/// The operations that did not fail, placed.
pub fn done(operations: &[Operation]) -> Vec<Operation> {
    let mut all = placed(operations);
    all.retain(|operation| !matches!(operation.outcome, Outcome::Failed(_)));
    all
}

/// A large load, its operations that did not fail with the keys at which they begin, and the result
/// of the analysis: for all tests.
pub struct Large {
    pub all: Vec<Operation>,
    pub done: Vec<Operation>,
    pub document: Document,
}

pub fn large() -> &'static Large {
    static LARGE: OnceLock<Large> = OnceLock::new();
    LARGE.get_or_init(|| {
        let all = operations_of_all_kinds(12_000);
        let document = found(&all);
        Large {
            done: done(&all),
            all,
            document,
        }
    })
}

/// The rows of a query over the tables of these operations.
pub fn rows(operations: &[Operation], sql: &str) -> Vec<RecordBatch> {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("a.trace");
    write(operations, &trace);
    let session = Session::new(folder.path(), &BUDGET).unwrap();
    operations::write(&trace, None, &session.table_file("operations"), &mut |_| {}).unwrap();
    run(async {
        session.open_table("operations").await.unwrap();
        tables::make_keys(&session, false, &Cut::default())
            .await
            .unwrap();
        tables::make_access_counts(&session).await.unwrap();
        tables::make_sizes(&session).await.unwrap();
        session.rows(sql).await.unwrap()
    })
}

/// A figure that is there.
pub fn figure<'a>(document: &'a Document, id: &str) -> &'a Figure {
    document
        .figure(id)
        .unwrap_or_else(|| panic!("no figure {id}"))
}

/// Fails unless the figure has these columns, in this order.
pub fn assert_columns(figure: &Figure, columns: &str) {
    let names: Vec<&str> = figure
        .columns
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(names.join(" "), columns, "{}", figure.id);
    let fits = |row: &Vec<Value>| row.len() == names.len();
    assert!(figure.rows.iter().all(fits), "{}", figure.id);
}

pub fn text(cell: &Value) -> String {
    cell.as_str().unwrap().to_owned()
}

pub fn whole(cell: &Value) -> u64 {
    cell.as_u64().unwrap_or_else(|| panic!("{cell}"))
}

pub fn near(found: &Value, expected: f64) -> bool {
    let found = found.as_f64().unwrap_or(f64::NAN);
    (found - expected).abs() <= 1e-9 * expected.abs().max(1.0)
}

/// How often each number comes.
#[derive(Default)]
pub struct Counts(pub BTreeMap<u64, u64>);

impl Counts {
    pub fn add(&mut self, number: u64) {
        *self.0.entry(number).or_default() += 1;
    }

    pub fn all(&self) -> Vec<u64> {
        let of = |(number, count): (&u64, &u64)| vec![*number; *count as usize];
        self.0.iter().flat_map(of).collect()
    }

    /// The least number that `per_mille` of a thousand do not exceed.
    pub fn percentile(&self, per_mille: usize) -> u64 {
        let all = self.all();
        let at = (per_mille * all.len()).div_ceil(1000);
        all[at.max(1) - 1]
    }

    pub fn mean(&self) -> f64 {
        let all = self.all();
        all.iter().map(|number| *number as f64).sum::<f64>() / all.len() as f64
    }

    pub fn sd(&self) -> f64 {
        let (all, mean) = (self.all(), self.mean());
        let squares = all.iter().map(|number| (*number as f64 - mean).powi(2));
        (squares.sum::<f64>() / all.len() as f64).sqrt()
    }

    pub fn share_up_to(&self, number: u64) -> f64 {
        let all = self.all();
        all.iter().filter(|one| **one <= number).count() as f64 / all.len() as f64
    }
}

/// Fails unless the rows of one run, by their numbers, are some of `all`: the first, the last, and
/// all that are not near the row before.
pub fn assert_thinned(kept: &[u64], all: &[u64], growth: f64) {
    assert_eq!((kept.first(), kept.last()), (all.first(), all.last()));
    for number in all {
        let before = kept.iter().rfind(|kept| *kept <= number).unwrap();
        assert!(
            before == number || (*number as f64) < *before as f64 * growth,
            "{number} is missing"
        );
    }
    assert!(kept.iter().all(|number| all.contains(number)));
    assert!(kept.is_sorted_by(|a, b| a < b));
}

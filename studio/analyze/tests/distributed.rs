//! A scheduler and two executors as processes find the same figures as one process alone, also when
//! an executor is killed in the middle.
//!
//! They listen on the loopback interface, on ports that the system chooses. Each process is ended
//! by its id, even if a test fails.

#![cfg(feature = "distributed")]
#![allow(
    clippy::unwrap_used,
    reason = "a test, whose helpers are no test functions"
)]

use arrow::util::display::{ArrayFormatter, FormatOptions};
use evendb_analyze::{Budget, Session, distributed};
use evendb_report::{Document, Exactness, Figure};
use evendb_trace::{Header, Kind, Operation, Outcome, Writer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_evendb-analyze");
/// Longer than anything takes here, even on a busy machine.
const LONG: Duration = Duration::from_secs(300);
const STEP: Duration = Duration::from_millis(5);

/// A process that is ended when this is dropped.
struct Process(Child);

impl Process {
    fn start(arguments: &[&str], output: Stdio) -> Process {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).stdin(Stdio::null()).stdout(output);
        Process(command.spawn().unwrap())
    }

    /// Starts a process that prints the address on which it listens, and waits for that.
    fn listening(arguments: &[&str]) -> (Process, String) {
        let mut process = Process::start(arguments, Stdio::piped());
        let output = process.0.stdout.take().unwrap();
        let (send, receive) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(output).read_line(&mut line);
            let _ = send.send(line);
        });
        let line = receive.recv_timeout(LONG).unwrap();
        let address = line.split_once(" listens on ").unwrap().1;
        let address = address.split([',', '\n']).next().unwrap();
        (process, address.to_owned())
    }

    fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    fn signal(&self, name: &str) {
        let mut command = Command::new("kill");
        command.args(["-s", name, &self.0.id().to_string()]);
        assert!(command.status().unwrap().success());
    }

    /// By the signal that cannot be caught.
    fn kill(mut self) {
        assert!(!self.has_ended());
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until it is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let steps = LONG.as_millis() / STEP.as_millis();
    for _ in 0..steps {
        if is_so() {
            return;
        }
        thread::sleep(STEP);
    }
    panic!("waited too long until {what}");
}

struct Place {
    folder: tempfile::TempDir,
    trace: String,
}

impl Place {
    /// A folder with a trace in it: keyspaces, kinds and keys of several sorts. Some keys are
    /// accessed often.
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("load.trace");
        let header = Header {
            source: "a test".to_owned(),
            keyspaces: BTreeMap::from([(1, "users".to_owned()), (2, "it's \"2\"".to_owned())]),
            ..Header::default()
        };
        let file = BufWriter::new(File::create(&path).unwrap());
        let mut writer = Writer::new(file, &header).unwrap();
        let mut state = 1u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) % below
        };
        for number in 0..40_000u64 {
            writer.add(&operation(number, &mut draw)).unwrap();
        }
        writer.finish().unwrap();
        let trace = path.to_str().unwrap().to_owned();
        Place { folder, trace }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Begins an analysis into the folder `name`.
    fn analysis(&self, name: &str, more: &[&str]) -> Process {
        let out = self.path(name);
        let mut arguments = vec![self.trace.as_str(), "--out", out.to_str().unwrap()];
        arguments.extend(["--threads", "4"]);
        arguments.extend(more);
        Process::start(&arguments, Stdio::null())
    }

    /// The result of an analysis, after it has ended.
    fn document(&self, name: &str, mut analysis: Process) -> Document {
        until("the analysis ends", || analysis.has_ended());
        assert!(analysis.0.wait().unwrap().success());
        let text = fs::read_to_string(self.path(name).join("analysis.json")).unwrap();
        Document::from_json(&text).unwrap()
    }

    /// An executor that runs one task at once, its address, and the folder that it works in.
    fn executor(&self, name: &str, scheduler: &str) -> (Process, String, PathBuf) {
        let work = self.path(name);
        fs::create_dir(&work).unwrap();
        let mut arguments = vec!["executor", "--scheduler", scheduler, "--threads", "1"];
        arguments.extend(["--memory-mib", "256", "--work", work.to_str().unwrap()]);
        let (process, address) = Process::listening(&arguments);
        (process, address, work)
    }
}

fn operation(number: u64, draw: &mut impl FnMut(u64) -> u64) -> Operation {
    let kinds = [Kind::Get, Kind::Put, Kind::Scan, Kind::Delete, Kind::Commit];
    let kind = kinds[draw(20).saturating_sub(15) as usize];
    let at = 3000 / (draw(3000) + 1) * (draw(7) + 1);
    let key = match draw(50) {
        0 => vec![0xff; at as usize % 40],
        1 => Vec::new(),
        _ => format!("user{:03}:{at}", at % 90).into_bytes(),
    };
    let key = if kind == Kind::Commit {
        Vec::new()
    } else {
        key
    };
    Operation {
        keyspace: 1 + u32::from(draw(3) == 0),
        thread: draw(4) as u32,
        start_nanos: number * 50_000 + draw(40_000),
        latency_nanos: Some(1000 + draw(90_000)),
        value_len: (kind == Kind::Put).then(|| 10 + draw(300)),
        count: (kind == Kind::Scan).then(|| draw(100)),
        limit: (kind == Kind::Scan).then_some(100),
        reverse: kind == Kind::Scan && draw(4) == 0,
        outcome: match (kind, draw(5)) {
            (Kind::Get, 0) => Outcome::Absent,
            (Kind::Get, n) => Outcome::Present {
                len: Some(n * 30),
                hash: None,
            },
            _ => Outcome::Done,
        },
        ..Operation::new(kind, key)
    }
}

fn assert_same(alone: &Document, found: &Document) {
    assert_eq!(alone.title, found.title);
    assert_eq!(alone.facts, found.facts);
    let ids = |of: &Document| of.figures.iter().map(|f| f.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(alone), ids(found));
    assert!(!alone.figures.is_empty());
    for (alone, found) in alone.figures.iter().zip(&found.figures) {
        assert_same_figure(alone, found);
    }
}

fn assert_same_figure(alone: &Figure, found: &Figure) {
    let id = &alone.id;
    assert_eq!(alone.rows.len(), found.rows.len(), "rows of {id}");
    assert_eq!(alone.rows_before, found.rows_before, "{id}");
    // Sums of parts may differ in the last digits, because the parts come in any order. Medians of
    // a digest may differ by the digest's error.
    let error = match alone.exactness {
        Exactness::Exact => 1e-9,
        Exactness::Sketched(_) | Exactness::Measured(_) => 0.05,
    };
    for (alone, found) in alone.rows.iter().zip(&found.rows) {
        let same = alone.iter().zip(found).all(|(a, b)| is_same(a, b, error));
        assert!(same, "{id}: {alone:?} is {found:?}");
    }
}

fn is_same(a: &Value, b: &Value, error: f64) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= error * a.abs().max(b.abs()),
        _ => a == b,
    }
}

/// The number of queries with results in the folder of an executor.
fn queries(work: &Path) -> usize {
    let folders = fs::read_dir(work).unwrap().flatten();
    let queries = folders.map(|folder| fs::read_dir(folder.path()).unwrap().count());
    queries.sum()
}

#[test]
fn two_executors_find_what_one_process_finds_also_when_one_is_killed() {
    let place = Place::new();
    let alone = place.document("alone", place.analysis("alone", &[]));

    let mut scheduler = vec!["scheduler", "--listen", "127.0.0.1:0"];
    scheduler.extend(["--executor-timeout-seconds", "10"]);
    let (_scheduler, address) = Process::listening(&scheduler);
    let (first, _, first_work) = place.executor("first", &address);
    let (second, _, second_work) = place.executor("second", &address);
    let by = ["--scheduler", address.as_str()];

    let together = place.document("together", place.analysis("together", &by));
    assert_same(&alone, &together);
    assert!(queries(&first_work) + queries(&second_work) > 0);

    // The first begins alone, so that it has results that are needed when it is killed.
    second.signal("STOP");
    let before = queries(&first_work);
    let mut analysis = place.analysis("lost", &by);
    until("the first executor has results", || {
        assert!(!analysis.has_ended());
        queries(&first_work) > before
    });
    first.kill();
    // As if its machine was gone.
    fs::remove_dir_all(&first_work).unwrap();
    assert!(!analysis.has_ended());
    second.signal("CONT");
    let lost = place.document("lost", analysis);
    assert_same(&alone, &lost);
}

/// The addresses on which a process listens, from the system: in hexadecimal, for IPv4 and IPv6.
fn listened(process: &Process) -> Vec<String> {
    let of = PathBuf::from(format!("/proc/{}", process.0.id()));
    let files = fs::read_dir(of.join("fd")).unwrap();
    let sockets: Vec<String> = files
        .flatten()
        .filter_map(|file| fs::read_link(file.path()).ok())
        .filter_map(|link| {
            let link = link.to_string_lossy().into_owned();
            Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let mut addresses = Vec::new();
    for table in ["net/tcp", "net/tcp6"] {
        let table = fs::read_to_string(of.join(table)).unwrap_or_default();
        for line in table.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let listens = fields[3] == "0A";
            if listens && sockets.iter().any(|socket| socket == fields[9]) {
                addresses.push(fields[1].to_owned());
            }
        }
    }
    addresses
}

#[test]
#[cfg(target_os = "linux")]
fn each_listens_on_the_address_it_was_given_and_no_other() {
    let place = Place::new();
    let (scheduler, address) = Process::listening(&["scheduler", "--listen", "127.0.0.1:0"]);
    let (executor, executor_address, _) = place.executor("work", &address);
    place.document("by", place.analysis("by", &["--scheduler", &address]));
    for (process, address) in [(&scheduler, address), (&executor, executor_address)] {
        let port: u16 = address.rsplit_once(':').unwrap().1.parse().unwrap();
        assert_eq!(listened(process), [format!("0100007F:{port:04X}")]);
    }
}

#[test]
fn what_cannot_begin_says_why() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let work = place.folder.path().to_str().unwrap();
    let nowhere = place.path("nowhere");
    let executor = ["executor", "--scheduler", "127.0.0.1:1", "--work"];
    let cases: [(&[&str], &str, i32); 5] = [
        (&["scheduler", "--listen", &taken], "cannot listen on", 1),
        (
            &[
                "scheduler",
                "--listen",
                "127.0.0.1:0",
                "--executor-timeout-seconds",
                "1",
            ],
            "10 seconds at least",
            2,
        ),
        (&["scheduler"], "--listen", 2),
        (
            &[&executor[..], &[work, "--memory-mib", "1"]].concat(),
            "256 MiB",
            2,
        ),
        (
            &[&executor[..], &[nowhere.to_str().unwrap()]].concat(),
            "cannot make a folder in",
            1,
        ),
    ];
    for (arguments, why, code) in cases {
        let ended = Command::new(PROGRAM).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains(why), "{arguments:?}: {said}");
        assert_eq!(ended.status.code(), Some(code), "{arguments:?}");
    }
}

/// The rows of a query, as text, in an order that does not depend on its parts.
async fn rows(session: &Session, sql: &str) -> Vec<String> {
    let batches = session.rows(sql).await;
    let batches = batches.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let options = FormatOptions::default();
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter();
        let columns: Vec<_> = columns
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let cells = columns.iter().map(|column| column.value(row).to_string());
            rows.push(cells.collect::<Vec<_>>().join(" | "));
        }
    }
    rows.sort();
    rows
}

/// Forms of queries. An engine that cuts a query into stages could get some of them wrong.
const FORMS: &[&str] = &[
    // One side is empty, and a task has one side.
    "SELECT kind, 'a' AS side, count(*) FROM operations GROUP BY kind
     UNION ALL SELECT kind, 'b' AS side, count(*) FROM operations WHERE kind = 'pop' GROUP BY kind
     UNION ALL SELECT key, 'c' AS side, count(*) FROM keys WHERE accesses > 100 GROUP BY key ORDER BY 1, 2",
    "SELECT count(*) FROM operations WHERE kind = 'pop'",
    "SELECT max(number) FROM operations WHERE kind = 'pop'",
    "SELECT keyspace, key, accesses FROM keys ORDER BY accesses DESC, keyspace, key, kind LIMIT 17",
    "SELECT DISTINCT keyspace, thread FROM operations",
    "SELECT keyspace, count(DISTINCT key), count(*) FILTER (WHERE reverse) FROM operations GROUP BY keyspace",
    "SELECT keyspace, key, row_number() OVER (PARTITION BY keyspace ORDER BY accesses DESC, key, kind) AS rank FROM keys",
    "SELECT number, lag(kind) OVER (PARTITION BY keyspace, key ORDER BY number) FROM operations",
    "SELECT number, sum(value_bytes) OVER (ORDER BY number ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) FROM operations",
    "SELECT number / 1000, sum(count(*)) OVER (ORDER BY number / 1000) FROM operations GROUP BY number / 1000",
    "SELECT kind FROM operations WHERE start_nanos = (SELECT max(start_nanos) FROM operations)",
    "SELECT keyspace, key FROM keys WHERE accesses > (SELECT 2 * avg(accesses) FROM keys)",
    "SELECT a.keyspace, count(*) FROM operations a JOIN keys b ON a.keyspace = b.keyspace AND a.key = b.key AND a.kind = b.kind
     GROUP BY a.keyspace",
    "SELECT a.kind, b.kind, count(*) FROM keys a LEFT JOIN keys b ON a.key = b.key AND a.keyspace <> b.keyspace GROUP BY a.kind, b.kind",
    "SELECT count(*) FROM keys WHERE key NOT IN (SELECT key FROM operations WHERE kind = 'put')",
    "SELECT count(*) FROM keys a WHERE EXISTS (SELECT 1 FROM operations b WHERE b.key = a.key AND b.kind = 'scan')",
    "SELECT a.keyspace, b.bin FROM (SELECT DISTINCT keyspace FROM keys) a CROSS JOIN (SELECT DISTINCT number / 9000 AS bin FROM operations) b",
    "WITH counts AS (SELECT kind, count(*) AS n FROM operations GROUP BY kind)
     SELECT a.kind, a.n, b.n FROM counts a JOIN counts b ON a.n >= b.n",
    "SELECT octet_length(keyspace), encode(key, 'hex'), CAST(key_hash % 7 AS INT) FROM keys JOIN (
         SELECT DISTINCT key AS k, key_hash FROM operations) ON key = k",
];

#[test]
fn forms_of_queries_find_the_same() {
    let place = Place::new();
    let (_scheduler, address) = Process::listening(&["scheduler", "--listen", "127.0.0.1:0"]);
    let (_first, _, _) = place.executor("first", &address);
    let (_second, _, _) = place.executor("second", &address);
    let analysis = place.analysis("alone", &["--keep-tables"]);
    place.document("alone", analysis);
    let tables = place.path("alone").join("tables");
    let budget = Budget {
        memory_bytes: 512 << 20,
        threads: 4,
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let alone = Session::new(&tables, &budget).unwrap();
        let together = distributed::session(&address, 4, &tables).await.unwrap();
        for session in [&alone, &together] {
            session.open_table("operations").await.unwrap();
            session.open_table("keys").await.unwrap();
        }
        for sql in FORMS {
            let asked = tokio::time::timeout(LONG, rows(&together, sql)).await;
            assert_eq!(rows(&alone, sql).await, asked.expect(sql), "{sql}");
        }
        // An error is an error, and does not wait.
        let wrong = together.rows("SELECT CAST(key AS INT) FROM keys").await;
        assert!(wrong.is_err());
    });
}

/// More than twice the pool of an executor: it has 128 MiB.
const MANY: &str = "SELECT 'all' AS keyspace, value AS number, repeat('k', 1000) || value AS key FROM generate_series(1, 300000)";

#[test]
fn joins_with_few_rows_do_not_have_the_many_in_memory() {
    let place = Place::new();
    let (_scheduler, address) = Process::listening(&["scheduler", "--listen", "127.0.0.1:0"]);
    let (_first, _, _) = place.executor("first", &address);
    let (_second, _, _) = place.executor("second", &address);
    let tables = place.path("tables");
    fs::create_dir(&tables).unwrap();
    let budget = Budget {
        memory_bytes: 512 << 20,
        threads: 4,
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let alone = Session::new(&tables, &budget).unwrap();
        let few = "SELECT 'all' AS keyspace, 3 AS parts";
        alone.make_table("few", few).await.unwrap();
        alone.make_table("many", MANY).await.unwrap();
        let together = distributed::session(&address, 4, &tables).await.unwrap();
        together.open_table("few").await.unwrap();
        together.open_table("many").await.unwrap();
        // All rows of both tables have one value in the column of the join, as the rows of one
        // keyspace have.
        let sql = "SELECT number % parts AS part, count(*), min(key), max(key) FROM few JOIN many ON many.keyspace = few.keyspace GROUP BY number % parts";
        assert_eq!(rows(&alone, sql).await, rows(&together, sql).await);
    });
}

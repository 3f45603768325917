//! `evendb experiment paper` as a user runs it: measured once, continued, and with mistakes.

use std::path::Path;
use std::process::{Command, Output};

fn run(out: &Path, figures: &str, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evendb"))
        .args([
            "experiment",
            "paper",
            "--quick",
            "--no-memory-limit",
            "--out",
        ])
        .arg(out)
        .args([
            "--figures",
            figures,
            "--mixes",
            "C,A",
            "--distributions",
            "zipf-simple",
        ])
        .args(["--sizes-mib", "2", "--ingest-mib", "2", "--seconds", "0.05"])
        .args(more)
        .output()
        .expect("the command starts")
}

fn succeed(out: &Path, figures: &str) -> String {
    let output = run(out, figures, &[]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    told
}

fn lines(out: &Path, kind: &str) -> Vec<String> {
    let text = std::fs::read_to_string(out.join("results.jsonl")).expect("there are results");
    let start = format!("{{\"kind\":\"{kind}\"");
    let lines = text.lines().filter(|line| line.starts_with(&start));
    lines.map(str::to_owned).collect()
}

#[test]
fn a_run_is_gone_on_with_and_repeats_nothing() {
    let place = tempfile::tempdir().expect("a directory");
    let out = place.path().join("results");
    let listed = run(&out, "6,3,5", &["--list"]);
    assert!(listed.status.success());
    assert!(String::from_utf8_lossy(&listed.stdout).contains("figure-6 C/zipf-simple/2.00 MiB"));
    assert!(!out.exists(), "a list makes nothing");

    // Half of it, then all of it.
    succeed(&out, "6");
    assert_eq!(lines(&out, "cell").len(), 3, "load, C and A");
    let report = out.join("report.md");
    let text = std::fs::read_to_string(&report).expect("there is a report");
    assert!(text.contains("| C zipf-simple, 2 MiB | ") && !text.contains("event log: ingest"));
    let told = succeed(&out, "6,3,5");
    assert!(told.contains("1 of 3 steps were finished before"), "{told}");
    let cells = lines(&out, "cell");
    assert_eq!(cells.len(), 5, "ingest and scans besides");
    assert!(
        cells
            .iter()
            .all(|line| line.contains("\"operations_per_second_with_debt\""))
    );

    // A last line that was cut off is measured again, the others are not.
    let path = out.join("results.jsonl");
    let text = std::fs::read_to_string(&path).expect("there are results");
    let cut = text.rfind("{\"kind\":\"cell\"").expect("a cell") + 100;
    std::fs::write(&path, &text[..cut]).expect("it can be written");
    succeed(&out, "6,3,5");
    assert_eq!(lines(&out, "skipped").len(), 0);
    let whole: Vec<String> = lines(&out, "cell")
        .into_iter()
        .filter(|line| line.ends_with('}'))
        .collect();
    assert_eq!(whole.len(), 5);
    assert!(!out.join("data").exists(), "the stores are removed");

    // The report is made from the results alone, and again when it is asked for.
    std::fs::remove_file(&report).expect("there is a report");
    let output = make_report(&out);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && told.contains("report.md"),
        "{told}"
    );
    let text = std::fs::read_to_string(&report).expect("there is a report");
    assert!(text.contains("## Figure 3") && text.contains("| event log: ingest, 2 MiB | "));
    assert!(text.contains("| event log: scans, 2 MiB | "), "{text}");
}

/// The check that a store with less memory is never faster runs in turns, and says what it found.
#[test]
fn half_the_memory_is_compared_where_it_is_named() {
    let place = tempfile::tempdir().expect("a directory");
    let output = Command::new(env!("CARGO_BIN_EXE_evendb"))
        .args("experiment paper --quick --no-memory-limit --figures 6 --seconds 0.05".split(' '))
        .args("--stores evendb,evendb-half-memory --mixes P --rounds 2".split(' '))
        .args(["--distributions", "uniform", "--sizes-mib", "2", "--out"])
        .arg(place.path())
        .output()
        .expect("the command starts");
    assert!(output.status.success(), "{output:?}");
    let cells = lines(place.path(), "cell");
    let stores: Vec<bool> = (cells.iter())
        .filter(|cell| cell.contains("\"mix\":\"P\",\"distribution\""))
        .map(|cell| cell.contains("\"store\":\"evendb-half-memory\""))
        .collect();
    assert_eq!(stores, [false, true, false, true], "in turns");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("Half the memory budget: in "), "{told}");
    let text = std::fs::read_to_string(place.path().join("report.md")).expect("there is a report");
    assert!(text.contains("| P uniform, 2 MiB | kop/s"), "{text}");
    assert!(text.contains("## Half the memory"), "{text}");
}

/// Puts alone do not find in memory what an earlier phase left there.
#[test]
fn puts_alone_begin_on_a_freshly_opened_store() {
    for (more, fresh) in [(&[][..], true), (&["--keep-open"], false)] {
        let place = tempfile::tempdir().expect("a directory");
        let output = Command::new(env!("CARGO_BIN_EXE_evendb"))
            .args(
                "experiment paper --quick --no-memory-limit --figures 6 --seconds 0.05".split(' '),
            )
            .args("--mixes P,A,D --distributions zipf-simple,uniform,latest".split(' '))
            .args(["--sizes-mib", "2", "--out"])
            .arg(place.path())
            .args(more)
            .output()
            .expect("the command starts");
        assert!(output.status.success(), "{output:?}");
        let cells = lines(place.path(), "cell");
        assert_eq!(cells.len(), 5, "load, A, P twice, D");
        for cell in &cells[1..] {
            let puts = cell.contains("\"mix\":\"P\",\"distribution\"");
            let said = format!("\"freshly_opened\":{}", fresh && puts);
            assert!(cell.contains(&said), "{said} in {cell}");
            let warmed = match puts {
                true => "\"warming\":{\"mix\":\"P\"",
                false => "\"warming\":{\"mix\":\"C\"",
            };
            assert!(cell.contains(warmed), "{warmed} in {cell}");
        }
    }
}

fn make_report(directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evendb"))
        .args(["experiment", "report"])
        .arg(directory)
        .output()
        .expect("the command starts")
}

#[test]
fn a_report_of_nothing_says_what_to_do() {
    let place = tempfile::tempdir().expect("a directory");
    for (results, expected) in [
        (None, "results.jsonl: No such file"),
        (Some("{\"kind\":\"run\"}\n"), "has no results"),
        (
            Some("{\"kind\":\"run\"}\n{}\n"),
            "results.jsonl, line 2: an object without `kind`; mend or remove",
        ),
    ] {
        if let Some(results) = results {
            std::fs::write(place.path().join("results.jsonl"), results).expect("it can be written");
        }
        let output = make_report(place.path());
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && told.contains(expected),
            "{told}"
        );
        assert!(!place.path().join("report.md").exists());
    }
}

#[test]
fn table_3_is_printed_without_measuring() {
    let place = tempfile::tempdir().expect("a directory");
    let out = place.path().join("results");
    let output = run(&out, "table-3", &[]);
    assert!(output.status.success());
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        told.contains("| zipf-simple, theta 0.99 | 4.87 % | "),
        "{told}"
    );
    assert!(!out.exists(), "nothing was measured");
}

#[test]
fn mistakes_are_told() {
    let place = tempfile::tempdir().expect("a directory");
    let out = place.path().join("results");
    for (arguments, expected) in [
        (&["--figures", "13"], "no figure `13`"),
        (&["--stores", "nosuch"], "no store `nosuch`"),
        (&["--scale", "0"], "a scale is a number"),
        (&["--theta", "1"], "does not lie between 0 and 1"),
        (
            &["--durability", "often"],
            "possible values: relaxed, process, sync",
        ),
    ] {
        let output = run(&out, "6", arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && told.contains(expected),
            "{told}"
        );
        assert!(!out.exists(), "nothing was begun");
    }
    succeed(&out, "6");
    let output = run(&out, "6", &["--value-bytes", "100"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && told.contains("holds results with other settings"),
        "{told}"
    );
}

//! The report as a whole: what is in it, and that nothing gets out of it.

use std::fs;
use std::path::Path;

use super::results::Results;
use super::series::named;
use super::{ReportError, fixture, gap, html, markdown, summary, write};

fn written(lines: &[String]) -> Result<(String, String), ReportError> {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(super::RESULTS_FILE), lines.join("\n")).unwrap();
    let written = write(directory.path())?;
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    Ok((read(&written.html), read(&written.markdown)))
}

/// `EVENDB_REPORT_FIXTURE=DIR cargo test -p evendb-lab made_up` leaves a report to look at.
#[test]
fn made_up_results_become_a_report() {
    let (page, text) = written(&fixture::lines()).unwrap();
    assert!(page.contains("Figure 12") && text.contains("Figure 12"));
    if let Some(directory) = std::env::var_os("EVENDB_REPORT_FIXTURE") {
        let path = Path::new(&directory);
        fs::create_dir_all(path).unwrap();
        fs::write(path.join(super::RESULTS_FILE), fixture::lines().join("\n")).unwrap();
        write(path).unwrap();
    }
}

#[test]
fn figures_stand_beside_what_the_machine_can_do() {
    let (_, text) = written(&fixture::lines()).unwrap();
    let line = |what: &str| {
        let mut lines = text.lines().filter(|line| line.contains(what));
        lines.next().expect("a limit").to_owned()
    };
    // 100,000 random reads a second in the made-up calibration.
    let cold = line("reads of 4 KiB by 16 threads");
    assert!(cold.contains("100,000/s") && cold.contains("C/"), "{cold}");
    let recovery = line("recovery, of the commit log");
    assert!(recovery.contains("not measured in this run"), "{recovery}");
    let ram = line("two dependent cache misses");
    assert!(ram.contains("300 ns"), "{ram}");
}

#[test]
fn gets_have_a_latency_for_each_component() {
    let (_, text) = written(&fixture::lines()).unwrap();
    let (_, table) = text
        .split_once("Mean latency of gets by the component")
        .expect("the table");
    let rows: Vec<&str> = table
        .lines()
        .filter(|line| line.contains("evendb"))
        .collect();
    // Two gets of the log are too few for a sample.
    assert!(
        rows[0].contains("1.2 us") && rows[0].contains("150.0 us"),
        "{}",
        rows[0]
    );
    assert!(!rows[0].contains("450"), "{}", rows[0]);
}

#[test]
fn names_are_text_everywhere() {
    let (page, text) = written(&fixture::lines()).unwrap();
    assert!(page.contains(&html::escape(fixture::HOSTILE)));
    assert!(page.contains(&html::escape(fixture::HOSTILE_REASON)));
    assert!(text.contains(&markdown::escape(fixture::HOSTILE_REASON)));
    for markup in [
        "<script",
        "<img",
        "<b>",
        "<defaults>",
        "<CPU>",
        fixture::HOSTILE,
    ] {
        assert!(!page.contains(markup), "{markup}");
        assert!(!text.contains(markup), "{markup}");
    }
}

/// Names of tags and of their attributes; what stands in quotes or between tags is text.
fn tags(page: &str) -> Vec<(String, Vec<String>)> {
    let body = page
        .split('<')
        .skip(1)
        .map(|part| &part[..part.find('>').expect("every tag ends")]);
    body.map(|tag| {
        let unquoted: String = tag.split('"').step_by(2).collect();
        let mut words = unquoted
            .split_whitespace()
            .map(|word| word.trim_matches(['/', '=']).to_owned());
        (words.next().unwrap_or_default(), words.collect())
    })
    .collect()
}

#[test]
fn the_page_loads_nothing() {
    let (page, _) = written(&fixture::lines()).unwrap();
    for (tag, attributes) in tags(&page) {
        let loading = [
            "script", "link", "img", "iframe", "object", "embed", "base", "form", "use",
        ];
        assert!(!loading.contains(&tag.as_str()), "{tag}");
        for attribute in attributes {
            let loading = [
                "src",
                "srcset",
                "xlink:href",
                "action",
                "style",
                "data",
                "background",
            ];
            assert!(!loading.contains(&attribute.as_str()), "{tag} {attribute}");
            assert!(!attribute.starts_with("on"), "{tag} {attribute}");
        }
    }
    assert_eq!(
        page.matches("href=\"").count(),
        page.matches("href=\"#section-").count()
    );
    let style = &page[page.find("<style>").unwrap()..page.find("</style>").unwrap()];
    for loading in ["@import", "url(", "@font-face", "http"] {
        assert!(!style.contains(loading), "{loading}");
    }
    // Every address is in a name of the fixture, at times cut short: text, by what was checked above.
    let addresses = page.matches("https://").count() + page.matches("http://").count();
    let named = page.matches("https://example.org").count();
    assert!(addresses > 0 && addresses == named, "{addresses}, {named}");
}

#[test]
fn every_element_is_closed() {
    let (page, _) = written(&fixture::lines()).unwrap();
    let body = &page[page.find("<body>").unwrap()..];
    let mut open: Vec<&str> = Vec::new();
    for part in body.split('<').skip(1) {
        let tag = &part[..part.find('>').expect("every tag ends")];
        let name = tag
            .trim_start_matches('/')
            .split([' ', '/'])
            .next()
            .unwrap();
        if tag.starts_with('/') {
            let last = open.pop();
            assert!(
                last == Some(name) || name == "html",
                "{last:?} closed by {name}"
            );
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn every_cell_and_store_is_there() {
    let results = fixture::results();
    let document = summary::document(&results);
    let (page, text) = (html::page(&document), markdown::text(&document));
    for cell in &results.cells {
        let name = named(cell);
        let size = name.data.clone().unwrap_or_default();
        let row = format!("<th scope=\"row\">{}", html::escape(&name.workload));
        let rows = page.split(&row).skip(1);
        let detail = html::escape(&size);
        assert!(
            rows.into_iter()
                .any(|rest| rest.lines().next().unwrap().contains(&detail)),
            "{}: {}",
            cell.experiment,
            cell.name
        );
        assert!(
            text.contains(&markdown::escape(&name.workload)),
            "{}",
            cell.name
        );
    }
    for store in results.stores() {
        assert!(page.contains(&html::escape(store)), "{store}");
    }
    for word in ["skipped", "interrupted"] {
        assert!(
            page.contains(&format!("<td class=\"faint\">{word}</td>")),
            "{word}"
        );
    }
}

#[test]
fn figures_of_interrupted_rounds_are_not_shown() {
    let (page, text) = written(&fixture::lines()).unwrap();
    assert!(!page.contains("987,654") && !text.contains("987,654"));
}

#[test]
fn medians_and_ratios_are_in_the_tables() {
    let line = |store: &str, round: u64, rate: f64| {
        fixture::cell("figure-6", "C/zipf-simple/512MiB", store, round)
            .phase(serde_json::json!({ "operations_per_second": rate }))
            .to_string()
    };
    let lines = [
        line("evendb", 0, 111e3),
        line("evendb", 1, 333e3),
        line("evendb", 2, 222e3),
        line("lmdb", 0, 444e3),
    ];
    let (page, text) = written(&lines).unwrap();
    assert!(page.contains("<td>222<small>111 to 333</small></td>"));
    assert!(page.contains("<td class=\"best\">444</td><td class=\"bad\">0.50x</td>"));
    let row = "| C zipf-simple, 512 MiB | 222 (111 to 333) | **444** | 0.50x | lmdb |";
    assert!(text.contains(row), "{text}");
    assert!(text.contains("at least 1.00x the best peer's"));
}

#[test]
fn the_worst_gap_comes_first() {
    let results = fixture::results();
    let gaps = gap::gaps(&results);
    assert!(gaps.len() > 100);
    assert!(
        gaps.windows(2)
            .all(|pair| pair[0].reached <= pair[1].reached)
    );
    assert!(gaps.iter().any(gap::Gap::is_reached) && !gaps[0].is_reached());
}

#[test]
fn nothing_to_report_is_said_clearly() {
    let directory = tempfile::tempdir().unwrap();
    let missing = write(directory.path()).unwrap_err();
    assert!(matches!(missing, ReportError::Read(..)));
    assert!(missing.to_string().contains("results.jsonl cannot be read"));
    for empty in [
        "",
        "\n\n",
        "{\"kind\":\"run\",\"version\":1}\n",
        "{\"kind\":\"ru",
    ] {
        match written(&[empty.to_owned()]) {
            Err(error @ ReportError::Empty(_)) => {
                assert!(error.to_string().contains("has no results"));
            }
            other => panic!("{empty}: {other:?}"),
        }
    }
    let mut lines = fixture::lines();
    lines[3].push_str("]]");
    match written(&lines) {
        Err(error @ ReportError::Damaged { line: 4, .. }) => {
            assert!(
                error.to_string().contains("line 4: not a JSON object"),
                "{error}"
            );
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
}

#[test]
fn results_with_hardly_anything_become_a_report() {
    let skipped = "{\"kind\":\"skipped\",\"experiment\":\"figure-9\",\"cell\":\"A\",\
                   \"store\":\"evendb\",\"why\":\"no room\"}";
    let bare = fixture::cell("x", "y", "z", 0)
        .phase(serde_json::json!({}))
        .to_string();
    let every: Vec<String> = [
        "figure-3",
        "figure-4",
        "figure-5",
        "figure-7",
        "figure-8",
        "figure-10",
        "figure-11",
        "figure-12",
        "table-2",
        "table-3",
        "table-4",
    ]
    .into_iter()
    .map(|name| {
        fixture::cell(name, "c", "evendb", 0)
            .phase(serde_json::json!({}))
            .to_string()
    })
    .collect();
    for lines in [vec![skipped.to_owned()], vec![bare], every] {
        let (page, text) = written(&lines).unwrap();
        assert!(page.contains("nothing can be compared yet"));
        assert!(!page.contains("NaN") && !text.contains("NaN"));
    }
    let results = Results::default();
    assert!(gap::gaps(&results).is_empty());
}

//! Figures of a load over time, made from the operations a second of an analysis.
//!
//! ```text
//!   rates: keyspace, kind, stretch
//!     --> kind-rates      sums of all keyspaces by kind, if there are several
//!     --> daily-profile   by the time of day, the days laid upon one another
//!     --> periods         after which time the course of a kind comes again
//!     --> rate-fit        the course of all, and the rate that a model has for it
//! ```
//! Courses of all kinds together and of all keyspaces together have the name [`ALL`], and come
//! first. Of many keyspaces the busiest have courses of their own; all count in the sums.

use crate::families::ALL;
use crate::from_analysis::MakeError;
use crate::from_analysis::rate::{self, Beside};
use crate::from_analysis::table::Table;
use crate::periods;
use evendb_report::{Chart, Document, Figure, Mark, Unit};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// This number of keyspaces, those with the most operations, have courses of their own.
const KEYSPACES_MAX: usize = 24;
const DAY_SECONDS: f64 = 86_400.0;
/// A shorter trace says too little of a day.
const PROFILE_SECONDS_MIN: f64 = DAY_SECONDS / 4.0;
/// An analysis has far fewer stretches.
const STRETCHES_MAX: usize = 100_000;
/// A part of the day is the first of these that is not shorter than a stretch; the last one, if
/// stretches are longer.
const PARTS_SECONDS: [f64; 4] = [300.0, 900.0, 1800.0, 3600.0];

/// The operations a second of a kind in a keyspace, in stretches of equal length.
struct Course {
    keyspace: String,
    kind: String,
    rates: Vec<f64>,
}

/// All courses, and the seconds of a stretch.
struct Courses {
    all: Vec<Course>,
    step: f64,
}

/// Puts the figures over time behind those of rates. `began` is when the trace began, in seconds
/// since 1970, if that is known.
///
/// # Errors
/// `Missing` if a figure lacks a column.
pub fn add_to(document: &mut Document, began: Option<f64>) -> Result<(), MakeError> {
    let Some(courses) = courses(document)? else {
        return Ok(());
    };
    let mut found = vec![
        kind_rates(&courses),
        daily_profile(&courses, began),
        periods(&courses),
    ];
    found.extend(rate::of_all(document)?.map(|beside| rate_fit(&beside)));
    found.retain(|figure| !figure.rows.is_empty());
    let is_of_rates = |one: &Figure| ["rates", "keyspace-rates"].contains(&&*one.id);
    let last = document.figures.iter().rposition(is_of_rates);
    if let Some(at) = last {
        document.figures.splice(at + 1..at + 1, found);
    }
    Ok(())
}

/// The courses of the figure of rates and their sums. `None` if there is no course of time.
fn courses(document: &Document) -> Result<Option<Courses>, MakeError> {
    let table = Table::of(document, "rates");
    let times = table.numbers("time")?;
    let mut steps: Vec<f64> = times.iter().copied().filter(|time| *time > 0.0).collect();
    steps.sort_by(f64::total_cmp);
    let Some(&step) = steps.first() else {
        return Ok(None);
    };
    let stretch = |time: f64| (time / step).round() as usize;
    let stretches = stretch(steps[steps.len() - 1]).saturating_add(1);
    if stretches > STRETCHES_MAX {
        return Ok(None);
    }
    let mut by_name: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    let (keyspaces, kinds) = (table.texts_lent("keyspace")?, table.texts_lent("kind")?);
    let names = keyspaces.into_iter().zip(kinds);
    let rows = names.zip(times).zip(table.numbers("per_second")?);
    for ((name, time), rate) in rows {
        for name in [name, (name.0, ALL), (ALL, name.1), (ALL, ALL)] {
            let course = by_name.entry(name);
            course.or_insert_with(|| vec![0.0; stretches])[stretch(time)] += rate;
        }
    }
    Ok(Some(Courses {
        all: chosen(by_name),
        step,
    }))
}

/// The courses that are told: sums first, without those that would say the same as another.
fn chosen(by_name: BTreeMap<(&str, &str), Vec<f64>>) -> Vec<Course> {
    let sum = |keyspace: &str| by_name[&(keyspace, ALL)].iter().sum::<f64>();
    let mut keyspaces: Vec<(&str, f64)> = by_name
        .keys()
        .filter(|(name, kind)| *kind == ALL && *name != ALL)
        .map(|(name, _)| (*name, sum(name)))
        .collect();
    keyspaces.sort_by(|a, b| b.1.total_cmp(&a.1));
    keyspaces.truncate(KEYSPACES_MAX);
    let mut names: Vec<&str> = vec![ALL];
    names.extend(keyspaces.iter().map(|(name, _)| *name));
    if names.len() == 2 {
        names.remove(0);
    }
    let mut all = Vec::new();
    for name in names {
        let own: Vec<_> = by_name.iter().filter(|(of, _)| of.0 == name).collect();
        // The sum of one kind alone is that kind.
        let (sums, kinds): (Vec<_>, Vec<_>) = own.into_iter().partition(|(of, _)| of.1 == ALL);
        let sums = sums.into_iter().filter(|_| kinds.len() > 1);
        all.extend(sums.chain(kinds.iter().copied()).map(|(of, rates)| Course {
            keyspace: of.0.to_owned(),
            kind: of.1.to_owned(),
            rates: rates.clone(),
        }));
    }
    all
}

fn kind_rates(courses: &Courses) -> Figure {
    let mut figure = Figure::new(
        "kind-rates",
        "Operations per second by kind",
        "How many operations of a kind came per second in all keyspaces together, in stretches of equal length; the time is where a stretch begins.",
        "4.3, figure 7a",
        &[
            ("kind", Unit::Text),
            ("time", Unit::Seconds),
            ("per_second", Unit::PerSecond),
        ],
    );
    for course in courses.all.iter().filter(|one| one.keyspace == ALL) {
        let times = (0..).map(|at| f64::from(at) * courses.step);
        let rows = times.zip(&course.rates);
        figure
            .rows
            .extend(rows.map(|(time, rate)| vec![json!(course.kind), json!(time), json!(rate)]));
    }
    let lines = Chart::new(Mark::Line, "time", "per_second").with_series("kind");
    figure.charts.push(lines);
    figure
}

/// The seconds of each stretch in each part of the day: stretch, part, seconds.
fn overlaps(stretches: usize, step: f64, began: f64, part: f64) -> Vec<(usize, usize, f64)> {
    let parts = (DAY_SECONDS / part).round() as usize;
    let mut found = Vec::new();
    for stretch in 0..stretches {
        let (mut at, end) = (
            began + stretch as f64 * step,
            began + (stretch + 1) as f64 * step,
        );
        // Whole parts are counted, so that a part that ends by rounding is left behind.
        let mut number = (at / part).floor();
        while at < end {
            let until = ((number + 1.0) * part).min(end);
            if until > at {
                found.push((stretch, number as usize % parts, until - at));
            }
            (at, number) = (until.max(at), number + 1.0);
        }
    }
    found
}

fn daily_profile(courses: &Courses, began: Option<f64>) -> Figure {
    let hours = match began {
        Some(_) => "Hours are of the day in UTC.",
        None => "The trace does not say when it began: hours are counted from its beginning.",
    };
    let about = format!(
        "How many operations of a kind came per second at each time of the day, on average over all days of the trace, and how many days of that time the \
         trace has. {hours} A wave comes from people who sleep; a flat line from machines. With less than two days there is one of each hour, and what is \
         seen may be a single event."
    );
    let mut figure = Figure::new(
        "daily-profile",
        "Operations per second over the day",
        &about,
        "4.3, figure 7",
        &[
            ("keyspace", Unit::Text),
            ("kind", Unit::Text),
            ("hour", Unit::Number),
            ("per_second", Unit::PerSecond),
            ("days", Unit::Number),
        ],
    );
    let stretches = courses.all.first().map_or(0, |one| one.rates.len());
    if stretches as f64 * courses.step < PROFILE_SECONDS_MIN {
        return figure;
    }
    let fits = |part: &f64| *part >= courses.step;
    let part = PARTS_SECONDS.into_iter().find(fits);
    let part = part.unwrap_or(PARTS_SECONDS[PARTS_SECONDS.len() - 1]);
    let began = began.unwrap_or_default().rem_euclid(DAY_SECONDS);
    let overlaps = overlaps(stretches, courses.step, began, part);
    for course in &courses.all {
        let mut by_part: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for (stretch, part, seconds) in &overlaps {
            let (operations, all) = by_part.entry(*part).or_default();
            *operations += course.rates[*stretch] * seconds;
            *all += seconds;
        }
        let rows = by_part.into_iter().map(|(at, (operations, seconds))| {
            let hour = at as f64 * part / 3600.0;
            let (rate, days) = (operations / seconds, seconds / part);
            row(course, &[json!(hour), json!(rate), json!(days)])
        });
        figure.rows.extend(rows);
    }
    let lines = Chart::new(Mark::Line, "hour", "per_second")
        .with_series("kind")
        .with_panel("keyspace");
    figure.charts.push(lines);
    figure
}

fn row(course: &Course, cells: &[Value]) -> Vec<Value> {
    let mut row = vec![json!(course.keyspace), json!(course.kind)];
    row.extend_from_slice(cells);
    row
}

fn periods(courses: &Courses) -> Figure {
    let mut figure = Figure::new(
        "periods",
        "After which time the load comes again",
        "The period of the operations a second of a kind, by the correlation of stretches with those a period later, without what is slower than the \
         period; its strength, which is 1 if each period is as the one before; and how many periods the trace has. A period is told if the trace has three \
         of it or more, and chance does not make it; else its cells are empty. A day comes from people, an hour from jobs.",
        "4.3, daily variation",
        &[
            ("keyspace", Unit::Text),
            ("kind", Unit::Text),
            ("period_seconds", Unit::Seconds),
            ("strength", Unit::Number),
            ("cycles", Unit::Number),
        ],
    );
    let shortest = periods::CYCLES_MIN * periods::LAG_MIN;
    let told = |one: &&Course| one.rates.len() >= shortest;
    for course in courses.all.iter().filter(told) {
        let found = periods::find(&course.rates);
        let cells = found.map(|found| {
            let seconds = found.stretches * courses.step;
            [seconds, found.strength, found.cycles]
        });
        let cells = cells.map_or([Value::Null, Value::Null, Value::Null], |cells| {
            cells.map(Value::from)
        });
        figure.rows.push(row(course, &cells));
    }
    figure
}

fn rate_fit(beside: &Beside) -> Figure {
    let about = format!(
        "The operations a second of all kinds that a model has, and the rate that a model of this trace has for them. {}",
        beside.notes.join(" ")
    );
    let mut figure = Figure::new(
        "rate-fit",
        "Operations per second and the rate of a model",
        &about,
        "7.2, sine; 7.3, figure 15",
        &[
            ("what", Unit::Text),
            ("time", Unit::Seconds),
            ("per_second", Unit::PerSecond),
        ],
    );
    let measured = beside.measured.iter();
    let measured = measured.map(|(time, rate)| vec![json!("measured"), json!(time), json!(rate)]);
    let fitted = beside.measured.iter().map(|(time, _)| {
        let rate = beside.rate.at(*time);
        vec![json!("model"), json!(time), json!(rate)]
    });
    figure.rows = measured.chain(fitted).collect();
    let lines = Chart::new(Mark::Line, "time", "per_second").with_series("what");
    figure.charts.push(lines);
    figure
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::TAU;

    /// A course of rates: keyspace, kind, and the rate of each stretch.
    type Planted<'a> = (&'a str, &'a str, &'a dyn Fn(usize) -> f64);

    /// The figures of an analysis with these rates, in stretches of `step` seconds.
    fn analysis(planted: &[Planted<'_>], stretches: usize, step: f64) -> Document {
        let columns = [
            ("keyspace", Unit::Text),
            ("kind", Unit::Text),
            ("time", Unit::Seconds),
            ("per_second", Unit::PerSecond),
        ];
        let mut figure = Figure::new("rates", "", "", "", &columns);
        for (keyspace, kind, rate) in planted {
            let row = |at: usize| {
                vec![
                    json!(keyspace),
                    json!(kind),
                    json!(at as f64 * step),
                    json!(rate(at)),
                ]
            };
            figure.rows.extend((0..stretches).map(row));
        }
        let mut document = Document::new("load");
        document.figures = vec![figure];
        document
    }

    fn with_figures(
        planted: &[Planted<'_>],
        stretches: usize,
        step: f64,
        began: Option<f64>,
    ) -> Document {
        let mut document = analysis(planted, stretches, step);
        add_to(&mut document, began).unwrap();
        document
    }

    fn rows<'d>(document: &'d Document, id: &str) -> &'d [Vec<Value>] {
        document.figure(id).map_or(&[], |figure| &figure.rows)
    }

    /// The numbers of a course in a figure, in the columns behind its names.
    fn of<'d>(document: &'d Document, id: &str, keyspace: &str, kind: &str) -> Vec<&'d [Value]> {
        let own = rows(document, id).iter();
        let own = own.filter(|row| row[0] == keyspace && row[1] == kind);
        own.map(|row| &row[2..]).collect()
    }

    /// A number from 0 to 1 that looks drawn at random.
    fn chance(of: usize) -> f64 {
        let mut mixed = (of as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    #[test]
    fn a_swing_of_six_hours_is_told_of_its_kind_alone_and_is_in_the_model() {
        // A day in stretches of five minutes.
        let swing = |at: usize| {
            let swing = (TAU * at as f64 / 72.0).sin();
            400.0 + 100.0 * swing + 20.0 * chance(at)
        };
        let noise = |at: usize| 50.0 + 13.0 * chance(at + 1000);
        let document = with_figures(
            &[("app", "get", &swing), ("app", "put", &noise)],
            289,
            300.0,
            None,
        );
        let seconds = |kind: &str| of(&document, "periods", "app", kind)[0][0].as_f64();
        for kind in ["get", ALL] {
            let found = seconds(kind).unwrap();
            assert!((found - 21_600.0).abs() < 300.0, "{kind}: {found}");
        }
        assert_eq!(seconds("put"), None);
        let fit = document.figure("rate-fit").unwrap();
        assert!(
            fit.about.contains("a sine of the period of 21"),
            "{}",
            fit.about
        );
        let half = fit.rows.len() / 2;
        let off = (0..half).map(|at| {
            let rate = |row: usize| fit.rows[row][2].as_f64().unwrap();
            assert_eq!(fit.rows[at][1], fit.rows[at + half][1]);
            (rate(at) - rate(at + half)).abs()
        });
        assert!(off.fold(0.0, f64::max) < 25.0);
    }

    #[test]
    fn the_profile_of_a_day_is_the_mean_of_its_days() {
        // Three days by stretches of 40 minutes, from 22:50 on, so that none begins with an hour.
        let rate = |at: usize| at as f64;
        let began = 1_700_000_000.0_f64;
        let began = began - began.rem_euclid(86_400.0) + 22.0 * 3600.0 + 50.0 * 60.0;
        let document = with_figures(&[("app", "get", &rate)], 108, 2400.0, Some(began));
        // By the minute: the operations of each hour of the day, and its minutes.
        let mut right = [(0.0, 0.0); 24];
        for minute in 0..108 * 40 {
            let hour = (22 * 60 + 50 + minute) / 60 % 24;
            right[hour].0 += (minute / 40) as f64;
            right[hour].1 += 1.0;
        }
        let found = of(&document, "daily-profile", "app", "get");
        assert_eq!(found.len(), 24);
        for (hour, (cells, (sum, minutes))) in found.iter().zip(right).enumerate() {
            let cells: Vec<f64> = cells.iter().map(|cell| cell.as_f64().unwrap()).collect();
            assert_eq!(cells[0], hour as f64);
            assert!((cells[1] - sum / minutes).abs() < 1e-6, "{hour}: {cells:?}");
            assert!(
                (cells[2] - 3.0).abs() < 1e-6 && minutes == 180.0,
                "{cells:?}"
            );
        }
        let about = |document: &Document| document.figure("daily-profile").unwrap().about.clone();
        assert!(about(&document).contains("UTC"));
        // Without a wall clock the first stretch is at hour 0; a day of it is told by 5 minutes.
        let document = with_figures(&[("app", "get", &rate)], 72, 300.0, None);
        let found = of(&document, "daily-profile", "app", "get");
        assert_eq!(found.len(), 72);
        for (at, cells) in found.iter().enumerate() {
            let right = [json!(at as f64 / 12.0), json!(at as f64), json!(1.0)];
            let near =
                |a: &Value, b: &Value| (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-9;
            assert!(
                cells.iter().zip(&right).all(|(a, b)| near(a, b)),
                "{cells:?}"
            );
        }
        assert!(about(&document).contains("does not say when it began"));
        // A quarter of a day is the least.
        let short = with_figures(&[("app", "get", &rate)], 71, 300.0, None);
        assert!(rows(&short, "daily-profile").is_empty());
    }

    #[test]
    fn kinds_of_several_keyspaces_have_their_sums() {
        let (one, two, three) = (
            |at: usize| at as f64,
            |_: usize| 10.0,
            |at: usize| 100.0 * at as f64,
        );
        let planted: [Planted<'_>; 3] =
            [("a", "get", &one), ("b", "get", &two), ("b", "put", &three)];
        let document = with_figures(&planted, 15, 2.0, None);
        let right = |kind: &str, at: usize| match kind {
            "get" => at as f64 + 10.0,
            "put" => 100.0 * at as f64,
            _ => 101.0 * at as f64 + 10.0,
        };
        let found = rows(&document, "kind-rates");
        assert_eq!(found.len(), 45);
        for (number, row) in found.iter().enumerate() {
            let (kind, at) = ([ALL, "get", "put"][number / 15], number % 15);
            assert_eq!(
                *row,
                [json!(kind), json!(at as f64 * 2.0), json!(right(kind, at))]
            );
        }
        // Sums come first, and none is told twice.
        let names = rows(&document, "periods").iter();
        let names: Vec<_> = names
            .map(|row| (row[0].as_str().unwrap(), row[1].as_str().unwrap()))
            .collect();
        let right = [
            (ALL, ALL),
            (ALL, "get"),
            (ALL, "put"),
            ("b", ALL),
            ("b", "get"),
            ("b", "put"),
            ("a", "get"),
        ];
        assert_eq!(names, right);
        let ids: Vec<&str> = document.figures.iter().map(|one| &*one.id).collect();
        assert_eq!(ids, ["rates", "kind-rates", "periods", "rate-fit"]);
        // One keyspace needs no sums over keyspaces.
        let document = with_figures(&planted[..1], 15, 2.0, None);
        assert!(document.figure("kind-rates").is_none());
        assert_eq!(rows(&document, "periods").len(), 1);
    }

    #[test]
    fn a_trace_without_a_course_has_no_figures_over_time() {
        let rate = |_: usize| 1.0;
        for document in [
            with_figures(&[("app", "get", &rate)], 1, 1.0, None),
            with_figures(&[], 0, 1.0, None),
        ] {
            assert_eq!(document.figures.len(), 1);
        }
        let mut bare = Document::new("nothing");
        add_to(&mut bare, None).unwrap();
        assert!(bare.figures.is_empty());
    }
}

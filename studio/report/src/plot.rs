//! A chart of a figure as drawings: the rows of each panel and series, axes, lines, points and
//! bars, legend.
//!
//! Invariant: for any cells, a chart gives drawings or a sentence that says why there is none.

use serde_json::Value;

use crate::axis::{Axis, Ends};
use crate::svg::{self, Anchor, LETTER, Pen, Svg, WIDE, WIDTH};
use crate::{Border, Chart, Figure, Mark, Unit};
use crate::{bars, heat, words};

const PANELS_MAX: usize = 12;
const SERIES_MAX: usize = 12;
/// The highest number of points of a series in a plot of points.
const POINTS_MAX: usize = 1500;
/// A line with at most this number of values has a mark at each.
const MARKED_MAX: usize = 24;
const HEIGHT: f64 = 250.0;
const TOP: f64 = 24.0;

/// A column, as a chart uses it.
#[derive(Clone, Copy)]
pub(crate) struct Dimension<'a> {
    pub(crate) at: usize,
    pub(crate) unit: Unit,
    pub(crate) name: &'a str,
}

/// Both numbers of a row. The second is none if the cell is no number.
pub(crate) type Point = (f64, Option<f64>);

/// Where a point lies in the drawing.
type Place = (f64, f64);

/// One line, or one colour of bars or points.
pub(crate) struct Series<'a> {
    pub(crate) name: String,
    pub(crate) look: usize,
    pub(crate) rows: Vec<&'a [Value]>,
}

/// The rows behind a chart.
pub(crate) struct Source<'a> {
    pub(crate) chart: &'a Chart,
    pub(crate) x: Dimension<'a>,
    pub(crate) y: Dimension<'a>,
    pub(crate) heat: Option<Dimension<'a>>,
    /// The width of a drawing.
    pub(crate) width: f64,
    /// The panel that is drawn.
    pub(crate) panel: Option<String>,
}

impl Source<'_> {
    /// The borders of the panel, each with its place along the axis. One outside of the axis is
    /// left out.
    pub(crate) fn borders(&self, axis: &Axis) -> Vec<(f64, String)> {
        let here = |border: &&Border| self.panel.as_ref().is_none_or(|name| border.panel == *name);
        let place =
            |border: &Border| Some((axis.within(border.at)?, words::shown(&border.name, 60)));
        let borders = self.chart.borders.iter().filter(here);
        borders.filter_map(place).collect()
    }
}

/// Sentences below the drawings.
#[derive(Default)]
pub(crate) struct Notes(Vec<String>);

impl Notes {
    /// A sentence in HTML. It appears once.
    pub(crate) fn add(&mut self, note: String) {
        if !self.0.contains(&note) {
            self.0.push(note);
        }
    }

    /// The note that only the first of something are drawn, if there are more.
    pub(crate) fn left_out(&mut self, shown: usize, all: usize, what: &str) {
        if all > shown {
            self.add(format!("The first {shown} of {all} {what} are drawn."));
        }
    }
}

/// The look of each name on the whole page, so that a kind of call has the same colour everywhere.
#[derive(Default)]
pub(crate) struct Looks(Vec<(String, Vec<String>)>);

impl Looks {
    /// Looks for the values of a column: the page's while the column has few values, otherwise its
    /// own.
    fn of(&mut self, column: &str, names: &[String]) -> Vec<usize> {
        let at = self.0.iter().position(|(name, _)| name == column);
        let at = at.unwrap_or_else(|| {
            self.0.push((column.to_owned(), Vec::new()));
            self.0.len() - 1
        });
        let known = &mut self.0[at].1;
        for name in names {
            if known.len() < SERIES_MAX && !known.contains(name) {
                known.push(name.clone());
            }
        }
        let looks: Option<Vec<usize>> = names
            .iter()
            .map(|name| known.iter().position(|known| known == name))
            .collect();
        looks.unwrap_or_else(|| (0..names.len()).map(|look| look % svg::LOOKS).collect())
    }
}

/// The drawings of a chart as HTML, with title, legend and notes.
pub(crate) fn chart(figure: &Figure, chart: &Chart, looks: &mut Looks) -> String {
    let mut out = String::from("<div class=chart>");
    if !chart.title.is_empty() {
        out += &format!("<h3>{}</h3>", words::shown(&chart.title, 200));
    }
    match drawings(figure, chart, looks) {
        Ok(drawings) => out += &drawings,
        Err(why) => out += &format!("<p class=note>No plot: {why}.</p>"),
    }
    out + "</div>"
}

fn dimension<'a>(figure: &'a Figure, name: &str) -> Result<Dimension<'a>, String> {
    let missing = || format!("the figure has no column {}", words::shown(name, 60));
    let at = figure.column(name).ok_or_else(missing)?;
    let column = &figure.columns[at];
    Ok(Dimension {
        at,
        unit: column.unit,
        name: &column.name,
    })
}

fn optional<'a>(figure: &'a Figure, name: Option<&str>) -> Result<Option<Dimension<'a>>, String> {
    name.map(|name| dimension(figure, name)).transpose()
}

fn drawings(figure: &Figure, chart: &Chart, looks: &mut Looks) -> Result<String, String> {
    let mut source = Source {
        width: WIDTH,
        chart,
        x: dimension(figure, &chart.x)?,
        y: dimension(figure, &chart.y)?,
        heat: optional(figure, chart.heat.as_deref())?,
        panel: None,
    };
    if chart.mark == Mark::Heat && source.heat.is_none() {
        return Err("it does not say what colours stand for".into());
    }
    let series = optional(figure, chart.series.as_deref())?;
    let panel = optional(figure, chart.panel.as_deref())?;
    // The colours of a heat map stand for its numbers. Colours of names are for charts that have
    // names.
    let series = series.filter(|_| chart.mark != Mark::Heat);
    // A row of another length is refused when documents are read, but not when they are made.
    let rows = figure.rows.iter().map(Vec::as_slice);
    let rows: Vec<&[Value]> = rows
        .filter(|row| row.len() == figure.columns.len())
        .collect();
    if rows.is_empty() {
        return Err("there are no rows".into());
    }
    let mut notes = Notes::default();
    let panels = split(&rows, panel);
    notes.left_out(PANELS_MAX, panels.len(), "panels");
    let named = Named::of(&rows, series, looks, &mut notes);
    let several = panels.len() > 1;
    source.width = if several { WIDTH } else { WIDE };
    let mut plots = String::new();
    for (name, rows) in panels.iter().take(PANELS_MAX) {
        let title = words::shown(&format!("{} {}", figure.title, name), 120);
        source.panel = panel.map(|_| name.clone());
        let drawn = panel_drawing(&source, &named.series(rows), &title, &mut notes);
        plots += "<figure>";
        if several {
            plots += &caption(panel, name);
        }
        plots += &drawn.unwrap_or_else(|why| format!("<p class=note>{why}</p>"));
        plots += "</figure>";
    }
    let mut out = legend(chart.mark, &named.names, &named.looks);
    let class = if several { "plots" } else { "plots wide" };
    out += &format!("<div class=\"{class}\">{plots}</div>");
    for note in notes.0 {
        out += &format!("<p class=note>{note}</p>");
    }
    Ok(out)
}

/// The names of the series of a chart, the same in each panel.
struct Named<'a> {
    by: Option<Dimension<'a>>,
    names: Vec<String>,
    /// The look of each name.
    looks: Vec<usize>,
}

impl<'a> Named<'a> {
    fn of(
        rows: &[&[Value]],
        by: Option<Dimension<'a>>,
        looks: &mut Looks,
        notes: &mut Notes,
    ) -> Named<'a> {
        let mut used = split(rows, by);
        notes.left_out(SERIES_MAX, used.len(), "series");
        used.truncate(SERIES_MAX);
        let names: Vec<String> = used.into_iter().map(|(name, _)| name).collect();
        let looks = match by {
            Some(by) => looks.of(by.name, &names),
            None => vec![0],
        };
        Named { by, names, looks }
    }

    /// The series of a panel.
    fn series<'r>(&self, rows: &[&'r [Value]]) -> Vec<Series<'r>> {
        let parts = split(rows, self.by).into_iter();
        let series = parts.filter_map(|(name, rows)| {
            let at = self.names.iter().position(|known| *known == name)?;
            let look = self.looks[at];
            Some(Series { name, look, rows })
        });
        series.collect()
    }
}

/// The name of a panel.
fn caption(panel: Option<Dimension<'_>>, name: &str) -> String {
    format!(
        "<figcaption>{} <bdi>{}</bdi></figcaption>",
        panel.map_or_else(String::new, |panel| words::shown(
            &words::label(panel.name),
            40
        )),
        words::shown(name, 60)
    )
}

/// Rows by the values of a column, in the order of the values.
fn split<'a>(rows: &[&'a [Value]], by: Option<Dimension<'_>>) -> Vec<(String, Vec<&'a [Value]>)> {
    let Some(by) = by else {
        return vec![(String::new(), rows.to_vec())];
    };
    let mut parts: Vec<(String, Vec<&[Value]>)> = Vec::new();
    for row in rows {
        let name = words::name(&row[by.at]);
        match parts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, rows)) => rows.push(row),
            None => parts.push((name, vec![row])),
        }
    }
    parts
}

fn panel_drawing(
    source: &Source<'_>,
    series: &[Series<'_>],
    name: &str,
    notes: &mut Notes,
) -> Result<String, String> {
    match source.chart.mark {
        Mark::Heat => heat::draw(source, series, name, notes),
        Mark::Bar if source.x.unit == Unit::Text => bars::lying(source, series, name, notes),
        Mark::Bar => bars::standing(source, series, name, notes),
        Mark::Line | Mark::Step | Mark::Point => curves(source, series, name, notes),
    }
}

/// The meaning of the colours and dashes.
fn legend(mark: Mark, names: &[String], looks: &[usize]) -> String {
    if names.len() < 2 {
        return String::new();
    }
    let mut out = String::from("<ul class=legend>");
    for (name, &look) in names.iter().zip(looks) {
        let mut pen = Pen::new();
        let classes = svg::classes(look);
        let sample = match mark {
            Mark::Bar | Mark::Heat => {
                format!("<path class=\"b {classes}\" d=\"M3 1h18v10h-18z\"/>")
            }
            Mark::Line | Mark::Step => format!("<path class=\"l {classes}\" d=\"M0 6h28\"/>"),
            Mark::Point => String::new(),
        };
        if !matches!(mark, Mark::Bar | Mark::Heat) {
            pen.marker(look, (14.0, 6.0));
        }
        out += &format!(
            "<li><svg width=28 height=12 aria-hidden=true>{sample}<path class=\"k {classes}\" d=\"{}\"/></svg><bdi>{}</bdi>",
            pen.data(),
            words::shown(name, 40)
        );
    }
    out + "</ul>"
}

/// Places of both axes, and the drawing with them in it.
pub(crate) struct Frame {
    pub(crate) svg: Svg,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// The place of the horizontal axis.
    pub(crate) ground: f64,
}

impl Frame {
    /// A frame around these values, with grid, ticks and names of the axes.
    pub(crate) fn around(
        source: &Source<'_>,
        xs: impl Iterator<Item = f64>,
        ys: impl Iterator<Item = f64>,
    ) -> Result<Frame, String> {
        let chart = source.chart;
        let x = Axis::new(xs, source.x.unit, chart.x_log, Ends::Tight);
        let y = Axis::new(ys, source.y.unit, chart.y_log, Ends::Round);
        let (Some(x), Some(y)) = (x, y) else {
            return Err("No row has a number for both axes.".into());
        };
        let ground = HEIGHT - 42.0;
        let y = y.between(ground, TOP);
        let rows = y.ticks(5);
        let longest = rows
            .iter()
            .map(|(_, label)| letters(label))
            .max()
            .unwrap_or(1);
        let left = (longest as f64 * LETTER + 10.0).clamp(30.0, 120.0);
        let right = source.width - 16.0;
        let x = x.between(left, right);
        let mut svg = Svg::new(source.width);
        for (at, label) in &rows {
            svg.line((left, *at), (right, *at), "g");
            svg.text(left - 6.0, at + 4.0, Anchor::End, label);
        }
        let (x_label, y_label) = (words::label(source.x.name), words::label(source.y.name));
        svg.text(0.0, 12.0, Anchor::Start, &words::shown(&y_label, 44));
        svg.text(
            right,
            HEIGHT - 4.0,
            Anchor::End,
            &words::shown(&x_label, 44),
        );
        columns(&mut svg, &x, ground, (left, right));
        Ok(Frame { svg, x, y, ground })
    }

    /// The drawing, with the horizontal axis on top.
    pub(crate) fn finish(mut self, name: &str) -> String {
        let (left, right) = (self.x.ends().0, self.x.ends().1);
        self.svg
            .line((left, self.ground), (right, self.ground), "a");
        self.svg.finish(HEIGHT, name)
    }
}

/// Ticks and labels of a horizontal axis, without labels that touch one another.
pub(crate) fn columns(svg: &mut Svg, axis: &Axis, ground: f64, (left, right): (f64, f64)) {
    let ticks = axis.ticks(5);
    let mut free = f64::NEG_INFINITY;
    for (at, label) in &ticks {
        let half = letters(label) as f64 * LETTER / 2.0;
        let middle = at.clamp(
            (left - 20.0) + half.min(20.0),
            (right + 12.0 - half).max(left),
        );
        svg.line((*at, ground), (*at, ground + 4.0), "a");
        if middle - half < free {
            continue;
        }
        free = middle + half + 6.0;
        svg.text(middle, ground + 18.0, Anchor::Middle, label);
    }
}

/// Letters of a label. An entity counts as one.
pub(crate) fn letters(label: &str) -> usize {
    let mut inside = false;
    let seen = label.chars().filter(|&c| {
        let counts = !inside;
        match c {
            '&' => inside = true,
            ';' => inside = false,
            _ => {}
        }
        counts
    });
    seen.count()
}

/// Both numbers of a row. The second is none if the cell is no number.
pub(crate) fn point(source: &Source<'_>, row: &[Value]) -> Option<Point> {
    let x = words::number(&row[source.x.at])?;
    Some((x, words::number(&row[source.y.at])))
}

fn curves(
    source: &Source<'_>,
    series: &[Series<'_>],
    name: &str,
    notes: &mut Notes,
) -> Result<String, String> {
    let chart = source.chart;
    let mut lines: Vec<(usize, Vec<Point>)> = Vec::new();
    for part in series {
        let points = part.rows.iter().filter_map(|row| point(source, row));
        let mut points: Vec<_> = points.collect();
        if chart.mark != Mark::Point {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        lines.push((part.look, points));
    }
    let points = lines.iter().flat_map(|(_, points)| points);
    let numbers: Vec<(f64, f64)> = points.filter_map(|&(x, y)| Some((x, y?))).collect();
    note_lost(chart, &numbers, notes);
    let (xs, ys) = (numbers.iter().map(|at| at.0), numbers.iter().map(|at| at.1));
    let mut frame = Frame::around(source, xs, ys)?;
    for (at, name) in source.borders(&frame.x) {
        frame.svg.border((at, TOP), frame.ground, &name);
    }
    for (look, points) in &lines {
        let placed = places(&frame, points);
        match chart.mark {
            Mark::Point => draw_markers(&mut frame.svg, *look, &placed, notes),
            _ => draw_line(&mut frame.svg, *look, &placed, chart.mark == Mark::Step),
        }
    }
    Ok(frame.finish(name))
}

/// Notes how many points a logarithmic axis has no place for.
fn note_lost(chart: &Chart, points: &[(f64, f64)], notes: &mut Notes) {
    let below = |value: f64, log: bool| log && value <= 0.0;
    let is_lost = |&&(x, y): &&(f64, f64)| below(x, chart.x_log) || below(y, chart.y_log);
    let lost = points.iter().filter(is_lost).count();
    if lost > 0 {
        notes.add(format!(
            "{lost} values of zero or below have no place on a logarithmic axis."
        ));
    }
}

/// Draws a marker at each place, or at some of them if there are too many.
fn draw_markers(svg: &mut Svg, look: usize, placed: &[Option<Place>], notes: &mut Notes) {
    let drawn = placed.iter().flatten().count();
    let every = drawn.div_ceil(POINTS_MAX).max(1);
    if every > 1 {
        notes.add(format!("One point in {every} is drawn."));
    }
    let class = if drawn > 150 { "k t" } else { "k" };
    let data = markers(look, placed.iter().flatten().step_by(every));
    svg.path(&format!("{class} {}", svg::classes(look)), &data);
}

/// Draws a line through places, with markers if they are few.
fn draw_line(svg: &mut Svg, look: usize, placed: &[Option<Place>], step: bool) {
    let classes = svg::classes(look);
    svg.path(&format!("l {classes}"), &joined(placed, step));
    if placed.iter().flatten().count() <= MARKED_MAX {
        let data = markers(look, placed.iter().flatten());
        svg.path(&format!("k {classes}"), &data);
    }
}

fn markers<'a>(look: usize, places: impl Iterator<Item = &'a Place>) -> String {
    let mut pen = Pen::new();
    places.for_each(|place| pen.marker(look, *place));
    pen.data()
}

/// The places of points in the drawing. None where a line is interrupted.
fn places(frame: &Frame, points: &[Point]) -> Vec<Option<Place>> {
    let place = |&(x, y): &Point| Some((frame.x.at(x)?, frame.y.at(y?)?));
    points.iter().map(place).collect()
}

/// A line through places. In each column of the screen the first, the least, the largest and the
/// last place are kept.
fn joined(places: &[Option<Place>], step: bool) -> String {
    let mut pen = Pen::new();
    for stretch in places.split(Option::is_none) {
        let mut before: Option<(f64, f64)> = None;
        let column = |place: &Option<(f64, f64)>| place.map_or(0, |(x, _)| (x * 2.0) as i64);
        for same in stretch.chunk_by(|a, b| column(a) == column(b)) {
            let same: Vec<(f64, f64)> = same.iter().flatten().copied().collect();
            let mut keep: Vec<usize> = vec![0, same.len() - 1];
            let by_height = |a: &usize, b: &usize| same[*a].1.total_cmp(&same[*b].1);
            keep.extend((0..same.len()).min_by(by_height));
            keep.extend((0..same.len()).max_by(by_height));
            keep.sort_unstable();
            keep.dedup();
            for place in keep.into_iter().map(|at| same[at]) {
                match before {
                    None => pen.start(place),
                    Some((_, y)) if step => {
                        pen.line_to((place.0, y));
                        pen.line_to(place);
                    }
                    Some(_) => pen.line_to(place),
                }
                before = Some(place);
            }
        }
    }
    pen.data()
}

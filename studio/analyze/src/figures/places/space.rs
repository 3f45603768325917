//! Accesses over the key space, and over the key space and time; where prefixes begin in it.

use super::super::Context;
use super::super::cells::{Row, Words, cells, number, quoted, whole};
use super::space_of_keys;
use crate::error::Result;
use crate::tables::{DONE, KEYLESS};
use evendb_report::{Border, Chart, Exactness, Figure, Mark, Unit};
use serde_json::Value;
use std::collections::BTreeMap;

/// The mean number of points of a kind in a keyspace in a time series. The page draws at most 1500.
const POINTS: u64 = 1400;
/// Bins of time in a heat map.
const TIMES: u64 = 120;
/// A keyspace with at most this number of prefixes has their borders in its plots.
const BORDERED_MAX: u64 = 100;

/// The first key of each part, for the key spaces in plots of many points.
const BORDERS: &str = "
    SELECT keyspace, min(id) AS id, min(key) AS key
    FROM (SELECT keys.keyspace, id, key, id * fine / keys AS part FROM places JOIN keys ON keys.keyspace = places.keyspace WHERE plotted)
    GROUP BY keyspace, part ORDER BY keyspace, id";

pub(in super::super) async fn find(context: &Context<'_>) -> Result<Vec<Figure>> {
    context.session.make_table("borders", BORDERS).await?;
    let prefixes = prefix_borders(context).await?;
    let mut figures = vec![
        key_space(context).await?,
        key_map(context).await?,
        heat_map(context).await?,
        time_series(context).await?,
    ];
    // Parts and ids are whole numbers: a border lies in the middle between two.
    let at = |column: &str| borders(&prefixes, column);
    figures[0].charts[0].borders = at("range");
    figures[3].charts[0].borders = at("first_id");
    figures.extend(Some(prefixes).filter(|figure| !figure.rows.is_empty()));
    Ok(figures)
}

/// Where prefixes begin among the keys, in keyspaces with few of them.
async fn prefix_borders(context: &Context<'_>) -> Result<Figure> {
    let sql = format!(
        "WITH cut AS (
            SELECT keys.keyspace, prefix(key, prefix_bytes) AS prefix, id, accesses, parts, keys AS all_keys
            FROM places JOIN keys ON keys.keyspace = places.keyspace WHERE plotted AND prefixes <= {BORDERED_MAX})
        SELECT keyspace, prefix, min(id) AS first_id, CAST(min(id) AS DOUBLE) * min(parts) / min(all_keys) AS range,
               max(id) - min(id) + {} AS keys, sum(accesses) AS accesses
        FROM cut GROUP BY keyspace, prefix ORDER BY keyspace, first_id",
        whole(1)
    );
    let rows = cells(&context.session.rows(&sql).await?)?;
    let words = Words {
        id: "prefix-borders",
        title: "Where prefixes begin among the sorted keys",
        about: "The first key of each prefix, its range in the plot of the sorted keys, how many keys begin with the prefix, and how often all kinds accessed \
                them; red lines in the plots of the key space are these borders. Prefixes are as long as was asked for, or else as short as they can be so \
                that there are at least 64 different ones. Where keys begin with the number of a table, and prefixes are as long, these are the tables. \
                Keyspaces with more than 100 prefixes are left out.",
        section: "6, figures 9 and 10, tables of MyRocks",
        columns: &[
            ("keyspace", Unit::Text),
            ("prefix", Unit::Text),
            ("first_id", Unit::Count),
            ("range", Unit::Number),
            ("keys", Unit::Count),
            ("accesses", Unit::Count),
        ],
    };
    Ok(words.figure(rows))
}

/// The borders of prefixes at the numbers of a column. The first prefix of a keyspace has none.
fn borders(prefixes: &Figure, column: &str) -> Vec<Border> {
    let Some(at) = prefixes.column(column) else {
        return Vec::new();
    };
    let text = |row: &Row, cell: usize| row[cell].as_str().unwrap_or_default().to_owned();
    let rows = prefixes.rows.iter().filter(|row| number(&row[2]) > 0.0);
    rows.map(|row| Border {
        panel: text(row, 0),
        at: number(&row[at]) - 0.5,
        name: text(row, 1),
    })
    .collect()
}

/// The SQL of `place_of` for an operation.
fn place(context: &Context<'_>) -> String {
    let borders = context.session.table_file("borders");
    let borders = quoted(&borders.to_string_lossy());
    format!("place_of(operations.keyspace, operations.key, {borders})")
}

async fn key_space(context: &Context<'_>) -> Result<Figure> {
    let sql = "
        SELECT keyspace, kind, part, count(*) AS keys, sum(accesses) AS accesses
        FROM (SELECT keys.keyspace, kind, accesses, id * parts / keys AS part
              FROM places JOIN keys ON keys.keyspace = places.keyspace WHERE plotted AND accesses > 0)
        GROUP BY keyspace, kind, part ORDER BY keyspace, kind, part";
    let rows = cells(&context.session.rows(sql).await?)?;
    let about = format!(
        "{} They lie in key order from left to right, in up to 500 parts of equally many keys; above each part, how often a kind of operation accessed \
         it, and in the table, how many of its keys. High points side by side are hot keys that lie together, which blocks and caches gain from. Points \
         scattered at one height say that accesses know no place. Of more than 12 keyspaces, those of most accesses are here.",
        space_of_keys(context)
    );
    let words = Words {
        id: "key-space",
        title: "Accesses over the sorted keys",
        about: &about,
        section: "6, figures 9, 11 and 12",
        columns: &[
            ("keyspace", Unit::Text),
            ("kind", Unit::Text),
            ("range", Unit::Count),
            ("keys", Unit::Count),
            ("accesses", Unit::Count),
        ],
    };
    let mut figure = words.figure(rows);
    let mut points = Chart::new(Mark::Point, "range", "accesses")
        .with_series("kind")
        .with_panel("keyspace");
    points.y_log = true;
    figure.charts.push(points);
    Ok(figure)
}

/// Each pair of the key space in one cell for each kind: by its place, and by how often the kind
/// accessed it.
async fn key_map(context: &Context<'_>) -> Result<Figure> {
    let sql = "
        SELECT keyspace, kind, bin, part, count(*) AS keys
        FROM (SELECT keys.keyspace, kind, id * heat / keys AS part, CAST(floor(log2(CAST(accesses AS DOUBLE))) AS BIGINT UNSIGNED) AS bin
              FROM places JOIN keys ON keys.keyspace = places.keyspace WHERE plotted AND accesses > 0)
        GROUP BY keyspace, kind, bin, part ORDER BY keyspace, kind, bin, part";
    let accessed = cells(&context.session.rows(sql).await?)?;
    let sql = "SELECT keyspace, keys, heat FROM places WHERE plotted";
    let spaces = cells(&context.session.rows(sql).await?)?;
    let mut rows = Vec::new();
    for of_kind in accessed.chunk_by(|a, b| a[..2] == b[..2]) {
        let space = spaces.iter().find(|space| space[0] == of_kind[0][0]);
        rows.extend(space.into_iter().flat_map(|space| never(of_kind, space)));
        rows.extend(of_kind.iter().map(|row| {
            let bin = row[2].as_u64().unwrap_or_default();
            cell_of_map(row, bin + 1, &row[3], &row[4])
        }));
    }
    let about = format!(
        "{} For each kind of operation, they lie in key order from left to right, in up to 200 parts of equally many keys, and from below to above by how often \
         the kind accessed them: never, once, twice or three times, and so on; the darker, the more keys. So each key is in one cell. A part whose keys are \
         high up is hot as a whole; one that is dark below and light above has a few hot keys among cold ones.",
        space_of_keys(context)
    );
    let words = Words {
        id: "key-map",
        title: "How often each of the sorted keys is accessed",
        about: &about,
        section: "6, figures 9, 11 and 12",
        columns: &[
            ("keyspace", Unit::Text),
            ("kind", Unit::Text),
            ("of", Unit::Text),
            ("range", Unit::Count),
            ("accesses", Unit::Text),
            ("least", Unit::Count),
            ("most", Unit::Count),
            ("keys", Unit::Count),
        ],
    };
    let mut figure = words.figure(rows);
    let mut heat = Chart::new(Mark::Heat, "range", "accesses").with_panel("of");
    heat.heat = Some("keys".to_owned());
    figure.charts.push(heat);
    Ok(figure)
}

/// The cells of the keys that a kind never accessed: those of each part that are in no other cell.
fn never(of_kind: &[Row], space: &Row) -> Vec<Row> {
    let whole = |cell: &Value| cell.as_u64().unwrap_or_default();
    let (keys, parts) = (whole(&space[1]), whole(&space[2]));
    let mut accessed: BTreeMap<u64, u64> = BTreeMap::new();
    for row in of_kind {
        *accessed.entry(whole(&row[3])).or_default() += whole(&row[4]);
    }
    // The first id of a part.
    let first = |part: u64| (part * keys).div_ceil(parts.max(1));
    let left = |part: u64| {
        let known = accessed.get(&part).copied().unwrap_or_default();
        (part, (first(part + 1) - first(part)).saturating_sub(known))
    };
    let left = (0..parts).map(left).filter(|(_, keys)| *keys > 0);
    left.map(|(part, keys)| cell_of_map(&of_kind[0], 0, &part.into(), &keys.into()))
        .collect()
}

/// A row of the map. Accesses of bin 0 are none, those of bin n are from 2^(n - 1) to below 2^n.
fn cell_of_map(row: &Row, bin: u64, part: &Value, keys: &Value) -> Row {
    let text = |cell: &Value| cell.as_str().unwrap_or_default().to_owned();
    let (least, most) = match bin.checked_sub(1) {
        None => (0, 0),
        Some(power) => (
            1_u64 << power.min(63),
            u64::MAX >> 63_u64.saturating_sub(power),
        ),
    };
    let accesses = match least == most {
        true => least.to_string(),
        false => format!("{least} to {most}"),
    };
    let of = format!("{}, {}", text(&row[0]), text(&row[1]));
    let mut cells = row[..2].to_vec();
    cells.extend([of.into(), part.clone(), accesses.into()]);
    cells.extend([least.into(), most.into(), keys.clone()]);
    cells
}

async fn heat_map(context: &Context<'_>) -> Result<Figure> {
    let place = place(context);
    let nanos = context.summary.duration_nanos / TIMES + 1;
    let sql = format!(
        "WITH placed AS (
            SELECT keyspace, start_nanos / {} AS bin, {place} AS id FROM operations WHERE kind NOT IN {KEYLESS} AND {DONE}),
        counted AS (
            SELECT placed.keyspace, bin, id * heat / keys AS part, count(*) AS accesses
            FROM places JOIN placed ON placed.keyspace = places.keyspace WHERE plotted AND id IS NOT NULL
            GROUP BY placed.keyspace, bin, id * heat / keys)
        SELECT keyspace, bin * CAST({nanos} AS DOUBLE) / 1e9 AS time, part, accesses FROM counted ORDER BY keyspace, bin, part",
        whole(nanos)
    );
    let rows = cells(&context.session.rows(&sql).await?)?;
    let about = format!(
        "{} Time goes from left to right, the keys in key order from below to above, in up to 200 parts of equally many keys; the darker, the more \
         accesses of all kinds. A dark band along time is a part that is always hot. One that rises says that new keys are added at \
         the end of what is hot. Dark columns are moments at which much of the key space was asked for.",
        space_of_keys(context)
    );
    let words = Words {
        id: "heat-map",
        title: "Accesses over time and the sorted keys",
        about: &about,
        section: "6, figures 9 to 13",
        columns: &[
            ("keyspace", Unit::Text),
            ("time", Unit::Seconds),
            ("range", Unit::Count),
            ("accesses", Unit::Count),
        ],
    };
    let mut figure = words.figure(rows);
    let mut heat = Chart::new(Mark::Heat, "time", "range").with_panel("keyspace");
    heat.heat = Some("accesses".to_owned());
    figure.charts.push(heat);
    Ok(figure)
}

async fn time_series(context: &Context<'_>) -> Result<Figure> {
    let place = place(context);
    let sql = format!(
        "WITH rates AS (
            SELECT keys.keyspace, kind, {POINTS} / CAST(sum(accesses) AS DOUBLE) AS rate
            FROM places JOIN keys ON keys.keyspace = places.keyspace WHERE plotted AND accesses > 0 GROUP BY keys.keyspace, kind)
        SELECT operations.keyspace, operations.kind, start_nanos / 1e9 AS time, {place} AS id
        FROM rates JOIN operations ON operations.keyspace = rates.keyspace AND operations.kind = rates.kind
        WHERE spread(number) < rate ORDER BY operations.keyspace, operations.kind, number"
    );
    let rows = cells(&context.session.rows(&sql).await?)?;
    let words = Words {
        id: "time-series",
        title: "Which keys are accessed when",
        about: "Each point is an operation: its key's place among the sorted keys from left to right, and its time from below to above. Points in a block or a \
                slanted line say that neighbours are accessed together, or one after the other. Places are exact up to 4000 keys in a keyspace; above \
                that they are the first key of one of 4000 parts.",
        section: "6, figures 10 and 13",
        columns: &[
            ("keyspace", Unit::Text),
            ("kind", Unit::Text),
            ("time", Unit::Seconds),
            ("key_id", Unit::Count),
        ],
    };
    let mut figure = words.figure(rows);
    figure.exactness = Exactness::Sketched(format!(
        "up to about {POINTS} operations of each kind and keyspace, drawn at random; all of them, where there are no more"
    ));
    let points = Chart::new(Mark::Point, "key_id", "time")
        .with_series("kind")
        .with_panel("keyspace");
    figure.charts.push(points);
    Ok(figure)
}

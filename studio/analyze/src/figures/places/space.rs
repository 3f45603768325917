//! Accesses over the key space, and over the key space and time.

use super::super::Context;
use super::super::cells::{Words, cells, quoted, whole};
use super::space_of_keys;
use crate::error::Result;
use crate::tables::{DONE, KEYLESS};
use evendb_report::{Chart, Exactness, Figure, Mark, Unit};

/// The mean number of points of a kind in a keyspace in a time series. The page draws at most 1500.
const POINTS: u64 = 1400;
/// Bins of time in a heat map.
const TIMES: u64 = 120;

/// The first key of each part, for the key spaces in plots of many points.
const BORDERS: &str = "
    SELECT keyspace, min(id) AS id, min(key) AS key
    FROM (SELECT keys.keyspace, id, key, id * fine / keys AS part FROM places JOIN keys ON keys.keyspace = places.keyspace WHERE plotted)
    GROUP BY keyspace, part ORDER BY keyspace, id";

pub(in super::super) async fn find(context: &Context<'_>) -> Result<Vec<Figure>> {
    context.session.make_table("borders", BORDERS).await?;
    Ok(vec![
        key_space(context).await?,
        heat_map(context).await?,
        time_series(context).await?,
    ])
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

//! Accesses to ranges of the key space: in key order, and by rank.

use super::super::Context;
use super::super::cells::{Words, cells, thin};
use super::space_of_keys;
use crate::error::Result;
use evendb_report::{Chart, Figure, Mark, Unit};

/// A row for each range and each kind that accessed it. A range in which the list of the store has
/// keys has a row of the kind `stored` too. `first_key` is that of the range, over all kinds.
const RANGES: &str = "
    WITH placed AS (
        SELECT keys.keyspace, kind, key, accesses, id * ranges / keys.keys AS part
        FROM (SELECT keys.keyspace, kind, key, accesses, id, places.keys, places.ranges
              FROM places JOIN keys ON keys.keyspace = places.keyspace) AS keys),
    counted AS (
        SELECT keyspace, kind, part, min(key) AS first_key, count(*) AS keys, sum(accesses) AS accesses
        FROM placed GROUP BY keyspace, kind, part)
    SELECT keyspace, kind, part, min(first_key) OVER (PARTITION BY keyspace, part) AS first_key, keys, accesses
    FROM counted ORDER BY keyspace, kind, part";

const ABOUT: &str = "In key order, they are cut into ranges of equally many keys, about as many as fill a sorted file of 64 MiB \
    (at least 30 ranges, at most 4096, or as many as were asked for). A row says how often a kind of operation accessed a range, and how \
    many different keys of it. Ranges that a kind did not access have no row; rows of the kind stored say how many keys of a range the list has. \
    High points side by side say that hot keys lie together.";

pub(in super::super) async fn find(context: &Context<'_>) -> Result<Vec<Figure>> {
    context.session.make_table("ranges", RANGES).await?;
    Ok(vec![in_order(context).await?, by_rank(context).await?])
}

async fn in_order(context: &Context<'_>) -> Result<Figure> {
    let sql = "SELECT keyspace, kind, part, first_key, keys, accesses FROM ranges ORDER BY keyspace, kind, part";
    let rows = cells(&context.session.rows(sql).await?)?;
    let about = format!("{} {ABOUT}", space_of_keys(context));
    let words = Words {
        id: "ranges",
        title: "Accesses of key ranges",
        about: &about,
        section: "6, figures 9 and 11; 7.2, key ranges",
        columns: &[
            ("keyspace", Unit::Text),
            ("kind", Unit::Text),
            ("range", Unit::Count),
            ("first_key", Unit::Text),
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

async fn by_rank(context: &Context<'_>) -> Result<Figure> {
    let sql = "
        SELECT keyspace, kind, row_number() OVER (PARTITION BY keyspace, kind ORDER BY accesses DESC, part) AS rank,
               accesses, accesses / CAST(sum(accesses) OVER (PARTITION BY keyspace, kind) AS DOUBLE) AS share
        FROM ranges WHERE accesses > 0 ORDER BY keyspace, kind, rank";
    let rows = cells(&context.session.rows(sql).await?)?;
    let (rows, rows_before) = thin(rows, 2, 2, 1.05);
    let words = Words {
        id: "range-ranks",
        title: "Key ranges from the hottest to the coldest",
        about: "The same ranges by how often a kind of operation accessed them: the one at rank 1 was accessed most. The share is that of all accesses of \
                the kind in the keyspace. A line that falls fast says that a few ranges have most of the accesses; a flat one, that accesses are spread \
                over the whole key space. The model of key ranges is fitted to this line.",
        section: "7.2, key-range hotness",
        columns: &[
            ("keyspace", Unit::Text),
            ("kind", Unit::Text),
            ("rank", Unit::Count),
            ("accesses", Unit::Count),
            ("share", Unit::Share),
        ],
    };
    let mut figure = words.figure(rows);
    figure.rows_before = rows_before;
    let mut line = Chart::new(Mark::Line, "rank", "accesses")
        .with_series("kind")
        .with_panel("keyspace");
    (line.x_log, line.y_log) = (true, true);
    figure.charts.push(line);
    Ok(figure)
}

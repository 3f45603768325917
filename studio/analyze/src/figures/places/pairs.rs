//! Pairs of consecutive operations on the same key, by their kinds.

use super::super::Context;
use super::super::cells::{Words, cells};
use crate::error::Result;
use crate::tables::{DONE, KEYLESS};
use evendb_report::{Chart, Exactness, Figure, Mark, Unit};

pub(in super::super) async fn find(context: &Context<'_>) -> Result<Vec<Figure>> {
    let sql = format!(
        "WITH sampled AS (
            SELECT operations.keyspace, key, kind, number, CAST(start_nanos AS DOUBLE) AS nanos, sampled_share
            FROM places JOIN operations ON operations.keyspace = places.keyspace
            WHERE kind NOT IN {KEYLESS} AND {DONE} AND (sampled_share >= 1.0 OR key_hash / 18446744073709551616.0 < sampled_share)),
        followed AS (
            SELECT keyspace, lag(kind) OVER on_key AS a, kind AS b, nanos - lag(nanos) OVER on_key AS apart, sampled_share
            FROM sampled WINDOW on_key AS (PARTITION BY keyspace, key ORDER BY number)),
        counted AS (
            SELECT keyspace, a, b, count(*) AS times, approx_median(CASE WHEN apart > 0 THEN apart / 1e9 ELSE 0.0 END) AS median_seconds,
                   max(sampled_share) AS sampled_share
            FROM followed WHERE a IS NOT NULL GROUP BY keyspace, a, b)
        SELECT keyspace, a, b, CAST(round(times / sampled_share) AS BIGINT) AS pairs,
               times / CAST(sum(times) OVER (PARTITION BY keyspace) AS DOUBLE) AS share, median_seconds
        FROM counted ORDER BY keyspace, times DESC, a, b"
    );
    let rows = cells(&context.session.rows(&sql).await?)?;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let words = Words {
        id: "pair-correlations",
        title: "What follows what on the same key",
        about: "How often an operation of kind b was the next one on its key after one of kind a, the share of that among all such pairs of the keyspace, and \
                the middle of the time between both. Reads that soon follow a write of their key are answered by what is fresh in memory; a write \
                that follows a read says that a reader of a value changes it.",
        section: "6, temporal locality",
        columns: &[
            ("keyspace", Unit::Text),
            ("a", Unit::Text),
            ("b", Unit::Text),
            ("pairs", Unit::Count),
            ("share", Unit::Share),
            ("median_seconds", Unit::Seconds),
        ],
    };
    let mut figure = words.figure(rows);
    figure.exactness = Exactness::Sketched(
        "medians by a digest; in a keyspace of more than 32768 keys, from about this number of keys, drawn at random, with all operations of them".to_owned(),
    );
    let mut heat = Chart::new(Mark::Heat, "b", "a").with_panel("keyspace");
    heat.heat = Some("share".to_owned());
    figure.charts.push(heat);
    Ok(vec![figure])
}

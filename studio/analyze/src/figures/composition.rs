//! The composition of the operations: their number by kind and keyspace.

use super::Context;
use super::cells::{Words, cells};
use crate::error::Result;
use crate::tables::DONE;
use evendb_report::{Chart, Figure, Mark, Unit};

pub(super) async fn find(context: &Context<'_>) -> Result<Vec<Figure>> {
    let sql = format!(
        "
        WITH asked AS (
            SELECT keyspace, kind, sum(CASE WHEN {DONE} THEN 1 ELSE 0 END) AS operations,
                   sum(CASE outcome WHEN 'present' THEN 1 ELSE 0 END) AS found,
                   sum(CASE outcome WHEN 'absent' THEN 1 ELSE 0 END) AS absent,
                   sum(CASE outcome WHEN 'failed' THEN 1 ELSE 0 END) AS failed,
                   sum(CASE outcome WHEN 'unknown' THEN 0 ELSE 1 END) AS told
            FROM operations GROUP BY keyspace, kind),
        different AS (SELECT keyspace, kind, count(*) AS keys FROM keys WHERE accesses > 0 GROUP BY keyspace, kind)
        SELECT asked.keyspace, asked.kind, operations,
               operations / greatest(CAST(sum(operations) OVER () AS DOUBLE), 1.0) AS share,
               coalesce(keys, 0) AS keys, CASE WHEN told > 0 THEN found END AS found, CASE WHEN told > 0 THEN absent END AS absent,
               CASE WHEN told > 0 THEN failed END AS failed
        FROM asked LEFT JOIN different ON asked.keyspace = different.keyspace AND asked.kind = different.kind
        ORDER BY asked.keyspace, operations DESC, asked.kind"
    );
    let rows = cells(&context.session.rows(&sql).await?)?;
    let words = Words {
        id: "composition",
        title: "Operations by kind",
        about: "How many operations of each kind there were in each keyspace, how many different keys they named, and what came of them. \
                A scan names the key where it begins, one in reverse that where its range ends. Operations that failed are in the last column and in no other figure but that of the latencies. \
                Operations without an outcome in the trace are in none of the last three columns; if no operation of a kind has one, these are unknown.",
        section: "4.1, figure 2",
        columns: &[
            ("keyspace", Unit::Text),
            ("kind", Unit::Text),
            ("operations", Unit::Count),
            ("share", Unit::Share),
            ("keys", Unit::Count),
            ("found", Unit::Count),
            ("absent", Unit::Count),
            ("failed", Unit::Count),
        ],
    };
    let mut figure = words.figure(rows);
    let bars = Chart::new(Mark::Bar, "kind", "operations").with_series("keyspace");
    figure.charts.push(bars);
    Ok(vec![figure])
}

//! How long operations took, if a trace tells it.
//!
//! Latencies are counted in bins, and each bin ends 1.01 % above its beginning, so that single
//! latencies are not kept. A percentile is the largest latency of its bin.

use super::Context;
use super::cells::{Row, Words, cells, number};
use crate::error::Result;
use evendb_report::{Chart, Exactness, Figure, Mark, Unit};
use serde_json::Value;

pub(super) async fn find(context: &Context<'_>) -> Result<Vec<Figure>> {
    let sql = "
        WITH binned AS (
            SELECT keyspace, kind, outcome, latency_nanos, CAST(floor(ln(greatest(CAST(latency_nanos AS DOUBLE), 1.0)) * 100.0) AS BIGINT) AS bin
            FROM operations WHERE latency_nanos IS NOT NULL)
        SELECT keyspace, kind, outcome, count(*) AS operations, sum(CAST(latency_nanos AS DOUBLE)) AS nanos, max(latency_nanos) AS most
        FROM binned GROUP BY keyspace, kind, outcome, bin ORDER BY keyspace, kind, outcome, bin";
    let bins = cells(&context.session.rows(sql).await?)?;
    let rows = bins.chunk_by(|a, b| a[..3] == b[..3]).map(latency);
    let rows: Vec<Row> = rows.collect();
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let words = Words {
        id: "latencies",
        title: "How long operations took",
        about: "Latencies of the operations whose latency was recorded, by what came of them: a lookup that finds nothing is often faster. \
                A latency of a scan is the time in which records were gathered.",
        section: "9, as work that the study leaves",
        columns: &[
            ("keyspace", Unit::Text),
            ("kind", Unit::Text),
            ("outcome", Unit::Text),
            ("operations", Unit::Count),
            ("mean", Unit::Nanoseconds),
            ("p50", Unit::Nanoseconds),
            ("p90", Unit::Nanoseconds),
            ("p99", Unit::Nanoseconds),
            ("p999", Unit::Nanoseconds),
            ("most", Unit::Nanoseconds),
        ],
    };
    let mut figure = words.figure(rows);
    figure.exactness = Exactness::Sketched(
        "percentiles are of logarithmic bins, and at most 1.01 % above the exact ones; the other columns are exact".to_owned(),
    );
    for (y, title) in [("p50", "In the middle"), ("p99", "99 % are faster")] {
        let mut bars = Chart::new(Mark::Bar, "kind", y)
            .with_series("outcome")
            .with_panel("keyspace");
        bars.title = title.to_owned();
        figure.charts.push(bars);
    }
    Ok(vec![figure])
}

/// The row of a kind and outcome with these bins, in rising order.
fn latency(bins: &[Row]) -> Row {
    let count = |bin: &Row| bin[3].as_u64().unwrap_or_default();
    let operations: u64 = bins.iter().map(count).sum();
    let nanos: f64 = bins.iter().map(|bin| number(&bin[4])).sum();
    let percentile = |share: f64| {
        let mut so_far = 0;
        let bin = bins.iter().find(|bin| {
            so_far += count(bin);
            so_far as f64 / operations as f64 >= share
        });
        bin.map_or(Value::Null, |bin| bin[5].clone())
    };
    let mut row = bins[0][..3].to_vec();
    row.extend([operations.into(), (nanos / operations as f64).into()]);
    row.extend([0.5, 0.9, 0.99, 0.999, 1.0].map(percentile));
    row
}

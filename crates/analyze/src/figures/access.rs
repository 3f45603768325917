//! How often keys are asked for.

use super::Context;
use super::cells::{Words, cells, chart, thin};
use crate::error::Result;
use evendb_report::{Figure, Mark, Unit};

pub(super) async fn find(context: &Context<'_>) -> Result<Vec<Figure>> {
    Ok(vec![per_key(context).await?, counts(context).await?])
}

/// How many keys were accessed so many times, and the sums up to there, of keyspace and kind.
const COUNTS: &str = "
    WITH counts AS (
        SELECT keyspace, kind, accesses, count(*) AS keys FROM keys GROUP BY keyspace, kind, accesses),
    cumulative AS (
        SELECT keyspace, kind, accesses, keys,
               CAST(sum(keys) OVER so_far AS DOUBLE) / sum(keys) OVER whole AS keys_up_to,
               CAST(sum(keys * accesses) OVER so_far AS DOUBLE) / sum(keys * accesses) OVER whole AS accesses_up_to
        FROM counts
        WINDOW whole AS (PARTITION BY keyspace, kind),
               so_far AS (PARTITION BY keyspace, kind ORDER BY accesses ROWS UNBOUNDED PRECEDING))";

async fn per_key(context: &Context<'_>) -> Result<Figure> {
    let sql = format!(
        "{COUNTS}
        SELECT keyspace, kind, sum(keys) AS keys, sum(keys * accesses) / CAST(sum(keys) AS DOUBLE) AS mean,
               min(CASE WHEN keys_up_to >= 0.5 THEN accesses END) AS median,
               min(CASE WHEN keys_up_to >= 0.99 THEN accesses END) AS p99,
               max(accesses) AS most,
               sum(CASE WHEN accesses = 1 THEN keys ELSE 0 END) / CAST(sum(keys) AS DOUBLE) AS once,
               sum(CASE WHEN accesses >= 10 THEN keys ELSE 0 END) / CAST(sum(keys) AS DOUBLE) AS at_least_10,
               sum(CASE WHEN accesses >= 100 THEN keys ELSE 0 END) / CAST(sum(keys) AS DOUBLE) AS at_least_100,
               sum(CASE WHEN accesses > 100 THEN keys * accesses ELSE 0 END) / CAST(sum(keys * accesses) AS DOUBLE)
                   AS accesses_of_those_above_100
        FROM cumulative GROUP BY keyspace, kind ORDER BY keyspace, kind"
    );
    let rows = cells(&context.session.rows(&sql).await?)?;
    let words = Words {
        id: "accesses-per-key",
        title: "Accesses of a key",
        about: "Of the keys that a kind of operation named: how often it named them on average, in the middle, and at most; which share was named \
                once, at least 10 times and at least 100 times; and which share of all accesses goes to keys that were named more than 100 times.",
        section: "4.2",
        columns: &[
            ("keyspace", Unit::Text),
            ("kind", Unit::Text),
            ("keys", Unit::Count),
            ("mean", Unit::Number),
            ("median", Unit::Count),
            ("p99", Unit::Count),
            ("most", Unit::Count),
            ("once", Unit::Share),
            ("at_least_10", Unit::Share),
            ("at_least_100", Unit::Share),
            ("accesses_of_those_above_100", Unit::Share),
        ],
    };
    Ok(words.figure(rows))
}

async fn counts(context: &Context<'_>) -> Result<Figure> {
    let sql = format!(
        "{COUNTS}
        SELECT keyspace, kind, accesses, keys, keys_up_to, accesses_up_to
        FROM cumulative ORDER BY keyspace, kind, accesses"
    );
    let rows = cells(&context.session.rows(&sql).await?)?;
    let (rows, rows_before) = thin(rows, 2, 2, 1.03);
    let words = Words {
        id: "access-counts",
        title: "How often keys are accessed",
        about: "The share of keys that were accessed at most so often, and the share of accesses that goes to these keys. A line that begins high says that \
                most keys are asked for once; if the second line begins low then, a few keys have most of the accesses.",
        section: "4.2, figures 3, 5 and 6",
        columns: &[
            ("keyspace", Unit::Text),
            ("kind", Unit::Text),
            ("accesses", Unit::Count),
            ("keys", Unit::Count),
            ("keys_up_to", Unit::Share),
            ("accesses_up_to", Unit::Share),
        ],
    };
    let mut figure = words.figure(rows);
    figure.rows_before = rows_before;
    for (y, title) in [
        ("keys_up_to", "Share of keys"),
        ("accesses_up_to", "Share of accesses"),
    ] {
        let mut steps = chart(Mark::Step, "accesses", y);
        steps.title = title.to_owned();
        steps.series = Some("kind".to_owned());
        steps.panel = Some("keyspace".to_owned());
        steps.x_log = true;
        figure.charts.push(steps);
    }
    Ok(figure)
}

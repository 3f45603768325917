//! How often keys are accessed.

use super::cells::{Row, Words, cells, number, quoted, thin};
use super::{Context, overlap};
use crate::error::Result;
use crate::tables;
use evendb_report::{Chart, Figure, Mark, Unit};

/// The number of rows of the hottest keys of a kind.
const HOTTEST: usize = 20;
/// A plotted rank is larger than the one before by this factor.
const RANK_GROWTH: f64 = 1.05;

pub(super) async fn find(context: &Context<'_>) -> Result<Vec<Figure>> {
    tables::make_access_counts(context.session).await?;
    let mut figures = vec![per_key(context).await?, counts(context).await?];
    figures.extend([ranks(context).await?, hottest(context).await?]);
    figures.push(overlap::find(context).await?);
    figures.retain(|figure| !figure.rows.is_empty());
    Ok(figures)
}

/// The number of keys with each number of accesses, and the sums up to there, by keyspace and kind.
const COUNTS: &str = "
    WITH cumulative AS (
        SELECT keyspace, kind, accesses, keys,
               CAST(sum(keys) OVER so_far AS DOUBLE) / sum(keys) OVER whole AS keys_up_to,
               CAST(sum(keys * accesses) OVER so_far AS DOUBLE) / sum(keys * accesses) OVER whole AS accesses_up_to
        FROM access_counts
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
        let mut steps = Chart::new(Mark::Step, "accesses", y)
            .with_series("kind")
            .with_panel("keyspace");
        steps.title = title.to_owned();
        steps.x_log = true;
        figure.charts.push(steps);
    }
    Ok(figure)
}

/// Keys with equal numbers of accesses have consecutive ranks, so the counts say all.
async fn ranks(context: &Context<'_>) -> Result<Figure> {
    let sql = "
        SELECT keyspace, kind, accesses, keys, sum(keys) OVER whole AS all_keys, sum(keys * accesses) OVER whole AS all_accesses
        FROM access_counts WINDOW whole AS (PARTITION BY keyspace, kind)
        ORDER BY keyspace, kind, accesses DESC";
    let counts = cells(&context.session.rows(sql).await?)?;
    let (mut rows, mut keys) = (Vec::new(), 0);
    for same in counts.chunk_by(|a, b| a[..2] == b[..2]) {
        keys += same[0][4].as_u64().unwrap_or_default();
        ranked(same, &mut rows);
    }
    let words = Words {
        id: "access-ranks",
        title: "Accesses by rank",
        about: "Keys in the order of their accesses, the hottest first: how often the key of a rank was accessed, and which share of all accesses goes to it \
                and those before. A straight line on both logarithmic axes is a power law, which a model can draw keys from.",
        section: "7.2, power-law fit of accesses",
        columns: &[
            ("keyspace", Unit::Text),
            ("kind", Unit::Text),
            ("rank", Unit::Count),
            ("accesses", Unit::Count),
            ("accesses_up_to", Unit::Share),
        ],
    };
    let mut figure = words.figure(rows);
    figure.rows_before = (keys > figure.rows.len() as u64).then_some(keys);
    for (y, title, y_log) in [
        ("accesses", "Accesses of the key of a rank", true),
        ("accesses_up_to", "Share of accesses", false),
    ] {
        let mut line = Chart::new(Mark::Line, "rank", y)
            .with_series("kind")
            .with_panel("keyspace");
        line.title = title.to_owned();
        (line.x_log, line.y_log) = (true, y_log);
        figure.charts.push(line);
    }
    Ok(figure)
}

/// The rows of one keyspace and kind: the first rank, the last, and the ranks between that are far
/// from the one before.
fn ranked(counts: &[Row], rows: &mut Vec<Row>) {
    let whole = |cell: usize| move |row: &Row| row[cell].as_u64().unwrap_or_default();
    let (accesses, keys) = (whole(2), whole(3));
    let Some(first) = counts.first() else {
        return;
    };
    let last = whole(4)(first);
    let (mut next, mut ranks, mut so_far) = (1, 0, 0);
    for count in counts {
        let (each, end) = (accesses(count), ranks + keys(count));
        while next <= end {
            let up_to = so_far + (next - ranks) * each;
            let mut row = count[..2].to_vec();
            row.extend([next.into(), each.into()]);
            row.push((up_to as f64 / number(&count[5])).into());
            rows.push(row);
            if next == last {
                break;
            }
            next = ((next as f64 * RANK_GROWTH).ceil() as u64).min(last);
        }
        (ranks, so_far) = (end, so_far + keys(count) * each);
    }
}

async fn hottest(context: &Context<'_>) -> Result<Figure> {
    let kinds = "SELECT keyspace, kind, sum(keys * accesses) FROM access_counts GROUP BY keyspace, kind ORDER BY keyspace, kind";
    let mut rows = Vec::new();
    for kind in cells(&context.session.rows(kinds).await?)? {
        let name = |cell: usize| quoted(kind[cell].as_str().unwrap_or_default());
        // One query for each, because the engine keeps only the best rows if an order has a limit.
        let sql = format!(
            "SELECT key, accesses FROM keys WHERE keyspace = {} AND kind = {} ORDER BY accesses DESC, key LIMIT {HOTTEST}",
            name(0),
            name(1)
        );
        let keys = cells(&context.session.rows(&sql).await?)?;
        for (rank, key) in keys.into_iter().enumerate() {
            let mut row = kind[..2].to_vec();
            let share = number(&key[1]) / number(&kind[2]);
            row.push((rank as u64 + 1).into());
            row.extend(key);
            row.push(share.into());
            rows.push(row);
        }
    }
    let words = Words {
        id: "hottest-keys",
        title: "The hottest keys",
        about: "The keys that were named most often by a kind of operation, and their share of its operations. Bytes that are no letters are written as \\x and two digits.",
        section: "3, popularity of pairs",
        columns: &[
            ("keyspace", Unit::Text),
            ("kind", Unit::Text),
            ("rank", Unit::Count),
            ("key", Unit::Text),
            ("accesses", Unit::Count),
            ("share", Unit::Share),
        ],
    };
    let mut figure = words.figure(rows);
    let bars = Chart::new(Mark::Bar, "key", "accesses")
        .with_series("keyspace")
        .with_panel("kind");
    figure.charts.push(bars);
    Ok(figure)
}

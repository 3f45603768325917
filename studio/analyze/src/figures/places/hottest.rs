//! The hottest ranges and prefixes.

use super::super::Context;
use super::super::cells::{Words, cells};
use crate::error::Result;
use evendb_report::{Figure, Unit};

pub(in super::super) async fn find(context: &Context<'_>) -> Result<Vec<Figure>> {
    Ok(vec![ranges(context).await?, prefixes(context).await?])
}

async fn ranges(context: &Context<'_>) -> Result<Figure> {
    let sql = "
        WITH ranked AS (
            SELECT *, row_number() OVER (PARTITION BY keyspace, kind ORDER BY accesses DESC, part) AS rank FROM ranges WHERE accesses > 0)
        SELECT keyspace, kind, first_key, keys, accesses, accesses / CAST(keys AS DOUBLE) AS per_key
        FROM ranked WHERE rank <= 20 ORDER BY keyspace, kind, rank";
    let rows = cells(&context.session.rows(sql).await?)?;
    let words = Words {
        id: "hottest-ranges",
        title: "The hottest key ranges",
        about: "The 20 ranges that a kind of operation accessed most: the key with which each begins, how many of its keys were accessed, how often in all, \
                and how often each of them on average.",
        section: "6, key-space locality",
        columns: &[
            ("keyspace", Unit::Text),
            ("kind", Unit::Text),
            ("first_key", Unit::Text),
            ("keys", Unit::Count),
            ("accesses", Unit::Count),
            ("per_key", Unit::Number),
        ],
    };
    Ok(words.figure(rows))
}

async fn prefixes(context: &Context<'_>) -> Result<Figure> {
    let sql = "
        WITH cut AS (
            SELECT keys.keyspace, kind, prefix(key, prefix_bytes) AS prefix, accesses
            FROM places JOIN keys ON keys.keyspace = places.keyspace WHERE accesses > 0),
        counted AS (
            SELECT keyspace, kind, prefix, count(*) AS keys, sum(accesses) AS accesses FROM cut GROUP BY keyspace, kind, prefix),
        ranked AS (
            SELECT *, accesses / CAST(sum(accesses) OVER (PARTITION BY keyspace, kind) AS DOUBLE) AS share,
                   row_number() OVER (PARTITION BY keyspace, kind ORDER BY accesses DESC, prefix) AS rank
            FROM counted)
        SELECT keyspace, kind, prefix, keys, accesses, share FROM ranked WHERE rank <= 20 ORDER BY keyspace, kind, rank";
    let rows = cells(&context.session.rows(sql).await?)?;
    let words = Words {
        id: "hottest-prefixes",
        title: "The hottest prefixes",
        about: "The 20 prefixes of keys that a kind of operation accessed most, how many keys that it accessed begin with them, and their share of the kind's accesses. \
                Prefixes are as long as was asked for, or else as short as they can be so that there are at least 64 different ones in the keyspace. \
                Where keys begin with the number of a table, these are the tables.",
        section: "6, tables of MyRocks",
        columns: &[
            ("keyspace", Unit::Text),
            ("kind", Unit::Text),
            ("prefix", Unit::Text),
            ("keys", Unit::Count),
            ("accesses", Unit::Count),
            ("share", Unit::Share),
        ],
    };
    Ok(words.figure(rows))
}

//! Whether the hot keys of one kind of operation are those of another.

use super::Context;
use super::cells::{Row, Words, cells, quoted};
use crate::error::Result;
use evendb_report::{Figure, Unit};
use serde_json::Value;
use std::collections::BTreeSet;

/// The numbers of hottest keys that are compared.
const TOPS: [usize; 4] = [10, 100, 1000, 10_000];

/// The hottest keys of a kind in a keyspace, the hottest first.
struct Hottest {
    keyspace: String,
    kind: String,
    /// The number of keys that the kind named at all.
    named: u64,
    /// Ids and accesses of at most as many keys as the last of [`TOPS`].
    keys: Vec<(u64, u64)>,
}

pub(super) async fn find(context: &Context<'_>) -> Result<Figure> {
    let kinds = "SELECT keyspace, kind, sum(keys) FROM access_counts GROUP BY keyspace, kind ORDER BY keyspace, kind";
    let kinds = cells(&context.session.rows(kinds).await?)?;
    let mut rows = Vec::new();
    for of_keyspace in kinds.chunk_by(|a, b| a[0] == b[0]) {
        let mut hottest = Vec::new();
        // One kind has nothing to be compared with.
        for kind in of_keyspace.iter().filter(|_| of_keyspace.len() > 1) {
            hottest.push(Hottest::find(context, kind).await?);
        }
        for kind in &hottest {
            let others = hottest.iter().filter(|other| other.kind != kind.kind);
            rows.extend(others.flat_map(|other| kind.beside(other)));
        }
    }
    let words = Words {
        id: "hot-keys-shared",
        title: "Hot keys that kinds share",
        about: "How many of the hottest keys of a kind are among as many hottest keys of another kind, and which share of them that is. A kind that named fewer \
                keys has all of them in the comparison. Where the least accesses of such a key are few, chance has its part in which keys these are; where \
                they are one, and not all keys of the kind are compared, there is no row. A share near 1 says that what is read is what is written, so that \
                one cache serves both; near 0, that each kind has hot keys of its own.",
        section: "6, Get and Put beside each other",
        columns: &[
            ("keyspace", Unit::Text),
            ("kind", Unit::Text),
            ("other", Unit::Text),
            ("hottest", Unit::Count),
            ("keys", Unit::Count),
            ("least_accesses", Unit::Count),
            ("other_keys", Unit::Count),
            ("other_least_accesses", Unit::Count),
            ("shared", Unit::Count),
            ("share", Unit::Share),
        ],
    };
    Ok(words.figure(rows))
}

impl Hottest {
    /// The keys of a row of keyspace, kind and number of keys.
    async fn find(context: &Context<'_>, kind: &Row) -> Result<Hottest> {
        let name = |cell: usize| kind[cell].as_str().unwrap_or_default().to_owned();
        let (keyspace, named) = (name(0), kind[2].as_u64().unwrap_or_default());
        let most = TOPS[TOPS.len() - 1];
        let sql = format!(
            "SELECT id, accesses FROM keys WHERE keyspace = {} AND kind = {} ORDER BY accesses DESC, id LIMIT {most}",
            quoted(&keyspace),
            quoted(&name(1))
        );
        let keys = cells(&context.session.rows(&sql).await?)?;
        let number = |row: &Row, cell: usize| row[cell].as_u64().unwrap_or_default();
        Ok(Hottest {
            keyspace,
            kind: name(1),
            named,
            keys: keys
                .iter()
                .map(|row| (number(row, 0), number(row, 1)))
                .collect(),
        })
    }

    /// The hottest keys, at most this number; none where chance alone says which these are.
    fn top(&self, most: usize) -> Option<&[(u64, u64)]> {
        let keys = &self.keys[..most.min(self.keys.len())];
        let (_, least) = keys.last()?;
        (*least > 1 || keys.len() as u64 == self.named).then_some(keys)
    }

    /// The rows that compare it with another kind of its keyspace: up to the first number that has
    /// all keys of both.
    fn beside(&self, other: &Hottest) -> Vec<Row> {
        let mut rows = Vec::new();
        let all = self.named.max(other.named);
        let below = TOPS.partition_point(|top| (*top as u64) < all);
        for &most in &TOPS[..TOPS.len().min(below + 1)] {
            let (Some(keys), Some(others)) = (self.top(most), other.top(most)) else {
                continue;
            };
            let ids: BTreeSet<u64> = others.iter().map(|(id, _)| *id).collect();
            let shared = keys.iter().filter(|(id, _)| ids.contains(id)).count() as u64;
            let size = keys.len() as u64;
            let least = |keys: &[(u64, u64)]| keys.last().map_or(0, |(_, least)| *least);
            let mut row: Row = [&self.keyspace, &self.kind, &other.kind]
                .map(|name| Value::from(name.as_str()))
                .into();
            let counts = [
                most as u64,
                size,
                least(keys),
                others.len() as u64,
                least(others),
                shared,
            ];
            row.extend(counts.map(Value::from));
            row.push((shared as f64 / size as f64).into());
            rows.push(row);
        }
        rows
    }
}

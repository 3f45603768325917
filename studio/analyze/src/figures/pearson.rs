//! Whether the sizes and times of an operation depend on one another.

use super::Context;
use super::cells::{Row, Words, cells};
use crate::error::Result;
use crate::tables::{DONE, KEYLESS};
use evendb_report::{Figure, Unit};
use serde_json::Value;

/// Properties of an operation, by their names in the figure and in SQL.
const OF_OPERATIONS: [(&str, &str); 5] = [
    ("key size", "byte_length(key)"),
    ("value size", "value_bytes"),
    ("scan length", "CASE WHEN kind = 'scan' THEN records END"),
    ("latency", "latency_nanos"),
    ("time", "start_nanos"),
];

/// Properties of a key, for one kind of operation.
const OF_KEYS: [(&str, &str); 3] = [
    ("accesses", "accesses"),
    ("key size", "byte_length(key)"),
    ("value size", "value_bytes"),
];

pub(super) async fn find(context: &Context<'_>) -> Result<Vec<Figure>> {
    let of_operations = format!("operations WHERE kind NOT IN {KEYLESS} AND {DONE}");
    let mut rows = Vec::new();
    // Every pair of properties of operations. For properties of keys, pairs with the accesses.
    for (from, variables, firsts) in [
        (
            of_operations.as_str(),
            &OF_OPERATIONS[..],
            OF_OPERATIONS.len(),
        ),
        ("keys WHERE accesses > 0", &OF_KEYS[..], 1),
    ] {
        let mut pairs = Vec::new();
        for a in 0..firsts {
            pairs.extend((a + 1..variables.len()).map(|b| (a, b)));
        }
        let found = context
            .session
            .rows(&query(from, variables, &pairs))
            .await?;
        for found in cells(&found)? {
            rows.extend(unfolded(&found, variables, &pairs));
        }
    }
    rows.sort_by(|a, b| a[0].as_str().cmp(&b[0].as_str()));
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let words = Words {
        id: "pearson",
        title: "What depends on what",
        about: "Pearson's correlation of two properties over the operations that have both; with the accesses: over the keys of each kind of operation, \
                whose value size is the mean of their values. Near 0: a model may draw them apart. Near 1 or -1: one follows the other. \
                There is no number where one of the two is always the same.",
        section: "3 and 7.2, modeling",
        columns: &[
            ("keyspace", Unit::Text),
            ("a", Unit::Text),
            ("b", Unit::Text),
            ("correlation", Unit::Number),
            ("pairs", Unit::Count),
        ],
    };
    Ok(vec![words.figure(rows)])
}

/// For each keyspace: correlation and number of each pair of properties, in order. One pass finds
/// all.
fn query(from: &str, variables: &[(&str, &str)], pairs: &[(usize, usize)]) -> String {
    let variables = variables.iter().enumerate();
    let variables = variables.map(|(at, (_, sql))| format!("CAST({sql} AS DOUBLE) AS v{at}"));
    let found = pairs.iter().enumerate();
    let found = found.map(|(at, (a, b))| {
        // A sum is null if one of both is null.
        format!("corr(v{a}, v{b}) AS c{at}, count(v{a} + v{b}) AS n{at}")
    });
    format!(
        "SELECT keyspace, {} FROM (SELECT keyspace, {} FROM {from}) GROUP BY keyspace",
        found.collect::<Vec<_>>().join(", "),
        variables.collect::<Vec<_>>().join(", ")
    )
}

/// The rows of a keyspace, without pairs of properties that fewer than two operations have.
fn unfolded(found: &Row, variables: &[(&str, &str)], pairs: &[(usize, usize)]) -> Vec<Row> {
    let pairs = pairs.iter().enumerate();
    let rows = pairs.map(|(at, &(a, b))| {
        let correlation = found[1 + 2 * at].as_f64();
        let correlation = correlation.map(|r| r.clamp(-1.0, 1.0));
        vec![
            found[0].clone(),
            variables[a].0.into(),
            variables[b].0.into(),
            correlation.map_or(Value::Null, Value::from),
            found[2 + 2 * at].clone(),
        ]
    });
    rows.filter(|row| row[4].as_u64() >= Some(2)).collect()
}

//! The number of keys of the store, and the number of them that the trace names.

use super::Context;
use super::cells::{Words, cells};
use crate::error::Result;
use evendb_report::{Figure, Unit};

pub(super) async fn find(context: &Context<'_>) -> Result<Vec<Figure>> {
    if !context.has_stored {
        return Ok(Vec::new());
    }
    let sql = "
        SELECT keyspace, stored, stored_named, stored_named / CAST(stored AS DOUBLE) AS share, named - stored_named AS others
        FROM places WHERE stored > 0 ORDER BY keyspace";
    let rows = cells(&context.session.rows(sql).await?)?;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let words = Words {
        id: "stored-keys",
        title: "Keys of the store",
        about: "How many keys the store has by the list of them that was given, how many of these the trace names and which share that is, and how many other \
                keys it names: keys that were added or removed meanwhile, keys that were not found, and places where scans begin that are no keys. \
                The key space of this keyspace, in all figures, are the keys of the list and the others.",
        section: "4.1, pairs accessed",
        columns: &[
            ("keyspace", Unit::Text),
            ("stored", Unit::Count),
            ("accessed", Unit::Count),
            ("share", Unit::Share),
            ("others", Unit::Count),
        ],
    };
    Ok(vec![words.figure(rows)])
}

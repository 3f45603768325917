//! The options that may differ between two openings: a table of factors, each with its choices.
//!
//! A factor has the name of the setter that it calls; the macro `factor` writes both. The name of
//! an option of guards begins with `guards.`, that of a keyspace with `keyspace.`. The table is
//! `store/settings.rs`. Its tests read the engine's sources: a test fails if an option is neither
//! in the table nor among the options that are left out for a reason.

use crate::covering::Row;
use std::fmt::Write;

/// A choice: its name, and what it does to settings of the kind `S`.
pub type Choice<S> = (&'static str, fn(S) -> S);

/// A factor of options.
pub struct Factor<S: 'static> {
    /// The setter.
    pub name: &'static str,
    /// The choices. A row takes one of them.
    pub choices: &'static [Choice<S>],
}

/// A factor of [`Choice`]s that call one setter of a part of the settings, each with its arguments.
/// `default` stands for a choice that calls nothing:
/// `factor!(advanced.block_bytes: default, "64" => (64), "1 MiB" => (1 << 20))`.
macro_rules! factor {
    (@name keyspace $setter:ident) => { concat!("keyspace.", stringify!($setter)) };
    (@name guards $setter:ident) => { concat!("guards.", stringify!($setter)) };
    (@name $part:ident $setter:ident) => { stringify!($setter) };
    ($part:ident.$setter:ident: $($default:ident,)?
        $($(#[$when:meta])? $name:literal => ($($argument:expr),+)),+
    ) => {
        Factor {
            name: factor!(@name $part $setter),
            choices: &[
                $((stringify!($default), |s| s),)?
                $(
                    $(#[$when])?
                    ($name, |s| s.$part(|part| part.$setter($($argument),+)))
                ),+
            ],
        }
    };
}
pub(crate) use factor;

/// The number of choices of each factor.
pub fn sizes<S>(table: &[Factor<S>]) -> Vec<usize> {
    table.iter().map(|factor| factor.choices.len()).collect()
}

/// The settings of a row.
pub fn apply<S>(table: &[Factor<S>], row: &Row, settings: S) -> S {
    let each = table.iter().zip(&row.0);
    each.fold(settings, |settings, (factor, &choice)| {
        (factor.choices[choice].1)(settings)
    })
}

/// A row in words.
pub fn told<S>(table: &[Factor<S>], row: &Row) -> String {
    let mut text = String::new();
    for (factor, &choice) in table.iter().zip(&row.0) {
        let space = if text.is_empty() { "" } else { " " };
        // Writing to memory cannot fail.
        let _ = write!(text, "{space}{}={}", factor.name, factor.choices[choice].0);
    }
    text
}

/// What the tests of a table call.
#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// The setters of the type `of` in a file of the sources of `store`: functions that take and
    /// give back the whole.
    pub(crate) fn setters(file: &str, of: &str) -> Vec<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = path.join("../../store").join(file);
        let text = std::fs::read_to_string(&path).expect("a file of the sources");
        let mut setters = Vec::new();
        let mut is_own = false;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("impl") {
                is_own = rest.trim_end_matches(" {").trim() == of;
            }
            let name = line.strip_prefix("    pub fn ");
            let name = name.filter(|rest| is_own && rest.contains("(mut self"));
            setters.extend(
                name.and_then(|rest| rest.split('(').next())
                    .map(str::to_owned),
            );
        }
        assert!(!setters.is_empty(), "no setter of {of} in {file}");
        setters
    }

    /// Each option is in the table or left out, and the table has no other.
    pub(crate) fn check<S>(table: &[Factor<S>], options: Vec<String>, left_out: &[(&str, &str)]) {
        let in_table: BTreeSet<String> =
            table.iter().map(|factor| factor.name.to_owned()).collect();
        assert_eq!(in_table.len(), table.len(), "a factor stands there twice");
        let left_out: BTreeSet<String> =
            left_out.iter().map(|(name, _)| name.to_string()).collect();
        let options: BTreeSet<String> = options.into_iter().collect();
        let known: BTreeSet<String> = in_table.union(&left_out).cloned().collect();
        assert_eq!(in_table.intersection(&left_out).next(), None);
        let missing: Vec<&String> = options.difference(&known).collect();
        assert!(
            missing.is_empty(),
            "options that no opening chooses; add them to the table: {missing:?}"
        );
        let gone: Vec<&String> = known.difference(&options).collect();
        assert!(gone.is_empty(), "options that there are not: {gone:?}");
        for factor in table {
            assert!(factor.choices.len() > 1, "{} has no choice", factor.name);
        }
    }

    /// The array of campaigns has all pairs.
    pub(crate) fn all_pairs_are_met<S>(table: &[Factor<S>]) {
        let sizes = sizes(table);
        let rows = crate::covering::rows(&sizes, 1);
        let mut met = crate::covering::Pairs::new(&sizes);
        for row in &rows {
            met.note(row);
        }
        let (found, all) = met.met();
        assert_eq!(found, all);
        println!("{} factors, {all} pairs, {} rows", sizes.len(), rows.len());
    }
}

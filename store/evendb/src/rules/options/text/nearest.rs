//! The names that a misspelled name was probably meant to be.

/// The largest number of names that are told.
const NAMES_MAX: usize = 4;

/// Words of fewer letters than this are in too many names.
const WORD_LETTERS: usize = 4;

/// The names near to `given`, the nearest first: those with a few other letters, those that have it
/// as a part, and those that share a word with it.
pub(super) fn names(given: &str, known: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let given = given
        .trim()
        .to_ascii_lowercase()
        .replace(['-', ' ', '.'], "_");
    // Names are short; a text that is not takes time by its square.
    if given.is_empty() || given.len() > 64 {
        return Vec::new();
    }
    let allowed = given.chars().count() / 3;
    let mut near: Vec<(usize, &'static str)> = known
        .filter_map(|name| {
            let plain = name.replace('.', "_");
            let last = name.rsplit('.').next().unwrap_or(name);
            let letters = changes(&given, &plain).min(changes(&given, last));
            let is_part = plain.contains(&given) || given.contains(&plain);
            let mut words = given.split('_').filter(|word| word.len() >= WORD_LETTERS);
            let has_word = words.any(|word| plain.split('_').any(|part| part == word));
            (letters <= allowed || is_part || has_word).then_some((letters, name))
        })
        .collect();
    near.sort();
    near.into_iter()
        .map(|(_, name)| name)
        .take(NAMES_MAX)
        .collect()
}

/// The number of letters to change, add or remove that make one text of the other; two neighbours
/// in the wrong order count once (the distance of Damerau and Levenshtein, restricted).
fn changes(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut two_before: Vec<usize> = Vec::new();
    let mut before: Vec<usize> = (0..=other.len()).collect();
    for i in 1..=one.len() {
        let mut row = vec![i; other.len() + 1];
        for j in 1..=other.len() {
            let is_other = usize::from(one[i - 1] != other[j - 1]);
            row[j] = (before[j - 1] + is_other)
                .min(before[j] + 1)
                .min(row[j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                row[j] = row[j].min(two_before[j - 2] + 1);
            }
        }
        two_before = std::mem::replace(&mut before, row);
    }
    before[other.len()]
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn changes_count_letters() {
        for (one, other, count) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("budget", "bugdet", 1),
            ("workers", "worker", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(changes(one, other), count, "{one} {other}");
            assert_eq!(changes(other, one), count, "{other} {one}");
        }
    }
}

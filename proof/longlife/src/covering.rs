//! Covering arrays: a few rows of choices. Every pair of choices of two factors stands together in
//! at least one row.
//!
//! A factor has a number of choices; a row has one choice for each factor. [`rows`] is greedy: for
//! each row it tries some rows, and takes the one with the highest number of pairs that were in no
//! row before. The array is not the least one, but its size is about the product of the two largest
//! factors. [`Pairs`] and [`Successions`] count the pairs within rows, and the successions between
//! them.
//!
//! Pure: the seed fixes the array. Not here: the meaning of the choices (`options.rs`).

use evendb_powercut::draw::Draw;

/// A choice of each factor, by its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row(pub Vec<usize>);

/// Rows that are tried for each row of an array.
const TRIES: usize = 12;

/// The number of each factor's first choice, when the choices of all factors are numbered through,
/// and the number of all choices.
fn places(sizes: &[usize]) -> (Vec<usize>, usize) {
    let mut all = 0;
    let begins = sizes.iter().map(|size| {
        all += size;
        all - size
    });
    (begins.collect(), all)
}

/// The pairs of choices of two factors that have stood in one row.
#[derive(Clone, Debug)]
pub struct Pairs {
    begins: Vec<usize>,
    choices: usize,
    met: Vec<bool>,
    count: usize,
    all: usize,
}

impl Pairs {
    /// No pairs yet, for factors with these numbers of choices.
    pub fn new(sizes: &[usize]) -> Pairs {
        let (begins, choices) = places(sizes);
        let of_two = |first: usize| -> usize { sizes[first + 1..].iter().sum() };
        Pairs {
            met: vec![false; choices * choices],
            count: 0,
            all: (0..sizes.len())
                .map(|first| sizes[first] * of_two(first))
                .sum(),
            begins,
            choices,
        }
    }

    fn at(&self, one: (usize, usize), other: (usize, usize)) -> usize {
        let (first, second) = if one.0 < other.0 {
            (one, other)
        } else {
            (other, one)
        };
        let place = |(factor, choice): (usize, usize)| self.begins[factor] + choice;
        place(first) * self.choices + place(second)
    }

    /// Counts the pairs of a row. Returns how many were new.
    pub fn note(&mut self, row: &Row) -> usize {
        let before = self.count;
        for second in 0..row.0.len() {
            for first in 0..second {
                let at = self.at((first, row.0[first]), (second, row.0[second]));
                self.count += usize::from(!std::mem::replace(&mut self.met[at], true));
            }
        }
        self.count - before
    }

    /// The number of pairs that were met, and the number of all pairs.
    pub fn met(&self) -> (usize, usize) {
        (self.count, self.all)
    }

    /// A pair that was not met.
    fn missing(&self, sizes: &[usize]) -> Option<[(usize, usize); 2]> {
        let choices = |factor: usize| (0..sizes[factor]).map(move |choice| (factor, choice));
        let mut pairs = (0..sizes.len())
            .flat_map(|second| (0..second).map(move |first| (first, second)))
            .flat_map(|(first, second)| {
                choices(first).flat_map(move |one| choices(second).map(move |other| [one, other]))
            });
        pairs.find(|&[one, other]| !self.met[self.at(one, other)])
    }
}

/// The successions of choices of any two factors from one row to the next row of the same database.
#[derive(Clone, Debug)]
pub struct Successions {
    begins: Vec<usize>,
    choices: usize,
    met: Vec<bool>,
    count: usize,
}

impl Successions {
    /// None yet.
    pub fn new(sizes: &[usize]) -> Successions {
        let (begins, choices) = places(sizes);
        Successions {
            met: vec![false; choices * choices],
            count: 0,
            begins,
            choices,
        }
    }

    /// Counts the successions from a row to the next.
    pub fn note(&mut self, before: &Row, after: &Row) {
        for (first, &one) in before.0.iter().enumerate() {
            for (second, &other) in after.0.iter().enumerate() {
                let at = (self.begins[first] + one) * self.choices + self.begins[second] + other;
                self.count += usize::from(!std::mem::replace(&mut self.met[at], true));
            }
        }
    }

    /// The number of successions that were met, and the number of all.
    pub fn met(&self) -> (usize, usize) {
        (self.count, self.choices * self.choices)
    }
}

/// A row that begins with a pair. Each further factor, in random order, gets the choice with the
/// highest number of new pairs.
fn grown(draw: &mut Draw, sizes: &[usize], met: &Pairs, pair: [(usize, usize); 2]) -> (usize, Row) {
    let mut chosen: Vec<(usize, usize)> = pair.to_vec();
    let mut rest: Vec<usize> = (0..sizes.len())
        .filter(|factor| pair.iter().all(|(own, _)| own != factor))
        .collect();
    let mut gained = 1;
    while !rest.is_empty() {
        let factor = rest.swap_remove(draw.below(rest.len() as u64) as usize);
        let gain = |choice: usize| {
            let is_new = |other: &&(usize, usize)| !met.met[met.at((factor, choice), **other)];
            chosen.iter().filter(is_new).count()
        };
        // A random one among the choices with the highest gain.
        let best = (0..sizes[factor]).map(|choice| (gain(choice), draw.number(), choice));
        let (gain, _, choice) = best.max().unwrap_or_default();
        gained += gain;
        chosen.push((factor, choice));
    }
    chosen.sort_unstable();
    let row = chosen.into_iter().map(|(_, choice)| choice).collect();
    (gained, Row(row))
}

/// Rows in which every pair of choices of two factors stands at least once. Each factor has at
/// least one choice.
pub fn rows(sizes: &[usize], seed: u64) -> Vec<Row> {
    let mut draw = Draw::new(seed);
    let mut met = Pairs::new(sizes);
    let mut rows = Vec::new();
    while let Some(pair) = met.missing(sizes) {
        let tries = (0..TRIES).map(|_| grown(&mut draw, sizes, &met, pair));
        let best = tries.max_by_key(|(gained, _)| *gained);
        let Some((_, row)) = best else { break };
        met.note(&row);
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_pairs_stand_in(rows: &[Row], sizes: &[usize]) -> bool {
        let stands = |one: (usize, usize), other: (usize, usize)| {
            let has = |row: &&Row| row.0[one.0] == one.1 && row.0[other.0] == other.1;
            rows.iter().find(has).is_some()
        };
        (0..sizes.len()).all(|second| {
            (0..second).all(|first| {
                (0..sizes[first]).all(|one| {
                    (0..sizes[second]).all(|other| stands((first, one), (second, other)))
                })
            })
        })
    }

    #[test]
    fn every_pair_stands_in_a_row() {
        for (seed, sizes) in [
            vec![2, 2],
            vec![3; 10],
            vec![5, 1, 2, 4, 4],
            vec![2, 3, 4, 5, 6, 7],
        ]
        .iter()
        .enumerate()
        {
            let rows = rows(sizes, seed as u64);
            assert!(all_pairs_stand_in(&rows, sizes), "{sizes:?}");
            assert!(!all_pairs_stand_in(&rows[1..], sizes) || rows.len() > 4);
            let mut met = Pairs::new(sizes);
            let new: usize = rows.iter().map(|row| met.note(row)).sum();
            assert_eq!(met.met(), (new, new));
        }
    }

    #[test]
    fn it_is_not_much_larger_than_it_must_be() {
        // Nine pairs of two factors need nine rows; forty factors of three choices have been done
        // with 20.
        assert_eq!(rows(&[3, 3], 1).len(), 9);
        let many = rows(&[3; 40], 1).len();
        assert!(many <= 32, "{many}");
    }

    #[test]
    fn the_seed_fixes_the_array() {
        assert_eq!(rows(&[3; 8], 7), rows(&[3; 8], 7));
        assert_ne!(rows(&[3; 8], 7), rows(&[3; 8], 8));
    }

    #[test]
    fn what_follows_is_counted_in_its_order() {
        let mut met = Successions::new(&[2, 2]);
        met.note(&Row(vec![0, 0]), &Row(vec![1, 1]));
        assert_eq!(met.met(), (4, 16));
        met.note(&Row(vec![1, 1]), &Row(vec![0, 0]));
        assert_eq!(met.met(), (8, 16));
        met.note(&Row(vec![1, 1]), &Row(vec![0, 0]));
        assert_eq!(met.met(), (8, 16));
    }
}

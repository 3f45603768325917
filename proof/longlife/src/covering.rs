//! Covering arrays: few rows of choices in which every pair of choices of two factors stands together at least once.
//!
//! A factor has a number of choices; a row has one choice of each. [`rows`] is greedy: row by row, of some rows that it tries it takes
//! the one with the most pairs that were in no row before. It is no least array, but one of about the size of the product of the two
//! largest factors. [`Pairs`] and [`Successions`] count what rows have in common, and what follows what.
//!
//! Pure: the seed fixes the array. Not here: what the choices are (`options.rs`).

use evendb_powercut::draw::Draw;

/// A choice of each factor, by its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row(pub Vec<usize>);

/// Rows that are tried for each row of an array.
const TRIES: usize = 12;

/// Where the choices of each factor begin, when those of all factors are numbered through; and how many there are.
fn places(sizes: &[usize]) -> (Vec<usize>, usize) {
    let mut all = 0;
    let begins = sizes.iter().map(|size| {
        all += size;
        all - size
    });
    (begins.collect(), all)
}

/// Which pairs of choices of two factors have stood in one row.
#[derive(Clone, Debug)]
pub struct Pairs {
    begins: Vec<usize>,
    choices: usize,
    met: Vec<bool>,
    count: usize,
    all: usize,
}

impl Pairs {
    /// None yet, of factors with so many choices.
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

    /// Counts the pairs of a row; how many were new.
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

    /// How many were met, and how many there are.
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

/// Which choice of any factor has followed on which, in the next row of the same database.
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

    /// Counts what follows on what.
    pub fn note(&mut self, before: &Row, after: &Row) {
        for (first, &one) in before.0.iter().enumerate() {
            for (second, &other) in after.0.iter().enumerate() {
                let at = (self.begins[first] + one) * self.choices + self.begins[second] + other;
                self.count += usize::from(!std::mem::replace(&mut self.met[at], true));
            }
        }
    }

    /// How many were met, and how many there are.
    pub fn met(&self) -> (usize, usize) {
        (self.count, self.choices * self.choices)
    }
}

/// A row that begins with a pair; each further factor, in random order, gets the choice with the most new pairs.
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
        // A random one of those that gain as much.
        let best = (0..sizes[factor]).map(|choice| (gain(choice), draw.number(), choice));
        let (gain, _, choice) = best.max().unwrap_or_default();
        gained += gain;
        chosen.push((factor, choice));
    }
    chosen.sort_unstable();
    let row = chosen.into_iter().map(|(_, choice)| choice).collect();
    (gained, Row(row))
}

/// Rows of which every pair of choices of two factors stands in one. Each factor has a choice at least.
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
        // Nine pairs of two factors need nine rows; forty factors of three choices have been done with 20.
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

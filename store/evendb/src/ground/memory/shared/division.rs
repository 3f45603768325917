//! How a budget is divided between databases: two pure functions.
//!
//! ```text
//!   bytes  |least|least|least|.......... the rest ..........|
//!                             by weight, each up to its want    divide: the parts that fit now
//!   parts  a part that falls:  falls at once, and its bytes count as held until they are given back
//!          a part that rises:  rises by what nobody holds       move_to
//! ```
//! The rest goes to the claims in proportion to their weights, but to none more than it wants: what
//! one does not want is divided between the others. What nobody wants stays free, so that the next
//! demand finds it at once.
//!
//! Not here: who claims what, and when ([`super`]).

/// What one database asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wish {
    /// Bytes that it has in any case.
    pub(super) least: u64,
    /// Bytes that it can use.
    pub(super) want: u64,
    /// Its weight beside the others; it is above 0.
    pub(super) weight: f64,
}

/// What one database may have, and has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Having {
    /// The bytes that it may have.
    pub(super) part: u64,
    /// The bytes that it has, as it told last.
    pub(super) held: u64,
}

/// The parts of `bytes` bytes. Their sum is at most `bytes`, unless the least parts alone are more.
pub(super) fn divide(wishes: &[Wish], bytes: u64) -> Vec<u64> {
    let mut parts: Vec<u64> = wishes.iter().map(|wish| wish.least).collect();
    let mut rest = bytes.saturating_sub(parts.iter().sum());
    let mut weights: f64 = wishes.iter().map(|wish| wish.weight).sum();
    let more = |at: usize| wishes[at].want.saturating_sub(wishes[at].least);
    // Those come first that want least for their weight: they get all that they want, and the
    // others divide what is left.
    let mut order: Vec<usize> = (0..wishes.len()).collect();
    let price = |at: usize| more(at) as f64 / wishes[at].weight;
    order.sort_by(|&a, &b| price(a).total_cmp(&price(b)));
    for at in order {
        let share = rest as f64 * (wishes[at].weight / weights).clamp(0.0, 1.0);
        let share = more(at).min(share as u64);
        parts[at] += share;
        rest -= share;
        weights -= wishes[at].weight;
    }
    parts
}

/// The next parts on the way to `goals`, which are a division of `bytes`. The sum of what each
/// database may have or has, whichever is more, is then at most `bytes`, if it can be.
pub(super) fn move_to(goals: &[u64], havings: &[Having], bytes: u64) -> Vec<u64> {
    let mut parts: Vec<u64> = (goals.iter().zip(havings))
        .map(|(&goal, having)| goal.min(having.part.max(having.held)))
        .collect();
    let taken: u64 = (parts.iter().zip(havings))
        .map(|(&part, having)| part.max(having.held))
        .sum();
    let free = bytes.saturating_sub(taken);
    let asked: u64 = goals
        .iter()
        .zip(&parts)
        .map(|(goal, part)| goal - part)
        .sum();
    let given = (free as f64 / asked.max(1) as f64).min(1.0);
    for (&goal, part) in goals.iter().zip(&mut parts) {
        *part += ((goal - *part) as f64 * given) as u64;
    }
    parts
}

#[cfg(test)]
#[cfg(not(any(evendb_loom, evendb_shuttle)))]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    fn wish(least: u64, want: u64, weight: f64) -> Wish {
        Wish {
            least,
            want,
            weight,
        }
    }

    #[test]
    fn who_wants_little_gets_it_and_the_others_divide_the_rest_by_weight() {
        let wishes = [
            wish(10, 20, 1.0),
            wish(10, 1000, 1.0),
            wish(10, 1000, 3.0),
            wish(10, 5, 1.0),
        ];
        assert_eq!(divide(&wishes, 140), [20, 33, 77, 10]);
        assert_eq!(divide(&wishes, 40), [10; 4]);
        assert_eq!(divide(&wishes, 0), [10; 4], "the least is theirs anyway");
        assert_eq!(divide(&wishes, 1 << 20), [20, 1000, 1000, 10]);
        assert_eq!(divide(&[], 10), [0; 0]);
    }

    #[test]
    fn a_part_rises_only_by_what_nobody_holds() {
        let having = |part, held| Having { part, held };
        // The first one still holds what it shall give back.
        let first = move_to(&[20, 80], &[having(90, 90), having(10, 10)], 100);
        assert_eq!(first, [20, 10]);
        let second = move_to(&[20, 80], &[having(20, 50), having(10, 10)], 100);
        assert_eq!(second, [20, 50]);
        let third = move_to(&[20, 80], &[having(20, 20), having(50, 50)], 100);
        assert_eq!(third, [20, 80]);
        // It holds more than its part anyway: as much may be called its part.
        assert_eq!(move_to(&[90], &[having(10, 60)], 60), [60]);
    }

    /// Whatever databases want and hold, no sum is above the budget, from round to round.
    #[test]
    fn sums_stay_within_the_budget() {
        const BYTES: u64 = 1 << 20;
        let mut random = StdRng::seed_from_u64(1);
        for _ in 0..200 {
            let count = random.random_range(1..30usize);
            let mut havings = vec![Having::default(); count];
            for _ in 0..20 {
                let wishes: Vec<Wish> = (0..count)
                    .map(|_| {
                        let least = random.random_range(0..BYTES / 30);
                        let want = random.random_range(0..BYTES);
                        wish(least, want, random.random_range(0.001..100.0))
                    })
                    .collect();
                let goals = divide(&wishes, BYTES);
                assert!(goals.iter().sum::<u64>() <= BYTES);
                for (goal, wish) in goals.iter().zip(&wishes) {
                    assert!(*goal >= wish.least && *goal <= wish.want.max(wish.least));
                }
                let parts = move_to(&goals, &havings, BYTES);
                let most = |part: u64, having: &Having| part.max(having.held);
                let sum: u64 = parts.iter().zip(&havings).map(|(&p, h)| most(p, h)).sum();
                assert!(sum <= BYTES, "{sum}");
                for (having, part) in havings.iter_mut().zip(parts) {
                    // It gives some back, or takes some of its part.
                    let held = match having.held > part {
                        true => random.random_range(part..=having.held),
                        false => random.random_range(0..=part),
                    };
                    *having = Having { part, held };
                }
            }
        }
    }
}

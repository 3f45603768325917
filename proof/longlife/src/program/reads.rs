//! Calls that read a thread's own keys: now, and at moments that are held.

use super::{HELD_MAX, Held, KEYS, Outcome, Program, words};
use crate::oracle::Space;
use crate::store::Span;

impl Program<'_> {
    pub(super) fn get(&mut self) -> Outcome {
        let space = self.space();
        let key = match self.draw.one_in(3) {
            true => self.any_key(),
            false => self.there(space),
        };
        let found = self.store.get(space, &key).map_err(words)?;
        let now = self.rules().now;
        self.hand
            .owner
            .check_get(space, &key, found.as_deref(), now)
    }

    pub(super) fn multi_get(&mut self) -> Outcome {
        let space = self.space();
        let keys: Vec<Vec<u8>> = (0..2 + self.draw.below(7))
            .map(|number| match number % 2 {
                0 => self.any_key(),
                _ => self.there(space),
            })
            .collect();
        let found = self.store.multi_get(space, &keys).map_err(words)?;
        let now = self.rules().now;
        for (key, value) in keys.iter().zip(&found) {
            self.hand
                .owner
                .check_get(space, key, value.as_deref(), now)?;
        }
        Ok(())
    }

    pub(super) fn span(&mut self) -> (Vec<u8>, Vec<u8>) {
        let low = self.draw.below(KEYS);
        let high = low + self.draw.below(150);
        (self.key(low), self.key(high))
    }

    pub(super) fn scan(&mut self) -> Outcome {
        let (space, span) = (self.space(), self.span());
        self.scan_between(space, span, false)
    }

    pub(super) fn scan_backward(&mut self) -> Outcome {
        let (space, span) = (self.space(), self.span());
        self.scan_between(space, span, true)
    }

    pub(super) fn scan_own(&mut self) -> Outcome {
        let own = |end: char| format!("t{}{end}", self.thread).into_bytes();
        let (span, backward) = ((own('/'), own('0')), self.draw.one_in(2));
        let space = self.space();
        self.scan_between(space, span, backward)
    }

    pub(super) fn scan_between(
        &mut self,
        space: Space,
        span: (Vec<u8>, Vec<u8>),
        backward: bool,
    ) -> Outcome {
        let asked = Span {
            low: span.0.clone(),
            high: Some(span.1.clone()),
            backward,
        };
        let mut found = self.store.scan(space, &asked).map_err(words)?;
        if backward {
            found.reverse();
        }
        let now = self.rules().now;
        let owner = &self.hand.owner;
        owner.check_scan(space, (&span.0, &span.1), &found, now)
    }

    /// Takes a snapshot, or looks at one that is held, and drops half of these.
    pub(super) fn snapshot(&mut self) -> Outcome {
        let held = self.hand.held.len();
        if held == 0 || (held < HELD_MAX && self.draw.one_in(3)) {
            let (space, span) = (self.space(), self.span());
            let at = self.store.snapshot().map_err(words)?;
            self.hand.held.push(Held {
                part: self.hand.owner.part(space, &span.0, &span.1),
                at,
                space,
                span,
                now: self.load.rules.now,
            });
            return Ok(());
        }
        let at = self.draw.below(held as u64) as usize;
        let moment = &self.hand.held[at];
        let span = Span {
            low: moment.span.0.clone(),
            high: Some(moment.span.1.clone()),
            backward: self.draw.one_in(2),
        };
        let found = self.store.scan_at(&moment.at, moment.space, &span);
        let mut found = found.map_err(words)?;
        if span.backward {
            found.reverse();
        }
        let part = &moment.part;
        let bounds = (&moment.span.0[..], &moment.span.1[..]);
        part.check_scan(moment.space, bounds, &found, moment.now)
            .map_err(|what| format!("at a moment that was held: {what}"))?;
        if let Some((key, value)) = found.first() {
            let got = self.store.get_at(&moment.at, moment.space, key);
            if got.map_err(words)?.as_ref() != Some(value) {
                return Err(format!("a get at a moment differs: {}", key.escape_ascii()));
            }
        }
        if self.draw.one_in(2) {
            self.hand.held.swap_remove(at);
        }
        Ok(())
    }
}

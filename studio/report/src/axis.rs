//! The place of a value along an axis, and the values that are written beside the axis.
//!
//! Invariant: both ends are finite and apart, so that every place is finite.

use crate::Unit;
use crate::words;

/// An axis between two places of the drawing.
pub(crate) struct Axis {
    low: f64,
    high: f64,
    log: bool,
    unit: Unit,
    from: f64,
    to: f64,
}

/// What an axis must show.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// The values, and zero where it is near: the horizontal axis.
    Tight,
    /// Zero, and round numbers at both ends: the vertical axis.
    Round,
    /// Just the values: sides of a map.
    Exact,
}

impl Axis {
    /// An axis for these values. None if it has a place for no value.
    pub(crate) fn new(
        values: impl Iterator<Item = f64>,
        unit: Unit,
        log: bool,
        ends: Ends,
    ) -> Option<Axis> {
        let values = values.filter(|&value| value.is_finite() && (!log || value > 0.0));
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        if low > high {
            return None;
        }
        let mut axis = Axis {
            low,
            high,
            log,
            unit,
            from: 0.0,
            to: 1.0,
        };
        match log {
            true => axis.open_log(ends),
            false => axis.open_linear(ends),
        }
        Some(axis)
    }

    fn open_log(&mut self, ends: Ends) {
        let ten = |power: f64| 10f64.powf(power.clamp(-305.0, 305.0));
        if ends == Ends::Round {
            self.low = ten(self.low.log10().floor());
            self.high = ten(self.high.log10().ceil());
        }
        if self.high <= self.low * 1.001 {
            let middle = self.low.log10();
            (self.low, self.high) = (ten(middle - 0.5), ten(middle + 0.5));
        }
    }

    fn open_linear(&mut self, ends: Ends) {
        let near_zero = ends == Ends::Tight && self.low < self.high * 0.15;
        if self.low > 0.0 && (ends == Ends::Round || near_zero) {
            self.low = 0.0;
        }
        if ends == Ends::Round && self.high < 0.0 {
            self.high = 0.0;
        }
        if ends != Ends::Exact && self.unit == Unit::Share && self.high > 0.6 && self.high < 1.0 {
            self.high = 1.0;
        }
        if self.high - self.low <= (self.high.abs() + self.low.abs()) * 1e-9 {
            let margin = self.high.abs().max(1e-300) * 0.1;
            (self.low, self.high) = match self.low {
                0.0 => (0.0, 1.0),
                low => (low - margin, low + margin),
            };
        }
        if ends == Ends::Round {
            let step = self.step(5.0);
            self.low = (self.low / step).floor() * step;
            self.high = (self.high / step - 1e-9).ceil() * step;
        }
    }

    /// The axis between two places of the drawing.
    pub(crate) fn between(mut self, from: f64, to: f64) -> Axis {
        (self.from, self.to) = (from, to);
        self
    }

    /// The place of a value. None if it is zero or below on a logarithmic axis.
    pub(crate) fn at(&self, value: f64) -> Option<f64> {
        let part = match self.log {
            false => (value - self.low) / (self.high - self.low),
            true if value > 0.0 => (value / self.low).ln() / (self.high / self.low).ln(),
            true => return None,
        };
        let part = if part.is_finite() {
            part.clamp(0.0, 1.0)
        } else {
            0.0
        };
        Some(self.from + part * (self.to - self.from))
    }

    /// The place of a value that lies between the ends, or on one.
    pub(crate) fn within(&self, value: f64) -> Option<f64> {
        let is_within = (self.low..=self.high).contains(&value);
        self.at(value).filter(|_| is_within)
    }

    /// Where it begins and ends.
    pub(crate) fn ends(&self) -> (f64, f64) {
        (self.from, self.to)
    }

    /// The place from which bars grow.
    pub(crate) fn ground(&self) -> f64 {
        self.at(0.0).unwrap_or(self.from)
    }

    /// Places and labels of about `count` values, in the axis's order.
    pub(crate) fn ticks(&self, count: usize) -> Vec<(f64, String)> {
        let values = match self.log {
            false => self.linear_ticks(count),
            true => self.log_ticks(count),
        };
        let placed = values
            .into_iter()
            .filter_map(|(value, label)| Some((self.at(value)?, label)));
        placed.collect()
    }

    /// A round step: about `count` of them fill the axis. It is 1, 2 or 5 of a power of ten in the
    /// written unit.
    fn step(&self, count: f64) -> f64 {
        let (divisor, _) = words::scale(self.high.abs().max(self.low.abs()), self.unit);
        let rough = (self.high - self.low) / divisor / count;
        let power = 10f64.powf(rough.log10().floor());
        let factors = [1.0, 2.0, 5.0, 10.0];
        let factor = factors
            .iter()
            .find(|&factor| factor * power >= rough * 0.999)
            .unwrap_or(&10.0);
        let whole = matches!(self.unit, Unit::Count | Unit::Bytes) && divisor == 1.0;
        let step = factor * power;
        if whole { step.max(1.0) } else { step * divisor }
    }

    fn linear_ticks(&self, count: usize) -> Vec<(f64, String)> {
        let largest = self.high.abs().max(self.low.abs());
        let (divisor, suffix) = words::scale(largest, self.unit);
        let step = self.step(count as f64);
        let digits = ((largest / step).log10().floor().max(0.0) as usize + 2).min(12);
        let first = (self.low / step - 1e-9).ceil();
        let mut ticks = Vec::new();
        // The bound holds if a step is lost in the digits of a large number.
        for at in 0..=count * 3 {
            let value = (first + at as f64) * step;
            if value > self.high + step * 1e-6 {
                break;
            }
            // A step that is nearly lost in rounding, like 1e-17 at zero.
            let value = if value.abs() < step * 1e-6 {
                0.0
            } else {
                value
            };
            ticks.push((value, words::in_scale(value, divisor, suffix, digits)));
        }
        ticks
    }

    fn log_ticks(&self, count: usize) -> Vec<(f64, String)> {
        let inside = |value: &f64| *value >= self.low * 0.999 && *value <= self.high * 1.001;
        let mut values: Vec<f64> = match self.unit {
            Unit::Bytes if self.high <= 1e18 && self.low >= 1.0 => {
                (0..60).map(|power| 2f64.powi(power)).collect()
            }
            // Seconds above ten are read as minutes, hours and days.
            Unit::Seconds if self.high > 60.0 => (-9..=1)
                .map(|power| 10f64.powi(power))
                .chain([60.0, 600.0, 3600.0, 21600.0, 86400.0, 604_800.0])
                .chain((7..300).map(|power| 10f64.powi(power)))
                .collect(),
            _ => (-305..=305).map(|power| 10f64.powi(power)).collect(),
        };
        values.retain(inside);
        if values.len() < 3 && self.unit != Unit::Bytes {
            let least = self.low.log10().floor();
            let fine = (0..=3).flat_map(|power| {
                [1.0, 2.0, 5.0].map(|factor| factor * 10f64.powf(least + f64::from(power)))
            });
            values = fine.filter(inside).collect();
        }
        if values.len() < 2 {
            values = vec![self.low, self.high];
        }
        let every = match self.unit {
            // Powers of two by 2, 4, 16, 32, 1024: so that 1 KiB and 1 MiB are among them.
            Unit::Bytes => [1, 2, 5, 10, 20, 40, 60]
                .into_iter()
                .find(|every| values.len() <= count * every)
                .unwrap_or(1),
            _ => values.len().div_ceil(count.max(1)),
        };
        let keep = |value: &f64| match self.unit {
            Unit::Bytes => (value.log2().round() as i64).rem_euclid(every as i64) == 0,
            _ => every == 1 || (value.log10().round() as i64).rem_euclid(every as i64) == 0,
        };
        if values.len() > count * 2 || (values.len() > count && self.unit != Unit::Seconds) {
            values.retain(keep);
        }
        let ticks = values.into_iter().map(|value| {
            // A round 60 is a minute, while 60.5 would still be written in seconds.
            let read_as = if self.unit == Unit::Seconds { 2.0 } else { 1.0 };
            let (divisor, suffix) = words::scale(value * read_as, self.unit);
            (value, words::in_scale(value, divisor, suffix, 3))
        });
        ticks.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(values: &[f64], unit: Unit, log: bool, ends: Ends) -> Vec<String> {
        let axis = Axis::new(values.iter().copied(), unit, log, ends).unwrap();
        axis.ticks(5).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_in_the_unit_that_is_written() {
        let linear = |values: &[f64], unit| labels(values, unit, false, Ends::Round);
        assert_eq!(
            linear(&[0.02, 0.93], Unit::Share),
            ["0", "20 %", "40 %", "60 %", "80 %", "100 %"]
        );
        assert_eq!(
            linear(&[1e3, 1.9e6], Unit::Count),
            ["0", "0.5 M", "1 M", "1.5 M", "2 M"]
        );
        assert_eq!(
            linear(&[0.0, 3.0], Unit::Count),
            ["0", "1", "2", "3"],
            "no half operations"
        );
        assert_eq!(
            labels(&[60.0, 1800.0], Unit::Seconds, false, Ends::Tight),
            ["0", "10 min", "20 min", "30 min"]
        );
        assert_eq!(
            linear(&[-0.4, 0.9], Unit::Number),
            ["&#8722;0.5", "0", "0.5", "1"]
        );
        let log = |values: &[f64], unit| labels(values, unit, true, Ends::Tight);
        assert_eq!(
            log(&[1.0, 1e4], Unit::Count),
            ["1", "10", "100", "1 k", "10 k"]
        );
        assert_eq!(
            log(&[4096.0, 4e9], Unit::Bytes),
            ["32 KiB", "1 MiB", "32 MiB", "1 GiB"]
        );
        assert_eq!(
            log(&[1.0, 90_000.0], Unit::Seconds),
            ["1 s", "10 s", "1 min", "10 min", "1 h", "6 h", "1 d"]
        );
        assert_eq!(
            log(&[20.0, 700.0], Unit::Nanoseconds),
            ["20 ns", "50 ns", "100 ns", "200 ns", "500 ns"]
        );
    }

    #[test]
    fn every_value_has_a_finite_place() {
        let most = f64::MAX.min(1e300);
        for values in [
            vec![0.0],
            vec![5.0, 5.0],
            vec![-3.0],
            vec![most, -most],
            vec![most],
            vec![1e-300, 1e300],
            vec![5e-324],
            vec![1e15, 1e15 + 1.0],
        ] {
            for (log, ends) in [
                (false, Ends::Tight),
                (false, Ends::Round),
                (true, Ends::Tight),
                (true, Ends::Round),
            ] {
                let axis = Axis::new(values.iter().copied(), Unit::Number, log, ends);
                let Some(axis) = axis.map(|axis| axis.between(10.0, 20.0)) else {
                    assert!(log && values.iter().all(|&value| value <= 0.0));
                    continue;
                };
                let places: Vec<f64> = values.iter().filter_map(|&value| axis.at(value)).collect();
                assert!(
                    places.iter().all(|place| (10.0..=20.0).contains(place)),
                    "{values:?}"
                );
                let ticks = axis.ticks(5);
                assert!((1..=20).contains(&ticks.len()), "{values:?}: {ticks:?}");
            }
        }
        assert!(Axis::new([0.0, -1.0].into_iter(), Unit::Count, true, Ends::Tight).is_none());
        assert!(Axis::new([].into_iter(), Unit::Count, false, Ends::Tight).is_none());
    }
}

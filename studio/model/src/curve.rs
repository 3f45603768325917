//! The curves that may describe a fall or a swing: their formulas, by name.
//!
//! | name | formula | parameters |
//! |---|---|---|
//! | power | a x^b | a, b |
//! | power-constant | a x^b + c | a, b, c |
//! | two-term-power | a x^b + c x^d | a, b, c, d |
//! | exponential | a e^(b x) | a, b |
//! | two-term-exponential | a e^(b x) + c e^(d x) | a, b, c, d |
//! | polynomial-1 to -4 | a + b x + c x^2 + ... | a, b, ... |
//! | weibull | a b x^(b - 1) e^(-a x^b), a density | a, b |
//! | sine | a sin(b x + c) + d, with a and b above 0 and c from 0 to 2 pi | a, b, c, d |
//!
//! The study's "two-term power" is the name of its toolbox for what is power-constant here: so both
//! are tried. Powers and weibull need x above 0.

use std::fmt;
use std::str::FromStr;

/// The kind of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// a x^b
    Power,
    /// a x^b + c
    PowerConstant,
    /// a x^b + c x^d
    TwoPowers,
    /// a e^(b x)
    Exponential,
    /// a e^(b x) + c e^(d x)
    TwoExponentials,
    /// a + b x + ..., up to this power of x, which is 1 to 4
    Polynomial(u8),
    /// a b x^(b - 1) e^(-a x^b)
    Weibull,
    /// a sin(b x + c) + d
    Sine,
}

/// The highest number of parameters of a curve.
pub const PARAMETERS_MAX: usize = 5;

impl Shape {
    /// All shapes, in the order of the documentation.
    pub const ALL: [Self; 11] = [
        Self::Power,
        Self::PowerConstant,
        Self::TwoPowers,
        Self::Exponential,
        Self::TwoExponentials,
        Self::Polynomial(1),
        Self::Polynomial(2),
        Self::Polynomial(3),
        Self::Polynomial(4),
        Self::Weibull,
        Self::Sine,
    ];

    /// The name in files and reports, which [`FromStr`] reads.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Power => "power",
            Self::PowerConstant => "power-constant",
            Self::TwoPowers => "two-term-power",
            Self::Exponential => "exponential",
            Self::TwoExponentials => "two-term-exponential",
            Self::Polynomial(1) => "polynomial-1",
            Self::Polynomial(2) => "polynomial-2",
            Self::Polynomial(3) => "polynomial-3",
            Self::Polynomial(_) => "polynomial-4",
            Self::Weibull => "weibull",
            Self::Sine => "sine",
        }
    }

    /// The number of its parameters.
    #[must_use]
    pub fn parameters(self) -> usize {
        match self {
            Self::Power | Self::Exponential | Self::Weibull => 2,
            Self::PowerConstant => 3,
            Self::TwoPowers | Self::TwoExponentials | Self::Sine => 4,
            Self::Polynomial(degree) => 1 + usize::from(degree.clamp(1, 4)),
        }
    }

    /// Whether it is defined for x above 0 only.
    #[must_use]
    pub fn needs_positive_x(self) -> bool {
        matches!(
            self,
            Self::Power | Self::PowerConstant | Self::TwoPowers | Self::Weibull
        )
    }

    /// The value at `x`.
    pub(crate) fn value(self, p: &[f64], x: f64) -> f64 {
        match self {
            Self::Power => p[0] * x.powf(p[1]),
            Self::PowerConstant => p[0] * x.powf(p[1]) + p[2],
            Self::TwoPowers => p[0] * x.powf(p[1]) + p[2] * x.powf(p[3]),
            Self::Exponential => p[0] * (p[1] * x).exp(),
            Self::TwoExponentials => p[0] * (p[1] * x).exp() + p[2] * (p[3] * x).exp(),
            Self::Polynomial(_) => p.iter().rev().fold(0.0, |sum, factor| sum * x + factor),
            Self::Weibull => p[0] * p[1] * x.powf(p[1] - 1.0) * (-p[0] * x.powf(p[1])).exp(),
            Self::Sine => p[0] * (p[1] * x + p[2]).sin() + p[3],
        }
    }

    /// The change of the value at `x` with each parameter. Places after the last parameter are left
    /// as they are.
    pub(crate) fn gradient(self, p: &[f64], x: f64, into: &mut [f64; PARAMETERS_MAX]) {
        let power = |b: f64| x.powf(b);
        match self {
            Self::Power | Self::PowerConstant => {
                into[0] = power(p[1]);
                into[1] = p[0] * power(p[1]) * x.ln();
                into[2] = 1.0;
            }
            Self::TwoPowers => {
                into[0] = power(p[1]);
                into[1] = p[0] * power(p[1]) * x.ln();
                into[2] = power(p[3]);
                into[3] = p[2] * power(p[3]) * x.ln();
            }
            Self::Exponential => {
                into[0] = (p[1] * x).exp();
                into[1] = p[0] * x * (p[1] * x).exp();
            }
            Self::TwoExponentials => {
                into[0] = (p[1] * x).exp();
                into[1] = p[0] * x * (p[1] * x).exp();
                into[2] = (p[3] * x).exp();
                into[3] = p[2] * x * (p[3] * x).exp();
            }
            Self::Polynomial(_) => {
                let mut of_x = 1.0;
                for place in into {
                    *place = of_x;
                    of_x *= x;
                }
            }
            Self::Weibull => {
                let (a, b, raised) = (p[0], p[1], power(p[1]));
                let density = self.value(p, x);
                into[0] = density * (1.0 / a - raised);
                into[1] = density * (1.0 / b + x.ln() * (1.0 - a * raised));
            }
            Self::Sine => {
                let (sine, cosine) = (p[1] * x + p[2]).sin_cos();
                into[0] = sine;
                into[1] = p[0] * x * cosine;
                into[2] = p[0] * cosine;
                into[3] = 1.0;
            }
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|shape| shape.name() == text);
        known.copied().ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|shape| shape.name()).collect();
            format!("unknown curve `{text}`; known are {}", names.join(", "))
        })
    }
}

/// A curve with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The kind.
    pub shape: Shape,
    /// The parameters of the shape, in the order of its formula.
    pub parameters: Vec<f64>,
}

impl Curve {
    /// A curve. `None` if the number of parameters is wrong, or one of them is not finite.
    #[must_use]
    pub fn new(shape: Shape, parameters: Vec<f64>) -> Option<Self> {
        let fits = parameters.len() == shape.parameters();
        let finite = parameters.iter().all(|one| one.is_finite());
        (fits && finite).then_some(Self { shape, parameters })
    }

    /// The value at `x`. Not a number if the curve is not defined there.
    #[must_use]
    pub fn value(&self, x: f64) -> f64 {
        self.shape.value(&self.parameters, x)
    }
}

impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.shape)?;
        for (name, value) in ["a", "b", "c", "d", "e"].iter().zip(&self.parameters) {
            write!(f, " {name}={value:.6}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for shape in Shape::ALL {
            assert_eq!(shape.name().parse(), Ok(shape));
            assert!(shape.parameters() <= PARAMETERS_MAX);
        }
        assert!("cubic".parse::<Shape>().is_err());
    }

    #[test]
    fn gradients_are_those_of_the_values() {
        for shape in Shape::ALL {
            let all = [0.7, 1.3, 0.4, 0.9, 0.2];
            let p = &all[..shape.parameters()];
            for x in [0.3, 1.0, 2.7] {
                let mut gradient = [0.0; PARAMETERS_MAX];
                shape.gradient(p, x, &mut gradient);
                for (place, slope) in gradient[..p.len()].iter().enumerate() {
                    let moved = |by: f64| {
                        let mut moved = p.to_vec();
                        moved[place] += by;
                        shape.value(&moved, x)
                    };
                    let seen = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                    assert!(
                        (seen - slope).abs() < 1e-6 * (1.0 + slope.abs()),
                        "{shape} {place}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_curve_has_its_parameters() {
        assert!(Curve::new(Shape::Power, vec![1.0]).is_none());
        assert!(Curve::new(Shape::Power, vec![1.0, f64::NAN]).is_none());
        let curve = Curve::new(Shape::Polynomial(2), vec![1.0, 2.0, 3.0]).unwrap();
        assert_eq!(curve.value(2.0), 17.0);
        assert_eq!(
            curve.to_string(),
            "polynomial-2 a=1.000000 b=2.000000 c=3.000000"
        );
    }
}

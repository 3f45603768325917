//! Which records a call means: a prefix or two bounds, in which order, and at most how many.

use super::bytes::Input;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::ops::Bound as Limit;

/// The keys from `low` to below `high`, or to the end.
#[derive(Clone, Default)]
pub(crate) struct Span {
    pub(crate) low: Vec<u8>,
    pub(crate) high: Option<Vec<u8>>,
    pub(crate) reverse: bool,
    pub(crate) limit: Option<u64>,
}

impl Span {
    pub(crate) fn of(
        prefix: Option<&Bound<'_, PyAny>>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Span> {
        let prefix = Input::of_optional(prefix, "prefix")?;
        let start = Input::of_optional(start, "start")?;
        let stop = Input::of_optional(stop, "stop")?;
        let Some(prefix) = prefix else {
            return Ok(Span {
                low: start.map_or_else(Vec::new, Input::into_vec),
                high: stop.map(Input::into_vec),
                ..Span::default()
            });
        };
        let mut span = Span {
            high: prefix_end(&prefix),
            low: prefix.into_vec(),
            ..Span::default()
        };
        // Bounds narrow a prefix.
        if let Some(start) = start
            && *start > *span.low
        {
            span.low = start.into_vec();
        }
        if let Some(stop) = stop
            && span.high.as_deref().is_none_or(|high| *stop < *high)
        {
            span.high = Some(stop.into_vec());
        }
        Ok(span)
    }

    /// With the order and the limit of a view.
    pub(crate) fn ordered(
        mut self,
        reverse: bool,
        limit: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Span> {
        self.reverse = reverse;
        self.limit = match limit {
            Some(limit) if !limit.is_none() => Some(limit_of(limit)?),
            _ => None,
        };
        Ok(self)
    }

    pub(crate) fn bounds(&self) -> (Limit<&[u8]>, Limit<&[u8]>) {
        let high = self.high.as_deref();
        (
            Limit::Included(&self.low),
            high.map_or(Limit::Unbounded, Limit::Excluded),
        )
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        *self.low <= *key && self.high.as_deref().is_none_or(|high| key < high)
    }
}

fn limit_of(limit: &Bound<'_, PyAny>) -> PyResult<u64> {
    let number: i64 = limit
        .extract()
        .map_err(|_| PyTypeError::new_err("limit must be a whole number or None"))?;
    u64::try_from(number).map_err(|_| PyValueError::new_err("limit must not be negative"))
}

/// The least key above all keys that begin with `prefix`; `None` if there is no such key.
pub(crate) fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

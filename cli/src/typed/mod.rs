//! Keys and values that are more than bytes: their types, how these are remembered, and how they
//! become bytes and text.

pub(crate) mod key_types;
pub(crate) mod keys;
pub(crate) mod values;

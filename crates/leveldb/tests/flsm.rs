//! The tests of reading and of opening once more, over the second engine: `common::creating` sees that it is this test binary.

#[path = "opening.rs"]
mod opening;
#[path = "reading.rs"]
mod reading;

//! What was measured: latencies, the result of a phase and the figures that follow from it, whether
//! its rate still falls, and what an ideal cache could do.

pub mod course;
pub mod ideal_cache;
pub mod phase_result;
pub mod recorder;

//! Workloads, drivers and measurements, for every store that implements one small trait.

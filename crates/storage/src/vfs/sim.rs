//! Simulated files.
/// Simulated file system.
#[derive(Debug, Clone)]
pub struct SimVfs;
/// How a crash treats what was not synced.
#[derive(Debug, Clone, Copy)]
pub enum CrashMode {}
/// A fault to inject.
#[derive(Debug, Clone)]
pub struct Fault;
/// The kind of an injected fault.
#[derive(Debug, Clone, Copy)]
pub enum FaultKind {}

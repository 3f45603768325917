//! A flush that a call asks for: the current generation ends, and the call waits for its flush.

use crate::engine::Engine;
use crate::engine::write_path::Writer;
use crate::error::Result;
use crate::types::FileNumber;

/// After the return everything that was written before is in tables. The caller has entered the
/// gate.
pub(crate) fn flush_all(engine: &Engine) -> Result<()> {
    let newest = {
        let mut writer = engine.writes.writer.lock();
        end_generation(engine, &mut writer)?
    };
    wait_for(engine, newest)
}

/// Ends the current generation. Returns the number of the newest generation that waits then.
pub(crate) fn end_generation(engine: &Engine, writer: &mut Writer) -> Result<Option<FileNumber>> {
    engine.health.check_latched()?;
    writer.rotate(engine)?;
    Ok(engine.work.newest_waiting())
}

/// Waits until all generations up to this one are flushed.
pub(crate) fn wait_for(engine: &Engine, newest: Option<FileNumber>) -> Result<()> {
    match newest {
        Some(number) => engine.work.wait_for_flush(&engine.health, number),
        None => Ok(()),
    }
}

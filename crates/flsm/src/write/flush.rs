//! A flush that somebody asks for: the generation at hand ends, and its flush is waited for.

use crate::engine::Engine;
use crate::engine::write_path::Writer;
use crate::error::Result;
use crate::types::FileNumber;

/// Everything that was written before is in tables when this returns. The caller has entered.
pub(crate) fn flush_all(engine: &Engine) -> Result<()> {
    let newest = {
        let mut writer = engine.writes.writer.lock();
        end_generation(engine, &mut writer)?
    };
    wait_for(engine, newest)
}

/// Ends the generation. The newest one that waits then.
pub(crate) fn end_generation(engine: &Engine, writer: &mut Writer) -> Result<Option<FileNumber>> {
    engine.health.check_latched()?;
    writer.rotate(engine)?;
    Ok(engine.work.newest_waiting())
}

/// Waits until all up to this generation are flushed.
pub(crate) fn wait_for(engine: &Engine, newest: Option<FileNumber>) -> Result<()> {
    match newest {
        Some(number) => engine.work.wait_for_flush(&engine.health, number),
        None => Ok(()),
    }
}

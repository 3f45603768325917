//! A flush that somebody asks for: the generation at hand ends, and its flush is waited for.

use crate::engine::Engine;
use crate::error::Result;

/// Everything that was written before is in tables when this returns.
pub(crate) fn flush_all(engine: &Engine) -> Result<()> {
    let newest = {
        let mut writer = engine.writes.writer.lock();
        engine.health.check_latched()?;
        writer.rotate(engine)?;
        engine.work.newest_waiting()
    };
    match newest {
        Some(number) => engine.work.wait_for_flush(&engine.health, number),
        None => Ok(()),
    }
}

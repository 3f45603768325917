//! A store for tests of the driver: it keeps nothing, and the test says what its puts do.

use crate::store::{BatchWrite, Figure, Store, StoreResult};

/// Calls the function for each put; everything else does nothing, and finds nothing.
pub struct PutOnlyStore<F>(pub F);

impl<F: Fn() -> StoreResult<()> + Send + Sync> Store for PutOnlyStore<F> {
    fn name(&self) -> String {
        "put only".to_owned()
    }

    fn get(&self, _: &[u8], _: &mut dyn FnMut(&[u8])) -> StoreResult<bool> {
        Ok(false)
    }

    fn put(&self, _: &[u8], _: &[u8]) -> StoreResult<()> {
        (self.0)()
    }

    fn delete(&self, _: &[u8]) -> StoreResult<()> {
        Ok(())
    }

    fn scan(
        &self,
        _: &[u8],
        _: usize,
        _: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> StoreResult<usize> {
        Ok(0)
    }

    fn batch(&self, _: &[BatchWrite<'_>]) -> StoreResult<()> {
        Ok(())
    }

    fn stats(&self) -> Vec<Figure> {
        Vec::new()
    }

    fn settle_debt(&self) -> StoreResult<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> StoreResult<()> {
        Ok(())
    }
}

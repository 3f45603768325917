//! The trait that every store implements ([`store`]), what only some can do ([`purposes`]), the
//! stores that come with this crate, and what opens one by its name ([`opener`]). Adapters for
//! other engines live outside the default build.

/// The calls of [`Store`](crate::store::Store) that have the same names in both engines, for a type
/// with the field `database`.
macro_rules! same_calls {
    () => {
        fn get(&self, key: &[u8], check: &mut dyn FnMut(&[u8])) -> StoreResult<bool> {
            let found = self.database.get(key);
            match found.map_err(|error| StoreError::new("get", error))? {
                Some(value) => {
                    check(&value);
                    Ok(true)
                }
                None => Ok(false),
            }
        }

        fn put(&self, key: &[u8], value: &[u8]) -> StoreResult<()> {
            let put = self.database.put(key, value);
            put.map_err(|error| StoreError::new("put", error))
        }

        fn delete(&self, key: &[u8]) -> StoreResult<()> {
            let deleted = self.database.delete(key);
            deleted.map_err(|error| StoreError::new("delete", error))
        }

        fn batch(&self, writes: &[BatchWrite<'_>]) -> StoreResult<()> {
            let keyspace = self.database.default_keyspace();
            let mut batch = self.database.batch();
            for write in writes {
                match write {
                    BatchWrite::Put(key, value) => batch.put(keyspace, key, value),
                    BatchWrite::Delete(key) => batch.delete(keyspace, key),
                };
            }
            let committed = batch.commit();
            committed.map_err(|error| StoreError::new("batch", error))
        }

        fn both_ends(&self) -> Option<&dyn BothEndsStore> {
            Some(self)
        }

        fn stats(&self) -> Vec<Figure> {
            figures(&self.database.stats())
        }

        fn settle_debt(&self) -> StoreResult<()> {
            let settled = self.database.settle_debt();
            settled.map_err(|error| StoreError::new("settle_debt", error))
        }

        fn close(self: Box<Self>) -> StoreResult<()> {
            let closed = self.database.close();
            closed.map_err(|error| StoreError::new("close", error))
        }
    };
}

/// Lends up to `$limit` records to `$each`, until that returns `false`; `$next` gets one record
/// after the other from an engine's cursor. Returns how many were lent.
macro_rules! lend {
    ($operation:literal: $next:expr, $limit:expr, $each:expr) => {{
        let mut lent = 0;
        while lent < $limit {
            let next = $next.map_err(|error| StoreError::new($operation, error))?;
            let Some((key, value)) = next else {
                break;
            };
            lent += 1;
            if !$each(key, value) {
                break;
            }
        }
        Ok(lent)
    }};
}

pub mod evendb;
pub mod flsm;
pub mod memory;
pub mod opener;
pub mod purposes;
#[cfg(test)]
pub(crate) mod put_only;
pub mod store;
pub mod traced;
pub mod undone;

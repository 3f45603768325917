//! The mutex of drivers. In tests it is shuttle's, which tries orders of the threads' steps.

#[cfg(not(test))]
pub(super) use parking_lot::Mutex;

/// The same functions over shuttle's mutex.
#[cfg(test)]
#[derive(Default)]
pub(super) struct Mutex<T>(shuttle::sync::Mutex<T>);

#[cfg(test)]
impl<T> Mutex<T> {
    pub(super) fn new(inner: T) -> Mutex<T> {
        Mutex(shuttle::sync::Mutex::new(inner))
    }

    pub(super) fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|broken| broken.into_inner())
    }

    pub(super) fn get_mut(&mut self) -> &mut T {
        self.0
            .get_mut()
            .unwrap_or_else(|broken| broken.into_inner())
    }
}

//! Futures that are ready at their first poll.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Polls once, with a waker that does nothing.
pub fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// The output of a future that must be ready at its first poll.
pub fn at_once<F: Future>(future: F) -> F::Output {
    match poll_once(future) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it is not ready at the first poll"),
    }
}

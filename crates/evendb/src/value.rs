//! [`Value`]: what a get returns, without a copy.

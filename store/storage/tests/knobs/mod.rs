//! Variables of the environment for the tests of all crates: the size of a campaign, a seed, a
//! switch.
//!
//! A variable with a value that the test cannot use fails the test. Otherwise the run would be
//! taken for the one that was asked for. No I/O except reading the environment.

#![allow(dead_code, reason = "every test binary uses its own part")]

use std::env;
use std::ffi::OsString;
use std::fmt::Display;

/// A number: a seed or a place. Any number will do.
pub fn number_from_env(name: &str, default: u64) -> u64 {
    told(number(env::var_os(name), default), name)
}

/// A number of things to do, or a stride: at least 1. With 0 the test would do nothing and pass, or
/// never end.
pub fn count_from_env(name: &str, default: u64) -> u64 {
    told(count(env::var_os(name), default), name)
}

/// A switch: on for `1`, off for `0` and if it is not set.
pub fn flag_from_env(name: &str) -> bool {
    told(flag(env::var_os(name)), name)
}

/// One of `choices`, by the text that it shows; all of them if the variable is not set.
pub fn choice_from_env<T: Copy + Display>(name: &str, choices: &[T]) -> Vec<T> {
    told(choice(env::var_os(name), choices), name)
}

fn told<T>(read: Result<T, String>, name: &str) -> T {
    read.unwrap_or_else(|what| panic!("the environment variable {name} {what}"))
}

/// [`number_from_env`] for the variable's value.
pub fn number(held: Option<OsString>, default: u64) -> Result<u64, String> {
    let Some(held) = held else {
        return Ok(default);
    };
    let digits = held
        .to_str()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("is {held:?}, and has to be a number, in digits alone"))
}

/// [`count_from_env`] for the variable's value.
pub fn count(held: Option<OsString>, default: u64) -> Result<u64, String> {
    match number(held, default)? {
        0 => Err("is 0, and has to be at least 1".to_owned()),
        count => Ok(count),
    }
}

/// [`flag_from_env`] for the variable's value.
pub fn flag(held: Option<OsString>) -> Result<bool, String> {
    match held.as_ref().map(|held| held.to_str()) {
        Some(Some("1")) => Ok(true),
        None | Some(Some("0")) => Ok(false),
        Some(_) => Err(format!(
            "is {:?}, and has to be 1 or 0, or not set",
            held.unwrap_or_default()
        )),
    }
}

/// [`choice_from_env`] for the variable's value.
pub fn choice<T: Copy + Display>(held: Option<OsString>, choices: &[T]) -> Result<Vec<T>, String> {
    let Some(held) = held else {
        return Ok(choices.to_vec());
    };
    let shown = |choice: &T| choice.to_string();
    match choices
        .iter()
        .find(|choice| held.to_str() == Some(&shown(choice)))
    {
        Some(choice) => Ok(vec![*choice]),
        None => {
            let all: Vec<String> = choices.iter().map(shown).collect();
            Err(format!("is {held:?}, and has to be one of {all:?}"))
        }
    }
}

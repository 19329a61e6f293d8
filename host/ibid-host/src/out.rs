//! What is said on standard output. Whoever reads it may go away in the middle (`| head`): that ends nothing, least of all a clone that is
//! half done. Any other failure, as of a disk that is full, is told at the end.

use crate::failure::Failure;
use std::fmt;
use std::io::{ErrorKind, Write};
use std::sync::OnceLock;

/// The first thing that could not be written, and why.
static FIRST_ERROR: OnceLock<String> = OnceLock::new();

/// Says something; [`out!`] and [`outln!`] are the words for it. False when it was not heard: for those with nothing to do but to be heard.
pub(crate) fn write_args(what: fmt::Arguments<'_>) -> bool {
    let mut stdout = std::io::stdout().lock();
    let said = stdout.write_fmt(what).and_then(|()| stdout.flush());
    if let Err(error) = &said
        && error.kind() != ErrorKind::BrokenPipe
    {
        // The first one tells why; what comes after it is no news.
        let _ = FIRST_ERROR.set(error.to_string());
    }
    said.is_ok()
}

/// An error when something that was said is lost, though somebody still listens.
pub(crate) fn check() -> Result<(), Failure> {
    FIRST_ERROR.get().map_or(Ok(()), |error| Err(Failure::Wrong(format!("standard output: {error}"))))
}

/// Says something on standard output.
macro_rules! out {
    ($($arg:tt)*) => { $crate::out::write_args(format_args!($($arg)*)) };
}

/// Says a line on standard output.
macro_rules! outln {
    ($($arg:tt)*) => { $crate::out::write_args(format_args!("{}\n", format_args!($($arg)*))) };
}

pub(crate) use {out, outln};

//! A text from stdin.

use std::io::{self, Read as _};

/// Reads it; none if it has more than so many bytes, beside a line break of any kind at its end.
///
/// # Errors
///
/// When stdin cannot be read, or is no UTF-8.
pub fn text(bytes_max: usize) -> io::Result<Option<String>> {
    // One byte more than fits, to see that there is more.
    let limit = bytes_max + "\r\n".len() + 1;
    let mut text = Vec::new();
    io::stdin().lock().take(limit as u64).read_to_end(&mut text)?;
    // Before its letters are looked at, of which the last may be cut.
    if text.len() == limit {
        return Ok(None);
    }
    String::from_utf8(text).map(Some).map_err(io::Error::other)
}

//! Headers, found by their names in one pass: a request has few of them, and to look one up in the map its name has to be hashed.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// The values of one header.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Values<'a> {
    first: Option<&'a HeaderValue>,
    are_more: bool,
}

impl<'a> Values<'a> {
    /// Returns the first one.
    pub fn first(self) -> Option<&'a HeaderValue> {
        self.first
    }

    /// Returns the value of a header that stands once.
    pub fn only(self) -> Option<&'a HeaderValue> {
        self.first.filter(|_| !self.are_more)
    }

    /// Goes through all of them; `headers` and `name` are what they were found by.
    pub fn all(self, headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
        let others = self.are_more.then(|| headers.get_all(name).iter().skip(1));
        let all = self.first.into_iter().chain(others.into_iter().flatten());
        all.map(HeaderValue::as_bytes)
    }
}

/// Finds the values of some headers.
pub(super) fn find<'a, const N: usize>(headers: &'a HeaderMap, names: &[HeaderName; N]) -> [Values<'a>; N] {
    let mut found = [Values::default(); N];
    for (name, value) in headers {
        let Some(at) = names.iter().position(|wanted| wanted == name) else {
            continue;
        };
        found[at] = Values {
            first: found[at].first.or(Some(value)),
            are_more: found[at].first.is_some(),
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_found_with_what_stands_first_and_whether_that_is_all() {
        let mut headers = HeaderMap::new();
        let names = ["host", "x-a", "mcp-name", "accept"].map(HeaderName::from_static);
        for (name, value) in [
            ("x-a", "1"),
            ("host", "h"),
            ("x-a", "2"),
            ("x-b", "3"),
            ("x-a", "4"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let found = find(&headers, &names);
        assert_eq!(
            found.map(|values| [values.first(), values.only()]),
            [
                [Some(&"h".parse().expect("a value")); 2],
                [Some(&"1".parse().expect("a value")), None],
                [None; 2],
                [None; 2],
            ]
        );
        let all = |at: usize| -> Vec<&[u8]> { found[at].all(&headers, &names[at]).collect() };
        assert_eq!([all(0), all(1)], [vec![&b"h"[..]], vec![b"1", b"2", b"4"]]);
        assert!(all(2).is_empty());
    }
}

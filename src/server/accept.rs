//! What a request says of the kind of content that it brings, and one at `/mcp` of those that it takes.
//!
//! MCP asks clients to take JSON and streams of events, and rmcp refuses the others. relay answers in JSON whoever
//! takes it, so that `curl --json` is a client, and sends events only to a client that names them.

use std::borrow::Cow;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;

use super::headers::{self, Values};
use super::json_rpc::Invalid;
use crate::engine::shown;

/// What rmcp wants to read in `Accept`.
pub(super) static BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

static JSON: HeaderValue = HeaderValue::from_static("application/json");

static CONTENT_TYPE: [HeaderName; 1] = [header::CONTENT_TYPE];

/// The kinds of answers that a client takes: JSON, events, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Accepted {
    /// True if it takes a stream of events, too, in which progress can be told.
    pub events: bool,
    /// True if it takes JSON as it is; who does not is sent it as an event.
    pub json: bool,
}

impl Accepted {
    /// Reads the headers of a `POST`, in which these values of two of them were found.
    ///
    /// # Errors
    ///
    /// 415 when the body is not said to be JSON, 406 when the answer may not be.
    pub fn by(
        headers: &HeaderMap,
        content_type: Values<'_>,
        accept: Values<'_>,
    ) -> Result<Self, Box<Response>> {
        // Word for word what MCP clients send, so that no list has to be read.
        if content_type.only() == Some(&JSON) && accept.only() == Some(&BOTH) {
            return Ok(Self {
                events: true,
                json: true,
            });
        }
        json_body(headers).map_err(|reason| {
            let refusal = Invalid::http(reason).response(StatusCode::UNSUPPORTED_MEDIA_TYPE);
            Box::new(refusal)
        })?;
        let accept = list_of(headers, header::ACCEPT);
        Self::in_list(&accept).ok_or_else(|| {
            let accept = shown(&accept);
            let reason = format!(
                "this request takes no answer that relay gives, its Accept is {accept:?}; accepted: application/json, text/event-stream, both for progress, or no Accept at all"
            );
            Box::new(Invalid::http(reason).response(StatusCode::NOT_ACCEPTABLE))
        })
    }

    /// Reads a list of kinds; none if neither JSON nor events are among them. An empty list takes everything.
    /// <https://www.rfc-editor.org/rfc/rfc9110#section-12.5.1>
    fn in_list(list: &str) -> Option<Self> {
        let (mut events, mut json) = (false, None);
        for range in list.split(',') {
            let mut parts = range.split(';');
            let kind = parts.next().unwrap_or_default().trim();
            let taken = !parts.any(is_weight_of_nothing);
            if kind.eq_ignore_ascii_case("text/event-stream") {
                events = taken;
            }
            let ranges = ["*/*", "application/*", "application/json"];
            let Some(precision) = ranges.iter().position(|range| kind.eq_ignore_ascii_case(range)) else {
                continue;
            };
            // The most precise range counts.
            if json.is_none_or(|(best, _)| precision > best) {
                json = Some((precision, taken));
            }
        }
        let takes_all = list.trim().is_empty();
        let json = takes_all || json.is_some_and(|(_, taken)| taken);
        (json || events).then_some(Self { events, json })
    }
}

/// Tells whether a parameter is a weight of zero, which takes a kind back.
fn is_weight_of_nothing(parameter: &str) -> bool {
    let Some((name, weight)) = parameter.split_once('=') else {
        return false;
    };
    name.trim().eq_ignore_ascii_case("q") && weight.trim().parse::<f32>().is_ok_and(|weight| weight == 0.0)
}

/// Sees to it that a request's body is said to be JSON, and nothing else; returns why it is refused with 415 if it is not.
pub(super) fn json_body(headers: &HeaderMap) -> Result<(), String> {
    let [content_type] = headers::find(headers, &CONTENT_TYPE);
    if content_type.only() == Some(&JSON) {
        return Ok(());
    }
    let content_type = list_of(headers, header::CONTENT_TYPE);
    if is_json(&content_type) {
        return Ok(());
    }
    let content_type = shown(&content_type);
    Err(format!(
        "content type {content_type:?} is not accepted; accepted: application/json"
    ))
}

/// Tells whether a content type is JSON, whatever its parameters are.
pub(super) fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// Returns all values of a header as one list.
fn list_of(headers: &HeaderMap, name: HeaderName) -> Cow<'_, str> {
    let mut values = headers.get_all(name).iter();
    let text = |value: &'_ HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    match (values.next(), values.next()) {
        (None, _) => Cow::Borrowed(""),
        (Some(only), None) => String::from_utf8_lossy(only.as_bytes()),
        (Some(first), Some(second)) => {
            let all = [first, second].into_iter().chain(values).map(text);
            Cow::Owned(all.collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_takes_json_is_served_and_who_names_events_gets_them() {
        let accepted = |events, json| Some(Accepted { events, json });
        let (json, both, events) = (accepted(false, true), accepted(true, true), accepted(true, false));
        for (list, expected) in [
            ("application/json, text/event-stream", both),
            ("text/event-stream;q=0.5,application/json", both),
            ("Application/JSON;q=0.9;charset=utf-8 , TEXT/event-stream", both),
            ("*/*, text/event-stream", both),
            ("application/json", json),
            ("application/*", json),
            ("*/*", json),
            ("text/html, */*;q=0.1", json),
            ("", json),
            (" ", json),
            ("application/json, text/event-stream;q=0", json),
            ("*/*;q=0, application/json", json),
            ("text/event-stream", events),
            ("text/event-stream, text/html", events),
            ("text/event-stream, application/json;q=0", events),
            ("text/event-stream, */*;q=0", events),
            ("text/event-stream;q=0", None),
            ("text/html", None),
            ("application/jsonp", None),
            ("application/json;q=0", None),
            ("application/json;q=0.000, */*", None),
            ("application/*;q=0, */*", None),
            (",", None),
        ] {
            assert_eq!(Accepted::in_list(list), expected, "{list:?}");
        }
    }

    #[test]
    fn a_header_that_stands_several_times_is_one_list() {
        let mut headers = HeaderMap::new();
        assert_eq!(list_of(&headers, header::ACCEPT), "");
        for (kind, list) in [
            ("text/html", "text/html"),
            ("image/png", "text/html, image/png"),
            ("application/json", "text/html, image/png, application/json"),
        ] {
            headers.append(header::ACCEPT, HeaderValue::from_static(kind));
            assert_eq!(list_of(&headers, header::ACCEPT), list);
        }
    }
}

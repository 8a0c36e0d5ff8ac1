//! Where relay pushes to, and how: as `POST /v1/nodes` says it, checked.

use axum::http::Uri;
use axum::http::uri::Scheme;
use serde::Deserialize;
use serde_json::{Value, json};

use super::auth::Auth;
use crate::engine::shown;
use crate::server::limits::PUSH_URL_BYTES_MAX;

/// A target.
pub struct Target {
    pub(super) uri: Uri,
    /// Without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// Whoever it is, it may be on another machine.
    pub(super) may_be_elsewhere: bool,
    pub(super) ack: AckMode,
    pub(super) auth: Auth,
}

/// What says that the target has taken a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AckMode {
    /// A receipt of the agent's, behind an answer of the target's that is good.
    Manual,
    /// An answer that is good.
    #[serde(rename = "on_2xx")]
    On2xx,
    /// An answer that says so.
    Response,
}

/// What is accepted as `auth`.
const AUTH_ACCEPTED: &str = r#"accepted: {"type": "none"}, {"type": "bearer", "token": "…"}, {"type": "static_headers", "headers": {"NAME": "…"}}, {"type": "hmac_sha256", "secret": "…"} with or without texts as "signature_header", "timestamp_header", "signed_payload" (timestamp.body or body), "prefix", "encoding" (hex), "signature_scheme" (standard-webhooks)"#;

/// What `delivery` has.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Delivery {
    url: String,
    ack_mode: Option<AckMode>,
    auth: Option<Value>,
    use_proxy: Option<bool>,
}

impl Target {
    /// Reads it, and checks that it is on this machine or on one of the hosts that are allowed.
    pub fn read(delivery: Value, allowed: &[String]) -> Result<Self, String> {
        if !delivery.is_object() {
            return Err(
                "\"delivery\" is no object; accepted: {\"url\": …, \"ack_mode\"?, \"auth\"?}".to_owned(),
            );
        }
        let Delivery {
            url,
            ack_mode,
            auth,
            use_proxy,
        } = serde_json::from_value(delivery).map_err(|error| format!("\"delivery\": {error}"))?;
        if use_proxy == Some(true) {
            return Err("\"use_proxy\" is true; accepted: false, or none: relay asks no proxy".to_owned());
        }
        let accepted = "accepted: http:// or https:// with a host and a path, without a user";
        if url.len() > PUSH_URL_BYTES_MAX {
            return Err(format!(
                "\"url\" has {} bytes; accepted: at most {PUSH_URL_BYTES_MAX}",
                url.len()
            ));
        }
        let uri: Uri = url
            .parse()
            .map_err(|error| format!("\"url\" is none ({error}); {accepted}"))?;
        let default_port = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => 80,
            Some(scheme) if *scheme == Scheme::HTTPS => 443,
            Some(_) | None => return Err(format!("\"url\" is of another scheme; {accepted}")),
        };
        let authority = uri.authority().map(|authority| authority.as_str());
        if authority.is_none_or(|authority| authority.contains('@')) {
            return Err(format!("\"url\" names a user, or no host; {accepted}"));
        }
        let host = uri.host().unwrap_or_default();
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_ascii_lowercase();
        let is_loopback = match host.parse::<std::net::IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => host == "localhost" || host.ends_with(".localhost"),
        };
        let may_be_elsewhere = allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(&host));
        if !is_loopback && !may_be_elsewhere {
            return Err(format!(
                "the host {:?} is not this machine; accepted: 127.0.0.1, [::1], localhost, and what relay serve --push-allow HOST names",
                shown(&host)
            ));
        }
        let auth = match auth {
            // Why it is none may have a secret in its words.
            Some(auth) => {
                serde_json::from_value(auth).map_err(|_| format!("\"auth\" is none; {AUTH_ACCEPTED}"))?
            }
            None => Auth::None,
        };
        auth.check()?;
        Ok(Self {
            port: uri.port_u16().unwrap_or(default_port),
            host,
            uri,
            may_be_elsewhere,
            ack: ack_mode.unwrap_or(AckMode::Manual),
            auth,
        })
    }

    /// Shows it without its secrets. Its path and its query may be one.
    pub fn shown(&self) -> Value {
        let (uri, more) = (&self.uri, self.uri.path_and_query());
        let scheme = uri.scheme_str().unwrap_or_default();
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let more = match more.map_or("/", |more| more.as_str()) {
            "/" => "",
            _ => "[redacted]",
        };
        let url = format!("{scheme}://{authority}/{more}");
        let ack_mode = match self.ack {
            AckMode::Manual => "manual",
            AckMode::On2xx => "on_2xx",
            AckMode::Response => "response",
        };
        json!({"url": url, "ack_mode": ack_mode, "auth": self.auth.shown()})
    }

    /// Returns how relay says who it is, as Agent Relay calls it.
    pub fn adapter(&self) -> &'static str {
        match self.auth {
            Auth::None => "http.none.v1",
            Auth::Bearer { .. } => "http.bearer.v1",
            Auth::StaticHeaders { .. } => "http.static_headers.v1",
            Auth::HmacSha256 { .. } => "http.hmac.v1",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(delivery: Value) -> Result<Target, String> {
        Target::read(delivery, &["Hooks.example".to_owned()])
    }

    #[test]
    fn only_this_machine_and_what_is_allowed_is_a_target() {
        for url in [
            "http://127.0.0.1:9/hook",
            "http://127.8.9.1/",
            "http://[::1]:9/hook",
            "https://localhost/hook?x=1",
            "http://a.localhost:8080",
            "https://hooks.example/x",
            "http://HOOKS.example:81/x",
        ] {
            assert!(read(json!({"url": url})).is_ok(), "{url}");
        }
        for (url, words) in [
            ("http://10.0.0.1/", "not this machine"),
            ("http://[::]/", "not this machine"),
            ("http://0.0.0.0/", "not this machine"),
            ("http://example.com/", "\"example.com\""),
            ("http://hooks.example.org/", "not this machine"),
            ("http://127.0.0.1.example.com/", "not this machine"),
            ("http://localhost.example.com/", "not this machine"),
            ("http://2130706433/", "not this machine"),
            ("ftp://127.0.0.1/", "another scheme"),
            ("/hook", "another scheme"),
            ("127.0.0.1:9", "another scheme"),
            ("http://me:secret@127.0.0.1/", "names a user"),
            ("http:// /", "is none"),
            ("", "is none"),
        ] {
            let told = read(json!({"url": url})).err().expect(url);
            assert!(told.contains(words) && told.contains("accepted"), "{url}: {told}");
            assert!(!told.contains("secret"), "{told}");
        }
    }

    #[test]
    fn what_is_shown_has_no_secret() {
        for (url, expected) in [
            ("http://localhost:9/hook/secret", "http://localhost:9/[redacted]"),
            ("http://localhost:9/?key=secret", "http://localhost:9/[redacted]"),
            ("http://localhost:9/", "http://localhost:9/"),
            ("https://localhost", "https://localhost/"),
        ] {
            let target =
                json!({"url": url, "ack_mode": "on_2xx", "auth": {"type": "bearer", "token": "secret"}});
            let shown = read(target).expect("a target").shown();
            let expected = json!({
                "url": expected, "ack_mode": "on_2xx", "auth": {"type": "bearer", "token": "[redacted]"},
            });
            assert_eq!(shown, expected);
        }
    }

    #[test]
    fn the_way_to_say_who_relay_is_has_the_name_that_agent_relay_gives_it() {
        for (auth, expected) in [
            (Value::Null, "http.none.v1"),
            (json!({"type": "bearer", "token": "secret"}), "http.bearer.v1"),
            (
                json!({"type": "static_headers", "headers": {"x-a": "secret"}}),
                "http.static_headers.v1",
            ),
            (json!({"type": "hmac_sha256", "secret": "secret"}), "http.hmac.v1"),
        ] {
            let target = read(json!({"url": "http://127.0.0.1:9/", "auth": auth})).expect("a target");
            assert_eq!(target.adapter(), expected);
        }
    }

    #[test]
    fn what_is_no_auth_is_refused_without_what_it_says() {
        for auth in [
            json!("Bearer hush"),
            json!(["hush"]),
            json!({"type": "hush"}),
            json!({"type": "bearer", "hush": "x"}),
            json!({"type": "bearer", "token": 4711}),
            json!({"type": "static_headers", "headers": "Authorization: Bearer hush"}),
            json!({"type": "static_headers", "headers": {"x-a": ["hush"]}}),
            json!({"type": "hmac_sha256", "secret": "hush", "encoding": "hush"}),
        ] {
            let told = read(json!({"url": "http://127.0.0.1:9/", "auth": auth})).err();
            assert_eq!(told, Some(format!("\"auth\" is none; {AUTH_ACCEPTED}")), "{auth}");
        }
        let told = read(json!("http://127.0.0.1:9/hush")).err().expect("it is wrong");
        assert!(told.contains("\"delivery\"") && !told.contains("hush"), "{told}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let told = |more: Value| {
            let mut delivery = json!({"url": "http://127.0.0.1:9/"});
            delivery
                .as_object_mut()
                .expect("one")
                .extend(more.as_object().expect("one").clone());
            read(delivery).err().expect("it is wrong")
        };
        assert!(told(json!({"ack_mode": "x"})).contains("`manual`, `on_2xx`, `response`"));
        assert!(told(json!({"colour": "red"})).contains("`colour`"));
        assert!(told(json!({"use_proxy": true})).contains("\"use_proxy\""));
        assert!(told(json!({"auth": {"type": "x"}})).contains("\"hmac_sha256\""));
        let long = format!("http://127.0.0.1/{}", "x".repeat(PUSH_URL_BYTES_MAX));
        assert!(told(json!({"url": long})).contains("accepted: at most 2048"));
        let longest = &long[..PUSH_URL_BYTES_MAX];
        assert!(read(json!({"url": longest})).is_ok());
    }
}

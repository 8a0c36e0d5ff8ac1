//! How relay says to a target who it is. No secret is ever shown.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::engine::shown;

/// What stands in the place of a secret.
const REDACTED: &str = "[redacted]";

/// Headers that relay sets itself.
const OWN: [&str; 9] = [
    "host",
    "content-type",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "x-relaycast-event",
    "x-relaycast-delivery",
    "expect",
];

/// A way to say who it is.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Auth {
    /// It does not.
    None,
    /// By a token.
    Bearer { token: String },
    /// By headers as they are.
    StaticHeaders { headers: BTreeMap<String, String> },
    /// By a signature over what is sent.
    #[serde(rename = "hmac_sha256")]
    HmacSha256 {
        secret: String,
        signature_header: Option<String>,
        timestamp_header: Option<String>,
        signed_payload: Option<SignedPayload>,
        prefix: Option<String>,
        #[serde(rename = "encoding")]
        _encoding: Option<Encoding>,
        signature_scheme: Option<Scheme>,
    },
}

/// What is signed.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum SignedPayload {
    #[serde(rename = "timestamp.body")]
    TimestampAndBody,
    #[serde(rename = "body")]
    Body,
}

/// How a signature is written.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Encoding {
    Hex,
}

/// A way to sign that others know, too.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum Scheme {
    #[serde(rename = "standard-webhooks")]
    StandardWebhooks,
}

/// What is signed, and when.
pub(super) struct Signed<'a> {
    /// The id of what is sent.
    pub id: &'a str,
    /// When, as it is shown.
    pub timestamp: &'a str,
    /// The same in seconds since 1970.
    pub seconds: i64,
    pub body: &'a [u8],
}

impl Auth {
    /// Checks that it makes headers, and none of those that relay sets itself.
    pub fn check(&self) -> Result<(), String> {
        let name = |given: &str| {
            let name = HeaderName::from_bytes(given.as_bytes())
                .map_err(|_| format!("{:?} is no name of a header", shown(given)))?;
            if OWN.contains(&name.as_str()) {
                return Err(format!(
                    "the header {name} is relay's to set; accepted: any other"
                ));
            }
            Ok(name)
        };
        match self {
            Self::None => Ok(()),
            Self::Bearer { token } => match HeaderValue::from_str(&format!("Bearer {token}")) {
                Ok(_) if !token.is_empty() => Ok(()),
                Ok(_) | Err(_) => {
                    Err("\"token\" is empty, or has characters that no header takes".to_owned())
                }
            },
            Self::StaticHeaders { headers } => {
                for (given, value) in headers {
                    let name = name(given)?;
                    HeaderValue::from_str(value).map_err(|_| {
                        format!("the value of the header {name} has characters that no header takes")
                    })?;
                }
                Ok(())
            }
            Self::HmacSha256 {
                secret,
                signature_header,
                timestamp_header,
                prefix,
                signature_scheme,
                ..
            } => {
                for given in [signature_header, timestamp_header].into_iter().flatten() {
                    name(given)?;
                }
                if HeaderValue::from_str(prefix.as_deref().unwrap_or_default()).is_err() {
                    return Err("\"prefix\" has characters that no header takes".to_owned());
                }
                if secret.is_empty() {
                    return Err("\"secret\" is empty".to_owned());
                }
                if signature_scheme.is_some() && standard_key(secret).is_none() {
                    return Err("\"secret\" is none of Standard Webhooks; accepted: base64, with whsec_ before it or without".to_owned());
                }
                Ok(())
            }
        }
    }

    /// Adds its headers. Those that it names a second time are set by the latter.
    ///
    /// # Errors
    ///
    /// Which of them cannot be set. Without it nobody could tell that relay has sent it.
    pub fn sign(&self, signed: &Signed<'_>, headers: &mut HeaderMap) -> Result<(), String> {
        let mut set = |name: &str, value: &str| {
            let parsed = HeaderName::from_bytes(name.as_bytes());
            let (Ok(parsed), Ok(mut value)) = (parsed, HeaderValue::from_str(value)) else {
                let name = shown(name);
                return Err(format!("the header {name:?} has characters that no header takes"));
            };
            value.set_sensitive(true);
            headers.insert(parsed, value);
            Ok(())
        };
        match self {
            Self::None => {}
            Self::Bearer { token } => set(header::AUTHORIZATION.as_str(), &format!("Bearer {token}"))?,
            Self::StaticHeaders { headers } => {
                for (name, value) in headers {
                    set(name, value)?;
                }
            }
            Self::HmacSha256 {
                secret,
                signature_scheme: Some(Scheme::StandardWebhooks),
                ..
            } => {
                let key = standard_key(secret).unwrap_or_default();
                let seconds = signed.seconds.to_string();
                let mac = mac(
                    &key,
                    &[signed.id.as_bytes(), b".", seconds.as_bytes(), b".", signed.body],
                );
                set("webhook-id", signed.id)?;
                set("webhook-timestamp", &seconds)?;
                set("webhook-signature", &format!("v1,{}", STANDARD.encode(mac)))?;
            }
            Self::HmacSha256 {
                secret,
                signature_header,
                timestamp_header,
                signed_payload,
                prefix,
                ..
            } => {
                let both = [signed.timestamp.as_bytes(), b".", signed.body];
                let parts = match signed_payload {
                    Some(SignedPayload::Body) => &both[2..],
                    Some(SignedPayload::TimestampAndBody) | None => &both,
                };
                let hex: String = mac(secret.as_bytes(), parts)
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                let prefix = prefix.as_deref().unwrap_or("sha256=");
                let name = |given: &Option<String>, usual: &str| given.as_deref().unwrap_or(usual).to_owned();
                set(&name(timestamp_header, "X-Relaycast-Timestamp"), signed.timestamp)?;
                set(
                    &name(signature_header, "X-Relaycast-Signature"),
                    &format!("{prefix}{hex}"),
                )?;
            }
        }
        Ok(())
    }

    /// Shows it without its secrets.
    pub fn shown(&self) -> Value {
        match self {
            Self::None => json!({"type": "none"}),
            Self::Bearer { .. } => json!({"type": "bearer", "token": REDACTED}),
            Self::StaticHeaders { headers } => {
                let headers: BTreeMap<&String, &str> = headers.keys().map(|name| (name, REDACTED)).collect();
                json!({"type": "static_headers", "headers": headers})
            }
            Self::HmacSha256 { signature_scheme, .. } => json!({
                "type": "hmac_sha256",
                "secret": REDACTED,
                "signature_scheme": signature_scheme.map(|Scheme::StandardWebhooks| "standard-webhooks"),
            }),
        }
    }
}

/// Returns the key that a secret of Standard Webhooks stands for.
fn standard_key(secret: &str) -> Option<Vec<u8>> {
    let secret = secret.strip_prefix("whsec_").unwrap_or(secret);
    STANDARD.decode(secret).ok().filter(|key| !key.is_empty())
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length is one");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auth(json: Value) -> Auth {
        serde_json::from_value(json).expect("a way")
    }

    fn headers(json: Value) -> BTreeMap<String, String> {
        let signed = Signed {
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
            timestamp: "2026-05-02T14:30:00.000Z",
            seconds: 1_614_265_330,
            body: br#"{"test": 2432232314}"#,
        };
        let way = auth(json);
        assert_eq!(way.check(), Ok(()));
        let mut headers = HeaderMap::new();
        way.sign(&signed, &mut headers).expect("it signs");
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            assert!(value.is_sensitive());
            (name.to_string(), value.to_str().expect("text").to_owned())
        };
        headers.iter().map(text).collect()
    }

    fn of(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn each_way_has_its_headers() {
        assert_eq!(headers(json!({"type": "none"})), of(&[]));
        let bearer = json!({"type": "bearer", "token": "t"});
        assert_eq!(headers(bearer), of(&[("authorization", "Bearer t")]));
        let fixed = json!({"type": "static_headers", "headers": {"X-A": "1", "x-b": "2"}});
        assert_eq!(headers(fixed), of(&[("x-a", "1"), ("x-b", "2")]));
    }

    /// `openssl dgst -sha256 -hmac secret` of the same bytes.
    #[test]
    fn a_signature_is_over_the_time_and_the_body() {
        let stamped = headers(json!({"type": "hmac_sha256", "secret": "secret"}));
        let expected = of(&[
            ("x-relaycast-timestamp", "2026-05-02T14:30:00.000Z"),
            (
                "x-relaycast-signature",
                "sha256=6984afb6d33c0c8c88d366a0a3e3a93250c46eb7e4dd29ec7df1b281cdc0e801",
            ),
        ]);
        assert_eq!(stamped, expected);
        let of_body = json!({
            "type": "hmac_sha256", "secret": "secret", "signed_payload": "body", "prefix": "", "signature_header": "X-Sig",
            "timestamp_header": "X-At", "encoding": "hex",
        });
        let expected = of(&[
            ("x-at", "2026-05-02T14:30:00.000Z"),
            (
                "x-sig",
                "c4be5c092d907fa240f2da524c1fd82913705379274d113cacd5ec3a667ad4d4",
            ),
        ]);
        assert_eq!(headers(of_body), expected);
    }

    /// The example of its specification.
    #[test]
    fn standard_webhooks_are_signed_as_their_specification_has_it() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let way = json!({"type": "hmac_sha256", "secret": secret, "signature_scheme": "standard-webhooks"});
        let expected = of(&[
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", "1614265330"),
            (
                "webhook-signature",
                "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            ),
        ]);
        assert_eq!(headers(way), expected);
    }

    #[test]
    fn what_cannot_be_signed_is_not_sent_without_a_header() {
        let way =
            json!({"type": "hmac_sha256", "secret": "aHVzaA==", "signature_scheme": "standard-webhooks"});
        let signed = Signed {
            id: "evt_\n",
            timestamp: "2026-05-02T14:30:00.000Z",
            seconds: 1_614_265_330,
            body: b"{}",
        };
        let told = auth(way).sign(&signed, &mut HeaderMap::new());
        let expected = "the header \"webhook-id\" has characters that no header takes";
        assert_eq!(told, Err(expected.to_owned()));
    }

    #[test]
    fn what_makes_no_headers_is_refused_without_the_secret() {
        for (way, words) in [
            (json!({"type": "bearer", "token": ""}), "\"token\""),
            (json!({"type": "bearer", "token": "hush\n"}), "\"token\""),
            (
                json!({"type": "static_headers", "headers": {"a b": "hush"}}),
                "\"a b\"",
            ),
            (
                json!({"type": "static_headers", "headers": {"x-a": "hush\n"}}),
                "x-a",
            ),
            (
                json!({"type": "static_headers", "headers": {"X-Relaycast-Delivery": "hush"}}),
                "x-relaycast-delivery",
            ),
            (
                json!({"type": "static_headers", "headers": {"Host": "hush"}}),
                "host",
            ),
            (json!({"type": "hmac_sha256", "secret": ""}), "\"secret\""),
            (
                json!({"type": "hmac_sha256", "secret": "hush", "signature_header": "Content-Length"}),
                "content-length",
            ),
            (
                json!({"type": "hmac_sha256", "secret": "hush", "timestamp_header": "Host"}),
                "host",
            ),
            (
                json!({"type": "hmac_sha256", "secret": "hush!", "signature_scheme": "standard-webhooks"}),
                "base64",
            ),
            (
                json!({"type": "hmac_sha256", "secret": "hush", "prefix": "\n"}),
                "\"prefix\"",
            ),
        ] {
            let told = auth(way.clone()).check().expect_err("it makes none");
            assert!(told.contains(words), "{way}: {told}");
            assert!(!told.contains("hush"), "{told}");
            assert!(!auth(way).shown().to_string().contains("hush"));
        }
    }
}

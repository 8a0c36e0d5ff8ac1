//! Who may connect: this machine's programs, not the web pages that its browser shows; with a token, whoever has it.

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use subtle::ConstantTimeEq as _;

use super::wire::Link;
use super::{Shared, headers, refuse, v1};

/// How a token is carried.
const SCHEME: &str = "Bearer";

/// What a client that has no token, or a wrong one, is asked for: <https://www.rfc-editor.org/rfc/rfc6750#section-3>.
const NO_TOKEN: HeaderValue = HeaderValue::from_static("Bearer realm=\"relay\"");
const WRONG_TOKEN: HeaderValue = HeaderValue::from_static("Bearer realm=\"relay\", error=\"invalid_token\"");

/// The headers by which it is told who may connect.
static LOOKED_AT: [HeaderName; 3] = [AUTHORIZATION, HOST, ORIGIN];

/// A secret that every request must carry as `Authorization: Bearer <token>`.
#[derive(Clone)]
pub struct Token(String);

/// Why a text is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a token has at least 16 characters, all of them printable ASCII without spaces; this one has {length}"
)]
pub struct InvalidToken {
    length: usize,
}

impl std::str::FromStr for Token {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        if text.len() >= 16 && text.bytes().all(|b| b.is_ascii_graphic()) {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidToken {
            length: text.chars().count(),
        })
    }
}

/// Keeps the secret out of every log.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Returns the value of the header that carries it, marked so that nothing shows it.
    pub fn header(&self) -> HeaderValue {
        let header = HeaderValue::try_from(format!("{SCHEME} {}", self.0));
        let mut header = header.expect("a token is printable ASCII");
        header.set_sensitive(true);
        header
    }

    /// Returns it as text, for a program that relay starts.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Tells whether a header carries it: the scheme in any case, one space or more, the token.
    /// <https://www.rfc-editor.org/rfc/rfc9110#section-11.4>
    fn is_carried_by(&self, header: &[u8]) -> bool {
        let Some((scheme, rest)) = header.split_at_checked(SCHEME.len()) else {
            return false;
        };
        let given = rest.trim_ascii_start();
        scheme.eq_ignore_ascii_case(SCHEME.as_bytes()) && rest.starts_with(b" ") && self.is(given)
    }

    /// Compares in a time that does not tell how much of it was right.
    fn is(&self, given: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(given).into()
    }
}

/// The rule for one relay.
#[derive(Debug, Clone)]
pub struct Guard {
    /// Where it listens: an origin of the same port is its own.
    pub port: u16,
    /// Asked of every request, but of the ones for which the system vouches. Without it only loopback names are answered, so that no web page can reach the
    /// relay under a name of its own. The port in `Host` is not looked at: a forwarded port has another number, and a
    /// page that has made its own name point here (DNS rebinding) still sends that name.
    pub token: Option<Token>,
}

impl Guard {
    /// Returns why a request is not let in. `is_own_user` says that the system vouches for its sender: a process of the
    /// relay's own user, which could read the token anyway.
    pub(super) fn refusal<'a>(
        &self,
        uri: &'a Uri,
        headers: &'a HeaderMap,
        is_own_user: bool,
    ) -> Option<Refusal<'a>> {
        let [given, host, origin] = headers::find(headers, &LOOKED_AT);
        if let Some(token) = self.token.as_ref().filter(|_| !is_own_user) {
            let is_right = |given: &HeaderValue| token.is_carried_by(given.as_bytes());
            if !given.only().is_some_and(is_right) {
                return Some(match given.first() {
                    None => Refusal::NoToken,
                    Some(_) => Refusal::WrongToken,
                });
            }
        } else {
            let authority = uri.authority().map(|authority| authority.as_str().as_bytes());
            if host.first().is_none() && authority.is_none() {
                return Some(Refusal::Host(b""));
            }
            let mut hosts = host.all(headers, &HOST).chain(authority);
            if let Some(host) = hosts.find(|host| !is_loopback(host)) {
                return Some(Refusal::Host(host));
            }
        }
        let mut origins = origin.all(headers, &ORIGIN);
        origins
            .find(|origin| !self.is_own_origin(origin))
            .map(Refusal::Origin)
    }

    fn is_own_origin(&self, origin: &[u8]) -> bool {
        let Some(authority) = origin.strip_prefix(b"http://") else {
            return false;
        };
        let port = std::str::from_utf8(authority).ok().and_then(port_of);
        is_loopback(authority) && port.unwrap_or(80) == self.port
    }
}

/// Why a request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal<'a> {
    /// It carries no token.
    NoToken,
    /// It carries a wrong token, or several.
    WrongToken,
    /// Its host, which is this one, is not this machine.
    Host(&'a [u8]),
    /// It comes from a page of this origin.
    Origin(&'a [u8]),
}

impl Refusal<'_> {
    fn status(self) -> StatusCode {
        match self {
            Self::NoToken | Self::WrongToken => StatusCode::UNAUTHORIZED,
            Self::Host(_) | Self::Origin(_) => StatusCode::FORBIDDEN,
        }
    }

    /// Returns the word for it in the API.
    fn code(self) -> &'static str {
        match self {
            Self::NoToken => "relay_token_required",
            Self::WrongToken => "relay_token_invalid",
            Self::Host(_) | Self::Origin(_) => "not_let_in",
        }
    }

    /// Says what is wrong and what is accepted by a relay at a port.
    fn reason(self, port: u16) -> String {
        let shown = |value| crate::engine::shown(&String::from_utf8_lossy(value));
        match self {
            Self::NoToken => {
                "this relay wants a token; send the header Authorization: Bearer <token>".to_owned()
            }
            Self::WrongToken => {
                "this relay has another token than the one that was sent; send the header Authorization: Bearer <token> with the one that it was started with"
                    .to_owned()
            }
            Self::Host(host) => format!(
                "host {:?} is not this machine; accepted: localhost, 127.x.x.x, [::1], or any host if relay is started with --token",
                shown(host)
            ),
            Self::Origin(origin) => format!(
                "origin {:?} may not use this relay; accepted: none, or http://localhost:{port}",
                shown(origin)
            ),
        }
    }
}

/// Tells whether an authority, `name` or `name:port`, is a name of this machine.
fn is_loopback(authority: &[u8]) -> bool {
    let text = |bytes| std::str::from_utf8(bytes).unwrap_or_default();
    let name = match authority.iter().rposition(|byte| *byte == b':') {
        Some(at) if text(&authority[at + 1..]).parse::<u16>().is_ok() => &authority[..at],
        Some(_) | None => authority,
    };
    // First what most clients name. 127.0.0.2 is this machine too, and relay may be told to listen there.
    name == b"127.0.0.1"
        || name.eq_ignore_ascii_case(b"localhost")
        || name == b"[::1]"
        || text(name)
            .parse()
            .is_ok_and(|address: Ipv4Addr| address.is_loopback())
}

fn port_of(authority: &str) -> Option<u16> {
    let (_, port) = authority.rsplit_once(':')?;
    port.parse().ok()
}

/// Tells whether it is asked what a server says of itself: <https://www.rfc-editor.org/rfc/rfc8615>; some clients put the path of what they
/// want before it.
fn is_well_known(uri: &Uri) -> bool {
    uri.path().contains("/.well-known/")
}

/// Takes the token out of a request that is let in: whatever is logged of it behind the door cannot show it.
pub(super) fn hide_token(headers: &mut HeaderMap) {
    if headers.keys().any(|name| *name == AUTHORIZATION) {
        headers.remove(AUTHORIZATION);
    }
}

/// Lets a request in, without the token that it has shown, or answers 401 or 403 with the reason.
pub(super) async fn check(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let guard = &shared.guard;
    let link = request.extensions().get::<ConnectInfo<Link>>();
    let is_own_user = link.is_some_and(|ConnectInfo(link)| link.is_own_user());
    let is_v1 = v1::is_under(request.uri());
    let Some(refusal) = guard.refusal(request.uri(), request.headers(), is_own_user) else {
        if is_v1 {
            // Where the relay's own token was shown, a token of the API stands elsewhere.
            let guarded = guard.token.is_some() && !is_own_user;
            let shown = v1::Shown::take(request.headers_mut(), guarded);
            request.extensions_mut().insert(shown);
        }
        hide_token(request.headers_mut());
        return next.run(request).await;
    };
    // A client that is refused looks there for how to log in by OAuth: that there is no such thing is told to whoever asks.
    let is_of_token = matches!(refusal, Refusal::NoToken | Refusal::WrongToken);
    if is_of_token && is_well_known(request.uri()) {
        return refuse(
            StatusCode::NOT_FOUND,
            "there is nothing here; relay knows no OAuth",
        );
    }
    let (status, reason) = (refusal.status(), refusal.reason(guard.port));
    let mut response = if is_v1 {
        v1::Failure::new(status, refusal.code(), reason).into_response()
    } else {
        refuse(status, reason)
    };
    let challenge = match refusal {
        Refusal::NoToken => Some(NO_TOKEN),
        Refusal::WrongToken => Some(WRONG_TOKEN),
        Refusal::Host(_) | Refusal::Origin(_) => None,
    };
    if let Some(challenge) = challenge {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_is_shown_in_a_log_says_only_that_it_is_one() {
        let token = "correct-horse-battery"
            .parse::<Token>()
            .expect("it is long enough");
        assert_eq!(format!("{token:?}"), "Token");
    }

    #[test]
    fn who_is_let_in_has_left_the_token_at_the_door() {
        let mut headers = HeaderMap::new();
        headers.insert(
            AUTHORIZATION,
            HeaderValue::from_static("Bearer correct-horse-battery"),
        );
        headers.insert("host", HeaderValue::from_static("localhost"));
        hide_token(&mut headers);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["host"]);
    }

    fn status(guard: &Guard, headers: &[(&'static str, &str)]) -> Option<u16> {
        let headers = headers.iter().map(|(name, value)| {
            let name = axum::http::HeaderName::from_static(name);
            (name, value.parse().expect("a header's value"))
        });
        let (uri, headers) = (Uri::from_static("/mcp"), headers.collect());
        let refusal = guard.refusal(&uri, &headers, false);
        refusal.map(|refusal| refusal.status().as_u16())
    }

    #[test]
    fn without_a_token_only_names_of_this_machine_are_answered() {
        let guard = Guard {
            port: 7331,
            token: None,
        };
        for good in [
            "localhost:7331",
            "LOCALHOST",
            "127.0.0.1:7331",
            "127.0.0.2",
            "127.255.0.1:80",
            "[::1]:7331",
            "[::1]",
            "localhost:80",
        ] {
            assert_eq!(status(&guard, &[("host", good)]), None, "{good}");
        }
        for bad in [
            "evil.example",
            "evil.example:7331",
            "localhost.evil.example",
            "127.0.0.1.evil.example:7331",
            "128.0.0.1",
            "127.1",
            "0.0.0.0",
            "",
            "::1",
            "localhost:x",
        ] {
            assert_eq!(status(&guard, &[("host", bad)]), Some(403), "{bad}");
        }
        assert_eq!(status(&guard, &[]), Some(403), "no host at all");
    }

    #[test]
    fn a_web_page_is_refused_unless_it_is_the_relays_own() {
        let guard = Guard {
            port: 7331,
            token: None,
        };
        let host = ("host", "localhost:7331");
        for good in [
            "http://localhost:7331",
            "http://127.0.0.1:7331",
            "http://[::1]:7331",
        ] {
            assert_eq!(status(&guard, &[host, ("origin", good)]), None, "{good}");
        }
        for bad in [
            "http://evil.example",
            "null",
            "http://localhost:3000",
            "https://localhost:7331",
            "http://localhost",
            "http://localhost:7331.evil.example",
        ] {
            assert_eq!(status(&guard, &[host, ("origin", bad)]), Some(403), "{bad}");
        }
    }

    #[test]
    fn a_token_is_asked_of_every_request() {
        let token: Token = "0123456789abcdef".parse().expect("long enough");
        let guard = Guard {
            port: 7331,
            token: Some(token),
        };
        assert_eq!(status(&guard, &[("host", "box.lan:7331")]), Some(401));
        let wrong = ("authorization", "Bearer 0123456789abcdeX");
        assert_eq!(status(&guard, &[("host", "box.lan:7331"), wrong]), Some(401));
        let right = ("authorization", "Bearer 0123456789abcdef");
        assert_eq!(status(&guard, &[("host", "box.lan:7331"), right]), None);
        for right in ["bearer 0123456789abcdef", "BEARER   0123456789abcdef"] {
            assert_eq!(status(&guard, &[("authorization", right)]), None, "{right}");
        }
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer0123456789abcdef",
            "Bearer\t0123456789abcdef",
            "Bearer 0123456789abcdef0",
            "Bearer 0123456789ABCDEF",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
        ] {
            assert_eq!(status(&guard, &[("authorization", wrong)]), Some(401), "{wrong}");
        }
        let twice = [right, ("authorization", "Bearer 0123456789abcdeX")];
        let headers = |pair: &[(&'static str, &'static str)]| {
            let pair = pair.iter().map(|&(name, value)| {
                let name = axum::http::HeaderName::from_static(name);
                (name, HeaderValue::from_static(value))
            });
            let mut headers = HeaderMap::new();
            for (name, value) in pair {
                headers.append(name, value);
            }
            headers
        };
        let (uri, twice) = (Uri::from_static("/mcp"), headers(&twice));
        let refusal = guard.refusal(&uri, &twice, false);
        assert_eq!(refusal, Some(Refusal::WrongToken), "two of them");
        assert_eq!(
            status(&guard, &[right, ("origin", "http://evil.example")]),
            Some(403)
        );
        for bad in ["", "short", "with spaces in it, and long"] {
            assert!(bad.parse::<Token>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_process_of_the_relays_own_user_needs_no_token_and_a_name_of_this_machine() {
        let token = "0123456789abcdef".parse().expect("long enough");
        let (port, token) = (7331, Some(token));
        let guard = Guard { port, token };
        let uri = Uri::from_static("/mcp");
        let refusal = |name: &'static str, value: &'static str| {
            let mut headers =
                HeaderMap::from_iter([(axum::http::header::HOST, HeaderValue::from_static("localhost"))]);
            headers.insert(name, HeaderValue::from_static(value));
            let refusal = guard.refusal(&uri, &headers, true);
            refusal.map(|refusal| refusal.status().as_u16())
        };
        assert_eq!(refusal("host", "localhost"), None);
        assert_eq!(refusal("host", "evil.example"), Some(403));
        assert_eq!(refusal("origin", "http://evil.example"), Some(403));
    }
}

//! Which web pages may ask. Checked on every request, before an upgrade too: CORS alone never sees those. Without a list only
//! pages on this machine may, and only under a loopback name, so that a foreign name that points here (DNS rebinding) is of no use.

use std::net::{Ipv4Addr, Ipv6Addr};

use actix_cors::Cors;
use actix_web::HttpMessage;
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::{self, HeaderMap, HeaderName};
use actix_web::middleware::Next;
use actix_web::web::Data;

use super::{State, error};
use crate::protocol::{Code, Refusal};

/// The rule that decides which pages may ask.
#[derive(Clone, Debug)]
pub(super) struct Origins {
    listed: Vec<String>,
    hosts: Vec<String>,
}

impl Origins {
    /// Pages of exactly these origins; without any, pages on loopback under loopback names or `hosts`.
    pub(super) fn new(listed: &[String], hosts: &[String]) -> Self {
        Self { listed: listed.to_vec(), hosts: hosts.iter().map(|host| host.to_ascii_lowercase()).collect() }
    }

    /// Whether a page of this origin may ask.
    pub(super) fn allows(&self, origin: &str) -> bool {
        if self.is_local() {
            return split_origin(origin).is_some_and(|authority| host_of(authority).is_some_and(is_loopback));
        }
        self.listed.iter().any(|listed| listed == origin)
    }

    fn is_local(&self) -> bool {
        self.listed.is_empty()
    }

    fn allows_host(&self, host: &str) -> bool {
        let Some(name) = host_of(host) else { return false };
        !self.is_local() || is_loopback(name) || self.hosts.iter().any(|known| name.eq_ignore_ascii_case(known))
    }

    /// Checks a request's `Origin` and `Host`. Requests that no browser made have no `Origin`.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if let Some(host) = headers.get(header::HOST)
            && !host.to_str().is_ok_and(|host| self.allows_host(host))
        {
            return Err(refused("this Host is not a loopback name; list it in server.hosts, or the pages that may ask in server.origins"));
        }
        let mut origins = headers.get_all(header::ORIGIN);
        match (origins.next(), origins.next()) {
            (None, _) => Ok(()),
            (Some(origin), None) if origin.to_str().is_ok_and(|origin| self.allows(origin)) => Ok(()),
            (Some(_), _) => Err(refused("pages of this origin may not ask; list it in server.origins")),
        }
    }
}

fn refused(message: &str) -> Refusal {
    Refusal::new(Code::OriginRefused, message)
}

/// The `host[:port]` of an origin with a scheme that pages have.
fn split_origin(origin: &str) -> Option<&str> {
    origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"))
}

/// The host of `host[:port]`, brackets of an IPv6 address kept; nothing when it isn't one.
fn host_of(authority: &str) -> Option<&str> {
    let end = if authority.starts_with('[') { authority.find(']')? + 1 } else { authority.find(':').unwrap_or(authority.len()) };
    let (host, rest) = authority.split_at(end);
    let port_is_fine = match rest.strip_prefix(':') {
        None => rest.is_empty(),
        Some(port) => port.parse::<u16>().is_ok() && !port.starts_with('+'),
    };
    (port_is_fine && !host.is_empty()).then_some(host)
}

fn is_loopback(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback());
    }
    let host = host.to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost") || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

/// Refuses what comes from pages that may not ask.
pub(super) async fn guard(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let refusal = request.app_data::<Data<State>>().and_then(|state| state.origins.check(request.headers()).err());
    match refusal {
        None => next.call(request).await.map(ServiceResponse::map_into_boxed_body),
        Some(refusal) => {
            request.extensions_mut().insert(refusal.code);
            Ok(request.into_response(error::answer(&refusal)))
        }
    }
}

/// The CORS answers for the pages that may ask.
pub(super) fn cors(origins: Origins) -> Cors {
    Cors::default()
        .allowed_origin_fn(move |origin, _| origin.to_str().is_ok_and(|origin| origins.allows(origin)))
        .allowed_methods([Method::GET, Method::HEAD, Method::POST, Method::PATCH, Method::DELETE, Method::OPTIONS])
        .allowed_headers([
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            header::ACCEPT,
            HeaderName::from_static("x-run-id"),
            HeaderName::from_static("last-event-id"),
        ])
        .expose_headers([header::ALLOW, header::LOCATION, header::RETRY_AFTER])
        .max_age(600)
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        map
    }

    #[test]
    fn without_a_list_pages_on_loopback_may_ask() {
        let origins = Origins::new(&[], &[]);
        for fine in ["http://localhost:5173", "http://127.0.0.1", "https://app.localhost:8443", "http://[::1]:3000", "http://127.9.9.9:1"] {
            assert!(origins.allows(fine), "{fine}");
        }
        for bad in [
            "null",
            "",
            "http://",
            "https://evil.example",
            "http://localhost.evil.example",
            "http://127.0.0.1.evil.example",
            "http://evil.example:80#localhost",
            "http://localhost:80@evil.example",
            "http://localhost@evil.example",
            "http://localhost:+80",
            "http://[::1].evil.example",
            "http://[::1",
            "file://localhost",
            "http://10.0.0.1",
        ] {
            assert!(!origins.allows(bad), "{bad}");
        }
    }

    #[test]
    fn a_list_is_exact() {
        let origins = Origins::new(&["https://app.example.com".to_owned(), "http://localhost:3000".to_owned()], &[]);
        assert!(origins.allows("https://app.example.com"));
        for bad in [
            "https://app.example.com.evil.example",
            "https://app.example.com:8443",
            "http://app.example.com",
            "https://APP.example.com",
            "https://evil-app.example.com",
            "http://localhost:3001",
            "null",
        ] {
            assert!(!origins.allows(bad), "{bad}");
        }
    }

    #[test]
    fn a_foreign_name_for_this_machine_is_refused() {
        let local = Origins::new(&[], &["headwater".to_owned()]);
        for fine in ["localhost:8080", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST", "headwater:8080"] {
            assert!(local.check(&headers(&[("host", fine)])).is_ok(), "{fine}");
        }
        for bad in ["rebound.example:8080", "10.0.0.7", "localhost.evil.example", ""] {
            assert_eq!(local.check(&headers(&[("host", bad)])).unwrap_err().code, Code::OriginRefused, "{bad}");
        }
        let listed = Origins::new(&["https://app.example.com".to_owned()], &[]);
        assert!(listed.check(&headers(&[("host", "api.example.com"), ("origin", "https://app.example.com")])).is_ok());
    }

    #[test]
    fn no_origin_is_fine_and_two_are_not() {
        let origins = Origins::new(&[], &[]);
        assert!(origins.check(&headers(&[("host", "localhost")])).is_ok());
        assert!(origins.check(&headers(&[("origin", "http://localhost"), ("origin", "http://localhost")])).is_err());
    }
}

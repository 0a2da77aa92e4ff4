//! The HTTP client that reaches a service. May not know what is asked.

use std::time::Duration;

use reqwest::{Client, Url};

/// Makes ring the process's provider of TLS, once. Every client needs it.
pub fn install_tls() {
    // An error says that there is one already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A client for the service at `url`. It keeps connections and uses them again; it follows no redirects. What comes of it belongs to the
/// thread that uses it first.
pub fn client(url: &Url, connect: Duration) -> Result<Client, reqwest::Error> {
    install_tls();
    let builder = Client::builder()
        .user_agent(concat!("headwater/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(connect)
        .tcp_nodelay(true);
    // Plain HTTP needs no certificates, which a bare machine doesn't have; this machine itself needs no proxy.
    let builder = if url.scheme() == "http" { builder.tls_certs_only([]) } else { builder };
    let builder = if is_local(url) { builder.no_proxy() } else { builder };
    builder.build()
}

fn is_local(url: &Url) -> bool {
    matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"))
}

//! Who asks. The only place where a tenant comes into being; credentials will be read here.

use std::convert::Infallible;
use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};

use crate::ids::{SessionId, SessionKey, Tenant};

/// Whoever sent a request.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// Whose sessions the request sees.
    pub(super) tenant: Tenant,
}

impl Caller {
    /// Where the caller's session `session` is kept.
    pub(super) fn key(&self, session: SessionId) -> SessionKey {
        SessionKey { tenant: self.tenant.clone(), session }
    }
}

impl FromRequest for Caller {
    type Error = Infallible;
    type Future = Ready<Result<Self, Infallible>>;

    fn from_request(_: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Ok(Self { tenant: Tenant::default_tenant() }))
    }
}

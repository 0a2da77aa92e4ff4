//! Requests whose body nobody read to its end. The library goes on reading a chunked one for ever, so that its connection could
//! be used again; here it is closed instead, and a peer that goes on sending is cut. Bodies with a length have an end.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use actix_web::HttpMessage;
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::error::PayloadError;
use actix_web::http::ConnectionType;
use actix_web::http::header::TRANSFER_ENCODING;
use actix_web::middleware::Next;
use actix_web::rt;
use actix_web::web::Bytes;
use futures_util::Stream;

use super::server::Cutter;

/// The answer reaches the peer within so long; then the connection is cut.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

/// Sees to it that a body without end ends with its answer.
pub(super) async fn guard(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    if !request.headers().contains_key(TRANSFER_ENCODING) {
        return next.call(request).await.map(ServiceResponse::map_into_boxed_body);
    }
    let cutter = request.conn_data::<Cutter>().cloned();
    let ended = Rc::new(Cell::new(false));
    let watched = Watched { inner: request.take_payload(), ended: ended.clone() };
    request.set_payload(Payload::Stream { payload: Box::pin(watched) });
    let mut response = next.call(request).await?.map_into_boxed_body();
    if !ended.get() {
        response.response_mut().head_mut().set_connection_type(ConnectionType::Close);
        if let Some(cutter) = cutter {
            rt::spawn(async move {
                tokio::time::sleep(ANSWERED_WITHIN).await;
                cutter.cut();
            });
        }
    }
    Ok(response)
}

/// A body that tells when it has been read to its end.
struct Watched {
    inner: Payload,
    ended: Rc<Cell<bool>>,
}

impl Stream for Watched {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(Pin::new(&mut self.inner).poll_next(context));
        self.ended.set(self.ended.get() || next.is_none());
        Poll::Ready(next)
    }
}

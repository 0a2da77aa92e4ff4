//! A worker's program, as somebody might write one: an HTTP server that asks the test what to answer.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use actix_web::http::StatusCode;
use actix_web::web::{self, Bytes, Data, PayloadConfig};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

/// What it answers: a status and a body.
type Said = (u16, String);

/// A running program; it ends with the test.
pub struct Program {
    pub address: SocketAddr,
    pub questions: mpsc::UnboundedReceiver<Question>,
    handle: actix_web::dev::ServerHandle,
}

/// A decision that it is asked.
pub struct Question {
    pub headers: HashMap<String, String>,
    pub body: Value,
    answer: oneshot::Sender<Said>,
}

impl Program {
    /// Starts one, on a free port.
    pub fn start() -> Self {
        let (asks, questions) = mpsc::unbounded_channel();
        let (started, starts) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
                let address = listener.local_addr().expect("an address");
                let app = move || {
                    App::new().app_data(Data::new(asks.clone())).app_data(PayloadConfig::new(64 << 20)).default_service(web::to(decide))
                };
                let server = HttpServer::new(app).workers(1).disable_signals().listen(listener).expect("a server").run();
                started.send((address, server.handle())).expect("the test waits");
                server.await.expect("it ends well");
            });
        });
        let (address, handle) = starts.recv().expect("it starts");
        Self { address, questions, handle }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.handle.stop(false));
    }
}

async fn decide(request: HttpRequest, asks: Data<mpsc::UnboundedSender<Question>>, body: Bytes) -> HttpResponse {
    assert_eq!((request.method().as_str(), request.path()), ("POST", "/decide"));
    let headers = request.headers().iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()));
    let (answer, said) = oneshot::channel();
    let question = Question { headers: headers.collect(), body: serde_json::from_slice(&body).expect("a decision is JSON"), answer };
    let said = if asks.send(question).is_ok() { said.await } else { Ok((500, String::new())) };
    let (status, body) = said.unwrap_or((500, String::new()));
    HttpResponse::build(StatusCode::from_u16(status).expect("a status")).content_type("application/json").body(body)
}

impl Question {
    /// Answers with this status and this body; whether anybody waited for it.
    pub fn say(self, status: u16, body: &str) -> bool {
        self.answer.send((status, body.to_owned())).is_ok()
    }

    /// Answers with what is proposed.
    pub fn proposed(self) -> bool {
        let proposed = self.body["proposed"].to_string();
        self.say(200, &proposed)
    }

    /// Which decision.
    pub fn id(&self) -> Value {
        self.body["decision_id"].clone()
    }

    /// What happened.
    pub fn trigger(&self) -> &str {
        self.body["trigger"]["type"].as_str().unwrap_or_default()
    }
}

//! The route table: one line a route, from which the server is configured and against which its description is held. A path that is
//! there for other methods says which.

use actix_web::http::Method;
use actix_web::http::header::ALLOW;
use actix_web::web::{self, PathConfig, QueryConfig, ServiceConfig};
use actix_web::{HttpMessage, HttpRequest, HttpResponse, Route};

use super::{agents, decisions, error, events, health, inputs, openapi, records, resume, sessions, ws};
use crate::protocol::{Code, Refusal};

/// One method of one path.
struct Line {
    method: Method,
    path: &'static str,
    /// Whether HEAD asks the same: not where an answer streams or an upgrade is meant.
    head: bool,
    to: fn() -> Route,
}

/// A GET whose HEAD says the same.
const fn get(path: &'static str, to: fn() -> Route) -> Line {
    Line { method: Method::GET, path, head: true, to }
}

/// Any other method.
const fn line(method: Method, path: &'static str, to: fn() -> Route) -> Line {
    Line { method, path, head: false, to }
}

/// The table. Lines of one path stand together.
const TABLE: &[Line] = &[
    line(Method::GET, "/agents/{agent}", || web::to(agents::open)),
    line(Method::POST, "/agents/{agent}", || web::to(agents::run)),
    line(Method::GET, "/agents/{agent}/ws", || web::to(agents::open)),
    get("/agents/{agent}/capabilities", || web::to(resume::capabilities)),
    line(Method::POST, "/agents/{agent}/connect", || web::to(agents::connect)),
    line(Method::POST, "/agents/{agent}/stop/{thread}", || web::to(agents::stop)),
    line(Method::POST, "/v1/inputs", || web::to(inputs::anywhere)),
    get("/v1/sessions", || web::to(sessions::list)),
    get("/v1/sessions/{session}", || web::to(sessions::page)),
    line(Method::PATCH, "/v1/sessions/{session}", || web::to(sessions::update)),
    line(Method::DELETE, "/v1/sessions/{session}", || web::to(sessions::erase)),
    line(Method::POST, "/v1/sessions/{session}/inputs", || web::to(inputs::here)),
    get("/v1/sessions/{session}/tree", || web::to(sessions::tree)),
    line(Method::GET, "/v1/sessions/{session}/events", || web::to(events::events)),
    get("/v1/sessions/{session}/records", || web::to(records::page)),
    line(Method::POST, "/v1/sessions/{session}/records", || web::to(records::import)),
    line(Method::POST, "/v1/sessions/{session}/head", || web::to(sessions::move_head)),
    line(Method::POST, "/v1/sessions/{session}/fork", || web::to(sessions::fork)),
    line(Method::POST, "/v1/decisions/{decision}", || web::to(decisions::answer)),
    line(Method::GET, "/v1/ws", || web::to(ws::native)),
    line(Method::GET, "/v1/worker", || web::to(ws::worker)),
    get("/healthz", || web::to(health::alive)),
    get("/readyz", || web::to(health::ready)),
    get("/metrics", || web::to(health::metrics)),
    get("/openapi.json", || web::to(openapi::document)),
];

/// The server's routes.
pub fn configure(app: &mut ServiceConfig) {
    app.app_data(PathConfig::default().error_handler(|error, _| bad("path", &error)))
        .app_data(QueryConfig::default().error_handler(|error, _| bad("query", &error)));
    for lines in TABLE.chunk_by(|one, next| one.path == next.path) {
        let mut allowed = Vec::new();
        let mut resource = web::resource(lines[0].path);
        for line in lines {
            allowed.push(line.method.to_string());
            resource = resource.route((line.to)().method(line.method.clone()));
            if line.head {
                allowed.push(Method::HEAD.to_string());
                resource = resource.route((line.to)().method(Method::HEAD));
            }
        }
        let allowed = allowed.join(", ");
        app.service(resource.default_service(web::to(move |request: HttpRequest| {
            let answer = wrong_method(&request, &allowed);
            async move { answer }
        })));
    }
    #[cfg(feature = "echo")]
    app.route("/", web::get().to(ws::echo));
    app.default_service(web::to(no_route));
}

async fn no_route() -> Result<HttpResponse, error::Failure> {
    let text = "there is no such route; an agent answers at /agents/{agent}, and /openapi.json describes all routes";
    Err(Refusal::new(Code::NotFound, text).into())
}

fn wrong_method(request: &HttpRequest, allowed: &str) -> HttpResponse {
    let refusal = Refusal::new(Code::MethodNotAllowed, format!("this route is there for {allowed}"));
    request.extensions_mut().insert(refusal.code);
    let mut answer = error::answer(&refusal);
    if let Ok(allowed) = allowed.parse() {
        answer.headers_mut().insert(ALLOW, allowed);
    }
    answer
}

fn bad(what: &str, error: &dyn std::fmt::Display) -> actix_web::Error {
    error::Failure(Refusal::new(Code::BadRequest, format!("the {what} can't be read: {error}"))).into()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::web::openapi::DOCUMENT;

    #[test]
    fn a_paths_lines_stand_together() {
        let paths: Vec<&str> = TABLE.chunk_by(|one, next| one.path == next.path).map(|lines| lines[0].path).collect();
        assert_eq!(paths.len(), paths.iter().collect::<BTreeSet<_>>().len(), "{paths:?}");
    }

    #[test]
    fn the_description_has_exactly_the_routes() {
        let document: serde_json::Value = serde_json::from_str(DOCUMENT).unwrap();
        let described: BTreeMap<String, BTreeSet<String>> = document["paths"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(path, item)| (path.clone(), item.as_object().unwrap().keys().filter(|key| *key != "parameters").cloned().collect()))
            .collect();
        let mut routes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in TABLE {
            let methods = routes.entry(line.path.to_owned()).or_default();
            methods.insert(line.method.as_str().to_ascii_lowercase());
        }
        assert_eq!(described, routes);
    }

    #[test]
    fn the_description_has_exactly_the_codes() {
        let document: serde_json::Value = serde_json::from_str(DOCUMENT).unwrap();
        let described: Vec<&str> =
            document["components"]["schemas"]["ErrorCode"]["enum"].as_array().unwrap().iter().filter_map(|code| code.as_str()).collect();
        assert_eq!(described, Code::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>());
    }
}

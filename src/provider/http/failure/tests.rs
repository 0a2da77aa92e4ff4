//! Statuses, pauses, shapes and texts; what services really say is in `tests/fixtures/refusals`.

use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::clock;

fn answer(status: u16, body: &str) -> (CallErrorKind, String) {
    let error = of_answer(status, &HeaderMap::new(), body);
    (error.kind, error.message)
}

#[test]
fn statuses_have_kinds() {
    for (status, kind) in [
        (302, CallErrorKind::Refused),
        (400, CallErrorKind::Refused),
        (401, CallErrorKind::Refused),
        (403, CallErrorKind::Refused),
        (404, CallErrorKind::Refused),
        (408, CallErrorKind::TimedOut),
        (422, CallErrorKind::Refused),
        (429, CallErrorKind::RateLimited),
        (500, CallErrorKind::Unavailable),
        (503, CallErrorKind::Unavailable),
        (529, CallErrorKind::Unavailable),
    ] {
        let error = of_answer(status, &HeaderMap::new(), "<html><body>Some page</body></html>");
        assert_eq!(error.kind, kind, "{status}");
        assert!(!error.message.contains("body"), "{}", error.message);
        let explanation = if status == 302 { "redirects are not followed" } else { "without an explanation" };
        assert!(answer(status, "").1.starts_with(&format!("the provider answered {status}: {explanation}")));
    }
}

#[test]
fn errors_are_read_in_every_shape() {
    for body in [
        r#"{"error":{"message":"why"}}"#,
        r#"{"error":"why"}"#,
        r#"[{"error":{"message":"why","status":"INVALID_ARGUMENT"}}]"#,
        r#"{"object":"error","message":"why","code":400}"#,
        r#"{"detail":"why"}"#,
        r#"{"error":null,"message":"why"}"#,
        "why",
    ] {
        assert_eq!(answer(400, body).1, "the provider answered 400: why", "{body}");
    }
    for (passed_on, shown) in [
        (r#"{"error":{"message":"it failed","metadata":{"raw":"why"}}}"#, "it failed: why"),
        (r#"{"error":{"message":"it failed","metadata":{"raw":"{\"error\":{\"message\":\"why\"}}"}}}"#, "it failed: why"),
        (r#"{"error":{"message":"it failed","metadata":{"raw":{"message":"why"}}}}"#, "it failed: why"),
        (r#"{"error":{"message":"{\"error\":{\"message\":\"why\"}}"}}"#, "why"),
        (r#"{"detail":{"error":"why"}}"#, "why"),
        ("event: error\ndata: {\"error\":\"why\"}\n\n", "why"),
        (r#"{"message":{"msg":"why"}}"#, r#"{"message":{"msg":"why"}}"#),
    ] {
        assert_eq!(answer(400, passed_on).1, format!("the provider answered 400: {shown}"), "{passed_on}");
    }
    assert_eq!(answer(400, r#"{"error":{}}"#).1, r#"the provider answered 400: {"error":{}}"#);
}

#[test]
fn errors_inside_a_stream_have_kinds() {
    for (data, kind) in [
        (r#"{"error":{"message":"x","code":429}}"#, CallErrorKind::RateLimited),
        (r#"{"error":{"message":"x","code":"429"}}"#, CallErrorKind::RateLimited),
        (r#"{"error":{"message":"x","type":"rate_limit_error"}}"#, CallErrorKind::RateLimited),
        (r#"{"error":{"message":"x","code":502}}"#, CallErrorKind::Unavailable),
        (r#"{"error":{"message":"x","type":"server_error"}}"#, CallErrorKind::Unavailable),
        (r#"{"error":{"message":"x","type":"overloaded_error"}}"#, CallErrorKind::Unavailable),
        (r#"{"type":"error","error":{"message":"x","type":"api_error"},"request_id":"req_1"}"#, CallErrorKind::Unavailable),
        (r#"{"type":"error","error":{"message":"x","type":"timeout_error"}}"#, CallErrorKind::TimedOut),
        (r#"{"type":"error","error":{"message":"x","type":"billing_error"}}"#, CallErrorKind::Refused),
        (r#"{"error":{"message":"x","type":"invalid_request_error"}}"#, CallErrorKind::Refused),
        (r#"{"object":"error","message":"x","code":400}"#, CallErrorKind::Refused),
        (r#"{"error":"x"}"#, CallErrorKind::Unavailable),
    ] {
        let error = of_event(data);
        assert_eq!((error.kind, error.message.as_str()), (kind, "the provider reported an error: x"), "{data}");
    }
}

#[test]
fn pauses_are_read_in_seconds_in_milliseconds_and_as_a_time() {
    let pause = |headers: &[(&'static str, &str)]| {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        of_answer(429, &headers, "").retry_after_ms
    };
    assert_eq!(pause(&[("retry-after", "2")]), Some(2000));
    assert_eq!(pause(&[("retry-after", "1.5")]), Some(1500));
    assert_eq!(pause(&[("retry-after", "9"), ("retry-after-ms", "350")]), Some(350));
    let soon = UNIX_EPOCH + Duration::from_millis(clock::now()) + Duration::from_secs(90);
    let until = pause(&[("retry-after", &httpdate::fmt_http_date(soon))]).unwrap();
    assert!((60_000..=90_000).contains(&until), "{until}");
    for none in ["Wed, 21 Oct 2026 07:28:00 GMT", "-1", "nan", "1e99", ""] {
        assert_eq!(pause(&[("retry-after", none)]), None, "{none}");
    }
}

/// JSON as services might send it, with the words and fields that mean something, in places where they may not.
fn bodies() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("prompt is too long".to_owned()),
        Just("maximum context length".to_owned()),
        Just("rate limit".to_owned()),
        Just("429".to_owned()),
        Just("invalid_request_error".to_owned()),
        Just("{\"error\":\"x\"}".to_owned()),
        Just("{\"error\":".to_owned()),
        ".{0,12}",
    ];
    let leaf = prop_oneof![
        word.prop_map(Value::String),
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        Just(Value::from(429)),
        Just(Value::from(413)),
    ];
    let name = prop_oneof![
        Just("error"),
        Just("message"),
        Just("detail"),
        Just("details"),
        Just("code"),
        Just("type"),
        Just("status"),
        Just("metadata"),
        Just("raw"),
    ];
    let value = leaf.prop_recursive(5, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((name.clone(), inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())),
        ]
    });
    prop_oneof![value.prop_map(|value| value.to_string()), ".{0,60}", "(data: |event: error\n){0,3}\\{\"error\":\"[a-z ]{0,9}\"\\}\n?"]
}

proptest! {
    #[test]
    fn whatever_a_service_says_has_a_kind_that_goes_with_its_status(status in 300u16..600, body in bodies()) {
        let error = of_answer(status, &HeaderMap::new(), &body);
        let prefix = format!("the provider answered {status}: ");
        prop_assert!(error.message.starts_with(&prefix) && error.message.len() > prefix.len(), "{}", error.message);
        match status {
            429 => prop_assert_eq!(error.kind, CallErrorKind::RateLimited),
            401..=404 => prop_assert!(matches!(error.kind, CallErrorKind::Refused | CallErrorKind::RateLimited)),
            _ => prop_assert!(!matches!(error.kind, CallErrorKind::Nonsense | CallErrorKind::Cut)),
        }
        let event = of_event(&body);
        prop_assert!(event.message.starts_with("the provider reported an error: "));
        prop_assert!(!matches!(event.kind, CallErrorKind::Nonsense | CallErrorKind::Cut));
    }

    #[test]
    fn words_of_a_limit_beside_words_of_length_are_a_limit(status in prop_oneof![Just(400u16), Just(413), Just(422), Just(500)], limit in 0..3usize) {
        let limit = ["tokens per minute (TPM): Limit 6000", "Too many requests", "rate limit"][limit];
        let body = serde_json::json!({"error": {"message": format!("prompt is too long: {limit}")}}).to_string();
        prop_assert_eq!(of_answer(status, &HeaderMap::new(), &body).kind, CallErrorKind::RateLimited);
        prop_assert_eq!(of_event(&body).kind, CallErrorKind::RateLimited);
    }
}

//! The check itself is checked: each kind of breach is planted and must be found, and what is allowed must pass.

use super::{File, breaches, looks};

/// The breaches in files of these names and texts.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    breaches(&files.iter().map(|(name, text)| File::new(name, (*text).to_owned())).collect::<Vec<_>>())
}

#[test]
fn an_import_across_layers_is_found() {
    let import = "//! x\n\nuse crate::runtime::Runtime;\n";
    assert_eq!(found(&[("src/engine/tree.rs", import)]), ["src/engine/tree.rs:3: `engine` may not import `runtime::Runtime`"]);
    let nested = "use crate::{\n    ids,\n    store::{self, Store},\n};\n";
    assert_eq!(
        found(&[("src/web/ws.rs", nested)]),
        ["src/web/ws.rs:3: `web` may not import `store::self`", "src/web/ws.rs:3: `web` may not import `store::Store`"]
    );
    let inside = "fn f() {\n    let x = crate::engine::decide();\n}\n";
    assert_eq!(found(&[("src/web.rs", inside)]), ["src/web.rs:2: `web` may not import `engine::decide`"]);
    let up = "use super::super::engine::Session;\n";
    assert_eq!(found(&[("src/web/rest.rs", up)]), ["src/web/rest.rs:1: `web` may not import `engine::Session`"]);
    let in_module = "mod inner {\n    use super::super::provider;\n}\n";
    assert_eq!(found(&[("src/web.rs", in_module)]), ["src/web.rs:2: `web` may not import `provider`"]);
    assert_eq!(found(&[("src/web.rs", "use super::*;")]), ["src/web.rs:1: `web` may not import everything"]);
    assert_eq!(found(&[("src/web/x.rs", "use super::*;\nuse crate::{*};")]), ["src/web/x.rs:2: `web` may not import everything"]);
    assert_eq!(found(&[("src/main.rs", "use headwater::engine;")]), ["src/main.rs:1: `main` may not import `engine`"]);
}

#[test]
fn what_is_allowed_passes() {
    let allowed = "use crate::ids::NodeId;\nuse crate::protocol::{Message, Role};\nuse super::tree;\nuse super::super::ids;\nuse crate::engine::view;\n";
    assert_eq!(found(&[("src/engine/turn.rs", allowed)]), [""; 0]);
    assert_eq!(found(&[("src/lib.rs", "pub mod engine;\npub use crate::web::x;\n")]), [""; 0]);
}

#[test]
fn words_of_the_world_are_found_in_pure_modules() {
    for (text, word) in [
        ("use tokio::sync;", "tokio"),
        ("async fn f() {}", "async"),
        ("fn f(now: SystemTime) {}", "SystemTime"),
        ("use std::time::Instant;", "Instant"),
        ("fn f() { std::env::var(\"x\"); }", "std::env"),
        ("use std::fs::File;", "std::fs"),
        ("use uuid::Uuid;", "uuid"),
        ("use rand::Rng;", "rand"),
    ] {
        for module in ["engine", "agui", "protocol"] {
            let name = format!("src/{module}/x.rs");
            assert_eq!(found(&[(&name, text)]), [format!("{name}:1: `{module}` may not say `{word}`")]);
        }
    }
    assert_eq!(found(&[("src/engine/x.rs", "fn f(thread_id: u8) {}")]), ["src/engine/x.rs:1: `engine` may not say `thread_id`"]);
    assert_eq!(found(&[("src/runtime/x.rs", "\nuse actix_web::web;")]), ["src/runtime/x.rs:2: `runtime` may not say `actix_web`"]);
}

#[test]
fn words_in_comments_strings_and_longer_words_are_not() {
    let text = "//! no tokio here\n/* async /* nested */ Instant */\nconst A: &str = \"tokio \\\" async\";\nconst B: &str = r#\"rand \" uuid\"#;\n\
                const C: char = '\"';\nconst D: &[u8] = b\"tokio\";\nfn instant_of<'tokio_like>(random: u8, r#type: u8) {}\n";
    assert_eq!(found(&[("src/engine/x.rs", text)]), [""; 0]);
}

#[test]
fn a_breach_after_strings_keeps_its_line() {
    let text = "const A: &str = \"one\ntwo\";\n/* three\nfour */\nuse tokio::time;\n";
    assert_eq!(found(&[("src/engine/x.rs", text)]), ["src/engine/x.rs:5: `engine` may not say `tokio`"]);
}

#[test]
fn tests_may_import_more() {
    let inline = "use crate::ids;\n#[cfg(test)]\nmod tests {\n    use crate::runtime::X;\n    async fn f() { if true {} }\n}\n";
    assert_eq!(found(&[("src/engine/x.rs", inline)]), [""; 0]);
    let after = format!("{inline}use crate::web::Y;\n");
    assert_eq!(found(&[("src/engine/x.rs", &after)]), ["src/engine/x.rs:7: `engine` may not import `web::Y`"]);
    let one = "#[cfg(test)]\nuse tokio::time;\n#[cfg(any(test, feature = \"x\"))]\npub fn f() -> [u8; 2] { tokio() }\nfn g() {}\n";
    assert_eq!(found(&[("src/engine/x.rs", one)]), [""; 0]);
    let elsewhere = [
        ("src/engine/mod.rs", "#[cfg(test)]\nmod laws;\n"),
        ("src/engine/laws.rs", "use tokio::time;\n"),
        ("src/engine/laws/more.rs", "use tokio::fs;\n"),
    ];
    assert_eq!(found(&elsewhere), [""; 0]);
    let not = "#[cfg(not(test))]\nuse tokio::time;\n";
    assert_eq!(found(&[("src/engine/x.rs", not)]), ["src/engine/x.rs:2: `engine` may not say `tokio`"]);
}

#[test]
fn a_circle_is_found() {
    let files = [("src/store/x.rs", "use crate::provider;\n"), ("src/provider/x.rs", "use crate::store;\n")];
    assert_eq!(
        found(&files),
        [
            "src/store/x.rs:1: `store` may not import `provider`",
            "src/provider/x.rs:1: `provider` may not import `store`",
            "layers import each other in a circle: provider → store → provider (the last one at src/store/x.rs:1)",
        ]
    );
}

#[test]
fn a_module_without_a_line_in_the_table_is_found() {
    assert_eq!(found(&[("src/misc.rs", "//! x\n")]), ["src/misc.rs:1: the module `misc` has no line in the table of layers"]);
}

#[test]
fn bad_looks_are_found() {
    assert_eq!(looks("a.rs", "//! Fine.\n"), [""; 0]);
    assert_eq!(looks("a.rs", "use x;\n"), ["a.rs:1: the file doesn't open with `//!`: what it is for, what it may not know"]);
    let long = format!("//! Long.\n{}", "\n".repeat(500));
    assert_eq!(looks("a.rs", &long), ["a.rs:500: the file has 501 lines; split it"]);
}

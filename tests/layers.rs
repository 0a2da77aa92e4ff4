//! The layers as a table: who may import whom, which words pure modules may not say, and how a file looks. A breach is
//! named by file and line.

#[path = "layers/source.rs"]
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use source::{Token, imports, tokens, without_tests};

/// A module at the crate's root, what it may import, and what it may not say.
struct Layer {
    name: &'static str,
    imports: &'static [&'static str],
    banned: &'static [&'static [&'static str]],
}

/// Words of the world outside: threads, clocks, randomness, files, sockets.
const IMPURE: &[&str] = &[
    "tokio",
    "async",
    "await",
    "SystemTime",
    "Instant",
    "rand",
    "uuid",
    "getrandom",
    "std::env",
    "std::fs",
    "std::net",
    "std::thread",
    "std::process",
    "std::io",
    "actix_web",
    "actix_ws",
    "reqwest",
    "rusqlite",
    "metrics",
    "tracing",
];
/// Words of the wire towards front ends.
const AG_UI: &[&str] = &["agui", "ag_ui", "AgUi", "thread_id", "run_id", "RunAgentInput"];
/// Words of the web server.
const ACTIX: &[&str] = &["actix", "actix_web", "actix_ws", "actix_rt", "actix_cors"];
/// Words of stores and models.
const BACKENDS: &[&str] = &["rusqlite", "reqwest", "redis"];

const LAYERS: &[Layer] = &[
    Layer { name: "ids", imports: &[], banned: &[IMPURE, AG_UI] },
    Layer { name: "clock", imports: &["ids"], banned: &[AG_UI, ACTIX] },
    // Who counts: nobody pure.
    Layer { name: "meters", imports: &[], banned: &[AG_UI, ACTIX, BACKENDS] },
    Layer { name: "protocol", imports: &["ids"], banned: &[IMPURE, AG_UI] },
    Layer { name: "engine", imports: &["ids", "protocol"], banned: &[IMPURE, AG_UI] },
    Layer { name: "agui", imports: &["ids", "protocol"], banned: &[IMPURE] },
    Layer { name: "service", imports: &["clock"], banned: &[AG_UI, ACTIX, &["rusqlite"]] },
    Layer { name: "sse", imports: &[], banned: &[IMPURE, AG_UI] },
    Layer { name: "draw", imports: &["ids", "protocol"], banned: &[IMPURE, AG_UI] },
    Layer { name: "store", imports: &["ids", "protocol"], banned: &[AG_UI, ACTIX, &["reqwest"]] },
    Layer { name: "provider", imports: &["ids", "protocol", "service", "sse", "clock"], banned: &[AG_UI, ACTIX, &["rusqlite"]] },
    // Agents in the place of a model: the one place that speaks AG-UI towards them.
    Layer { name: "provider::relay", imports: &["ids", "protocol", "agui", "provider", "service"], banned: &[ACTIX, &["rusqlite"]] },
    Layer { name: "worker", imports: &["ids", "protocol", "service", "sse", "clock", "meters", "agui"], banned: &[ACTIX, &["rusqlite"]] },
    Layer {
        name: "runtime",
        imports: &["ids", "clock", "meters", "protocol", "engine", "store", "provider", "worker"],
        banned: &[AG_UI, ACTIX, BACKENDS],
    },
    Layer { name: "web", imports: &["ids", "clock", "meters", "protocol", "agui", "runtime"], banned: &[BACKENDS] },
    Layer { name: "telemetry", imports: &[], banned: &[AG_UI, ACTIX, BACKENDS] },
    Layer {
        name: "config",
        imports: &["ids", "service", "store", "provider", "worker", "runtime", "web", "telemetry"],
        banned: &[AG_UI, ACTIX, BACKENDS, &["tokio", "async"]],
    },
    // A client of the native API, over HTTP: it can't know more than any other client.
    Layer {
        name: "cli",
        imports: &["ids", "clock", "protocol", "draw", "service", "sse", "config", "store", "provider", "worker"],
        banned: &[AG_UI, ACTIX, &["rusqlite"]],
    },
    Layer {
        name: "app",
        imports: &["ids", "clock", "protocol", "agui", "store", "provider", "worker", "runtime", "web", "telemetry", "config"],
        banned: &[BACKENDS],
    },
    // The program itself.
    Layer { name: "main", imports: &["app", "cli", "config", "provider", "telemetry"], banned: &[AG_UI, ACTIX, BACKENDS] },
];

/// A file may have so many lines.
const LINES_MAX: usize = 500;

/// A source file under `src`.
struct File {
    /// As it is named in a breach.
    name: String,
    /// Its module, from the root: `["engine", "tree"]`; `["main"]` for the program; empty for the library's root.
    module: Vec<String>,
    text: String,
}

impl File {
    fn new(name: &str, text: String) -> Self {
        let bare = name.trim_start_matches("src/").trim_end_matches(".rs");
        let module = match bare {
            "lib" => Vec::new(),
            bare => bare.trim_end_matches("/mod").split('/').map(str::to_owned).collect(),
        };
        Self { name: name.to_owned(), module, text }
    }
}

/// Everything that is wrong with `files`, one line each.
fn breaches(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    let mut edges: BTreeMap<&str, BTreeMap<&str, String>> = BTreeMap::new();
    let parsed: Vec<(&File, Vec<Token>, Vec<String>)> = files
        .iter()
        .map(|file| {
            let (kept, test_modules) = without_tests(&tokens(&file.text));
            (file, kept, test_modules)
        })
        .collect();
    let only_tests: BTreeSet<Vec<String>> = parsed
        .iter()
        .flat_map(|(file, _, names)| names.iter().map(|name| file.module.iter().cloned().chain([name.clone()]).collect()))
        .collect();
    for (file, tokens, _) in &parsed {
        let is_test = (1..=file.module.len()).any(|length| only_tests.contains(&file.module[..length]));
        if is_test || file.module.is_empty() {
            continue;
        }
        let inner = file.module[..file.module.len().min(2)].join("::");
        let layer = [inner.as_str(), &file.module[0]].into_iter().find_map(|name| LAYERS.iter().find(|layer| layer.name == name));
        let Some(layer) = layer else {
            found.push(format!("{}:1: the module `{}` has no line in the table of layers", file.name, file.module[0]));
            continue;
        };
        found.extend(banned_words(file, layer, tokens));
        for import in imports(tokens, &file.module) {
            let at = format!("{}:{}", file.name, import.line);
            if import.path == ["*"] {
                found.push(format!("{at}: `{}` may not import everything", layer.name));
            }
            let Some(target) = import.path.first().and_then(|name| LAYERS.iter().find(|layer| layer.name == name)) else { continue };
            if target.name == layer.name {
                continue;
            }
            if !layer.imports.contains(&target.name) {
                found.push(format!("{at}: `{}` may not import `{}`", layer.name, import.path.join("::")));
            }
            edges.entry(layer.name).or_default().entry(target.name).or_insert(at);
        }
    }
    found.extend(cycle(&edges).map(|cycle| format!("layers import each other in a circle: {cycle}")));
    found
}

fn banned_words(file: &File, layer: &Layer, tokens: &[Token]) -> Vec<String> {
    let word = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let says = |at: usize, banned: &str| match banned.split_once("::") {
        None => word(at) == banned,
        Some((first, second)) => word(at) == first && word(at + 1) == "::" && word(at + 2) == second,
    };
    let banned: Vec<&str> = layer.banned.iter().copied().flatten().copied().collect();
    let said = |at: usize| banned.iter().find(move |banned| says(at, banned));
    (0..tokens.len())
        .filter_map(|at| said(at).map(|word| format!("{}:{}: `{}` may not say `{word}`", file.name, tokens[at].line, layer.name)))
        .collect()
}

/// A circle of imports, with the place of each.
fn cycle(edges: &BTreeMap<&str, BTreeMap<&str, String>>) -> Option<String> {
    fn visit<'e>(
        edges: &'e BTreeMap<&str, BTreeMap<&str, String>>,
        path: &mut Vec<&'e str>,
        done: &mut BTreeSet<&'e str>,
    ) -> Option<String> {
        let at = *path.last()?;
        for (next, place) in edges.get(at).into_iter().flatten() {
            if let Some(start) = path.iter().position(|name| name == next) {
                let names = path[start..].iter().chain([next]).copied().collect::<Vec<_>>().join(" → ");
                return Some(format!("{names} (the last one at {place})"));
            }
            if !done.contains(next) {
                path.push(next);
                if let Some(found) = visit(edges, path, done) {
                    return Some(found);
                }
                path.pop();
            }
        }
        done.insert(at);
        None
    }
    let mut done = BTreeSet::new();
    edges.keys().find_map(|start| visit(edges, &mut vec![*start], &mut done))
}

/// What is wrong with how a file looks.
fn looks(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    if !text.starts_with("//! ") {
        found.push(format!("{name}:1: the file doesn't open with `//!`: what it is for, what it may not know"));
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        found.push(format!("{name}:{LINES_MAX}: the file has {lines} lines; split it"));
    }
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files under `folder`, with their names from the root.
fn rust_files(folder: &str) -> Vec<(String, String)> {
    let (mut found, mut folders): (_, Vec<PathBuf>) = (Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("node_modules") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
                found.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[track_caller]
fn assert_none(breaches: &[String]) {
    let shown = breaches.iter().fold(String::new(), |mut shown, breach| {
        let _ = write!(shown, "\n{breach}");
        shown
    });
    assert!(breaches.is_empty(), "{shown}");
}

#[test]
fn layers_import_only_what_they_may() {
    let files: Vec<File> = rust_files("src").into_iter().map(|(name, text)| File::new(&name, text)).collect();
    assert!(files.len() > 10, "the sources were found");
    assert_none(&breaches(&files));
}

#[test]
fn each_file_says_what_it_is_for_and_fits_a_head() {
    let files: Vec<_> = ["src", "tests", "benches", "examples"].into_iter().flat_map(rust_files).collect();
    assert_none(&files.iter().flat_map(|(name, text)| looks(name, text)).collect::<Vec<_>>());
}

#[test]
fn the_table_itself_has_no_circle() {
    let line = |layer: &Layer| (layer.name, layer.imports.iter().map(|name| (*name, "the table".to_owned())).collect());
    assert_eq!(cycle(&LAYERS.iter().map(line).collect()), None);
    let names: BTreeSet<_> = LAYERS.iter().map(|layer| layer.name).collect();
    assert!(LAYERS.iter().flat_map(|layer| layer.imports).all(|name| names.contains(name)));
}

#[path = "layers/planted.rs"]
mod planted;

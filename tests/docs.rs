//! What the documents say holds: links lead somewhere, README's commands and configuration work as they stand.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn documents() -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![root().to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && !name.starts_with('.') && !["target", "node_modules", "headwater-data"].contains(&name) {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// The code blocks of a language.
fn blocks<'t>(text: &'t str, language: &str) -> Vec<&'t str> {
    let fence = format!("\n```{language}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect()
}

/// The anchor of a heading.
fn anchor(heading: &str) -> String {
    heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-").replace(|c: char| !c.is_alphanumeric() && c != '-', "")
}

#[test]
fn links_lead_somewhere() {
    let documents = documents();
    assert!(documents.len() >= 7, "the documents were found: {documents:?}");
    for path in documents {
        let text = std::fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            if link.contains("://") {
                continue;
            }
            let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: {link} leads nowhere", path.display());
            if !fragment.is_empty() {
                let text = std::fs::read_to_string(&target).unwrap();
                let found = text.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == fragment);
                assert!(found, "{}: {link} names no heading", path.display());
            }
        }
    }
}

#[test]
fn readmes_configuration_is_good() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let [configuration] = blocks(&readme, "toml")[..] else { panic!("README shows one configuration") };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("headwater.toml"), configuration).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    let output = command.args(["check", "headwater.toml"]).current_dir(folder.path()).env("OPENAI_API_KEY", "sk-test").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("agent   bot: answers with main"));
}

#[test]
fn readmes_request_is_a_good_run() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let shell = blocks(&readme, "sh");
    assert_eq!(shell[0], "cargo run --release");
    let body = shell[1].split("-d '").nth(1).unwrap().trim_end_matches('\'');
    let limits = headwater::agui::Limits { view_messages_max: 10, content_bytes_max: 1000, ..headwater::agui::Limits::DEFAULT };
    let run = headwater::agui::RunInput::decode(body.as_bytes(), &limits).unwrap();
    assert_eq!((run.run_id.as_str(), run.messages.len()), ("run-1", 1));
    assert!(shell.contains(&"./test.sh"));
}

#[test]
fn every_example_says_how_to_run_it() {
    for example in std::fs::read_dir(root().join("examples")).unwrap() {
        let example = example.unwrap().path();
        let readme = std::fs::read_to_string(example.join("README.md")).unwrap_or_else(|_| panic!("{} has no README", example.display()));
        assert!(!blocks(&readme, "sh").is_empty(), "{} shows no command", example.display());
    }
}

/// What `[server]` says that is no limit.
const NO_LIMITS: &[&str] = &["listen", "workers", "origins", "hosts", "keep_alive_secs", "first_words_ms", "metrics"];

#[test]
fn each_limit_stands_in_the_table_of_limits() {
    let reference = std::fs::read_to_string(root().join("config/default.toml")).unwrap();
    let (_, section) = reference.split_once("[server]\n").unwrap();
    let (section, _) = section.split_once("\n[").unwrap();
    let keys: Vec<&str> = section.lines().filter_map(|line| line.trim_start_matches("# ").split_once(" = ")).map(|(key, _)| key).collect();
    assert!(keys.len() > 30, "{keys:?}");
    let operations = std::fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let (_, table) = operations.split_once("\n## Limits\n").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    for key in keys.iter().filter(|key| !NO_LIMITS.contains(key)) {
        assert!(table.contains(&format!("`{key}`")), "docs/operations.md has no row for {key}");
    }
}

#[test]
fn the_table_of_metrics_is_the_codes() {
    let operations = std::fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let rows: Vec<&str> = operations.lines().filter(|line| line.starts_with("| `headwater_") || line.starts_with("| `process_")).collect();
    let expected: Vec<String> = headwater::meters::ALL
        .iter()
        .map(|meter| format!("| `{}` | {} | {} | {} |", meter.name, meter.kind.as_str(), meter.labels.join(", "), meter.help))
        .collect();
    assert_eq!(rows, expected);
}

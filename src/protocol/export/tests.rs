//! Exports that are read back, and files that are refused.

use super::*;

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

fn file() -> String {
    let (mut writer, mut file) = Writer::begin(&"s1".into(), &"demo".into());
    for record in [r#"{"v":1,"type":"session.created"}"#, r#"{"v":1,"type":"message.new"}"#, r#"{"v":1,"type":"turn.started"}"#] {
        file.push_str(&writer.record(&json(record)));
    }
    assert_eq!(writer.records(), 3);
    file + &writer.end()
}

fn read(file: &str) -> Result<Export, Refusal> {
    Reader::read(&Bytes::copy_from_slice(file.as_bytes()))
}

#[track_caller]
fn refused(file: &str) -> String {
    let refusal = read(file).unwrap_err();
    assert_eq!(refusal.code, Code::BadImport, "{refusal}");
    refusal.message
}

/// The file with line `n` (from 1) changed; none: taken out.
fn with_line(n: usize, change: impl Fn(&str) -> Option<String>) -> String {
    let change = |(at, line): (usize, &str)| if at + 1 == n { change(line) } else { Some(line.to_owned()) };
    file().lines().enumerate().filter_map(change).map(|line| line + "\n").collect()
}

#[test]
fn what_is_written_is_read() {
    let export = read(&file()).unwrap();
    assert_eq!((export.session_id.as_str(), export.agent_id.as_str()), ("s1", "demo"));
    assert_eq!(export.records.len(), 3);
    assert_eq!(export.records[1], r#"{"v":1,"type":"message.new"}"#);
    let lines: Vec<String> = file().lines().map(str::to_owned).collect();
    assert_eq!(lines[0], r#"{"format":"headwater.session","version":1,"session_id":"s1","agent_id":"demo"}"#);
    assert_eq!(lines[1], r#"{"seq":1,"record":{"v":1,"type":"session.created"}}"#);
    assert!(lines[4].starts_with(r#"{"end":3,"tip":""#), "{}", lines[4]);
}

#[test]
fn what_transports_do_to_lines_is_no_harm() {
    let export = read(&file()).unwrap();
    assert_eq!(read(&file().replace('\n', "\r\n")).unwrap(), export);
    assert_eq!(read(file().trim_end()).unwrap(), export);
    assert_eq!(read(&(file() + "\n\n")).unwrap(), export);
}

#[test]
fn a_record_stays_on_its_line() {
    let (mut writer, mut file) = Writer::begin(&"s1".into(), &"demo".into());
    file.push_str(&writer.record(&json("{\"a\":\r\n {\"b\": \"\\n\"}}")));
    file.push_str(&writer.end());
    assert_eq!(file.lines().count(), 3);
    assert_eq!(read(&file).unwrap().records[0], "{\"a\":   {\"b\": \"\\n\"}}");
}

#[test]
fn a_cut_file_is_noticed() {
    assert_eq!(refused(""), "the file is empty");
    assert!(refused(&with_line(5, |_| None)).starts_with("the file is cut: it has 3 records"));
    let whole = file();
    for end in (1..whole.trim_end().len()).filter(|&end| whole.is_char_boundary(end)) {
        refused(&whole[..end]);
    }
}

#[test]
fn a_doubled_or_reordered_file_is_noticed() {
    assert_eq!(refused(&(file() + &file())), "line 6: something follows the last line; a file holds one export");
    let twice = with_line(3, |line| Some(format!("{line}\n{line}")));
    assert_eq!(refused(&twice), "line 4: record 3 is expected, and this is 2: it is there twice");
    assert_eq!(refused(&with_line(3, |_| None)), "line 3: record 2 is expected, and this is 3: records are missing");
}

#[test]
fn a_changed_file_is_noticed() {
    let changed = with_line(3, |line| Some(line.replace("message.new", "message.old")));
    assert_eq!(refused(&changed), "line 5: the records were changed: their hash isn't the one that the last line gives");
    assert!(refused(&with_line(5, |line| Some(line.replace("\"end\":3", "\"end\":4")))).contains("says that it has 4 records"));
    refused(&with_line(5, |line| Some(line.replace("\"tip\":\"", "\"tip\":\"0"))));
    refused(&with_line(5, |line| Some(line.replace("\"tip\":\"", "\"tip\":\"x"))));
    refused(&with_line(2, |line| Some(line.replace("}}", "},\"more\":1}"))));
    refused(&with_line(2, |_| Some(r#"{"seq":1,"record":[]}"#.to_owned())));
    refused(&with_line(2, |_| Some(r#"{"seq":1}"#.to_owned())));
    refused(&with_line(1, |line| Some(line.replace("\"s1\"", "\"\""))));
}

#[test]
fn another_file_and_a_newer_one_are_told_apart() {
    assert!(refused("{\"messages\": []}\n").contains("this is no export"));
    assert!(refused("id,text\n1,hello\n").contains("line 1"));
    assert!(refused(&with_line(1, |line| Some(line.replace("headwater.session", "another")))).contains("this is no export"));
    refused(&with_line(1, |line| Some(line.replace("\"version\":1", "\"version\":0"))));
    let newer = with_line(1, |line| Some(line.replace("\"version\":1", "\"version\":2,\"more\":true")));
    let refusal = read(&newer).unwrap_err();
    assert_eq!(refusal.code, Code::NewerVersion);
    assert!(refusal.message.contains("version 2"), "{refusal}");
    assert!(refused(&with_line(1, |line| Some(line.replace("\"version\":1", "\"version\":1,\"more\":true")))).contains("more"));
}

#[test]
fn an_export_without_records_is_none() {
    let (writer, first) = Writer::begin(&"s1".into(), &"demo".into());
    refused(&(first + &writer.end()));
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let mut file = file().into_bytes();
    file[80] = 0xff;
    assert_eq!(Reader::read(&file.into()).unwrap_err().code, Code::BadImport);
}

//! Tools of an agent's own: what is refused at the start, and where.

use super::*;
use crate::protocol::{BadArguments, CarriedOutBy};

const BOT: &str =
    "[llm.main]\nkind = \"script\"\n[agent.bot]\nllm = \"main\"\nworker = { kind = \"http\", url = \"http://127.0.0.1:1/\" }\n";

#[track_caller]
fn assert_refused(options: &str, said: &[&str]) {
    let file = File::new(format!("{BOT}{options}"));
    let error = file.load(&[]).expect_err(options).to_string();
    let error = error.replace(&file.path().display().to_string(), "bot.toml");
    for said in said {
        assert!(error.contains(said), "{error}\n  should say: {said}");
    }
}

#[test]
fn tools_are_as_the_file_says() {
    let config = file(&format!(
        "{BOT}[[agent.bot.tool]]\nname = \"pay\"\nby = \"outside\"\n[[agent.bot.tool]]\nname = \"look\"\nidempotent = true\n\
         attempts = 5\nattempt_secs = 7\nbad_arguments = \"ask\"\ndescription = \"Looks.\"\n\
         [agent.bot.tool.parameters]\ntype = \"object\"\nproperties.n.type = \"integer\"\n"
    ));
    let tools: Vec<ServerTool> = config.agents[&AgentId::from("bot")].tool.iter().cloned().map(ServerTool::from).collect();
    assert_eq!(tools[0], ServerTool { by: CarriedOutBy::Outside, ..ServerTool::new("pay") });
    let parameters = serde_json::from_str(r#"{"properties":{"n":{"type":"integer"}},"type":"object"}"#).unwrap();
    let look = ServerTool {
        description: "Looks.".to_owned(),
        parameters,
        idempotent: true,
        attempts: 5,
        attempt_secs: 7,
        bad_arguments: BadArguments::Ask,
        ..ServerTool::new("look")
    };
    assert_eq!(tools[1], look);
}

#[test]
fn a_tool_that_cannot_be_offered_is_refused() {
    let tool = |keys: &str| format!("[[agent.bot.tool]]\n{keys}");
    assert_refused(&tool("by = \"worker\""), &["bot.toml:6", "needs the key `name`"]);
    assert_refused(&tool("name = \"look up\""), &["bot.toml:7:8: \"look up\" can't be the name of a tool", "letters"]);
    assert_refused(&tool("name = \"f\"\nbye = \"worker\""), &["bot.toml:8:1: `bye` is not a key here", "`by`"]);
    assert_refused(&tool("name = \"f\"\nby = \"nobody\""), &["bot.toml:8:6", "worker", "outside"]);
    assert_refused(&tool("name = \"f\"\nattempts = 0"), &["bot.toml:8:12: 0 attempts", "from 1 to 100"]);
    assert_refused(&tool("name = \"f\"\nattempt_secs = 0"), &["bot.toml:8:16: 0 seconds"]);
    assert_refused(&tool("name = \"f\"\nparameters = { type = \"thing\" }"), &["bot.toml:8:14", "are no JSON Schema"]);
    assert_refused(&tool("name = \"f\"\n[[agent.bot.tool]]\nname = \"f\""), &["bot.toml:9:8: there are two tools named \"f\""]);
}

#[test]
fn a_tool_that_nobody_could_carry_out_is_refused() {
    let text = "[llm.main]\nkind = \"script\"\n[agent.bot]\nllm = \"main\"\n[[agent.bot.tool]]\nname = \"f\"\nby = \"worker\"\n";
    let error = File::new(text).load(&[]).expect_err("nobody carries it out").to_string();
    for said in [":7:6: the agent `bot` has no worker that could carry out this tool", "by = \"outside\""] {
        assert!(error.contains(said), "{error}\n  should say: {said}");
    }
    assert_eq!(file(&text.replace("\"worker\"", "\"outside\"")).agents.len(), 1);
}

//! From options to providers: secrets are resolved and scripts loaded once, before the server starts; then each worker thread
//! makes its own provider without failing.

use std::path::Path;
use std::sync::Arc;

use futures_util::{StreamExt, stream};

use super::anthropic::Anthropic;
use super::gemini::Gemini;
use super::http::{Api, Http};
use super::openai::Openai;
use super::relay::Relay;
use super::{AguiOptions, Attempt, Error, Factory, Options, Provider, script};
use crate::protocol::{CallError, CallErrorKind, CallRequest};
use crate::service::Secret;

const ATTEMPTS_DEFAULT: u32 = 3;
const ATTEMPTS_MAX: u32 = 100;

/// What makes each worker thread's provider. Paths are relative to `base_dir`, the configuration file's folder.
pub fn factory(options: &Options, base_dir: &Path) -> Result<Factory, Error> {
    allowed(attempts(options))?;
    match options {
        Options::Script(options) => {
            let script = script::Script::load(options, base_dir)?;
            Ok(Arc::new(move || Box::new(script.clone())))
        }
        Options::Openai(options) => http(Openai::new(options, key(options.api_key.as_ref(), base_dir)?)?, &options.base_url),
        Options::Anthropic(options) => http(Anthropic::new(options, key(options.api_key.as_ref(), base_dir)?)?, &options.base_url),
        Options::Gemini(options) => http(Gemini::new(options, key(options.api_key.as_ref(), base_dir)?)?, &options.base_url),
    }
}

/// The same of an AG-UI agent that stands in the place of a model, and its attempts.
pub fn relay(options: &AguiOptions, base_dir: &Path) -> Result<(Factory, u32), Error> {
    let attempts = allowed(options.attempts.unwrap_or(ATTEMPTS_DEFAULT))?;
    // What a query holds may be a key.
    let bare = options.url.split(['?', '#']).next().unwrap_or_default();
    Ok((http(Relay::new(options, base_dir)?, bare)?, attempts))
}

fn allowed(attempts: u32) -> Result<u32, Error> {
    if (1..=ATTEMPTS_MAX).contains(&attempts) {
        return Ok(attempts);
    }
    Err(Error::option("attempts", format!("is {attempts}; 1 to {ATTEMPTS_MAX} are allowed")))
}

/// Attempts of a call, the first included.
pub fn attempts(options: &Options) -> u32 {
    match options {
        Options::Script(options) => options.attempts,
        Options::Openai(options) => options.attempts,
        Options::Anthropic(options) => options.attempts,
        Options::Gemini(options) => options.attempts,
    }
    .unwrap_or(ATTEMPTS_DEFAULT)
}

fn http<A: Api>(api: A, base_url: &str) -> Result<Factory, Error> {
    let api = Arc::new(api);
    // What would fail on every worker thread fails here.
    api.connection().client().map_err(|source| Error::Client { base_url: base_url.to_owned(), source })?;
    Ok(Arc::new(move || match api.connection().client() {
        Ok(client) => Box::new(Http::new(Arc::clone(&api), client)),
        Err(error) => Box::new(Unusable(error.to_string())),
    }))
}

fn key(secret: Option<&Secret>, base_dir: &Path) -> Result<Option<String>, Error> {
    Ok(secret.map(|secret| secret.resolve("api_key", base_dir)).transpose()?)
}

/// Stands in for a provider whose client could be made at the start and can't now.
struct Unusable(String);

impl Provider for Unusable {
    fn start(&self, _: CallRequest) -> Attempt {
        let error = CallError::new(CallErrorKind::Unavailable, format!("no HTTP client could be made: {}", self.0));
        stream::iter([Err(error)]).boxed_local()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(options: &str, base_dir: &Path) -> Result<Factory, String> {
        factory(&toml::from_str(options).unwrap(), base_dir).map_err(|error| error.to_string())
    }

    fn openai(key: &str) -> String {
        format!("kind = 'openai'\nmodel = 'm'\nbase_url = 'http://127.0.0.1:1/v1'\n{key}")
    }

    #[test]
    fn secrets_are_found_or_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        file("key", " sk-canary \n");
        file("empty", "\n");
        file("lines", "sk-canary\nsk-canary");
        let fault = |key: &str| made(&openai(key), folder.path()).err().unwrap();
        assert!(made(&openai(""), folder.path()).is_ok());
        assert!(made(&openai("api_key = { file = 'key' }"), folder.path()).is_ok());
        assert!(made(&openai("api_key = { env = 'CARGO_PKG_NAME' }"), folder.path()).is_ok());
        assert_eq!(
            fault("api_key = { env = 'HEADWATER_NO_SUCH_KEY' }"),
            "api_key = { env = \"HEADWATER_NO_SUCH_KEY\" }: the environment variable HEADWATER_NO_SUCH_KEY is not set"
        );
        assert!(fault("api_key = { file = 'none' }").contains(&*folder.path().join("none").to_string_lossy()));
        assert!(fault("api_key = { file = 'empty' }").ends_with("empty is empty"));
        let lines = fault("api_key = { file = 'lines' }");
        assert!(lines.ends_with("lines has characters that can't stand in an HTTP header") && !lines.contains("canary"), "{lines}");
    }

    #[test]
    fn attempts_are_three_unless_said_otherwise() {
        let options = |attempts: &str| toml::from_str::<Options>(&format!("kind = 'script'\n{attempts}")).unwrap();
        assert_eq!([attempts(&options("")), attempts(&options("attempts = 1"))], [3, 1]);
        for refused in ["attempts = 0", "attempts = 101"] {
            let error = factory(&options(refused), Path::new(".")).err().unwrap().to_string();
            assert!(error.starts_with("attempts: is ") && error.ends_with("1 to 100 are allowed"), "{error}");
        }
    }

    #[test]
    fn an_llm_can_do_what_its_options_say() {
        let can = |options: &str| toml::from_str::<Options>(options).unwrap().abilities();
        assert!(!can("kind = 'script'").image);
        let openai = can(&openai(""));
        assert!(openai.image && openai.audio && !openai.video && openai.reasoning);
        let thinks = |kind: &str, extra: &str| can(&format!("kind = '{kind}'\nmodel = 'm'\n{extra}")).reasoning;
        assert!(!thinks("anthropic", ""));
        assert!(thinks("anthropic", "extra = { thinking = { type = 'enabled', budget_tokens = 2000 } }"));
        assert!(!thinks("anthropic", "extra = { thinking = { type = 'disabled' } }"));
        assert!(!thinks("gemini", ""));
        assert!(thinks("gemini", "extra = { generationConfig = { thinkingConfig = { includeThoughts = true } } }"));
    }

    #[test]
    fn scripts_are_relative_to_the_configuration() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/script");
        assert!(made("kind = 'script'\nfile = 'rules.toml'", &folder).is_ok());
        assert!(made("kind = 'script'", &folder).is_ok());
        assert!(made("kind = 'script'\nfile = 'none.toml'", &folder).err().unwrap().contains("none.toml"));
    }

    #[tokio::test]
    async fn each_thread_makes_its_own() {
        let factory = made(&openai(""), Path::new(".")).unwrap();
        let request =
            CallRequest { model: None, system: None, messages: Vec::new(), tools: Vec::new(), index: 0, hidden: false, occasion: None };
        let items: Vec<_> = factory().start(request).collect().await;
        assert_eq!(items[0].as_ref().unwrap_err().kind, CallErrorKind::Unavailable);
    }
}

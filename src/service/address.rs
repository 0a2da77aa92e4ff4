//! Addresses and times of services: checked, each fault named with what is allowed. May not know which service.

use std::time::Duration;

use reqwest::Url;

use super::Wrong;

/// An address that is asked as it is. An error shows `example` of one, and names the key `secret` for what never stands in it.
pub fn address(key: &str, text: &str, example: &str, secret: &str) -> Result<Url, Wrong> {
    let url = parsed(key, text, example, secret)?;
    if url.fragment().is_some() { Err(fault(key, "has no # in it", example)) } else { Ok(url) }
}

/// An address below which everything is.
pub fn base(key: &str, text: &str, example: &str, secret: &str) -> Result<Url, Wrong> {
    let url = parsed(key, text.trim_end_matches('/'), example, secret)?;
    if url.query().is_some() || url.fragment().is_some() { Err(fault(key, "has no ? and no # in it", example)) } else { Ok(url) }
}

fn parsed(key: &str, text: &str, example: &str, secret: &str) -> Result<Url, Wrong> {
    let fault = |message: &str| fault(key, message, example);
    let url = Url::parse(text).map_err(|error| fault(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(fault("begins with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(fault(&format!("has no user and no password in it; the key is `{secret}`")));
    }
    Ok(url)
}

fn fault(key: &str, message: &str, example: &str) -> Wrong {
    Wrong::new(key, format!("{message}; it looks like \"{example}\""))
}

/// A time that something may take.
pub fn seconds(key: &str, seconds: u64) -> Result<Duration, Wrong> {
    match seconds {
        1..=86_400 => Ok(Duration::from_secs(seconds)),
        _ => Err(Wrong::new(key, format!("is {seconds}; 1 to 86400 are allowed"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked() {
        let fault = |text: &str| base("url", text, "https://x.y", "secret").unwrap_err().to_string();
        for good in ["http://127.0.0.1:1/a", "https://agents.example.com/decide", "http://[::1]:80"] {
            assert!(address("url", good, "", "secret").is_ok() && base("url", good, "", "secret").is_ok(), "{good}");
        }
        assert!(address("url", "https://x.y/decide?team=a", "", "secret").is_ok());
        assert_eq!(fault("https://x.y/decide?team=a"), "url: has no ? and no # in it; it looks like \"https://x.y\"");
        assert_eq!(fault("ftp://x.y"), "url: begins with http:// or https://; it looks like \"https://x.y\"");
        assert!(fault("https://me:pass@x.y").starts_with("url: has no user and no password in it; the key is `secret`"));
        assert!(fault("x.y").starts_with("url: "));
        assert!(address("url", "https://x.y/#top", "https://x.y", "secret").is_err());
        assert_eq!(seconds("connect_secs", 10), Ok(Duration::from_secs(10)));
        assert_eq!(seconds("connect_secs", 0).unwrap_err().to_string(), "connect_secs: is 0; 1 to 86400 are allowed");
    }
}

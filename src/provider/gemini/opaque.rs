//! What goes back to the service as it came: thought signatures, and the names that it gave to calls itself. A reply keeps them
//! with the part that they came with. May not know how a reply is kept.

use serde::{Deserialize, Serialize};

/// What came with a part.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Marks {
    /// Of a call: its name with the service, if the service gave one. A session may call it otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its thought signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Of text: the signature came with so many bytes at its end. What stands before came without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<usize>,
}

impl Marks {
    /// In one text; nothing when nothing came.
    pub fn written(&self) -> Option<String> {
        if *self == Self::default() { None } else { serde_json::to_string(self).ok() }
    }

    /// Reads what [`written`](Self::written) wrote.
    pub fn read(written: Option<&str>) -> Self {
        written.and_then(|written| serde_json::from_str(written).ok()).unwrap_or_default()
    }

    /// Of text: where its signed end begins.
    pub fn signed_from(&self, text: &str) -> usize {
        let from = text.len().saturating_sub(self.last.unwrap_or(text.len()));
        if text.is_char_boundary(from) { from } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_back_as_they_were() {
        for (id, signature, last) in [(None, Some("c2ln"), Some(0)), (Some("f-1"), None, None), (Some("f\"1"), Some("c2ln"), None)] {
            let marks = Marks { id: id.map(str::to_owned), signature: signature.map(str::to_owned), last };
            assert_eq!(Marks::read(marks.written().as_deref()), marks);
        }
        assert_eq!(Marks::default().written(), None);
        assert_eq!(Marks::read(Some("no marks")), Marks::default());
        assert_eq!(Marks::read(None), Marks::default());
    }

    #[test]
    fn the_signed_end_is_found() {
        let from = |last, text: &str| Marks { last, ..Marks::default() }.signed_from(text);
        assert_eq!([from(Some(0), "ab"), from(Some(1), "ab"), from(Some(2), "ab"), from(None, "ab")], [2, 1, 0, 0]);
        assert_eq!([from(Some(9), "ab"), from(Some(1), "ż")], [0, 0], "what can't be is the whole text");
    }
}

//! The count of the text and the media that a model reads of a request. It is made as the body is
//! passed over.

use super::media::Medium;
use crate::front::named::Finder;
use crate::neutral::usage;
use crate::wire::json::{self, Cursor, Kind, ScanResult};

/// The sums over a body.
#[derive(Default)]
pub(crate) struct ReadTotals {
    /// UTF-8 bytes of text.
    pub(crate) text: usize,
    /// Bytes of everything else that a model reads.
    pub(crate) other_bytes: usize,
    /// Bytes of base64 that are left out.
    base64: usize,
    /// Tokens that media stand for.
    pub(crate) tokens: usize,
    /// True if the body may refer to something that it does not hold.
    pub(crate) may_refer: bool,
    /// True if a thought may stand in the body.
    pub(crate) has_thoughts: bool,
    /// The things that are named outside the conversation.
    pub(crate) named: Finder,
}

impl ReadTotals {
    /// The longest setting. A longer value may be a text that some upstream reads.
    const MAX_SETTING_BYTES: usize = 64;

    /// Consumes any value, and counts it if it is a text.
    pub(crate) fn count_text(&mut self, cursor: &mut Cursor<'_>) -> ScanResult<()> {
        if cursor.kind()? != Kind::String {
            return self.count_other(cursor);
        }
        self.text += cursor.text_len()?;
        Ok(())
    }

    /// Consumes a value that a model may read or not.
    pub(crate) fn count_other(&mut self, cursor: &mut Cursor<'_>) -> ScanResult<()> {
        let bytes = cursor.value()?.len();
        if bytes > Self::MAX_SETTING_BYTES {
            self.other_bytes += bytes;
        }
        Ok(())
    }

    /// Consumes a field outside the conversation, and finds the things that it names.
    pub(crate) fn count_setting(&mut self, cursor: &mut Cursor<'_>, name: &[u8]) -> ScanResult<()> {
        let start = cursor.offset();
        self.named.field(cursor, name)?;
        let bytes = cursor.offset().saturating_sub(start);
        if bytes > Self::MAX_SETTING_BYTES {
            self.other_bytes += bytes;
        }
        Ok(())
    }

    /// Consumes tools, and finds the things that they name.
    pub(crate) fn count_tools(&mut self, cursor: &mut Cursor<'_>) -> ScanResult<()> {
        let start = cursor.offset();
        self.named.field(cursor, b"tools")?;
        self.other_bytes += cursor.offset().saturating_sub(start);
        Ok(())
    }

    /// Counts a medium by its kind and size.
    pub(crate) fn count_medium(&mut self, medium: Medium) {
        self.base64 += medium.base64;
        self.tokens = self
            .tokens
            .saturating_add(usize::try_from(medium.tokens).unwrap_or(usize::MAX));
    }

    /// Returns the largest estimate of the tokens in a body of so many bytes.
    pub(crate) fn max_tokens(&self, bytes: usize) -> u64 {
        let number = |size: usize| u64::try_from(size).unwrap_or(u64::MAX);
        usage::estimate_tokens(number(bytes.saturating_sub(self.base64)))
            .saturating_add(number(self.tokens))
    }
}

/// Consumes any value, member by member if it is an object.
pub(crate) fn each_member<'a>(
    cursor: &mut Cursor<'a>,
    totals: &mut ReadTotals,
    mut each: impl FnMut(&mut Cursor<'a>, &[u8], &mut ReadTotals) -> ScanResult<()>,
) -> ScanResult<()> {
    if cursor.kind()? != Kind::Object {
        return totals.count_other(cursor);
    }
    cursor.object(|cursor, key| {
        let name = json::name_of(cursor.text(), &key);
        each(cursor, &name, totals)
    })?;
    Ok(())
}

/// Consumes a message, member by member. Returns whether its role is the user's.
pub(crate) fn each_message_member<'a>(
    cursor: &mut Cursor<'a>,
    totals: &mut ReadTotals,
    mut each: impl FnMut(&mut Cursor<'a>, &[u8], &mut ReadTotals) -> ScanResult<()>,
) -> ScanResult<bool> {
    let mut is_users = false;
    each_member(cursor, totals, |cursor, name, totals| {
        if name != b"role" {
            return each(cursor, name, totals);
        }
        let role = cursor.value()?;
        is_users = json::span_bytes(cursor.text(), &role) == br#""user""#;
        Ok(())
    })?;
    Ok(is_users)
}

/// Consumes any value, element by element if it is an array.
pub(crate) fn each_element<'a>(
    cursor: &mut Cursor<'a>,
    totals: &mut ReadTotals,
    mut each: impl FnMut(&mut Cursor<'a>, &mut ReadTotals) -> ScanResult<()>,
) -> ScanResult<()> {
    if cursor.kind()? != Kind::Array {
        return totals.count_other(cursor);
    }
    cursor.array(|cursor, _| each(cursor, totals))?;
    Ok(())
}

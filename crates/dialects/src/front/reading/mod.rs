//! The reading of bodies that front doors share: values with their places, counts of the text and
//! the media that a model reads.

pub(in crate::front) mod choice;
pub(in crate::front) mod count;
pub(in crate::front) mod media;
pub(in crate::front) mod others;
pub(in crate::front) mod scan;
pub(in crate::front) mod url;
pub(in crate::front) mod value;

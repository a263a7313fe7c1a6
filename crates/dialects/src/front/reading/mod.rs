//! The reading of bodies that front doors share: values with their places, counts of the text and
//! the media that a model reads.

pub(crate) mod choice;
pub(crate) mod count;
pub(crate) mod media;
pub(crate) mod others;
pub(crate) mod scan;
pub(crate) mod url;
pub(crate) mod value;

//! What the front doors share to read a body: values with their places, counts of what a model
//! reads, and media.

pub(in crate::front) mod choice;
pub(in crate::front) mod count;
pub(in crate::front) mod media;
pub(in crate::front) mod others;
pub(in crate::front) mod scan;
pub(in crate::front) mod url;
pub(in crate::front) mod value;

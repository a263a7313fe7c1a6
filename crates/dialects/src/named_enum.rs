//! [`named_enum`](crate::named_enum) makes an enum out of one table of variants and their names.

/// Makes an enum, the list of its variants, and the name of each, for readers outside of the
/// program.
///
/// Serde's and schemars' traits stand after the enum's name, as in `enum Color: Serialize`. They
/// use the same names.
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$about:meta])*
        $vis:vis enum $name:ident { $($(#[$meaning:meta])* $variant:ident = $word:literal,)+ }
    ) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $(#[$about])*
        $vis enum $name { $($(#[$meaning])* $variant,)+ }

        $crate::named_enum!(@names $vis $name $($variant $word)+);
    };
    (
        $(#[$about:meta])*
        $vis:vis enum $name:ident: $($form:path),+ {
            $($(#[$meaning:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, $($form),+)]
        $(#[$about])*
        $vis enum $name { $($(#[$meaning])* #[serde(rename = $word)] $variant,)+ }

        $crate::named_enum!(@names $vis $name $($variant $word)+);
    };
    (@names $vis:vis $name:ident $($variant:ident $word:literal)+) => {
        #[allow(dead_code, reason = "some enums are only listed, and some are only named")]
        impl $name {
            /// All variants, in their order.
            $vis const ALL: [$name; [$($word),+].len()] = [$($name::$variant),+];

            /// The names of all variants, in their order.
            $vis const NAMES: [&'static str; $name::ALL.len()] = [$($word),+];

            /// Returns the variant's name for readers outside of the program.
            $vis const fn name(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }
    };
}

//! What the values that reads return can do: they are used like their bytes.

/// Implements, for a type that dereferences to its bytes: `to_vec`, `AsRef<[u8]>`, `Debug`,
/// equality with everything that has bytes, and the conversion into a vector.
///
/// ```
/// struct Value(&'static str);
///
/// impl std::ops::Deref for Value {
///     type Target = [u8];
///     fn deref(&self) -> &[u8] {
///         self.0.as_bytes()
///     }
/// }
/// evendb_base::value_bytes!(Value);
///
/// assert_eq!(Value("v\n"), "v\n");
/// assert_eq!(Value("v").to_vec(), b"v");
/// assert_eq!(format!("{:?}", Value("v\n")), r#"b"v\n""#);
/// assert_eq!(Vec::from(Value("v")), b"v");
/// ```
#[macro_export]
macro_rules! value_bytes {
    ($Value:ident) => {
        impl $Value {
            /// A copy of the bytes.
            pub fn to_vec(&self) -> Vec<u8> {
                (**self).to_vec()
            }
        }

        impl AsRef<[u8]> for $Value {
            fn as_ref(&self) -> &[u8] {
                self
            }
        }

        impl std::fmt::Debug for $Value {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "b\"{}\"", self.escape_ascii())
            }
        }

        impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for $Value {
            fn eq(&self, other: &T) -> bool {
                **self == *other.as_ref()
            }
        }

        impl Eq for $Value {}

        impl From<$Value> for Vec<u8> {
            fn from(value: $Value) -> Vec<u8> {
                value.to_vec()
            }
        }
    };
}

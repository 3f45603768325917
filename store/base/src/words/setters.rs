//! Setters of options: each says only its name and its argument, because all of them do the same.

/// Makes the setters of a type of options. A setter replaces the field of its own name, by its
/// argument or by the expression behind `=>`, and returns the options.
///
/// ```
/// #[derive(Default, PartialEq, Debug)]
/// struct Options {
///     threads: usize,
///     bytes: Option<u64>,
/// }
///
/// evendb_base::setters! {
/// impl Options {
///     /// The number of threads.
///     pub fn threads(mut self, threads: usize);
///
///     /// Bytes; not set by default.
///     pub fn bytes(mut self, bytes: u64) => Some(bytes);
/// }
/// }
///
/// let options = Options::default().threads(2).bytes(7);
/// assert_eq!(options, Options { threads: 2, bytes: Some(7) });
/// ```
#[macro_export]
macro_rules! setters {
    (impl $Options:ident { $(
        $(#[$about:meta])*
        pub fn $name:ident(mut $options:ident, $value:ident: $Type:ty) $(=> $of:expr)?;
    )* }) => {
        impl $Options { $(
            $(#[$about])*
            pub fn $name(mut $options, $value: $Type) -> Self {
                $options.$name = $crate::setters!(@ $value $(, $of)?);
                $options
            }
        )* }
    };
    (@ $value:ident) => { $value };
    (@ $value:ident, $of:expr) => { $of };
}

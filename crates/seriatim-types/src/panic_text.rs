use std::any::Any;

/// The message of a caught panic: the text of `panic!`, or "no message".
///
/// ```
/// let caught = std::panic::catch_unwind(|| panic!("out of {}", "tea")).unwrap_err();
/// assert_eq!(seriatim_types::panic_text(&*caught), "out of tea");
/// let caught = std::panic::catch_unwind(|| std::panic::panic_any(7)).unwrap_err();
/// assert_eq!(seriatim_types::panic_text(&*caught), "no message");
/// ```
#[must_use]
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

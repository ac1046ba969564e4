//! The tokenizers library, kept from panicking through.
//!
//! It trusts `tokenizer.json` in places: a template that names a token without an id, or a decoder that strips more
//! than a token has, panics when a text is encoded or decoded. Damaged files must be errors, so its calls go through
//! here.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls the library; both its errors and its panics become a message.
pub(super) fn call<T>(call: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    // A tokenizer is not changed by its use but for caches, which it gives up on when they are poisoned.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(panic) => Err(format!("tokenizer.json contradicts itself ({})", message(panic.as_ref()))),
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::call;

    #[test]
    fn errors_and_panics_become_messages() {
        assert_eq!(call(|| Ok(1)), Ok(1));
        assert_eq!(call::<u8>(|| Err("wrong".into())), Err("wrong".to_owned()));
        let caught = call::<u8>(|| panic!("token {} is missing", 7));
        assert!(caught.is_err_and(|message| message.contains("token 7 is missing")));
    }
}

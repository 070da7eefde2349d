//! Errors on their way to JavaScript: the fields of the command line's `--json` object, as text.

use std::any::Any;

use tenure::status::Holder;
use tenure::{Error, ErrorKind, Value, json};

/// An error that `lib/errors.cjs` makes a `TenureError` of, or a `JournalGapError`.
#[expect(clippy::needless_pass_by_value, reason = "made for `map_err`")]
pub(crate) fn to_js(error: Error) -> napi::Error {
    let path = error.path().map(|path| path.to_string_lossy().into_owned());
    let holder = error.holder().filter(|holder| holder.pid != 0).map(Holder::to_json);
    raise(&json!({
        "code": error.kind().code(),
        "message": error.to_string(),
        "action": error.action(),
        "path": path,
        "holder": holder,
        "hint": error.next_step(),
        "committed": error.is_committed(),
        "gap": error.gap().map(|(first, last)| json!({ "first": first, "last": last })),
    }))
}

/// A panic is a bug of ours; node must survive it.
pub(crate) fn panicked(payload: &(dyn Any + Send)) -> napi::Error {
    let words = payload.downcast_ref::<&str>().copied();
    let words = words.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message = format!("internal error in tenure: {}", words.unwrap_or("no message"));
    raise(&json!({ "code": "internal", "message": message }))
}

/// The caller used a number, name or handle wrongly.
pub(crate) fn invalid(action: &'static str, detail: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, action, detail)
}

fn raise(fields: &Value) -> napi::Error {
    napi::Error::from_reason(fields.to_string())
}
